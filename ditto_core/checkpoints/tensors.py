"""Reading tensors from untrusted files: nothing is executed, and sizes are checked before memory is taken."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import CheckpointError
from .pickles import imports

MAX_FILE_BYTES = 2 << 30
"""Largest file of weights that is opened; the official ones have up to 222 MB."""
MAX_PICKLE_BYTES = 8 << 20
"""Largest table of contents inside a .pth file."""
MAX_HEADER_BYTES = 8 << 20
"""Largest header of a .safetensors file."""
MAX_TENSORS = 10_000
MAX_DIMENSIONS = 8
MAX_ELEMENTS = 1 << 26
"""Most numbers in one tensor; the official networks have up to 14 million."""

_TENSOR_IMPORTS = {
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    *(f"torch.{kind}Storage" for kind in ("Half", "BFloat16", "Float", "Double", "Int", "Long", "Byte", "Bool")),
}
_RESAVE = "save it again as a plain state dict, or download it again from the official source"


def read_tensors(path: str | Path) -> dict[str, Any]:
    """The contents of a .safetensors or .pth file.

    Args:
        path: the file; its ending decides how it is read.

    Returns:
        For .safetensors, names and CPU tensors. For .pth, the dictionary that was saved; it may be nested, and its
        tensors are mapped from the file.

    Raises:
        CheckpointError: the file is missing, too large, damaged, or holds anything but plain data and tensors.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(path, "no such file", remedy="check the path, or run `models check` on the folder")
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise CheckpointError(path, f"{size} bytes, at most {MAX_FILE_BYTES} are read", remedy=_RESAVE)
    return _read_safetensors(path, size) if path.suffix == ".safetensors" else _read_pth(path)


def check_tensor(path: Path, name: str, shape: tuple[int, ...]) -> None:
    """Refuses a tensor over the limits.

    Raises:
        CheckpointError: too many dimensions or numbers.
    """
    elements = 1
    for n in shape:
        elements *= n
    if len(shape) > MAX_DIMENSIONS or elements > MAX_ELEMENTS:
        raise CheckpointError(
            path,
            f"tensor '{name}' has shape {list(shape)}; at most {MAX_DIMENSIONS} dimensions and {MAX_ELEMENTS} numbers "
            "are read",
            remedy=_RESAVE,
        )


def _read_safetensors(path: Path, size: int) -> dict[str, Any]:
    with path.open("rb") as file:
        prefix = file.read(8)
    header = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else None
    if header is None or header > min(MAX_HEADER_BYTES, size - 8):
        raise CheckpointError(path, "not a whole safetensors file", remedy=_RESAVE)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            names = list(file.keys())
            if len(names) > MAX_TENSORS:
                raise CheckpointError(path, f"{len(names)} tensors, at most {MAX_TENSORS}", remedy=_RESAVE)
            for name in names:
                check_tensor(path, name, tuple(file.get_slice(name).get_shape()))
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(path, f"not a valid safetensors file ({error})", remedy=_RESAVE) from error


def _read_pth(path: Path) -> dict[str, Any]:
    _check_archive(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(path, f"can't be read as weights ({reason})", remedy=_RESAVE) from error
    if not isinstance(content, Mapping):
        raise CheckpointError(path, f"holds a {type(content).__name__}, not a dictionary of tensors", remedy=_RESAVE)
    return dict(content)


def _check_archive(path: Path) -> None:
    """A .pth file is a zip archive of stored members, one of them the pickle that lists the tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_TENSORS or any(m.compress_type != zipfile.ZIP_STORED for m in members):
                raise CheckpointError(path, "an archive that torch.save did not write", remedy=_RESAVE)
            tables = [m for m in members if m.filename.rpartition("/")[2] == "data.pkl"]
            if len(tables) != 1 or tables[0].file_size > MAX_PICKLE_BYTES:
                raise CheckpointError(
                    path, f"not one table of contents of at most {MAX_PICKLE_BYTES} bytes", remedy=_RESAVE
                )
            found = imports(archive.read(tables[0]))
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError) as error:
        raise CheckpointError(
            path, f"damaged, or not a .pth file of PyTorch 1.6 or later ({error})", remedy=_RESAVE
        ) from error
    refused = sorted(found - _TENSOR_IMPORTS)
    if refused:
        raise CheckpointError(
            path, f"wants to import {', '.join(refused)}, which weights do not need; nothing was run", remedy=_RESAVE
        )


def tensors_only(path: Path, content: Mapping[str, Any]) -> dict[str, Tensor]:
    """The mapping, if all its values are plain dense tensors within the limits.

    Raises:
        CheckpointError: a key is no text, a value no such tensor.
    """
    if len(content) > MAX_TENSORS:
        raise CheckpointError(path, f"{len(content)} tensors, at most {MAX_TENSORS}", remedy=_RESAVE)
    tensors: dict[str, Tensor] = {}
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.layout != torch.strided:
            raise CheckpointError(path, f"entry {name!r} is a {type(value).__name__}, not a tensor", remedy=_RESAVE)
        check_tensor(path, name, tuple(value.shape))
        tensors[name] = value
    return tensors

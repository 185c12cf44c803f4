"""Avatar files: safetensors, checked by the header before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..errors import FileError
from ..files import replaced_file
from .sizes import LONGEST_SIDE

FORMAT = "ditto-live avatar"
VERSION = "1"
MAX_FILE_BYTES = 4 << 30
MAX_FRAMES = 3000
"""Most frames of a source video: two minutes at 25 a second, 590 MB of crops."""
MAX_VIDEO_BYTES = 1 << 30
_REMEDY = "register the presenter again"

# name -> type and shape; n frames, h x w pixels, v bytes of video
_COMMON: dict[str, tuple[torch.dtype, tuple[int | str, ...]]] = {
    "crops": (torch.uint8, ("n", 256, 256, 3)),
    "motion.pitch": (torch.float32, ("n", 66)),
    "motion.yaw": (torch.float32, ("n", 66)),
    "motion.roll": (torch.float32, ("n", 66)),
    "motion.t": (torch.float32, ("n", 3)),
    "motion.exp": (torch.float32, ("n", 63)),
    "motion.scale": (torch.float32, ("n", 1)),
    "motion.kp": (torch.float32, ("n", 63)),
    "canonical": (torch.float32, (63,)),
    "eye_open": (torch.float32, ("n", 2)),
    "eye_ball": (torch.float32, ("n", 6)),
    "crop_to_frame": (torch.float32, ("n", 3, 3)),
}
_IMAGE = _COMMON | {"picture": (torch.uint8, ("h", "w", 3))}
_VIDEO = _COMMON | {
    "video": (torch.uint8, ("v",)),
    "video_times": (torch.int64, ("n",)),
    "video_keys": (torch.bool, ("n",)),
}
_LIMITS = {"n": MAX_FRAMES, "h": LONGEST_SIDE, "w": LONGEST_SIDE, "v": MAX_VIDEO_BYTES}
_TYPES = {torch.uint8: "U8", torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}


class AvatarFileError(FileError):
    """An avatar file is missing, damaged, of another kind, or made with other models."""


def write(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Writes an avatar file; an existing one is replaced only when the new one is whole.

    Raises:
        FileError: the folder is missing or not writable, or the disk is full.
    """
    path = Path(path)
    with replaced_file(path) as partial:
        try:
            save_file(
                {name: tensor.contiguous() for name, tensor in tensors.items()},
                partial,
                metadata={"format": FORMAT, "version": VERSION, **metadata},
            )
        except (SafetensorError, OSError) as error:
            raise FileError(path, f"can't be written ({error})", remedy="free space or choose another disk") from error


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Reads an avatar file.

    Returns:
        Tensors of the types, shapes and ranges that an avatar has, and the metadata.

    Raises:
        AvatarFileError: the file is missing, too large, damaged, of another version, or no avatar.
    """
    path = Path(path)
    if not path.is_file():
        raise AvatarFileError(path, "no such file", remedy="check the path")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise AvatarFileError(path, f"larger than {MAX_FILE_BYTES} bytes", remedy=_REMEDY)
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            _check_metadata(path, metadata)
            shapes = {
                name: (file.get_slice(name).get_dtype(), tuple(file.get_slice(name).get_shape()))
                for name in file.keys()
            }
            _check_shapes(path, shapes)
            # copies, so that nothing stays tied to a file that is only mapped
            tensors = {name: file.get_tensor(name).clone() for name in shapes}
    except (SafetensorError, OSError, ValueError) as error:
        raise AvatarFileError(path, f"not a whole avatar file ({error})", remedy=_REMEDY) from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise AvatarFileError(path, f"'{name}' holds numbers that are not finite", remedy=_REMEDY)
    return tensors, metadata


def _check_metadata(path: Path, metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise AvatarFileError(path, "not an avatar file", remedy="choose a saved presenter")
    if metadata.get("version") != VERSION:
        raise AvatarFileError(
            path, f"avatar format {metadata.get('version')}, this version reads {VERSION}", remedy=_REMEDY
        )


def _check_shapes(path: Path, found: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    layout = _IMAGE if "picture" in found else _VIDEO
    if found.keys() != layout.keys():
        differing = ", ".join(sorted(found.keys() ^ layout.keys())[:5])
        raise AvatarFileError(path, f"tensors missing or too many: {differing}", remedy=_REMEDY)
    sizes: dict[str, int] = {}
    for name, (dtype, shape) in layout.items():
        kind, actual = found[name]
        fits = kind == _TYPES[dtype] and len(actual) == len(shape)
        for wanted, size in zip(shape, actual, strict=False):
            if isinstance(wanted, str):
                fits = fits and 1 <= size <= _LIMITS[wanted] and size == sizes.setdefault(wanted, size)
            else:
                fits = fits and size == wanted
        if not fits:
            raise AvatarFileError(
                path, f"'{name}' is {kind} {list(actual)}, not {_TYPES[dtype]} {list(shape)}", remedy=_REMEDY
            )

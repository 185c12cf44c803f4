"""Checking a model folder, and rewriting it as safetensors."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file
from torch import Tensor

from ..errors import CheckpointError
from ..files import new_folder
from .auxiliary import AUXILIARY, find_auxiliary
from .layout import (
    CONFIG_FILE,
    NETWORKS,
    ModelFolder,
    compare,
    empty_network,
    find_models,
    read_network,
    with_condition_size,
)
from .pickles import read_config


@dataclass(frozen=True, kw_only=True)
class FileStatus:
    """One line of a folder's check.

    Attributes:
        part: the network, or what an auxiliary file is for.
        path: the file, or the place where it was looked for.
        state: "found", "missing", "mismatched" or "unusable".
        detail: differences, or what is wrong.
        needed: whether nothing runs without it.
    """

    part: str
    path: Path
    state: str
    detail: str
    needed: bool


def check_folder(folder: str | Path) -> list[FileStatus]:
    """Reads every file of a model folder and says how each fits.

    Args:
        folder: see `find_models`.

    Returns:
        One status a network, then one an auxiliary part.

    Raises:
        CheckpointError: the folder as a whole is none.
    """
    models = find_models(folder)
    statuses = [_network_status(name, models) for name in NETWORKS]
    return statuses + [_auxiliary_status(part, models.root) for part in AUXILIARY]


def _network_status(name: str, models: ModelFolder) -> FileStatus:
    path = models.files[name]
    if not path.is_file():
        return FileStatus(part=name, path=path, state="missing", detail="", needed=True)
    try:
        tensors = read_network(name, path)
        preset = with_condition_size(models.preset, tensors) if name == "lmdm" else models.preset
        report = compare(empty_network(name, preset), tensors)
    except CheckpointError as error:
        return FileStatus(part=name, path=path, state="unusable", detail=str(error), needed=True)
    state = "found" if report.fits else "mismatched"
    numbers = sum(value.numel() for value in tensors.values())
    detail = f"{len(tensors)} tensors, {numbers:,} numbers" if report.fits else str(report)
    return FileStatus(part=name, path=path, state=state, detail=detail, needed=True)


def _auxiliary_status(part: str, root: Path) -> FileStatus:
    path = find_auxiliary(part, root)
    if path is None:
        names = " or ".join(AUXILIARY[part])
        return FileStatus(part=part, path=root, state="missing", detail=f"looked for {names}", needed=False)
    if path.suffix == ".pkl":
        try:
            detail = "holds " + ", ".join(sorted(map(str, read_config(path))))
        except CheckpointError as error:
            return FileStatus(part=part, path=path, state="unusable", detail=str(error), needed=False)
    else:
        detail = f"{path.stat().st_size:,} bytes"
    return FileStatus(part=part, path=path, state="found", detail=detail, needed=False)


def convert_folder(folder: str | Path, out: str | Path) -> Path:
    """Writes a model folder as one .safetensors file a network and a config.json.

    The auxiliary files come along as they are, but for the configuration pickle, which becomes `defaults.json`.

    Args:
        folder: see `find_models`.
        out: a folder that does not exist yet; it appears whole or not at all.

    Returns:
        The written folder.

    Raises:
        CheckpointError: a network is missing, damaged, or does not fit.
        FileError: the target is taken or can't be written.
    """
    models = find_models(folder)
    with new_folder(out) as partial:
        preset, sources = models.preset, {}
        for name in NETWORKS:
            tensors = read_network(name, models.files[name])
            if name == "lmdm":
                preset = with_condition_size(preset, tensors)
            report = compare(empty_network(name, preset), tensors)
            if not report.fits:
                raise CheckpointError(
                    models.files[name], f"does not fit: {report}", remedy="run `models check` on the folder"
                )
            save_file(_separate(tensors), partial / f"{name}.safetensors")
            sources[name] = {"file": models.files[name].name, "sha256": _sha256(models.files[name])}
        config = {"format": 1, "preset": preset.to_json(), "sources": sources}
        (partial / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        for part in AUXILIARY:
            _bring_along(find_auxiliary(part, models.root), partial)
    return Path(out)


def _bring_along(path: Path | None, folder: Path) -> None:
    if path is None:
        return
    if path.suffix == ".pkl":
        defaults = json.dumps(_to_json(read_config(path)), indent=1)
        (folder / "defaults.json").write_text(defaults + "\n", encoding="utf-8")
    elif path.name == CONFIG_FILE:  # a speech encoder's, which is a folder of two files
        (folder / path.parent.name).mkdir()
        for name in (CONFIG_FILE, "model.safetensors"):
            shutil.copyfile(path.parent / name, folder / path.parent.name / name)
    else:
        shutil.copyfile(path, folder / path.name)


def _separate(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies, since safetensors refuses tensors that share memory (the rotary tables may)."""
    return {key: value.detach().clone().contiguous() for key, value in tensors.items()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        for block in _blocks(file):
            digest.update(block)
    return digest.hexdigest()


def _blocks(file: Any) -> Iterator[bytes]:
    while block := file.read(1 << 20):
        yield block


def _to_json(value: Any) -> Any:
    """Plain data as JSON; an array becomes its type, shape and numbers."""
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value

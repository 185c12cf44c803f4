"""Names of files that come from a prompt, and so from anybody: they stay below a folder, or are refused."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path, PureWindowsPath

from ..ditto_core.errors import InvalidValueError

_LONGEST_NAME = 500
_LONGEST_PART = 200
"""Bytes; file systems allow 255, and numbers and endings are still to come."""


def inside(folder: str | Path, name: str) -> Path:
    """The path of a name below a folder, with all links resolved. It need not exist.

    Args:
        folder: where the name has to lie; may itself be a link.
        name: relative, with parts joined by /.

    Raises:
        InvalidValueError: the name is empty, too long, absolute, or leads out of the folder, by `..` or by a link.
    """
    if not isinstance(name, str):
        raise _outside(repr(name))
    parts = Path(name).parts
    if any(len(os.fsencode(part)) > _LONGEST_PART for part in parts):
        raise InvalidValueError(
            f"file name {name[:_LONGEST_NAME]!r}", remedy=f"use at most {_LONGEST_PART} bytes for each file and folder"
        )
    if not name.strip() or len(name) > _LONGEST_NAME or "\0" in name or Path(name).is_absolute() or ".." in parts:
        raise _outside(name)
    if "\\" in name or PureWindowsPath(name).drive:  # refused on every system alike
        raise _outside(name)
    base = Path(folder).resolve()
    try:
        path = (base / name).resolve()
    except (OSError, RuntimeError):  # links in a circle
        raise _outside(name) from None
    if path == base or not path.is_relative_to(base):
        raise _outside(name)
    return path


def existing(folder: str | Path, name: str) -> Path:
    """As `inside`, for a file or folder that has to be there.

    Raises:
        InvalidValueError: see `inside`; or there is no such file.
    """
    path = inside(folder, name)
    if not path.exists():
        raise InvalidValueError(f"no file {name!r}", remedy="check the name, or upload the file first")
    return path


def state(paths: Iterable[Path]) -> str:
    """What changes when one of these files, or a file in one of these folders, does."""
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                found = file.stat()
                digest.update(f"{file}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _outside(name: str) -> InvalidValueError:
    return InvalidValueError(
        f"file name {name[:_LONGEST_NAME]!r}",
        remedy="name a file below ComfyUI's folder, without .., drive, backslash, or a link that leads out",
    )

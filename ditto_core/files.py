"""Writing files so that nothing half-written ever stands under its final name."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import FileError


@contextlib.contextmanager
def replaced_file(path: str | Path) -> Iterator[Path]:
    """A file beside `path` to write to; renamed to `path` on success, removed on any error.

    Args:
        path: the final name; an existing file is replaced.

    Yields:
        A name in the same folder with the same ending.

    Raises:
        FileError: the folder is missing or not writable.
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A folder beside `path` to fill; renamed to `path` on success, removed on any error.

    Args:
        path: the final name; it must not exist yet, or be an empty folder.

    Yields:
        A folder with another name in the same parent.

    Raises:
        FileError: the name is taken, or the parent is missing or not writable.
    """
    path = Path(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileError(path, "exists already", remedy="choose a folder that does not exist or is empty")
    try:
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        yield partial
        partial.chmod(0o777 & ~_umask())
        partial.replace(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unwritable(path: Path, error: OSError) -> FileError:
    reason = error.strerror or str(error)
    return FileError(path, f"can't be written ({reason})", remedy="choose a folder that exists and is writable")


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current

"""Writing files so that nothing half-written ever stands under its final name."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import FileError


@contextlib.contextmanager
def replaced_file(path: str | Path) -> Iterator[Path]:
    """A file beside `path` to write to; renamed to `path` on success, removed on any error.

    Args:
        path: the final name; an existing file is replaced, and a link is followed to the file that it names.

    Yields:
        A name in the same folder with the same ending.

    Raises:
        FileError: the name is a folder's, a device's or a pipe's; or its folder is missing or not writable.
    """
    path = Path(path)
    with _named(path):
        final = _replaceable(path)
        handle, name = tempfile.mkstemp(prefix=f".{final.stem}-", suffix=final.suffix, dir=final.parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with _named(path):
            partial.chmod(0o666 & ~_umask())
            partial.replace(final)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: str | Path, data: bytes) -> None:
    """Writes a file, whole or not at all; see `replaced_file`.

    Raises:
        FileError: it can't be written, be it that the disk is full.
    """
    with replaced_file(path) as partial, _named(Path(path)):
        partial.write_bytes(data)


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
    with _named(path):
        final = Path(os.path.realpath(path))
        if final.exists() and not (final.is_dir() and not any(final.iterdir())):
            raise FileError(path, "exists already", remedy="choose a folder that does not exist or is empty")
        partial = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        yield partial
        with _named(path):
            partial.chmod(0o777 & ~_umask())
            partial.replace(final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replaceable(path: Path) -> Path:
    """The file that a name leads to, which is a regular one or none yet."""
    final = Path(os.path.realpath(path))
    with contextlib.suppress(FileNotFoundError):
        mode = final.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "it is a folder" if stat.S_ISDIR(mode) else "it is no regular file"
            raise FileError(path, f"can't be written ({what})", remedy="choose the name of a file")
    return final


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Gives the operating system's errors within it the name that the user gave."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(
            path, f"can't be written ({reason})", remedy="choose a folder that exists, is writable and has room"
        ) from error


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current

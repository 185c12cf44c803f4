"""Engines on disk: an engine file, and beside it a side file without which nothing loads.

The side file holds the engine's key, size and SHA-256, as the builder wrote them. It tells a foreign, old, truncated or
damaged engine before a library sees a byte of it. It is no signature: who can write to the folder can write both files.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from ...errors import FileError, InvalidValueError
from ...files import write_whole
from .spec import BUILD_IT, EngineError, EngineKey

ENDING = ".engine"
LARGEST_ENGINE = 4 * 2**30

_FORMAT = "ditto-live engine 1"
_LARGEST_SIDE_FILE = 100_000
_LOCK_POLL_S = 0.2
_SHA256 = re.compile(r"[0-9a-f]{64}")


class EngineFileError(FileError, EngineError):
    """An engine on disk can't be used; `problem` says by what it differs."""


@dataclass(frozen=True, kw_only=True)
class SideFile:
    """What stands beside an engine.

    Attributes:
        key: what the engine fits.
        sha256: of the engine file.
        size: of the engine file in bytes.
        graph_sha256: of the ONNX graph from which it was built.
        built: day of the build.
        network: what the library said of the parsed graph: how many layers of which kind and type.
    """

    key: EngineKey
    sha256: str
    size: int
    graph_sha256: str
    built: str
    network: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The side file's content."""
        return {
            "format": _FORMAT,
            "key": self.key.to_json(),
            "sha256": self.sha256,
            "size": self.size,
            "graph_sha256": self.graph_sha256,
            "built": self.built,
            "network": dict(self.network),
        }


def side_path(engine: Path) -> Path:
    """Where an engine's side file is."""
    return engine.with_suffix(".json")


def write_engine(
    engine: Path, data: bytes, key: EngineKey, *, graph_sha256: str, network: Mapping[str, int]
) -> SideFile:
    """Writes an engine, then its side file, each whole or not at all.

    Raises:
        FileError: the folder is not writable.
    """
    side = SideFile(
        key=key,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        graph_sha256=graph_sha256,
        built=datetime.date.today().isoformat(),
        network=network,
    )
    write_own(engine, data)
    write_json(side_path(engine), side.to_json())
    return side


def read_side(engine: Path) -> SideFile:
    """The side file of an engine, checked.

    Raises:
        EngineFileError: it is missing, damaged, or leads out of its folder.
    """
    side = side_path(engine)
    if not engine.exists() and not side.exists():
        raise EngineFileError(engine, "no such file", remedy=BUILD_IT)
    if not side.is_file():
        raise EngineFileError(engine, f"has no side file {side.name}", remedy=BUILD_IT)
    values = read_json(side)
    try:
        if values.pop("format", None) != _FORMAT:
            raise InvalidValueError("another format", remedy=BUILD_IT)
        read = SideFile(**{**values, "key": EngineKey.from_json(values["key"])})
        _ = read.key.spec  # refuses words that are none; the flavour names a module to import
        if not _SHA256.fullmatch(read.sha256) or not _SHA256.fullmatch(read.graph_sha256):
            raise InvalidValueError("no SHA-256", remedy=BUILD_IT)
        if type(read.size) is not int or not 0 < read.size <= LARGEST_ENGINE:
            raise InvalidValueError(f"size {read.size!r:.30}", remedy=BUILD_IT)
        if not isinstance(read.built, str) or not isinstance(read.network, dict):
            raise InvalidValueError("fields of another kind", remedy=BUILD_IT)
    except (InvalidValueError, TypeError, KeyError, AttributeError) as error:
        raise EngineFileError(side, f"is no side file of an engine ({error})", remedy=BUILD_IT) from error
    return read


def read_engine(engine: Path, *, wanted: EngineKey) -> tuple[bytes, SideFile]:
    """An engine that fits a key, whole and as it was written.

    Raises:
        EngineFileError: there is none, or it is foreign, old, truncated or damaged.
    """
    side = read_side(engine)
    difference = side.key.difference(wanted)
    if difference:
        raise EngineFileError(engine, difference, remedy=BUILD_IT)
    if not engine.is_file():
        raise EngineFileError(engine, "is no file", remedy=BUILD_IT)
    if engine.resolve().parent != engine.parent.resolve():
        raise EngineFileError(engine, "leads out of its folder", remedy=BUILD_IT)
    versions = f"made by {side.key.flavour} {side.key.version}, and {wanted.flavour} {wanted.version} is loaded"
    if engine.stat().st_size != side.size:
        raise EngineFileError(engine, f"has {engine.stat().st_size} bytes of {side.size} ({versions})", remedy=BUILD_IT)
    data = engine.read_bytes()
    if hashlib.sha256(data).hexdigest() != side.sha256:
        raise EngineFileError(engine, f"is damaged: its SHA-256 is not its side file's ({versions})", remedy=BUILD_IT)
    return data, side


@contextlib.contextmanager
def locked(engine: Path, check_cancelled: Callable[[], None] | None = None) -> Iterator[None]:
    """Holds an engine's lock, which only one process or thread has at a time.

    Args:
        engine: the engine's path.
        check_cancelled: raises to stop waiting.

    Raises:
        FileError: the folder can't be made or is not writable.
    """
    try:
        engine.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(engine.with_suffix(".lock"), thread_local=False)
        while True:
            try:
                lock.acquire(timeout=_LOCK_POLL_S)
                break
            except filelock.Timeout:
                if check_cancelled is not None:
                    check_cancelled()
    except OSError as error:
        raise FileError(
            engine.parent, f"can't be written ({error.strerror})", remedy="choose a folder that is writable"
        ) from error
    try:
        yield
    finally:
        lock.release()


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Writes a small JSON file, whole or not at all; see `write_own`."""
    write_own(path, (json.dumps(values, indent=1) + "\n").encode())


def write_own(path: Path, data: bytes) -> None:
    """Writes a file of the engine folder, whole or not at all, in the place of a link too: no link is ever read.

    Raises:
        FileError: it can't be written.
    """
    try:
        if path.is_symlink():
            path.unlink()
    except OSError as error:
        raise FileError(path, f"can't be written ({error.strerror})", remedy="remove the link") from error
    write_whole(path, data)


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON file with one object in it.

    Raises:
        EngineFileError: it is too large, leads out of its folder, or is none.
    """
    if path.resolve().parent != path.parent.resolve():
        raise EngineFileError(path, "leads out of its folder", remedy=BUILD_IT)
    try:
        if path.stat().st_size > _LARGEST_SIDE_FILE:
            raise ValueError(f"more than {_LARGEST_SIDE_FILE} bytes")
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("no object")
    except (OSError, ValueError, RecursionError) as error:
        raise EngineFileError(path, f"is no readable JSON file ({error})", remedy=BUILD_IT) from error
    return values

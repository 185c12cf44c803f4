"""The manifest of a bulletin: one JSON line for each step, appended and synced before anything follows from it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from .errors import ManifestError
from .states import Output, Progress, ResultFile, State, Step

FORMAT = 1
_MOST_BYTES = 1 << 28
_KEEP = "keep it for the record and name another manifest, or another output folder"


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a manifest says.

    Attributes:
        bulletin: the identity of the bulletin; empty in an empty manifest.
        segments: key of each segment to its progress.
        whole: bytes up to the end of the last whole line; a crash may have torn what follows.
    """

    bulletin: str = ""
    segments: Mapping[str, Progress] = field(default_factory=dict)
    whole: int = 0


def replay(data: bytes) -> Record:
    """Reads the lines of a manifest; a torn last line is left out.

    Raises:
        ValueError: a whole line is no step of a manifest, or not one that may follow; says which.
    """
    whole = data.rfind(b"\n") + 1
    bulletin = ""
    segments: dict[str, Progress] = {}
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], 1):
        try:
            entry = json.loads(line)
            if number == 1:
                if entry["format"] != FORMAT:
                    raise ValueError(f"format {entry['format']!r}, where this version writes {FORMAT}")
                bulletin = str(entry["bulletin"])
            else:
                key, step = _step(entry)
                segments[key] = segments.get(key, Progress()).after(step)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"line {number} is no line of a manifest ({error})") from error
    return Record(bulletin=bulletin, segments=segments, whole=whole)


class Manifest:
    """A manifest that is open for one process at a time; made by `open_manifest`.

    Attributes:
        bulletin: the identity of the bulletin.
        segments: key of each segment to its progress when the manifest was opened.
    """

    def __init__(self, file: IO[bytes], record: Record, now: Callable[[], float]) -> None:
        self._file = file
        self._now = now
        self.segments = record.segments
        self.bulletin = record.bulletin or uuid.uuid4().hex
        if not record.bulletin:
            self._append({"format": FORMAT, "bulletin": self.bulletin})

    def record(self, key: str, name: str, step: Step) -> None:
        """Appends a step; when this returns, it is on the disk."""
        told = {name: value for name, value in asdict(step).items() if value}
        self._append({"segment": key, "name": name, **told})

    def _append(self, entry: dict[str, Any]) -> None:
        moment = datetime.fromtimestamp(self._now(), timezone.utc).isoformat(timespec="milliseconds")
        self._file.write(json.dumps({**entry, "at": moment}).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


@contextlib.contextmanager
def open_manifest(path: Path, *, now: Callable[[], float] = time.time) -> Iterator[Manifest]:
    """Opens a manifest to go on with it, or begins one.

    Args:
        path: the file; it is locked while open.
        now: the time for the record, in seconds since 1970.

    Raises:
        ManifestError: it can't be read or written, another process has it open, or it is no manifest.
    """
    try:
        # Not mode "a": what a crash tore is cut off first. Binary append keeps all writes at the end.
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666), "r+b")
    except OSError as error:
        raise ManifestError(path, f"can't be opened ({error.strerror})", remedy="choose a writable folder") from error
    with file:
        _lock(file, path)
        data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ManifestError(path, f"larger than {_MOST_BYTES} bytes", remedy=_KEEP)
        try:
            record = replay(data)
        except ValueError as error:
            raise ManifestError(path, str(error), remedy=_KEEP) from error
        if not record.bulletin and data and not data.startswith(b'{"format"'[: len(data)]):
            raise ManifestError(path, "is no manifest", remedy=_KEEP)
        file.truncate(record.whole)
        file.seek(0, os.SEEK_END)
        manifest = Manifest(file, record, now)
        _sync_folder(path.parent)
        yield manifest


def _step(entry: dict[str, Any]) -> tuple[str, Step]:
    step = Step(
        state=State(entry["state"]),
        prompt_id=str(entry.get("prompt_id", "")),
        outputs=tuple(Output(**output) for output in entry.get("outputs", ())),
        files=tuple(ResultFile(**result) for result in entry.get("files", ())),
        reason=str(entry.get("reason", "")),
    )
    for result in step.files:
        if Path(result.name).name != result.name:
            raise ValueError(f"'{result.name}' is a path")
    return str(entry["segment"]), step


def _lock(file: IO[bytes], path: Path) -> None:
    """Takes the file for this process; the system lets go of it when the process ends, however that happens."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ManifestError(path, "another run has it open", remedy="let that run end first") from error


def _sync_folder(folder: Path) -> None:
    """A new file's name is on the disk only when its folder is; Windows does that by itself."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

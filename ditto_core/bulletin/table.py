"""A table of segments (CSV): one row a segment, one column an input of the workflow."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidValueError
from .errors import TableError
from .names import check_name
from .workflow import Place, Scalar, Workflow

NAME_COLUMN = "name"
MOST_SEGMENTS = 10_000
_MOST_BYTES = 1 << 24
_LARGEST_FILE = 1 << 30


@dataclass(frozen=True, kw_only=True)
class LocalFile:
    """A file of this machine that the server needs; made by `LocalFile.of`.

    Attributes:
        path: where it lies.
        digest: SHA-256 of its content, in hex.
    """

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path) -> LocalFile:
        """Looks at a file of at most 1 GiB.

        Raises:
            TableError: it can't be read, or it is too large.
        """
        return cls(path=path, digest=hashlib.sha256(_content(path)).hexdigest())

    def content(self) -> bytes:
        """Its bytes.

        Raises:
            TableError: it can't be read any more, or it has changed.
        """
        content = _content(self.path)
        if hashlib.sha256(content).hexdigest() != self.digest:
            raise TableError(self.path, "has changed since the run began", remedy="run the command again")
        return content

    @property
    def upload_name(self) -> str:
        """A name on the server that says nothing of this machine, the same for the same content."""
        suffix = self.path.suffix.lower()
        return f"bulletin-{self.digest[:32]}{suffix if re.fullmatch(r'[.][a-z0-9]{1,8}', suffix) else ''}"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """One video of a bulletin.

    Attributes:
        name: of its result files, without ending: the row's `name`, or its number from 001.
        key: identity of name, workflow, values and content of local files, in hex. What differs is another segment.
        workflow: the workflow that all segments share.
        values: what the row sets.
    """

    name: str
    key: str
    workflow: Workflow
    values: Mapping[Place, Scalar | LocalFile]

    @property
    def files(self) -> tuple[LocalFile, ...]:
        """The local files that it needs."""
        return tuple(value for value in self.values.values() if isinstance(value, LocalFile))

    def prompt(self, uploaded: Mapping[str, str]) -> dict[str, Any]:
        """The prompt for the server.

        Args:
            uploaded: digest of each local file to its name on the server.
        """
        return self.workflow.filled({place: _on_server(value, uploaded) for place, value in self.values.items()})


def read_segments(path: Path, workflow: Workflow) -> tuple[Segment, ...]:
    """Reads a table, and checks all of it against the workflow before anything is sent.

    The first row names the columns: `node title.input` each, and `name` if wanted, which names the result files. An
    empty cell keeps the workflow's own value. A column of text whose cells are paths of files (absolute, or from the
    table's folder) is a column of files, which are uploaded; then all its cells must be such paths, so that a
    mistyped one is found.

    Args:
        path: a CSV file in UTF-8 with commas, at most 16 MiB and 10,000 segments.
        workflow: the workflow that the segments fill.

    Raises:
        TableError: the file can't be read, or a column, cell or name is wrong; says where.
    """
    rows = _rows(path)
    header = [title.strip() for title in rows[0][1]]
    if len(set(header)) < len(header):
        raise _wrong(path, rows[0][0], "a column is there twice", "name each column once")
    places = {i: _place(path, workflow, title) for i, title in enumerate(header) if title != NAME_COLUMN}
    files = _file_columns(path, rows[1:], places)
    seen: dict[str, LocalFile] = {}
    segments: dict[str, Segment] = {}
    for number, (line, cells) in enumerate(rows[1:], 1):
        values: dict[Place, Scalar | LocalFile] = {}
        for i, place in places.items():
            if not cells[i]:
                continue
            if i in files:
                values[place] = seen.setdefault(cells[i], seen.get(cells[i]) or LocalFile.of(path.parent / cells[i]))
                continue
            try:
                values[place] = place.parse(cells[i])
            except InvalidValueError as error:
                raise _wrong(path, line, f"{header[i]}: {error.problem}", error.remedy) from error
        name = (cells[header.index(NAME_COLUMN)].strip() if NAME_COLUMN in header else "") or f"{number:03d}"
        try:
            check_name(name, segments)
        except InvalidValueError as error:
            raise _wrong(path, line, error.problem, error.remedy) from error
        key = _identity(name, workflow, values)
        segments[name.casefold()] = Segment(name=name, key=key, workflow=workflow, values=values)
    return tuple(segments.values())


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Line number and cells of each row that is not empty; all as wide as the first."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise TableError(path, f"can't be read ({error.strerror})", remedy="name a CSV file") from error
    if len(data) > _MOST_BYTES:
        raise TableError(path, f"larger than {_MOST_BYTES} bytes", remedy="split the table")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(path, f"byte {error.start} is not UTF-8", remedy="save the table as UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            if not any(map(str.strip, cells)):
                continue
            if rows and len(cells) != len(rows[0][1]):
                problem = f"{len(cells)} cells, where the first row has {len(rows[0][1])}"
                raise _wrong(path, reader.line_num, problem, "quote cells that hold commas")
            rows.append((reader.line_num, cells))
            if len(rows) > MOST_SEGMENTS + 1:
                raise TableError(path, f"more than {MOST_SEGMENTS} segments", remedy="split the table")
    except csv.Error as error:
        raise _wrong(path, reader.line_num, f"is no CSV ({error})", "save the table as CSV with commas") from error
    if len(rows) < 2:
        raise TableError(path, "no segments", remedy="write a row of column names and a row for each segment")
    return rows


def _place(path: Path, workflow: Workflow, title: str) -> Place:
    try:
        return workflow.place(title)
    except InvalidValueError as error:
        raise TableError(path, error.problem, remedy=error.remedy) from error


def _file_columns(path: Path, rows: Sequence[tuple[int, list[str]]], places: Mapping[int, Place]) -> set[int]:
    """The columns that hold paths of local files."""
    found = set()
    for i, place in places.items():
        if not isinstance(place.value, str):
            continue
        there = {line: os.path.isfile(path.parent / cells[i]) for line, cells in rows if cells[i]}
        if not any(there.values()):
            continue
        for line, cells in rows:
            if not there.get(line, True):
                raise _wrong(
                    path,
                    line,
                    f"there is no file '{cells[i]}'",
                    "correct it: other cells of this column are files",
                )
        found.add(i)
    return found


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise TableError(path, f"can't be read ({error.strerror})", remedy="make it readable") from error
    if len(content) > _LARGEST_FILE:
        raise TableError(path, f"larger than {_LARGEST_FILE} bytes", remedy="use a smaller file")
    return content


def _identity(name: str, workflow: Workflow, values: Mapping[Place, Scalar | LocalFile]) -> str:
    prompt = workflow.filled(
        {place: f"sha256:{value.digest}" if isinstance(value, LocalFile) else value for place, value in values.items()}
    )
    return hashlib.sha256(json.dumps([name, prompt], sort_keys=True).encode()).hexdigest()


def _on_server(value: Scalar | LocalFile, uploaded: Mapping[str, str]) -> Scalar:
    return uploaded[value.digest] if isinstance(value, LocalFile) else value


def _wrong(path: Path, line: int, problem: str, remedy: str) -> TableError:
    return TableError(path, f"line {line}: {problem}", remedy=remedy)

"""A bulletin for the canvas: a CSV file that says who says what, and how."""

from __future__ import annotations

import csv
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from ..avatar import CropRequest
from ..errors import FileError, InvalidValueError
from ..motion.conditions import EMOTIONS
from .names import check_name

_COLUMNS = ("avatar", "speech", "emotion", "crop", "name")
_NEEDED = ("avatar", "speech")
_MAX_BYTES = 1 << 20
_MAX_SEGMENTS = 10_000
_LONGEST_FIELD = 500
_REMEDY = f"write a CSV file with the columns {', '.join(_COLUMNS)}; the last three may be left out"


@dataclass(frozen=True, kw_only=True)
class BulletinRow:
    """One segment of a bulletin.

    Attributes:
        avatar: file name of a picture, a video or a saved avatar.
        speech: file name of a sound.
        emotion: one of `motion.conditions.EMOTIONS`.
        crop: where the face is.
        name: what the result shall be called, see `check_name`.
    """

    avatar: str
    speech: str
    emotion: str = "neutral"
    crop: CropRequest = CropRequest()
    name: str


def read_bulletin(path: str | Path) -> tuple[BulletinRow, ...]:
    """Reads and checks a bulletin's rows; no file that it names is opened.

    Args:
        path: a CSV file in UTF-8 with a row of column names: avatar, speech, and if wanted emotion, crop and name.
            An empty field counts as left out; a segment without a name is called "segment" and its number, from 1.

    Raises:
        FileError: no such file, too large, no such table, or a row is incomplete or wrong.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(path, "is no file", remedy="check the name")
    if path.stat().st_size > _MAX_BYTES:
        raise FileError(path, f"has more than {_MAX_BYTES} bytes", remedy="split the bulletin")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, strict=True)
            columns = tuple(table.fieldnames or ())
            if not set(_NEEDED) <= set(columns) <= set(_COLUMNS):
                raise FileError(path, f"has the columns {', '.join(columns)[:200] or '(none)'}", remedy=_REMEDY)
            rows: dict[str, BulletinRow] = {}
            for number, fields in enumerate(table, 1):
                row = _row(path, number, fields, rows)
                rows[row.name.casefold()] = row
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError(path, f"is no CSV file ({error})", remedy=_REMEDY) from error
    if not 1 <= len(rows) <= _MAX_SEGMENTS:
        raise FileError(path, f"holds {len(rows)} segments", remedy=f"write 1 to {_MAX_SEGMENTS}")
    return tuple(rows.values())


def row_at(rows: tuple[BulletinRow, ...], index: int) -> BulletinRow:
    """The row of an index from 0.

    Raises:
        InvalidValueError: there is none.
    """
    if not 0 <= index < len(rows):
        raise InvalidValueError(
            f"segment index {index} of a bulletin of {len(rows)} segments, which ends at {len(rows) - 1}",
            remedy="the bulletin is finished; set the index to 0 to render it again",
        )
    return rows[index]


def _row(path: Path, number: int, row: dict[str | None, str | list[str] | None], taken: Container[str]) -> BulletinRow:
    where = f"segment {number}"
    if None in row or None in row.values():
        raise FileError(path, f"{where} has another number of fields than the heading", remedy=_REMEDY)
    fields = {str(name): str(value).strip() for name, value in row.items()}
    fields = {name: value for name, value in fields.items() if value}
    if any(len(value) > _LONGEST_FIELD for value in fields.values()):
        raise FileError(path, f"{where} has a field of more than {_LONGEST_FIELD} characters", remedy=_REMEDY)
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        raise FileError(path, f"{where} has no {missing[0]}", remedy=_REMEDY)
    emotion, name = fields.get("emotion", "neutral"), fields.get("name", f"segment-{number:03}")
    if emotion not in EMOTIONS:
        raise FileError(path, f"{where} has the emotion {emotion!r}", remedy=f"name one of {', '.join(EMOTIONS)}")
    try:
        check_name(name, taken)
        crop = CropRequest.parse(fields.get("crop", "auto"))
    except InvalidValueError as error:
        raise FileError(path, f"{where}: {error.problem}", remedy=error.remedy) from error
    return BulletinRow(avatar=fields["avatar"], speech=fields["speech"], emotion=emotion, crop=crop, name=name)

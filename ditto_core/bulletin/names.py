"""What a bulletin's results may be called, wherever its table is read."""

from __future__ import annotations

import re
from collections.abc import Container

from ..errors import InvalidValueError

_NAME = re.compile(r"[\w-][\w -]{0,98}[\w-]|[\w-]")
_MOST_BYTES = 200
"""File systems allow 255 in a name, and numbers and endings are still to come."""


def check_name(name: str, taken: Container[str]) -> None:
    """Checks that a result's name is a file name of its own on every system.

    Args:
        name: without ending.
        taken: names before it, with letters folded as `str.casefold` does.

    Raises:
        InvalidValueError: it holds other signs, is too long, or is taken.
    """
    if not _NAME.fullmatch(name) or len(name.encode()) > _MOST_BYTES:
        raise InvalidValueError(
            f"name {name[:_MOST_BYTES]!r}",
            remedy=f"use 1 to 100 letters, digits, spaces, '-' and '_', of {_MOST_BYTES} bytes at most",
        )
    if name.casefold() in taken:
        raise InvalidValueError(f"name {name!r} is there twice", remedy="give each segment a name of its own")

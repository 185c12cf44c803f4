"""Emotions over time, as a user writes them."""

from __future__ import annotations

import math
from typing import Any

from ..errors import InvalidValueError
from .conditions import Emotion

_MAX_LINES = 1000
_MAX_SECONDS = 4 * 3600.0
_REMEDY = "write one line an emotion, such as `2.5 happy` or `4 happy 0.7, sad 0.3`"


def read_schedule(text: str, *, fade: float = 0.0) -> Emotion:
    """The emotions of a text.

    Each line holds a time in seconds and one emotion, or several with weights between commas; a weight left out
    is 1. The first emotion also counts before its time. Empty lines and what follows a # are skipped.

    Args:
        text: such as "0 neutral" and "2.5 happy 0.7, sad 0.3" on lines of their own.
        fade: seconds over which each emotion passes to the next.

    Raises:
        InvalidValueError: a line can't be read, two have the same time, or times are closer than the fade.
    """
    if not 0 <= fade <= _MAX_SECONDS:
        raise InvalidValueError(f"a fade of {fade} s", remedy="give seconds, 0 or above")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    if len(lines) > _MAX_LINES:
        raise InvalidValueError(f"a schedule of {len(lines)} lines", remedy=f"use at most {_MAX_LINES}")
    keys: dict[float, Any] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        word, _, rest = line.partition(" ")
        seconds = _number(word, number, line)
        if not 0 <= seconds <= _MAX_SECONDS or seconds in keys:
            raise _bad_line(number, line)
        keys[seconds] = _blend(rest, number, line)
    return Emotion.at_seconds(keys, fade=fade)


def _blend(text: str, number: int, line: str) -> str | dict[str, float]:
    weights: dict[str, float] = {}
    for part in text.split(","):
        words = part.split()
        if len(words) not in (1, 2) or words[0] in weights:
            raise _bad_line(number, line)
        weights[words[0]] = _number(words[1], number, line) if len(words) == 2 else 1.0
    return next(iter(weights)) if len(weights) == 1 else weights


def _number(word: str, number: int, line: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise _bad_line(number, line) from None
    if not math.isfinite(value):
        raise _bad_line(number, line)
    return value


def _bad_line(number: int, line: str) -> InvalidValueError:
    return InvalidValueError(f"line {number} of the emotions, {line[:80]!r}", remedy=_REMEDY)

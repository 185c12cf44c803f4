"""Blinks: a recorded movement of the eyes' key points, repeated after given or random pauses."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..networks.presets import KEYPOINTS

_RANDOM_PAUSE = (60, 100)
_LARGEST_PERIOD = 1_000_000
_LARGEST_LENGTH = 1000


@dataclass(frozen=True, kw_only=True)
class Blink:
    """When and how the eyes blink.

    Attributes:
        delta: (n, 63) change of the source's expression in each frame of a blink; only the eye points' values
            are used. Its first row is also that of open eyes.
        pauses: frames of open eyes before each blink, used in turn; None: random, 60 to 100 each; (): never a
            blink.
        seed: of the random pauses.
        period: frames after which all repeats.
    """

    delta: Tensor
    pauses: tuple[int, ...] | None = None
    seed: int = 0
    period: int = 3000

    def __post_init__(self) -> None:
        """Checks shapes and numbers.

        Raises:
            InvalidValueError: the movement is not (n, 63) of finite values, or a number is out of range.
        """
        shape = tuple(self.delta.shape)
        if len(shape) != 2 or shape[1] != 3 * KEYPOINTS or not 1 <= shape[0] <= _LARGEST_LENGTH:
            raise InvalidValueError(
                f"a blink of shape {shape}",
                remedy=f"give 1 to {_LARGEST_LENGTH} rows of {3 * KEYPOINTS} values",
            )
        if not bool(torch.isfinite(self.delta).all()):
            raise InvalidValueError("a blink with values that are not finite", remedy="give finite numbers")
        if not 1 <= self.period <= _LARGEST_PERIOD:
            raise InvalidValueError(f"blink period {self.period}", remedy=f"choose 1 to {_LARGEST_PERIOD} frames")
        if any(not 0 <= pause <= _LARGEST_PERIOD for pause in self.pauses or ()):
            raise InvalidValueError(f"pauses {self.pauses} between blinks", remedy="choose frames of 0 or above")

    def at(self, frames: Tensor) -> Tensor:
        """The change of expression at output frames.

        Args:
            frames: (b,) integer frame numbers.

        Returns:
            (b, 63), on the frames' device.
        """
        table = torch.tensor(blink_table(self.period, len(self.delta), self.pauses, self.seed))
        rows = table[frames.cpu() % self.period]
        return self.delta[rows.to(self.delta.device)].to(frames.device)


@lru_cache(maxsize=16)
def blink_table(count: int, length: int, pauses: tuple[int, ...] | None, seed: int = 0) -> tuple[int, ...]:
    """The row of the blink's movement for each of `count` frames; 0 while the eyes are open.

    No blink starts among the last frames, as many as a pause or a blink, so that the table can be repeated.

    Args:
        count: frames of the table.
        length: frames of a blink.
        pauses: as in `Blink`.
        seed: of the random pauses.
    """
    table = [0] * count
    if pauses == ():
        return tuple(table)
    waits = _random_pauses(seed) if pauses is None else itertools.chain(pauses[-1:], itertools.cycle(pauses))
    last_pause = next(waits)
    start = next(waits)
    while start < count - max(last_pause, length):
        table[start : start + length] = range(length)
        start += length + next(waits)
    return tuple(table)


def _random_pauses(seed: int) -> Iterator[int]:
    """Random pauses without end: the last of the table first, then those before each blink."""
    draw = random.Random(seed)  # noqa: S311 - times of blinks, no secret
    first, last = draw.randint(*_RANDOM_PAUSE), draw.randint(*_RANDOM_PAUSE)
    yield from (last, first)
    while True:
        yield draw.randint(*_RANDOM_PAUSE)

"""Samples that wait for their turn."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray


class SampleQueue:
    """Samples in blocks of any size, taken in any other. Not for use by two threads at once.

    Args:
        channels: of the sound.

    Attributes:
        channels: as given.
        waiting: samples held.
    """

    def __init__(self, channels: int) -> None:
        self.channels, self.waiting = channels, 0
        self._blocks: deque[NDArray[np.floating]] = deque()

    def push(self, block: NDArray[np.floating]) -> None:
        """Appends (channels, n) samples, which are not copied."""
        self._blocks.append(block)
        self.waiting += block.shape[1]

    def take(self, count: int) -> NDArray[np.floating]:
        """(channels, count) samples, silent where too few wait."""
        parts, missing = [], count
        while self._blocks and missing:
            block = self._blocks.popleft()
            parts.append(block[:, :missing])
            if block.shape[1] > missing:
                self._blocks.appendleft(block[:, missing:])
            missing -= parts[-1].shape[1]
        self.waiting -= count - missing
        return np.concatenate([*parts, np.zeros((self.channels, missing), np.float32)], axis=1)

    def clear(self) -> None:
        """Drops what waits."""
        self._blocks.clear()
        self.waiting = 0

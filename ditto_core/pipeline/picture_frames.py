"""Frames of pictures that are already in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..progress import Progress
from ..render import RenderedFrames, rgb_to_nv12
from .frames import Colour, overlap
from .timing import StageClock

_CHUNK = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureFrames:
    """Pictures as frames of a video, converted a chunk at a time. Odd sides lose one pixel.

    Attributes:
        pictures: (n, H, W, 3) RGB floats, nominally 0 to 1, on any device; a fourth channel is left out.
        fps: frames a second.

    Raises:
        InvalidValueError: another shape or type, or no picture.
    """

    pictures: Tensor = field(repr=False)
    fps: Fraction

    def __post_init__(self) -> None:
        """Checks the pictures."""
        shape = tuple(self.pictures.shape)
        if len(shape) != 4 or shape[-1] not in (3, 4) or not self.pictures.numel():
            raise InvalidValueError(f"pictures of shape {shape}", remedy="give (n, height, width, 3), n at least 1")
        if not self.pictures.is_floating_point():
            raise InvalidValueError(f"pictures of {self.pictures.dtype}", remedy="give floats from 0 to 1")

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.pictures)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels, even."""
        return self.pictures.shape[1] // 2 * 2, self.pictures.shape[2] // 2 * 2

    @property
    def device(self) -> torch.device:
        """Where the pictures are."""
        return self.pictures.device

    def pull(
        self,
        *,
        wanted: range | None = None,
        colour: Colour = "rgb",
        clock: StageClock | None = None,
        progress: Progress | None = None,
        check_cancelled: Callable[[], None] | None = None,
    ) -> Iterator[RenderedFrames]:
        """See `FrameRecipe`; there are no faces and mouths."""
        clock = clock or StageClock(self.device)
        height, width = self.size
        frames = overlap(range(len(self)), wanted)
        for first in range(frames.start, frames.stop, _CHUNK):
            if check_cancelled is not None:
                check_cancelled()
            with clock.stage("render"):
                part = self.pictures[first : min(first + _CHUNK, frames.stop), :height, :width, :3]
                chunk = (part.clamp(0, 1) * 255).round().to(torch.uint8)
                made = rgb_to_nv12(chunk) if colour == "nv12" else chunk
            yield RenderedFrames(made, [], torch.zeros(0, 6, 2, dtype=torch.float64))

    def report(self) -> dict[str, Any]:
        """See `FrameRecipe`."""
        return {"executed_by": {"render": "pictures as given"}}

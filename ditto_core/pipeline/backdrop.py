"""Frames whose green screen is replaced by a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from ..progress import Progress
from ..render import GreenScreen, RenderedFrames, fitted_background, rgb_to_nv12
from .frames import Colour, WrappedFrames
from .timing import StageClock


@dataclass(frozen=True, kw_only=True, eq=False)
class BackdropFrames(WrappedFrames):
    """Frames of a presenter before a green screen, shown before another picture.

    Attributes:
        frames: with the screen.
        screen: what is cut away.
        background: (h, w, 3) uint8 RGB of any size; it fills the frame, and is cut where it is too long.
    """

    screen: GreenScreen
    background: Tensor = field(repr=False)

    def pull(
        self,
        *,
        wanted: range | None = None,
        colour: Colour = "rgb",
        clock: StageClock | None = None,
        progress: Progress | None = None,
        check_cancelled: Callable[[], None] | None = None,
    ) -> Iterator[RenderedFrames]:
        """See `FrameRecipe`."""
        clock = clock or StageClock(self.device)
        behind = fitted_background(self.background, self.size).to(self.device)
        for chunk in self.frames.pull(wanted=wanted, clock=clock, progress=progress, check_cancelled=check_cancelled):
            with clock.stage("backdrop"):
                pictures = self.screen.over(chunk.pictures, behind)
                if colour == "nv12":
                    pictures = rgb_to_nv12(pictures)
            yield chunk._replace(pictures=pictures)

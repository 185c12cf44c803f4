"""Pulling frames: the work is done while one node runs, and reported on the node that made the frames."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..ditto_core.errors import DittoError
from ..ditto_core.pipeline.frames import Colour, WrappedFrames
from ..ditto_core.pipeline.timing import StageClock
from ..ditto_core.render import RenderedFrames
from . import host

_PREVIEW_SECONDS = 0.4
"""Between previews, since each is converted and compressed on the CPU."""


class FramesError(DittoError):
    """Frames could not be made; the message names the node that stands for them."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The node that made frames, as the running prompt has it.

    Attributes:
        node: its id.
        title: what the user calls it.
    """

    node: str
    title: str

    @classmethod
    def of(cls, prompt: Mapping[str, Any], node: str, name: str) -> Origin | None:
        """The node at the other end of a link.

        Args:
            prompt: the running prompt, in ComfyUI's API format.
            node: the node that pulls.
            name: its input.
        """
        link = prompt.get(node, {}).get("inputs", {}).get(name)
        if not isinstance(link, list) or str(link[0]) not in prompt:
            return None
        source = prompt[str(link[0])]
        return cls(node=str(link[0]), title=source.get("_meta", {}).get("title") or source["class_type"])


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportedFrames(WrappedFrames):
    """Frames whose progress and errors are reported on the node that made them.

    Attributes:
        frames: the frames.
        origin: that node; None reports on the running node only.
    """

    origin: Origin | None

    def pull(
        self,
        *,
        wanted: range | None = None,
        colour: Colour = "rgb",
        clock: StageClock | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        check_cancelled: Callable[[], None] | None = None,
    ) -> Iterator[RenderedFrames]:
        """See `FrameRecipe`.

        Raises:
            FramesError: for whatever goes wrong, but for what ComfyUI has to see as it is.
        """

        def tell(stage: str, done: int, total: int) -> None:
            self._show(done, total)
            if progress is not None:
                progress(stage, done, total)

        done, total = 0, len(self if wanted is None else wanted)
        try:
            for chunk in self.frames.pull(
                wanted=wanted, colour=colour, clock=clock, progress=tell, check_cancelled=check_cancelled
            ):
                done += len(chunk.pictures)
                self._show(done, total)
                yield chunk
        except Exception as error:
            if self.origin is None or host.is_from_comfy(error):
                raise
            host.mark_failed(self.origin.node)
            raise self._named(self.origin, error) from error
        if self.origin is not None:
            host.end_progress(self.origin.node)

    def _show(self, done: int, total: int) -> None:
        if self.origin is not None:
            host.show_progress(done, total, node=self.origin.node)

    @staticmethod
    def _named(origin: Origin, error: Exception) -> FramesError:
        where = f"node {origin.node}, {origin.title}, could not make its frames: "
        if isinstance(error, DittoError):
            return FramesError(where + error.problem, remedy=error.remedy)
        return FramesError(f"{where}{type(error).__name__}: {error}", remedy="see ComfyUI's log for where it happened")


class Preview:
    """Shows progress and, now and then, the newest frame on the running node."""

    def __init__(self) -> None:
        self._make: Callable[[], Tensor] | None = None
        self._shown_at = -_PREVIEW_SECONDS

    def picture(self, make: Callable[[], Tensor]) -> None:
        """Keeps what makes the newest frame until progress is shown."""
        self._make = make

    def progress(self, stage: str, done: int, total: int) -> None:
        """Moves the bar of the running node."""
        if stage != "frames":
            return
        picture, now = None, time.monotonic()
        if self._make is not None and now - self._shown_at >= _PREVIEW_SECONDS:
            picture, self._shown_at = self._make(), now
        host.show_progress(done, total, picture=picture)

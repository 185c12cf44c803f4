"""Frames of a sound that come chunk by chunk, each as soon as its motion is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..progress import Progress
from ..render import RenderedFrames
from .frames import Colour
from .session import Session
from .speech_frames import SpeechFrames
from .timing import StageClock


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamFrames(SpeechFrames):
    """The frames of `SpeechFrames`, bit for bit, made by a session: speech, motion and pictures at once.

    The first ones are there long before the last motion is made. The pictures lie in memory.
    """

    @property
    def device(self) -> torch.device:
        """Where the pictures are."""
        return torch.device("cpu")

    def pull(
        self,
        *,
        wanted: range | None = None,
        colour: Colour = "rgb",
        clock: StageClock | None = None,
        progress: Progress | None = None,
        check_cancelled: Callable[[], None] | None = None,
    ) -> Iterator[RenderedFrames]:
        """See `FrameRecipe`; frames come one by one, and the stages run at once on threads of their own.

        What stands before the wanted frames is rendered, too; what stands after them is not.
        """
        clock = clock or StageClock(self.device)
        stop = len(self) if wanted is None else wanted.stop
        with clock.stage("warm-up"):
            session = Session(
                models=self.models,
                encoder=self.encoder,
                backend=self.backend,
                avatar=self.avatar,
                motion=self.motion,
                controls=self.controls,
                options=self.options,
                colour=colour,
            )
        with session:
            session.push_audio(self.sound.samples, self.sound.rate)
            session.finish()
            frames = iter(session)
            for number in range(stop):
                if check_cancelled is not None:
                    check_cancelled()
                with clock.stage("wait"):
                    frame = next(frames, None)
                if frame is None:
                    return
                if wanted is None or number in wanted:
                    yield RenderedFrames(frame.picture[None], [frame.face_box], frame.mouth[None])

    def report(self) -> dict[str, Any]:
        """See `FrameRecipe`."""
        return {**super().report(), "driver": "live session: speech, motion and pictures at once"}

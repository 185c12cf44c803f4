"""Frames of a sound, whose motion is made when they are pulled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch

from ..avatar import Avatar
from ..backends import RenderBackend
from ..checkpoints import DittoModels
from ..motion.controls import MotionControls
from ..progress import Progress
from ..render import RenderedFrames, Renderer, RenderOptions
from ..speech import Sound, SpeechEncoder
from ..speech.resample import resampled_length
from ..speech.windows import FRAME_RATE
from .frames import Colour, Frames, check_made_with, describe_models
from .motion import MotionOptions, make_motion
from .timing import StageClock


@dataclass(frozen=True, kw_only=True, eq=False)
class SpeechFrames:
    """Frames of a sound: its motion is made first whenever they are pulled, then they are rendered.

    Attributes:
        models: the networks.
        encoder: the speech encoder that belongs to them.
        backend: what draws the faces.
        avatar: the presenter.
        sound: what is said.
        motion: how motion is made.
        controls: what is changed about it.
        options: batch (the plan's own where None) and cadence.
    """

    models: DittoModels = field(repr=False)
    encoder: SpeechEncoder = field(repr=False)
    backend: RenderBackend = field(repr=False)
    avatar: Avatar = field(repr=False)
    sound: Sound
    motion: MotionOptions = MotionOptions()
    controls: MotionControls = MotionControls()
    options: RenderOptions = RenderOptions()

    def __post_init__(self) -> None:
        """Checks that the avatar belongs to the models, and takes the plan's batch where none is given.

        Raises:
            InvalidValueError: the avatar was made with other models.
        """
        check_made_with(self.models, avatar=self.avatar.models)
        if self.options.batch is None:
            options = dataclasses.replace(self.options, batch=self.motion.plan.render_batch)
            object.__setattr__(self, "options", options)

    def __len__(self) -> int:
        """Number of frames; 0 where the plan makes none of so short a sound, and pulling fails."""
        plan = self.motion.plan
        return plan.frames(plan.rows(resampled_length(self.sound.samples.shape[1], self.sound.rate)))

    @property
    def fps(self) -> Fraction:
        """Frames a second."""
        return Fraction(FRAME_RATE)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels, even."""
        return self.avatar.frames.size

    @property
    def device(self) -> torch.device:
        """Where the pictures are made."""
        return self.models.device

    def pull(
        self,
        *,
        wanted: range | None = None,
        colour: Colour = "rgb",
        clock: StageClock | None = None,
        progress: Progress | None = None,
        check_cancelled: Callable[[], None] | None = None,
    ) -> Iterator[RenderedFrames]:
        """See `FrameRecipe`; the stages before "render" are "speech", "motion" and "warm-up"."""
        track = make_motion(
            self.models,
            self.encoder,
            self.avatar,
            self.sound,
            self.motion,
            clock=clock,
            progress=progress,
            check_cancelled=check_cancelled,
        )
        frames = Frames(
            models=self.models,
            backend=self.backend,
            avatar=self.avatar,
            track=track,
            controls=self.controls,
            options=self.options,
            piece=self.motion.plan.piece,
        )
        yield from frames.pull(
            wanted=wanted, colour=colour, clock=clock, progress=progress, check_cancelled=check_cancelled
        )

    def report(self) -> dict[str, Any]:
        """See `FrameRecipe`."""
        motion = self.motion
        return {
            "executed_by": {
                "speech": self.encoder.executed_by,
                "motion": f"torch on {self.device}",
                "render": Renderer(self.backend, self.avatar, self.options).executed_by,
            },
            "seed": motion.seed,
            "steps": self.models.preset.default_steps if motion.steps is None else motion.steps,
            "plan": motion.plan.to_json(),
            "models": describe_models(self.models),
            "eyes_measured": self.avatar.eyes_measured,
        }

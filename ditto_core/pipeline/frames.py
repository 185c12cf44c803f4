"""Frames: immutable recipes of a video's pictures. Whoever pulls them renders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, Protocol

import torch

from ..avatar import Avatar
from ..backends import RenderBackend
from ..checkpoints import DittoModels
from ..errors import InvalidValueError
from ..motion.controls import MotionControls, MotionMixer
from ..motion.track import MotionTrack
from ..progress import Progress
from ..render import RenderedFrames, Renderer, RenderOptions
from .draw import FrameDrawer, lead, next_piece
from .timing import StageClock

_CHUNK_BATCHES = 2

Colour = Literal["rgb", "nv12"]
"""Pictures to look at, or in the encoder's own form; see `render.colour`."""


class FrameRecipe(Protocol):
    """What a video's pictures are made from. Pulled again, it gives the same frames."""

    @property
    def fps(self) -> Fraction:
        """Frames a second."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels, even."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the pictures are made."""
        ...

    def __len__(self) -> int:
        """Number of frames."""
        ...

    def pull(
        self,
        *,
        wanted: range | None = None,
        colour: Colour = "rgb",
        clock: StageClock | None = None,
        progress: Progress | None = None,
        check_cancelled: Callable[[], None] | None = None,
    ) -> Iterator[RenderedFrames]:
        """Makes frames in order, chunk by chunk.

        Args:
            wanted: rising numbers of the frames wanted, without gaps; None means all.
            colour: what the pictures are.
            clock: counts the stages of the work, "render" among them, and "warm-up" apart.
            progress: told of the stages before "frames", which whoever pulls counts.
            check_cancelled: called before each chunk and within longer work; raises to stop.
        """
        ...

    def report(self) -> dict[str, Any]:
        """What the frames are made with, ready for JSON; `executed_by` names what runs each stage."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class WrappedFrames:
    """What frames that are made from other frames have in common: all but `pull`.

    Attributes:
        frames: the others.
    """

    frames: FrameRecipe

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.frames)

    @property
    def fps(self) -> Fraction:
        """Frames a second."""
        return self.frames.fps

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels, even."""
        return self.frames.size

    @property
    def device(self) -> torch.device:
        """Where the pictures are made."""
        return self.frames.device

    def report(self) -> dict[str, Any]:
        """See `FrameRecipe`."""
        return self.frames.report()


@dataclass(frozen=True, kw_only=True, eq=False)
class Frames:
    """Frames of motion that is already made. Iterating renders them.

    Attributes:
        models: the networks.
        backend: what draws the faces.
        avatar: the presenter.
        track: the driving motion.
        controls: what is changed about it.
        options: batch and cadence.
        piece: at cadence 2, how a stream cuts its frames, see `draw.next_piece`; None is the fastest way.
    """

    models: DittoModels = field(repr=False)
    backend: RenderBackend = field(repr=False)
    avatar: Avatar = field(repr=False)
    track: MotionTrack = field(repr=False)
    controls: MotionControls = MotionControls()
    options: RenderOptions = RenderOptions()
    piece: int | None = None

    def __post_init__(self) -> None:
        """Checks that the parts belong together.

        Raises:
            InvalidValueError: avatar or motion were made with other models.
        """
        check_made_with(self.models, avatar=self.avatar.models, motion=self.track.models)

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.track)

    @property
    def fps(self) -> Fraction:
        """Frames a second."""
        return Fraction(self.track.fps)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels, even."""
        return self.avatar.frames.size

    @property
    def device(self) -> torch.device:
        """Where the pictures are made."""
        return self.models.device

    def __iter__(self) -> Iterator[RenderedFrames]:
        """Renders all frames in order, a chunk of some batches at a time."""
        return self.pull()

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
        renderer = Renderer(self.backend, self.avatar, self.options)
        self._warm_up(renderer.batch, clock, progress, check_cancelled)
        mixer = MotionMixer(
            self.avatar,
            self.controls,
            reference=self.track.reference,
            first=self.track.vectors[0],
            device=self.device,
        )
        draw = FrameDrawer(self.models, renderer, mixer)
        for chunk in self._chunks(renderer.batch):
            inside = overlap(chunk, wanted)
            if not inside:
                continue
            if check_cancelled is not None:
                check_cancelled()
            before = lead(chunk) if self.options.cadence == 2 else 0
            start = chunk.start - before
            with clock.stage("render"):
                rendered = draw(self.track.vectors[start : chunk.stop], first=start, lead=before, colour=colour)
            part = slice(inside.start - chunk.start, inside.stop - chunk.start)
            yield RenderedFrames._make(values[part] for values in rendered)

    def report(self) -> dict[str, Any]:
        """See `FrameRecipe`."""
        return {
            "executed_by": {"render": Renderer(self.backend, self.avatar, self.options).executed_by},
            "seed": self.track.seed,
            "plan": {"name": self.track.plan},
            "models": describe_models(self.models),
            "eyes_measured": self.avatar.eyes_measured,
        }

    def _warm_up(
        self,
        batch: int,
        clock: StageClock,
        progress: Progress | None,
        check_cancelled: Callable[[], None] | None,
    ) -> None:
        """Makes the backend ready, so that no frame waits for it; a cancel is seen between its steps."""

        def tell(done: int, total: int) -> None:
            if check_cancelled is not None:
                check_cancelled()
            if progress is not None:
                progress("warm-up", done, total)

        with clock.stage_apart("warm-up"):
            self.backend.warm_up(batch, tell)

    def _chunks(self, batch: int) -> Iterator[range]:
        """The frames that are rendered at once; the same whoever pulls, and however much of it."""
        length = batch * self.options.cadence * _CHUNK_BATCHES
        if self.options.cadence == 1:
            yield from (range(first, min(first + length, len(self))) for first in range(0, len(self), length))
            return
        first = 0
        while (piece := next_piece(first, len(self), ended=True, length=self.piece or length)) is not None:
            yield piece
            first = piece.stop


def overlap(chunk: range, wanted: range | None) -> range:
    """The frames of a chunk that are wanted; empty without any."""
    return chunk if wanted is None else range(max(chunk.start, wanted.start), min(chunk.stop, wanted.stop))


def check_made_with(models: DittoModels, **made_with: str) -> None:
    """Checks that parts were made with these models.

    Args:
        models: the models that shall render.
        made_with: the fingerprint that each part carries, by the part's name.

    Raises:
        InvalidValueError: one was not.
    """
    for what, fingerprint in made_with.items():
        if fingerprint != models.fingerprint:
            raise InvalidValueError(
                f"{what} made with models {fingerprint[:12]}, to be rendered with {models.fingerprint[:12]}",
                remedy=f"make the {what} again with these models",
            )


def describe_models(models: DittoModels) -> dict[str, Any]:
    """Source and fingerprint of models, for reports."""
    return {"source": models.describe(), "trained": models.trained, "fingerprint": models.fingerprint}

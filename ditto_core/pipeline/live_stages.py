"""The three stages of a session: sound to speech features, those to motion, and that to pictures.

They make the same calls with the same padded batches as the whole-file driver, so that the results are the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..avatar import Avatar
from ..backends import RenderBackend
from ..checkpoints import DittoModels
from ..motion.conditions import Conditions
from ..motion.controls import MotionControls, MotionMixer
from ..motion.generate import MotionStream, network_sampler
from ..motion.sampler import FusedSampler
from ..networks.presets import KEYPOINTS, MOTION_SIZE, WINDOW_ROWS
from ..render import Renderer, RenderOptions
from ..speech import SpeechEncoder
from ..speech.features import FeatureStream
from ..speech.resample import Resampler
from ..speech.windows import FRAME_RATE
from .clock import Clock
from .draw import FrameDrawer, lead, next_piece
from .frames import Colour
from .live_items import Drawn, Ending, MotionRows, Pushed, SpeechRows
from .motion import MotionOptions, silent_features
from .stages import Belt, Crew
from .stopwatch import Stopwatch

_JOINED_FRAMES = 10
"""Over so many frames a segment departs from where the one before ended."""


class Outdated(Exception):  # noqa: N818 - an ending, not an error
    """An interrupt came; what is being made is not wanted any more."""


@dataclass(kw_only=True)
class Place:
    """Where a session goes on after an interrupt.

    Attributes:
        frame: number of the next frame.
        moved: (265,) motion away from rest of the last one shown; None where there was none.
    """

    frame: int = 0
    moved: Tensor | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """What the stages share.

    Attributes:
        models: the networks.
        encoder: the speech encoder.
        backend: what draws the faces.
        avatar: the presenter.
        motion: how motion is made.
        controls: what is changed about it.
        options: batch and cadence.
        colour: what the pictures are.
        crew: the stages.
        clock: the time.
        watch: how long the stages take.
        place: where the newest epoch begins.
    """

    models: DittoModels
    encoder: SpeechEncoder
    backend: RenderBackend
    avatar: Avatar
    motion: MotionOptions
    controls: MotionControls
    options: RenderOptions
    colour: Colour
    crew: Crew
    clock: Clock
    watch: Stopwatch
    place: Place = field(default_factory=Place)


class SpeechStage:
    """Sound to speech features. Large pushes are cut, so that the first features come soon."""

    def __init__(self, work: Work, source: Belt[Pushed | Ending], target: Belt[SpeechRows | Ending]) -> None:
        self._work, self._source, self._target = work, source, target
        self._plan = work.motion.plan
        self._key: tuple[int, int] | None = None

    def __call__(self) -> None:
        """Runs until the session stops."""
        while True:
            item = self._source.take()
            if isinstance(item, Ending):
                self._target.put(item)
                continue
            self._begin(item)
            for rows, ended in self._rows(item):
                if not self._work.crew.is_current(item):
                    break
                if len(rows) or ended:
                    self._work.watch.through("speech")
                    self._target.put(SpeechRows(epoch=item.epoch, segment=item.segment, rows=rows, ended=ended))

    def _begin(self, item: Pushed) -> None:
        if (item.epoch, item.segment) == self._key:
            return
        self._key = item.epoch, item.segment
        self._resampler = Resampler(item.rate)
        self._features = FeatureStream(self._work.encoder, self._plan.speech, batch=self._plan.speech_batch)
        self._received = 0

    def _rows(self, item: Pushed) -> Iterator[tuple[Tensor, bool]]:
        step = max(1, self._plan.hop * item.rate // FRAME_RATE)
        for first in range(0, item.samples.shape[1], step):
            with self._work.watch.stage("speech"):
                signal = self._resampler.push(item.samples[:, first : first + step])
                self._received += len(signal)
                rows = self._features.push(signal)
            yield rows, False
        if item.ended:
            with self._work.watch.stage("speech"):
                signal = self._resampler.flush()
                self._received += len(signal)
                rows = torch.cat([self._features.push(signal), self._features.finish(self._plan.rows(self._received))])
            yield rows, True


class MotionStage:
    """Speech features to motion, a window at a time."""

    def __init__(self, work: Work, source: Belt[SpeechRows | Ending], target: Belt[MotionRows | Ending]) -> None:
        self._work, self._source, self._target = work, source, target
        motion, models = work.motion, work.models
        self._steps = models.preset.default_steps if motion.steps is None else motion.steps
        self._sampler = FusedSampler(models.lmdm, steps=self._steps, guidance=motion.guidance)
        self._conditions = Conditions.of(work.avatar, motion.emotion)
        self._silence = silent_features(work.encoder, motion.plan)
        self._key: tuple[int, int] | None = None
        self._epoch, self._next = -1, 0
        cuda = models.device.type == "cuda"
        # beside the pictures' stream: whoever waits for a picture does not wait for motion, too
        self._cuda_stream = torch.cuda.Stream(models.device) if cuda else None

    def warm_up(self) -> None:
        """Runs a window, so that the next one is not the first."""
        models = self._work.models
        with self._on_stream():
            condition = torch.zeros(1, WINDOW_ROWS, models.preset.condition_size)
            sample = network_sampler(
                models.lmdm, self._work.motion.plan, seed=0, steps=self._steps,
                guidance=self._work.motion.guidance, drawn_by=self._sampler,
            )  # fmt: skip
            sample(0, condition, torch.zeros(1, MOTION_SIZE)).cpu()

    def __call__(self) -> None:
        """Runs until the session stops."""
        with self._on_stream():
            while True:
                item = self._source.take()
                if isinstance(item, Ending):
                    self._target.put(item)
                    continue
                with contextlib.suppress(Outdated):
                    self._take(item)

    def close(self) -> None:
        """Gives the sampler's graphs back."""
        self._sampler.close()

    def _take(self, item: SpeechRows) -> None:
        self._begin(item)
        self._stream.push(item.rows.to(self._work.models.device))
        if item.ended:
            self._stream.finish()
        while True:
            with self._work.watch.stage("motion"):
                rows = self._stream.step()
            if rows is None:
                break
            self._give(item, rows, ended=False)
        if item.ended:
            self._give(item, torch.zeros(0, MOTION_SIZE), ended=True)

    def _give(self, item: SpeechRows, rows: Tensor, *, ended: bool) -> None:
        if len(rows):
            self._work.watch.through("motion")
            self._next += len(rows)
        if len(rows) or ended:
            self._target.put(
                MotionRows(
                    epoch=item.epoch,
                    segment=item.segment,
                    first=self._first,
                    rows=rows,
                    reference=self._stream.reference,
                    ended=ended,
                )
            )

    def _begin(self, item: SpeechRows) -> None:
        if (item.epoch, item.segment) == self._key:
            return
        self._key = item.epoch, item.segment
        if item.epoch != self._epoch:
            self._epoch, self._next = item.epoch, self._work.place.frame
        self._first = self._next
        motion, models = self._work.motion, self._work.models
        silence = self._silence
        self._stream = MotionStream(
            motion.plan,
            self._conditions,
            network_sampler(
                models.lmdm,
                motion.plan,
                seed=motion.seed + item.segment,
                steps=self._steps,
                guidance=motion.guidance,
                check_cancelled=self._check_of(item),
                drawn_by=self._sampler,
            ),
            silence=None if silence is None else silence.to(models.device),
            first_frame=self._first,
        )

    def _check_of(self, item: SpeechRows) -> Callable[[], None]:
        crew = self._work.crew

        def check() -> None:
            crew.check()
            if not crew.is_current(item):
                raise Outdated

        return check

    def _on_stream(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext() if self._cuda_stream is None else torch.cuda.stream(self._cuda_stream)


class RenderStage:
    """Motion to pictures."""

    def __init__(self, work: Work, source: Belt[MotionRows | Ending], target: Belt[Drawn | Ending]) -> None:
        self._work, self._source, self._target = work, source, target
        self._renderer = Renderer(work.backend, work.avatar, work.options)
        self._key: tuple[int, int] | None = None
        self._epoch = -1
        self._last: Tensor | None = None

    @property
    def executed_by(self) -> str:
        """See `Renderer`."""
        return self._renderer.executed_by

    def warm_up(self) -> None:
        """Draws a batch, so that the next one is not the first."""
        self._work.backend.warm_up(self._renderer.batch)
        points = torch.zeros(1, KEYPOINTS, 3)
        self._renderer.render(points, points, colour=self._work.colour)

    def __call__(self) -> None:
        """Runs until the session stops."""
        while True:
            item = self._source.take()
            if isinstance(item, Ending):
                self._target.put(item)
                continue
            self._begin(item)
            drawer = self._drawer  # there is none before the first rows
            while drawer is not None and (piece := self._next_piece(item)) is not None:
                self._target.put(self._draw(item, piece, drawer))

    def _begin(self, item: MotionRows) -> None:
        if (item.epoch, item.segment) != self._key:
            self._key = item.epoch, item.segment
            if item.epoch != self._epoch:
                self._epoch, self._last = item.epoch, self._work.place.moved
            self._drawer: FrameDrawer | None = None
            self._origin, self._done = item.first, 0  # frames of the segment that are drawn
            self._rows = torch.zeros(0, MOTION_SIZE)
            self._drawn_row = torch.zeros(1, MOTION_SIZE)  # of the last frame that is drawn
            self._before = self._last
        if len(item.rows) and item.reference is not None:
            self._add(item.rows, item.reference)

    def _add(self, rows: Tensor, reference: Tensor) -> None:
        work = self._work
        if self._drawer is None:
            self._rest = reference if work.controls.relative else torch.zeros_like(reference)
            self._gap = None if self._before is None else self._before + self._rest - rows[0]
            mixer = MotionMixer(
                work.avatar,
                work.controls,
                reference=reference,
                first=self._joined(rows[:1], 0)[0],
                device=work.models.device,
            )
            self._drawer = FrameDrawer(work.models, self._renderer, mixer)
        self._rows = torch.cat([self._rows, self._joined(rows, self._done + len(self._rows))])

    def _joined(self, rows: Tensor, first: int) -> Tensor:
        """Rows moved to go on from the last frame of the segment before; the move fades."""
        if self._gap is None or first >= _JOINED_FRAMES:
            return rows
        places = torch.arange(first + 1, first + 1 + len(rows))[:, None]
        return rows + self._gap * (1 - places / (_JOINED_FRAMES + 1)).clamp(min=0)

    def _next_piece(self, item: MotionRows) -> range | None:
        """The frames to draw now, counted in the segment; None for what an interrupt made useless."""
        if not self._work.crew.is_current(item):
            return None
        available = self._done + len(self._rows)
        if self._work.options.cadence == 2:
            return next_piece(self._done, available, ended=item.ended, length=self._work.motion.plan.piece)
        batch = self._renderer.batch
        to_border = batch - (self._origin + self._done) % batch
        return range(self._done, min(available, self._done + to_border)) if self._done < available else None

    def _draw(self, item: MotionRows, piece: range, drawer: FrameDrawer) -> Drawn:
        rows, self._rows = self._rows[: len(piece)], self._rows[len(piece) :]
        first = self._origin + piece.start
        before = lead(piece) if self._work.options.cadence == 2 else 0
        with self._work.watch.stage("render"):
            vectors = torch.cat([self._drawn_row[:before], rows])
            frames = drawer(vectors, first=first - before, lead=before, colour=self._work.colour)
            frames = frames._replace(pictures=_in_memory(frames.pictures))
        self._work.watch.through("render")
        self._done, self._drawn_row = piece.stop, rows[-1:]
        moved = rows - self._rest
        self._last = moved[-1]
        return Drawn(
            epoch=item.epoch,
            segment=item.segment,
            origin=self._origin,
            first=first,
            frames=frames,
            moved=moved,
            made_at=self._work.clock.now(),
        )


def _in_memory(pictures: Tensor) -> Tensor:
    """Pictures where whoever takes them need not wait for what the device does meanwhile."""
    if not pictures.is_cuda:
        return pictures
    return torch.empty(pictures.shape, dtype=pictures.dtype, pin_memory=True).copy_(pictures)

"""A live session: sound goes in bit by bit, frames and their sound come out while it still arrives."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator
from fractions import Fraction
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..avatar import Avatar
from ..backends import RenderBackend
from ..checkpoints import DittoModels
from ..errors import DittoError, InvalidValueError
from ..motion.controls import MotionControls
from ..render import RenderOptions
from ..speech import SpeechEncoder
from ..speech.resample import check_rate, check_values
from ..speech.windows import FRAME_RATE, ROW_SAMPLES
from .clock import Clock, SystemClock
from .frames import Colour, check_made_with, describe_models
from .live_items import Drawn, Ending, LiveFrame, MotionRows, Pushed, SegmentSound, SpeechRows
from .live_stages import MotionStage, RenderStage, SpeechStage, Work
from .motion import MotionOptions
from .plan import named_plan
from .stages import Belt, Crew, Stopped
from .stopwatch import Stopwatch

_MOTION, _CONTROLS, _OPTIONS = MotionOptions(plan=named_plan("low-latency")), MotionControls(), RenderOptions()
_PUSHES, _SPEECH, _MOVED, _DRAWN = 1 << 30, 16, 2, 4
"""Items that the queues hold. That of pushes is bounded by the sound in it."""
_MOST_PENDING_S = 3600.0
_ENOUGH_PENDING_S = 2.0
_REMEMBERED_FRAMES = 10 * FRAME_RATE


class SessionError(DittoError):
    """A session was used in a way that it can't be, or its threads do not end."""


class Session:
    """Turns sound into frames while it arrives: three stages on threads of their own, joined by bounded queues.

    A session holds any number of segments, one after the other. Frames are counted through all of them, and each
    carries its sound. The first segment's frames are, bit for bit, those of `SpeechFrames` with the same options;
    later ones draw other noise (seed + number of the segment) and go on from where the last one ended. One thread
    may push while another takes. Making a session warms everything up: it takes as long as a window of motion and a
    batch of frames.

    Args:
        models: the networks; several sessions may share them, as they may encoder, backend and avatar.
        encoder: the speech encoder that belongs to them.
        backend: what draws the faces.
        avatar: the presenter.
        motion: how motion is made; the plan says how long a frame waits for sound.
        controls: what is changed about it; curves count the session's frames.
        options: batch (the plan's own where None) and cadence.
        colour: what the pictures are.
        clock: tells when frames were made.

    Raises:
        InvalidValueError: the avatar was made with other models, or an option is out of range.
    """

    def __init__(
        self,
        *,
        models: DittoModels,
        encoder: SpeechEncoder,
        backend: RenderBackend,
        avatar: Avatar,
        motion: MotionOptions = _MOTION,
        controls: MotionControls = _CONTROLS,
        options: RenderOptions = _OPTIONS,
        colour: Colour = "nv12",
        clock: Clock | None = None,
    ) -> None:
        check_made_with(models, avatar=avatar.models)
        if options.batch is None:
            options = dataclasses.replace(options, batch=motion.plan.render_batch)
        self._clock = clock or SystemClock()
        self._enough_pending_s = _ENOUGH_PENDING_S + motion.plan.look_ahead / (ROW_SAMPLES * FRAME_RATE)
        self._crew = Crew()
        self._work = Work(
            models=models,
            encoder=encoder,
            backend=backend,
            avatar=avatar,
            motion=motion,
            controls=controls,
            options=options,
            colour=colour,
            crew=self._crew,
            clock=self._clock,
            watch=Stopwatch(self._clock),
        )
        self._pushed: Belt[Pushed | Ending] = Belt(self._crew, _PUSHES)
        speech: Belt[SpeechRows | Ending] = Belt(self._crew, _SPEECH)
        moved: Belt[MotionRows | Ending] = Belt(self._crew, _MOVED)
        self._drawn: Belt[Drawn | Ending] = Belt(self._crew, _DRAWN)
        self._belts: tuple[Belt[Any], ...] = (self._pushed, speech, moved, self._drawn)
        self._sounds: dict[int, SegmentSound] = {}
        self._segment, self._is_open, self._is_finished, self._is_over = 0, False, False, False
        self._first_push: float | None = None
        self._piece: Drawn | None = None
        self._taken = 0
        self._played: int | None = None
        self._shown: deque[tuple[int, Tensor]] = deque(maxlen=_REMEMBERED_FRAMES)
        self._motion_stage = MotionStage(self._work, speech, moved)
        self._render_stage = RenderStage(self._work, moved, self._drawn)
        self._motion_stage.warm_up()
        self._render_stage.warm_up()
        self._crew.start("speech", SpeechStage(self._work, self._pushed, speech))
        self._crew.start("motion", self._motion_stage)
        self._crew.start("render", self._render_stage)

    def __enter__(self) -> Session:
        """The session."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    @property
    def pending(self) -> float:
        """Seconds of sound that were pushed and whose frames were not taken yet."""
        with self._crew.changed:
            return sum(sound.seconds for sound in self._sounds.values())

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the pictures."""
        return self._work.avatar.frames.size

    @property
    def fps(self) -> Fraction:
        """Frames a second."""
        return Fraction(FRAME_RATE)

    @property
    def device(self) -> torch.device:
        """Where the networks run; the pictures are in memory."""
        return self._work.models.device

    def push_audio(self, samples: NDArray[np.floating], rate: int, *, wait: bool = False) -> None:
        """Takes more sound of the open segment, or opens one.

        Args:
            samples: (n,) or (channels, n) floats, nominally -1 to 1; n may be 0. Not to be changed afterwards.
            rate: samples a second, 8,000 to 192,000; the same through a segment, as is the number of channels.
            wait: waits while two seconds more sound are pending than a frame waits for, for who reads from a file or
                a pipe.

        Raises:
            InvalidValueError: rate, shape or values are out of range, or differ within the segment.
            SessionError: the session is finished or closed, or an hour of sound is pending.
            Exception: whatever made a stage fail.
        """
        check_rate(rate)
        check_values(samples, rate)
        block = np.atleast_2d(samples)
        if block.ndim != 2 or not len(block):
            raise InvalidValueError(
                f"samples of shape {samples.shape}", remedy="push (samples,) or (channels, samples)"
            )
        with self._crew.changed:
            while wait and self._is_running() and self.pending > self._enough_pending_s:
                self._crew.changed.wait()
            self._check_open()
            if self.pending > _MOST_PENDING_S:
                raise SessionError("an hour of sound is pending", remedy="take frames while you push")
            sound = self._sounds.get(self._segment) if self._is_open else None
            if sound is None:
                sound = self._sounds[self._segment] = SegmentSound(rate, len(block))
                self._is_open = True
            if (rate, len(block)) != (sound.rate, sound.channels):
                raise InvalidValueError(
                    f"sound of {rate} samples a second and {len(block)} channels in a segment of {sound.rate} and "
                    f"{sound.channels}",
                    remedy="end the segment first",
                )
            if self._first_push is None:
                self._first_push = self._clock.now()
            sound.push(block)
            self._push(block, rate, ended=False)

    def end_segment(self) -> None:
        """Ends the open segment, so that its last frames are made; nothing happens where none is open.

        Raises:
            SessionError: the session is finished or closed.
        """
        with self._crew.changed:
            self._check_open()
            if self._is_open:
                sound = self._sounds[self._segment]
                self._push(np.zeros((sound.channels, 0), np.float32), sound.rate, ended=True)
                self._segment, self._is_open = self._segment + 1, False

    def finish(self) -> None:
        """Ends the open segment and the session: iteration stops after the last frame."""
        with self._crew.changed:
            if not self._is_finished:
                self.end_segment()
                self._is_finished = True
                self._pushed.put(Ending(epoch=self._crew.epoch))

    def interrupt(self) -> Fraction:
        """Drops all sound and frames that are not taken yet, and the open segment; frames count on from there.

        Where `played` was called, frames after that are taken as not shown, too.

        Returns:
            Seconds from the session's start to the end of the last frame that was taken, or played.

        Raises:
            SessionError: the session is closed.
        """
        with self._crew.changed:
            self._check_running()
            frame = self._taken if self._played is None else self._played
            moved = next((moved for number, moved in reversed(self._shown) if number < frame), None)
            self._work.place.frame, self._work.place.moved = frame, moved
            self._crew.epoch += 1
            for belt in self._belts:
                belt.clear()
            self._segment, self._is_open = self._segment + 1, False
            self._sounds.clear()
            self._piece, self._taken = None, frame
            if self._is_finished:
                self._pushed.put(Ending(epoch=self._crew.epoch))
            self._crew.tell()
            return Fraction(frame, FRAME_RATE)

    def played(self, pts: Fraction) -> None:
        """Acknowledges that the frame of a time stamp, and all before it, were shown.

        Args:
            pts: `LiveFrame.pts`.

        Raises:
            InvalidValueError: that frame was not taken yet.
        """
        frame = math.floor(pts * FRAME_RATE) + 1
        with self._crew.changed:
            if not 0 < frame <= self._taken:
                raise InvalidValueError(f"a frame played at {pts} s, of {self._taken} taken", remedy="take it first")
            self._played = max(frame, self._played or 0)

    def __iter__(self) -> Iterator[LiveFrame]:
        """Frames in order, each once, as they are made; ends after `finish` or `close`.

        Raises:
            Exception: whatever made a stage fail.
        """
        while (frame := self._wait_for_frame()) is not None:
            yield frame

    async def __aiter__(self) -> AsyncIterator[LiveFrame]:
        """The same for an event loop, which is never blocked; a cancelled wait loses no frame."""
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        end = self._crew.watch(wake)
        try:
            while True:
                changed.clear()
                frame = self.take()
                if frame is not None:
                    yield frame
                elif self._is_over or not self._is_running():
                    return
                else:
                    await changed.wait()
        finally:
            end()

    def take(self) -> LiveFrame | None:
        """The next frame if it is made, without waiting; else None.

        Raises:
            Exception: whatever made a stage fail.
        """
        with self._crew.changed:
            try:
                return self._next_frame()
            except Stopped:
                return None

    def report(self) -> dict[str, Any]:
        """What the frames are made with, the time that the stages took, and the first frame's way; ready for JSON."""
        work, motion = self._work, self._work.motion
        steps = work.models.preset.default_steps if motion.steps is None else motion.steps
        first = {} if self._first_push is None else work.watch.first_ms(self._first_push)
        return {
            "executed_by": {
                "speech": work.encoder.executed_by,
                "motion": f"torch on {work.models.device}",
                "render": self._render_stage.executed_by,
            },
            "seed": motion.seed,
            "steps": steps,
            "plan": motion.plan.to_json(),
            "models": describe_models(work.models),
            "eyes_measured": work.avatar.eyes_measured,
            "stages_ms": work.watch.stages_ms(),
            "first_ms": first,
        }

    def fail(self, error: BaseException) -> None:
        """Stops all stages; whoever takes or pushes gets the error. For who pushes on a thread of their own."""
        self._crew.stop(error)

    def close(self) -> None:
        """Stops all stages, waits for their end and gives back what they hold; frames not taken are lost.

        Raises:
            SessionError: a stage does not end within half a minute.
        """
        self._crew.stop()
        if not self._crew.join():
            raise SessionError("a session whose threads do not end", remedy="see whether the device still answers")
        self._motion_stage.close()
        with self._crew.changed:
            for belt in self._belts:
                belt.clear()
            self._sounds.clear()
            self._piece = None

    def _push(self, samples: NDArray[np.floating], rate: int, *, ended: bool) -> None:
        self._pushed.put(Pushed(epoch=self._crew.epoch, segment=self._segment, samples=samples, rate=rate, ended=ended))

    def _is_running(self) -> bool:
        try:
            self._crew.check()
        except BaseException:
            return False
        return True

    def _check_running(self) -> None:
        try:
            self._crew.check()
        except Stopped as error:
            raise SessionError("a session that is closed", remedy="open a new one") from error

    def _check_open(self) -> None:
        self._check_running()
        if self._is_finished:
            raise SessionError("sound for a finished session", remedy="open a new one")

    def _wait_for_frame(self) -> LiveFrame | None:
        with self._crew.changed:
            while True:
                frame = self.take()
                if frame is not None or self._is_over or not self._is_running():
                    return frame
                self._crew.changed.wait()

    def _next_frame(self) -> LiveFrame | None:
        if self._piece is None:
            drawn = self._drawn.poll()
            if isinstance(drawn, Ending):
                self._is_over = True
            elif drawn is not None:
                self._piece = drawn
        piece = self._piece
        if piece is None:
            return None
        place = self._taken - piece.first
        sound = self._sounds[piece.segment]
        start, samples = sound.take(self._taken - piece.origin)
        frame = LiveFrame(
            number=self._taken,
            segment=piece.segment,
            picture=piece.frames.pictures[place],
            face_box=piece.frames.face_boxes[place],
            mouth=piece.frames.mouths[place],
            sound=samples,
            rate=sound.rate,
            sound_pts=Fraction(piece.origin, FRAME_RATE) + Fraction(start, sound.rate),
            made_at=piece.made_at,
        )
        self._shown.append((self._taken, piece.moved[place]))
        self._taken += 1
        if place + 1 == len(piece.moved):
            self._piece = None
        for old in [number for number in self._sounds if number < piece.segment]:
            del self._sounds[old]
        self._crew.tell()
        return frame

"""A session's frames for live players: as frames of PyAV, and at the pace of a clock."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from fractions import Fraction
from typing import Protocol, TypeVar

import av
import numpy as np
import torch

from ..errors import InvalidValueError
from ..speech.windows import FRAME_RATE
from ..video.pictures import FrameMaker
from .clock import Clock
from .live_items import LiveFrame

_MOST_KEPT = 60 * FRAME_RATE
_LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}
_Made = TypeVar("_Made", av.VideoFrame, av.AudioFrame)


class FrameRow(Protocol):
    """Frames to wait for: a session's, or those of a player that paces them."""

    def __iter__(self) -> Iterator[LiveFrame]:
        """Frames in order, as they are made."""
        ...

    def __aiter__(self) -> AsyncIterator[LiveFrame]:
        """The same for an event loop."""
        ...


class FrameSource(FrameRow, Protocol):
    """A session, as far as players ask about it."""

    def take(self) -> LiveFrame | None:
        """The next frame if it is made, without waiting."""
        ...


def video_frame(frame: LiveFrame) -> av.VideoFrame:
    """The picture as a frame of PyAV, NV12 with its time stamp."""
    (made,) = FrameMaker("libx264", torch.device("cpu"))(frame.picture[None].contiguous())
    made.pts, made.time_base = frame.number, Fraction(1, FRAME_RATE)
    return made


def audio_frame(frame: LiveFrame) -> av.AudioFrame:
    """The sound as a frame of PyAV, 16 bits interleaved with its time stamp.

    Raises:
        InvalidValueError: players know no layout of that many channels.
    """
    channels = len(frame.sound)
    if channels not in _LAYOUTS:
        raise InvalidValueError(f"a sound of {channels} channels", remedy=f"mix it down to one of {sorted(_LAYOUTS)}")
    values = np.clip(np.rint(frame.sound.T * 32767), -32768, 32767).astype(np.int16)
    made = av.AudioFrame.from_ndarray(np.ascontiguousarray(values).reshape(1, -1), "s16", _LAYOUTS[channels])
    made.sample_rate, made.time_base = frame.rate, Fraction(1, frame.rate)
    made.pts = round(frame.sound_pts * frame.rate)
    return made


class MediaFrames:
    """A session's pictures and sound as two rows of PyAV frames, each taken at its own pace.

    What one row has taken is kept for the other, a minute at most; then the oldest is dropped.

    Args:
        frames: the session, or its `PacedFrames`; nobody else takes its frames.
    """

    def __init__(self, frames: FrameRow) -> None:
        self._waiting, self._arriving = iter(frames), aiter(frames)
        self._rows: dict[str, deque[LiveFrame]] = {row: deque(maxlen=_MOST_KEPT) for row in ("video", "audio")}
        self._lock, self._async_lock = threading.Lock(), asyncio.Lock()

    def video_frames(self) -> Iterator[av.VideoFrame]:
        """Pictures in order, as they are made."""
        return self._frames("video", video_frame)

    def audio_frames(self) -> Iterator[av.AudioFrame]:
        """Sound in order, 40 ms a frame."""
        return self._frames("audio", audio_frame)

    async def next_video(self) -> av.VideoFrame | None:
        """The next picture, for an event loop; None at the end."""
        frame = await self._next("video")
        return None if frame is None else video_frame(frame)

    async def next_audio(self) -> av.AudioFrame | None:
        """The next 40 ms of sound, for an event loop; None at the end."""
        frame = await self._next("audio")
        return None if frame is None else audio_frame(frame)

    def _frames(self, row: str, make: Callable[[LiveFrame], _Made]) -> Iterator[_Made]:
        while True:
            with self._lock:
                if not self._rows[row] and not self._keep(next(self._waiting, None)):
                    return
                frame = self._rows[row].popleft()
            yield make(frame)

    async def _next(self, row: str) -> LiveFrame | None:
        async with self._async_lock:
            if not self._rows[row] and not self._keep(await anext(self._arriving, None)):
                return None
            return self._rows[row].popleft()

    def _keep(self, frame: LiveFrame | None) -> bool:
        if frame is None:
            return False
        for row in self._rows.values():
            row.append(frame)
        return True


class PacedFrames:
    """A session's frames at the pace of a clock, for a player that shows each at once.

    A frame that is late although a newer one is made is dropped: its sound goes to the newer one. So a slow player
    catches up. Where nothing newer is made, the late frame is shown.

    Args:
        session: the session; nobody else takes its frames.
        clock: the time.
        late_s: seconds after its time from which a frame is late, 0 or above.

    Attributes:
        dropped: pictures that were not shown.

    Raises:
        InvalidValueError: late_s is negative.
    """

    def __init__(self, session: FrameSource, clock: Clock, *, late_s: float = 0.1) -> None:
        if late_s < 0:
            raise InvalidValueError(f"frames that are late after {late_s} s", remedy="choose 0 or more")
        self.dropped = 0
        self._session, self._clock, self._late_s = session, clock, late_s

    def __iter__(self) -> Iterator[LiveFrame]:
        """Frames, each not before its time; the first one's is when it comes."""
        start: float | None = None
        for frame in self._session:
            start = self._clock.now() - float(frame.pts) if start is None else start
            shown = self._newest(frame, start)
            self._clock.sleep(self._early_s(shown, start))
            yield shown

    async def __aiter__(self) -> AsyncIterator[LiveFrame]:
        """The same for an event loop, which is never blocked."""
        start: float | None = None
        async for frame in self._session:
            start = self._clock.now() - float(frame.pts) if start is None else start
            shown = self._newest(frame, start)
            await self._clock.pause(self._early_s(shown, start))
            yield shown

    def _early_s(self, frame: LiveFrame, start: float) -> float:
        return start + float(frame.pts) - self._clock.now()

    def _newest(self, frame: LiveFrame, start: float) -> LiveFrame:
        """The frame, or the first one after it that is not late, with the sound of those between."""
        while self._clock.now() > start + frame.pts + self._late_s:
            newer = self._session.take()
            if newer is None:
                break
            self.dropped += 1
            frame = _with_sound_of(frame, newer)
        return frame


def _with_sound_of(dropped: LiveFrame, newer: LiveFrame) -> LiveFrame:
    if (dropped.rate, len(dropped.sound)) != (newer.rate, len(newer.sound)):
        return newer  # another segment's sound, which can't be joined
    return dataclasses.replace(
        newer, sound=np.concatenate([dropped.sound, newer.sound], axis=1), sound_pts=dropped.sound_pts
    )

"""From a session to a target: frames are encoded as they come, and what a stream promises is measured."""

from __future__ import annotations

import itertools
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidValueError
from ..progress import Progress
from ..speech import Sound
from ..speech.windows import FRAME_RATE
from ..video import EncoderOptions
from ..video.sinks import Target, sink_name, stream_sink
from .clock import Clock, SystemClock
from .live_items import LiveFrame
from .samples import SampleQueue
from .session import Session, SessionError
from .timing import peak_memory_mb

Block = tuple[NDArray[np.floating], int]
"""(channels, n) samples and their rate."""

_VIDEO = EncoderOptions(quality="live")
_BUFFER_S = 1 / FRAME_RATE
"""What a player holds before it begins, for counting the frames that come too late for it."""


class GrowingSound:
    """A sound that an encoder reads while it grows.

    Args:
        rate: samples a second.
        channels: of the sound.
    """

    def __init__(self, rate: int, channels: int) -> None:
        self._rate, self._samples = rate, SampleQueue(channels)

    @property
    def rate(self) -> int:
        """Samples a second."""
        return self._rate

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self._samples.channels

    def push(self, frame: LiveFrame) -> None:
        """Appends a frame's sound.

        Raises:
            InvalidValueError: it has another rate or number of channels.
        """
        if (frame.rate, len(frame.sound)) != (self._rate, self.channels):
            raise InvalidValueError(
                f"sound of {frame.rate} samples a second and {len(frame.sound)} channels in a stream of "
                f"{self._rate} and {self.channels}",
                remedy="push all segments in one form",
            )
        self._samples.push(frame.sound)

    def part(self, start: int, stop: int) -> NDArray[np.float32]:
        """See `video.sound.SoundSource`."""
        return self._samples.take(stop - start).astype(np.float32, copy=False)


def paced(sound: Sound, clock: Clock) -> Iterator[Block]:
    """A sound's blocks of one frame each, at the moment at which their last sample would have been spoken."""
    start = clock.now()
    for number, first in enumerate(range(0, sound.samples.shape[1], step := max(1, sound.rate // FRAME_RATE)), 1):
        clock.sleep(start + number * step / sound.rate - clock.now())
        yield sound.samples[:, first : first + step], sound.rate


def feed(session: Session, blocks: Iterable[Block]) -> None:
    """Pushes blocks on a thread of its own, in step with who takes frames, and finishes the session.

    What goes wrong with them reaches who takes frames. The thread ends with the blocks or with the session; where
    a block never comes, it waits for it and holds nothing up.
    """

    def push() -> None:
        try:
            for samples, rate in blocks:
                session.push_audio(samples, rate, wait=True)
            session.finish()
        except SessionError:
            return  # closed
        except BaseException as error:
            session.fail(error)

    threading.Thread(target=push, name="ditto feed", daemon=True).start()


def stream_video(
    session: Session,
    blocks: Iterable[Block],
    target: Target,
    *,
    video: EncoderOptions = _VIDEO,
    live: bool = False,
    clock: Clock | None = None,
    progress: Progress | None = None,
    total: int = 0,
    check_cancelled: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Pushes sound into a session and writes the frames as they come.

    Args:
        session: new, and with pictures in NV12; it is finished afterwards, not closed.
        blocks: the sound.
        target: see `video.sinks.stream_sink`.
        video: encoder, quality and frame rate.
        live: whether the blocks come at the pace of speech.
        clock: the session's.
        progress: called with ("frames", done, total) after each frame.
        total: frames that are expected.
        check_cancelled: called for each frame; raises to stop.

    Returns:
        The report, ready for JSON. `ttff_ms` is from the first sound in the session, and `live_ttff_ms` from the
        first sample's arrival at the pace of speech, to the first video packet at the muxer; each is None where it
        does not apply. `starved_frames` came too late for a player that holds one frame before it begins.
        `first_ms` has the moments, from the first sound, at which each stage had its first result.

    Raises:
        SinkError: the target can't be opened, or broke.
        SessionError: there was no sound of which a frame is made.
    """
    clock = clock or SystemClock()
    started = clock.now()
    feed(session, blocks)
    frames = iter(session)
    first = next(frames, None)
    if first is None:
        raise SessionError("a stream without a frame", remedy="give sound")
    sound = GrowingSound(first.rate, len(first.sound))
    written, encode_s = array("d"), 0.0
    with stream_sink(target, size=session.size, sound=sound, options=video, source_fps=session.fps) as writer:
        for frame in itertools.chain([first], frames):
            if check_cancelled is not None:
                check_cancelled()
            before = clock.now()
            sound.push(frame)
            writer.write_nv12(frame.picture[None])
            written.append(clock.now())
            encode_s += written[-1] - before
            if progress is not None:
                progress("frames", len(written), total)
    wall = clock.now() - started
    report, about = writer.report(), session.report()
    packet = None if writer.first_packet_at is None else round((writer.first_packet_at - started) * 1000, 1)
    return {
        "target": sink_name(target),
        "frames": len(written),
        "fps": report["fps"],
        "size": [session.size[1], session.size[0]],
        "duration_s": report["duration_s"],
        "wall_s": round(wall, 3),
        "ttff_ms": None if live else packet,
        "live_ttff_ms": packet if live else None,
        "realtime_factor": round(report["duration_s"] / wall, 3),
        "inter_frame_ms": _intervals_ms(written),
        "starved_frames": starved(written),
        "encoder": report["encoder"],
        "quality": report["quality"],
        "executed_by": {**about.pop("executed_by"), "encode": report["executed_by"]},
        **about,
        "stages_ms": {**about["stages_ms"], "encode": round(encode_s * 1000, 1)},
        "peak_memory_mb": peak_memory_mb(session.device),
    }


def starved(written: Iterable[float]) -> int:
    """Frames that come too late for a player that holds one frame before it begins.

    Args:
        written: the moment in seconds at which each frame was there.
    """
    late, start = 0, None
    for number, moment in enumerate(written):
        start = moment if start is None else start
        late += moment > start + _BUFFER_S + number / FRAME_RATE
    return late


def _intervals_ms(written: array[float]) -> dict[str, float] | None:
    if len(written) < 2:
        return None
    p50, p95 = np.percentile(np.diff(np.asarray(written)), (50, 95)) * 1000
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2)}

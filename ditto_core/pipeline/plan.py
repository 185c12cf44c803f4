"""Plans: how sound becomes windows of motion, and when a frame may be shown. Pure: nothing is run here.

Rows are numbered from the first row of sound; rows of the silence before it are negative. Window k covers the
80 rows from k * chunk - silence. A row is final once no later window can change it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from ..errors import InvalidValueError
from ..networks.presets import MOTION_SIZE, WINDOW_ROWS
from ..speech.windows import ROW_SAMPLES, SpeechWindows, frame_count, upstream_offline_rows

_LARGEST_CHUNK = 70
_LARGEST_HOP = 5
_LARGEST_BATCH = 64
_MOST_AT_ONCE = 8
_LONGEST_PIECE = 32
_ONLINE_GRID_DELAY = 80
_POSE_COLUMNS = (0, 202)


@dataclass(frozen=True, kw_only=True)
class Reached:
    """How far a plan comes with the sound that has arrived.

    Attributes:
        speech_windows: windows that the speech encoder can run.
        rows: speech feature rows they give.
        windows: motion windows that can run.
        frames: frames that are final, and may be shown.
    """

    speech_windows: int
    rows: int
    windows: int
    frames: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One way to turn sound into motion. Different plans give different, equally valid motion.

    Attributes:
        name: a word for reports.
        chunk: new rows of each motion window, 1..70. The other 80 - chunk overlap the window before.
        hop: rows by which speech windows move, 1..5; such a window has 8 - hop rows of past and 2 of future.
        grid: where speech windows lie. "online", of the original's client, is 80 samples later.
        silence: rows of silence before the first row of sound, 0..overlap.
        fuse: rows over which a joint is blended. Backward: the last rows before the joint, at most the
            overlap. Forward: the first rows after it.
        forward: whether the newest rows are final at once and the blend lies after the joint, or the rows of
            a joint wait for the next window.
        smoothing: width of the centred mean over pose, scale and translation; odd, 1 is off.
        smooth_again: whether every row is smoothed once more when it is final.
        reference: the row whose motion counts as rest, d0; counted from the first of silence, 0..silence.
        reset_every: after every so many windows the next one starts from the source's motion; 0 never.
        reset_spares: columns [from, to) of the motion vector that such a reset leaves as predicted.
        noise: "window": each window draws its own. "row": each row does, so that windows which share a row
            share its noise, and differ less in what they predict for it.
        ending: "exact": as many frames as the sound has begun, each window padded by its last condition row.
            "upstream-offline": the same, but for a row too many where floating point rounds up.
            "upstream-online": as many as the original sends: rows of its client's padding, a whole last
            chunk, and nothing at all for less than one chunk.
        sampler_batch: batch of the sampler; fixed, since a batch of another size differs in the last bits.
        render_batch: batch of the renderer, fixed likewise.
        speech_batch: windows that the speech encoder takes at once, fixed likewise; 1 wastes nothing in a stream.
    """

    name: str
    chunk: int
    hop: int = 5
    grid: Literal["offline", "online"] = "offline"
    silence: int = 0
    fuse: int
    forward: bool = False
    smoothing: int = 3
    smooth_again: bool = False
    reference: int = 0
    reset_every: int = 0
    reset_spares: tuple[int, int] = (0, 0)
    noise: Literal["window", "row"] = "window"
    ending: Literal["exact", "upstream-offline", "upstream-online"] = "exact"
    sampler_batch: int = 1
    render_batch: int = 8
    speech_batch: int = 16

    def __post_init__(self) -> None:
        """Checks every value by itself, then against the others.

        Raises:
            InvalidValueError: a value is out of range.
        """
        self._check("chunk", 1, _LARGEST_CHUNK)
        self._check("hop", 1, _LARGEST_HOP)
        self._check("silence", 0, self.overlap)
        self._check("fuse", 0, WINDOW_ROWS if self.forward else self.overlap)
        self._check("smoothing", 1, self.overlap)
        self._check("reference", 0, self.silence)
        self._check("reset_every", 0, 1_000_000)
        self._check("sampler_batch", 1, _LARGEST_BATCH)
        self._check("render_batch", 1, _LARGEST_BATCH)
        self._check("speech_batch", 1, _LARGEST_BATCH)
        if self.smoothing % 2 == 0:
            raise self._error("smoothing", self.smoothing, "an odd number")
        if self.forward and self.smooth_again:
            raise self._error("smooth_again", True, "false where rows are final at once")
        start, stop = self.reset_spares
        if not 0 <= start <= stop <= MOTION_SIZE:
            raise self._error("reset_spares", self.reset_spares, f"two rising columns from 0 to {MOTION_SIZE}")
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise self._error(name, getattr(self, name), f"one of {', '.join(words)}")

    def _check(self, name: str, smallest: int, largest: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
            raise self._error(name, value, f"a whole number from {smallest} to {largest}")

    def _error(self, name: str, value: object, wanted: str) -> InvalidValueError:
        return InvalidValueError(f"plan '{self.name}' with {name} {value!r}", remedy=f"choose {wanted}")

    def to_json(self) -> dict[str, Any]:
        """The plan as a dictionary for a report."""
        return dataclasses.asdict(self)

    @property
    def overlap(self) -> int:
        """Rows that a window shares with the one before, 80 - chunk."""
        return WINDOW_ROWS - self.chunk

    @cached_property
    def speech(self) -> SpeechWindows:
        """Where the windows of the speech encoder lie, and the silence before the first."""
        windows = SpeechWindows.with_hop(self.hop)
        if self.grid == "offline":
            return windows
        return SpeechWindows.with_hop(self.hop, lead=windows.lead - _ONLINE_GRID_DELAY)

    @property
    def held(self) -> int:
        """Newest rows that are not final yet, because the next window or the smoothing still changes them."""
        return 0 if self.forward else self.fuse + (self.smoothing // 2 if self.smooth_again else 0)

    @property
    def piece(self) -> int:
        """Frames that are drawn together where each second one is interpolated, or one more or less."""
        return min(self.chunk, _LONGEST_PIECE)

    def rows(self, samples: int) -> int:
        """Speech feature rows of a whole sound of so many samples at 16 kHz."""
        if self.ending == "upstream-online":
            return self.speech.upstream_online_rows(samples)
        if self.ending == "upstream-offline":
            return upstream_offline_rows(samples)
        return frame_count(samples)

    def windows(self, rows: int) -> int:
        """Motion windows of a whole sound of so many rows."""
        return rows // self.chunk + 1 if self.ending == "upstream-online" else -(-rows // self.chunk)

    def frames(self, rows: int) -> int:
        """Frames of a whole sound of so many rows."""
        if self.ending == "upstream-online":
            return self.chunk * self.windows(rows) if rows >= self.chunk else 0
        return rows

    def window_rows(self, window: int) -> range:
        """The 80 rows that a motion window covers; negative ones are silence."""
        first = window * self.chunk - self.silence
        return range(first, first + WINDOW_ROWS)

    def rows_ready(self, samples: int) -> int:
        """Feature rows that can be had while sound is still arriving."""
        return self.hop * self.speech.ready(samples)

    def windows_ready(self, rows: int) -> int:
        """Motion windows that can run with so many feature rows, while more may come."""
        return max(0, (rows + self.silence - WINDOW_ROWS) // self.chunk + 1)

    def frames_ready(self, windows: int) -> int:
        """Frames that are final after so many motion windows, while more may come."""
        if windows == 0:
            return 0
        return max(0, windows * self.chunk + self.overlap - self.silence - self.held)

    def reached(self, samples: int, *, ended: bool = False) -> Reached:
        """How far the plan comes with the first so many samples of sound.

        Args:
            samples: samples at 16 kHz that have arrived.
            ended: whether they are all.
        """
        if ended:
            rows = self.rows(samples)
            windows, frames = self.windows(rows), self.frames(rows)
        else:
            rows = self.rows_ready(samples)
            windows = self.windows_ready(rows)
            frames = self.frames_ready(windows)
        return Reached(speech_windows=self.speech.count(rows), rows=rows, windows=windows, frames=frames)

    def samples_needed(self, frame: int) -> int:
        """Samples that must have arrived before a frame is final, if the sound does not end earlier."""
        windows = max(1, (frame + self.held + self.silence - self.overlap) // self.chunk + 1)
        rows = windows * self.chunk + self.overlap - self.silence
        return self.speech.samples_needed(rows - 1)

    @property
    def look_ahead(self) -> int:
        """Most samples that a frame waits for, counted from the first sample of its own sound."""
        period = max(WINDOW_ROWS, math.lcm(self.chunk, self.hop))
        return max(self.samples_needed(frame) - frame * ROW_SAMPLES for frame in range(2 * period))


_WORDS = {
    "grid": ("offline", "online"),
    "noise": ("window", "row"),
    "ending": ("exact", "upstream-offline", "upstream-online"),
}


def named_plan(name: str, *, chunk: int | None = None) -> Plan:
    """A plan by its name.

    - "offline": for files. Few windows with little overlap; exactly as many frames as the sound has begun.
    - "low-latency": the newest rows are shown at once, and the joint is blended after it. The first frame
      waits for `chunk` rows of sound and the speech encoder's two rows of future.
    - "upstream-offline", "upstream-online": the original's geometry, its faults at the end included.

    Args:
        name: one of `PLAN_NAMES`.
        chunk: new rows of a motion window, 1..70; the plan's own where left out.

    Raises:
        InvalidValueError: no plan has that name, or the chunk is out of range.
    """
    if name not in _PLANS:
        raise InvalidValueError(f"plan '{name}'", remedy=f"choose one of {', '.join(_PLANS)}")
    build, usual_chunk = _PLANS[name]
    chunk = usual_chunk if chunk is None else chunk
    if not isinstance(chunk, int) or isinstance(chunk, bool) or not 1 <= chunk <= _LARGEST_CHUNK:
        raise InvalidValueError(f"chunk of {chunk!r} rows", remedy=f"choose 1 to {_LARGEST_CHUNK}")
    return build(chunk)


def _offline(chunk: int) -> Plan:
    return Plan(name="offline", chunk=chunk, fuse=WINDOW_ROWS - chunk, smooth_again=True)


def _upstream_offline(chunk: int) -> Plan:
    return dataclasses.replace(_offline(chunk), name="upstream-offline", ending="upstream-offline")


def _upstream_online(chunk: int) -> Plan:
    overlap = WINDOW_ROWS - chunk
    return Plan(
        name="upstream-online",
        chunk=chunk,
        grid="online",
        silence=overlap,
        fuse=min(overlap, chunk),
        reset_every=1,
        reset_spares=_POSE_COLUMNS,
        ending="upstream-online",
        render_batch=_streaming_batch(chunk),
        speech_batch=1,
    )


def _low_latency(chunk: int) -> Plan:
    return Plan(
        name="low-latency",
        chunk=chunk,
        # A hop that divides the chunk makes no chunk wait for sound that it does not need.
        hop=max(hop for hop in range(1, _LARGEST_HOP + 1) if chunk % hop == 0),
        silence=WINDOW_ROWS - chunk,
        fuse=10,
        forward=True,
        reset_every=1,
        reset_spares=_POSE_COLUMNS,
        noise="row",
        render_batch=_streaming_batch(chunk),
        speech_batch=1,
    )


def _streaming_batch(chunk: int) -> int:
    """The batch that draws a chunk with the least work; a batch costs its faces and about one more."""
    return min(range(1, _MOST_AT_ONCE + 1), key=lambda batch: -(-chunk // batch) * (batch + 1))


_PLANS: dict[str, tuple[Callable[[int], Plan], int]] = {
    "offline": (_offline, 70),
    "low-latency": (_low_latency, 8),
    "upstream-offline": (_upstream_offline, 70),
    "upstream-online": (_upstream_online, 10),
}
PLAN_NAMES = tuple(_PLANS)

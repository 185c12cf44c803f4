"""Compares two videos of one talk: pictures, steps from frame to frame, frames shown, mouth, and sound."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..media import Media, MediaError, open_media
from ..speech import analysis_signal, read_sound
from .alignment import Alignment, align
from .clips import ClipCourses, ClipMeter, FaceTrack, PairMeter
from .courses import correlation, lag, spikes, usual_there
from .drawing import Pixels, scaled
from .findings import findings
from .mouth import aperture_difference
from .sound import loudness, sound_shift

MONTAGE_HEIGHT = 240
"""Pixels of a tile."""
_TILES = 5
_UNTIMED_RATE = Fraction(25)
_LEAST_LIP_R, _LEAST_SOUND_R = 0.3, 0.5
_SMALLEST_SIDE = 11
_NO_MOUTH = "it is not known where the mouth is: give the mouth's box, or the report of the render as a track"


@dataclass(frozen=True, kw_only=True, eq=False)
class Tile:
    """One frame of both videos, small.

    Attributes:
        frame: its number.
        reference: (240, w, 3) RGB; None where that video has no such frame.
        test: the same of the test.
    """

    frame: int
    reference: Pixels | None
    test: Pixels | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """What was found.

    Attributes:
        report: all figures, ready for JSON. `not_measured` says what is missing and why.
        curves: courses over frames by name, for charts.
        tiles: the chosen frames.
    """

    report: dict[str, Any]
    curves: dict[str, NDArray[np.float64]]
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, kw_only=True)
class _Video:
    """What a video file says of itself."""

    path: Path
    size: tuple[int, int]
    fps: Fraction
    frames: int

    @classmethod
    def of(cls, media: Media) -> _Video:
        fps = Fraction(media.fps or _UNTIMED_RATE)
        stream = media.stream
        seconds = float(stream.duration * stream.time_base) if stream.duration else 0.0
        return cls(
            path=media.path,
            size=(stream.width, stream.height),
            fps=fps,
            frames=stream.frames or round(seconds * fps),
        )


def compare_videos(
    reference: str | Path,
    test: str | Path,
    *,
    track: FaceTrack | None = None,
    frames: Sequence[int] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> Comparison:
    """Compares a test with a reference, frame by frame; neither video is held in memory.

    Args:
        reference: a video file.
        test: another one, of the same talk and the same frame rate where pictures are to be compared.
        track: where the mouth is in each frame, for both; without it, aperture and lips are not measured.
        frames: those to show beside each other; five spread over the reference by default.
        progress: called with ("compare", frames done, frames expected).
        check_cancelled: called before each frame; raises to stop.

    Raises:
        MediaError: a file can't be read, or holds no picture.
        InvalidValueError: the track belongs to frames of another size, or frames change their size.
    """
    missing: dict[str, str] = {}
    with open_media(reference, "video") as a, open_media(test, "video") as b:
        videos = _Video.of(a), _Video.of(b)
        why = _no_pairs(*videos)
        pairs = None if why else PairMeter()
        meters = ClipMeter(track), ClipMeter(track)
        shown = _chosen(videos[0].frames) if frames is None else frames
        crop = track.boxes[0] if track is not None and track.boxes else None
        tiles = []
        for i, (x, y) in enumerate(_together(a, b)):
            if check_cancelled is not None:
                check_cancelled()
            for meter, picture in zip(meters, (x, y), strict=True):
                if picture is not None:
                    meter.add(picture)
            if pairs is not None and x is not None and y is not None:
                pairs.add(x, y)
            if i in shown:
                tiles.append(Tile(frame=i, reference=_tile(x, crop), test=_tile(y, crop)))
            if progress is not None:
                progress("compare", i + 1, max(i + 1, *(video.frames for video in videos)))
    courses = meters[0].courses(), meters[1].courses()
    for video, course in zip(videos, courses, strict=True):
        if not len(course.steps):
            raise MediaError(video.path, "holds no picture", remedy="export the file anew")
    if why:
        missing["pictures"] = why
    alignment = None if why else align(courses[0].thumbnails, courses[1].thumbnails)
    report: dict[str, Any] = {
        "reference": _described(videos[0], courses[0]),
        "test": _described(videos[1], courses[1]),
        "compared_frames": 0 if pairs is None else min(len(course.steps) for course in courses),
        "pictures": None if pairs is None else pairs.summary(),
        "steps": _steps(courses, alignment, pairs),
        "shown": _shown(alignment, missing),
        "aperture": _apertures(track, courses, missing),
        "lips_and_sound": _lips_and_sound(videos, courses, alignment, missing),
    }
    report["findings"] = findings(report)
    report["not_measured"] = missing
    curves = {"reference step": courses[0].steps, "test step": courses[1].steps}
    if pairs is not None:
        curves |= {"psnr y": pairs.psnr_course(), "ssim": pairs.course("ssim"), "delta": pairs.course("mean")}
        curves["block delta"] = pairs.course("largest_block")
    if track is not None:
        curves |= {"reference aperture": courses[0].apertures, "test aperture": courses[1].apertures}
    return Comparison(report=report, curves=curves, tiles=tuple(tiles))


def _together(a: Media, b: Media) -> Iterator[tuple[Pixels | None, Pixels | None]]:
    return itertools.zip_longest(a.pictures(), b.pictures())


def _no_pairs(reference: _Video, test: _Video) -> str:
    """Why frames can't be compared one by one; empty where they can."""
    if reference.size != test.size:
        return "sizes differ: {}x{} and {}x{}".format(*reference.size, *test.size)
    if reference.fps != test.fps:
        return f"frame rates differ: {reference.fps} and {test.fps}"
    if min(reference.size) < _SMALLEST_SIDE:
        return f"frames are below {_SMALLEST_SIDE} pixels"
    return ""


def _chosen(frames: int) -> list[int]:
    return sorted({round((i + 0.5) * max(frames, 1) / _TILES) for i in range(_TILES)})


def _tile(picture: Pixels | None, crop: tuple[int, int, int, int] | None) -> Pixels | None:
    if picture is None:
        return None
    if crop is not None:
        left, top, right, bottom = crop
        part = picture[top:bottom, left:right]
        picture = part if part.size else picture
    return scaled(picture, MONTAGE_HEIGHT)


def _described(video: _Video, courses: ClipCourses) -> dict[str, Any]:
    frames = len(courses.steps)
    return {
        "file": video.path.name,
        "size": list(video.size),
        "fps": str(video.fps),
        "frames": frames,
        "duration_s": float(frames / video.fps),
    }


def _steps(
    courses: tuple[ClipCourses, ClipCourses], alignment: Alignment | None, pairs: PairMeter | None
) -> dict[str, Any]:
    """Steps from frame to frame, and where the test jumps and the reference does not."""
    reference, test = (course.steps for course in courses)
    if pairs is not None and alignment is not None and alignment.late_frames == 0:
        jumps = pairs.spikes()
    else:
        n = min(len(reference), len(test))
        same = np.arange(n) if alignment is None else alignment.matches.clip(0, len(reference) - 1)
        jumps = spikes(test[: len(same)], usual_there(reference)[same])
    return {
        "reference_largest": float(reference.max()),
        "test_largest": float(test.max()),
        "spikes": list(jumps),
    }


def _shown(alignment: Alignment | None, missing: dict[str, str]) -> dict[str, Any] | None:
    if alignment is None:
        missing.setdefault("shown", missing.get("pictures", "nothing moves, or the videos show different motion"))
        return None
    return {
        "late_frames": alignment.late_frames,
        "duplicated": list(alignment.duplicated),
        "missing": list(alignment.missing),
    }


def _apertures(
    track: FaceTrack | None, courses: tuple[ClipCourses, ClipCourses], missing: dict[str, str]
) -> dict[str, Any] | None:
    if track is None:
        missing["aperture"] = _NO_MOUTH
        return None
    n = min(len(course.apertures) for course in courses)
    if any(len(course.steps) > len(course.apertures) for course in courses):
        missing["aperture of later frames"] = f"the track ends after {len(track)} frames"
    a, b = (course.apertures[:n] for course in courses)
    found = aperture_difference(a, b)
    if found["mean_delta_percent"] is None:
        missing["aperture in percent"] = "the reference's mouth never opens"
    return {"reference": a.tolist(), "test": b.tolist(), "delta": (b - a).tolist(), **found}


def _lips_and_sound(
    videos: tuple[_Video, _Video],
    courses: tuple[ClipCourses, ClipCourses],
    alignment: Alignment | None,
    missing: dict[str, str],
) -> dict[str, Any] | None:
    """How late lips are against the sound in each video, and by how much sound and picture moved between them."""
    signals = []
    for video in videos:
        with contextlib.suppress(MediaError):
            signals.append((analysis_signal(read_sound(video.path)), _sound_start(video.path)))
    if len(signals) < 2:
        missing["sound"] = "a video has no sound"
        return None
    found: dict[str, Any] = {}
    for name, video, course, (signal, start) in zip(("reference", "test"), videos, courses, signals, strict=True):
        opened = course.apertures
        loud = loudness(signal, start_s=start, frames=len(opened), fps=video.fps)
        late = lag(opened, loud)
        r = 0.0 if late is None else correlation(*_shifted(opened, loud, late))
        if r < _LEAST_LIP_R:
            missing[f"lips and sound of the {name}"] = _why_no_lips(len(opened), r)
            late = None
        found[f"{name}_lag_frames"], found[f"{name}_r"] = late, r
    shift = sound_shift(signals[0][0], signals[1][0])
    if shift is None or shift.r < _LEAST_SOUND_R:
        missing["sound shift"] = "a sound is silent" if shift is None else f"sounds differ (r {shift.r:.2f})"
        return {**found, "sound_late_ms": None, "picture_late_frames": None, "lips_late_by_frames": None}
    late_ms = shift.late_ms + 1000 * (signals[1][1] - signals[0][1])
    picture = None if alignment is None else alignment.late_frames
    return {
        **found,
        "sound_late_ms": late_ms,
        "sound_r": shift.r,
        "picture_late_frames": picture,
        "lips_late_by_frames": None if picture is None else picture - late_ms * float(videos[0].fps) / 1000,
    }


def _why_no_lips(frames: int, r: float) -> str:
    if not frames:
        return _NO_MOUTH
    return f"opening and loudness do not go together (r {r:.2f}, below {_LEAST_LIP_R})"


def _shifted(
    made: NDArray[np.float64], meant: NDArray[np.float64], late: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n = len(made) - abs(late)
    return made[max(late, 0) :][:n], meant[max(-late, 0) :][:n]


def _sound_start(path: Path) -> float:
    """Seconds by which the sound starts after the picture."""
    starts = []
    for kind in ("audio", "video"):
        with open_media(path, "audio" if kind == "audio" else "video") as media:
            frame = next(media.frames(), None)
            starts.append(float(frame.time or 0.0) if frame is not None else 0.0)
    return starts[0] - starts[1]

"""Measures of whole clips, picture by picture, so that no clip is ever held in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import FileError, InvalidValueError
from ..video.retime import frame_count, shown_frame
from .borders import border_step
from .courses import spikes, usual_here
from .mouth import aperture
from .pictures import PictureDifference, difference, largest_block, luma, psnr, thumbnail

Box = tuple[int, int, int, int]

_MAX_REPORT_BYTES = 256 << 20
_MAX_COORDINATE = 1e5
_MAX_CORNERS = 64
_RATES = (1, 240)


@dataclass(frozen=True, kw_only=True, eq=False)
class FaceTrack:
    """Where mouth and face are in each frame of a clip.

    Attributes:
        mouths: (n, k, 2) float64, polygons of the lips in pixels.
        boxes: n boxes of pasted faces, (left, top, right, bottom); none where they are not known.
        size: width and height of the frames that this belongs to; None fits any.
    """

    mouths: NDArray[np.float64]
    boxes: tuple[Box, ...] = ()
    size: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.mouths)

    @classmethod
    def read(cls, path: str | Path) -> FaceTrack:
        """Takes the track from a report of `render`.

        Raises:
            FileError: the file can't be read, or is no such report.
        """
        path = Path(path)
        remedy = "give the file that `render --report FILE` wrote"
        try:
            if path.stat().st_size > _MAX_REPORT_BYTES:
                raise FileError(path, f"is above {_MAX_REPORT_BYTES >> 20} MiB", remedy=remedy)
            report = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise FileError(path, f"can't be read as a report ({error})", remedy=remedy) from error
        try:
            return cls.of_report(report)
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise FileError(path, "has no mouth_polygons and face_boxes of each frame", remedy=remedy) from error

    @classmethod
    def of_report(cls, report: dict[str, Any]) -> FaceTrack:
        """Takes the track from what `render_file` returns; where the file has another rate, as its frames show it.

        Raises:
            KeyError: it has none.
            ValueError: it has another form, or a value is out of range.
        """
        mouths = np.array(report["mouth_polygons"], np.float64)
        boxes = np.array(report["face_boxes"], np.int64)
        width, height = (int(side) for side in report["size"])
        if mouths.ndim != 3 or mouths.shape[2] != 2 or not 3 <= mouths.shape[1] <= _MAX_CORNERS:
            raise ValueError(f"mouth polygons of shape {mouths.shape}")
        if boxes.shape != (len(mouths), 4) or not (boxes[:, :2] < boxes[:, 2:]).all():
            raise ValueError(f"face boxes of shape {boxes.shape}")
        if not (np.abs(mouths) < _MAX_COORDINATE).all() or (boxes < 0).any() or (boxes > _MAX_COORDINATE).any():
            raise ValueError("coordinates out of range")
        rows = [(left, top, right, bottom) for left, top, right, bottom in boxes.tolist()]
        shown = _shown(report, len(mouths))
        return cls(mouths=mouths[shown], boxes=tuple(rows[i] for i in shown), size=(width, height))

    @classmethod
    def resting(cls, box: Box, frames: int) -> FaceTrack:
        """A mouth that stays in a box of pixels (left, top, right, bottom)."""
        left, top, right, bottom = box
        corners = [[left, top], [right - 1, top], [right - 1, bottom - 1], [left, bottom - 1]]
        # Half a pixel around, so that the pixels at the edges are inside.
        polygon = np.array(corners, np.float64) + 0.5 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        return cls(mouths=np.broadcast_to(polygon, (frames, 4, 2)))

    def heights(self) -> NDArray[np.float64]:
        """(n,) pixels from the uppermost lip point to the lowest: the opening that the key points ask for."""
        heights: NDArray[np.float64] = np.ptp(self.mouths[..., 1], axis=1)
        return heights


def _shown(report: dict[str, Any], rendered: int) -> list[int]:
    """The rendered frame that each frame of the file shows; reports without rates are of one rate."""
    fps = Fraction(report.get("fps", 25))
    source_fps = Fraction(report.get("source_fps", fps))
    if not all(_RATES[0] <= rate <= _RATES[1] for rate in (fps, source_fps)):
        raise ValueError(f"rates of {source_fps} and {fps}")
    count = frame_count(rendered, source_fps, fps)
    return [min(shown_frame(i, source_fps, fps), rendered - 1) for i in range(count)]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClipCourses:
    """What was measured in each frame of a clip.

    Attributes:
        steps: (n,) largest mean difference of luma from the frame before in a block of 32 x 32 pixels; 0 at first.
        apertures: (m,) dark pixels within the lips, for the frames whose mouth is known.
        borders: (m,) step across the border of the pasted face, for the frames whose box is known.
        thumbnails: (n, cells) mean luma of cells.
    """

    steps: NDArray[np.float64]
    apertures: NDArray[np.float64]
    borders: NDArray[np.float64]
    thumbnails: NDArray[np.float32]


class ClipMeter:
    """Measures one clip, frame by frame.

    Args:
        track: where mouth and face are; without it, aperture and border are not measured.
    """

    def __init__(self, track: FaceTrack | None = None) -> None:
        self._track = track
        self._last: torch.Tensor | None = None
        self._steps: list[float] = []
        self._apertures: list[float] = []
        self._borders: list[float] = []
        self._thumbnails: list[NDArray[np.float32]] = []

    def add(self, picture: NDArray[np.uint8]) -> None:
        """Takes the next frame.

        Args:
            picture: (h, w, 3) RGB.

        Raises:
            InvalidValueError: its size is not the track's, or changes; or the mouth lies outside.
        """
        track, frame = self._track, len(self._steps)
        height, width = picture.shape[:2]
        if track is not None and track.size not in (None, (width, height)):
            raise InvalidValueError(
                f"frames of {width}x{height} with a track of {track.size}", remedy="give the track of this video"
            )
        if track is not None and track.size is None and not frame:
            _check_inside(track.mouths, width, height)
        brightness = luma(torch.from_numpy(picture))
        if self._last is not None and self._last.shape != brightness.shape:
            raise InvalidValueError(f"a frame of {width}x{height} after others", remedy="use frames of one size")
        self._steps.append(0.0 if self._last is None else largest_block(brightness - self._last))
        self._last = brightness
        self._thumbnails.append(thumbnail(brightness).flatten().numpy())
        if track is None or frame >= len(track):
            return
        self._apertures.append(float(aperture(picture, track.mouths[frame])))
        if track.boxes:
            step = border_step(brightness.numpy(), track.boxes[frame])
            self._borders += [] if step is None else [step]

    def courses(self) -> ClipCourses:
        """What was measured so far."""
        return ClipCourses(
            steps=np.array(self._steps),
            apertures=np.array(self._apertures),
            borders=np.array(self._borders),
            thumbnails=np.array(self._thumbnails, np.float32),
        )


def _check_inside(mouths: NDArray[np.float64], width: int, height: int) -> None:
    """Refuses a mouth that leaves the picture."""
    left, top = mouths[0].min(0)
    right, bottom = mouths[0].max(0)
    if left < -0.5 or top < -0.5 or right > width or bottom > height:
        raise InvalidValueError(
            f"a mouth from ({left + 0.5:.0f}, {top + 0.5:.0f}) to ({right + 0.5:.0f}, {bottom + 0.5:.0f}) in a picture "
            f"of {width}x{height}",
            remedy="give a box within the picture",
        )


class PairMeter:
    """Measures two clips against each other, frame by frame."""

    def __init__(self) -> None:
        self._found: list[PictureDifference] = []
        self._changes: list[float] = []
        self._apart: torch.Tensor | None = None

    def add(self, reference: NDArray[np.uint8], test: NDArray[np.uint8]) -> None:
        """Takes the next frame of each, (h, w, 3) RGB."""
        a, b = torch.from_numpy(reference), torch.from_numpy(test)
        self._found.append(difference(a, b))
        apart = luma(b) - luma(a)
        self._changes.append(0.0 if self._apart is None else largest_block(apart - self._apart))
        self._apart = apart

    def changes(self) -> NDArray[np.float64]:
        """(n,) change of the difference of luma from the frame before, the largest of all blocks; 0 at first.

        What both clips do is not in it, so that a glitch of one of them shows in a blink, too.
        """
        return np.array(self._changes)

    def spikes(self) -> tuple[int, ...]:
        """Frames into which one clip jumps and the other does not, see `courses.spikes`."""
        changes = self.changes()
        return spikes(changes, usual_here(changes))

    def course(self, name: str) -> NDArray[np.float64]:
        """(n,) one of the fields of `PictureDifference`."""
        return np.array([getattr(found, name) for found in self._found])

    def psnr_course(self) -> NDArray[np.float64]:
        """(n,) PSNR of luma in dB."""
        return np.array([psnr(found.squared_luma) for found in self._found])

    def summary(self) -> dict[str, float]:
        """Of all frames, ready for JSON: PSNR is that of the mean squared difference over the whole clip."""
        squared = {name: float(self.course(f"squared_{name}").mean()) for name in ("luma", "chroma", "rgb")}
        least = self.psnr_course()
        return {
            "psnr_y_db": psnr(squared["luma"]),
            "psnr_rgb_db": psnr(squared["rgb"]),
            "psnr_chroma_db": psnr(squared["chroma"]),
            "least_psnr_y_db": float(least.min()),
            "least_psnr_frame": int(least.argmin()),
            "ssim": float(self.course("ssim").mean()),
            "least_ssim": float(self.course("ssim").min()),
            "mean_delta": float(self.course("mean").mean()),
            "largest_delta": float(self.course("largest").max()),
        }

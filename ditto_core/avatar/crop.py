"""Where the face is cut from a picture: crop geometry and its matrices, without pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidValueError

CROP_SIZE = 512
"""Pixels of the square that the face is cut to, and that rendered faces fill."""

_MIN_BOX = 32
_AS_TEXT = "give 'auto', 'full' or X,Y,SIZE[,DEGREES] in pixels of the picture"
_AS_BOX = f"give the left edge, the top edge and the side of a square, {_MIN_BOX} pixels at least, round the face"
_EYES_AND_LIPS = {
    106: ([33, 35, 40, 39], [87, 89, 94, 93], [52, 61]),
    203: ([0, 6, 12, 18], [24, 30, 36, 42], [48, 66]),
}
"""Points of the left eye, the right eye and the lips, by the number of landmarks."""


@dataclass(frozen=True, kw_only=True)
class Framing:
    """How a crop lies round landmarks; lengths count in the crop's side.

    Attributes:
        size: pixels of the crop.
        scale: the crop's side over the longer side of the landmarks' box.
        vx: how far the centre moves along the face's x axis; to the right where the face is upright.
        vy: how far it moves along the face's y axis; negative is towards the forehead.
        rotate: whether the face is turned upright.
    """

    size: int
    scale: float
    vx: float = 0.0
    vy: float = 0.0
    rotate: bool = True


LANDMARK_FRAMING = Framing(size=224, scale=1.5, vy=-0.1)
"""What the 203 landmarks are read from."""
FACE_FRAMING = Framing(size=CROP_SIZE, scale=2.3, vy=-0.125)
"""What the networks see."""


@dataclass(frozen=True, kw_only=True)
class CropRequest:
    """What the user asks to be cut.

    Attributes:
        mode: "auto" (by detected landmarks), "full" (the whole picture) or "box".
        box: for "box": left, top and side in pixels of the picture as it is seen (turned as EXIF says), and
            degrees by which the square is turned clockwise round its centre, to set a tilted head upright.
    """

    mode: str = "auto"
    box: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        """Checks that mode and box belong together.

        Raises:
            InvalidValueError: they do not, or a number is not finite or too small.
        """
        if self.mode not in ("auto", "full", "box") or (self.mode == "box") != (self.box is not None):
            raise _bad_crop(f"mode {self.mode!r} with box {self.box}")
        if self.box is not None:
            if not all(math.isfinite(value) and abs(value) < 1e6 for value in self.box):
                raise _bad_crop(f"box {self.box}")
            if self.box[2] < _MIN_BOX:
                raise _bad_crop(f"box of {self.box[2]:g} pixels, at least {_MIN_BOX} are needed")

    @classmethod
    def parse(cls, text: str) -> CropRequest:
        """The request written as `auto`, `full` or `X,Y,SIZE[,DEGREES]`.

        Raises:
            InvalidValueError: it is none of these.
        """
        word = text.strip().lower()
        if word in ("auto", "full"):
            return cls(mode=word)
        try:
            numbers = [float(part) for part in word.split(",")]
        except ValueError:
            raise _bad_crop(repr(text), _AS_TEXT) from None
        if len(numbers) not in (3, 4):
            raise _bad_crop(repr(text), _AS_TEXT)
        left, top, size, degrees = (*numbers, 0.0)[:4]
        return cls(mode="box", box=(left, top, size, degrees))


def landmark_crop(points: NDArray[np.floating], framing: Framing) -> NDArray[np.float64]:
    """The crop round a face's landmarks.

    The face's y axis points from the eyes to the lips. The square encloses the landmarks' box along the
    face's axes, enlarged and moved as the framing says. The original accepts vx and ignores it; here it
    counts.

    Args:
        points: (106, 2) or (203, 2) landmarks in pixels of the picture.
        framing: see `Framing`.

    Returns:
        (3, 3) from pixels of the crop to pixels of the picture.

    Raises:
        InvalidValueError: another number of points, or points that are not finite or all in one place.
    """
    points = np.asarray(points, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2 or len(points) not in _EYES_AND_LIPS:
        raise InvalidValueError(f"landmarks of shape {points.shape}", remedy="pass 106 or 203 points (x, y)")
    if not np.isfinite(points).all() or np.ptp(points, axis=0).max() < 1e-3:
        raise InvalidValueError(
            "landmarks that are not finite or all in one place",
            remedy="check the landmark model and the picture",
        )
    left, right, lips = (points[index].mean(0) for index in _EYES_AND_LIPS[len(points)])
    down = lips - (left + right) / 2
    length = np.linalg.norm(down)
    down = down / length if length > 1e-3 else np.array([0.0, 1.0])
    axes = np.array([[down[1], -down[0]], down])  # rows: the face's x and y axis
    middle = points.mean(0)
    along = (points - middle) @ axes.T
    low, high = along.min(0), along.max(0)
    side = float((high - low).max()) * framing.scale
    centre = middle + ((low + high) / 2 + np.array([framing.vx, framing.vy]) * side) @ axes
    unit = side / framing.size
    turn = axes.T if framing.rotate else np.eye(2)
    return _similarity(unit * turn, centre - unit * turn @ np.full(2, framing.size / 2))


def box_crop(left: float, top: float, side: float, degrees: float = 0.0) -> NDArray[np.float64]:
    """The crop that is a given square; its edges lie on the edges of pixels.

    Args:
        left: left edge of the unturned square in pixels.
        top: its top edge.
        side: its side.
        degrees: how far it is turned clockwise round its centre.

    Returns:
        (3, 3) from pixels of the crop of CROP_SIZE to pixels of the picture.
    """
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    linear = side / CROP_SIZE * turn
    # pixel centres: (CROP_SIZE - 1) / 2 is the middle of the crop
    centre = np.array([left, top]) + (side - 1) / 2
    return _similarity(linear, centre - linear @ np.full(2, (CROP_SIZE - 1) / 2))


def requested_crop(
    request: CropRequest, size: tuple[int, int], reduction: tuple[float, float] = (1.0, 1.0)
) -> NDArray[np.float64]:
    """The crop of a "full" or "box" request.

    Args:
        request: not "auto". "full" is the smallest centred square that holds the whole picture; what lies
            outside the picture is black.
        size: height and width of the picture as it is worked on.
        reduction: by what y and x of the picture that the request speaks of are multiplied to get there.

    Returns:
        (3, 3) from pixels of the crop to pixels of the picture.

    Raises:
        InvalidValueError: the box's centre lies outside the picture, or it shrinks to too few pixels.
    """
    height, width = size
    if request.box is None:
        whole = max(height, width)
        return box_crop((width - whole) / 2, (height - whole) / 2, whole)
    left, top, side, degrees = request.box
    centre_y, centre_x = (top + side / 2) * reduction[0], (left + side / 2) * reduction[1]
    if not (0 <= centre_x <= width and 0 <= centre_y <= height):
        seen = f"{round(width / reduction[1])} x {round(height / reduction[0])}"
        raise _bad_crop(f"box {left:g},{top:g},{side:g} whose centre lies outside the picture of {seen} pixels")
    side *= max(reduction)
    if side < _MIN_BOX:
        raise _bad_crop(f"box that is {side:.0f} pixels wide in the reduced picture, at least {_MIN_BOX} are needed")
    return box_crop(centre_x - side / 2, centre_y - side / 2, side, degrees)


def transform(matrix: NDArray[np.floating], points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Points (n, 2) under an affine (3, 3) matrix."""
    return np.asarray(points, dtype=np.float64) @ matrix[:2, :2].T + matrix[:2, 2]


def inside_share(points: NDArray[np.floating], size: tuple[int, int]) -> float:
    """The share of points (n, 2) that lie inside a picture of this height and width."""
    limits = np.array([size[1], size[0]])
    return float(((points >= 0) & (points <= limits - 1)).all(-1).mean())


def _similarity(linear: NDArray[np.floating], shift: NDArray[np.floating]) -> NDArray[np.float64]:
    matrix = np.eye(3)
    matrix[:2, :2] = linear
    matrix[:2, 2] = shift
    return matrix


def _bad_crop(problem: str, remedy: str = _AS_BOX) -> InvalidValueError:
    return InvalidValueError(f"crop: {problem}", remedy=remedy)

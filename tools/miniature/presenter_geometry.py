"""Where things are: the picture's view of the scene, designed key points, and the linear expression basis.

Three systems of coordinates, all x right and y down:
- head frame: unit half the head's height, origin in the head's centre, z into the picture;
- scene: the plane of the picture, unit half the width of the neutral face picture;
- pixels: whole numbers at pixel centres.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ditto_core.motion.keypoints import rotation_matrix, transform_keypoints
from ditto_core.networks.presets import FACE_SIZE, KEYPOINTS

from .presenter_parameters import EXPRESSIONS, Identity, Motion

HEAD_HEIGHT, HEAD_DEPTH = 1.0, 0.86
"""Radii of the head along y and z; along x it is the identity's face_width."""
HEAD_SCALE = 0.62
"""Head units in scene units at scale 1. The face from brows to chin and from cheek to cheek is about 1.4 head
units, and 2.3 times that makes the picture, as in the original's crop."""
JAW_DROP, JAW_HINGE = 0.10, 0.30
"""What lies below the hinge (head frame) is stretched by this share when the mouth is wide open."""


class Mouth(NamedTuple):
    """How far expression moves the drawn lips, in head units at a parameter of 1."""

    wide_x: float = 0.065
    pucker_x: float = 0.100
    smile_x: float = 0.045
    open_x: float = 0.015
    open_corner: float = 0.060
    smile_y: float = 0.075
    open_upper: float = 0.045
    open_lower: float = 0.225
    teeth_upper: float = 0.024
    teeth_lower: float = 0.020


MOUTH = Mouth()
BLINK, GAZE_X, GAZE_Y, BROW, BROW_INNER = 0.125, 0.060, 0.034, 0.060, 0.050
"""The same for upper lids, irises and brows."""

LIP_POLYGON = (6, 14, 12, 20, 17, 19)
"""Key points around the drawn lips, in order."""

_Moves = dict[int, tuple[float, float, float]]


def _expression_table() -> dict[str, _Moves]:
    """Each parameter's key points and their moves (x, y, z) in head units.

    Points move as the drawn features do, times a gain where the drawn move is small against a heat map's width.
    Lips that part and lids that fall also go far into the picture: what comes to light there is then sampled from
    other planes of the appearance volume, and so the decoder is told to draw the inside of a mouth, or a shut eye.
    """
    corner, small, inwards, bared = 1.5, 2.0, 0.9, 0.4
    hinge = 0.97 - JAW_HINGE
    m = MOUTH
    return {
        "open": {
            6: (m.open_x, m.open_corner, 0.0),
            12: (-m.open_x, m.open_corner, 0.0),
            14: (0.0, -m.open_upper, inwards),
            17: (0.0, m.open_lower, inwards),
            19: (0.7 * m.open_x, 0.9 * m.open_lower, inwards),
            20: (-0.7 * m.open_x, 0.9 * m.open_lower, inwards),
            7: (0.0, JAW_DROP * hinge, 0.0),
        },
        "wide": {
            6: (-corner * m.wide_x, 0.0, 0.0),
            12: (corner * m.wide_x, 0.0, 0.0),
            19: (-m.wide_x, 0.0, 0.0),
            20: (m.wide_x, 0.0, 0.0),
        },
        "pucker": {
            6: (corner * m.pucker_x, 0.0, -0.05),
            12: (-corner * m.pucker_x, 0.0, -0.05),
            14: (0.0, -0.03, -0.05),
            17: (0.0, 0.03, -0.05),
            19: (m.pucker_x, 0.02, -0.05),
            20: (-m.pucker_x, 0.02, -0.05),
        },
        "smile": {
            6: (-corner * m.smile_x, -corner * m.smile_y, 0.0),
            12: (corner * m.smile_x, -corner * m.smile_y, 0.0),
            8: (0.0, -0.06, 0.0),
            9: (0.0, -0.06, 0.0),
        },
        "teeth": {
            14: (0.0, -small * m.teeth_upper, bared),
            17: (0.0, small * m.teeth_lower, -bared / 2),
            19: (-0.03, 0.03, -bared / 2),
            20: (0.03, 0.03, -bared / 2),
        },
        "brow": {1: (0.0, -small * BROW, 0.0), 2: (0.0, -small * BROW, 0.0)},
        "brow_inner": {18: (0.0, -small * BROW_INNER, 0.0)},
        "blink_left": {13: (0.0, corner * BLINK, inwards / 2)},
        "blink_right": {16: (0.0, corner * BLINK, inwards / 2)},
        "gaze_x": {11: (small * GAZE_X, 0.0, 0.0), 15: (small * GAZE_X, 0.0, 0.0)},
        "gaze_y": {11: (0.0, small * GAZE_Y, 0.0), 15: (0.0, small * GAZE_Y, 0.0)},
    }


def expression_basis() -> Tensor:
    """The matrix B of exp = parameters @ B, (11, 63); its rows are independent, so that B can be inverted."""
    basis = torch.zeros(len(EXPRESSIONS), KEYPOINTS, 3)
    for row, name in enumerate(EXPRESSIONS):
        for point, move in _expression_table()[name].items():
            basis[row, point] = HEAD_SCALE * torch.tensor(move)
    return basis.flatten(1)


def expression(motion: Motion) -> Tensor:
    """The 63 expression values of a motion, (n, 63)."""
    parameters = torch.stack([getattr(motion, name) for name in EXPRESSIONS], dim=-1)
    return parameters @ expression_basis().to(parameters.device)


def expression_parameters(exp: Tensor) -> Tensor:
    """The expression parameters that come closest to 63 expression values.

    Args:
        exp: (n, 63).

    Returns:
        (n, 11), in the order of EXPRESSIONS.
    """
    inverse: Tensor = torch.linalg.pinv(expression_basis())
    return exp @ inverse.to(exp)


def canonical_keypoints(identity: Identity) -> Tensor:
    """Where the 21 key points are on a neutral face seen from the front, (n, 21, 3), in scene units.

    Lip points are 6, 12, 14, 17, 19, 20 and eye points 11, 13, 15, 16, 18, as in the official models.
    """
    a, eye_x, eye_y = identity.face_width, identity.eye_x, identity.eye_y
    mouth_y, mouth_width, lip = identity.mouth_y, identity.mouth_width, identity.lip_fullness
    zero = torch.zeros_like(a)

    def point(x: Tensor, y: Tensor | float, z: Tensor | float | None = None) -> Tensor:
        y = zero + y
        if z is None:
            z = -HEAD_DEPTH * (1 - (x / a) ** 2 - y**2).clamp(min=0.02).sqrt()
        return torch.stack([x, y, zero + z], dim=-1)

    brow, lid = eye_y - 0.22, eye_y - 0.07
    points = [
        point(zero, -0.95, 0.0),
        point(-eye_x, brow),
        point(eye_x, brow),
        point(-a, 0.10, 0.0),
        point(a, 0.10, 0.0),
        point(zero, eye_y + identity.nose_length + 0.05, -1.05),
        point(-mouth_width, mouth_y - 0.02),
        point(zero, 0.97, -0.25),
        point(zero - 0.55, 0.30),
        point(zero + 0.55, 0.30),
        point(zero, identity.hairline),
        point(-eye_x, eye_y),
        point(mouth_width, mouth_y - 0.02),
        point(-eye_x, lid),
        point(zero, mouth_y - 0.068 * lip),
        point(eye_x, eye_y),
        point(eye_x, lid),
        point(zero, mouth_y + 0.085 * lip + 0.01),
        point(zero, eye_y - 0.12),
        point(-0.72 * mouth_width, mouth_y + 0.052 * lip + 0.015),
        point(0.72 * mouth_width, mouth_y + 0.052 * lip + 0.015),
    ]
    return HEAD_SCALE * torch.stack(points, dim=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """Which part of the scene a picture shows.

    Attributes:
        width: pixels; even.
        height: pixels; even.
        span: scene units across the width; a number, or one a picture (n,).
        x: scene x of the picture's middle, likewise.
        y: scene y of the picture's middle, likewise.
    """

    width: int = FACE_SIZE
    height: int = FACE_SIZE
    span: float | Tensor = 2.0
    x: float | Tensor = 0.0
    y: float | Tensor = 0.0

    def axes(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Scene x (·, 1, 1, w) and y (·, 1, h, 1) of the pixels, and the size of a pixel (·, 1, 1, 1)."""
        x, y, span = (torch.as_tensor(v, device=device).reshape(-1, 1, 1, 1) for v in (self.x, self.y, self.span))
        pixel = span / self.width
        columns = torch.arange(self.width, device=device, dtype=torch.float32) + (0.5 - self.width / 2)
        rows = torch.arange(self.height, device=device, dtype=torch.float32) + (0.5 - self.height / 2)
        return x + pixel * columns, y + pixel * rows[:, None], pixel


FACE = View()
"""The face picture: the original's crop, at scale 1 around a neutral head."""
_CROP_SIZE, _CROP_LEFT, _CROP_TOP = 640, 112, 100
_PIXEL = 2 / _CROP_SIZE
BUST = View(
    width=864,
    height=1080,
    span=864 * _PIXEL,
    x=_PIXEL * (864 / 2 - _CROP_LEFT - _CROP_SIZE / 2),
    y=_PIXEL * (1080 / 2 - _CROP_TOP - _CROP_SIZE / 2),
)
"""The portrait as a newsroom has it; the face picture is a square of 640 pixels in it."""


def crop_to_frame(face: View = FACE, frame: View = BUST) -> Tensor:
    """Pixels of one view in another, (3, 3) float32, for column vectors (x, y, 1); spans and centres are numbers."""
    pixel, into = float(face.span) / face.width, float(frame.span) / frame.width
    scale = pixel / into

    def offset(face_middle: float, face_size: int, frame_middle: float, frame_size: int) -> float:
        first = face_middle + pixel * (0.5 - face_size / 2)
        return (first - frame_middle) / into + frame_size / 2 - 0.5

    return torch.tensor(
        [
            [scale, 0, offset(float(face.x), face.width, float(frame.x), frame.width)],
            [0, scale, offset(float(face.y), face.height, float(frame.y), frame.height)],
            [0, 0, 1],
        ]
    )


class PoseRecord(NamedTuple):
    """What a perfect motion extractor would read off a square view: `transform_keypoints`' arguments.

    Attributes:
        kp: (n, 63).
        exp: (n, 63).
        scale: (n, 1).
        t: (n, 3).
        pitch: (n,) degrees, as are yaw and roll.
        yaw: see pitch.
        roll: see pitch.
    """

    kp: Tensor
    exp: Tensor
    scale: Tensor
    t: Tensor
    pitch: Tensor
    yaw: Tensor
    roll: Tensor


def pose_record(identity: Identity, motion: Motion, view: View = FACE) -> PoseRecord:
    """The designed motion of a picture; the view's own zoom and place are part of scale and t."""
    zoom = 2 / torch.as_tensor(view.span, device=motion.device, dtype=torch.float32)
    t = torch.stack([(motion.x - view.x) * zoom, (motion.y - view.y) * zoom, torch.zeros_like(motion.x)], dim=-1)
    return PoseRecord(
        kp=canonical_keypoints(identity).flatten(1),
        exp=expression(motion),
        scale=(motion.scale * zoom)[:, None],
        t=t,
        pitch=motion.pitch,
        yaw=motion.yaw,
        roll=motion.roll,
    )


def presenter_keypoints(identity: Identity, motion: Motion, view: View = FACE) -> Tensor:
    """The designed key points in a square view, (n, 21, 3), -1..1 from edge to edge."""
    return transform_keypoints(**pose_record(identity, motion, view)._asdict())


def window_around(
    identity: Identity, motion: Motion, view: View, points: Sequence[int], margin: float
) -> tuple[slice, slice]:
    """Rows and columns of a view that hold some key points of all pictures, and a margin in head units."""
    where = presenter_keypoints(identity, motion, view)[:, list(points), :2] * (view.width / 2)
    size = HEAD_SCALE * motion.scale * view.width / torch.as_tensor(view.span, device=motion.device)
    around = margin * size[:, None, None]
    low, high = (where - around).amin((0, 1)).tolist(), (where + around).amax((0, 1)).tolist()

    def cut(first: float, last: float, length: int) -> slice:
        start = min(max(int(first + length / 2), 0), length)
        return slice(start, max(start, min(int(last + length / 2) + 1, length)))

    return cut(low[1], high[1], view.height), cut(low[0], high[0], view.width)


def head_rotation(motion: Motion) -> tuple[Tensor, Tensor]:
    """Roll alone and yaw after pitch, (n, 3, 3) each, for column vectors; their product is the whole rotation."""
    zero = torch.zeros_like(motion.roll)
    roll = rotation_matrix(zero, zero, motion.roll).transpose(-1, -2)
    tilt = rotation_matrix(motion.pitch, motion.yaw, zero).transpose(-1, -2)
    return roll, tilt

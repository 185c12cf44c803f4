"""Drawing with signed distances: small functions over broadcast maps, and the head seen by a ray a pixel."""

from __future__ import annotations

import dataclasses
import functools

import torch
from torch import Tensor

from .presenter_geometry import HEAD_DEPTH, HEAD_HEIGHT, HEAD_SCALE, JAW_DROP, JAW_HINGE, View, head_rotation
from .presenter_parameters import Identity, Motion

Maps = dict[str, Tensor]
Point = tuple[Tensor, Tensor]
Real = Tensor | float
LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in brightness (ITU-R BT.601)."""
LIGHT = (-0.42, -0.50, -0.76)
"""Direction towards the key light, in the scene."""


def coverage(distance: Tensor, width: Real) -> Tensor:
    """Share of a pixel inside a shape: 1 inside, 0 outside, linear over `width` around its edge."""
    return (0.5 - distance / width).clamp(0, 1)


def smoothstep(low: float, high: float, x: Tensor) -> Tensor:
    """0 below `low`, 1 above `high`, smooth between."""
    t = ((x - low) / (high - low)).clamp(0, 1)
    return t * t * (3 - 2 * t)


def bell(x: Tensor, width: Real) -> Tensor:
    """A Gaussian of height 1."""
    return torch.exp(-0.5 * (x / width).square())


def blob(x: Tensor, y: Tensor, width: Real, height: Real) -> Tensor:
    """A Gaussian of height 1 in two directions."""
    return torch.exp(-0.5 * ((x / width).square() + (y / height).square()))


def over(below: Tensor, color: Tensor, share: Tensor) -> Tensor:
    """`color` laid over `below` where `share` is 1."""
    return below + (color - below) * share


def ellipse(x: Tensor, y: Tensor, rx: Real, ry: Real) -> Tensor:
    """Approximate signed distance to an ellipse around the origin."""
    k = ((x / rx).square() + (y / ry).square() + 1e-9).sqrt()
    slope = ((x / rx**2).square() + (y / ry**2).square() + 1e-9).sqrt()
    return k * (k - 1) / slope


def segment(x: Tensor, y: Tensor, start: tuple[Real, Real], end: tuple[Real, Real]) -> tuple[Tensor, Tensor]:
    """Distance to a segment, and the place along it, 0..1."""
    vx, vy = end[0] - start[0], end[1] - start[1]
    t = (((x - start[0]) * vx + (y - start[1]) * vy) / (vx * vx + vy * vy + 1e-9)).clamp(0, 1)
    return ((x - start[0] - t * vx).square() + (y - start[1] - t * vy).square() + 1e-12).sqrt(), t


def polygon(x: Tensor, y: Tensor, *corners: tuple[Real, Real]) -> Tensor:
    """Signed distance to the sides of a convex polygon; its corners go round clockwise as seen on the screen."""
    sides = []
    for (x0, y0), (x1, y1) in zip(corners, (*corners[1:], corners[0]), strict=True):
        nx, ny = y1 - y0, x0 - x1
        length = torch.as_tensor(nx * nx + ny * ny, device=x.device).sqrt()
        sides.append(((x - x0) * nx + (y - y0) * ny) / length)
    distance = sides[0]
    for side in sides[1:]:
        distance = torch.maximum(distance, side)
    return distance


def color(like: Tensor, red: float, green: float, blue: float) -> Tensor:
    """A colour, (1, 3, 1, 1), on the device of another tensor."""
    return _constant((red, green, blue), like.device)


@functools.lru_cache(maxsize=256)
def _constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Constants stay on the device: a copy from the host each time would stall a GPU's queue."""
    return torch.tensor(values, device=device).reshape(1, -1, 1, 1)


@dataclasses.dataclass(frozen=True)
class Surface:
    """Where the rays of a picture meet an ellipsoid, in the head frame.

    Attributes:
        x: as are y and z, (n, 1, h, w).
        y: see x.
        z: see x.
        light: how much of the key light the surface sees, 0 (back) .. 1.
        outside: signed distance to the silhouette.
    """

    x: Tensor
    y: Tensor
    z: Tensor
    light: Tensor
    outside: Tensor

    def part(self, rows: slice, columns: slice) -> Surface:
        """The same surface in a part of the picture."""
        return Surface(*(map_[..., rows, columns] for map_ in (self.x, self.y, self.z, self.light, self.outside)))


Vector = tuple[Tensor, Tensor, Tensor]


def _vector(values: Tensor) -> Vector:
    """Vectors (n, 3) as three maps (n, 1, 1, 1)."""
    x, y, z = values[:, :, None, None, None].unbind(1)
    return x, y, z


@dataclasses.dataclass(frozen=True)
class Head:
    """The head as a picture sees it.

    Attributes:
        x: picture x in head units from the head's centre, after roll is undone; as are the others (n, 1, h, w).
        y: picture y, likewise.
        plain_y: picture y with the jaw's drop undone.
        narrowed_x: picture x with the narrowing of the jaw undone.
        pixel: size of a pixel in head units.
        tilt: rotation by pitch and yaw, rows of (n, 1, 1, 1).
        light: direction to the key light in the head frame.
    """

    x: Tensor
    y: Tensor
    plain_y: Tensor
    narrowed_x: Tensor
    pixel: Tensor
    tilt: tuple[Vector, Vector, Vector]
    light: Vector

    @classmethod
    def of(
        cls,
        identity: Maps,
        motion: Maps,
        rotations: tuple[Tensor, Tensor],
        axes: tuple[Tensor, Tensor, Tensor],
    ) -> Head:
        """Sets up the frame of a head for a picture.

        Args:
            identity: maps of the identity.
            motion: maps of the motion.
            rotations: as `head_rotation` gives.
            axes: as `View.axes` gives.
        """
        roll, tilt = rotations
        scene_x, scene_y, pixel = axes
        scale = HEAD_SCALE * motion["scale"]
        dx, dy = (scene_x - motion["x"]) / scale, (scene_y - motion["y"]) / scale
        cos, sin = roll[:, 0, 0].reshape(-1, 1, 1, 1), roll[:, 1, 0].reshape(-1, 1, 1, 1)
        x, y = cos * dx + sin * dy, cos * dy - sin * dx
        below = (y - JAW_HINGE).clamp(min=0)
        plain_y = y - below + below / (1 + JAW_DROP * motion["open"])
        width = 1 + identity["jaw"] * bell(plain_y - 0.64, 0.24) - 0.155 * smoothstep(0.05, 0.95, plain_y)
        narrowed_x = x / (width + 0.09 * smoothstep(0.30, 1.0, -plain_y))
        towards = torch.tensor(LIGHT, device=tilt.device)
        light = (roll @ tilt).transpose(1, 2) @ (towards / towards.norm())
        rows = [_vector(tilt[:, i]) for i in range(3)]
        return cls(x, y, plain_y, narrowed_x, pixel / scale, (rows[0], rows[1], rows[2]), _vector(light))

    def project(self, x: Real, y: Real, z: Real) -> Point:
        """Picture x and y, after roll is undone, of a point in the head frame."""
        (xx, xy, xz), (yx, yy, yz), _ = self.tilt
        return xx * x + xy * y + xz * z, yx * x + yy * y + yz * z

    def surface(
        self,
        radii: tuple[Real, Real, Real],
        centre: tuple[Real, Real, Real] = (0, 0, 0),
        *,
        narrow: Real = 1.0,
    ) -> Surface:
        """The front of an ellipsoid.

        Args:
            radii: along x, y and z.
            centre: in the head frame.
            narrow: 1 follows the jaw, 0 does not.
        """
        px = self.x + (self.narrowed_x - self.x) * narrow
        py = self.y + (self.plain_y - self.y) * narrow
        top, middle, bottom = self.tilt
        origin = [(top[i] * px + middle[i] * py - centre[i]) / radii[i] for i in range(3)]
        ray = [bottom[i] / radii[i] for i in range(3)]
        aa = ray[0] * ray[0] + ray[1] * ray[1] + ray[2] * ray[2]
        ab = origin[0] * ray[0] + origin[1] * ray[1] + origin[2] * ray[2]
        bb = origin[0].square() + origin[1].square() + origin[2].square()
        nearest = bb - ab.square() / aa
        depth = (-ab - (aa * (1 - nearest)).clamp(min=0).sqrt()) / aa
        unit = [origin[i] + depth * ray[i] for i in range(3)]
        normal = [unit[i] / radii[i] for i in range(3)]
        length = (normal[0].square() + normal[1].square() + normal[2].square() + 1e-9).sqrt()
        light = (normal[0] * self.light[0] + normal[1] * self.light[1] + normal[2] * self.light[2]) / length
        x, y, z = (unit[i] * radii[i] + centre[i] for i in range(3))
        outside = (nearest.clamp(min=1e-9).sqrt() - 1) * 0.85
        return Surface(x, y, z, (0.6 * light + 0.4).clamp(min=0), outside)


def face_surface(head: Head, identity: Maps) -> Surface:
    """The face: the head's ellipsoid with the jaw."""
    return head.surface((identity["face_width"], HEAD_HEIGHT, HEAD_DEPTH))


def set_up(identity: Identity, motion: Motion, view: View) -> tuple[Maps, Maps, Head]:
    """Maps of the parameters, and the head's frame, for a picture."""
    looks, moves = identity.maps(), motion.maps()
    return looks, moves, Head.of(looks, moves, head_rotation(motion), view.axes(identity.device))

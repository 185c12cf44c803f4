"""What is behind and below the head: backdrop, torso and neck."""

from __future__ import annotations

import torch
from torch import Tensor

from .presenter_draw import (
    Head,
    Maps,
    bell,
    blob,
    color,
    coverage,
    ellipse,
    over,
    polygon,
    segment,
    smoothstep,
)
from .presenter_geometry import HEAD_SCALE
from .presenter_parameters import CITY, GREEN_SCREEN, STUDIO

_GREEN = (0.05, 0.66, 0.25)
_PANELS = ((-1.15, 0.10), (-0.72, 0.07), (0.66, 0.08), (1.08, 0.13))
_LIGHTS = (
    (-1.22, -0.62, 0.10, 0.5), (-0.98, -0.18, 0.13, 0.8), (-0.86, -0.80, 0.07, 0.6), (-0.70, 0.22, 0.09, 0.4),
    (-1.20, 0.36, 0.12, 0.7), (0.74, -0.66, 0.11, 0.7), (0.90, -0.08, 0.08, 0.5), (1.12, -0.42, 0.13, 0.8),
    (1.22, 0.26, 0.10, 0.6), (0.82, 0.40, 0.12, 0.5), (-0.20, -1.10, 0.09, 0.4), (0.35, -1.02, 0.12, 0.6),
)  # fmt: skip
_TORSO_SCALE = HEAD_SCALE / 0.52
_TORSO_Y = 0.12
"""The torso is drawn in its own units: those of a picture in which the head has scale 0.52 and lies 0.12 higher."""


def backdrop(identity: Maps, x: Tensor, y: Tensor) -> Tensor:
    """The picture behind the presenter, (n, 3, h, w)."""
    dark, light = identity["backdrop_dark"], identity["backdrop_light"]
    glow = blob(x - 0.1, y + 0.1, 0.9, 0.9)
    gradient = dark + (light - dark) * smoothstep(-1.3, 1.2, 0.3 * x - 0.8 * y) + 0.08 * glow
    kind = identity["backdrop"]
    panels = sum((smoothstep(-0.04, 0.04, w - (x - middle).abs()) for middle, w in _PANELS), torch.zeros_like(x))
    bands = smoothstep(-0.03, 0.03, 0.035 - (y + 0.55).abs()) + 0.6 * smoothstep(-0.03, 0.03, 0.02 - (y - 0.15).abs())
    studio = gradient * (1 - 0.22 * panels) + 0.10 * bands * (1 - 0.6 * panels)
    lights = sum(
        (
            strength * coverage((blob_x.square() + blob_y.square() + 1e-9).sqrt() - radius, 0.05)
            for blob_x, blob_y, radius, strength in ((x - px, y - py, r, s) for px, py, r, s in _LIGHTS)
        ),
        torch.zeros_like(x * y),
    )
    city = gradient * (0.55 + 0.25 * smoothstep(-0.4, 0.9, y)) + lights * (0.10 * light + color(x, 0.10, 0.07, 0.03))
    green = color(x, *_GREEN) * (0.97 + 0.05 * glow)
    picture = torch.where(kind == STUDIO, studio, torch.where(kind == CITY, city, gradient))
    return torch.where(kind == GREEN_SCREEN, green, picture).clamp(0, 1)


def torso(image: Tensor, identity: Maps, x: Tensor, y: Tensor, pixel: Tensor) -> Tensor:
    """Lays jacket, shirt and tie over the picture; the torso does not move."""
    bx, by, pixel = x / _TORSO_SCALE, y / _TORSO_SCALE - _TORSO_Y, pixel / _TORSO_SCALE
    ax = bx.abs()
    jacket, shirt, tie, skin = (identity[name] for name in ("jacket", "shirt", "tie", "skin"))
    shoulder = 0.535 + 0.20 * (ax / 0.8) ** 1.6 + 0.9 * (ax - 0.62).clamp(min=0).square() - 0.07 * bell(ax, 0.14)
    shoulder = shoulder + 50 * (ax - 0.80).clamp(min=0) ** 3
    outside = torch.maximum((shoulder - by) * 0.85, ax - 1.02 - 0.05 * (by - 1))
    rim = torch.exp(-(by - shoulder).clamp(min=0) / 0.06)
    round_ = 0.95 - 0.36 * (ax / 0.98).square() - 0.12 * bx + 0.16 * rim
    sleeve = ax - 0.70 - 0.10 * (by - 1.2).square() + 0.05 * (by - 0.9)
    folds = 0.035 * torch.sin(bx * 12 + by * 5) * smoothstep(0.7, 1.2, by) * bell(sleeve, 0.25)
    cloth = jacket * (round_ + folds)
    cloth = over(cloth, cloth * 0.74, coverage(sleeve.abs() - 0.004, pixel * 3) * smoothstep(0.75, 0.95, by))

    button = 1.02 + 0.26 * tie + 0.20 * identity["neckline"] * (1 - tie)
    opening = torch.maximum(ax - 0.235 * (1 - (by - 0.50) / (button - 0.50)).clamp(min=0), by - button)
    front = _shirt(identity, bx, by, ax, pixel)
    front = over(front, front * 0.62, coverage(opening.abs() - 0.012, 0.05) * 0.7)

    seam = coverage((bx - 0.004).abs() - 0.003, pixel * 2) * smoothstep(0.0, 0.02, by - button)
    cloth = over(cloth, cloth * 0.55, seam * 0.9)
    for place in (0.07, 0.33):
        disc = ellipse(bx - 0.035, by - button - place, 0.022, 0.022)
        cloth = over(cloth, jacket * (0.72 + 4 * (0.02 - (by - button - place))), coverage(disc, pixel * 1.5))
    edge = 0.235 * (1 - (0.56 - 0.50) / (button - 0.50))
    lapel = polygon(ax, by, (edge - 0.10, 0.50), (0.32, 0.735), (0.375, 0.80), (0.02, button + 0.02), (-0.02, button))
    collar = polygon(ax, by, (0.09, 0.46), (0.19, 0.52), (0.335, 0.70), (0.30, 0.765), (0.15, 0.66))
    for piece, lift in ((lapel, 1.08), (collar, 1.14)):
        cloth = over(cloth, cloth * 0.60, coverage(piece - 0.006, 0.035) * 0.75)
        cloth = over(cloth, (jacket * lift + 0.015) * round_, coverage(piece, pixel))
        cloth = over(cloth, cloth * 0.72, coverage(piece.abs() - 0.002, pixel * 2))
    body = over(cloth, front, coverage(opening, pixel))
    shade = blob(bx, by - 0.50, 0.30, 0.10)
    return over(
        image,
        (body * (1 - 0.25 * shade * (1 - skin.mean(1, keepdim=True) * 0.3))).clamp(0, 1),
        coverage(outside, pixel),
    )


def _shirt(identity: Maps, bx: Tensor, by: Tensor, ax: Tensor, pixel: Tensor) -> Tensor:
    """Shirt with tie, or a blouse with an open neck, as if it covered the whole torso."""
    shirt, tie, skin = identity["shirt"], identity["tie"], identity["skin"]
    cloth = shirt * (0.96 - 0.30 * smoothstep(0.04, 0.26, ax) - 0.5 * bx)
    neck = by - (0.665 + 0.10 * identity["neckline"] - 1.5 * ax.square())
    chest = skin * (0.86 - 0.25 * smoothstep(0.03, 0.22, ax) - 0.4 * bx)
    cloth = over(cloth, cloth * 0.72, coverage((neck - 0.006).abs() - 0.004, pixel * 3) * (1 - tie))
    chest = over(chest, identity["jacket"] * 0.55, smoothstep(0.165, 0.185, ax))
    cloth = over(cloth, chest, coverage(neck, pixel) * (1 - tie))
    blade = torch.maximum(ax - 0.028 - 0.075 * smoothstep(0.60, 1.25, by), 0.62 - by)
    stripes = smoothstep(0.35, 0.65, 0.5 + 0.5 * torch.sin((bx + by) * 60))
    silk = identity["tie_color"] * (0.90 - 2.2 * bx + 0.16 * stripes - 0.25 * bell(by - 0.65, 0.03))
    cloth = over(cloth, cloth * 0.70, coverage(blade - 0.012, 0.03) * tie * 0.7)
    return over(cloth, silk, coverage(blade, pixel) * tie)


def neck(image: Tensor, identity: Maps, motion: Maps, head: Head, axes: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Lays the neck, then shirt collar and tie knot, over the picture; it joins the moving head to the torso."""
    x, y, pixel = axes
    bx, by, small = x / _TORSO_SCALE, y / _TORSO_SCALE - _TORSO_Y, pixel / _TORSO_SCALE
    ax = bx.abs()
    skin, tie = identity["skin"], identity["tie"]
    scale = HEAD_SCALE * motion["scale"]
    px, py = head.project(0.0, 0.55, 0.15)
    angle = motion["roll"] * (torch.pi / 180)
    top_x = motion["x"] + scale * (angle.cos() * px - angle.sin() * py)
    top_y = motion["y"] + scale * (angle.sin() * px + angle.cos() * py)
    bottom_y = (0.62 + _TORSO_Y) * _TORSO_SCALE
    distance, along = segment(x, y, (top_x, top_y), (0.0, bottom_y))
    radius = identity["face_width"] * HEAD_SCALE * (0.485 - 0.05 * torch.sin(along * 3.1) + 0.06 * along)
    radius = radius * (1 + 0.6 * identity["jaw"])
    cut = by - (0.618 + 0.085 * (1 - (ax / 0.22).square()).clamp(min=0) * (1 - tie))
    outside = torch.maximum(distance - radius, cut * _TORSO_SCALE)
    side = (x - top_x * (1 - along)) / radius
    chin = motion["y"] + scale * (0.90 + 0.08 * motion["open"])
    under = torch.exp(-((y - chin) / (0.24 * scale)).clamp(min=0).square())
    tone = skin * (0.92 - 0.22 * side.square() - 0.12 * side) * (1 - 0.42 * under) * color(x, 1.0, 0.965, 0.95)
    sinew = bell(side.abs() - 0.42 + 0.25 * along, 0.09) * smoothstep(0.45, 0.9, along)
    tone = tone * (1 + 0.05 * sinew) * (1 - 0.12 * blob(bx, by - 0.625, 0.05, 0.03))
    image = over(image, tone.clamp(0, 1), coverage(outside, pixel * 1.2))

    flap = polygon(ax, by, (0.200, 0.470), (0.216, 0.53), (0.155, 0.735), (0.020, 0.605))
    image = over(image, image * 0.72, coverage(flap - 0.008, 0.03) * tie * 0.6)
    linen = identity["shirt"] * (1.0 - 0.35 * bx - 0.8 * (by - 0.64).clamp(min=0))
    image = over(image, linen.clamp(0, 1), coverage(flap, small) * tie)
    knot = polygon(ax, by, (-0.05, 0.585), (0.046, 0.590), (0.034, 0.660), (-0.05, 0.665))
    image = over(image, image * 0.7, coverage(knot - 0.004, 0.02) * tie * 0.6)
    silk = identity["tie_color"] * (0.98 - 3.0 * bx - 2.0 * (by - 0.62).clamp(min=0))
    return over(image, silk.clamp(0, 1), coverage(knot, small) * tie)

"""Lips, teeth and tongue, painted on the surface of the face. Moves as in `presenter_geometry.MOUTH`."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from .presenter_draw import LUMA, Maps, Surface, bell, blob, color, coverage, ellipse, over, smoothstep
from .presenter_geometry import MOUTH

_DARKEST_LIPS = 0.33
"""Luma of the darkest lips, in 0..1; an open mouth counts as dark below 60 of 255."""


@dataclasses.dataclass(frozen=True)
class Lips:
    """The lips' curves over the face, as heights at each pixel's x.

    Attributes:
        half_width: from the middle to a corner.
        t: place between the corners, -1..1.
        upper: outer edge of the upper lip.
        inner_upper: its inner edge.
        inner_lower: inner edge of the lower lip.
        lower: its outer edge.
        beside: signed distance beyond the corners.
    """

    half_width: Tensor
    t: Tensor
    upper: Tensor
    inner_upper: Tensor
    inner_lower: Tensor
    lower: Tensor
    beside: Tensor

    @classmethod
    def of(cls, identity: Maps, motion: Maps, x: Tensor) -> Lips:
        """The curves for a motion, in heights from `mouth_y`."""
        opening, smile, pucker, teeth = (motion[name] for name in ("open", "smile", "pucker", "teeth"))
        half = identity["mouth_width"] + MOUTH.wide_x * motion["wide"] - MOUTH.pucker_x * pucker
        half = half + MOUTH.smile_x * smile - MOUTH.open_x * opening
        t = x / half
        squared = t.square().clamp(max=1)
        arch = 1 - squared
        round_ = (1 - squared * t.abs().clamp(max=1)).clamp(min=1e-6).sqrt()
        bend = corner_height(motion) * squared
        full = identity["lip_fullness"] * (1 - 0.15 * motion["wide"] - 0.12 * smile + 0.30 * pucker - 0.10 * opening)
        # A round mouth opens as an O, a spread one as a lens.
        shape = torch.lerp(0.70 * round_ + 0.30 * arch, round_, pucker)
        inner_upper = bend - (MOUTH.open_upper * opening + MOUTH.teeth_upper * teeth) * shape
        inner_lower = bend + (MOUTH.open_lower * opening + MOUTH.teeth_lower * teeth) * shape
        inner_lower = inner_lower - MOUTH.open_corner * opening * squared * (1 - squared)
        bow = 0.30 * bell(t, 0.13) - 0.10 * bell(t.abs() - 0.26, 0.12)
        upper = inner_upper - 0.060 * full * torch.lerp(arch**0.85, round_, 0.6 * pucker) * (1 - bow) - 0.003
        lower = inner_lower + 0.080 * full * torch.lerp(arch**0.72, round_, pucker) + 0.003
        return cls(half, t, upper, inner_upper, inner_lower, lower, x.abs() - half)


def corner_height(motion: Maps) -> Tensor:
    """Height of the mouth's corners from `mouth_y`."""
    return MOUTH.open_corner * motion["open"] - MOUTH.smile_y * motion["smile"] - 0.02


def _between(y: Tensor, upper: Tensor, lower: Tensor, beside: Tensor) -> Tensor:
    return torch.maximum(torch.maximum(upper - y, y - lower), beside)


def mouth(face: Tensor, identity: Maps, motion: Maps, surface: Surface, pixel: Tensor) -> Tensor:
    """Lays the mouth over the face."""
    x, y = surface.x, surface.y - identity["mouth_y"]
    skin, makeup = identity["skin"], identity["makeup"]
    brightness = skin.mean(1, keepdim=True)
    lips = Lips.of(identity, motion, x)
    squared = lips.t.square().clamp(max=1)
    outer = _between(y, lips.upper, lips.lower, lips.beside)
    inner = _between(y, lips.inner_upper, lips.inner_lower, lips.beside)
    middle = (lips.inner_upper + lips.inner_lower) / 2

    bare = torch.lerp(
        skin * color(x, 0.90, 0.66, 0.66), identity["lip"] * (0.40 + 0.62 * brightness), 0.45 + 0.45 * makeup
    )
    light = 0.60 + 0.46 * surface.light
    is_lower = smoothstep(-0.006, 0.010, y - middle)
    down = ((y - lips.inner_lower) / (lips.lower - lips.inner_lower + 1e-3)).clamp(0, 1)
    up = ((lips.inner_upper - y) / (lips.inner_upper - lips.upper + 1e-3)).clamp(0, 1)
    tone = bare * light * torch.lerp(0.80 + 0.14 * up, 1.06 - 0.24 * down.square(), is_lower)
    wrinkles = torch.sin(lips.t * 26 + 0.6 * torch.sin(lips.t * 11)) * (0.016 * (1 - squared))
    tone = tone * (1 + wrinkles) + (0.07 + 0.10 * makeup) * blob(down - 0.40, lips.t + 0.15, 0.18, 0.30) * is_lower
    tone = tone + 0.05 * blob(up - 0.85, lips.t, 0.18, 0.35) * (1 - is_lower)
    face = over(face, face * 0.92, coverage(outer - 0.010, 0.035) * 0.7)
    # Lips stay lighter than the inside of any mouth, so that darkness tells how far a mouth is open.
    brightness = (tone * color(x, *LUMA)).sum(1, keepdim=True)
    tone = tone * (_DARKEST_LIPS / brightness.clamp(min=0.05)).clamp(min=1)
    face = over(face, tone, coverage(outer, 0.012 + pixel))

    # Closed lips meet in a line; it goes as they part.
    gap = lips.inner_lower - lips.inner_upper
    inside = _inside(motion, x, y, lips, pixel)
    face = over(face, inside, coverage(inner, pixel * 1.3) * smoothstep(0.0, 0.008, gap))
    parted = smoothstep(0.0, 0.02, gap)
    line = bell(y - middle - 0.004 * bell(lips.t, 0.2), 0.008) * coverage(lips.beside + 0.006, 0.03) * (1 - parted)
    face = over(face, face * color(x, 0.84, 0.74, 0.74), line)
    corner = blob(x.abs() - lips.half_width, y - corner_height(motion), 0.018, 0.014)
    return face * (1 - 0.14 * corner)


def _inside(motion: Maps, x: Tensor, y: Tensor, lips: Lips, pixel: Tensor) -> Tensor:
    """What an open mouth shows."""
    squared = lips.t.square().clamp(max=1)
    opening, teeth = motion["open"], motion["teeth"]
    depth = smoothstep(0.0, 0.20, y - lips.inner_upper)
    dark = color(x, 0.17, 0.040, 0.045) * (0.75 + 0.65 * depth)
    tongue_y = y - MOUTH.open_lower * opening + 0.028 - 0.02 * (1 - opening)
    tongue = ellipse(x, tongue_y, lips.half_width * 0.60, 0.066 * opening + 0.010)
    flesh = color(x, 0.74, 0.35, 0.34) * (0.66 + 0.30 * bell(tongue_y + 0.03, 0.06)) * (1 - 0.16 * bell(x, 0.012))
    dark = over(dark, flesh, coverage(tongue, 0.035) * smoothstep(0.12, 0.40, opening))

    arc = (1 - 0.50 * squared).clamp(min=0)
    tooth = ((x / 0.050 + 0.5) % 1) - 0.5
    gaps = 1 - 0.14 * bell(tooth.abs() - 0.5, 0.06)
    enamel = color(x, 0.96, 0.945, 0.905) * (0.95 - 0.34 * squared) * gaps
    # The upper row hangs from the fixed upper jaw; spread and drawn-back lips uncover more of it.
    edge = -0.006 + (0.026 + 0.034 * teeth + 0.022 * motion["smile"].clamp(min=0)) * arc - 0.006 * (2 * tooth).square()
    edge = edge - 0.030 * motion["pucker"] - (0.018 + MOUTH.smile_y * motion["smile"]) * squared
    upper_row = torch.maximum(y - edge, x.abs() - lips.half_width * 0.90)
    shade = 0.70 + 0.30 * smoothstep(0.0, 0.030, y - lips.inner_upper)
    lower_edge = MOUTH.open_lower * opening + 0.006 + 0.040 * squared - (0.030 + 0.022 * teeth) * arc
    lower_row = torch.maximum(lower_edge - y, x.abs() - lips.half_width * 0.66)
    shown = teeth * (1 - smoothstep(0.35, 0.8, opening))
    dark = over(dark, enamel * 0.80, coverage(lower_row, pixel * 1.5) * shown)
    return over(dark, enamel * shade, coverage(upper_row, pixel * 1.5))

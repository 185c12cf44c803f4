"""Ears and hair: back hair, the shell on the head with its hairline, locks beside the face, and the beard."""

from __future__ import annotations

import torch
from torch import Tensor

from .presenter_draw import Head, Maps, Surface, bell, blob, coverage, ellipse, over, smoothstep
from .presenter_geometry import HEAD_DEPTH, HEAD_HEIGHT


def _is_long(identity: Maps) -> Tensor:
    return (identity["hair_length"] > 0).float()


def _strands(along: Tensor, across: Tensor) -> Tensor:
    """A pattern of strands, about -1..1; `across` counts radians of the coarse strands."""
    bend = 1.4 * torch.sin(along * 3.1 + across * 0.11) + 0.8 * torch.sin(across * 0.37)
    coarse = 0.40 * torch.sin(across + bend) + 0.34 * torch.sin(across * 2.3 + 0.7 * bend + 1.7)
    return coarse + 0.26 * torch.sin(across * 4.7 - 1.3 * bend + 0.4)


def _lock_edges(identity: Maps, y: Tensor) -> tuple[Tensor, Tensor]:
    """How far long hair reaches inwards and outwards of the head's side at a height, and its waves."""
    wave = identity["hair_wave"] * smoothstep(-0.4, 0.6, y)
    length = identity["hair_length"]
    fall = (y + 0.55).clamp(min=0)
    outer = 0.012 + 0.75 * identity["hair_volume"] + 0.08 * fall * (1.3 - fall / (length + 0.75))
    outer = outer + 0.022 * wave * torch.sin(y * 8.0 + 2 * identity["hair_part"])
    inner = 0.03 + 0.06 * smoothstep(-0.4, 0.1, y) + 0.10 * smoothstep(0.2, 0.8, y) + 0.012 * wave * torch.sin(y * 6.5)
    return inner, outer


def _tips(identity: Maps, y: Tensor, across: Tensor, middle: Tensor, half: Tensor) -> Tensor:
    """Signed distance below the lower end of long hair: rounded, and of uneven strands."""
    rounded = 0.16 * ((across - middle) / half).square().clamp(max=1.5)
    ragged = 0.012 * torch.sin(across * 31) + 0.010 * torch.sin(across * 83 + 1) + 0.008 * torch.sin(across * 147)
    return (y - identity["hair_length"] + rounded + ragged) * 0.8


def _crown(identity: Maps, y: Tensor) -> Tensor:
    """How much nearer the middle the side of the head is at a height above the ears."""
    up = (-y).clamp(0, 1.06) / 1.08
    return identity["face_width"] * (1 - (1 - up.square()).sqrt())


def back_hair(image: Tensor, identity: Maps, head: Head) -> Tensor:
    """Long hair behind the neck."""
    a, hair = identity["face_width"], identity["hair"]
    left, _ = head.project(-a, 0.1, 0.12)
    right, _ = head.project(a, 0.1, 0.12)
    middle, half = (left + right) / 2, (right - left) / 2
    _, outer = _lock_edges(identity, head.y)
    sides = (head.x - middle).abs() - half - outer + _crown(identity, head.y)
    below = _tips(identity, head.y, head.x, middle, half + 0.1)
    outside = torch.maximum(torch.maximum(sides, below), -head.y - 0.45)
    strands = _strands(head.y, (head.x - middle) * 42)
    tone = hair * (0.56 + 0.09 * strands) * (1 - 0.40 * blob(head.x - middle, head.y - 0.8, 0.42, 0.6))
    share = coverage(outside, head.pixel * 2.5) * _is_long(identity)
    return over(image, tone.clamp(0, 1), share)


def ears(image: Tensor, identity: Maps, head: Head) -> Tensor:
    """Both ears."""
    a, skin = identity["face_width"], identity["skin"]
    for side in (-1.0, 1.0):
        ex, ey = head.project(side * a * 0.985, 0.07, 0.08)
        dx, dy = (head.x - ex) * side, head.y - ey
        outside = ellipse(dx - 0.10 * (-dy).clamp(min=0), dy, 0.078 - 0.10 * dy.clamp(0, 0.2), 0.175)
        hollow = blob(dx - 0.012, dy + 0.01, 0.030, 0.075)
        rim = bell(ellipse(dx - 0.008, dy + 0.02, 0.058, 0.13), 0.012)
        tone = skin * (0.84 - 0.08 * side) * (1 - 0.28 * hollow - 0.10 * rim)
        image = over(image, tone.clamp(0, 1), coverage(outside, head.pixel * 1.2))
    return image


def under_hair(image: Tensor, identity: Maps, head: Head) -> Tensor:
    """The inside of the hair, which shows beside a turned face."""
    surface, outside = _shell(identity, head)
    outside = torch.maximum(outside + 0.01, surface.y - identity["hair_side"] + 0.04)
    return over(image, identity["hair"] * 0.50, coverage(outside, head.pixel * 3))


def _hairline(identity: Maps, angle: Tensor) -> Tensor:
    """Height of the lower edge of the hair at an angle around the head; 0 is the front."""
    turned = angle.abs()
    from_part = (angle - 0.45 * identity["hair_part"]).abs()
    front = identity["hairline"] + 0.36 * identity["hair_sweep"] * from_part**1.4 + 0.05 * turned.square()
    front = front - 0.07 * (1 - identity["hair_sweep"]) * bell(turned - 0.62, 0.17)
    front = front + 0.025 * identity["hair_wave"] * torch.sin(angle * 9 + 4 * identity["hair_part"])
    return front + (identity["hair_side"] - front) * smoothstep(0.84, 1.18, turned)


def hair_shadow(face: Tensor, identity: Maps, surface: Surface) -> Tensor:
    """Darkens the forehead and temples below the hair."""
    angle = torch.atan2(surface.x / identity["face_width"], -surface.z / HEAD_DEPTH)
    below = (surface.y - _hairline(identity, angle)).clamp(min=0)
    return face * (1 - (0.10 + 0.14 * _is_long(identity)) * torch.exp(-below / 0.07))


def _shell(identity: Maps, head: Head) -> tuple[Surface, Tensor]:
    """The hair's surface, and its silhouette with quiff and uneven strands."""
    a, volume, long = identity["face_width"], identity["hair_volume"], _is_long(identity)
    fade = identity["hair_fade"]
    radii = (
        a * 1.01 + volume * (0.80 * long + (1 - long) * (0.45 - 0.30 * fade)),
        HEAD_HEIGHT * 1.0 + volume * (0.85 + 0.25 * long),
        HEAD_DEPTH * 1.04 + volume,
    )
    surface = head.surface(radii, (0.0, -0.03, 0.04), narrow=0.7)
    qx, qy = head.project(-0.16 * identity["hair_part"], -0.80, -0.30)
    quiff = ellipse(head.x - qx, head.y - qy, a * 0.66, 0.20 + 0.9 * volume)
    quiff = quiff + 0.30 * (1 - identity["hair_quiff"])
    gap = (surface.outside - quiff).abs()
    joined = torch.minimum(surface.outside, quiff) - 0.25 * (0.20 - gap).clamp(min=0).square() / 0.20
    round_ = torch.atan2(head.x, -head.y - 0.1)
    rough = (
        torch.sin(round_ * 13 + 3 * identity["hair_part"])
        + 0.7 * torch.sin(round_ * 29 + 1)
        + 0.5 * torch.sin(round_ * 71)
    )
    rough = (0.002 + 0.005 * identity["hair_wave"]) * rough
    return surface, joined + rough * (1 - 0.6 * long)


def head_hair(image: Tensor, identity: Maps, head: Head) -> Tensor:
    """The hair on the head, over the face."""
    a, hair, long = identity["face_width"], identity["hair"], _is_long(identity)
    surface, outside = _shell(identity, head)
    angle = torch.atan2(surface.x / a, -(surface.z - 0.04) / HEAD_DEPTH)
    part = 0.45 * identity["hair_part"]
    fall = identity["hair_sweep"]
    # Long hair falls from the parting; short hair is combed over the top of the head to one side.
    fallen = (angle - part) * 44
    combed = 52 * (surface.x + identity["hair_part"] * (0.9 * surface.y + 0.5 * surface.x.square()))
    strands = _strands(surface.y, torch.lerp(combed, fallen, long))
    edge = _hairline(identity, angle) - 0.4 * identity["hair_volume"]
    below = surface.y - edge + (0.016 + 0.010 * identity["hair_wave"]) * strands
    sides = smoothstep(0.75, 1.05, angle.abs()) * (1 - long)
    shaved = identity["hair_fade"] * sides * smoothstep(-0.62, -0.05, surface.y)
    light = surface.light
    sheen = bell(light - 0.88 - 0.025 * strands, 0.07)
    tone = hair * (0.54 + 0.46 * light + 0.08 * strands) + (0.07 + 0.10 * hair) * sheen * (0.7 + 0.5 * strands)
    parting = bell(angle - part, 0.025) * smoothstep(0.2, 0.5, fall) * smoothstep(-0.98, -0.8, surface.y)
    tone = tone * (1 - 0.30 * parting) * (1 - 0.15 * torch.exp(-(edge - surface.y).clamp(min=0) / 0.06))
    share = coverage(outside, head.pixel * 2.2) * coverage(below, 0.040 - 0.015 * long) * (1 - 0.75 * shaved)
    return over(image, tone.clamp(0, 1), share)


def locks(image: Tensor, identity: Maps, head: Head) -> Tensor:
    """Long hair beside the face, in front of ears and shoulders."""
    a, hair = identity["face_width"], identity["hair"]
    for side in (-1.0, 1.0):
        anchor, _ = head.project(side * a, 0.1, 0.02)
        inner, outer = _lock_edges(identity, head.y)
        # The inner edge lies in front of the head's side, so that it turns faster than the silhouette.
        edge = (inner / a).clamp(max=1)
        front, _ = head.project(
            side * (a - inner), 0.0, -0.5 * HEAD_DEPTH * (1 - (1 - edge).square()).clamp(min=0).sqrt()
        )
        inner = (anchor - front) * side
        reach = (head.x - anchor) * side + _crown(identity, head.y)
        below = _tips(identity, head.y, head.x, anchor + side * (outer - inner) / 2, (outer + inner) / 2 + 0.06)
        outside = torch.maximum(torch.maximum(-inner - reach, reach - outer), below)
        strands = _strands(head.y, reach * 46 + 3 * side)
        across = ((reach + inner) / (outer + inner + 1e-3)).clamp(0, 1)
        tone = hair * (0.62 + 0.34 * torch.sin(across * 2.6 + 0.25) + 0.10 * strands - 0.06 * side)
        share = coverage(outside, head.pixel * 2.0) * smoothstep(-0.42, -0.12, head.y) * _is_long(identity)
        rim = coverage(-inner - reach - 0.015, 0.05) * coverage(outside - 0.03, 0.06) * smoothstep(-0.3, 0.0, head.y)
        image = over(image, image * 0.80, rim * _is_long(identity) * 0.7)
        image = over(image, tone.clamp(0, 1), share)
    return image


def beard(face: Tensor, identity: Maps, surface: Surface) -> Tensor:
    """Beard and moustache with soft edges; the lips are drawn over it."""
    x, y = surface.x, surface.y
    across = (x / identity["face_width"]).abs()
    cheek = 0.47 - 0.62 * (across - 0.22).clamp(min=0) ** 1.5
    noise = torch.sin(x * 150 + 2 * torch.sin(y * 23 + x * 31)) * torch.sin(y * 61 + 3 * torch.sin(x * 17))
    jaw = smoothstep(-0.13, 0.12, y - cheek + 0.02 * noise)
    under_nose = identity["mouth_y"] - 0.125
    moustache = blob(x, y - under_nose - 0.25 * x.square(), 0.17, 0.035)
    soul = 1 - 0.9 * blob(across, y - identity["mouth_y"] - 0.01, 0.30, 0.075)
    share = (jaw * soul + 1.1 * moustache).clamp(0, 1) * (0.88 + 0.07 * noise)
    tone = 0.58 * identity["hair"] + 0.36 * identity["skin"] + 0.02 * noise
    return over(face, tone * (0.75 + 0.35 * surface.light), (share * identity["beard"] * 0.9).clamp(0, 1))

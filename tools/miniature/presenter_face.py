"""Skin, nose, brows, eyes and glasses, painted on the surface of the face."""

from __future__ import annotations

import torch
from torch import Tensor

from .presenter_draw import (
    Head,
    Maps,
    Surface,
    bell,
    blob,
    color,
    coverage,
    ellipse,
    over,
    segment,
    smoothstep,
)
from .presenter_geometry import BLINK, BROW, BROW_INNER, GAZE_X, GAZE_Y


def skin(identity: Maps, motion: Maps, surface: Surface) -> Tensor:
    """The bare face, (n, 3, h, w): light, cheeks, sockets and folds."""
    x, y, light = surface.x, surface.y, surface.light
    base, smile = identity["skin"], motion["smile"]
    eye_x, eye_y, mouth_y = identity["eye_x"], identity["eye_y"], identity["mouth_y"]
    face = base * (0.47 + 0.56 * light)
    face = face + 0.5 * color(x, 0.09, -0.01, -0.03) * bell(light - 0.45, 0.20)
    face = face * (1 + 0.05 * blob(x + 0.12, y + 0.42, 0.25, 0.16))
    blush = color(x, 0.05, -0.035, -0.02) * base.mean(1, keepdim=True)
    for side in (-1.0, 1.0):
        out = x * side
        cheek = blob(out - 0.42, y - 0.25 + 0.05 * smile, 0.17, 0.13)
        face = face + blush * cheek * (0.35 + 0.75 * identity["makeup"])
        face = face * (1 - 0.12 * blob(out - 0.92 * eye_x, y - eye_y + 0.08, 0.16, 0.10))
        face = face * (1 - 0.05 * blob(out - 0.95 * eye_x, y - eye_y - 0.115, 0.11, 0.022))
        face = face * (1 + 0.06 * blob(out - 0.42, y - 0.14 + 0.04 * smile, 0.13, 0.07))
        face = face * (1 - 0.06 * blob(out - 0.52, y - 0.47, 0.10, 0.16))
        fold = bell(out - 0.165 - 0.60 * (y - 0.28) - 0.03 * smile, 0.020)
        fold = fold * smoothstep(0.24, 0.34, y) * (1 - smoothstep(0.42, 0.56, y))
        face = face * (1 - fold * (0.05 + 0.13 * smile.clamp(min=0)))
    face = face * (1 - 0.10 * blob(x, y - mouth_y - 0.145, 0.12, 0.030))
    face = face * (1 - 0.05 * blob(x, y - mouth_y + 0.125, 0.018, 0.030))
    face = face * (1 + 0.05 * blob(x + 0.03, y - 0.80, 0.15, 0.09))
    return face


def nose(face: Tensor, identity: Maps, head: Head) -> Tensor:
    """The nose stands out of the face: it is placed by its own depth."""
    base, half = identity["skin"], identity["nose_width"]
    tip_y = identity["eye_y"] + identity["nose_length"] + 0.045
    x, y = head.narrowed_x, head.plain_y
    bridge = head.project(0.0, identity["eye_y"] + 0.02, -0.86)
    tip = head.project(0.0, tip_y, -1.03)
    distance, along = segment(x, y, bridge, tip)
    away = x - (bridge[0] + (tip[0] - bridge[0]) * along)
    face = face * (
        1
        - 0.15
        * bell(away - 0.052 - 0.03 * along, 0.034)
        * coverage(distance - 0.16, 0.12)
        * smoothstep(0.1, 0.8, along)
    )
    face = face * (
        1
        - 0.06
        * bell(away + 0.062 + 0.03 * along, 0.028)
        * coverage(distance - 0.16, 0.12)
        * smoothstep(0.1, 0.8, along)
    )
    face = face + base * 0.10 * torch.exp(-(distance / (0.024 + 0.016 * along)).square()) * smoothstep(0.0, 0.5, along)
    dx, dy = x - tip[0], y - tip[1]
    face = face * (1 + 0.10 * blob(dx + 0.015, dy + 0.012, half * 0.42, half * 0.38))
    warm = coverage(ellipse(dx, dy, half * 0.95, half * 0.80), 0.10)
    face = over(face, face * color(x, 1.02, 0.955, 0.945), warm * 0.6)
    for side in (-1.0, 1.0):
        wing_x, wing_y = head.project(side * half * 0.90, tip_y + 0.018, -0.90)
        wx, wy = (x - wing_x) * side, y - wing_y
        wing = ellipse(wx, wy, half * 0.40, half * 0.46)
        face = face * (1 + 0.04 * coverage(wing, 0.05))
        crease = bell(wing - 0.006, 0.011) * smoothstep(-0.01, 0.045, wx + 0.25 * wy)
        face = face * (1 - 0.20 * crease)
        hole_x, hole_y = head.project(side * half * 0.48, tip_y + 0.062, -0.96)
        hole = ellipse(x - hole_x, y - hole_y + 0.25 * (x - hole_x) * side, half * 0.30, 0.017)
        face = over(face, base * color(x, 0.42, 0.27, 0.25), coverage(hole, 0.016) * 0.75)
    return face * (1 - 0.15 * blob(dx, dy - 0.100, half * 0.9, 0.020))


def eyes(face: Tensor, identity: Maps, motion: Maps, surface: Surface, pixel: Tensor) -> Tensor:
    """Both eyes and brows."""
    for side, blink in ((-1.0, "blink_left"), (1.0, "blink_right")):
        face = _eye(face, identity, motion, motion[blink], side, surface, pixel)
        face = _brow(face, identity, motion, side, surface, pixel)
    return face


def _eye(
    face: Tensor, identity: Maps, motion: Maps, blink: Tensor, side: float, surface: Surface, pixel: Tensor
) -> Tensor:
    size, makeup, hair = identity["eye_size"], identity["makeup"], identity["hair"]
    x = surface.x - side * identity["eye_x"]
    out = x * side
    y = surface.y - identity["eye_y"] + 0.10 * out * (0.4 + 2.0 * identity["brow_tilt"])
    half_width, half_height = 0.150 * size, 0.082 * size
    t = x / half_width
    squared = t.square().clamp(max=1)
    # The highest point of the upper lid is a little nearer to the nose, the lowest of the lower lid farther.
    arch = 1 - squared
    upper_arch = arch**0.80 * (1 - 0.16 * t * side)
    lower_arch = arch * (1 + 0.18 * t * side)
    squint = 0.25 * motion["smile"].clamp(min=0)
    lower = half_height * (0.62 - squint) * (1 - 0.25 * blink) * lower_arch
    upper = torch.minimum((-half_height + BLINK * blink * size) * upper_arch, lower)
    beside = x.abs() - half_width
    opening = torch.maximum(torch.maximum(upper - y, y - lower), beside)

    crease = -half_height * 1.38 * arch**0.6 - 0.004 + 0.35 * BLINK * blink.clamp(min=0) * arch
    lid = torch.maximum(torch.maximum(crease - y, y - upper), beside)
    tone = (
        identity["skin"]
        * (0.58 + 0.42 * surface.light)
        * (1 - 0.15 * makeup)
        * (1 - 0.10 * smoothstep(0.5, 1, squared))
    )
    face = over(face, tone * (1 + 0.05 * bell(y - (upper + crease) / 2, 0.02)), coverage(lid, pixel * 2))
    fold = bell(y - crease, 0.008) * coverage(beside - 0.008, pixel * 5)
    face = over(face, face * 0.70, fold * (0.75 - 0.45 * blink.clamp(min=0)))

    face = over(face, _eyeball(identity, motion, x, y, upper, squared, pixel), coverage(opening, pixel * 1.2))
    inner_corner = blob(out + half_width * 0.93, y - 0.004, 0.014, 0.012) * coverage(opening, pixel * 2)
    face = over(face, identity["skin"] * color(x, 0.95, 0.70, 0.68), inner_corner * 0.8)

    lash_color = hair * 0.14 + 0.035
    lash = 0.007 + 0.009 * makeup + 0.005 * smoothstep(-0.5, 1, out / half_width)
    line = torch.maximum((y - upper).abs() - lash * arch**0.35, beside - 0.008)
    face = over(face, lash_color, coverage(line, pixel * 1.6) * (0.78 + 0.15 * makeup))
    tip_y = -0.042 * (1 - blink) + 0.02 * blink
    wing, _ = segment(x, y, (side * half_width * 0.88, -0.010), (side * half_width * 1.13, tip_y))
    face = over(face, lash_color, coverage(wing - 0.006, pixel * 2) * (0.10 + 0.6 * makeup))
    rim = torch.maximum((y - lower).abs() - 0.004, beside + 0.012)
    return over(face, face * 0.72, coverage(rim, pixel * 2) * 0.7)


def _eyeball(
    identity: Maps, motion: Maps, x: Tensor, y: Tensor, upper: Tensor, squared: Tensor, pixel: Tensor
) -> Tensor:
    gaze_x, gaze_y = GAZE_X * motion["gaze_x"], GAZE_Y * motion["gaze_y"]
    radius = 0.074 * (0.5 + 0.5 * identity["eye_size"])
    lid_shadow = torch.exp(-((y - upper) / 0.026).clamp(min=0))
    ball = color(x, 0.93, 0.925, 0.92) * (0.97 - 0.22 * squared) * (1 - 0.30 * lid_shadow)
    ix, iy = x - gaze_x, y - gaze_y + 0.006
    r = (ix.square() + iy.square() + 1e-9).sqrt()
    rays = 1 + 0.10 * torch.sin(torch.atan2(iy, ix) * 17) * smoothstep(0.4, 0.8, r / radius)
    iris = identity["iris"] * (0.70 + 0.70 * smoothstep(-0.06, 0.06, iy)) * rays
    iris = iris * (1 - 0.55 * smoothstep(0.72, 1.0, r / radius))
    ball = over(ball, iris, coverage(r - radius, pixel * 1.6))
    ball = over(ball, color(x, 0.03, 0.03, 0.035), coverage(r - radius * 0.42, pixel * 1.6))
    ball = ball * (1 - 0.22 * torch.exp(-((y - upper) / 0.016).clamp(min=0)))
    glint = ((x - 0.8 * gaze_x + 0.024).square() + (y - 0.8 * gaze_y + 0.030).square() + 1e-9).sqrt()
    ball = over(ball, color(x, 1.0, 1.0, 1.0), coverage(glint - 0.0155, pixel * 1.5) * 0.95)
    soft = ((x - 0.8 * gaze_x - 0.028).square() + (y - 0.8 * gaze_y - 0.026).square() + 1e-9).sqrt()
    return over(ball, color(x, 1.0, 1.0, 1.0), coverage(soft - 0.009, pixel * 2) * 0.30)


def _brow(face: Tensor, identity: Maps, motion: Maps, side: float, surface: Surface, pixel: Tensor) -> Tensor:
    x = surface.x - side * identity["eye_x"] * 1.02
    out = x * side
    t = out / 0.20
    y = surface.y - identity["eye_y"] + 0.205 + BROW * motion["brow"]
    inner = smoothstep(-1.1, 0.6, -t)
    curve = 0.040 * (t - 0.25).square() - 0.5 * identity["brow_tilt"] * out - 0.022
    curve = curve - BROW_INNER * motion["brow_inner"] * inner
    thick = (
        0.030
        * identity["brow_thickness"]
        * (1 - 0.68 * smoothstep(-0.2, 1.05, t))
        * (0.55 + 0.45 * smoothstep(-1.1, -0.6, t))
    )
    hairs = torch.sin(out * 210 - (y - curve) * 130)
    distance = torch.maximum((y - curve).abs() - thick + 0.0015 * hairs, t.abs() * 0.20 - 0.205)
    tone = (identity["hair"] * 0.66 + identity["skin"] * 0.06) * (0.95 + 0.05 * hairs)
    return over(face, tone, coverage(distance, pixel * 2 + 0.010) * 0.86)


def glasses(face: Tensor, identity: Maps, surface: Surface, pixel: Tensor) -> Tensor:
    """A thin dark frame before the eyes, for those who wear one."""
    eye_x, eye_y, worn = identity["eye_x"], identity["eye_y"], identity["glasses"]
    rims, lenses = [], []
    for side in (-1.0, 1.0):
        x, y = (surface.x - side * eye_x * 1.03).abs(), (surface.y - eye_y - 0.02).abs()
        corner = 0.085
        qx, qy = x - (0.225 - corner), y - (0.155 - corner)
        rim = (
            (qx.clamp(min=0).square() + qy.clamp(min=0).square() + 1e-9).sqrt()
            + torch.maximum(qx, qy).clamp(max=0)
            - corner
        )
        rims.append(rim.abs() - 0.009)
        lenses.append(rim)
    nose_bridge = torch.maximum(
        (surface.y - eye_y + 0.055 - 0.6 * surface.x.square()).abs() - 0.009,
        surface.x.abs() - eye_x * 1.03 + 0.225,
    )
    temple = torch.maximum((surface.y - eye_y + 0.05).abs() - 0.010, eye_x * 1.03 + 0.225 - surface.x.abs())
    frame = torch.minimum(torch.minimum(rims[0], rims[1]), torch.minimum(nose_bridge, temple))
    lens = torch.minimum(lenses[0], lenses[1])
    glare = bell(surface.x * 0.8 + surface.y - 0.05, 0.03) + 0.6 * bell(surface.x * 0.8 + surface.y - 0.16, 0.015)
    face = over(face, face * 0.97 + 0.03 + 0.05 * glare, coverage(lens, pixel * 2) * worn)
    face = over(face, face * 0.82, coverage(frame - 0.010, 0.03) * worn * 0.7)
    return over(
        face,
        color(surface.x, 0.10, 0.09, 0.10) + 0.12 * surface.light.square(),
        coverage(frame, pixel * 1.5) * worn,
    )

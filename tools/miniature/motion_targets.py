"""What a presenter's face and head do while speaking, as motion vectors (265): the targets of the motion network.

Lips follow the phonemes. The head sways and nods with the voice, eyes stay on the viewer, blink, and show emotion.
The diffusion's noise has a standard deviation of 1 in every value, so that only what is large beside it can differ
from draw to draw: turns of the head, through the angles' 66 logits, and blinks, through the depth of t. That depth
moves nothing in the picture. It is also 0 for a source and at least 1 for a row made here, which tells the network
a window that starts at rest from one that goes on.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ditto_core.motion.keypoints import PARTS
from ditto_core.networks.motion_extractor import ANGLE_BINS
from ditto_core.networks.presets import MOTION_SIZE, WINDOW_ROWS

from .presenter_geometry import canonical_keypoints, expression_basis
from .presenter_parameters import EXPRESSIONS, random_identities

FRAME_RATE = 25
ROWS = WINDOW_ROWS + 1
"""A window, and the row before it."""
LOOKS = ("opening", "wide", "pucker", "smile", "brow", "brow_inner", "lids", "pitch")
"""What emotion changes: a factor of the mouth's opening (less 1), expression parameters, lids of both eyes, degrees."""
EMOTION_LOOKS = {
    "angry": (0.05, 0.00, 0.10, -0.40, -0.90, -0.90, 0.12, 2.0),
    "disgust": (0.00, 0.10, 0.00, -0.35, -0.50, -0.40, 0.28, -1.0),
    "fear": (0.05, 0.30, 0.00, -0.15, 0.60, 0.70, -0.25, -1.0),
    "happy": (0.10, 0.25, 0.00, 0.90, 0.30, 0.15, 0.15, -1.0),
    "neutral": (0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.0),
    "sad": (-0.15, -0.10, 0.05, -0.50, -0.10, 0.95, 0.22, 3.0),
    "surprise": (0.20, -0.20, 0.15, 0.00, 1.00, 0.40, -0.30, -2.0),
    "contempt": (0.00, -0.20, 0.00, 0.30, -0.20, -0.30, 0.25, -2.0),
}
"""In the order of `ditto_core.motion.conditions.EMOTIONS`."""
REST_ROWS, MOOD_ROWS = 3, 15
"""Rows in which the lips, and an emotion, come up from rest."""

_SWAY = {"yaw": 3.5, "pitch": 2.0, "roll": 1.8, "x": 0.008, "y": 0.006}
_SWAY_RATES = (0.06, 0.45)
_WAVES = 4
_NOD, _STRESS_BROW = 4.0, 0.3
_BLINK = (0.30, 0.85, 1.00, 0.85, 0.55, 0.25, 0.08)
_BLINK_INTERVAL, _BLINK_LEAST = 80, 20
_BLINK_DEPTH = 2.0
_GAZE_X, _GAZE_Y = 0.03, -0.02


class MotionWindows(NamedTuple):
    """A batch of windows to learn from.

    Attributes:
        vectors: (b, 80, 265).
        start: (b, 265) the row before, or a source's.
        extras: (b, 80, 79) what a condition row has beside speech.
        parameters: (b, 80, 11) the expression parameters in the vectors.
    """

    vectors: Tensor
    start: Tensor
    extras: Tensor
    parameters: Tensor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Actors:
    """Those who act.

    Attributes:
        canonical: (n, 63) canonical key points of presenters.
        emotions: (8, 8) emotion values of a condition for each emotion.
        eyes: (8,) opening and gaze of a condition for neutral eyes.
        basis: (11, 63) of expression.
        looks: (8, 8), EMOTION_LOOKS.
    """

    canonical: Tensor
    emotions: Tensor
    eyes: Tensor
    basis: Tensor
    looks: Tensor

    @classmethod
    def random(cls, n: int, seed: int, emotions: Tensor, eyes: Tensor) -> Actors:
        """Presenters at random, on the device of `emotions`."""
        identities = random_identities(n, torch.Generator().manual_seed(seed))
        return cls(
            canonical=canonical_keypoints(identities).flatten(1).to(emotions),
            emotions=emotions,
            eyes=eyes.to(emotions),
            basis=expression_basis().to(emotions),
            looks=torch.tensor(list(EMOTION_LOOKS.values())).to(emotions),
        )


def angle_logits(degrees: Tensor) -> Tensor:
    """Logits over the 66 angle bins with a given mean, (...) -> (..., 66).

    They are proportional to the angle and to the bin, a slightly tilted flat distribution: one direction to learn, and
    about as large as suits the sampler. Ten steps lose half of the variation where it is far above the noise, since
    the first steps go from pure noise to most of what slow movement has over a window.
    """
    bins = _bins(degrees)
    return degrees[..., None] * (bins / (bins**2).mean())


def sharp_logits(degrees: Tensor, width: Tensor) -> Tensor:
    """Logits of a normal distribution of a width in degrees, as motion extractors give them, (...) -> (..., 66)."""
    return -((_bins(degrees) - degrees[..., None]) ** 2) / (2 * width**2)


def _bins(like: Tensor) -> Tensor:
    return torch.arange(ANGLE_BINS, device=like.device, dtype=like.dtype) * 3 - 97.5


def sway(n: int, rows: int, device: torch.device) -> Tensor:
    """(n, rows) slow random movement of variance 1."""
    low, high = (math.log(rate) for rate in _SWAY_RATES)
    rate = torch.exp(low + (high - low) * torch.rand(n, _WAVES, 1, device=device))
    phase = 2 * math.pi * torch.rand(n, _WAVES, 1, device=device)
    time = torch.arange(rows, device=device) / FRAME_RATE
    return (2 * math.pi * rate * time + phase).sin().sum(1) * math.sqrt(2 / _WAVES)


def blinks(n: int, rows: int, device: torch.device) -> Tensor:
    """(n, rows) lids from 0 to 1 in blinks at random times, never one right after another."""
    profile = torch.tensor(_BLINK, device=device)
    begun = (torch.rand(n, 1, rows + len(profile) + _BLINK_LEAST, device=device) < 1 / _BLINK_INTERVAL).float()
    recent = F.max_pool1d(begun, _BLINK_LEAST, stride=1)[..., :-1]
    alone = begun[..., _BLINK_LEAST:] * (1 - recent)
    return F.conv1d(alone, profile.flip(0)[None, None])[:, 0, :rows]


def emotion_courses(labels: Tensor, n: int, rows: int) -> Tensor:
    """(n, rows, 8) emotion values: neutral, another emotion, a blend of two, or a change from one to the other."""
    device = labels.device
    both = torch.randint(len(labels), (2, n), device=device)
    neutral = list(EMOTION_LOOKS).index("neutral")
    both = torch.where(torch.rand(2, n, device=device) < 0.35, neutral, both)
    kind = torch.rand(n, 1, device=device)
    change = torch.randint(rows, (n, 1), device=device)
    blend = torch.rand(n, 1, device=device) * (kind < 0.15)
    share = torch.where(kind > 0.8, (torch.arange(rows, device=device) >= change).float(), blend)
    first, second = labels[both]
    return torch.lerp(first[:, None], second[:, None], share[..., None])


def smoothed(x: Tensor, rows: float) -> Tensor:
    """(n, r, c) smoothed along r by a normal distribution of that many rows' deviation."""
    reach = int(3 * rows)
    steps = torch.arange(-reach, reach + 1, device=x.device)
    weights = torch.exp(-0.5 * (steps / rows) ** 2)
    kernel = (weights / weights.sum())[None, None].expand(x.shape[2], 1, -1)
    return F.conv1d(F.pad(x.transpose(1, 2), (reach, reach), mode="replicate"), kernel, groups=x.shape[2]).mT


def draw_windows(mouth: Tensor, stress: Tensor, actors: Actors) -> MotionWindows:
    """Windows of motion for what is said, everything else drawn at random.

    Args:
        mouth: (b, 81, 4) open, wide, pucker and teeth.
        stress: (b, 81) loudness, smoothed, 0..1.
        actors: who acts.
    """
    n, device = len(mouth), mouth.device
    emotion = emotion_courses(actors.emotions, n, ROWS)
    # A third each: a source's motion before the window; our own pose, but a source's expression; a row of our own.
    kind = torch.randint(3, (n, 1), device=device)
    row = torch.arange(ROWS, device=device) - 1
    risen = torch.where(kind < 2, (row / REST_ROWS).clamp(0, 1), 1.0)
    mood = torch.where(kind < 2, (row / MOOD_ROWS).clamp(0, 1), 1.0)
    looks = smoothed(emotion @ actors.looks, 4.0) * (mood**2 * (3 - 2 * mood))[..., None]
    blink = blinks(n, ROWS, device) * risen
    turns = {name: size * sway(n, ROWS, device) for name, size in _SWAY.items()}
    turns["pitch"] = turns["pitch"] + _NOD * (stress - 0.5) + looks[..., LOOKS.index("pitch")]
    parameters = _parameters(mouth * risen[..., None], stress * risen, looks, blink, turns, risen)
    vectors = motion_vectors(turns, 1 + _BLINK_DEPTH * blink, parameters @ actors.basis)
    start = _starts(vectors[:, 0], kind, actors)
    eyes = actors.eyes + 0.03 * torch.randn(n, 1, len(actors.eyes), device=device)
    canonical = actors.canonical[torch.randint(len(actors.canonical), (n,), device=device)]
    canonical = canonical + 0.01 * torch.randn_like(canonical)
    extras = torch.cat(
        [emotion[:, 1:], eyes.expand(-1, WINDOW_ROWS, -1), canonical[:, None].expand(-1, WINDOW_ROWS, -1)], dim=-1
    )
    return MotionWindows(vectors[:, 1:], start, extras, parameters[:, 1:])


def motion_vectors(turns: dict[str, Tensor], depth: Tensor, exp: Tensor) -> Tensor:
    """(b, n, 265) of turns and shifts (b, n), the depth of t (b, n) and expression (b, n, 63)."""
    vectors = exp.new_zeros(*exp.shape[:2], MOTION_SIZE)
    for name in ("pitch", "yaw", "roll"):
        vectors[..., getattr(PARTS, name)] = angle_logits(turns[name])
    vectors[..., PARTS.t] = torch.stack([turns["x"], turns["y"], depth], dim=-1)
    vectors[..., PARTS.exp] = exp
    return vectors


def _parameters(
    mouth: Tensor, stress: Tensor, looks: Tensor, blink: Tensor, turns: dict[str, Tensor], risen: Tensor
) -> Tensor:
    """(b, n, 11) expression parameters, in the order of EXPRESSIONS."""
    look = dict(zip(LOOKS, looks.unbind(-1), strict=True))
    opened, wide, pucker, teeth = mouth.unbind(-1)
    lids = look["lids"] + (1 - look["lids"]) * blink
    rounded = (pucker + look["pucker"]).clamp(0, 1)
    values = {
        "open": (opened * (1 + look["opening"])).clamp(0, 1),
        "wide": wide + look["wide"] * (1 - rounded),
        "pucker": rounded,
        "smile": look["smile"] * (1 - 0.6 * rounded),
        "teeth": teeth,
        "brow": look["brow"] + _STRESS_BROW * stress,
        "brow_inner": look["brow_inner"],
        "blink_left": lids,
        "blink_right": lids,
        # The eyes stay on the viewer while the head turns.
        "gaze_x": _GAZE_X * turns["yaw"] * risen,
        "gaze_y": _GAZE_Y * turns["pitch"] * risen,
    }
    return torch.stack([values[name] for name in EXPRESSIONS], dim=-1)


def _starts(before: Tensor, kind: Tensor, actors: Actors) -> Tensor:
    """(b, 265) the row before each window as the network is given it."""
    start = before + 0.02 * torch.randn_like(before)
    start[:, PARTS.exp] = before[:, PARTS.exp] + 0.1 * (torch.randn(len(before), 11, device=before.device) * 0.3) @ (
        actors.basis
    )
    source = source_vectors(len(before), actors)
    at_rest = torch.cat([start[:, : PARTS.exp.start], source[:, PARTS.exp]], dim=-1)
    return torch.where(kind == 0, source, torch.where(kind == 1, at_rest, start))


def source_vectors(n: int, actors: Actors) -> Tensor:
    """(n, 265) motion of sources: about neutral, turned anyhow, with angle logits of any sharpness and level."""
    device = actors.basis.device
    source = torch.zeros(n, MOTION_SIZE, device=device)
    source[:, PARTS.scale] = 0.1 * torch.randn(n, 1, device=device)
    for name in ("pitch", "yaw", "roll"):
        width = torch.exp(1.6 + 1.6 * torch.rand(n, 1, device=device))
        logits = sharp_logits(8 * torch.randn(n, device=device), width).clamp(min=-12)
        level = 5 * torch.rand(n, 1, device=device)
        source[:, getattr(PARTS, name)] = logits + level + 0.3 * torch.randn(n, ANGLE_BINS, device=device)
    source[:, PARTS.t] = 0.05 * torch.randn(n, 3, device=device)
    source[:, PARTS.exp] = 0.1 * torch.randn(n, 11, device=device) @ actors.basis
    source[:, PARTS.exp] += 0.004 * torch.randn(n, 63, device=device)
    return source

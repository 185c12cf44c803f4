"""What a drawn presenter looks like (Identity) and does (Motion), and random draws of both.

All values are tensors of shape (n,) or, for colours, (n, 3) in 0..1: one entry a picture. Lengths are in head
units, half the height of the head. Random draws come from a CPU generator, so that they are the same everywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

Self = TypeVar("Self", bound="Parameters")

SKINS = (
    (0.97, 0.81, 0.71), (0.94, 0.75, 0.63), (0.86, 0.65, 0.51), (0.76, 0.55, 0.41), (0.63, 0.44, 0.32),
    (0.56, 0.39, 0.29),
)  # fmt: skip
HAIRS = (
    (0.10, 0.08, 0.07), (0.20, 0.13, 0.09), (0.35, 0.22, 0.13), (0.58, 0.41, 0.22), (0.80, 0.64, 0.40),
    (0.46, 0.20, 0.10), (0.62, 0.61, 0.60),
)  # fmt: skip
IRISES = ((0.24, 0.15, 0.08), (0.36, 0.24, 0.10), (0.22, 0.42, 0.58), (0.28, 0.42, 0.30), (0.40, 0.46, 0.52))
LIPS = ((0.72, 0.36, 0.34), (0.66, 0.30, 0.32), (0.78, 0.40, 0.38))
JACKETS = (
    (0.11, 0.14, 0.24), (0.17, 0.17, 0.19), (0.35, 0.10, 0.14), (0.10, 0.28, 0.30), (0.50, 0.20, 0.28),
    (0.30, 0.32, 0.36), (0.16, 0.20, 0.42), (0.72, 0.69, 0.65),
)  # fmt: skip
SHIRTS = ((0.95, 0.95, 0.96), (0.80, 0.87, 0.95), (0.95, 0.88, 0.86), (0.24, 0.24, 0.28), (0.93, 0.92, 0.84))
TIES = ((0.58, 0.12, 0.15), (0.13, 0.20, 0.44), (0.40, 0.16, 0.36), (0.12, 0.36, 0.33), (0.68, 0.50, 0.18))
BACKDROPS = (
    ((0.08, 0.15, 0.29), (0.30, 0.50, 0.72)), ((0.15, 0.16, 0.20), (0.37, 0.39, 0.44)),
    ((0.28, 0.34, 0.42), (0.62, 0.68, 0.74)), ((0.66, 0.70, 0.74), (0.90, 0.92, 0.94)),
    ((0.17, 0.28, 0.30), (0.44, 0.57, 0.56)), ((0.33, 0.21, 0.24), (0.68, 0.49, 0.45)),
)  # fmt: skip
GREEN_SCREEN, GRADIENT, STUDIO, CITY = range(4)
"""Kinds of backdrop."""


class Parameters:
    """Tensors with one entry a picture; a frozen dataclass of such."""

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        first: Tensor = next(iter(vars(self).values()))
        return first.device

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def __getitem__(self: Self, index: slice | Sequence[int] | Tensor) -> Self:
        return type(self)(**{name: value[index] for name, value in vars(self).items()})

    def to(self: Self, device: torch.device | str) -> Self:
        """The same values on another device."""
        return type(self)(**{name: value.to(device) for name, value in vars(self).items()})

    def expand(self: Self, n: int) -> Self:
        """One entry as n equal ones."""
        return type(self)(**{name: value.expand(n, *value.shape[1:]) for name, value in vars(self).items()})

    def maps(self) -> dict[str, Tensor]:
        """The values shaped to work with pictures: (n, 1, 1, 1), colours (n, 3, 1, 1)."""
        return {name: value.reshape(len(value), -1, 1, 1) for name, value in vars(self).items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Identity(Parameters):
    """Face, hair, clothes and backdrop.

    Attributes:
        face_width: half width of the head, 0.66..0.80.
        jaw: width of the jaw, -0.08 (fine) .. 0.14 (square).
        eye_x: distance of the eyes from the middle.
        eye_y: height of the eyes; down is positive.
        eye_size: factor.
        mouth_y: height of the closed mouth.
        mouth_width: half width of the mouth at rest.
        lip_fullness: factor.
        nose_length: from the eyes to the wings of the nose.
        nose_width: half width of the tip.
        brow_thickness: factor.
        brow_tilt: inner ends down, above 0.
        hairline: height of the hairline in the middle, -0.74 (high) .. -0.50.
        hair_sweep: how far the hairline falls from the parting to the temples, 0..1.
        hair_part: side of the parting, -1..1.
        hair_side: how far down the hair at the temples comes.
        hair_volume: thickness of the hair above the head.
        hair_quiff: raised hair above the forehead, 0..1.
        hair_length: lower end of long hair; 0 is short hair.
        hair_wave: 0 straight .. 1 wavy.
        hair_fade: 0 .. 1 sides cut short.
        beard: 0 none .. 1 full.
        makeup: 0..1.
        glasses: 0 or 1.
        tie: 0 or 1; without a tie the collar is open.
        neckline: depth of the opening without a tie, 0..1.
        backdrop: GREEN_SCREEN, GRADIENT, STUDIO or CITY.
        skin: colour; so are iris, hair, lip, jacket, shirt, tie_color, backdrop_dark and backdrop_light.
    """

    face_width: Tensor
    jaw: Tensor
    eye_x: Tensor
    eye_y: Tensor
    eye_size: Tensor
    mouth_y: Tensor
    mouth_width: Tensor
    lip_fullness: Tensor
    nose_length: Tensor
    nose_width: Tensor
    brow_thickness: Tensor
    brow_tilt: Tensor
    hairline: Tensor
    hair_sweep: Tensor
    hair_part: Tensor
    hair_side: Tensor
    hair_volume: Tensor
    hair_quiff: Tensor
    hair_length: Tensor
    hair_wave: Tensor
    hair_fade: Tensor
    beard: Tensor
    makeup: Tensor
    glasses: Tensor
    tie: Tensor
    neckline: Tensor
    backdrop: Tensor
    skin: Tensor
    hair: Tensor
    iris: Tensor
    lip: Tensor
    jacket: Tensor
    shirt: Tensor
    tie_color: Tensor
    backdrop_dark: Tensor
    backdrop_light: Tensor


EXPRESSIONS = (
    "open", "wide", "pucker", "smile", "teeth", "brow", "brow_inner", "blink_left", "blink_right",
    "gaze_x", "gaze_y",
)  # fmt: skip
"""The expression parameters of Motion, in the order of the expression basis."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Motion(Parameters):
    """Pose and expression. Left and right are those of the picture.

    Attributes:
        yaw: degrees; so are pitch and roll. Signs as in `ditto_core.motion.keypoints.rotation_matrix`.
        pitch: degrees.
        roll: degrees.
        x: movement of the head against the body, in half widths of the face picture.
        y: the same, down.
        scale: size of the head; 1 is neutral.
        open: 0 closed .. 1 wide open mouth.
        wide: -1 narrow .. 1 spread lips.
        pucker: 0 .. 1 lips pushed forward and round (u, o, w).
        smile: -0.5 corners down .. 1.
        teeth: 0 .. 1 lips drawn back from the teeth (s, f).
        brow: -1 lowered .. 1 raised brows.
        brow_inner: -1 inner ends down (angry) .. 1 up (sad).
        blink_left: -0.3 wide open .. 1 shut.
        blink_right: the same.
        gaze_x: -1..1, right is positive.
        gaze_y: -1..1, down is positive.
    """

    yaw: Tensor
    pitch: Tensor
    roll: Tensor
    x: Tensor
    y: Tensor
    scale: Tensor
    open: Tensor
    wide: Tensor
    pucker: Tensor
    smile: Tensor
    teeth: Tensor
    brow: Tensor
    brow_inner: Tensor
    blink_left: Tensor
    blink_right: Tensor
    gaze_x: Tensor
    gaze_y: Tensor

    @classmethod
    def neutral(cls, n: int = 1, **values: float | Sequence[float] | Tensor) -> Motion:
        """Neutral entries, with some parameters set: numbers, or one number an entry."""
        fields = {field.name: torch.zeros(n) for field in dataclasses.fields(cls)}
        fields["scale"] = torch.ones(n)
        for name, value in values.items():
            if name not in fields:
                raise TypeError(f"Motion has no parameter '{name}'")
            fields[name] = torch.as_tensor(value, dtype=torch.float32).expand(n)
        return cls(**fields)


def random_identities(n: int, generator: torch.Generator) -> Identity:
    """Identities with nothing in common but the style of drawing."""

    def uniform(low: float, high: float) -> Tensor:
        return torch.rand(n, generator=generator) * (high - low) + low

    def chance(probability: float) -> Tensor:
        return (torch.rand(n, generator=generator) < probability).float()

    def pick(table: Sequence[Sequence[float]], jitter: float = 0.03) -> Tensor:
        colors = torch.tensor(table)
        first, second = torch.randint(len(colors), (2, n), generator=generator)
        mixed = torch.lerp(colors[first], colors[second], 0.35 * torch.rand(n, 1, generator=generator))
        return (mixed + jitter * (2 * torch.rand(n, 3, generator=generator) - 1)).clamp(0.04, 0.98)

    long = chance(0.5)
    backdrops = torch.tensor(BACKDROPS)[torch.randint(len(BACKDROPS), (n,), generator=generator)]
    kind = torch.multinomial(torch.tensor([0.2, 0.3, 0.25, 0.25]), n, replacement=True, generator=generator)
    return Identity(
        face_width=uniform(0.68, 0.78),
        jaw=uniform(-0.06, 0.05) + (1 - long) * uniform(0.0, 0.09),
        eye_x=uniform(0.275, 0.315),
        eye_y=uniform(-0.11, -0.04),
        eye_size=uniform(0.86, 1.06),
        mouth_y=uniform(0.48, 0.55),
        mouth_width=uniform(0.23, 0.28),
        lip_fullness=uniform(0.75, 1.25),
        nose_length=uniform(0.22, 0.29),
        nose_width=uniform(0.085, 0.12),
        brow_thickness=uniform(0.6, 0.95) + (1 - long) * 0.3,
        brow_tilt=uniform(-0.06, 0.05),
        hairline=uniform(-0.72, -0.58) + long * uniform(-0.04, 0.08),
        hair_sweep=long * uniform(0.4, 1.0) + (1 - long) * uniform(0.0, 0.35),
        hair_part=uniform(-1, 1),
        hair_side=long * uniform(0.0, 0.3) + (1 - long) * uniform(-0.2, 0.06),
        hair_volume=uniform(0.05, 0.12),
        hair_quiff=(1 - long) * uniform(0.0, 1.0),
        hair_length=long * uniform(0.6, 1.5),
        hair_wave=uniform(0, 1),
        hair_fade=(1 - long) * uniform(0, 0.8),
        beard=(1 - long) * chance(0.35) * uniform(0.4, 1.0),
        makeup=uniform(0.0, 0.3) + long * uniform(0.1, 0.6),
        glasses=chance(0.15),
        tie=chance(0.7) * (1 - long),
        neckline=uniform(0, 1),
        backdrop=kind.float(),
        skin=pick(SKINS, 0.02),
        hair=pick(HAIRS),
        iris=pick(IRISES),
        lip=pick(LIPS),
        jacket=pick(JACKETS),
        shirt=pick(SHIRTS, 0.02),
        tie_color=pick(TIES),
        backdrop_dark=backdrops[:, 0],
        backdrop_light=backdrops[:, 1],
    )


def random_motions(n: int, generator: torch.Generator, strength: float = 1.0) -> Motion:
    """Independent motions.

    Args:
        n: how many.
        generator: a CPU generator.
        strength: how far from neutral, 1 is the whole range.
    """

    def uniform(low: float, high: float) -> Tensor:
        return strength * (torch.rand(n, generator=generator) * (high - low) + low)

    def chance(probability: float) -> Tensor:
        return (torch.rand(n, generator=generator) < probability).float()

    opening = chance(0.75) * uniform(0, 1) ** 1.3
    left = chance(0.35) * uniform(-0.3, 1.0) + uniform(0, 0.1)
    wink = chance(0.15)
    pucker = chance(0.3) * uniform(0, 1)
    return Motion(
        yaw=uniform(-24, 24),
        pitch=uniform(-13, 13),
        roll=uniform(-12, 12),
        x=uniform(-0.06, 0.06),
        y=uniform(-0.05, 0.05),
        scale=1 + uniform(-0.07, 0.07),
        open=opening,
        wide=chance(0.7) * uniform(-1, 1) * (1 - pucker),
        pucker=pucker,
        smile=chance(0.6) * uniform(-0.5, 1.0) * (1 - pucker),
        teeth=chance(0.6) * uniform(0, 1),
        brow=uniform(-1, 1),
        brow_inner=chance(0.5) * uniform(-1, 1),
        blink_left=left,
        blink_right=torch.lerp(left, uniform(0, 1.0), wink),
        gaze_x=uniform(-1, 1),
        gaze_y=uniform(-1, 1),
    )

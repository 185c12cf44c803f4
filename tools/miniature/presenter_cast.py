"""Named presenters. Names are only names: nobody is meant."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from ditto_core.errors import InvalidValueError

from .presenter_parameters import (
    BACKDROPS,
    CITY,
    GRADIENT,
    GREEN_SCREEN,
    HAIRS,
    IRISES,
    JACKETS,
    LIPS,
    SHIRTS,
    SKINS,
    STUDIO,
    TIES,
    Identity,
)

_Color = tuple[float, float, float]
_Looks = dict[str, float | _Color]
_BLACK, _DARK, _BROWN, _SAND, _BLOND, _RED, _GREY = HAIRS
_BLUE, _CHARCOAL, _STEEL, _WHITE, _TEAL, _ROSE = BACKDROPS


def _looks(
    kind: int,
    backdrop: tuple[_Color, _Color],
    colors: tuple[int, _Color, int, int],
    clothes: tuple[int, int, int | None],
    **values: float,
) -> _Looks:
    """An ordinary face in given colours (skin, hair, iris, lips) and clothes (jacket, shirt, tie), with changes."""
    skin, hair, iris, lip = colors
    jacket, shirt, tie = clothes
    ordinary: _Looks = {
        "face_width": 0.72, "jaw": 0.03, "eye_x": 0.295, "eye_y": -0.07, "eye_size": 0.96, "mouth_y": 0.51,
        "mouth_width": 0.25, "lip_fullness": 1.0, "nose_length": 0.25, "nose_width": 0.10,
        "brow_thickness": 0.9, "brow_tilt": -0.02, "hairline": -0.64, "hair_sweep": 0.3, "hair_part": 0.5,
        "hair_side": -0.05, "hair_volume": 0.09, "hair_quiff": 0.5, "hair_length": 0.0, "hair_wave": 0.2,
        "hair_fade": 0.3, "beard": 0.0, "makeup": 0.1, "glasses": 0.0, "tie": float(tie is not None),
        "neckline": 0.5,
    }  # fmt: skip
    return {
        **ordinary,
        **values,
        "backdrop": float(kind),
        "backdrop_dark": backdrop[0],
        "backdrop_light": backdrop[1],
        "skin": SKINS[skin],
        "hair": hair,
        "iris": IRISES[iris],
        "lip": LIPS[lip],
        "jacket": JACKETS[jacket],
        "shirt": SHIRTS[shirt],
        "tie_color": TIES[tie or 0],
    }


def _woman(length: float, **values: float) -> dict[str, float]:
    """Changes for longer hair, a finer jaw and make-up."""
    usual = {
        "face_width": 0.70, "jaw": -0.02, "eye_size": 1.03, "lip_fullness": 1.12, "nose_width": 0.092,
        "mouth_width": 0.24, "brow_thickness": 0.7, "makeup": 0.6, "hair_length": length,
        "hair_sweep": 0.8, "hair_side": 0.12, "hair_quiff": 0.0, "hair_fade": 0.0, "hairline": -0.68,
    }  # fmt: skip
    return {**usual, **values}


_CAST: dict[str, _Looks] = {
    "anna": _looks(STUDIO, _BLUE, (1, _BROWN, 3, 2), (6, 0, None), **_woman(1.05, hair_part=0.7, hair_wave=0.5)),
    "ben": _looks(CITY, _BLUE, (2, _DARK, 1, 0), (0, 0, 0), hair_part=0.7, hair_quiff=0.7, jaw=0.06),
    "chidi": _looks(
        GRADIENT,
        _TEAL,
        (5, _BLACK, 0, 0),
        (5, 1, 1),
        hair_fade=0.8,
        hair_quiff=0.1,
        hair_volume=0.06,
        hairline=-0.66,
        nose_width=0.118,
        lip_fullness=1.2,
        mouth_width=0.265,
        jaw=0.08,
        beard=0.0,
    ),
    "dalia": _looks(
        CITY,
        _ROSE,
        (3, _BLACK, 0, 1),
        (7, 3, None),
        **_woman(1.4, hair_part=-0.5, hair_wave=0.8, face_width=0.71, eye_size=1.08),
    ),
    "erik": _looks(
        GREEN_SCREEN,
        _STEEL,
        (0, _BLOND, 2, 0),
        (5, 1, 3),
        hair_part=-0.8,
        hair_quiff=0.9,
        jaw=0.05,
        face_width=0.70,
        nose_length=0.275,
        brow_tilt=0.02,
    ),
    "fumiko": _looks(
        STUDIO,
        _WHITE,
        (1, _BLACK, 0, 1),
        (2, 4, None),
        **_woman(
            0.72,
            hair_sweep=0.05,
            hairline=-0.50,
            hair_part=0.1,
            hair_wave=0.0,
            eye_size=0.95,
            nose_length=0.23,
        ),
    ),
    "george": _looks(
        GRADIENT,
        _CHARCOAL,
        (1, _GREY, 4, 0),
        (1, 0, 4),
        hairline=-0.74,
        hair_sweep=0.0,
        hair_quiff=0.2,
        jaw=0.09,
        glasses=1.0,
        face_width=0.75,
        eye_size=0.90,
        brow_thickness=1.1,
    ),
    "hana": _looks(
        GREEN_SCREEN,
        _TEAL,
        (2, _DARK, 1, 2),
        (3, 0, None),
        **_woman(0.62, hair_part=-0.9, hair_wave=0.3, lip_fullness=1.2),
    ),
    "ines": _looks(
        GRADIENT,
        _ROSE,
        (3, _RED, 3, 2),
        (0, 4, None),
        **_woman(0.95, hair_part=0.4, hair_wave=1.0, hair_volume=0.13, glasses=1.0),
    ),
    "joseph": _looks(
        STUDIO,
        _STEEL,
        (4, _BLACK, 1, 0),
        (4, 0, None),
        hair_fade=0.6,
        hair_wave=0.9,
        hair_volume=0.10,
        hair_quiff=0.4,
        beard=0.9,
        jaw=0.08,
        nose_width=0.112,
        neckline=0.2,
    ),
    "karin": _looks(
        CITY,
        _TEAL,
        (0, _BLOND, 2, 0),
        (3, 2, None),
        **_woman(1.25, hair_part=-0.3, hair_wave=0.6, hair_volume=0.11, face_width=0.69),
    ),
    "liam": _looks(
        GRADIENT,
        _BLUE,
        (0, _RED, 3, 0),
        (1, 1, 3),
        hair_part=0.3,
        hair_wave=0.9,
        hair_quiff=0.8,
        beard=0.8,
        jaw=0.05,
        face_width=0.73,
        eye_y=-0.05,
    ),
    "maya": _looks(
        STUDIO,
        _ROSE,
        (5, _BLACK, 0, 1),
        (7, 0, None),
        **_woman(
            0.82,
            hair_part=0.2,
            hair_wave=0.7,
            hair_volume=0.13,
            nose_width=0.108,
            lip_fullness=1.3,
            mouth_width=0.26,
        ),
    ),
    "niko": _looks(
        CITY,
        _CHARCOAL,
        (2, _SAND, 4, 0),
        (0, 3, None),
        hair_part=-0.5,
        hair_quiff=1.0,
        hair_wave=0.5,
        beard=0.35,
        neckline=0.8,
    ),
}

CAST = tuple(_CAST)
"""The names."""
HELD_OUT = ("ines", "niko")
"""Presenters that no training may see."""


def cast(names: Sequence[str] = CAST) -> Identity:
    """Named presenters.

    Args:
        names: some of CAST.

    Returns:
        One entry a name.

    Raises:
        InvalidValueError: a name is unknown.
    """
    unknown = [name for name in names if name not in _CAST]
    if unknown or not names:
        raise InvalidValueError(f"presenters {list(names)}", remedy=f"choose among {', '.join(CAST)}")
    fields = [field.name for field in dataclasses.fields(Identity)]
    return Identity(**{field: torch.tensor([_CAST[name][field] for name in names]) for field in fields})

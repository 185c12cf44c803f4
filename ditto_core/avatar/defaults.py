"""What stands for detection where a preset's models come without detectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..networks.presets import MINIATURE, Preset
from .crop import box_crop


@dataclass(frozen=True, kw_only=True)
class BustFraming:
    """Where the face lies in a portrait of head and shoulders, as all presenters of the miniature are framed.

    Lengths count in the height of the largest picture of the given aspect that fits, at the top, in the middle.

    Attributes:
        aspect: width over height of the portrait.
        top: top of the face's square.
        side: its side; it lies in the middle.
    """

    aspect: float
    top: float
    side: float

    def crop(self, size: tuple[int, int]) -> NDArray[np.float64]:
        """(3, 3) from pixels of the crop to pixels of a picture of this height and width."""
        height = min(size[0], size[1] / self.aspect)
        side = self.side * height
        return box_crop((size[1] - side) / 2, self.top * height, side)


@dataclass(frozen=True, kw_only=True)
class PresetDefaults:
    """A preset's own framing and neutral eyes.

    Attributes:
        framing: what `auto` means without detectors; None where that can't be known.
        eye_open: opening of both eyes as `eye_opening` measures it.
        eye_ball: gaze as `gaze` measures it; 0 is straight ahead.
    """

    framing: BustFraming | None
    eye_open: tuple[float, float] = (0.85, 0.85)
    eye_ball: tuple[float, ...] = (0.0,) * 6


_DEFAULTS = {MINIATURE.name: PresetDefaults(framing=BustFraming(aspect=0.8, top=100 / 1080, side=640 / 1080))}


def preset_defaults(preset: Preset) -> PresetDefaults:
    """The defaults of a preset; without a framing for any but the miniature."""
    return _DEFAULTS.get(preset.name, PresetDefaults(framing=None))

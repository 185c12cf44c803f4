"""Settings of controls that do not know the motion yet, to which they will be applied."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch

from ..errors import InvalidValueError
from ..networks.presets import KEYPOINTS
from ..speech import Sound
from ..speech.activity import speech_activity
from ..speech.windows import FRAME_RATE
from .blink import Blink
from .controls import MotionControls
from .curves import Curve, fade_curve

_OFFSETS = ("pitch", "yaw", "roll", "gaze_yaw", "gaze_pitch")
_FACTORS = ("expression_scale", "gaze")
_LARGEST_FADE_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class ControlSettings:
    """What shall be changed about a driven face, whatever its motion will be.

    Attributes:
        pitch: degrees added to the head's pitch; likewise yaw and roll.
        yaw: see pitch.
        roll: see pitch.
        expression_scale: factor of the expression's distance from the source's.
        gaze: how much the eyes make up for turns of the head; 1 as the original, 0 not.
        gaze_yaw: degrees by which the eyes look further to the side.
        gaze_pitch: degrees by which the eyes look further up or down.
        blinks: False keeps the eyes as they are in the source.
        fade_in: seconds over which the expression rises from the first frame's.
        fade_out: seconds over which it falls back at the end.
        rest_in_pauses: whether the lips are the source's where nobody speaks.
    """

    pitch: float = 0.0
    yaw: float = 0.0
    roll: float = 0.0
    expression_scale: float = 1.0
    gaze: float = 1.0
    gaze_yaw: float = 0.0
    gaze_pitch: float = 0.0
    blinks: bool = True
    fade_in: float = 0.0
    fade_out: float = 0.0
    rest_in_pauses: bool = False

    def __post_init__(self) -> None:
        """Checks the numbers.

        Raises:
            InvalidValueError: one is not finite, or a fade is out of range.
        """
        for name in (*_OFFSETS, *_FACTORS):
            if not math.isfinite(getattr(self, name)):
                raise InvalidValueError(f"control {name} {getattr(self, name)}", remedy="give a finite number")
        for name in ("fade_in", "fade_out"):
            if not 0 <= getattr(self, name) <= _LARGEST_FADE_S:
                raise InvalidValueError(
                    f"{name} of {getattr(self, name)} s", remedy=f"choose 0 to {_LARGEST_FADE_S:g} seconds"
                )

    def then(self, later: ControlSettings) -> ControlSettings:
        """Both one after the other: offsets add up, factors multiply, the longer fade and every switch count."""
        return dataclasses.replace(
            self,
            **{name: getattr(self, name) + getattr(later, name) for name in _OFFSETS},
            **{name: getattr(self, name) * getattr(later, name) for name in _FACTORS},
            **{name: max(getattr(self, name), getattr(later, name)) for name in ("fade_in", "fade_out")},
            blinks=self.blinks and later.blinks,
            rest_in_pauses=self.rest_in_pauses or later.rest_in_pauses,
        )

    def controls(self, frames: int, sound: Sound) -> MotionControls:
        """The controls for a motion.

        Args:
            frames: its length.
            sound: the sound that it was made of.
        """
        fades: float | Curve = 1.0
        if self.fade_in or self.fade_out:
            fades = fade_curve(frames, round(self.fade_in * FRAME_RATE), round(self.fade_out * FRAME_RATE))
        open_eyes = Blink(delta=torch.zeros(1, 3 * KEYPOINTS), pauses=())
        return MotionControls(
            **{name: getattr(self, name) for name in (*_OFFSETS, *_FACTORS)},
            blink=None if self.blinks else open_eyes,
            fade=fades,
            voice=Curve.of(speech_activity(sound).tolist()) if self.rest_in_pauses else 1.0,
        )

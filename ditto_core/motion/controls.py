"""Controls: how driving motion moves the source's face, frame by frame. Applied when frames are pulled.

Order: driving and source motion are mixed; the expression is masked and blinks are added; speech pauses;
pose and expression controls; fades; gaze; key points. The stitching network comes after it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..networks.motion_extractor import MotionParameters
from ..networks.presets import KEYPOINTS
from .blink import Blink
from .conditions import MotionSource
from .curves import Curve, sample
from .keypoints import PARTS, degrees_from_logits, transform_keypoints, unpack
from .order import source_index, source_step

LIP_POINTS = (6, 12, 14, 17, 19, 20)
EYE_POINTS = (11, 13, 15, 16, 18)

_ANGLES = ("pitch", "yaw", "roll")
_IMAGE_PARTS = ("exp", "pitch", "yaw", "roll", "t")
_VIDEO_PARTS = ("exp",)
_PUPILS = (11, 15)

Parts = dict[str, Tensor]


class KeyPoints(NamedTuple):
    """Key points of the source and of the frame to show, (b, 21, 3) each."""

    source: Tensor
    driving: Tensor


@dataclass(frozen=True, kw_only=True)
class MotionControls:
    """What may be changed about a driven face. A `float | Curve` may change from frame to frame.

    Attributes:
        relative: whether the driving motion's distance from its reference is added to the source's motion
            (True), or the driving motion takes its place.
        drive: the parts that are driven, of scale, pitch, yaw, roll, t and exp, or {part: factor}. None: exp,
            pitch, yaw, roll and t for a picture; exp for a video. All else is the source's.
        drive_eyes: whether the eyes are driven or blink, and look along. None: for a picture only.
        pitch: degrees added to the head's pitch; likewise yaw and roll.
        yaw: see pitch.
        roll: see pitch.
        pitch_factor: factor of the head's pitch in degrees, before any are added; likewise yaw and roll.
        yaw_factor: see pitch_factor.
        roll_factor: see pitch_factor.
        expression_scale: factor of the expression's distance from the source's; 1 as driven, 0 the source's.
        expression_delta: (63,) added to the expression in all frames, or (n, 63) a row a frame, none after
            the last.
        voice: 1 where there is speech, 0 where the lips shall be the source's, or between.
        fade: 1 as driven, 0 faded to `fade_to`.
        fade_to: the first frame of the track ("first") or the source ("source").
        fade_parts: the parts that fade.
        gaze: how much the eyes make up for turns of the head; 1 as the original, 0 not.
        gaze_yaw: degrees by which the eyes look further to the side.
        gaze_pitch: degrees by which the eyes look further up or down.
        blink: blinks in place of driven eyes.
        character_scale: scale of another character's face, for which the motion was made; None: the source's
            own.
        stitching: whether the stitching network corrects the key points.
        upstream: mixes as the original does. Angles are mixed as logits over angle bins; a factor multiplies
            the logits, or after degrees were added the sum; `voice` takes back the whole expression, not only
            the lips; the gaze of a video's frame follows the head pose of the video's first frame, not of
            that frame.
    """

    relative: bool = True
    drive: tuple[str, ...] | Mapping[str, float] | None = None
    drive_eyes: bool | None = None
    pitch: float | Curve = 0.0
    yaw: float | Curve = 0.0
    roll: float | Curve = 0.0
    pitch_factor: float | Curve = 1.0
    yaw_factor: float | Curve = 1.0
    roll_factor: float | Curve = 1.0
    expression_scale: float | Curve = 1.0
    expression_delta: Tensor | None = None
    voice: float | Curve = 1.0
    fade: float | Curve = 1.0
    fade_to: Literal["first", "source"] = "first"
    fade_parts: tuple[str, ...] = ("exp",)
    gaze: float | Curve = 1.0
    gaze_yaw: float | Curve = 0.0
    gaze_pitch: float | Curve = 0.0
    blink: Blink | None = None
    character_scale: float | None = None
    stitching: bool = True
    upstream: bool = False

    def __post_init__(self) -> None:
        """Checks every value.

        Raises:
            InvalidValueError: a part is unknown, a number not finite, or a shape wrong.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float | int) and not math.isfinite(value):
                raise InvalidValueError(f"control {field.name} {value}", remedy="give a finite number")
        for name, parts in (("drive", self.drive or ()), ("fade_parts", self.fade_parts)):
            unknown = sorted(set(parts) - set(PARTS._fields))
            if unknown:
                raise InvalidValueError(
                    f"control {name} with {unknown}", remedy=f"choose of {', '.join(PARTS._fields)}"
                )
        if isinstance(self.drive, Mapping) and not all(math.isfinite(factor) for factor in self.drive.values()):
            raise InvalidValueError(f"control drive {dict(self.drive)}", remedy="give finite factors")
        if self.fade_to not in ("first", "source"):
            raise InvalidValueError(f"control fade_to '{self.fade_to}'", remedy="choose first or source")
        if self.character_scale is not None and self.character_scale <= 0:
            raise InvalidValueError(f"character_scale {self.character_scale}", remedy="give a scale above 0")
        delta = self.expression_delta
        if delta is not None:
            if delta.ndim not in (1, 2) or delta.shape[-1] != 3 * KEYPOINTS or not len(delta):
                raise InvalidValueError(
                    f"expression_delta of shape {tuple(delta.shape)}", remedy="give (63,) or (n, 63) values"
                )
            if not bool(torch.isfinite(delta).all()):
                raise InvalidValueError("an expression_delta that is not finite", remedy="give finite numbers")

    def factors(self, *, is_image: bool, source_scale: float) -> dict[str, float]:
        """The factor of each driven part.

        Args:
            is_image: whether the source is a picture.
            source_scale: scale of the source's first frame.
        """
        drive = self.drive
        if drive is None:
            drive = _IMAGE_PARTS if is_image else _VIDEO_PARTS
        factors = dict(drive) if isinstance(drive, Mapping) else dict.fromkeys(drive, 1.0)
        if self.character_scale is not None:
            ratio = self.character_scale / source_scale
            factors.update({part: factors[part] * ratio for part in ("exp", *_ANGLES) if part in factors})
        return factors


class MotionMixer:
    """Turns rows of a track into key points, for one avatar and one set of controls.

    Args:
        avatar: the source.
        controls: what is changed.
        reference: (265,) driving motion that counts as rest, d0.
        first: (265,) the first row of the track; a fade to "first" ends there.
        device: where to compute.
    """

    def __init__(
        self,
        avatar: MotionSource,
        controls: MotionControls,
        *,
        reference: Tensor,
        first: Tensor,
        device: torch.device | str = "cpu",
    ) -> None:
        self.controls = controls
        self._motion = MotionParameters(*(part.to(device) for part in avatar.motion))
        self._source = self._parts(self._motion)
        self._step = source_step(avatar.frames.fps)
        self._drive_eyes = avatar.is_image if controls.drive_eyes is None else controls.drive_eyes
        self._factors = controls.factors(is_image=avatar.is_image, source_scale=float(self._motion.scale[0, 0]))
        self._lips = _point_mask(LIP_POINTS, device)
        self._eyes = _point_mask(EYE_POINTS, device)
        self._reference = self._driving(reference[None].to(device))
        self._first = self._controlled(first[None].to(device), torch.zeros(1, dtype=torch.long, device=device))

    def __call__(self, vectors: Tensor, frames: Tensor) -> KeyPoints:
        """Key points of frames.

        Args:
            vectors: (b, 265) rows of the track.
            frames: (b,) their frame numbers, for the controls, the blinks and the source's frame.

        Returns:
            Source and driving key points, (b, 21, 3); the driving ones before stitching.
        """
        vectors, frames = vectors.to(self._motion.exp.device), frames.to(self._motion.exp.device)
        source, kp = self._source_at(frames)
        driven = self._faded(self._controlled(vectors, frames), source, frames)
        if self._drive_eyes:
            driven["exp"] = self._gazing(driven, source, frames)
        return KeyPoints(_points(source, kp), _points(driven, kp))

    def _parts(self, motion: MotionParameters) -> Parts:
        """Motion by part; angles in degrees (b,), or in upstream's way as logits (b, 66)."""
        parts = {name: getattr(motion, name) for name in PARTS._fields}
        if not self.controls.upstream:
            parts.update({name: degrees_from_logits(parts[name]) for name in _ANGLES})
        return parts

    def _driving(self, vectors: Tensor) -> Parts:
        return self._parts(unpack(vectors, self._motion.kp[:1]))

    def _source_at(self, frames: Tensor) -> tuple[Parts, Tensor]:
        """The source's motion and canonical key points at output frames."""
        index = source_index(frames, len(self._motion.exp), self._step)
        return {name: part[index] for name, part in self._source.items()}, self._motion.kp[index]

    def _controlled(self, vectors: Tensor, frames: Tensor) -> Parts:
        """All that comes before the fade."""
        source, _ = self._source_at(frames)
        parts = self._mixed(self._driving(vectors), source)
        parts["exp"] = self._expression(parts["exp"], source["exp"], frames)
        for name in _ANGLES:
            parts[name] = self._turned(name, parts[name], frames)
        return parts

    def _mixed(self, driving: Parts, source: Parts) -> Parts:
        mixed = dict(source)
        for name, factor in self._factors.items():
            if self.controls.relative:
                mixed[name] = source[name] + (driving[name] - self._reference[name]) * factor
            else:
                mixed[name] = driving[name] * factor
        return mixed

    def _expression(self, driving: Tensor, source: Tensor, frames: Tensor) -> Tensor:
        """Lips, and eyes where driven; the rest of the face is the source's."""
        controls = self.controls
        exp = torch.where(self._lips, driving, source)
        if self._drive_eyes:
            eyes = driving if controls.blink is None else source + controls.blink.at(frames)
            exp = torch.where(self._eyes, eyes, exp)
        exp = torch.lerp(source, exp, sample(controls.expression_scale, frames)[:, None])
        voiced = torch.lerp(source, exp, sample(controls.voice, frames)[:, None])
        exp = voiced if controls.upstream else torch.where(self._lips, voiced, exp)
        if controls.expression_delta is not None:
            exp = exp + _rows_at(controls.expression_delta.to(exp), frames)
        return exp

    def _turned(self, name: str, angle: Tensor, frames: Tensor) -> Tensor:
        """An angle with its factor and offset."""
        offset = getattr(self.controls, name)
        factor = sample(getattr(self.controls, f"{name}_factor"), frames)
        if not self.controls.upstream:
            return angle * factor + sample(offset, frames)
        if isinstance(offset, Curve) or offset:
            return (degrees_from_logits(angle) + sample(offset, frames)) * factor
        return angle * factor[:, None]

    def _faded(self, parts: Parts, source: Parts, frames: Tensor) -> Parts:
        target = self._first if self.controls.fade_to == "first" else source
        alpha = sample(self.controls.fade, frames)
        faded = dict(parts)
        for name in self.controls.fade_parts:
            value, end = parts[name], target[name]
            if end.ndim > value.ndim:
                end = degrees_from_logits(end)
            faded[name] = torch.lerp(end.expand_as(value), value, alpha.view(-1, *[1] * (value.ndim - 1)))
        return faded

    def _gazing(self, driven: Parts, source: Parts, frames: Tensor) -> Tensor:
        """Moves the pupils along with the head's turn away from the source's pose."""
        start = {name: self._source[name][:1] for name in _ANGLES} if self.controls.upstream else source
        amount = sample(self.controls.gaze, frames)
        side = 0.26 * (_degrees(driven["yaw"]) - _degrees(start["yaw"])) * amount
        up = 0.28 * (_degrees(driven["pitch"]) - _degrees(start["pitch"])) * amount
        side = side + sample(self.controls.gaze_yaw, frames)
        up = up + sample(self.controls.gaze_pitch, frames)
        points = driven["exp"].reshape(-1, KEYPOINTS, 3).clone()
        left, right = _PUPILS
        # Each eye moves further to one side than to the other, and the two mirror each other.
        points[:, left, 0] += side * torch.where(side > 0, 0.0007, 0.001)
        points[:, right, 0] += side * torch.where(side > 0, 0.001, 0.0007)
        points[:, _PUPILS, 1] -= 0.001 * up[:, None]
        return points.flatten(1)


def _degrees(angle: Tensor) -> Tensor:
    return angle if angle.ndim == 1 else degrees_from_logits(angle)


def _points(parts: Parts, kp: Tensor) -> Tensor:
    angles = {name: _degrees(parts[name]) for name in _ANGLES}
    return transform_keypoints(kp=kp, exp=parts["exp"], scale=parts["scale"], t=parts["t"], **angles)


def _point_mask(points: tuple[int, ...], device: torch.device | str) -> Tensor:
    """(63,) true at the values of key points."""
    mask = torch.zeros(KEYPOINTS, 3, dtype=torch.bool, device=device)
    mask[list(points)] = True
    return mask.flatten()


def _rows_at(delta: Tensor, frames: Tensor) -> Tensor:
    """(63,) for all frames; or row i of (n, 63) at frame i, and zeros after the last."""
    if delta.ndim == 1:
        return delta
    return delta[frames.clamp(max=len(delta) - 1)] * (frames < len(delta))[:, None]

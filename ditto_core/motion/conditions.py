"""Condition rows, which the motion sampler reads beside noise: speech, emotion, eyes, shape of the head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..networks.motion_extractor import MotionParameters
from ..speech.windows import FRAME_RATE
from .keypoints import pack
from .order import source_index, source_step

EMOTIONS = ("angry", "disgust", "fear", "happy", "neutral", "sad", "surprise", "contempt")
"""The emotions, in the order of their values in a condition row."""

_MAX_ROWS = 1_000_000
_LABEL_LOGIT = 8.0
_REMEDY = f"name one of {', '.join(EMOTIONS)}, weights of them, or (n, {len(EMOTIONS)}) values"


class FrameRate(Protocol):
    """Source frames, as far as motion asks about them."""

    @property
    def fps(self) -> Fraction | None:
        """Frames a second; None for a picture."""


class MotionSource(Protocol):
    """An avatar, as far as motion asks about it."""

    @property
    def frames(self) -> FrameRate:
        """The source's pictures."""

    @property
    def motion(self) -> MotionParameters:
        """Motion of the n source frames, (n, ...)."""

    @property
    def canonical(self) -> Tensor:
        """(63,) canonical key points."""

    @property
    def eye_open(self) -> Tensor:
        """(n, 2) opening of the eyes."""

    @property
    def eye_ball(self) -> Tensor:
        """(n, 6) gaze."""

    @property
    def is_image(self) -> bool:
        """Whether the source is one picture, and not a video."""


@dataclass(frozen=True, kw_only=True)
class Emotion:
    """Emotion over the frames of a video.

    Attributes:
        table: (k, 8) values of the emotions, in the order of `EMOTIONS`.
        starts: (k) rising frames from which each row of the table counts; None: one row a frame, from the
            start again after the last.
        fade: frames over which the values pass from one row to the next, from the next one's start on.
    """

    table: Tensor
    starts: tuple[int, ...] | None = None
    fade: int = 0

    def __post_init__(self) -> None:
        """Checks the table and the frames.

        Raises:
            InvalidValueError: the table is not (k, 8) of finite values, or the frames do not fit it.
        """
        shape = tuple(self.table.shape)
        if len(shape) != 2 or shape[1] != len(EMOTIONS) or not 1 <= shape[0] <= _MAX_ROWS:
            raise InvalidValueError(f"emotions of shape {shape}", remedy=_REMEDY)
        if not bool(torch.isfinite(self.table).all()):
            raise InvalidValueError("emotions with values that are not finite", remedy=_REMEDY)
        if self.starts is None:
            return
        if len(self.starts) != shape[0]:
            raise InvalidValueError(
                f"{shape[0]} emotions at {len(self.starts)} times", remedy="give one time for each emotion"
            )
        gaps = [after - before for before, after in zip(self.starts, self.starts[1:], strict=False)]
        if self.fade < 0 or any(gap < max(1, self.fade) for gap in gaps):
            raise InvalidValueError(
                f"emotions at frames {self.starts[:8]} with a fade of {self.fade} frames",
                remedy="let the times rise by at least the fade",
            )

    @classmethod
    def of(cls, value: Any) -> Emotion:
        """Emotion from what a user writes.

        Args:
            value: a name or number of an emotion; {name: weight}, a blend; a list of names or numbers, all at
                once; a list of such lists, one a frame, repeated; or an (m, 8) array, one row a frame,
                repeated.

        Raises:
            InvalidValueError: it is none of these.
        """
        if isinstance(value, Emotion):
            return value
        if isinstance(value, np.ndarray | Tensor):
            return cls(table=torch.as_tensor(value, dtype=torch.float32))
        if isinstance(value, Sequence) and not isinstance(value, str) and value:
            if all(isinstance(item, Sequence) and not isinstance(item, str) for item in value):
                return cls(table=torch.stack([_labelled(item) for item in value]))
        return cls(table=_row(value)[None])

    @classmethod
    def at_frames(cls, keys: Mapping[int, Any], *, fade: int = 0) -> Emotion:
        """Emotions from given frames on; the first also counts before its frame.

        Args:
            keys: {frame: emotion}, each emotion a name, a number, a blend or a list as in `of`.
            fade: frames over which each passes to the next.
        """
        if not keys:
            raise InvalidValueError("a schedule without emotions", remedy=_REMEDY)
        starts = tuple(sorted(keys))
        return cls(table=torch.stack([_row(keys[start]) for start in starts]), starts=starts, fade=fade)

    @classmethod
    def at_seconds(cls, keys: Mapping[float, Any], *, fade: float = 0.0) -> Emotion:
        """As `at_frames`, with times and fade in seconds, each the nearest frame."""
        return cls.at_frames(
            {round(seconds * FRAME_RATE): value for seconds, value in keys.items()},
            fade=round(fade * FRAME_RATE),
        )

    def at(self, frames: Tensor) -> Tensor:
        """The values at frames.

        Args:
            frames: (n,) integer frame numbers.

        Returns:
            (n, 8) on the frames' device.
        """
        table = self.table.to(frames.device)
        if self.starts is None:
            return table[frames % len(table)]
        starts = torch.tensor(self.starts, device=frames.device)
        row = (torch.searchsorted(starts, frames, right=True) - 1).clamp(min=0)
        passed = ((frames - starts[row] + 1) / (self.fade + 1)).clamp(0, 1)[:, None]
        return torch.lerp(table[(row - 1).clamp(min=0)], table[row], passed)


def _row(value: Any) -> Tensor:
    """(8,) of one emotion, a blend, or several at once."""
    if isinstance(value, Mapping):
        weights = {_label(name): float(weight) for name, weight in value.items()}
        total = sum(weights.values())
        if not weights or min(weights.values()) < 0 or not (math.isfinite(total) and total > 0):
            raise InvalidValueError(f"emotion weights {dict(value)}", remedy="give weights of 0 or above, not all 0")
        shares = [_labelled([label]) * (weight / total) for label, weight in weights.items()]
        return torch.stack(shares).sum(0)
    return _labelled(value if isinstance(value, Sequence) and not isinstance(value, str) else [value])


def _labelled(labels: Sequence[Any]) -> Tensor:
    """(8,) softmax of 8 at the labels and 0 elsewhere, as the sampler was trained."""
    if not labels:
        raise InvalidValueError("an empty list of emotions", remedy=_REMEDY)
    logits = torch.zeros(len(EMOTIONS))
    logits[[_label(label) for label in labels]] = _LABEL_LOGIT
    return logits.softmax(0)


def _label(value: Any) -> int:
    if isinstance(value, str) and value in EMOTIONS:
        return EMOTIONS.index(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < len(EMOTIONS):
        return int(value)
    raise InvalidValueError(f"emotion {value!r}", remedy=_REMEDY)


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What a condition row holds beside speech.

    A part that is None is left out, as for samplers trained without it.

    Attributes:
        source: (265,) motion of the source's first frame, from which the first window starts.
        emotion: emotion over time; 8 values a row.
        eye_open: (n, 2) opening of the eyes in the n source frames.
        eye_ball: (n, 6) gaze in the n source frames.
        canonical: (63,) canonical key points of the source.
        step: source frames to an output frame.
    """

    source: Tensor
    emotion: Emotion | None
    eye_open: Tensor | None
    eye_ball: Tensor | None
    canonical: Tensor | None
    step: Fraction = Fraction(1)

    @classmethod
    def of(cls, avatar: MotionSource, emotion: Any = "neutral", *, first_frame_eyes: bool = False) -> Conditions:
        """The conditions of an avatar.

        Another avatar than the one shown may be given: the motion is then made for that character, and mixed
        into the shown one by `MotionControls.character_scale`.

        Args:
            avatar: the character.
            emotion: see `Emotion.of`.
            first_frame_eyes: whether the eyes of a video's first frame count for all frames.
        """
        eyes = slice(1 if first_frame_eyes else None)
        return cls(
            source=pack(MotionParameters(*(part[:1] for part in avatar.motion)))[0],
            emotion=Emotion.of(emotion),
            eye_open=avatar.eye_open[eyes],
            eye_ball=avatar.eye_ball[eyes],
            canonical=avatar.canonical,
            step=source_step(avatar.frames.fps),
        )

    def rows(self, speech: Tensor, frames: Tensor) -> Tensor:
        """Condition rows.

        Args:
            speech: (n, F) speech features.
            frames: (n,) integer frame numbers of the rows; below 0, in silence, frame 0's values are used.

        Returns:
            (n, F + 79), or less where parts are left out: speech, emotion, eye opening, gaze, canonical key
            points.
        """
        frames = frames.to(speech.device).clamp(min=0)
        parts = [speech]
        if self.emotion is not None:
            parts.append(self.emotion.at(frames))
        for eyes in (self.eye_open, self.eye_ball):
            if eyes is not None:
                parts.append(eyes.to(speech.device)[source_index(frames, len(eyes), self.step)])
        if self.canonical is not None:
            parts.append(self.canonical.to(speech.device).expand(len(speech), -1))
        return torch.cat([part.to(speech.dtype) for part in parts], dim=1)

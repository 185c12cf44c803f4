"""Inputs for calibration and for the parity gate: Gaussian ones, and a model's own warps of the bundled presenter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ... import speech
from ...avatar import CropRequest, register
from ...checkpoints.models import DittoModels, load_models
from ...motion.conditions import Conditions
from ...motion.controls import MotionControls, MotionMixer
from ...motion.generate import generate_motion
from ...motion.track import MotionTrack
from ...networks.presets import KEYPOINTS
from ...pipeline.plan import named_plan
from .spec import EngineSpec

_BUNDLED = Path(__file__).parents[2] / "bundled"
_PRESENTER, _SENTENCE = _BUNDLED / "presenter.png", _BUNDLED / "news.wav"
_FACE = CropRequest.parse("112,100,640")
"""Where the bundled presenter's face is, for models that do not find it themselves."""
_SPEECH_BATCH = 16
_STEP = 37
"""Frames between one warp and the next, so that few of them are spread over the sentence."""


class PartInputs:
    """Numbered inputs of a fused part, always the same for the same models.

    The presenter is registered with the models themselves. The motion is the bundled sentence's, made by the bundled
    miniature: its distance from rest is added to the presenter's own motion, whatever the models.

    Args:
        spec: which part.
        models: float32, where they are.
        check_cancelled: raises to stop.
    """

    def __init__(
        self, spec: EngineSpec, models: DittoModels, *, check_cancelled: Callable[[], None] | None = None
    ) -> None:
        self._part, self._models = spec.part, models
        avatar = register(_PRESENTER, models, crop=_FACE, check_cancelled=check_cancelled)
        with torch.inference_mode():
            pictures = avatar.crops.to(models.device).permute(0, 3, 1, 2) / 255
            self._volume = models.appearance_extractor(pictures)
            self._spread, self._centre = torch.std_mean(self._volume)
            track = bundled_motion(check_cancelled=check_cancelled)
            mixer = MotionMixer(
                avatar, MotionControls(), reference=track.reference, first=track.vectors[0], device=models.device
            )
            points = mixer(track.vectors, torch.arange(len(track)))
            self._x_s, self._x_d = points.source, models.stitch_network(points.source, points.driving)

    def warp(self, number: int) -> tuple[Tensor, ...]:
        """The inputs that a frame of the sentence leads to, one row each."""
        frame = number * _STEP % len(self._x_d)
        return self._at_part(self._volume, self._x_s[frame, None], self._x_d[frame, None])

    def gaussian(self, number: int) -> tuple[Tensor, ...]:
        """Normal volumes of the presenter's own mean and spread; occlusion and key points likewise."""
        generator = torch.Generator().manual_seed(number)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).to(self._models.device)

        volume = normal(*self._volume.shape) * self._spread + self._centre
        if self._part == "post-warp":
            size = volume.shape[-1]
            return volume.flatten(1, 2), torch.sigmoid(normal(1, 1, size, size))
        x_s = self._x_s[:1]
        return volume, x_s, x_s + self._x_s.std() * 0.1 * normal(1, KEYPOINTS, 3)

    @torch.inference_mode()
    def _at_part(self, volume: Tensor, x_s: Tensor, x_d: Tensor) -> tuple[Tensor, ...]:
        if self._part == "warp-decode":
            return volume, x_s, x_d
        return self._models.warp_network.deform(volume, x_s, x_d)


def bundled_motion(*, check_cancelled: Callable[[], None] | None = None) -> MotionTrack:
    """The bundled sentence as motion of the bundled miniature, on the CPU."""
    models = load_models()
    plan = named_plan("offline")
    encoder = speech.speech_encoder_for(models)
    signal = speech.analysis_signal(speech.read_sound(_SENTENCE))
    features = speech.speech_features(
        signal, encoder, hop=plan.hop, lead=plan.speech.lead, batch=_SPEECH_BATCH, rows=plan.rows(len(signal))
    )
    return generate_motion(
        models.lmdm,
        features,
        Conditions.of(register(_PRESENTER, models, crop=_FACE)),
        plan,
        seed=0,
        steps=models.preset.default_steps,
        models=models.fingerprint,
        check_cancelled=check_cancelled,
    )

"""From a whole sound to its driving motion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..avatar import Avatar
from ..checkpoints import DittoModels
from ..errors import InvalidValueError
from ..motion.conditions import Conditions
from ..motion.diffusion import GUIDANCE
from ..motion.generate import generate_motion
from ..motion.track import MotionTrack
from ..progress import Progress
from ..speech import Sound, SpeechEncoder, analysis_signal, speech_features
from ..speech.windows import ROW_SAMPLES
from .plan import Plan, named_plan
from .timing import StageClock


@dataclass(frozen=True, kw_only=True)
class MotionOptions:
    """How motion is made.

    Attributes:
        plan: how sound becomes windows of motion.
        seed: of the noise.
        steps: sampler steps, 1 to 1000; None is the preset's own.
        guidance: weight of classifier-free guidance; 1 means none.
        emotion: see `motion.conditions.Emotion.of`.
    """

    plan: Plan = named_plan("offline")
    seed: int = 0
    steps: int | None = None
    guidance: float = GUIDANCE
    emotion: Any = "neutral"

    def __post_init__(self) -> None:
        """Checks what no other part does.

        Raises:
            InvalidValueError: guidance is not finite.
        """
        if not math.isfinite(self.guidance):
            raise InvalidValueError(f"guidance {self.guidance}", remedy="give a number; 1 is without guidance")


def make_motion(
    models: DittoModels,
    encoder: SpeechEncoder,
    avatar: Avatar,
    sound: Sound,
    options: MotionOptions,
    *,
    clock: StageClock | None = None,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> MotionTrack:
    """Speech and motion of a whole sound.

    Args:
        models: the networks.
        encoder: the speech encoder that belongs to them.
        avatar: the presenter.
        sound: what is said.
        options: plan, seed, steps, guidance and emotion.
        clock: counts the stages "speech" and "motion".
        progress: called after each window of motion.
        check_cancelled: called before each sampler step; raises to stop.

    Raises:
        InvalidValueError: an option is out of range, or the plan makes no frame of so short a sound.
    """
    clock = clock or StageClock(models.device)
    plan = options.plan
    with clock.stage("speech"):
        signal = analysis_signal(sound)
        geometry = plan.speech
        features = speech_features(
            signal, encoder, hop=plan.hop, lead=geometry.lead, batch=plan.speech_batch, rows=plan.rows(len(signal))
        )
        silence = silent_features(encoder, plan)
    with clock.stage("motion"):
        return generate_motion(
            models.lmdm,
            features.to(models.device),
            Conditions.of(avatar, options.emotion),
            plan,
            seed=options.seed,
            steps=models.preset.default_steps if options.steps is None else options.steps,
            guidance=options.guidance,
            silence=None if silence is None else silence.to(models.device),
            models=models.fingerprint,
            progress=None if progress is None else lambda done, total: progress("motion", done, total),
            check_cancelled=check_cancelled,
        )


def silent_features(encoder: SpeechEncoder, plan: Plan) -> torch.Tensor | None:
    """Features of the silence before the sound, (plan.silence, F); None where the plan has none."""
    if not plan.silence:
        return None
    geometry = plan.speech
    signal = np.zeros(plan.silence * ROW_SAMPLES, np.float32)
    return speech_features(
        signal, encoder, hop=plan.hop, lead=geometry.lead, batch=plan.speech_batch, rows=plan.silence
    )

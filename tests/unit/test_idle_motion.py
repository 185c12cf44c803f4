"""A presenter that waits: the motion of silence, and how it goes over into speech. Networks: the bundled miniature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ditto_core.avatar import CropRequest, register
from ditto_core.checkpoints import load_models
from ditto_core.media import read_image
from ditto_core.motion.controls import LIP_POINTS, MotionControls, MotionMixer
from ditto_core.pipeline.motion import MotionOptions, make_motion
from ditto_core.pipeline.plan import named_plan
from ditto_core.speech import Sound, read_sound, speech_encoder_for

BUNDLED = Path(__file__).parents[2] / "ditto_core" / "bundled"
SILENT = 150
"""Frames before the sentence, and after it."""
LIDS = (13, 16)
NEAR = 10
"""Frames on both sides of a border."""


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    """(n, 21, 3) key points of a live stream: silence, a sentence, silence."""
    models = load_models()
    avatar = register(read_image(BUNDLED / "presenter.png"), models, crop=CropRequest.parse("112,100,640"))
    sentence = read_sound(BUNDLED / "news.wav")
    silence = np.zeros((1, SILENT * sentence.rate // 25), np.float32)
    sound = Sound(np.concatenate([silence, sentence.samples, silence], axis=1), sentence.rate)
    options = MotionOptions(plan=named_plan("low-latency"))
    track = make_motion(models, speech_encoder_for(models), avatar, sound, options)
    mixer = MotionMixer(avatar, MotionControls(), reference=track.reference, first=track.vectors[0])
    with torch.inference_mode():
        return mixer(track.vectors, torch.arange(len(track))).driving.numpy()


def test_who_waits_blinks_and_sways_with_a_still_mouth(points) -> None:
    speech = points[SILENT:-SILENT]
    for idle in (points[: SILENT - NEAR], points[-SILENT + 2 * NEAR :]):
        moved = np.linalg.norm(np.ptp(idle, axis=0), axis=-1)
        said = np.linalg.norm(np.ptp(speech, axis=0), axis=-1)
        assert (moved[list(LIDS)] > 2 * np.median(moved)).all()
        assert moved.min() > 0.02
        assert moved[list(LIP_POINTS)].max() < 0.4 * said[list(LIP_POINTS)].max()


def test_speech_begins_and_ends_without_a_jump(points) -> None:
    """At both borders no step is larger than the largest within the sentence."""
    steps = np.linalg.norm(np.diff(points, axis=0), axis=-1).max(1)
    largest = steps[SILENT + NEAR : -SILENT - NEAR].max()
    for border in (SILENT, len(points) - SILENT):
        assert steps[border - NEAR : border + NEAR].max() <= largest

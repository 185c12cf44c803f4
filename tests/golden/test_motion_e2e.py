"""Speech to stitched key points, whole, with the network at official size; within 1e-4 of each array's scale.

The original draws the noise of the sampler's steps once and uses it for every window; only the starting motion
is drawn anew. Ours draws all for each window (or row), from the seed alone; here the golden noise is handed in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from support.golden import GoldenFile
from support.models import official
from support.motion import Source
from support.recipes import normal, uniform
from torch import Tensor

from ditto_core.motion.blink import Blink
from ditto_core.motion.conditions import Conditions
from ditto_core.motion.controls import MotionControls, MotionMixer
from ditto_core.motion.curves import fade_curve
from ditto_core.motion.diffusion import sample_window
from ditto_core.motion.generate import MotionStream
from ditto_core.motion.keypoints import unpack
from ditto_core.pipeline.plan import Plan, named_plan

TOLERANCE = 1e-4
STEPS = 10
DRIVE = {"exp": 0.05, "pitch": 0.3, "yaw": 0.3, "roll": 0.3, "t": 0.03}


@pytest.fixture
def golden() -> GoldenFile:
    return GoldenFile.open("e2e")


@pytest.fixture
def source(golden: GoldenFile) -> Source:
    vector, canonical, eye_open, eye_ball = (
        torch.tensor(golden[f"off_{key}"]) for key in ("source_vec", "sc", "eye_open", "eye_ball")
    )
    return Source(unpack(vector, canonical[None]), canonical, eye_open, eye_ball)


def features(audio: np.ndarray, plan: Plan) -> Tensor:
    """Rows of the recipe's speech encoder: 400 samples, 320 apart, times a matrix."""
    matrix, geometry, rows = normal("w2f.R", (400, 1024), 0.05), plan.speech, plan.rows(len(audio))
    windows = geometry.count(rows)
    padded = np.concatenate(
        [np.zeros(geometry.lead, np.float32), audio, np.zeros(windows * geometry.length, np.float32)]
    )
    found = []
    for window in range(windows):
        heard = padded[window * geometry.step :][: geometry.length]
        frames = np.stack([heard[320 * k : 320 * k + 400] @ matrix for k in range(geometry.encoder_frames)])
        found.append(frames[geometry.kept_frames].reshape(geometry.hop, 2, 1024).mean(1))
    return torch.tensor(np.concatenate(found)[:rows])


def motion(
    plan: Plan, conditions: Conditions, speech: Tensor, tag: str, bounds: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Motion of a whole sound with the golden run's noise, and its reference."""
    draws = [torch.tensor(normal(f"e2e.{tag}.randn{i}", (1, 80, 265))) for i in range(STEPS - 1)]

    def noise(window: int) -> Iterator[Tensor]:
        yield torch.tensor(normal(f"e2e.{tag}.randn{STEPS - 1 + window}", (1, 80, 265)))
        yield from draws

    def sample(window: int, condition: Tensor, start: Tensor) -> Tensor:
        return sample_window(official().lmdm, condition, start, noise(window), steps=STEPS)

    stream = MotionStream(plan, conditions, sample, silence=torch.zeros(plan.silence, 1024), bounds=bounds)
    stream.push(speech)
    stream.finish()
    rows = []
    while (final := stream.step()) is not None:
        rows.append(final)
    return torch.cat(rows), stream.reference


def check_key_points(
    golden: GoldenFile, tag: str, source: Source, made: tuple[Tensor, Tensor], controls: MotionControls
) -> None:
    rows, reference = made
    mixer = MotionMixer(source, controls, reference=reference, first=rows[0])
    x_s, x_d = mixer(rows, torch.arange(len(rows)))
    golden.check(f"{tag}_x_s", x_s[:1], tolerance=TOLERANCE)
    with torch.inference_mode():
        golden.check(f"{tag}_x_d", official().stitch_network(x_s, x_d), tolerance=TOLERANCE)


def test_a_whole_file(golden: GoldenFile, source: Source) -> None:
    plan = named_plan("upstream-offline")
    speech = features(uniform("e2e.audio", (3200,), 1, -0.5), plan)
    made = motion(plan, Conditions.of(source), speech, "off")
    check_key_points(golden, "off", source, made, MotionControls(drive=DRIVE, upstream=True))


def test_online_with_the_released_options(golden: GoldenFile, source: Source) -> None:
    plan = named_plan("upstream-online")
    speech = features(uniform("e2e.audio_on", (16000,), 1, -0.5), plan)
    emotion = uniform("e2e.emo", (600, 8), 1)
    bounds = torch.tensor([[-1.5], [1.5]]).expand(2, 265)
    made = motion(plan, Conditions.of(source, emotion), speech, "on", bounds)
    assert len(made[0]) == golden["on_frames_written"]
    blink = Blink(delta=torch.tensor(normal("e2e.delta_eye", (15, 63), 0.02)), pauses=(8, 5), period=60)
    controls = MotionControls(
        drive=DRIVE, pitch=2.0, blink=blink, fade=fade_curve(60, 5, 5, upstream=True), upstream=True
    )
    check_key_points(golden, "on", source, made, controls)

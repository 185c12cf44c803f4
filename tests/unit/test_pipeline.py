"""The whole-file driver: what it promises to whoever calls it, beside what the command shows."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from support.models import write_folder

from ditto_core.avatar import Avatar, CropRequest, register
from ditto_core.backends import TorchBackend
from ditto_core.checkpoints import DittoModels, load_models
from ditto_core.errors import InvalidValueError
from ditto_core.motion.controls import MotionControls
from ditto_core.pipeline.frames import Frames
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.whole_file import MotionOptions, make_motion, render_file
from ditto_core.render import RenderOptions
from ditto_core.speech import Sound, recipe_hubert

PRESENTER = Path(__file__).parents[2] / "ditto_core" / "bundled" / "presenter.png"
QUICK = MotionOptions(steps=1)


class Cancelled(Exception):
    pass


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> DittoModels:
    return load_models(write_folder(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def avatar(models) -> Avatar:
    return register(PRESENTER, models, crop=CropRequest.parse("112,100,640"))


@pytest.fixture(scope="module")
def encoder(models):
    return recipe_hubert(models.preset.speech_features, "miniature")


def sound(frames: float) -> Sound:
    samples = np.random.default_rng(1).normal(0, 0.1, round(640 * frames)).astype(np.float32)
    return Sound(samples[None], 16000)


@pytest.fixture(scope="module")
def frames(models, avatar, encoder) -> Frames:
    track = make_motion(models, encoder, avatar, sound(21), QUICK)
    return Frames(
        models=models, backend=TorchBackend(models), avatar=avatar, track=track, options=RenderOptions(batch=4)
    )


def pulled(frames: Frames) -> torch.Tensor:
    return torch.cat([chunk.pictures for chunk in frames])


def test_frames_pulled_twice_are_the_same(frames):
    first = pulled(frames)
    assert first.shape == (len(frames), *frames.size, 3) == (21, 1080, 864, 3)
    assert torch.equal(first, pulled(frames))


def test_a_control_changes_the_pull_not_the_motion(frames):
    turned = dataclasses.replace(frames, controls=MotionControls(yaw=10.0))
    assert turned.track is frames.track
    assert not torch.equal(pulled(frames), pulled(turned))


def test_cadence_2_repeats_no_frame(frames):
    """Chunks are odd there: the last face of each is drawn, none is a copy of its neighbour."""
    half = pulled(dataclasses.replace(frames, options=RenderOptions(batch=4, cadence=2)))
    steps = (half[1:].int() - half[:-1].int()).abs().flatten(1).amax(1)
    assert len(half) == len(frames) and int(steps.min()) > 0


def test_parts_of_other_models_are_refused(frames):
    other = dataclasses.replace(frames.avatar, models="0" * 64)
    with pytest.raises(InvalidValueError, match="avatar made with models 000000000000"):
        dataclasses.replace(frames, avatar=other)


@pytest.mark.parametrize("plan", ["offline", "low-latency", "upstream-offline", "upstream-online"])
@pytest.mark.parametrize("length", [0.01, 1, 2.5, 7, 14, 28, 55, 56])
def test_every_plan_has_its_number_of_frames(models, avatar, encoder, plan, length):
    """Ours: one frame for each begun 1/25 s. The original's plans keep its faults: none for short sound, or more."""
    options = dataclasses.replace(QUICK, plan=named_plan(plan))
    exact = -(-round(640 * length) // 640)
    if plan == "upstream-online" and length <= 2:
        with pytest.raises(InvalidValueError, match="makes no frame"):
            make_motion(models, encoder, avatar, sound(length), options)
        return
    count = len(make_motion(models, encoder, avatar, sound(length), options))
    extra = {"upstream-offline": length in (7, 14, 28, 55, 56)}.get(plan, 0)
    if plan == "upstream-online":
        assert count > exact and count % 10 == 0
    else:
        assert count == exact + extra


@pytest.mark.parametrize("calls", [1, 3, 5])
def test_a_cancel_leaves_nothing(models, avatar, encoder, tmp_path, calls):
    (tmp_path / "video.mp4").write_text("older")
    threads, left = threading.active_count(), iter(range(calls))

    def check() -> None:
        if next(left, None) is None:
            raise Cancelled

    with pytest.raises(Cancelled):
        render_file(
            models, encoder, TorchBackend(models), avatar, sound(40), tmp_path / "video.mp4",
            motion=QUICK, render=RenderOptions(batch=4), check_cancelled=check,
        )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]
    assert (tmp_path / "video.mp4").read_text() == "older"
    assert threading.active_count() == threads


def test_progress_reaches_the_end_of_each_stage(models, avatar, encoder, tmp_path):
    seen: dict[str, list[tuple[int, int]]] = {}
    report = render_file(
        models, encoder, TorchBackend(models), avatar, sound(20), tmp_path / "video.mp4", motion=QUICK,
        progress=lambda stage, done, total: seen.setdefault(stage, []).append((done, total)),
    )  # fmt: skip
    assert {stage: steps[-1] for stage, steps in seen.items()} == {"motion": (1, 1), "frames": (20, 20)}
    assert json.loads(json.dumps(report))["frames"] == 20
    assert report["models"]["fingerprint"] == models.fingerprint
    assert set(report["stages_ms"]) == {"speech", "motion", "render", "encode", "finish"}

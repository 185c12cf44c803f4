"""The whole-file driver: what it promises to whoever calls it, beside what the command shows."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.models import write_folder

from ditto_core.avatar import Avatar, CropRequest, register
from ditto_core.backends import TorchBackend
from ditto_core.checkpoints import DittoModels, load_models
from ditto_core.errors import InvalidValueError
from ditto_core.motion.controls import MotionControls
from ditto_core.pipeline.draw import lead, next_piece
from ditto_core.pipeline.frames import Frames
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.timing import StageClock
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


@given(
    frames=st.integers(1, 200), length=st.integers(1, 70), sizes=st.lists(st.integers(1, 60), min_size=1, max_size=20)
)
def test_pieces_do_not_depend_on_how_frames_come(frames, length, sizes):
    """Each frame once, in order; a border is a key frame, and no frame waits for the next piece but the newest."""
    at_once = pieces(frames, length, [frames])
    assert at_once == pieces(frames, length, sizes)
    assert [i for piece in at_once for i in piece] == list(range(frames))
    assert all(piece[-1] % 2 == 0 for piece in at_once[: frames // 2] if piece[-1] < frames - 1)
    assert all(lead(piece) == (piece.start > 0) for piece in at_once if len(piece) > 1)


def pieces(frames: int, length: int, sizes: list[int]) -> list[range]:
    """Pieces drawn while frames come in turns of these sizes, the rest at last."""
    found: list[range] = []
    available = 0
    for size in [*sizes, frames]:
        available = min(available + size, frames)
        ended = available == frames
        while piece := next_piece(found[-1].stop if found else 0, available, ended=ended, length=length):
            found.append(piece)
    return found


@pytest.mark.parametrize("piece", [None, 4, 7])
def test_at_cadence_2_the_pictures_show_no_piece(frames, piece):
    """Even frames are drawn, those between are interpolated from both sides, at a piece's border too."""
    dense = pulled(frames)
    half = pulled(dataclasses.replace(frames, options=RenderOptions(batch=4, cadence=2), piece=piece))
    assert (half[::2].int() - dense[::2].int()).abs().max() <= 1
    for i in range(1, len(half) - 1, 2):
        between = (half[i - 1].int() + half[i + 1].int()) / 2
        off = (half[i] - between).abs().amax()
        assert off < (half[i + 1].int() - half[i - 1].int()).abs().amax(), i


def test_cadence_2_repeats_no_frame(frames):
    """The last face of each piece is drawn, none is a copy of its neighbour."""
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
    assert set(report["stages_ms"]) == {"speech", "motion", "warm-up", "render", "encode", "finish"}


def test_a_backend_is_warmed_up_before_its_first_frame(models, avatar, encoder, tmp_path):
    """With progress, and stopped by a cancel between its steps."""
    calls: list[object] = []

    class Slow(TorchBackend):
        def warm_up(self, batch, progress=None):
            calls.append(batch)
            progress(0, 2)
            progress(2, 2)

        def faces(self, f_s, x_s, x_d):
            calls.append("faces")
            return super().faces(f_s, x_s, x_d)

    seen: dict[str, list[tuple[int, int]]] = {}
    parts = (models, encoder, Slow(models), avatar, sound(20), tmp_path / "video.mp4")
    render_file(
        *parts, motion=QUICK, render=RenderOptions(batch=3),
        progress=lambda stage, done, total: seen.setdefault(stage, []).append((done, total)),
    )  # fmt: skip
    assert calls[0] == 3 and set(calls[1:]) == {"faces"}
    assert list(seen) == ["motion", "warm-up", "frames"] and seen["warm-up"] == [(0, 2), (2, 2)]
    calls.clear()

    def check() -> None:
        if calls:
            raise Cancelled

    with pytest.raises(Cancelled):
        render_file(*parts, motion=QUICK, render=RenderOptions(batch=3), check_cancelled=check)
    assert calls == [3]


def test_what_is_done_apart_is_a_stage_that_delays_nothing(monkeypatch):
    now = 100.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    clock = StageClock(torch.device("cpu"))
    now += 1
    with clock.stage_apart("warm-up"):
        now += 60
    now += 2
    assert clock.since_start() == 3 and clock.since_start(now - 1) == 2
    assert clock.since_start(100.5) == 0.5
    assert clock.stages_ms() == {"warm-up": 60_000}

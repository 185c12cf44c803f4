"""Motion window by window: every row once, in order, the same however speech arrives."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models import TINY
from torch import Tensor

from ditto_core.checkpoints.models import recipe_weights
from ditto_core.errors import DittoError, InvalidValueError
from ditto_core.motion.conditions import Conditions, Emotion
from ditto_core.motion.generate import (
    MotionStream,
    WindowSampler,
    generate_motion,
    network_sampler,
    row_noise,
)
from ditto_core.motion.windows import Joined, join, take
from ditto_core.networks import MotionDiffusion
from ditto_core.pipeline.plan import PLAN_NAMES, Plan, named_plan

PRESET = dataclasses.replace(TINY, condition_size=16 + 79)
EXPRESSION = slice(202, 265)


def conditions(emotion: Emotion | None = None) -> Conditions:
    return Conditions(
        source=torch.linspace(-1, 1, 265),
        emotion=emotion or Emotion.of("neutral"),
        eye_open=torch.tensor([[0.3, 0.4]]),
        eye_ball=torch.zeros(1, 6),
        canonical=torch.zeros(63),
        step=Fraction(1),
    )


def network() -> MotionDiffusion:
    model = MotionDiffusion(PRESET).eval()
    model.load_state_dict(recipe_weights("lmdm", PRESET))
    return model


def random_speech(rows: int) -> Tensor:
    return torch.randn((rows, 16), generator=torch.Generator().manual_seed(rows))


def drain(stream: MotionStream) -> Tensor:
    rows = [torch.zeros(0, 265)]
    while (final := stream.step()) is not None:
        rows.append(final)
    return torch.cat(rows)


def echo(window: int, condition: Tensor, start: Tensor) -> Tensor:
    """A sampler whose motion is the first value of the condition."""
    return condition[:, :, :1].expand(-1, -1, 265)


def drifting(window: int, condition: Tensor, start: Tensor) -> Tensor:
    """A sampler that disagrees with itself from window to window, and remembers its start."""
    noise = torch.randn((1, 80, 265), generator=torch.Generator().manual_seed(window))
    return condition[:, :, :1] + 0.3 * noise + 0.5 * start[:, None]


def whole(plan: Plan, sample: WindowSampler, speech: Tensor) -> Tensor:
    stream = MotionStream(plan, conditions(), sample, silence=torch.full((plan.silence, speech.shape[1]), -1.0))
    stream.push(speech)
    stream.finish()
    return drain(stream)


def plan_of(name: str, chunk: int) -> Plan:
    return dataclasses.replace(named_plan(name, chunk=chunk), ending="exact")


@pytest.mark.parametrize("name", PLAN_NAMES)
def test_every_row_comes_once_and_in_order(name: str) -> None:
    """The sampler echoes the number of the row that it hears, so that a row out of place would show."""
    for chunk in range(1, 71):
        for rows in (1, 3, 7, 14, 28, 55, 56, 83):
            speech = torch.arange(rows).float()[:, None].expand(-1, 16)
            motion = whole(plan_of(name, chunk), echo, speech)
            assert len(motion) == rows, (chunk, rows)
            torch.testing.assert_close(motion[:, EXPRESSION], speech[:, :1].expand(-1, 63), atol=1e-4, rtol=0)


@settings(max_examples=60)
@given(
    name=st.sampled_from(PLAN_NAMES),
    chunk=st.integers(1, 70),
    smoothing=st.sampled_from([1, 3, 9]),
    cuts=st.lists(st.integers(0, 60), min_size=1, max_size=8),
)
def test_the_cut_of_the_speech_changes_no_bit(name: str, chunk: int, smoothing: int, cuts: list[int]) -> None:
    plan = dataclasses.replace(plan_of(name, chunk), smoothing=smoothing)
    speech = random_speech(max(1, sum(cuts)))
    expected = whole(plan, drifting, speech)
    stream = MotionStream(plan, conditions(), drifting, silence=torch.full((plan.silence, 16), -1.0))
    shown, pushed = [], 0
    for part in speech.split([*cuts[:-1], len(speech) - sum(cuts[:-1])]):
        stream.push(part)
        pushed += len(part)
        shown.append(drain(stream))
        assert sum(map(len, shown)) == plan.frames_ready(plan.windows_ready(pushed))
    stream.finish()
    shown.append(drain(stream))
    assert torch.equal(torch.cat(shown), expected)


@pytest.mark.parametrize("rows", [1, 2, 5, 70, 200])
def test_a_files_rest_is_its_first_frame(rows: int) -> None:
    """So that in relative mode a picture begins as it is."""
    track = generate_motion(network(), random_speech(rows), conditions(), named_plan("offline"), seed=1, steps=2)
    assert torch.equal(track.reference, track.vectors[0])


@pytest.mark.parametrize("name", ["offline", "low-latency"])
def test_a_real_network_gives_the_same_bits_whole_and_in_parts(name: str) -> None:
    plan, model, speech = named_plan(name, chunk=20), network(), random_speech(97)
    silence = torch.zeros(plan.silence, 16)
    track = generate_motion(model, speech, conditions(), plan, seed=5, steps=4, silence=silence, models="test")
    sample = network_sampler(model, plan, seed=5, steps=4)
    stream = MotionStream(plan, conditions(), sample, silence=silence)
    shown = []
    for part in speech.split(3):
        stream.push(part)
        shown.append(drain(stream))
    stream.finish()
    shown.append(drain(stream))
    assert torch.equal(torch.cat(shown), track.vectors)
    assert torch.equal(stream.reference, track.reference)
    assert (track.seed, track.plan, track.models, len(track)) == (5, name, "test", 97)
    again = generate_motion(model, speech, conditions(), plan, seed=6, steps=4, silence=silence)
    assert not torch.allclose(again.vectors, track.vectors, atol=1e-3)


def test_ten_minutes_keep_only_the_newest_rows() -> None:
    for name in PLAN_NAMES:
        plan = plan_of(name, 10)
        stream = MotionStream(plan, conditions(), echo, silence=torch.zeros(plan.silence, 16))
        speech, shown, kept = random_speech(500), 0, []
        for _ in range(30):
            stream.push(speech)
            shown += len(drain(stream))
            kept.append(len(stream._state.rows) + len(stream._speech))
        stream.finish()
        assert shown + len(drain(stream)) == 15000
        assert max(kept) < 400


def test_the_low_latency_joint_has_no_jump_and_then_follows_the_new_window() -> None:
    plan = named_plan("low-latency", chunk=16)
    state, shown = Joined(), []
    for value in (0.0, 1.0):
        state = join(plan, state, torch.full((80, 265), value))
        rows, state = take(plan, state)
        shown.append(rows)
    steps = torch.cat(shown)[:, EXPRESSION].diff(dim=0)
    assert [len(rows) for rows in shown] == [16, 16]
    assert float(steps.abs().max()) <= 1 / (plan.fuse + 1) + 1e-6
    assert torch.equal(shown[1][plan.fuse :], torch.ones(16 - plan.fuse, 265))


def test_windows_that_share_rows_share_their_noise() -> None:
    first, second = (torch.cat(list(row_noise(3, range(k * 8, k * 8 + 80), steps=5))) for k in (0, 1))
    assert first.shape == (5, 80, 265)
    assert torch.equal(first[:, 8:], second[:, :-8])
    assert abs(float(first.mean())) < 0.02 and abs(float(first.std()) - 1) < 0.02
    assert not torch.equal(first, torch.cat(list(row_noise(4, range(80), steps=5))))


def test_a_larger_sampler_batch_changes_the_result_by_rounding_alone() -> None:
    plan, model, speech = named_plan("offline"), network(), random_speech(30)
    single = generate_motion(model, speech, conditions(), plan, seed=1, steps=3)
    padded = generate_motion(model, speech, conditions(), dataclasses.replace(plan, sampler_batch=4), seed=1, steps=3)
    torch.testing.assert_close(single.vectors, padded.vectors, atol=1e-5, rtol=1e-4)


def test_bounds_hold_the_shown_motion_but_not_the_next_windows_start() -> None:
    plan, starts = plan_of("offline", 10), []

    def sample(window: int, condition: Tensor, start: Tensor) -> Tensor:
        starts.append(start)
        return torch.full((1, 80, 265), 3.0)

    bounds = torch.stack([torch.full((265,), -0.5), torch.full((265,), 0.5)])
    stream = MotionStream(plan, conditions(), sample, bounds=bounds)
    stream.push(random_speech(25))
    stream.finish()
    assert torch.equal(drain(stream), torch.full((25, 265), 0.5))
    assert torch.equal(stream.reference, torch.full((265,), 0.5))
    assert float(starts[1].max()) == 3.0


def test_conditions_of_a_padded_window_stay_at_the_last_row() -> None:
    """The original's online stage reads emotions beyond the sound's end; ours holds the last frame's."""
    emotion = Emotion.at_frames({0: "neutral", 30: "happy"})
    happy = {}
    for ending in ("exact", "upstream-online"):
        seen: list[Tensor] = []

        def sample(window: int, condition: Tensor, start: Tensor, seen: list[Tensor] = seen) -> Tensor:
            seen.append(condition[0, :, 16 + 3])
            return torch.zeros(1, 80, 265)

        plan = dataclasses.replace(named_plan("upstream-online"), ending=ending)
        stream = MotionStream(plan, conditions(emotion), sample, silence=torch.zeros(70, 16))
        stream.push(random_speech(30))
        stream.finish()
        drain(stream)
        happy[ending] = bool((seen[-1] > 0.5).any())
    assert happy == {"exact": False, "upstream-online": True}


def test_progress_and_cancelling() -> None:
    class Cancelled(Exception):
        pass

    plan, model, speech = named_plan("offline"), network(), random_speech(200)
    done: list[tuple[int, int]] = []

    def check() -> None:
        if len(done) == 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        generate_motion(
            model,
            speech,
            conditions(),
            plan,
            seed=1,
            steps=2,
            progress=lambda *now: done.append(now),
            check_cancelled=check,
        )
    assert done == [(1, 3), (2, 3)]


def test_wrong_use_is_refused() -> None:
    plan = named_plan("low-latency")
    with pytest.raises(InvalidValueError, match="72"):
        MotionStream(plan, conditions(), echo)
    stream = MotionStream(plan, conditions(), echo, silence=torch.zeros(72, 16))
    assert stream.step() is None and stream.reference is None
    stream.finish()
    assert stream.step() is None
    with pytest.raises(InvalidValueError, match="after the end"):
        stream.push(random_speech(1))
    with pytest.raises(DittoError, match="no frame"):
        generate_motion(network(), random_speech(0), conditions(), named_plan("offline"), seed=1, steps=1)
    with pytest.raises(InvalidValueError, match="79"):
        join(plan, Joined(), torch.zeros(79, 265))

"""Plans: how many frames, when, and after how much sound. All in whole numbers, exactly."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import GoldenFile

from ditto_core.errors import InvalidValueError
from ditto_core.pipeline.plan import PLAN_NAMES, Plan, named_plan
from ditto_core.speech.windows import ROW_SAMPLES

TEN_MINUTES = 600 * 16000
LENGTHS = [1, 639, 640, 641, 1600, *(n * ROW_SAMPLES for n in (1, 7, 14, 28, 55, 56)), TEN_MINUTES]


def exact_plan(name: str, chunk: int, hop: int) -> Plan:
    return dataclasses.replace(named_plan(name, chunk=chunk), hop=hop, ending="exact")


plans = st.builds(exact_plan, st.sampled_from(PLAN_NAMES), st.integers(1, 70), st.integers(1, 5))


@pytest.mark.parametrize("name", PLAN_NAMES)
def test_every_chunk_and_hop_shows_the_frames_of_the_sound(name: str) -> None:
    for chunk in range(1, 71):
        for hop in range(1, 6):
            plan = exact_plan(name, chunk, hop)
            for samples in LENGTHS:
                assert plan.reached(samples, ended=True).frames == -(-samples // ROW_SAMPLES), (plan, samples)


@given(plan=plans, cuts=st.lists(st.integers(0, 20000), max_size=30))
def test_frames_only_grow_and_end_at_the_whole_files(plan: Plan, cuts: list[int]) -> None:
    samples, before = 0, plan.reached(0)
    for cut in cuts:
        samples += cut
        now = plan.reached(samples)
        assert now.frames >= before.frames and now.windows >= before.windows and now.rows >= before.rows
        before = now
    whole = plan.reached(samples, ended=True)
    assert whole.frames == -(-samples // ROW_SAMPLES)
    assert whole.frames >= before.frames and whole.windows >= before.windows and whole.rows >= before.rows


@given(plan=plans, frame=st.integers(0, 2000))
def test_a_frame_is_shown_with_its_last_needed_sample_and_never_before_its_sound(plan: Plan, frame: int) -> None:
    needed = plan.samples_needed(frame)
    assert plan.reached(needed).frames > frame
    assert plan.reached(needed - 1).frames <= frame
    assert needed >= (frame + 1) * ROW_SAMPLES
    assert needed - frame * ROW_SAMPLES <= plan.look_ahead


@given(plan=plans, samples=st.integers(0, 300_000))
def test_windows_that_may_run_use_only_rows_that_exist(plan: Plan, samples: int) -> None:
    reached = plan.reached(samples)
    if reached.windows:
        assert plan.window_rows(reached.windows - 1).stop <= reached.rows
    assert plan.window_rows(reached.windows).stop > reached.rows
    assert reached.rows <= -(-samples // ROW_SAMPLES)


@given(plan=plans)
def test_windows_follow_each_other_by_a_chunk(plan: Plan) -> None:
    assert plan.window_rows(0).start == -plan.silence
    assert plan.window_rows(3).start - plan.window_rows(2).start == plan.chunk
    assert len(plan.window_rows(1)) == plan.chunk + plan.overlap == 80


@pytest.mark.parametrize(("chunk", "first", "longest"), [(10, 885, 885), (8, 885, 885), (5, 485, 485), (4, 485, 565)])
def test_the_originals_online_wait(chunk: int, first: int, longest: int) -> None:
    """Milliseconds for the first frame, and for the frame that waits longest after its own start.

    A chunk that the hop does not divide makes some later frames wait longer than the first.
    """
    plan = named_plan("upstream-online", chunk=chunk)
    assert plan.samples_needed(0) == first * 16
    assert plan.look_ahead == longest * 16


@pytest.mark.parametrize("chunk", range(1, 71))
def test_low_latency_waits_for_a_chunk_and_two_rows(chunk: int) -> None:
    """At chunk 4 that is 240 ms, so that 160 ms are left for the networks of a first frame within 400 ms."""
    plan = named_plan("low-latency", chunk=chunk)
    assert plan.samples_needed(0) == plan.look_ahead == (chunk + 2) * ROW_SAMPLES


def test_the_original_counts_a_row_too_many_where_floating_point_rounds_up() -> None:
    """28 frames are 1.12 s; in floating point 28 * 640 / 16000 * 25 is above 28, and is rounded up to 29."""
    counts = GoldenFile.open("frame_count_rounding")["k"]
    upstream, ours = named_plan("upstream-offline"), named_plan("offline")
    for rows in range(1, 4096):
        assert ours.rows(rows * ROW_SAMPLES) == rows
        assert upstream.rows(rows * ROW_SAMPLES) == rows + (rows in counts)


def test_the_originals_client_adds_rows_and_its_online_stage_adds_frames() -> None:
    """One second is 25 frames; the original's client makes 30 rows of it, and its stage 40 frames."""
    upstream = named_plan("upstream-online").reached(16000, ended=True)
    assert (upstream.rows, upstream.frames) == (30, 40)
    assert named_plan("low-latency").reached(16000, ended=True).frames == 25
    assert named_plan("upstream-online").frames(9) == 0
    assert named_plan("low-latency").frames(9) == 9


def test_no_sound_gives_no_frame() -> None:
    for name in ("offline", "low-latency"):
        reached = named_plan(name).reached(0, ended=True)
        assert (reached.rows, reached.windows, reached.frames) == (0, 0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"chunk": 0},
        {"chunk": 71},
        {"chunk": 8.0},
        {"hop": 6},
        {"fuse": 11},
        {"silence": 11},
        {"reference": 1},
        {"smoothing": 2},
        {"reset_spares": (5, 266)},
        {"grid": "other"},
        {"ending": "other"},
        {"noise": "other"},
        {"sampler_batch": 0},
        {"render_batch": True},
        {"forward": True, "smooth_again": True},
    ],
)
def test_values_out_of_range_are_named(change: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError, match=list(change)[-1]):
        dataclasses.replace(named_plan("offline"), **change)


def test_unknown_names_and_chunks_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="low-latency"):
        named_plan("fast")
    with pytest.raises(InvalidValueError, match="71"):
        named_plan("low-latency", chunk=71)


def test_a_plan_is_json() -> None:
    for name in PLAN_NAMES:
        assert json.loads(json.dumps(named_plan(name).to_json()))["name"] == name

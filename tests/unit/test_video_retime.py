"""Which source frame each output frame shows."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.errors import InvalidValueError
from ditto_core.video.retime import Retimer, exact_rate, frame_count, shown_frame

RATES = st.sampled_from([Fraction(12), Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001), Fraction(50)])
NTSC = Fraction(30000, 1001)


@given(RATES, RATES, st.integers(0, 100_000))
def test_the_nearest_frame_is_shown(source: Fraction, fps: Fraction, number: int) -> None:
    """So that a picture is at most half a source frame from its time, however long the video."""
    shown = shown_frame(number, source, fps)
    assert abs(shown / source - number / fps) <= Fraction(1, 2) / source


@given(RATES, RATES, st.integers(1, 400))
def test_frames_that_arrive_one_by_one_are_shown_the_same(source: Fraction, fps: Fraction, count: int) -> None:
    retimer, shown = Retimer(source, fps), []
    for i in range(count):
        shown += [i] * retimer.repeats()
    last = retimer.last_repeats()
    assert last >= 0
    shown += [count - 1] * last
    assert shown == [min(shown_frame(i, source, fps), count - 1) for i in range(frame_count(count, source, fps))]
    assert 0 <= len(shown) / fps - count / source < 1 / fps  # no sound is lost


def test_25_in_ntsc_leaves_none_out_and_doubles_every_fifth() -> None:
    shown = [shown_frame(i, Fraction(25), NTSC) for i in range(frame_count(250, Fraction(25), NTSC))]
    assert sorted(set(shown)) == list(range(250))
    assert len(shown) == 300
    doubled = [i for i in range(250) if shown.count(i) == 2]
    assert len(doubled) == 50
    assert all(4 <= b - a <= 6 for a, b in zip(doubled, doubled[1:], strict=False))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (23.98, Fraction(24000, 1001)),
        (23.976, Fraction(24000, 1001)),
        (29.97, Fraction(30000, 1001)),
        (59.94, Fraction(60000, 1001)),
        (25.0, Fraction(25)),
        (24.0, Fraction(24)),
        (12.5, Fraction(25, 2)),
        (0.1, Fraction(1, 10)),
    ],
)
def test_a_number_means_a_rate(written: float, meant: Fraction) -> None:
    assert exact_rate(written) == meant


@pytest.mark.parametrize("written", [math.nan, math.inf, 0.0, -25.0])
def test_no_rate(written: float) -> None:
    with pytest.raises(InvalidValueError, match="frames a second"):
        exact_rate(written)

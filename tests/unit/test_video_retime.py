"""Which source frame each output frame shows."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from ditto_core.video.retime import Retimer, frame_count, shown_frame

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

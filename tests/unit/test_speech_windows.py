from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.errors import InvalidValueError
from ditto_core.speech.windows import ROW_SAMPLES, SpeechWindows, frame_count, upstream_offline_rows

hops = st.integers(1, 5)
leads = st.integers(0, 2000)


@given(n=st.integers(0, 10**9))
def test_frame_count_is_the_exact_ceiling(n):
    exact = Fraction(n * 25, 16000)
    assert exact <= frame_count(n) < exact + 1


@pytest.mark.parametrize("frames", [7, 14, 28, 55, 56, 109])
def test_upstream_counts_one_frame_too_many(frames):
    """640 samples are one frame. The original's float expression says otherwise; ours does not copy that."""
    assert frame_count(frames * 640) == frames
    assert upstream_offline_rows(frames * 640) == frames + 1


@given(hop=hops)
def test_windows_are_the_official_ones_at_every_hop(hop):
    windows = SpeechWindows.with_hop(hop)
    assert (windows.length, windows.step, windows.encoder_frames) == (6480, hop * 640, 20)
    assert (windows.past, windows.future) == (8 - hop, 2)
    kept = windows.kept_frames
    assert kept.stop - kept.start == 2 * hop
    assert kept.stop == 16


@given(hop=hops, row=st.integers(0, 10_000))
def test_a_row_is_heard_at_the_same_place_for_every_hop(hop, row):
    """Encoder frame j of a window begins 320 j samples into it: at 640 row - 80 for a row's first frame."""
    windows = SpeechWindows.with_hop(hop)
    window, place = divmod(row, hop)
    first_frame = windows.start(window) + 320 * (windows.kept_frames.start + 2 * place)
    assert first_frame == row * ROW_SAMPLES - 80


@given(hop=hops, lead=leads, n=st.integers(0, 200_000))
def test_windows_run_exactly_when_all_their_samples_are_there(hop, lead, n):
    windows = SpeechWindows.with_hop(hop, lead=lead) if lead <= (8 - hop) * 640 + 80 else SpeechWindows.with_hop(hop)
    ready = windows.ready(n)
    assert ready == 0 or windows.start(ready - 1) + windows.length <= n
    assert windows.start(ready) + windows.length > n
    # what has run never exceeds the frames that the sound has so far
    assert ready * hop <= n // ROW_SAMPLES


@given(hop=hops, row=st.integers(0, 5000))
def test_samples_needed_is_the_first_length_at_which_the_row_can_be_made(hop, row):
    windows = SpeechWindows.with_hop(hop)
    needed = windows.samples_needed(row)
    assert windows.ready(needed) * hop > row >= windows.ready(needed - 1) * hop


@given(hop=hops, rows=st.integers(0, 5000))
def test_count_is_the_fewest_windows(hop, rows):
    count = SpeechWindows.with_hop(hop).count(rows)
    assert (count - 1) * hop < rows <= count * hop or rows == count == 0


def test_the_last_row_of_a_window_waits_two_rows_and_the_first_hop_more():
    windows = SpeechWindows.with_hop(5)
    assert windows.samples_needed(0) == windows.samples_needed(4) == 7 * 640
    assert SpeechWindows.with_hop(1).samples_needed(0) == 3 * 640


@pytest.mark.parametrize("hop", [0, 6, -1])
def test_hop_out_of_range_is_refused(hop):
    with pytest.raises(InvalidValueError, match="hop"):
        SpeechWindows.with_hop(hop)


@pytest.mark.parametrize("lead", [-1, 2001])
def test_lead_out_of_range_is_refused(lead):
    with pytest.raises(InvalidValueError, match="lead"):
        SpeechWindows.with_hop(5, lead=lead)


def test_geometry_without_rows_is_refused():
    with pytest.raises(InvalidValueError, match="rows"):
        SpeechWindows(past=3, hop=0, future=2, lead=0)

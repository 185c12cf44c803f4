import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ditto_core.errors import InvalidValueError
from ditto_core.speech import FeatureStream, SpeechWindows, frame_count, recipe_hubert, speech_features

HUBERT = recipe_hubert(64, "miniature")


def noise(n):
    return np.random.default_rng(n).uniform(-0.5, 0.5, n).astype(np.float32)


@settings(max_examples=8)
@given(
    data=st.data(),
    hop=st.integers(1, 5),
    lead=st.sampled_from([1920, 2000]),
    batch=st.sampled_from([1, 3, 4]),
    n=st.integers(1, 24_000),
)
def test_rows_have_the_same_bits_however_the_signal_is_cut(data, hop, lead, batch, n):
    signal = noise(n)
    whole = speech_features(signal, HUBERT, hop=hop, lead=lead, batch=batch)
    assert whole.shape == (frame_count(n), 64)
    stream = FeatureStream(HUBERT, SpeechWindows.with_hop(hop, lead=lead), batch=batch)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    parts = [stream.push(part) for part in np.split(signal, cuts)]
    assert torch.equal(torch.cat([*parts, stream.finish()]), whole)


def test_rows_come_as_soon_as_their_samples_are_there():
    windows = SpeechWindows.with_hop(5)
    stream = FeatureStream(HUBERT, windows, batch=1)
    needed = windows.samples_needed(0)
    assert len(stream.push(noise(needed - 1))) == 0
    assert len(stream.push(noise(1))) == 5


@pytest.mark.parametrize("frames", [1, 7, 14, 28, 55, 56])
def test_exactly_one_row_a_frame(frames):
    assert len(speech_features(noise(frames * 640), HUBERT, hop=5, lead=2000, batch=4)) == frames


def test_a_row_is_the_mean_of_its_two_encoder_frames():
    """At hop 1 a window's only row is made of the encoder's frames 14 and 15."""
    signal = noise(16_000)
    windows = SpeechWindows.with_hop(1)
    rows = speech_features(signal, HUBERT, hop=1, lead=windows.lead, batch=1)
    start = windows.start(10)
    frames = HUBERT.encode(torch.from_numpy(signal[start : start + 6480])[None])
    assert torch.equal(rows[10], frames[0, 14:16].mean(0))


def test_silence_gives_the_same_rows_throughout():
    rows = speech_features(np.zeros(640 * 20, np.float32), HUBERT, hop=5, lead=2000, batch=1)
    assert torch.isfinite(rows).all()
    assert torch.equal(rows[:5], rows[5:10])


def test_no_signal_gives_no_rows():
    assert speech_features(np.zeros(0, np.float32), HUBERT, hop=5, lead=2000, batch=8).shape == (0, 64)


def test_misuse_is_refused():
    with pytest.raises(InvalidValueError, match="batch"):
        speech_features(noise(640), HUBERT, hop=5, lead=2000, batch=0)
    stream = FeatureStream(HUBERT, SpeechWindows.with_hop(5), batch=1)
    with pytest.raises(InvalidValueError, match="shape"):
        stream.push(np.zeros((2, 3), np.float32))
    stream.push(noise(16_000))
    with pytest.raises(InvalidValueError, match="already given"):
        stream.finish(rows=1)
    stream.finish()
    with pytest.raises(InvalidValueError, match="after its end"):
        stream.push(noise(1))


def test_an_encoder_of_another_frame_rate_is_refused():
    class Slow:
        features, executed_by, fingerprint = 64, "test", "0"

        def encode(self, windows):
            return torch.zeros(len(windows), 10, 64)

    with pytest.raises(InvalidValueError, match="50 frames a second"):
        speech_features(noise(6400), Slow(), hop=5, lead=2000, batch=1)

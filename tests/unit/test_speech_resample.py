import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ditto_core.errors import InvalidValueError
from ditto_core.speech.resample import Resampler, resampled_length

RATES = [8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000, 96000, 192000, 8001, 47999]


def resample(samples, rate, cuts=()):
    resampler = Resampler(rate)
    parts = [resampler.push(part) for part in np.split(samples, list(cuts), axis=-1)]
    return np.concatenate([*parts, resampler.flush()])


def noise(n, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, n).astype(np.float32)


@settings(max_examples=60)
@given(data=st.data(), rate=st.sampled_from(RATES), n=st.integers(0, 3000), channels=st.integers(1, 9))
def test_output_does_not_depend_on_the_cuts_and_has_the_stated_length(data, rate, n, channels):
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=12)))
    samples = noise((channels, n))
    whole = resample(samples, rate)
    assert len(whole) == resampled_length(n, rate) == -(-n * 16000 // rate)
    assert np.array_equal(whole, resample(samples, rate, cuts))


@pytest.mark.parametrize("rate", [8000, 44100, 48000, 192000])
def test_one_sample_a_push_gives_the_same_bits(rate):
    samples = noise(1500)
    assert np.array_equal(resample(samples, rate), resample(samples, rate, range(1, 1500)))


@pytest.mark.parametrize("rate", RATES)
def test_a_click_stays_at_its_time(rate):
    for seconds in (0.0, 0.004, 0.5):
        samples = np.zeros(rate, np.float32)
        samples[round(seconds * rate)] = 1.0
        peak = int(np.abs(resample(samples, rate)).argmax())
        assert abs(peak - seconds * 16000) <= 1


def resampled_sine(frequency, rate):
    """A sine of amplitude 1 after resampling, away from the ends."""
    return resample(np.sin(2 * np.pi * frequency * np.arange(rate // 2) / rate), rate)[1000:-1000].astype(np.float64)


def pass_gain_db(frequency, rate):
    out = resampled_sine(frequency, rate)
    phase = 2 * np.pi * frequency * np.arange(len(out)) / 16000
    fit = np.linalg.lstsq(np.stack([np.sin(phase), np.cos(phase)], axis=1), out)[0]
    return 20 * np.log10(np.hypot(*fit))


def stop_gain_db(frequency, rate):
    return 20 * np.log10(np.sqrt(2 * np.mean(resampled_sine(frequency, rate) ** 2)) + 1e-12)


@pytest.mark.parametrize("rate", [24000, 44100, 48000, 192000])
def test_speech_band_is_flat_and_nothing_folds_back(rate):
    """Measured on sines: within 0.002 dB up to 7.1 kHz, and 80 dB down from 8 kHz on."""
    assert max(abs(pass_gain_db(f, rate)) for f in (101, 1003, 3001, 5003, 7101)) < 0.01
    above = [f for f in (8001, 8100, 8300, 9001, 11003, 15001, 21001, 60013, 90001) if f < rate / 2]
    assert max(stop_gain_db(f, rate) for f in above) < -79


def test_upsampled_sine_equals_the_true_one():
    """No image above 4 kHz and no delay: within 2e-4 of the sine itself (the stop band is 80 dB down)."""
    out = resample(np.sin(2 * np.pi * 1000 * np.arange(4000) / 8000).astype(np.float32), 8000)
    true = np.sin(2 * np.pi * 1000 * np.arange(8000) / 16000)
    assert np.abs(out - true)[500:-500].max() < 2e-4


def test_sound_at_16_khz_passes_unchanged():
    samples = noise(777)
    assert np.array_equal(resample(samples, 16000, [3, 400]), samples)


def test_an_output_comes_as_soon_as_its_look_ahead_has_arrived():
    resampler = Resampler(48000)
    assert resampler.look_ahead == 144
    assert len(resampler.push(noise(144))) == 0
    assert len(resampler.push(noise(1))) == 1


def test_channels_are_averaged():
    left, right = noise(500, 1), noise(500, 2)
    mean = resample(np.stack([left, right]), 16000)
    np.testing.assert_allclose(mean, (left + right) / 2, atol=1e-7)


@pytest.mark.parametrize("rate", [0, 7999, 192001, 16000.0, True])
def test_rates_out_of_range_are_refused(rate):
    with pytest.raises(InvalidValueError, match="sample rate"):
        Resampler(rate)


@pytest.mark.parametrize(
    "samples",
    [np.zeros((2, 2, 2)), np.zeros((0, 4)), np.array([0.0, np.nan]), np.array([np.inf]), np.zeros(4, np.int16)],
)
def test_bad_samples_are_refused(samples):
    with pytest.raises(InvalidValueError):
        Resampler(24000).push(samples)


def test_a_flushed_resampler_takes_no_more():
    resampler = Resampler(24000)
    resampler.flush()
    with pytest.raises(InvalidValueError, match="after its end"):
        resampler.push(noise(3))

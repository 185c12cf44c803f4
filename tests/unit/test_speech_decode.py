"""Sound files by real codecs, and waveforms in memory."""

import math
import struct
import wave
from fractions import Fraction

import av
import numpy as np
import pytest
import torch

from ditto_core.errors import InvalidValueError
from ditto_core.media import MediaError, MediaLimits
from ditto_core.speech import Sound, analysis_signal, frame_count, read_sound

# container, codec, rate, ending, most samples more or fewer than went in. An mp4 tells its length in whole
# milliseconds. Raw AAC streams and MPEG-TS carry no mark of the encoder's delay; they come out longer.
CODECS = [
    ("wav", "pcm_s16le", 24000, "wav", 0),
    ("wav", "pcm_s24le", 48000, "wav", 0),
    ("wav", "pcm_f32le", 44100, "wav", 0),
    ("wav", "pcm_f64le", 44100, "wav", 0),
    ("wav", "pcm_u8", 8000, "wav", 0),
    ("aiff", "pcm_s16be", 44100, "aiff", 0),
    ("flac", "flac", 96000, "flac", 0),
    ("mp3", "libmp3lame", 44100, "mp3", 0),
    ("ogg", "libopus", 48000, "ogg", 0),
    ("webm", "libopus", 48000, "webm", 0),
    ("matroska", "libmp3lame", 44100, "mkv", 0),
    ("mov", "alac", 44100, "mov", 0),
    ("mp4", "aac", 44100, "m4a", 44),
    ("mp4", "aac", 16000, "mp4", 48),
    ("mov", "aac", 48000, "mov", 48),
    ("mp4", "libopus", 48000, "mp4", 48),
    ("matroska", "aac", 44100, "mkv", 1024),
    ("mpegts", "aac", 48000, "ts", 2048),
    ("adts", "aac", 44100, "aac", 2048),
]


def tone(rate, n):
    """A quiet tone with a burst in its middle."""
    t = np.arange(n) / rate
    burst = np.exp(-(((np.arange(n) - n // 2) / (0.004 * rate)) ** 2))
    return (0.05 * np.sin(2 * np.pi * 220 * t) + 0.6 * burst * np.sin(2 * np.pi * 440 * t)).astype(np.float32)


def write(path, container, codec, rate, samples, **options):
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[len(samples)]
    with av.open(str(path), "w", format=container, options=options) as output:
        stream = output.add_stream(codec, rate=rate, layout=layout)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="fltp", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("container, codec, rate, ending, excess", CODECS)
def test_every_format_gives_its_sound_at_its_time(tmp_path, container, codec, rate, ending, excess):
    n = rate + rate // 1000 * 7
    samples = tone(rate, n)
    sound = read_sound(write(tmp_path / f"a.{ending}", container, codec, rate, samples[None]))
    assert (sound.rate, len(sound.samples)) == (rate, 1)
    assert abs(sound.samples.shape[1] - n) <= excess
    # where in the sound the burst lies: unmoved but for formats that can't tell their encoder's delay
    moved = np.abs(np.correlate(sound.samples[0], samples[n // 2 - 99 : n // 2 + 99])).argmax() - (n // 2 - 99)
    assert (0 <= moved <= excess) if excess == 2048 else abs(moved) <= 1


@pytest.mark.parametrize("codec", ["pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_u8"])
def test_pcm_is_scaled_to_full_scale_one(tmp_path, codec):
    samples = np.linspace(-0.9, 0.9, 1000, dtype=np.float32)[None]
    sound = read_sound(write(tmp_path / "a.wav", "wav", codec, 16000, samples))
    step = {"pcm_u8": 1 / 128, "pcm_s16le": 1 / 32768}.get(codec, 1e-6)
    assert np.abs(sound.samples - samples).max() <= step


@pytest.mark.parametrize("channels, codec", [(2, "flac"), (6, "flac"), (2, "aac")])
def test_all_channels_are_kept_and_averaged_for_the_analysis(tmp_path, channels, codec):
    samples = np.stack([tone(48000, 24000) * (i + 1) / channels for i in range(channels)])
    path = write(tmp_path / "a.mkv", "matroska", codec, 48000, samples)
    sound = read_sound(path)
    assert len(sound.samples) == channels
    level = np.abs(sound.samples).max(axis=1)
    np.testing.assert_allclose(level / level[-1], (np.arange(channels) + 1) / channels, atol=0.05)
    one = Sound(sound.samples.mean(axis=0, keepdims=True), 48000)
    np.testing.assert_allclose(analysis_signal(sound), analysis_signal(one), atol=1e-6)


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100, 48000, 192000])
def test_the_analysis_signal_has_its_exact_length(rate):
    sound = Sound(tone(rate, rate // 10 + 3)[None], rate)
    assert len(analysis_signal(sound)) == math.ceil(Fraction((rate // 10 + 3) * 16000, rate))
    assert sound.frames == frame_count(len(analysis_signal(sound))) == math.ceil(sound.duration_s * 25)


def test_fragmented_mp4_keeps_all_its_sound(tmp_path):
    samples = tone(48000, 5 * 48000)[None]
    path = write(tmp_path / "a.mp4", "mp4", "aac", 48000, samples, movflags="frag_keyframe+empty_moov")
    assert 0 <= read_sound(path).samples.shape[1] - 5 * 48000 <= 1024


def test_sound_of_a_video_file_is_found(tmp_path):
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as output:
        video, sound = output.add_stream("mpeg4", rate=25), output.add_stream("aac", rate=16000, layout="mono")
        video.width = video.height = 64
        output.mux(video.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))))
        output.mux(video.encode(None))
        frame = av.AudioFrame.from_ndarray(tone(16000, 8000)[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 16000, 0
        output.mux(sound.encode(frame))
        output.mux(sound.encode(None))
    assert abs(read_sound(path).duration_s - 0.5) < 0.002


def test_ten_minutes_and_a_tenth_of_a_second(tmp_path):
    for seconds, frames in ((600, 15000), (0.1, 3)):
        path = tmp_path / f"{seconds}.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(bytes(2 * round(8000 * seconds)))
        sound = read_sound(path)
        assert sound.frames == frames
        assert not sound.samples.any()


def float_wav(path, values):
    data = np.asarray(values, "<f4").tobytes()
    form = struct.pack("<HHIIHH", 3, 1, 16000, 64000, 4, 32)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    return path


def test_nan_and_infinity_are_refused_with_their_place(tmp_path):
    values = np.zeros(16000)
    values[8000], values[9000] = np.nan, -np.inf
    with pytest.raises(MediaError, match=r"a\.wav: sound with 2 NaN or infinite samples, the first at 0\.500 s"):
        read_sound(float_wav(tmp_path / "a.wav", values))


def test_a_file_without_sound_is_refused(tmp_path):
    with pytest.raises(MediaError, match="empty"):
        read_sound(float_wav(tmp_path / "a.wav", []))


def test_a_file_cut_off_midway_is_refused_or_read_up_to_there(tmp_path):
    """A whole mp4 needs its table of contents, a wav does not."""
    whole = write(tmp_path / "a.m4a", "mp4", "aac", 48000, tone(48000, 48000)[None]).read_bytes()
    (tmp_path / "b.m4a").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(MediaError):
        read_sound(tmp_path / "b.m4a")
    whole = float_wav(tmp_path / "a.wav", np.zeros(16000)).read_bytes()
    (tmp_path / "b.wav").write_bytes(whole[: 44 + 4 * 8000])
    assert read_sound(tmp_path / "b.wav").duration_s == 0.5


def test_limits_hold_for_what_is_decoded_whatever_the_file_declares(tmp_path):
    path = write(tmp_path / "a.flac", "flac", "flac", 16000, np.zeros((2, 16000 * 20), np.float32))
    with pytest.raises(MediaError, match="longer than 10 s"):
        read_sound(path, limits=MediaLimits(duration_s=10))
    with pytest.raises(MediaError, match="more than 50000 samples"):
        read_sound(path, limits=MediaLimits(values=50_000))
    stream = path.read_bytes()
    header = bytearray(stream)
    header[21:26] = bytes([header[21] & 0xF0, 0, 0, 0, 0])  # total samples "unknown"
    path.write_bytes(header)
    with pytest.raises(MediaError, match="longer than 10 s"):
        read_sound(path, limits=MediaLimits(duration_s=10))


@pytest.mark.parametrize(
    "waveform",
    [
        np.array([0, 16384, -32768], np.int16),
        np.array([[128, 192, 0]], np.uint8),
        np.array([[[0.0, 0.5, -1.0]]]),
        torch.tensor([[[0.0, 0.5, -1.0]]], dtype=torch.bfloat16),
        torch.tensor([0, 1 << 30, -(1 << 31)], dtype=torch.int32),
    ],
)
def test_waveforms_of_any_type_and_shape(waveform):
    sound = Sound.from_waveform(waveform, 24000)
    assert sound.samples.tolist() == [[0.0, 0.5, -1.0]]
    with pytest.raises(ValueError, match="read-only"):
        sound.samples[0, 0] = 1


@pytest.mark.parametrize(
    "waveform, rate, problem",
    [
        (np.zeros((2, 1, 9)), 16000, r"\(2, 1, 9\)"),
        (np.zeros((1, 0)), 16000, "without samples"),
        (np.zeros((65, 9)), 16000, "65 channels"),
        (np.zeros(9), 4000, "sample rate of 4000"),
        (np.array([0, 20000.0]), 16000, "peaks at 20000"),
        (np.array([0, np.nan]), 16000, "1 NaN"),
        (np.array(["a"]), 16000, "waveform"),
    ],
)
def test_bad_waveforms_are_refused(waveform, rate, problem):
    with pytest.raises(InvalidValueError, match=problem):
        Sound.from_waveform(waveform, rate)


def test_a_sound_is_float32_channels_by_samples():
    with pytest.raises(InvalidValueError, match="from_waveform"):
        Sound(np.zeros((1, 4)), 16000)

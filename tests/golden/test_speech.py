"""Speech features and frame counts against the original's."""

import pytest
import torch
from support import recipes
from support.golden import GoldenFile, cases

from ditto_core.speech import FeatureStream, SpeechWindows, frame_count, speech_features
from ditto_core.speech.windows import upstream_offline_rows

# Float32 sums in another order: measured 7e-7 of the array's scale.
TOLERANCE = 2e-6


class FakeHubert:
    """Frame k is the samples 320 k to 320 k + 399, times a fixed matrix."""

    features, executed_by, fingerprint = 1024, "the golden files' stand-in", "w2f.R"

    def __init__(self):
        self.matrix = torch.from_numpy(recipes.normal("w2f.R", (400, 1024), 0.05))

    def encode(self, windows):
        return windows.unfold(1, 400, 320) @ self.matrix


def audio(tag, n):
    return recipes.uniform(tag, (n,), 1.0, -0.5)


@pytest.mark.parametrize("n", cases("wav2feat", r"offline_(\d+)"))
def test_offline_features(n):
    golden = GoldenFile.open("wav2feat")
    rows = speech_features(audio(f"w2f.audio{n}", n), FakeHubert(), hop=5, lead=2000, batch=8)
    golden.check_slice(f"offline_{n}", rows, tolerance=TOLERANCE)
    assert tuple(golden[f"shapes_{n}"][0]) == rows.shape


@pytest.mark.parametrize("n", cases("wav2feat", r"online_(\d+)"))
def test_online_features(n):
    """The original's client gives 3 to 7 rows beyond the sound; its plan asks for them by name."""
    golden = GoldenFile.open("wav2feat")
    total = SpeechWindows.with_hop(5, lead=1920).upstream_online_rows(n)
    rows = speech_features(audio(f"w2f.audio{n}", n), FakeHubert(), hop=5, lead=1920, batch=8, rows=total)
    golden.check_slice(f"online_{n}", rows, tolerance=TOLERANCE)
    assert tuple(golden[f"shapes_{n}"][1]) == rows.shape
    assert 3 <= total - frame_count(n) <= 7


@pytest.mark.parametrize("key", cases("wav2feat", r"(offline_\d+_chunk_\d+_\d+_\d+)"))
def test_other_window_sizes(key):
    golden = GoldenFile.open("wav2feat")
    n, past, hop, future = (int(part) for part in key.split("_") if part.isdecimal())
    windows = SpeechWindows(past=past, hop=hop, future=future, lead=past * 640 + 80)
    stream = FeatureStream(FakeHubert(), windows, batch=8)
    rows = torch.cat([stream.push(audio(f"w2f.audio{n}b", n)), stream.finish()])
    golden.check_slice(key, rows, tolerance=TOLERANCE)


def test_frame_counts():
    """k frames of 640 samples are k frames. The original's rounding makes k + 1 of those that the file lists."""
    golden = GoldenFile.open("frame_count_rounding")
    listed = golden["k"]
    last = max(listed)
    assert [k for k in range(1, last + 1) if upstream_offline_rows(k * 640) != k] == listed
    assert all(upstream_offline_rows(k * 640) == k + 1 for k in listed)
    assert all(frame_count(k * 640) == k for k in range(last + 1))

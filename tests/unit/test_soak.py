"""The soak: a stream that keeps what it should forget is found out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.soak import MOST_GROWTH_MB, Sample, sentences, verdict

ROOT = Path(__file__).parents[2]


def samples(memory: np.ndarray, *, minutes: float, threads: list[int] | None = None) -> list[Sample]:
    times = np.linspace(0, minutes * 60, len(memory) + 1)[1:]
    counts = threads or [9] * len(memory)
    return [
        Sample(sound_s=float(time), resident_mb=float(mb), threads=count)
        for time, mb, count in zip(times, memory, counts, strict=True)
    ]


def noise(seed: int, count: int = 240) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-30, 30, count)


@given(seed=st.integers(0, 999), minutes=st.sampled_from((1, 3, 30)))
def test_memory_that_jumps_about_and_grows_at_first_is_flat(seed: int, minutes: float) -> None:
    warm_up = 300 * np.clip(np.linspace(0, 20, 240), 0, 1) if minutes < 30 else np.linspace(0, 240, 240).clip(0, 15)
    found = verdict(samples(700 + warm_up + noise(seed), minutes=minutes))
    assert found["flat"], found


@given(seed=st.integers(0, 999), minutes=st.sampled_from((1, 3, 30)), leak=st.floats(80, 1000))
def test_memory_that_grows_to_the_end_is_not(seed: int, minutes: float, leak: float) -> None:
    """A leak of so many megabytes over the run, whether it is steady or comes late."""
    steady = np.linspace(0, leak, 240)
    late = leak * (np.arange(240) >= 200)
    for growth in (steady, late):
        found = verdict(samples(700 + growth + noise(seed), minutes=minutes))
        assert not found["flat"]
    assert found["goals"][1]["value"] > MOST_GROWTH_MB


def test_a_thread_that_stays_is_found() -> None:
    memory = np.full(240, 700.0)
    assert verdict(samples(memory, minutes=1, threads=[9, 10] * 120))["flat"]
    assert not verdict(samples(memory, minutes=1, threads=[9] * 230 + [10] * 10))["flat"]


def test_the_sentence_goes_on_without_end() -> None:
    blocks = list(sentences(20))
    assert len(blocks) == 500 and {block.shape[1] / rate for block, rate in blocks} == {0.04}
    loud = [float(np.abs(block).max()) > 0.01 for block, _ in blocks]
    assert any(loud[-200:]) and not all(loud)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("part", ["prepared", "real"])
def test_a_minute_of_speech_leaves_nothing_behind(tmp_path, part) -> None:
    minutes = {"prepared": "0", "real": "0", part: "1"}
    report = tmp_path / "soak.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tools.soak", "--out", str(report)),
            *("--prepared", minutes["prepared"], "--real", minutes["real"]),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())[part]
    assert found["frames"] >= 1500 and found["flat"] and len(found["samples"]["rows"]) >= 200
    assert ("prepared" in found["executed_by"]["render"]) == (part == "prepared")

"""The suite `ttff`: its table has every chunk with its figures."""

from __future__ import annotations

import json

import pytest
from support.bench import tiny_settings

from ditto_core.bench.run import run_suites
from ditto_core.bench.suites import chosen_suites
from ditto_core.bench.tables import ttff_lines
from ditto_core.bench.ttff import TtffSuite
from ditto_core.speech import Sound


@pytest.fixture
def suite(tmp_path) -> TtffSuite:
    suite = TtffSuite(tiny_settings(tmp_path))
    whole = suite.sound
    suite.__dict__["sound"] = Sound(whole.samples[:, : whole.rate // 2], whole.rate)
    return suite


def test_one_chunk_has_all_figures(suite) -> None:
    report = run_suites({"ttff": lambda _: suite.stages()}, suite.settings, None, only=["chunk_8"])
    assert "-" not in ttff_lines(report)[1].split(), report["suites"]["ttff"]


@pytest.mark.long
def test_the_table_has_each_chunk(suite) -> None:
    assert "ttff" in chosen_suites("ttff")
    report = json.loads(json.dumps(run_suites({"ttff": lambda _: suite.stages()}, suite.settings, None)))
    results = report["suites"]["ttff"]
    assert list(results) == ["offline", "chunk_25", "chunk_16", "chunk_8", "chunk_4", "upstream_10"]
    for name, result in results.items():
        assert result["frames_per_s"] > 0 and result["ttff_ms"] > 0, name
        if name.startswith("chunk"):
            # half a second of sound: the first chunk's look-ahead, or all of it
            assert result["frames"] == 13 and result["live_ttff_ms"] >= min(500, result["chunk_ms"] + 80)
            assert list(result["first_ms"]) == ["speech", "motion", "render"]

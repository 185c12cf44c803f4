"""Engines at official size, with recipe weights."""

from __future__ import annotations

import pytest
from support.models import official

from ditto_core.backends.engines import EngineSpec, build_engine, verify_engine
from ditto_core.backends.engines.build import header_problem

pytestmark = pytest.mark.long
library = pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx-cu13 has no wheel for this system")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("engines")


def built(folder, part: str, precision: str):
    spec = EngineSpec(part=part, precision=precision, flavour="tensorrt_rtx", compute_capability="12.0")
    return build_engine(official(), spec, folder)


@pytest.mark.parametrize("part", ["post-warp", "warp-decode"])
def test_fp16_is_built_and_passes_the_gate(folder, part):
    engine = built(folder, part, "fp16")
    assert header_problem(library, engine.path.read_bytes()) == ""
    report = verify_engine(engine, official(), count=2)
    assert report.passed, report.problem


def test_fp8_is_built_and_refused_for_random_weights(folder):
    """A network of random weights forgives no rounding. That the graph is right shows in its own figure."""
    engine = built(folder, "post-warp", "fp8")
    assert header_problem(library, engine.path.read_bytes()) == ""
    report = verify_engine(engine, official(), count=2)
    assert report.graph_error <= 1e-4
    assert "PSNR" in report.problem and report.worst.psnr > 20


def test_fp8_is_at_most_0_6_of_fp16(folder):
    fp16, fp8 = (built(folder, "post-warp", precision).side.size for precision in ("fp16", "fp8"))
    assert fp8 <= 0.6 * fp16

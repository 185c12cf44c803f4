"""Each suite on the smallest networks: its results have what is promised of them."""

from __future__ import annotations

import json

import pytest
from support.bench import tiny_settings

from ditto_core.bench.end_to_end import whole_render
from ditto_core.bench.engine import COMMAND
from ditto_core.bench.plots import draw_plots
from ditto_core.bench.run import run_suites
from ditto_core.bench.speaker import framed
from ditto_core.bench.suites import chosen_suites
from ditto_core.media import read_image


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return tiny_settings(tmp_path_factory.mktemp("bench"))


def results(suite: str, settings, *only: str) -> dict:
    report = run_suites(chosen_suites(suite), settings, None, only=only)
    report = json.loads(json.dumps(report))  # what can't be written as JSON fails here
    found = report["suites"][suite]
    assert not [f"{name}: {result['error']}" for name, result in found.items() if "error" in result]
    return found


def test_render_plain_engines_and_cycles(settings) -> None:
    found = results("render", settings, "ceilings", "plain_b1", "engine_post-warp", "cycles")
    plain = found["plain_b1"]
    assert plain["frames_per_s"] > 0
    for part in ("warp", "post_warp", "whole"):
        assert {"ms", "gflop", "mbytes", "matmul_share", "products_ms", "moving_ms"} <= plain[part].keys()
    assert found["ceilings"]["dtype"] == "float32"
    assert found["engine_post-warp"]["command"] == COMMAND and found["engine_post-warp"]["not_measured"]
    assert found["cycles"]["cycles"] == 1


def test_a_given_engine_is_timed_in_place_of_built_ones(tmp_path) -> None:
    engine = tmp_path / "post_warp.engine"
    engine.write_bytes(b"foreign")
    found = results("render", tiny_settings(tmp_path, engine=engine), "engine_given")
    assert "has no side file" in found["engine_given"]["not_measured"]


@pytest.mark.long
def test_render_fused(settings, tmp_path) -> None:
    report = run_suites(chosen_suites("render"), settings, None, budget_s=0)
    found = report["suites"]["render"]
    assert report["left_out"] == ["render/convolutions"]
    for name in ("post_warp", "warp"):
        traffic = found[name]["traffic"]
        assert 0 < traffic["fused_mbytes"] < traffic["plain_mbytes"]
        assert "tools.bench_ncu" in traffic["measured"]["command"] and traffic["measured"]["not_measured"]
    assert found["compiled_b1"]["against_plain_float32"]["psnr_db"] > 60
    assert [path.name for path in draw_plots(report, tmp_path)] == ["render.png", "traffic.png"]


def test_motion_and_the_memory_of_a_live_run(settings) -> None:
    wanted = ("ceilings", "sampler_plain", "hubert_plain", "hubert_encoder", "sampler_float32", "hubert_bfloat16")
    found = results("motion", settings, *wanted, "hubert_float32", "live_memory")
    assert set(found["ceilings"]) == {"float32", "bfloat16", "wall_s"}
    assert found["hubert_float32"]["relative_l2"] == 0 and found["hubert_encoder"]["relative_l2"] < 1e-5
    assert 1e-5 < found["hubert_bfloat16"]["relative_l2"] < 0.2
    assert found["sampler_float32"]["relative_l2"] < 1e-4 and found["sampler_float32"]["repeats"]
    assert found["sampler_plain"]["gflop"] > 0 and "tflops" in found["sampler_float32"]["for_the_plain_work"]
    memory = found["live_memory"]
    assert memory["cycles"] == 1 and memory["frames_a_session"] == 13 and memory["batch"] == 1
    assert "GPU" in memory["not_measured"]


def test_end_to_end_names_the_limit(settings) -> None:
    found = results("end_to_end", settings, "libx264_1080x1920", "h264_nvenc_1080x1920")
    whole = found["libx264_1080x1920"]
    assert whole["size"] == [1080, 1920] and whole["frames"] == 13 and whole["encoder"] == "libx264"
    assert set(whole["stages_s"]) >= {"speech", "motion", "render", "encode"}
    assert whole["limited_by"] == max(whole["stages_s"], key=whole["stages_s"].get)
    assert whole["frames_per_s"] == pytest.approx(whole["frames"] / whole["whole_s"], rel=0.02)
    assert {"frames_per_s", "not_measured"} & found["h264_nvenc_1080x1920"].keys()


def test_the_limit_is_the_longest_stage() -> None:
    report = {"frames": 100, "wall_s": 2.0, "stages_ms": {"render": 500.0, "encode": 1500.0}}
    others = ("size", "ttff_ms", "realtime_factor", "encoder", "quality", "executed_by", "steps", "peak_memory_mb")
    found = whole_render({**report, **dict.fromkeys(others)})
    assert found["whole_s"] == 2.0
    assert (found["limited_by"], found["limit_share"], found["frames_per_s"]) == ("encode", 0.75, 50.0)


@pytest.mark.parametrize("size", [(1920, 1080), (1080, 1920)])
def test_the_presenter_fits_into_a_larger_frame_with_the_face_in_the_crop(size) -> None:
    from ditto_core.bench.speaker import _BUNDLED

    picture = read_image(_BUNDLED / "presenter.png")
    frame, (left, top, side) = framed(picture, size)
    assert frame.shape == (*size, 3)
    assert 0 <= left and left + side <= size[1] and 0 <= top and top + side <= size[0]
    scale = side / 640
    middle = frame[top + side // 2, left + side // 2].astype(int)
    own = picture[round(100 + (side // 2) / scale), round(112 + (side // 2) / scale)].astype(int)
    assert abs(middle - own).max() < 12

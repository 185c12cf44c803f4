"""Charts of reports."""

from __future__ import annotations

import builtins
import sys

import pytest
from support.bench import report

from ditto_core.bench.plots import draw_plots, waterfall
from ditto_core.errors import FileError, MissingPackageError
from ditto_core.media import read_image

TTFF = {
    "offline": {"chunk_ms": 2800, "ttff_ms": 300.0, "stages_ms": {"speech": 20.0, "motion": 180.0, "render": 900.0}},
    "chunk_4": {
        "chunk_ms": 160,
        "ttff_ms": 90.0,
        "first_ms": {"speech": 10.0, "motion": 70.0, "render": 85.0},
        "live_ttff_ms": 350.0,
        "live_first_ms": {"speech": 205.0, "motion": 310.0, "render": 345.0},
        "look_ahead_ms": 240.0,
    },
}
TRAFFIC = {"plain_mbytes": 6000.0, "fused_mbytes": 3000.0}
RENDER = {
    "plain_b8": {"warp": {"ms": 13.8}, "post_warp": {"ms": 37.9}, "whole": {"ms": 51.6}},
    "plain_b1": {"whole": {"ms": 9.8}},
    "warp": {"ms": 7.2, "traffic": {**TRAFFIC, "measured": {"plain_mbytes": 5000.0, "fused_mbytes": 2500.0}}},
    "post_warp": {"ms": 12.9, "traffic": {**TRAFFIC, "measured": {"not_measured": "no ncu"}}},
    "compiled_b8": {"ms": 20.2},
    "compiled_b1": {"ms": 3.1},
}
WHOLE = {
    "libx264_1080x1920": {"frames_per_s": 151.0, "stages_s": {"speech": 0.1, "motion": 0.2, "render": 0.9}},
    "h264_nvenc_1080x1920": {"not_measured": "no NVENC"},
}


def test_each_chart_is_a_picture(tmp_path) -> None:
    made = draw_plots(report({"ttff": TTFF, "render": RENDER, "end_to_end": WHOLE}), tmp_path)
    assert [path.name for path in made] == ["ttff.png", "render.png", "traffic.png", "end_to_end.png"]
    for path in made:
        picture = read_image(path)
        colours = {tuple(pixel) for pixel in picture[::3, ::3].reshape(-1, 3).tolist()}
        assert picture.shape[1] == 880 and (0x54, 0xA2, 0x4B) in colours or path.name in ("render.png", "traffic.png")
        assert len(colours) > 5


def test_only_charts_with_figures_are_drawn(tmp_path) -> None:
    assert draw_plots(report({"render": {"ceilings": {"matmul_tflops": 770.0}}, "motion": {}}), tmp_path) == []
    plain_only = report({"render": {"plain_b8": RENDER["plain_b8"]}})
    assert [path.name for path in draw_plots(plain_only, tmp_path)] == ["render.png"]


def test_the_waterfall_adds_up() -> None:
    chunk = TTFF["chunk_4"]
    assert waterfall(chunk) == [("speech", 10.0), ("motion", 60.0), ("render", 15.0), ("encode", 5.0)]
    live = waterfall(chunk, live=True)
    assert live == [("listening", 240.0), ("motion", 70.0), ("render", 35.0), ("encode", 5.0)]
    assert sum(value for _, value in waterfall(TTFF["offline"])) == 300.0
    assert waterfall({"chunk_ms": 160}) == []


def test_what_is_missing_is_told(tmp_path, monkeypatch) -> None:
    with pytest.raises(FileError, match="no_folder"):
        draw_plots(report({}), tmp_path / "no_folder")
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(name, *others):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackageError, match=r"ditto-live\[plots\]"):
        draw_plots(report({"render": RENDER}), tmp_path)

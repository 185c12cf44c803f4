"""The summary of the benchmarks is what its command makes of the reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.bench import report

from tools.bench_ncu import moved, ncu_command
from tools.benchmarks import NOT_MEASURED, ROOT, page, summary


def test_the_files_in_the_repository_are_what_the_command_writes() -> None:
    made = summary(ROOT / "benchmarks")
    assert json.loads((ROOT / "benchmarks/summary.json").read_text(encoding="utf-8")) == made, (
        "python -m tools.benchmarks"
    )
    assert (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8") == page(ROOT / "benchmarks"), (
        "python -m tools.benchmarks"
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder benchmarks/ with some reports of one H200."""
    files = {
        "h200/render.json": report(
            {
                "render": {
                    "plain_b8": {"frames_per_s": 155.0, "post_warp": {"ms": 37.9}},
                    "post_warp": {"ms": 10.5, "traffic": {"plain_mbytes": 53664.0, "fused_mbytes": 16001.0}},
                }
            }
        ),
        "h200/ttff.json": report(
            {"ttff": {"offline_plain": {"ttff_ms": 700.0}, "offline": {"ttff_ms": 300.0}, "chunk_4": {"ttff_ms": 81.0}}}
        ),
        "h200/pipe.json": {
            **report({}),
            "encoder": "libx264",
            "sizes": {
                "1080x1920": {
                    "pipe": {"frames_per_s": 90.0, "system_calls": {"a_frame": 190.5}},
                    "in_process": {"frames_per_s": 400.0, "system_calls": {"not_measured": "strace is not installed"}},
                }
            },
        },
        "forensics/forensics.json": {
            **report({}),
            "runs": {
                "torch, float16": {"pictures": {"psnr_y_db": 58.0}, "aperture": {"mean_delta_percent": 0.2}},
                "live, chunk 4": {"pictures": {"psnr_y_db": None}, "aperture": {"mean_delta_percent": 0.0}},
                "libx264": {"pictures": {"psnr_y_db": 44.0}, "aperture": {"mean_delta_percent": 3.0}, "file_bytes": 1},
                "tensorrt": {"not_measured": "no library"},
            },
        },
    }
    for name, values in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(values))
    return tmp_path


def test_rows_hold_the_reports_figures_with_their_files(root) -> None:
    rows = {row["measure"]: row for row in summary(root)["hardware"]["h200"]["rows"]}

    def pair(measure: str) -> tuple:
        return rows[measure]["before"]["value"], rows[measure]["after"]["value"]

    assert pair("TTFF, offline") == (700.0, 300.0) and pair("TTFF, chunk 4") == (700.0, 81.0)
    assert rows["TTFF, chunk 4"]["after"]["source"] == "h200/ttff.json"
    assert pair("post-warp design, a batch of 8") == (37.9, 10.5)
    assert pair("DRAM traffic of it, counted") == (53664.0, 16001.0)
    assert pair("encode, 1080x1920, live") == (90.0, 400.0)
    assert pair("system calls a frame") == (190.5, None)
    assert pair("mouth parity Δ, worst run") == (0, 0.2)
    assert pair("PSNR against the plain pipeline, worst run") == ("equal", 58.0)
    assert rows["PSNR against the plain pipeline, worst run"]["after"]["of"] == "torch, float16"


def test_what_is_absent_is_said_to_be_not_measured(root, tmp_path_factory) -> None:
    rows = {row["measure"]: row for row in summary(root)["hardware"]["h200"]["rows"]}
    assert rows["TTFF, chunk 16"]["after"] == {"value": None, "of": NOT_MEASURED}
    assert rows["render, batch 8"]["after"]["value"] is None
    lines = {line.split(" | ")[0]: line for line in page(root).splitlines() if line.startswith("| ")}
    assert lines["| DRAM traffic of it, by ncu"].count(NOT_MEASURED) == 2
    assert "| ≥ 420 | not measured here |" in lines["| render: compiled b8, frames per s"]
    empty = tmp_path_factory.mktemp("empty")
    assert page(empty).lower().count(NOT_MEASURED) == 3
    values = [row[part]["value"] for row in summary(empty)["hardware"]["cpu"]["rows"] for part in ("before", "after")]
    assert set(values) == {None}


def test_what_ncu_writes_is_added_up() -> None:
    table = "\n".join(
        (
            "==PROF== Connected to process 7",
            '"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum"',
            '"","","Mbyte","Kbyte"',
            '"0","conv","1,200.5","500"',
            '"1","relu","99.5","500"',
        )
    )
    assert moved(table) == {"mbytes": 1301.0, "read_mbytes": 1300.0, "written_mbytes": 1.0, "kernels": 2}
    with pytest.raises(ValueError, match="no counters"):
        moved("==ERROR== ERR_NVGPUCTRPERM")
    assert ncu_command("warp", "fused", "official-shapes", 8)[0] == "ncu"

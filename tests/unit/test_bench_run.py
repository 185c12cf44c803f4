"""How a bench runs stages, what it says to goals, and how it shows reports."""

from __future__ import annotations

import json

import pytest
import torch
from support.bench import report

from ditto_core.bench.goals import GOALS, goals_of, read_report
from ditto_core.bench.run import Settings, Stage, run_suites
from ditto_core.bench.suites import SUITES, chosen_suites
from ditto_core.bench.tables import change_lines, ttff_lines
from ditto_core.cli.main import main
from ditto_core.errors import FileError, InvalidValueError

SETTINGS = Settings(models="official-shapes", device=torch.device("cpu"), dtype=torch.float32)


def test_only_extra_stages_are_left_out_when_the_time_is_up(tmp_path) -> None:
    stages = [Stage(name="first", run=dict, extra=True), Stage(name="last", run=lambda: {"ms": 1.0})]
    values = run_suites({"render": lambda _: stages}, SETTINGS, tmp_path / "report.json", budget_s=0)
    assert list(values["suites"]["render"]) == ["last"] and values["left_out"] == ["render/first"]
    assert json.loads((tmp_path / "report.json").read_text()) == values


def test_chosen_stages_alone_run_and_unknown_ones_are_told_before() -> None:
    ran = []

    def suite(_):
        return [Stage(name=name, run=lambda name=name: ran.append(name) or {}) for name in ("one", "two")]

    run_suites({"render": suite}, SETTINGS, None, only=["two"])
    assert ran == ["two"]
    with pytest.raises(InvalidValueError, match="'three'.*one, two"):
        run_suites({"render": suite}, SETTINGS, None, only=["two", "three"])
    assert ran == ["two"]


def test_every_goal_has_a_stage_of_a_suite() -> None:
    """Else a goal would be "not measured" for ever."""
    cuda = Settings(models="official-shapes", device=torch.device("cuda"), dtype=torch.float16)
    stages = {suite: {stage.name for stage in chosen_suites(suite)[suite](cuda)} for suite in SUITES}
    for goal in GOALS:
        assert goal.stage in stages[goal.suite], goal


def test_goals_are_of_their_machine_and_their_bounds_belong_to_them() -> None:
    found = {"post_warp": {"ms": 11.0}, "warp": {"ms": 8.1}}
    goals = {entry["stage"]: entry for entry in goals_of(report({"render": found}))}
    assert goals["post_warp"]["met"] is True and goals["post_warp"]["goal"] == "≤ 11"
    assert goals["warp"]["met"] is False and goals["compiled_b1"]["met"] is None
    assert goals_of(report({"render": found}, models="miniature")) == []
    assert "warp" not in {entry["stage"] for entry in goals_of(report({"render": found}, batch=4))}
    at_pace = {"chunk_8": {"realtime_factor": 1.2, "ttff_ms": 401.0}}
    ttff = goals_of(report({"ttff": at_pace}, device="cpu", models="miniature"))
    assert [(entry["figure"], entry["met"]) for entry in ttff] == [("realtime_factor", True), ("ttff_ms", False)]


def test_the_ttff_table_has_a_column_for_each_figure() -> None:
    stage = {
        "chunk_ms": 320,
        "frames": 165,
        "ttff_ms": 81.5,
        "live_ttff_ms": 402.0,
        "frames_per_s": 155.0,
        "realtime_factor": 6.2,
        "inter_frame_ms": {"p50": 3.25, "p95": 31.0},
        "starved_frames": 0,
        "live_starved_frames": 1,
    }
    title, line = ttff_lines(report({"ttff": {"chunk_8": stage}}))
    assert (
        title.split()
        == ("chunk ms frames ttff_ms live_ttff_ms fps realtime_factor p50 ms p95 ms starved live starved").split()
    )
    assert line.split() == ["chunk", "8", "320", "165", "81.5", "402", "155", "6.2", "3.25", "31", "0", "1"]


def test_times_beside_those_of_an_earlier_report() -> None:
    before = report({"render": {"warp": {"ms": 9.0}, "plain_b8": {"whole": {"ms": 50.0}}}})
    after = report({"render": {"warp": {"ms": 6.0}, "plain_b8": {"whole": {"ms": 50.0}}, "new": {"ms": 1.0}}})
    lines = change_lines(before, after)
    assert [line.split() for line in lines[1:]] == [
        ["render/warp", "ms", "9", "6", "1.500", "x"],
        ["render/plain_b8", "whole.ms", "50", "50", "1.000", "x"],
    ]


def test_the_command_shows_a_report_with_what_other_programs_measured(tmp_path, capsys) -> None:
    (tmp_path / "report.json").write_text(json.dumps(report({"render": {"warp": {"ms": 6.0, "traffic": {}}}})))
    (tmp_path / "pipe.json").write_text(json.dumps({"sizes": {}}))
    ncu = {"environment": {}, "stages": {"warp": {"plain_mbytes": 9.0, "fused_mbytes": 4.0}}}
    (tmp_path / "ncu.json").write_text(json.dumps(ncu))
    files = {name: str(tmp_path / f"{name}.json") for name in ("report", "pipe", "ncu", "out")}
    command = ["bench", "--from", files["report"], "--pipe", files["pipe"], "--ncu", files["ncu"]]
    assert main([*command, "--report", files["out"], "--before", files["report"]]) == 0
    told = capsys.readouterr().out
    assert "render/warp" in told and "1.000 x" in told
    merged = json.loads((tmp_path / "out.json").read_text())
    assert merged["pipe"] == {"sizes": {}}
    assert merged["suites"]["render"]["warp"]["traffic"]["measured"]["fused_mbytes"] == 4.0


def test_what_is_no_report_is_told(tmp_path) -> None:
    (tmp_path / "bad.json").write_text("[]")
    (tmp_path / "other.json").write_text("{}")
    for name in ("bad.json", "other.json", "missing.json"):
        with pytest.raises(FileError, match=name):
            read_report(tmp_path / name)

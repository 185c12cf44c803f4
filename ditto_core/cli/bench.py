"""`bench`: measurements of one machine, as JSON and as pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..backends.backend import PRECISIONS, choose_device, precision_type
from ..bench.goals import read_report
from ..bench.merge import with_ncu, with_pipe
from ..bench.plots import check_matplotlib, draw_plots
from ..bench.run import Settings, run_suites, write_values
from ..bench.suites import SUITES, chosen_suites
from ..bench.tables import change_lines, goal_lines, ttff_lines
from ..errors import FileError, InvalidValueError
from .output import say

_TIMES = (
    "chunk_ms",
    "frames",
    "ttff_ms",
    "live_ttff_ms",
    "realtime_factor",
    "starved_frames",
    "ms",
    "frames_per_s",
    "limited_by",
    "tflops",
    "matmul_share",
    "relative_l2",
    "peak_mb",
    "growth_mb",
    "not_measured",
    "command",
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `bench`."""
    parser = commands.add_parser("bench", help="measure this machine")
    parser.add_argument("--suite", default="render,motion", metavar="NAMES", help=f"some of {', '.join(SUITES)}")
    parser.add_argument("--stages", default="", metavar="NAMES", help="only these stages of the suites")
    parser.add_argument(
        "--models",
        default="miniature",
        metavar="DIR",
        help="model folder, miniature, or official-shapes: full size, not trained",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--precision", choices=("auto", *PRECISIONS), default="auto")
    parser.add_argument("--batch", type=int, default=8, metavar="N", help="faces drawn at once, 1..64")
    parser.add_argument("--cycles", type=int, default=50, metavar="N", help="open and close so often, for memory")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="N", help="speech of end_to_end, 0.5..600")
    parser.add_argument("--engine", type=Path, metavar="FILE", help="an engine to time, in place of ones built here")
    parser.add_argument("--long", action="store_true", help="also kernels found by trying, and other layouts")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="leave out what is extra after so long")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results as JSON, stage by stage")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw charts of the results")
    parser.add_argument("--from", type=Path, dest="source", metavar="REPORT", help="measure nothing: show a report")
    parser.add_argument("--before", type=Path, metavar="REPORT", help="set times beside those of an earlier report")
    parser.add_argument("--pipe", type=Path, metavar="FILE", help="add what tools/bench_pipe.py wrote")
    parser.add_argument("--ncu", type=Path, metavar="FILE", help="add what tools/bench_ncu.py wrote")
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    if options.plots is not None:
        check_matplotlib()  # before minutes of measuring
        if not options.plots.is_dir():
            raise FileError(options.plots, "is no folder", remedy="make the folder first")
    before = None if options.before is None else read_report(options.before)
    values = _measured(options) if options.source is None else read_report(options.source)
    if options.pipe is not None:
        values = with_pipe(values, options.pipe)
    if options.ncu is not None:
        values = with_ncu(values, options.ncu)
    if options.report is not None:
        write_values(values, options.report)
    for left_out in values.get("left_out", []):
        say(f"{left_out}: left out, the time was up")
    for lines in (ttff_lines(values), goal_lines(values["goals"]), change_lines(before, values) if before else []):
        for line in lines:
            say(line)
    if options.plots is not None:
        for path in draw_plots(values, options.plots):
            say(str(path))
    return 0


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    bounds = (
        ("batch", options.batch, 1, 64),
        ("cycles", options.cycles, 1, 1000),
        ("seconds", options.seconds, 0.5, 600),
    )
    for name, value, least, most in bounds:
        if not least <= value <= most:
            raise InvalidValueError(f"{name} {value}", remedy=f"choose {least} to {most}")
    device = choose_device(options.device)
    settings = Settings(
        models=options.models,
        device=device,
        dtype=precision_type(options.precision, device),
        batch=options.batch,
        cycles=options.cycles,
        seconds=options.seconds,
        engine=options.engine,
        long=options.long,
    )
    only = tuple(name.strip() for name in options.stages.split(",") if name.strip())
    suites = chosen_suites(options.suite)
    return run_suites(suites, settings, options.report, budget_s=options.budget, only=only, tell=_tell)


def _tell(suite: str, stage: str, result: dict[str, Any]) -> None:
    """One line a stage: the error, or its main figures."""
    if "error" in result:
        text = f"failed: {result['error'].splitlines()[0]} ({result['where']})"
    else:
        figures = {key: result[key] for key in _TIMES if result.get(key) is not None}
        for name, part in result.items():
            if isinstance(part, dict) and "ms" in part:
                figures[f"{name} ms"] = part["ms"]
        text = ", ".join(f"{key} {_short(value)}" for key, value in figures.items()) or "done"
    say(f"{suite}/{stage}: {text}  [{result['wall_s']} s]")


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"

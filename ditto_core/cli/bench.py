"""`bench`: measurements of one machine, as JSON and as pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..backends.backend import PRECISIONS, choose_device, precision_type
from ..bench.run import Settings, run_suites
from ..bench.suites import SUITES, chosen_suites
from ..errors import InvalidValueError
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
    "tflops",
    "matmul_share",
    "relative_l2",
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `bench`."""
    parser = commands.add_parser("bench", help="measure this machine")
    parser.add_argument("--suite", default="render,motion", metavar="NAMES", help=f"some of {', '.join(SUITES)}")
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
    parser.add_argument("--long", action="store_true", help="also kernels found by trying, and other layouts")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="begin no stage after so long")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results as JSON, stage by stage")
    parser.set_defaults(run=_bench)


def _bench(options: argparse.Namespace) -> int:
    suites = chosen_suites(options.suite)
    for name, value, least, most in (("batch", options.batch, 1, 64), ("cycles", options.cycles, 1, 1000)):
        if not least <= value <= most:
            raise InvalidValueError(f"{name} {value}", remedy=f"choose {least} to {most}")
    device = choose_device(options.device)
    settings = Settings(
        models=options.models,
        device=device,
        dtype=precision_type(options.precision, device),
        batch=options.batch,
        cycles=options.cycles,
        long=options.long,
    )
    values = run_suites(suites, settings, options.report, budget_s=options.budget, tell=_tell)
    for left_out in values.get("left_out", []):
        say(f"{left_out}: left out, the time was up")
    return 0


def _tell(suite: str, stage: str, result: dict[str, Any]) -> None:
    """One line a stage: the error, or its main figures."""
    if "error" in result:
        text = f"failed: {result['error'].splitlines()[0]} ({result['where']})"
    else:
        figures = {key: result[key] for key in _TIMES if key in result}
        for name, part in result.items():
            if isinstance(part, dict) and "ms" in part:
                figures[f"{name} ms"] = part["ms"]
        text = ", ".join(f"{key} {value:.4g}" for key, value in figures.items()) or "done"
    say(f"{suite}/{stage}: {text}  [{result['wall_s']} s]")

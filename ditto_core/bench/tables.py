"""Reports as lines of text: the table of the suite `ttff`, goals, and a report beside an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .goals import figure

_MISSING = "-"
_TTFF_COLUMNS = {
    "chunk ms": "chunk_ms",
    "frames": "frames",
    "ttff_ms": "ttff_ms",
    "live_ttff_ms": "live_ttff_ms",
    "fps": "frames_per_s",
    "realtime_factor": "realtime_factor",
    "p50 ms": "inter_frame_ms.p50",
    "p95 ms": "inter_frame_ms.p95",
    "starved": "starved_frames",
    "live starved": "live_starved_frames",
}
"""Titles, and where the figures stand in a stage's result."""


def ttff_lines(report: Mapping[str, Any]) -> list[str]:
    """The suite's stages, one a line; nothing where the suite did not run."""
    stages = report["suites"].get("ttff", {})
    if not stages:
        return []
    rows = [
        [name.replace("_", " "), *(_text(figure(report, "ttff", name, path)) for path in _TTFF_COLUMNS.values())]
        for name in stages
    ]
    return aligned([["", *_TTFF_COLUMNS], *rows])


def goal_lines(goals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Goals with what was reached, one a line."""
    words = {True: "met", False: "not met", None: "not measured here"}
    rows = [
        [f"{goal['suite']}/{goal['stage']}", goal["figure"], goal["goal"], _text(goal["value"]), words[goal["met"]]]
        for goal in goals
    ]
    return aligned(rows)


def change_lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Each time that two reports have, and by how much the second is quicker."""
    rows = []
    for suite, stages in after["suites"].items():
        for stage, result in stages.items():
            for path in _times(result):
                old, new = figure(before, suite, stage, path), figure(after, suite, stage, path)
                if isinstance(old, (int, float)) and new:
                    rows.append([f"{suite}/{stage}", path, _text(old), _text(new), f"{old / new:.3f} x"])
    return aligned([["", "", "before", "after", "as fast"], *rows]) if rows else []


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, the columns under each other; the first to the left."""
    if not rows:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _times(result: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Names of the milliseconds in a result, points between parts."""
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield from _times(value, f"{before}{name}.")
        elif name in ("ms", "ttff_ms", "live_ttff_ms"):
            yield before + name


def _text(value: Any) -> str:
    if value is None:
        return _MISSING
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)

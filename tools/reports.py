"""What the measuring commands write: goals with their limits, and JSON files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ditto_core.bench.environment import describe
from ditto_core.files import write_whole


def goal(name: str, value: float | None, *, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    """A goal with its limit and whether it is met; a value that could not be measured meets none."""
    met = value is not None and (least is None or value >= least) and (most is None or value <= most)
    limit = f">= {least}" if most is None else f"<= {most}"
    return {"goal": name, "limit": limit, "value": value, "met": met}


def tally(goals: Sequence[dict[str, Any]]) -> str:
    """How many goals are met, in words."""
    return f"{sum(item['met'] for item in goals)} of {len(goals)}"


def rounded(value: Any) -> Any:
    """A report with four significant digits."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def write_report(path: Path, command: str, report: dict[str, Any]) -> str:
    """Writes a report with the command that makes it and the machine, whole or not at all.

    Returns:
        The text that was written.
    """
    text = json.dumps({"command": command, "environment": describe(), **rounded(report)}, indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())
    return text

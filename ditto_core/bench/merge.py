"""Adds to a report what programs outside the package measured, since they start processes."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import FileError


def with_pipe(report: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Adds what `tools/bench_pipe.py` wrote.

    Raises:
        FileError: it is no such file.
    """
    return {**report, "pipe": _read(path, "tools/bench_pipe.py", "sizes")}


def with_ncu(report: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Adds what `tools/bench_ncu.py` wrote to the stages of the suite `render` that it measured.

    Raises:
        FileError: it is no such file.
    """
    found = _read(path, "tools/bench_ncu.py", "stages")
    values = copy.deepcopy(dict(report))
    for stage, measured in found["stages"].items():
        traffic = values["suites"].get("render", {}).get(stage, {}).get("traffic")
        if traffic is not None:
            traffic["measured"] = {"environment": found["environment"], **measured}
    return values


def _read(path: Path, tool: str, part: str) -> dict[str, Any]:
    remedy = f"write it with {tool}"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(path, f"can't be read ({error})", remedy=remedy) from error
    if not isinstance(values, dict) or not isinstance(values.get(part), dict):
        raise FileError(path, f"has no {part}", remedy=remedy)
    return values

"""The option --golden-report, which writes the golden suite's table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import golden, recipes

from ditto_core.bench.environment import describe


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden-report", type=Path, help="write the table of golden comparisons as JSON")


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--golden-report", default=None)
    if path is None:
        return
    files = {
        name: {
            "comparisons": tally.comparisons,
            "largest_relative_error": float(f"{tally.largest_relative_error:.3g}"),
            "at": tally.worst_key,
        }
        for name, tally in sorted(golden.tallies.items())
    }
    report = {
        "command": "make golden",
        "environment": describe(),
        "seed": recipes.SEED,
        "relative_to": "largest magnitude of each golden array",
        "failed_tests": session.testsfailed,
        "files": files,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")

"""A small workflow and tables for it: one video of one color a segment, rendered by nodes that every ComfyUI has."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ditto_core.bulletin import Segment, Workflow, read_segments


def workflow_nodes(*, frames: int = 25, side: int = 64, prefix: str = "news") -> dict[str, Any]:
    """The workflow in API format."""
    return {
        "1": {
            "class_type": "EmptyImage",
            "inputs": {"width": side, "height": side, "batch_size": frames, "color": 0},
            "_meta": {"title": "Picture"},
        },
        "2": {
            "class_type": "CreateVideo",
            "inputs": {"images": ["1", 0], "fps": 25.0},
            "_meta": {"title": "Mr. Video"},
        },
        "3": {
            "class_type": "SaveVideo",
            "inputs": {"video": ["2", 0], "filename_prefix": prefix, "format": "auto", "codec": "auto"},
            "_meta": {"title": "Save"},
        },
    }


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Writes a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def write_bulletin(folder: Path, count: int, **nodes: Any) -> tuple[Path, Path]:
    """A table of `count` segments with colors 1, 2, ..., and its workflow file."""
    table = write_table(folder / "news.csv", ["Picture.color"], [[color] for color in range(1, count + 1)])
    workflow = folder / "workflow.json"
    workflow.write_text(json.dumps(workflow_nodes(**nodes)))
    return table, workflow


def colored_segments(folder: Path, count: int) -> tuple[Segment, ...]:
    """The segments of such a table."""
    table, workflow = write_bulletin(folder, count)
    return read_segments(table, Workflow.load(workflow))

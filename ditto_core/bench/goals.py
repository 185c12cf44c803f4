"""What is wanted of a machine that is known: figures of the suites, and how far each may go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileError


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A bound of one figure, on one kind of machine.

    Attributes:
        suite: the figure's suite.
        stage: its stage.
        figure: its name in the stage's result, with points between the names of parts.
        most: the largest value that is wanted.
        least: the smallest one.
        device: a word in the GPU's name, or "CPU".
        models: source of the networks, None for any.
        batch: of the renderer, None for any.
    """

    suite: str
    stage: str
    figure: str
    most: float | None = None
    least: float | None = None
    device: str = "H200"
    models: str | None = "official-shapes"
    batch: int | None = None

    def concerns(self, report: Mapping[str, Any]) -> bool:
        """Whether a report was made on such a machine, with such networks."""
        settings, gpus = report["settings"], report["environment"]["gpus"]
        device = settings["device"] == "cpu" if self.device == "CPU" else any(self.device in name for name in gpus)
        return device and self.models in (None, settings["models"]) and self.batch in (None, settings["batch"])

    def met_by(self, value: float) -> bool:
        """Whether a value is within the bound."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    @property
    def wanted(self) -> str:
        """The bound in signs."""
        return f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}"


_RENDER = (
    Goal(suite="render", stage="post_warp", figure="ms", most=11, batch=8),
    Goal(suite="render", stage="warp", figure="ms", most=8, batch=8),
    Goal(suite="render", stage="compiled_b8", figure="frames_per_s", least=420),
    Goal(suite="render", stage="compiled_b1", figure="ms", most=4),
)
_MOTION = (
    Goal(suite="motion", stage="sampler_tf32", figure="ms", most=60),
    Goal(suite="motion", stage="sampler_tf32", figure="relative_l2", most=1e-3),
    Goal(suite="motion", stage="hubert_encoder", figure="ms", most=3),
    Goal(suite="motion", stage="live_memory", figure="peak_mb", most=4096, batch=8),
    Goal(suite="motion", stage="live_memory", figure="growth_mb", most=0),
)
_TTFF = (
    *(Goal(suite="ttff", stage=f"chunk_{chunk}", figure="ttff_ms", most=100) for chunk in (8, 4)),
    Goal(suite="ttff", stage="chunk_4", figure="live_ttff_ms", most=400),
    Goal(suite="ttff", stage="upstream_10", figure="ttff_ms", most=150),
    *(
        Goal(suite="ttff", stage=f"chunk_{chunk}", figure="realtime_factor", least=least)
        for chunk, least in ((16, 6), (8, 4), (4, 2))
    ),
    *(
        Goal(suite="ttff", stage=f"chunk_{chunk}", figure=figure, most=0)
        for chunk in (16, 8, 4)
        for figure in ("starved_frames", "live_starved_frames")
    ),
    Goal(suite="ttff", stage="chunk_8", figure="realtime_factor", least=1, device="CPU", models="miniature"),
    Goal(suite="ttff", stage="chunk_8", figure="ttff_ms", most=400, device="CPU", models="miniature"),
)
_PICTURE = (
    Goal(suite="encode", stage="paste_1080x1920", figure="frames_per_s", least=2000, models=None, batch=8),
    *(
        Goal(
            suite="encode",
            stage=f"paste_{size}",
            figure="times_as_fast_as_whole_frame_float",
            least=4,
            device="CPU",
            models=None,
        )
        for size in ("1080x1920", "1920x1080")
    ),
    Goal(suite="end_to_end", stage="libx264_1080x1920", figure="frames_per_s", least=150),
)
GOALS = (*_RENDER, *_MOTION, *_TTFF, *_PICTURE)


def goals_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a report says to the goals of its machine, for the suites in it.

    Args:
        report: as of `run_suites`.

    Returns:
        For each goal suite, stage, figure, the bound in signs, value and whether it is met; both are None where the
        figure was not measured.
    """
    found = []
    for goal in GOALS:
        if goal.suite in report.get("suites", {}) and goal.concerns(report):
            value = figure(report, goal.suite, goal.stage, goal.figure)
            found.append(
                {
                    "suite": goal.suite,
                    "stage": goal.stage,
                    "figure": goal.figure,
                    "goal": goal.wanted,
                    "value": value,
                    "met": None if value is None else goal.met_by(value),
                }
            )
    return found


def figure(report: Mapping[str, Any], suite: str, stage: str, path: str = "") -> Any:
    """A value of a report, by names with points between them; None where it is absent."""
    value: Any = report.get("suites", {}).get(suite, {}).get(stage)
    for name in path.split(".") if path else ():
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def read_report(path: str | Path) -> dict[str, Any]:
    """A report that a bench wrote.

    Raises:
        FileError: it can't be read, or is none.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        whole = {"environment", "settings", "suites"} <= values.keys()
    except (OSError, ValueError, AttributeError) as error:
        raise FileError(path, f"can't be read as JSON ({error})", remedy="name a report of `bench --report`") from error
    if not whole:
        raise FileError(path, "is no report of `bench`", remedy="name a report of `bench --report`")
    return {**values, "goals": goals_of(values)}

"""Runs suites stage by stage: one that fails is told and the others go on, and each result is written as it comes."""

from __future__ import annotations

import gc
import json
import logging
import time
import traceback
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..errors import InvalidValueError
from ..files import write_whole
from .environment import describe
from .goals import goals_of

_log = logging.getLogger(__name__)

Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a suite may read.

    Attributes:
        models: source of the networks, as of `load_models`.
        device: where to run.
        dtype: type of the rendering networks.
        batch: faces drawn at once.
        cycles: how often what is opened is closed again, where a suite watches memory.
        seconds: speech of a whole render.
        engine: an engine file to time; by default engines are built where they can be.
        long: also what takes minutes: kernels found by trying, and layouts that are not used.
    """

    models: str
    device: torch.device
    dtype: torch.dtype
    batch: int = 8
    cycles: int = 50
    seconds: float = 10.0
    engine: Path | None = None
    long: bool = False


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a suite.

    Attributes:
        name: where its result stands in the report.
        run: gives the result, ready for JSON. It may be left out or fail without harm to the others.
        extra: whether a time budget may leave it out: nothing that is promised needs it.
    """

    name: str
    run: Callable[[], Result]
    extra: bool = False


Suite = Callable[[Settings], Iterable[Stage]]
"""Gives the stages, in order; later ones may build on earlier ones and must say so where those failed."""


@dataclass
class Report:
    """Results that are on disk as soon as they are known.

    Attributes:
        path: the JSON file, or None.
        values: all of it.
    """

    path: Path | None
    values: Result = field(default_factory=dict)

    def add(self, suite: str, stage: str, result: Result) -> None:
        """Adds one stage's result and writes the file."""
        self.values.setdefault("suites", {}).setdefault(suite, {})[stage] = result
        self.write()

    def write(self) -> None:
        """Writes the file, whole."""
        if self.path is not None:
            write_values(self.values, self.path)


def write_values(values: Result, path: Path) -> None:
    """Writes a report as JSON, whole or not at all.

    Raises:
        FileError: the folder is missing or not writable.
    """
    write_whole(path, (json.dumps(values, indent=1) + "\n").encode())


def run_suites(
    suites: dict[str, Suite],
    settings: Settings,
    path: Path | None,
    *,
    budget_s: float | None = None,
    only: Collection[str] = (),
    tell: Callable[[str, str, Result], None] = lambda suite, stage, result: None,
) -> Result:
    """Runs suites one after the other.

    Args:
        suites: by name.
        settings: what they read.
        path: the JSON file to write, or None.
        budget_s: no extra stage is begun after so many seconds; those left out are listed in the report.
        only: names of the stages that run; all where it is empty.
        tell: called with suite, stage and result after each stage.

    Returns:
        The report: environment, settings, the results by suite and stage, and what they say to the machine's goals.

    Raises:
        InvalidValueError: no suite has a stage of such a name.
    """
    began = time.monotonic()
    _check_names(suites, settings, only)
    report = Report(path, {"environment": describe(), "settings": _settings(settings)})
    report.write()
    for suite, stages in suites.items():
        remaining = [stage for stage in stages(settings) if not only or stage.name in only]
        while remaining:
            stage = remaining.pop(0)
            spent = time.monotonic() - began
            if stage.extra and budget_s is not None and spent > budget_s:
                report.values.setdefault("left_out", []).append(f"{suite}/{stage.name}")
                continue
            result = _guarded(stage)
            result["wall_s"] = round(time.monotonic() - began - spent, 2)
            report.add(suite, stage.name, result)
            tell(suite, stage.name, result)
            del stage  # the last one holds its suite's networks, and the next suite may watch memory
            gc.collect()
    report.values["goals"] = goals_of(report.values)
    report.values["wall_s"] = round(time.monotonic() - began, 1)
    report.write()
    return report.values


def _check_names(suites: dict[str, Suite], settings: Settings, only: Collection[str]) -> None:
    if only:
        known = [stage.name for stages in suites.values() for stage in stages(settings)]
        for name in only:
            if name not in known:
                raise InvalidValueError(f"stage {name!r}", remedy=f"choose of {', '.join(known)}")


def _guarded(stage: Stage) -> Result:
    try:
        return dict(stage.run())
    except Exception as error:  # a benchmark of many parts: what fails is a result, too
        _log.warning("%s failed", stage.name, exc_info=True)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return {
            "error": f"{type(error).__name__}: {str(error)[:500]}",
            "where": f"{Path(where.filename).name}:{where.lineno}",
        }


def _settings(settings: Settings) -> Result:
    return {
        "models": settings.models,
        "device": str(settings.device),
        "dtype": str(settings.dtype).removeprefix("torch."),
        "batch": settings.batch,
        "cycles": settings.cycles,
        "seconds": settings.seconds,
        "long": settings.long,
    }

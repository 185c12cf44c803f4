"""Writes benchmarks/summary.json and BENCHMARKS.md from the reports under benchmarks/. No figure of them is typed.

Reports of `python -m ditto_core bench` lie in a folder for each hardware, named after their suite; what
tools/bench_pipe.py writes lies beside them as pipe.json. What `python -m tools.forensics` writes may lie in any folder.

    python -m tools.benchmarks
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ditto_core.bench.engine import COMMAND as ENGINE_COMMAND
from ditto_core.bench.goals import goals_of
from ditto_core.bench.run import write_values
from ditto_core.bench.suites import SUITES
from ditto_core.cli.output import say
from ditto_core.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
HARDWARE = {"h200": "H200", "cpu": "CPU", "rtx": "RTX"}
"""Folders of benchmarks/ with their headings."""
NOT_MEASURED = "not measured here"
_SIZE = "1080x1920"
_COMMAND = "python -m tools.benchmarks"
_RTX_REASON = f"TensorRT engines on RTX cards: {NOT_MEASURED}. `{ENGINE_COMMAND}` measures them."


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One figure.

    Attributes:
        value: number or words; None where it was not measured.
        of: what it belongs to, in a few words.
        source: file below benchmarks/ that holds it.
    """

    value: float | str | None = None
    of: str = ""
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        if self.value is None:
            return {"value": None, "of": NOT_MEASURED}
        return {"value": self.value, "of": self.of, "source": self.source}

    def text(self, unit: str) -> str:
        """For a table."""
        if self.value is None:
            return NOT_MEASURED
        value = self.value if isinstance(self.value, str) else f"{_number(self.value)} {unit}".strip()
        return f"{value} ({self.of})" if self.of else value


class Folder:
    """The reports of one hardware.

    Args:
        root: the folder benchmarks/.
        name: of the hardware's folder.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self._files: dict[str, Any] = {}
        for part in (*SUITES, "pipe"):
            path = root / name / f"{part}.json"
            if path.is_file():
                self._files[f"{name}/{path.name}"] = json.loads(path.read_text(encoding="utf-8"))
        self._forensics = []
        for path in sorted(root.rglob("forensics.json")):
            report = json.loads(path.read_text(encoding="utf-8"))
            if _hardware(report["environment"]) == name:
                source = path.relative_to(root).as_posix()
                self._forensics.append(source)
                self._files[source] = report

    @property
    def reports(self) -> Mapping[str, Any]:
        """By their place below benchmarks/."""
        return self._files

    def cell(self, file: str, path: str, of: str) -> Cell:
        """A figure of one of the hardware's own reports, by names with points between them."""
        source = f"{self.name}/{file}.json"
        value = self._files.get(source)
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return Cell(value=value, of=of, source=source) if isinstance(value, (int, float, str)) else Cell()

    def stage(self, suite: str, path: str, of: str) -> Cell:
        """A figure of a suite's stage."""
        return self.cell(suite, f"suites.{suite}.{path}", of)

    def pipe(self, path: str, of: str) -> Cell:
        """A figure of what went through a pipe, in a file of its own or in the report of the suite `encode`."""
        return _first(self.cell("pipe", path, of), self.cell("encode", f"pipe.{path}", of))

    def forensics(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """File, name and figures of each run that was compared before it was encoded."""
        for source in self._forensics:
            for name, run in self._files[source]["runs"].items():
                if "pictures" in run and "file_bytes" not in run:
                    yield source, name, run

    def batch(self) -> int:
        """Of the renderer in the suite `render`."""
        return int(self._files.get(f"{self.name}/render.json", {}).get("settings", {}).get("batch", 8))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measure before and after."""

    measure: str
    unit: str
    before: Cell
    after: Cell

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        parts = {"before": self.before.to_json(), "after": self.after.to_json()}
        return {"measure": self.measure, "unit": self.unit, **parts}


def rows(folder: Folder) -> list[Row]:
    """All measures of one hardware."""
    return [*_first_frames(folder), *_drawing(folder), *_encoding(folder), *_parity(folder)]


def _first_frames(folder: Folder) -> Iterator[Row]:
    plain = folder.stage("ttff", "offline_plain.ttff_ms", "plain networks, whole file")
    whole = folder.stage("ttff", "offline.ttff_ms", "whole file")
    yield Row(measure="TTFF, offline", unit="ms", before=plain, after=whole)
    for chunk in (16, 8, 4):
        found = folder.stage("ttff", f"chunk_{chunk}.ttff_ms", "streamed, low-latency plan")
        yield Row(measure=f"TTFF, chunk {chunk}", unit="ms", before=_first(plain, whole), after=found)


def _drawing(folder: Folder) -> Iterator[Row]:
    batch = folder.batch()
    yield Row(
        measure=f"post-warp design, a batch of {batch}",
        unit="ms",
        before=folder.stage("render", f"plain_b{batch}.post_warp.ms", "plain modules, eager"),
        after=folder.stage("render", "post_warp.ms", "one fused graph, compiled"),
    )
    for name, place in (("counted", ""), ("by ncu", "measured.")):
        yield Row(
            measure=f"DRAM traffic of it, {name}",
            unit="MB",
            before=folder.stage("render", f"post_warp.traffic.{place}plain_mbytes", "plain"),
            after=folder.stage("render", f"post_warp.traffic.{place}fused_mbytes", "fused"),
        )
    yield Row(
        measure=f"render, batch {batch}",
        unit="frames/s",
        before=folder.stage("render", f"plain_b{batch}.frames_per_s", "plain, eager"),
        after=folder.stage("render", f"compiled_b{batch}.frames_per_s", "compiled"),
    )


def _encoding(folder: Folder) -> Iterator[Row]:
    stage = f"encode_{_SIZE}_libx264_live"
    yield Row(
        measure="encoder",
        unit="",
        before=folder.pipe("encoder", "an ffmpeg process, RGB through a pipe"),
        after=folder.stage("encode", f"{stage}.encoder", "in process, from NV12"),
    )
    inside = _first(
        folder.pipe(f"sizes.{_SIZE}.in_process.frames_per_s", "in process"),
        folder.stage("encode", f"{stage}.frames_per_s", "in process"),
    )
    through = folder.pipe(f"sizes.{_SIZE}.pipe.frames_per_s", "pipe")
    yield Row(measure=f"encode, {_SIZE}, live", unit="frames/s", before=through, after=inside)
    yield Row(
        measure="system calls a frame",
        unit="",
        before=folder.pipe(f"sizes.{_SIZE}.pipe.system_calls.a_frame", "pipe"),
        after=folder.pipe(f"sizes.{_SIZE}.in_process.system_calls.a_frame", "in process"),
    )


def _parity(folder: Folder) -> Iterator[Row]:
    """What all other ways to the same frames differ by at most, before encoding."""
    runs = list(folder.forensics())
    apart = [
        (abs(run["aperture"]["mean_delta_percent"]), name, source)
        for source, name, run in runs
        if run["aperture"].get("mean_delta_percent") is not None
    ]
    equal = [(float(run["pictures"]["psnr_y_db"] or "inf"), name, source) for source, name, run in runs]
    worst, lowest = (max(apart) if apart else None), (min(equal) if equal else None)
    plain = "the plain pipeline is the measure"
    yield Row(
        measure="mouth parity Δ, worst run",
        unit="%",
        before=Cell(value=0, of=plain, source=worst[2]) if worst else Cell(),
        after=Cell(value=worst[0], of=worst[1], source=worst[2]) if worst else Cell(),
    )
    yield Row(
        measure="PSNR against the plain pipeline, worst run",
        unit="dB",
        before=Cell(value="equal", of=plain, source=lowest[2]) if lowest else Cell(),
        after=Cell(value=_decibels(lowest[0]), of=lowest[1], source=lowest[2]) if lowest else Cell(),
    )


def summary(root: Path) -> dict[str, Any]:
    """The content of summary.json.

    Args:
        root: the folder benchmarks/.
    """
    hardware = {}
    for name in HARDWARE:
        folder = Folder(root, name)
        hardware[name] = {
            "machines": _machines(folder.reports),
            "rows": [row.to_json() for row in rows(folder)],
            "goals": [entry for report in folder.reports.values() if "suites" in report for entry in goals_of(report)],
        }
    return {"command": _COMMAND, "hardware": hardware}


def page(root: Path) -> str:
    """The text of BENCHMARKS.md."""
    lines = [
        "# Benchmarks",
        "",
        f"Made by `{_COMMAND}` from the reports under [benchmarks](benchmarks); not typed.",
        "",
    ]
    for name, heading in HARDWARE.items():
        folder = Folder(root, name)
        lines += [f"## {heading}", ""]
        if not folder.reports:
            lines += [_RTX_REASON if name == "rtx" else f"{NOT_MEASURED.capitalize()}.", ""]
            continue
        lines += [*_machines(folder.reports), ""]
        cells = [
            (row.measure, row.before.text(row.unit), row.after.text(row.unit), _links(row)) for row in rows(folder)
        ]
        lines += [*_table(("", "before", "after", "from"), cells), ""]
        lines += _goals(folder.reports)
        charts = sorted(path for path in (root / name).glob("*.png"))
        lines += [f"![{path.stem} on {heading}](benchmarks/{name}/{path.name})\n" for path in charts]
    return "\n".join(lines).rstrip("\n") + "\n"


def _goals(reports: Mapping[str, Any]) -> list[str]:
    """The goals of a hardware with what was reached, as a table."""
    words = {True: "met", False: "not met", None: ""}
    cells = []
    for source, report in reports.items():
        for entry in goals_of(report) if "suites" in report else ():
            reached = NOT_MEASURED if entry["value"] is None else _number(entry["value"])
            what = f"{entry['suite']}: {entry['stage'].replace('_', ' ')}, {entry['figure'].replace('_', ' ')}"
            cells.append((what, entry["goal"], reached, words[entry["met"]], _link(source)))
    return [*_table(("goal", "", "reached", "", "from"), cells), ""] if cells else []


def _table(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (titles, ["---"] * len(titles), *cells)]


def _links(row: Row) -> str:
    return ", ".join(_link(source) for source in dict.fromkeys((row.before.source, row.after.source)) if source)


def _link(source: str) -> str:
    return f"[{Path(source).stem}](benchmarks/{source})"


def _machines(reports: Mapping[str, Any]) -> list[str]:
    """Each machine that reports were made on, with its versions, and the reports."""
    found: dict[str, list[str]] = {}
    for source, report in reports.items():
        about, settings = report["environment"], report.get("settings", {})
        gpus = "" if settings.get("device") == "cpu" or not about["gpus"] else f"{about['gpus'][0]}, "
        versions = ", ".join(
            f"{name} {about['versions'][name]}" for name in ("torch", "av") if name in about["versions"]
        )
        what = f"{gpus}{about['processor']} ({about['cores']} cores), {versions}, {about['date']}"
        models = f" of {settings['models']}, {settings['dtype']}" if settings else ""
        found.setdefault(what, []).append(f"{source}{models}")
    return [f"- {what}: {'; '.join(sources)}" for what, sources in found.items()]


def _hardware(environment: Mapping[str, Any]) -> str:
    """The folder of what a report was made on."""
    names = " ".join(environment["gpus"])
    return "h200" if "H200" in names else "rtx" if "RTX" in names else "cpu"


def _first(*cells: Cell) -> Cell:
    return next((cell for cell in cells if cell.value is not None), Cell())


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _decibels(value: float) -> float | str:
    return "equal" if value == float("inf") else value


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.parse_args()
    root = ROOT / "benchmarks"
    write_values(summary(root), root / "summary.json")
    write_whole(ROOT / "BENCHMARKS.md", page(root).encode())
    say(f"{root / 'summary.json'}, {ROOT / 'BENCHMARKS.md'}")


if __name__ == "__main__":
    main()

"""Charts of reports, new or old: nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FileError, MissingPackageError
from ..files import replaced_file
from .goals import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FIRST_FRAMES = "first frames, drawn and encoded"
_COLORS = {
    "listening": "#D3D3D3",
    "speech": "#4C78A8",
    "motion": "#F58518",
    "render": "#54A24B",
    "encode": "#B279A2",
    "finish": "#9D9D9D",
    _FIRST_FRAMES: "#72B7B2",
}
_PLAIN, _FUSED, _MEASURED = "#9D9D9D", "#4C78A8", "#F58518"
_WIDTH, _ROW = 8.0, 0.42
_DPI = 110
_BARS = 0.75
_LARGEST_SHARE = 1.14
"""Of an axis, to the longest bar: room for its label."""


def draw_plots(report: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Draws each chart for which a report has the figures.

    Args:
        report: as of `run_suites` or `read_report`.
        folder: an existing folder; the files are named after the charts: ttff.png, render.png, traffic.png,
            end_to_end.png.

    Returns:
        The files.

    Raises:
        MissingPackageError: matplotlib is not installed.
        FileError: the folder is missing or not writable.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError(folder, "is no folder", remedy="make the folder first")
    check_matplotlib()
    made = []
    for name, draw in _CHARTS.items():
        drawn = draw(report)
        if drawn is not None:
            drawn.text(0.99, 0.01, _machine(report), ha="right", va="bottom", fontsize=7, color="#666666")
            with replaced_file(folder / f"{name}.png") as partial:
                drawn.savefig(partial, format="png", dpi=_DPI)
            made.append(folder / f"{name}.png")
    return made


def check_matplotlib() -> None:
    """Whether charts can be drawn.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401 - an extra, which takes a second to import
    except ImportError as error:
        raise MissingPackageError(
            "matplotlib", needed_for="drawing charts", install="pip install 'ditto-live[plots]'"
        ) from error


def _ttff(report: Mapping[str, Any]) -> Figure | None:
    """From the first sound to the first packet, stage by stage, for each chunk."""
    stages = report["suites"].get("ttff", {})
    at_once = {_setting(name, result): waterfall(result) for name, result in stages.items()}
    live = {
        _setting(name, result): waterfall(result, live=True)
        for name, result in stages.items()
        if result.get("live_first_ms")
    }
    panels = [
        (title, {name: parts for name, parts in rows.items() if parts})
        for title, rows in (
            ("Time to the first packet, all sound at hand", at_once),
            ("The same, sound arriving at the pace of speech", live),
        )
    ]
    panels = [(title, rows) for title, rows in panels if rows]
    if not panels:
        return None
    drawn, axes = _page([len(rows) for _, rows in panels])
    for ax, (title, rows) in zip(axes, panels, strict=True):
        _stacked(ax, rows, "ms")
        ax.set_title(title, fontsize=10, loc="left", pad=22)
    return drawn


def waterfall(result: Mapping[str, Any], *, live: bool = False) -> list[tuple[str, float]]:
    """What a setting's time to the first packet is made of.

    Args:
        result: of a stage of the suite `ttff`.
        live: whether the sound arrives at the pace of speech.

    Returns:
        Stages in their order with milliseconds, from one stage's first result to the next one's; where the whole
        motion is made first, the stages' whole times, then the rest. Live, all before the sound of the first frame
        was there is "listening". Empty where the figures are missing.
    """
    end = result.get("live_ttff_ms" if live else "ttff_ms")
    first = result.get("live_first_ms" if live else "first_ms")
    if end is None:
        return []
    if first:
        before = min(result["look_ahead_ms"], end) if live else 0.0
        parts = [("listening", before)] if live else []
        for name, moment in sorted(first.items(), key=lambda entry: entry[1]):
            if moment > before:
                parts.append((name, moment - before))
                before = moment
        return [*parts, ("encode", max(0.0, end - before))]
    whole = [(name, result["stages_ms"][name]) for name in ("speech", "motion") if name in result.get("stages_ms", {})]
    return [*whole, (_FIRST_FRAMES, max(0.0, end - sum(value for _, value in whole)))]


def _render(report: Mapping[str, Any]) -> Figure | None:
    """Each part's time, plain and fused."""
    batch = report["settings"]["batch"]
    rows = {
        f"{title}, batch {size}": [
            ("plain, eager", figure(report, "render", f"plain_b{size}", f"{part}.ms"), _PLAIN),
            ("fused, compiled", figure(report, "render", stage, "ms"), _FUSED),
        ]
        for title, part, stage, size in (
            ("warp", "warp", "warp", batch),
            ("third, fourth, decoder", "post_warp", "post_warp", batch),
            ("whole", "whole", f"compiled_b{batch}", batch),
            ("whole", "whole", "compiled_b1", 1),
        )
    }
    return _pairs(rows, "Rendering: time of a batch", "ms")


def _traffic(report: Mapping[str, Any]) -> Figure | None:
    """Each part's bytes to and from device memory."""
    rows = {}
    for title, stage in (("warp", "warp"), ("third, fourth, decoder", "post_warp")):
        found = figure(report, "render", stage, "traffic") or {}
        bars = [
            ("plain, counted", found.get("plain_mbytes"), _PLAIN),
            ("fused, counted", found.get("fused_mbytes"), _FUSED),
        ]
        measured = found.get("measured", {})
        if "plain_mbytes" in measured:
            bars += [
                ("plain, ncu", measured["plain_mbytes"], "#5F5F5F"),
                ("fused, ncu", measured["fused_mbytes"], _MEASURED),
            ]
        rows[f"{title}, batch {report['settings']['batch']}"] = bars
    return _pairs(rows, "Rendering: traffic to device memory, a batch", "MB")


def _end_to_end(report: Mapping[str, Any]) -> Figure | None:
    """Where the time of whole renders goes."""
    stages = report["suites"].get("end_to_end", {})
    rows = {
        f"{name.replace('_', ' ')}\n{result['frames_per_s']:.0f} frames/s": list(result["stages_s"].items())
        for name, result in stages.items()
        if "stages_s" in result
    }
    if not rows:
        return None
    drawn, (ax,) = _page([len(rows)])
    _stacked(ax, rows, "s")
    ax.set_title("From sound to file", fontsize=10, loc="left", pad=22)
    return drawn


_CHARTS: dict[str, Callable[[Mapping[str, Any]], Figure | None]] = {
    "ttff": _ttff,
    "render": _render,
    "traffic": _traffic,
    "end_to_end": _end_to_end,
}


def _page(rows: Sequence[int]) -> tuple[Figure, list[Axes]]:
    """A page with panels below each other, each with room for so many bars."""
    from matplotlib.figure import Figure

    heights = [_ROW * count + 1.0 for count in rows]
    drawn = Figure(figsize=(_WIDTH, sum(heights) + 0.3), layout="constrained")
    drawn.get_layout_engine().set(rect=(0, 0.03, 1, 0.97))  # type: ignore[union-attr, call-arg]
    axes = drawn.subplots(len(rows), 1, squeeze=False, height_ratios=heights)
    return drawn, [ax for (ax,) in axes]


def _stacked(ax: Axes, rows: Mapping[str, Sequence[tuple[str, float]]], unit: str) -> None:
    """Bars of parts one after the other, the first row above."""
    shown: set[str] = set()
    for place, parts in enumerate(rows.values()):
        left = 0.0
        for name, value in parts:
            label = None if name in shown else name
            ax.barh(place, value, _BARS, left=left, color=_COLORS.get(name, "#333333"), label=label)
            shown.add(name)
            left += value
        ax.text(left, place, f"  {_number(left)} {unit}", va="center", fontsize=8)
    _finish(ax, list(rows), unit, max(sum(value for _, value in parts) for parts in rows.values()))


def _pairs(rows: Mapping[str, Sequence[tuple[str, float | None, str]]], title: str, unit: str) -> Figure | None:
    """Groups of bars, one below the other."""
    kept = {name: [bar for bar in bars if bar[1] is not None] for name, bars in rows.items()}
    kept = {name: bars for name, bars in kept.items() if bars}
    if not kept:
        return None
    drawn, (ax,) = _page([sum(len(bars) for bars in kept.values())])
    shown: set[str] = set()
    for place, bars in enumerate(kept.values()):
        height = _BARS / len(bars)
        for i, (name, value, color) in enumerate(bars):
            y = place - _BARS / 2 + height * (i + 0.5)
            ax.barh(y, value or 0, height, color=color, label=None if name in shown else name)
            ax.text(value or 0, y, f"  {_number(value or 0)} {unit}", va="center", fontsize=8)
            shown.add(name)
    ax.set_title(title, fontsize=10, loc="left", pad=22)
    _finish(ax, list(kept), unit, max(value or 0 for bars in kept.values() for _, value, _ in bars))
    return drawn


def _finish(ax: Axes, names: Sequence[str], unit: str, longest: float) -> None:
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, _LARGEST_SHARE * longest or 1)
    ax.set_xlabel(unit, fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    columns = len(ax.get_legend_handles_labels()[0])
    ax.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=columns, columnspacing=1)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _setting(name: str, result: Mapping[str, Any]) -> str:
    """A setting's name, with its chunk where it has one."""
    return f"{name.replace('_', ' ')} ({result['chunk_ms']} ms)" if "chunk_ms" in result else name


def _machine(report: Mapping[str, Any]) -> str:
    about, settings = report["environment"], report["settings"]
    device = about["gpus"][0] if settings["device"] != "cpu" and about["gpus"] else about["processor"]
    return f"{device}, {settings['models']}, {settings['dtype']}, torch {about['versions']['torch']}, {about['date']}"

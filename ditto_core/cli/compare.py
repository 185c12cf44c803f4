"""`compare`: a video beside the one it should equal."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..bench.environment import describe
from ..errors import FileError, InvalidValueError
from ..quality import FaceTrack, compare_videos, comparison_picture, summary, write_png
from .output import ProgressLine, say
from .render import report_path, write_report

PICTURE = "compare.png"
_LONGEST = 1 << 20


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `compare`."""
    parser = commands.add_parser("compare", help="a video beside the one it should equal")
    parser.add_argument("reference", type=Path, metavar="REF", help="the video as it should be")
    parser.add_argument("test", type=Path, metavar="TEST", help="the video to look at")
    mouth = parser.add_mutually_exclusive_group()
    mouth.add_argument(
        "--track", type=Path, metavar="RENDER_REPORT.json", help="report of `render`: where the mouth is"
    )
    mouth.add_argument("--mouth-box", metavar="X,Y,W,H", help="where the mouth is, in pixels, in all frames")
    parser.add_argument("--frames", metavar="N,N,...", help="frames to show beside each other; five by default")
    parser.add_argument("--report", type=report_path, metavar="FILE", help="write all figures, as JSON")
    parser.add_argument("--plots", type=Path, metavar="DIR", help=f"write {PICTURE}: frames, differences, courses")
    parser.add_argument("--quiet", action="store_true", help="no progress, no summary")
    parser.set_defaults(run=_compare)


def _numbers(text: str, option: str, count: int | None = None) -> list[int]:
    """Whole numbers from 0 on, separated by commas."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts) or (count is not None and len(parts) != count):
        wanted = "whole numbers from 0 on" if count is None else f"{count} whole numbers from 0 on"
        raise InvalidValueError(f"{option} {text}", remedy=f"give {wanted}, separated by commas")
    return [int(part) for part in parts]


def _track(options: argparse.Namespace) -> FaceTrack | None:
    if options.track is not None:
        return FaceTrack.read(options.track)
    if options.mouth_box is None:
        return None
    x, y, width, height = _numbers(options.mouth_box, "--mouth-box", 4)
    if not (width and height) or max(x, y, width, height) > _LONGEST:
        raise InvalidValueError(f"--mouth-box {options.mouth_box}", remedy="give a box with area inside the picture")
    return FaceTrack.resting((x, y, x + width, y + height), _LONGEST)


def _compare(options: argparse.Namespace) -> int:
    frames = None if options.frames is None else _numbers(options.frames, "--frames")
    if options.plots is not None and not options.plots.is_dir():
        raise FileError(options.plots, "is no folder", remedy="make the folder first")
    progress = ProgressLine(quiet=options.quiet)
    try:
        found = compare_videos(options.reference, options.test, track=_track(options), frames=frames, progress=progress)
    finally:
        progress.clear()
    if options.report is not None:
        curves = {name: [round(float(value), 4) for value in course] for name, course in found.curves.items()}
        write_report(options.report, {"environment": describe(), **found.report, "per_frame": curves})
    if options.plots is not None:
        write_png(options.plots / PICTURE, comparison_picture(found))
    if not options.quiet:
        for line in summary(found.report):
            say(line)
    return 0

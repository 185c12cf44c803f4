"""`queue`: renders a table of segments on a ComfyUI server."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from pathlib import Path

from ..bulletin import (
    BulletinView,
    ComfyServer,
    Progress,
    QueueOptions,
    State,
    Workflow,
    open_manifest,
    read_segments,
    run_bulletin,
)
from ..errors import FileError
from .output import complain, say

_MANIFEST = "manifest.jsonl"
_FAILED = 1


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `queue`."""
    defaults = QueueOptions()
    parser = commands.add_parser(
        "queue",
        help="render a table of segments on a ComfyUI server",
        description="Renders a table of segments on a ComfyUI server, one prompt each. Run again, it goes on where it "
        "was. Exit code: 0 all done, 1 some segments failed, 2 bad input or no server, 130 interrupted.",
    )
    parser.add_argument("table", type=Path, metavar="SEGMENTS.csv", help="columns are 'node title.input', and 'name'")
    parser.add_argument("--workflow", type=Path, required=True, metavar="FILE", help="a workflow in API format")
    parser.add_argument("--server", required=True, metavar="URL", help="for example http://127.0.0.1:8188")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where results go; by default a folder beside the table with its name"
    )
    parser.add_argument("--manifest", type=Path, metavar="FILE", help=f"what happened; by default {_MANIFEST} in --out")
    parser.add_argument(
        "--ahead", type=int, default=defaults.ahead, metavar="N", help="segments that the server holds at once, 1..100"
    )
    parser.add_argument(
        "--patience", type=float, default=defaults.patience, metavar="S", help="seconds that the server may be away"
    )
    parser.add_argument(
        "--segment-limit",
        type=float,
        default=defaults.segment_limit,
        metavar="S",
        help="seconds that one segment may run",
    )
    parser.add_argument("--poll", type=float, default=defaults.poll, metavar="S", help="seconds between looks")
    parser.add_argument("--quiet", action="store_true", help="no table; only what failed")
    parser.set_defaults(run=_queue)


class StateTable:
    """The states of all segments: a table kept up to date on a terminal, elsewhere a line for each that ends.

    Args:
        quiet: show nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._drawn = 0
        self._told: dict[str, State] = {}
        self._away = False

    def __call__(self, view: BulletinView) -> None:
        """Shows how things stand."""
        if self._quiet:
            return
        if self._live:
            self._draw(view)
        else:
            self._tell(view)

    def _draw(self, view: BulletinView) -> None:
        width, height = shutil.get_terminal_size()
        lines = table_lines(view, width - 1, height - 1)
        up = f"\033[{self._drawn}A" if self._drawn else ""
        sys.stderr.write(up + "\r\033[J" + "".join(line + "\n" for line in lines))
        sys.stderr.flush()
        self._drawn = len(lines)

    def _tell(self, view: BulletinView) -> None:
        for segment, progress in view.rows:
            if progress.state in (State.DONE, State.FAILED) and self._told.get(segment.name) is not progress.state:
                say(f"{segment.name}: {progress.state.value}  {_detail(progress)}")
            self._told[segment.name] = progress.state
        if view.away and not self._away:
            complain(f"waiting: {view.away}")
        self._away = bool(view.away)


def table_lines(view: BulletinView, width: int, height: int) -> list[str]:
    """The table as lines of text; where it is too tall, segments that are done give way to the others.

    Args:
        view: how things stand.
        width: most letters of a line.
        height: most lines, at least 2.
    """
    rows = list(view.rows)
    if len(rows) > height - 1:
        rows = [row for row in rows if row[1].state is not State.DONE][: height - 1]
    longest = max((len(segment.name) for segment, _ in rows), default=0)
    lines = [f"{segment.name:<{longest}}  {p.state.value:<8}  {_detail(p)}" for segment, p in rows]
    lines.append(f"waiting for the server: {view.away}" if view.away else _summary(view))
    return [line[:width].rstrip() for line in lines]


def _detail(progress: Progress) -> str:
    if progress.state is State.DONE:
        return ", ".join(f"{file.name} ({file.size:,} bytes)" for file in progress.files)
    return progress.reason


def _summary(view: BulletinView) -> str:
    counts = Counter(progress.state for _, progress in view.rows)
    return f"{len(view.rows)} segments: " + ", ".join(f"{counts[s]} {s.value}" for s in State if counts[s])


def _queue(options: argparse.Namespace) -> int:
    settings = QueueOptions(
        ahead=options.ahead, poll=options.poll, patience=options.patience, segment_limit=options.segment_limit
    )
    server = ComfyServer(options.server)
    workflow = Workflow.load(options.workflow)
    segments = read_segments(options.table, workflow.with_floats(server.float_inputs(workflow)))
    folder = _made_folder(options.out or options.table.with_suffix(""))
    manifest_path = options.manifest or folder / _MANIFEST
    try:
        with open_manifest(manifest_path) as manifest:
            observer = StateTable(quiet=options.quiet)
            view = run_bulletin(segments, server, manifest, folder, options=settings, observer=observer)
    except KeyboardInterrupt:
        complain("stopped here; what the server already holds it goes on with. The same command goes on from here")
        raise
    failed = [(segment.name, progress.reason) for segment, progress in view.rows if progress.state is State.FAILED]
    for name, reason in failed:
        complain(f"{name} failed: {reason}")
    if not options.quiet:
        say(f"{folder}: {_summary(view)}; see {manifest_path}")
    return _FAILED if failed else 0


def _made_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(path, f"can't be made ({error.strerror})", remedy="name another folder with --out") from error
    return path

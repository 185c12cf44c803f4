"""`models check`, `models convert` and `models fetch`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..checkpoints import MINIATURE_SOURCE, layout
from ..checkpoints.convert import check_folder, convert_folder
from ..checkpoints.fetch import fetch_models
from ..checkpoints.models import BUNDLED
from .output import say


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `models` and its own commands."""
    parser = commands.add_parser("models", help="check, convert or download model files")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    check = actions.add_parser("check", help="read every file of a model folder and say how it fits")
    check.add_argument("folder", type=folder_of, metavar="DIR", help=f"the folder, or '{MINIATURE_SOURCE}'")
    check.set_defaults(run=_check)

    convert = actions.add_parser("convert", help="write a model folder as safetensors and config.json")
    convert.add_argument("folder", type=Path, metavar="DIR")
    convert.add_argument("out", type=Path, metavar="OUT")
    convert.set_defaults(run=_convert)

    fetch = actions.add_parser("fetch", help="download the official files (2.3 GB)")
    fetch.add_argument("folder", type=Path, nargs="?", default=Path("checkpoints"), metavar="DIR")
    fetch.add_argument(
        "--with-detectors", action="store_true", help="also InsightFace's detectors: NON-COMMERCIAL research only"
    )
    fetch.set_defaults(run=_fetch)


def folder_of(word: str) -> Path:
    """The folder of models that are named as elsewhere: by their folder, or 'miniature'."""
    return BUNDLED if word == MINIATURE_SOURCE else Path(word)


def _check(options: argparse.Namespace) -> int:
    statuses = check_folder(options.folder)
    width = max(len(status.part) for status in statuses)
    for status in statuses:
        need = "" if status.needed or status.state == "found" else " (optional)"
        say(f"{status.part:<{width}}  {status.state + need:<21}  {status.path}  {status.detail}".rstrip())
    usable = all(status.state == "found" for status in statuses if status.needed)
    say("usable" if usable else f"NOT usable: all of {', '.join(layout.NETWORKS)} have to be found")
    return 0 if usable else 2


def _convert(options: argparse.Namespace) -> int:
    say(f"written: {convert_folder(options.folder, options.out)}")
    return 0


def _fetch(options: argparse.Namespace) -> int:
    folder = fetch_models(options.folder, with_detectors=options.with_detectors)
    say(f"downloaded: {folder}. Next: python -m ditto_core models check '{folder}'")
    return 0

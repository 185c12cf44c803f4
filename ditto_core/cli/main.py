"""Parsing of the command line, and how it ends.

Exit codes: 0 done, 1 some segments of a bulletin failed, 2 bad input or an error with a remedy (one line on standard
error), 130 interrupted.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

from .. import __version__
from ..errors import DittoError
from . import bench, compare, doctor, engine, models, queue, render, stream
from .output import complain


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: the words after the program's name; those of the process by default.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="python -m ditto_core", description="Real-time talking heads.")
    parser.add_argument("--version", action="version", version=f"ditto-live {__version__}")
    parser.add_argument("--verbose", action="store_true", help="log what is done")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    render.add_parser(commands)
    stream.add_parser(commands)
    queue.add_parser(commands)
    compare.add_parser(commands)
    engine.add_parser(commands)
    bench.add_parser(commands)
    doctor.add_parser(commands)
    models.add_parser(commands)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING, format="%(name)s: %(message)s")
    try:
        return int(options.run(options))
    except DittoError as error:
        complain(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        complain("interrupted")
        return 130

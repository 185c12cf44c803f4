"""The command line: `python -m ditto_core COMMAND`."""

from .main import main

__all__ = ["main"]

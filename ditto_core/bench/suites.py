"""The suites by name."""

from __future__ import annotations

import importlib

from ..errors import InvalidValueError
from .run import Suite

SUITES = ("render", "motion", "encode", "ttff", "end_to_end")
"""Each is a module of this package with a function `<name>_suite`; only those that run are imported."""


def chosen_suites(names: str) -> dict[str, Suite]:
    """The suites of a list of names, in its order.

    Args:
        names: separated by commas.

    Raises:
        InvalidValueError: there is no suite of a name.
    """
    found = {}
    for name in (part.strip() for part in names.split(",")):
        if name not in SUITES:
            raise InvalidValueError(f"suite {name!r}", remedy=f"choose of {', '.join(SUITES)}")
        found[name] = getattr(importlib.import_module(f".{name}", __package__), f"{name}_suite")
    return found

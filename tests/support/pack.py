"""The pack's modules, imported below a package as ComfyUI does."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def pack_module(name: str) -> ModuleType:
    """A module that needs nothing of ComfyUI, such as nodes.paths."""
    if "ditto_pack" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "ditto_pack", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
        )
        package = importlib.util.module_from_spec(spec)
        sys.modules["ditto_pack"] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"ditto_pack.{name}")

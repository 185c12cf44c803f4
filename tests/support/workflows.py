"""The saved workflows, and shorter forms of them for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .comfy_client import Prompt, replaced
from .comfy_server import ROOT

FOLDER = ROOT / "workflows"
NAMES = tuple(sorted(path.stem for path in (FOLDER / "api").glob("*.json")))


def api(name: str) -> Prompt:
    """A workflow in the format of ComfyUI's API."""
    return _read(FOLDER / "api" / f"{name}.json")


def canvas(name: str) -> dict[str, Any]:
    """A workflow as it opens on the canvas."""
    return _read(FOLDER / f"{name}.json")


def short(prompt: Prompt, seconds: float = 0.6, *, steps: int = 2) -> Prompt:
    """The same workflow with the beginning of its sound and few sampler steps."""
    sounds = [key for key, node in prompt.items() if node["class_type"] == "DittoExample"]
    trimmed = {
        f"{key}00": {
            "class_type": "TrimAudioDuration",
            "inputs": {"audio": [key, 1], "start_index": 0.3, "duration": seconds},
        }
        for key in sounds
    }
    result = {key: _rewired(node, {(key, 1): [f"{key}00", 0] for key in sounds}) for key, node in prompt.items()}
    for key, node in prompt.items():
        if "steps" in node["inputs"]:
            result = replaced(result, key, steps=steps)
    return {**result, **trimmed}


def breaking(prompt: Prompt, **inputs: Any) -> Prompt:
    """The same workflow with frames that break after their first chunk; its writer gets the inputs."""
    source = next(node["inputs"]["frames"] for node in prompt.values() if node["class_type"] == "NVENCVideoWriter")
    node = {
        "class_type": "ProbeBreakingFrames",
        "inputs": {"frames": source},
        "_meta": {"title": "Thin frames"},
    }
    return {**replaced(prompt, "Video", frames=["99", 0], **inputs), "99": node}


def _rewired(node: dict[str, Any], links: dict[tuple[str, int], list[Any]]) -> dict[str, Any]:
    inputs = {
        name: links.get(tuple(value), value) if isinstance(value, list) else value
        for name, value in node["inputs"].items()
    }
    return {**node, "inputs": inputs}


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())

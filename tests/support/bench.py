"""What the benches measure in tests: the smallest networks, on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ditto_core.bench.run import Settings
from ditto_core.checkpoints import load_models
from ditto_core.speech import recipe_hubert

from .models import write_folder


def tiny_settings(folder: Path, **changed: Any) -> Settings:
    """Settings with a model folder of recipe weights, speech encoder and all."""
    models = write_folder(folder / "tiny")
    features = load_models(models).preset.speech_features
    recipe_hubert(features, "miniature").model.save_pretrained(models / "hubert")
    given = {"batch": 1, "cycles": 1, "seconds": 0.5, **changed}
    return Settings(models=str(models), device=torch.device("cpu"), dtype=torch.float32, **given)


def report(suites: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A report as of one H200 with the networks of official size."""
    environment = {
        "date": "2026-01-02",
        "processor": "A processor",
        "cores": 16,
        "gpus": ["NVIDIA H200"],
        "versions": {"torch": "2.11.0"},
    }
    settings = {"models": "official-shapes", "device": "cuda", "dtype": "float16", "batch": 8}
    return {"environment": environment, "settings": {**settings, **changed}, "suites": suites}

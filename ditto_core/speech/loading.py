"""The speech encoder that belongs to loaded models."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..checkpoints import DittoModels
from ..checkpoints.auxiliary import AUXILIARY, find_auxiliary
from ..errors import CheckpointError
from ..networks import OFFICIAL
from .hubert import OnnxHubert, SpeechEncoder, TransformersHubert, recipe_hubert


def speech_encoder_for(models: DittoModels) -> SpeechEncoder:
    """Loads the speech encoder of a model folder, or recipe weights beside recipe weights.

    Args:
        models: the loaded networks.

    Raises:
        CheckpointError: the folder has no speech encoder, or one of another feature size.
        MissingPackageError: it is an ONNX file, and onnxruntime is not installed.
    """
    features = models.preset.speech_features
    if models.folder is None:
        size: Literal["large", "miniature"] = "large" if features == OFFICIAL.speech_features else "miniature"
        return recipe_hubert(features, size, device=models.device)
    path = find_auxiliary("speech encoder", models.folder)
    if path is None:
        names = " or ".join(AUXILIARY["speech encoder"])
        raise CheckpointError(models.folder, "has no speech encoder", remedy=f"add {names} to it")
    encoder = _load(path, models)
    if encoder.features != features:
        raise CheckpointError(
            path,
            f"gives {encoder.features} features, where the motion network wants {features}",
            remedy="use the speech encoder that came with the motion network",
        )
    return encoder


def _load(path: Path, models: DittoModels) -> SpeechEncoder:
    if path.suffix == ".onnx":
        return OnnxHubert(path, device="auto" if models.device.type == "cuda" else "cpu")
    return TransformersHubert.from_folder(path.parent, device=models.device)

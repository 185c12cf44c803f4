"""Networks that several tests run."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path

from safetensors.torch import save_file

from ditto_core.checkpoints import DittoModels, layout, load_models
from ditto_core.checkpoints.models import recipe_weights
from ditto_core.networks import MINIATURE

TINY = dataclasses.replace(
    MINIATURE,
    name="tiny",
    appearance_widths=(8, 8, 8, 8),
    appearance_blocks=2,
    extractor_depths=(1, 1, 2, 1),
    extractor_widths=(8, 8, 16, 16),
    motion_grid=(2, 16),
    motion_channels=2,
    hourglass_widths=(8, 12),
    hourglass_out=8,
    mask_kernel=5,
    feature_channels=8,
    decoder_width=16,
    upsample_widths=(8, 8),
    spectral_norm=True,
    latent_size=32,
    feed_forward=64,
    decoder_layers=2,
)
"""Every kind of layer of the family, as small as it goes: spectral norm, x2 stages, a coarser motion grid."""


@cache
def official() -> DittoModels:
    """The networks at official size with recipe weights, folded, float32."""
    return load_models("official-shapes")


def write_folder(folder: Path, preset=TINY) -> Path:
    """A converted model folder with recipe weights."""
    folder.mkdir(parents=True)
    for name in layout.NETWORKS:
        tensors = {key: value.clone() for key, value in recipe_weights(name, preset).items()}
        save_file(tensors, folder / f"{name}.safetensors")
    (folder / layout.CONFIG_FILE).write_text(json.dumps({"format": 1, "preset": preset.to_json(), "sources": {}}))
    return folder

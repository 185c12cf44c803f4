"""Loading all six networks, ready to run."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from ..errors import CheckpointError, InvalidValueError
from ..networks import (
    MINIATURE,
    OFFICIAL,
    AppearanceExtractor,
    MotionDiffusion,
    MotionExtractor,
    Preset,
    SpadeDecoder,
    StitchingNetwork,
    WarpingNetwork,
)
from ..networks.folding import fold
from . import layout
from .recipe import recipe_tensor

_log = logging.getLogger(__name__)

MINIATURE_SOURCE = "miniature"
OFFICIAL_SHAPES = "official-shapes"
_RECIPES = {MINIATURE_SOURCE: MINIATURE, OFFICIAL_SHAPES: OFFICIAL}
BUNDLED = Path(__file__).parents[1] / "bundled" / "miniature"

_RENDERING = ("appearance_extractor", "warp_network", "decoder")
"""The networks that run in the chosen precision. The others are small or sensitive, and stay in float32 at least, as
in the official TensorRT build."""


@dataclass(frozen=True, kw_only=True)
class DittoModels:
    """The six networks of one source: folded, in evaluation mode, on one device.

    Attributes:
        preset: their sizes.
        source: "miniature", "official-shapes", or the folder.
        folder: where the files are; None for recipe weights.
        trained: False where recipe weights stand in, which draw noise.
        fingerprint: SHA-256 over all names, types and numbers as loaded.
        device: where they are.
        dtype: type of the rendering networks; the others have float32 at least.
    """

    preset: Preset
    source: str
    folder: Path | None
    trained: bool
    fingerprint: str
    device: torch.device
    dtype: torch.dtype
    appearance_extractor: AppearanceExtractor
    motion_extractor: MotionExtractor
    warp_network: WarpingNetwork
    decoder: SpadeDecoder
    stitch_network: StitchingNetwork
    lmdm: MotionDiffusion

    def describe(self) -> str:
        """Source and, where they are not trained, a warning, for reports."""
        return self.source if self.trained else f"{self.source} (recipe weights, not trained: the picture is noise)"


def load_models(
    source: str | Path = MINIATURE_SOURCE,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> DittoModels:
    """Loads all six networks.

    Args:
        source: "miniature" (bundled), "official-shapes" (full size with recipe weights, for builds and benchmarks),
            or a folder in the official or the converted layout.
        device: where they shall run.
        dtype: float64, float32, bfloat16 or float16, for the networks that render.

    Raises:
        CheckpointError: a file is missing, damaged, unsafe, or does not fit.
        InvalidValueError: the type is none of these.
    """
    if dtype not in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        raise InvalidValueError(f"networks in {dtype}", remedy="choose float64, float32, bfloat16 or float16")
    device = torch.device(device)
    folder = _folder(source)
    preset = _RECIPES[str(source)] if folder is None else folder.preset
    digest = hashlib.sha256()
    networks = {}
    for name in layout.NETWORKS:
        tensors = recipe_weights(name, preset) if folder is None else layout.read_network(name, folder.files[name])
        if name == "lmdm":
            preset = layout.with_condition_size(preset, tensors)
        for key in sorted(tensors):
            digest.update(f"{name}/{key} {tensors[key].dtype} {tuple(tensors[key].shape)}".encode())
            digest.update(tensors[key].contiguous().view(-1).view(torch.uint8).numpy().data)
        wanted = dtype if name in _RENDERING else torch.promote_types(dtype, torch.float32)
        networks[name] = build_network(name, preset, tensors, origin=source).to(device, wanted)
    if folder is None:
        _log.warning("%s: recipe weights, not trained: the picture is noise", source)
    return DittoModels(
        preset=preset,
        source=str(source),
        folder=None if folder is None else folder.root,
        trained=folder is not None,
        fingerprint=digest.hexdigest(),
        device=device,
        dtype=dtype,
        appearance_extractor=cast(AppearanceExtractor, networks["appearance_extractor"]),
        motion_extractor=cast(MotionExtractor, networks["motion_extractor"]),
        warp_network=cast(WarpingNetwork, networks["warp_network"]),
        decoder=cast(SpadeDecoder, networks["decoder"]),
        stitch_network=cast(StitchingNetwork, networks["stitch_network"]),
        lmdm=cast(MotionDiffusion, networks["lmdm"]),
    )


def build_network(
    name: str, preset: Preset, tensors: Mapping[str, Tensor], *, origin: str | Path, folded: bool = True
) -> nn.Module:
    """One network with its weights, in evaluation mode, without gradients.

    Args:
        name: one of `layout.NETWORKS`.
        preset: its sizes.
        tensors: its weights under the official names; half types are widened to float32.
        origin: what to name in an error.
        folded: whether spectral norm and batch norm become part of the weights.

    Raises:
        CheckpointError: a tensor is missing, too many, or of another shape.
    """
    network = layout.empty_network(name, preset)
    report = layout.compare(network, tensors)
    if not report.fits:
        raise CheckpointError(
            Path(origin), f"{name} does not fit the preset '{preset.name}': {report}", remedy="see `models check`"
        )
    # copies, so that nothing stays tied to a file that is only mapped
    state = {
        key: value.to(torch.promote_types(value.dtype, torch.float32) if value.is_floating_point() else value.dtype)
        for key, value in ((key, value.clone()) for key, value in tensors.items())
    }
    network.load_state_dict(state, strict=True, assign=True)
    network.requires_grad_(False)
    if folded:
        fold(network)
    return network


def recipe_weights(name: str, preset: Preset) -> dict[str, Tensor]:
    """Recipe weights of one network; see `recipe_tensor`."""
    shapes = layout.empty_network(name, preset).state_dict()
    return {key: torch.from_numpy(recipe_tensor(f"{name}/{key}", tuple(v.shape))) for key, v in shapes.items()}


def _folder(source: str | Path) -> layout.ModelFolder | None:
    """The folder of a source; None where recipe weights stand in."""
    if source == MINIATURE_SOURCE and BUNDLED.is_dir():
        source = BUNDLED
    return None if source in _RECIPES else layout.find_models(source)

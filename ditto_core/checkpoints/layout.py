"""The files of a model folder, and whether they fit the networks.

Two layouts are known. The official one holds `ditto_pytorch/models/*.pth`; ours, as `models convert` writes it and as
the bundled miniature has it, holds `config.json` and one .safetensors file a network.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import CheckpointError, InvalidValueError
from ..networks import (
    OFFICIAL,
    AppearanceExtractor,
    MotionDiffusion,
    MotionExtractor,
    Preset,
    SpadeDecoder,
    StitchingNetwork,
    WarpingNetwork,
)
from .tensors import read_tensors, tensors_only

NETWORKS: dict[str, Callable[[Preset], nn.Module]] = {
    "appearance_extractor": AppearanceExtractor,
    "motion_extractor": MotionExtractor,
    "warp_network": WarpingNetwork,
    "decoder": SpadeDecoder,
    "stitch_network": StitchingNetwork,
    "lmdm": MotionDiffusion,
}
"""The networks by the names that the official files and the golden files use."""

OFFICIAL_FILES = {name: f"{name}.pth" for name in NETWORKS} | {"lmdm": "lmdm_v0.4_hubert.pth"}
CONFIG_FILE = "config.json"
MAX_CONFIG_BYTES = 8 << 20

_DOWNLOAD = "get the official files with `python -m ditto_core models fetch`"


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """Where a folder keeps its networks.

    Attributes:
        root: the folder as given.
        layout: "official" or "converted".
        files: the path of each network's file; it may be missing.
        preset: the sizes; for the official layout the condition width is still to be read from the weights.
    """

    root: Path
    layout: str
    files: Mapping[str, Path]
    preset: Preset


@dataclass(frozen=True, kw_only=True)
class KeyReport:
    """How the tensors of a file compare with a network's.

    Attributes:
        missing: names that the network has and the file lacks.
        unexpected: names that only the file has.
        mismatched: name, shape in the file, shape in the network.
    """

    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    mismatched: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...] = field(default=())

    @property
    def fits(self) -> bool:
        """Whether every tensor is there with its shape, and no other."""
        return not (self.missing or self.unexpected or self.mismatched)

    def __str__(self) -> str:
        """The differences in one line, the first of each kind named."""
        parts = []
        if self.missing:
            parts.append(f"{len(self.missing)} missing (first: {self.missing[0]})")
        if self.unexpected:
            parts.append(f"{len(self.unexpected)} unexpected (first: {self.unexpected[0]})")
        if self.mismatched:
            name, found, wanted = self.mismatched[0]
            parts.append(
                f"{len(self.mismatched)} of another shape (first: {name} is {list(found)}, not {list(wanted)})"
            )
        return "; ".join(parts) or "all tensors fit"


def find_models(folder: str | Path) -> ModelFolder:
    """Recognises the layout of a folder.

    Args:
        folder: a converted folder, or the official download: its root, `ditto_pytorch`, or `models` inside that.

    Raises:
        CheckpointError: the folder is missing, holds neither layout, or its configuration is damaged.
    """
    root = Path(folder)
    if not root.is_dir():
        raise CheckpointError(root, "no such folder", remedy=_DOWNLOAD)
    if (root / CONFIG_FILE).is_file():
        files = {name: root / f"{name}.safetensors" for name in NETWORKS}
        return ModelFolder(root=root, layout="converted", files=files, preset=read_preset(root / CONFIG_FILE))
    for place in (root / "ditto_pytorch" / "models", root / "models", root):
        files = {name: place / file for name, file in OFFICIAL_FILES.items()}
        if any(path.is_file() for path in files.values()):
            return ModelFolder(root=root, layout="official", files=files, preset=OFFICIAL)
    raise CheckpointError(
        root, f"holds neither {CONFIG_FILE} nor any of {', '.join(OFFICIAL_FILES.values())}", remedy=_DOWNLOAD
    )


def read_preset(path: Path) -> Preset:
    """The sizes in a converted folder's configuration.

    Raises:
        CheckpointError: the file is too large, no JSON, or no such configuration.
    """
    remedy = "write the folder again with `python -m ditto_core models convert`"
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise CheckpointError(path, f"more than {MAX_CONFIG_BYTES} bytes", remedy=remedy)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Preset.from_json(content["preset"])
    except (ValueError, KeyError, TypeError, RecursionError, InvalidValueError) as error:
        raise CheckpointError(path, f"no configuration of models ({error})", remedy=remedy) from error


def read_network(name: str, path: Path) -> dict[str, Tensor]:
    """The tensors of one network's file under the official names, out of the file's own wrapping.

    Args:
        name: one of NETWORKS.
        path: .pth or .safetensors.

    Raises:
        CheckpointError: see `read_tensors`; or the wrapping is not the official one.
    """
    content = read_tensors(path)
    if path.suffix != ".safetensors":
        content = _unwrap(name, path, content)
    return tensors_only(path, content)


def _unwrap(name: str, path: Path, content: dict[str, Any]) -> dict[str, Any]:
    key = {"lmdm": "model_state_dict", "stitch_network": "retarget_shoulder"}.get(name)
    if key is None:
        return content
    inner = content.get(key)
    if not isinstance(inner, Mapping):
        raise CheckpointError(path, f"no dictionary under '{key}'", remedy=_DOWNLOAD)
    return {str(k).replace("module.", ""): v for k, v in inner.items()}


def with_condition_size(preset: Preset, tensors: Mapping[str, Tensor]) -> Preset:
    """The preset with the condition width of the sampler's weights."""
    weight = tensors.get("cond_projection.weight")
    return preset if weight is None or weight.ndim != 2 else replace(preset, condition_size=int(weight.shape[1]))


def empty_network(name: str, preset: Preset) -> nn.Module:
    """The network without memory for its weights, in evaluation mode."""
    with torch.device("meta"):
        return NETWORKS[name](preset).eval()


def compare(network: nn.Module, tensors: Mapping[str, Tensor]) -> KeyReport:
    """Compares a file's tensors with a network's, by name and shape."""
    wanted = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    found = {key: tuple(value.shape) for key, value in tensors.items()}
    return KeyReport(
        missing=tuple(key for key in wanted if key not in found),
        unexpected=tuple(key for key in found if key not in wanted),
        mismatched=tuple((k, found[k], wanted[k]) for k in wanted if k in found and found[k] != wanted[k]),
    )

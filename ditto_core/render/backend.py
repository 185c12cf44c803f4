"""What draws faces: the interface of all rendering backends, and the plain one in torch."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from ..checkpoints.models import DittoModels
from ..errors import InvalidValueError
from ..networks.layers import wide

BACKENDS = ("torch",)
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class RenderBackend(Protocol):
    """Draws faces in batches of any one size; a renderer always calls with the same."""

    @property
    def device(self) -> torch.device:
        """Where volumes and faces are."""
        ...

    @property
    def executed_by(self) -> str:
        """What really runs, in words, for reports."""
        ...

    def volumes(self, crops: Tensor) -> Tensor:
        """(b, 256, 256, 3) uint8 RGB -> (b, c, d, s, s) appearance volumes on the device."""
        ...

    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """Volumes (b, ...), source and driving key points (b, 21, 3) -> (b, 3, 512, 512) RGB in 0..1."""
        ...


def precision_type(word: str, device: torch.device) -> torch.dtype:
    """The type in which the rendering networks shall be loaded.

    Args:
        word: auto, fp32, fp16 or bf16. "auto" is fp16 on a GPU, as in the original, and fp32 on a CPU.
        device: where they shall run.

    Raises:
        InvalidValueError: the word is none of these, or fp16 is asked for on a CPU.
    """
    if word == "auto":
        word = "fp16" if device.type == "cuda" else "fp32"
    if word not in PRECISIONS:
        raise InvalidValueError(f"precision {word!r}", remedy=f"choose auto, {', '.join(PRECISIONS)}")
    if word == "fp16" and device.type == "cpu":
        raise InvalidValueError("precision fp16 on a CPU, where it takes minutes a frame", remedy="choose fp32 or bf16")
    return PRECISIONS[word]


def choose_backend(word: str, models: DittoModels) -> RenderBackend:
    """The backend of a name.

    Args:
        word: "auto" or one of `BACKENDS`; "auto" is torch, which every device has.
        models: the networks that it shall run.

    Raises:
        InvalidValueError: this version has no backend of that name.
    """
    if word != "auto" and word not in BACKENDS:
        raise InvalidValueError(f"backend {word!r}", remedy=f"choose auto or {', '.join(BACKENDS)}")
    return TorchBackend(models)


class TorchBackend:
    """The networks as they are, run by torch."""

    def __init__(self, models: DittoModels) -> None:
        self._models = models
        if models.device.type == "cpu":
            _order_for_cpu(models)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self._models.device

    @property
    def executed_by(self) -> str:
        """The backend's name, the device and the type."""
        models = self._models
        name = torch.cuda.get_device_name(models.device) if models.device.type == "cuda" else "CPU"
        return f"torch on {name}, {str(models.dtype).removeprefix('torch.')}"

    @torch.inference_mode()
    def volumes(self, crops: Tensor) -> Tensor:
        """See `RenderBackend`."""
        pictures = crops.to(self.device).permute(0, 3, 1, 2).to(torch.float32) / 255
        # volumes in plain order are sampled faster than channels-last ones
        return self._models.appearance_extractor(pictures.to(self._models.dtype)).contiguous()

    @torch.inference_mode()
    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """See `RenderBackend`."""
        points = wide(self._models.dtype)
        feature = self._models.warp_network(f_s, x_s.to(self.device, points), x_d.to(self.device, points))
        return self._models.decoder(feature)


def _order_for_cpu(models: DittoModels) -> None:
    """Reorders weights in memory, not in value: a channels-last decoder takes a third less time on a CPU.

    The 3-D convolutions gain only in the appearance extractor; the warping network is as fast in plain order.
    """
    for network in (models.appearance_extractor, models.warp_network, models.decoder):
        _reorder(network, nn.Conv2d, torch.channels_last)
    _reorder(models.appearance_extractor, nn.Conv3d, torch.channels_last_3d)


def _reorder(network: nn.Module, kind: type[nn.Conv2d | nn.Conv3d], order: torch.memory_format) -> None:
    for module in network.modules():
        if isinstance(module, kind):
            module.weight.data = module.weight.data.contiguous(memory_format=order)

"""The networks run by torch, operation by operation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..checkpoints.models import DittoModels
from ..networks.fused import FusedWarpDecode
from ..networks.layers import wide
from .backend import Progress, device_name
from .source import PreparedSource


class TorchBackend:
    """The networks run by torch: as they are on a GPU, fused on a CPU.

    On a GPU the fused networks pay only when compiled.

    Args:
        models: the networks.
        reason: why torch runs them, where something else was preferred.
    """

    def __init__(self, models: DittoModels, reason: str = "") -> None:
        self._models = models
        self._reason = reason
        self._points = wide(models.dtype)
        self._fused: FusedWarpDecode | None = None
        if models.device.type == "cpu":
            self._fused = FusedWarpDecode(models.warp_network, models.decoder)
            self._prepare = PreparedSource(self._fused.warp)
            _order_for_cpu(models, self._fused)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self._models.device

    @property
    def executed_by(self) -> str:
        """The backend's name, the device, the type, and the reason where there is one."""
        kind = str(self._models.dtype).removeprefix("torch.")
        return f"torch on {device_name(self.device)}, {kind}" + (f"; {self._reason}" if self._reason else "")

    def warm_up(self, batch: int, progress: Progress | None = None) -> None:
        """Nothing has to be made ready."""

    @torch.inference_mode()
    def volumes(self, crops: Tensor) -> Tensor:
        """See `RenderBackend`."""
        return appearance_volumes(self._models, crops)

    @torch.inference_mode()
    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """See `RenderBackend`."""
        x_s, x_d = x_s.to(self.device, self._points), x_d.to(self.device, self._points)
        if self._fused is None:
            return self._models.decoder(self._models.warp_network(f_s, x_s, x_d))
        prepared, _ = self._prepare(f_s)
        return self._fused.draw(*prepared, x_s, x_d)

    def close(self) -> None:
        """Forgets the last source."""
        if self._fused is not None:
            self._prepare.clear()


def appearance_volumes(models: DittoModels, crops: Tensor) -> Tensor:
    """As `RenderBackend.volumes`, run by torch."""
    pictures = crops.to(models.device).permute(0, 3, 1, 2).to(torch.float32) / 255
    # volumes in plain order are sampled faster than channels-last ones
    return models.appearance_extractor(pictures.to(models.dtype)).contiguous()


def _order_for_cpu(models: DittoModels, fused: FusedWarpDecode) -> None:
    """Reorders weights in memory, not in value: channels-last 2-D convolutions take a third less time on a CPU.

    The 3-D convolutions gain only in the appearance extractor; the warping network is as fast in plain order.
    """
    for network in (models.appearance_extractor, fused):
        _reorder(network, nn.Conv2d, torch.channels_last)
    _reorder(models.appearance_extractor, nn.Conv3d, torch.channels_last_3d)


def _reorder(network: nn.Module, kind: type[nn.Conv2d | nn.Conv3d], order: torch.memory_format) -> None:
    for module in network.modules():
        if isinstance(module, kind):
            module.weight.data = module.weight.data.contiguous(memory_format=order)

"""The networks as they are, run by torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..checkpoints.models import DittoModels
from ..networks.layers import wide


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

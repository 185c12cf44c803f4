"""The networks run by torch, operation by operation."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checkpoints.models import DittoModels
from ..networks.fused import FusedWarpDecode
from ..networks.layers import wide
from ..progress import Steps
from .backend import device_name
from .inductor import channels_last
from .source import PreparedSource


class TorchBackend:
    """The networks run by torch: as they are on a GPU, fused on a CPU.

    On a GPU the fused networks pay only when compiled. On a CPU the models' weights are reordered in memory, not in
    value: convolutions become channels-last.

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
            # a third less time on a CPU; the warping network's 3-D convolutions are as fast in plain order
            channels_last(models.appearance_extractor)
            channels_last(self._fused, volumes=False)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self._models.device

    @property
    def executed_by(self) -> str:
        """The backend's name, the device, the type, and the reason where there is one."""
        kind = str(self._models.dtype).removeprefix("torch.")
        return f"torch on {device_name(self.device)}, {kind}" + (f"; {self._reason}" if self._reason else "")

    def warm_up(self, batch: int, progress: Steps | None = None) -> None:
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

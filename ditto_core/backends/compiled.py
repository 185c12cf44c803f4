"""The fused networks, compiled by Inductor and run as one CUDA graph a batch size."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from ..checkpoints.models import DittoModels
from ..networks.fused import FusedWarpDecode
from ..networks.fused_warp import WarpLayout
from ..networks.layers import wide
from ..networks.presets import KEYPOINTS
from ..progress import Steps
from .backend import device_name
from .cuda_graph import CapturedCall, Turns, fast_kernels
from .eager import appearance_volumes
from .inductor import channels_last, compile_function
from .source import PreparedSource

GPU_LAYOUT = WarpLayout(align=8, gather=True, mask_parts=(6, 1))
"""For matrix units: whole groups of 8 channels; 126 of the mask's 147 depth taps and outputs fill one tile of 128."""
CPU_LAYOUT = WarpLayout()
_STAGES = 2


class CompiledBackend:
    """The fused networks, compiled for each batch size that is asked for.

    A batch size that `warm_up` did not see is compiled at its first use, which takes minutes at the official size.
    The weights of warping network and decoder, which other backends of these models share, are reordered in memory,
    not in value: their convolutions become channels-last.

    Args:
        models: the networks.
        autotune: whether to try several kernels for each product and convolution; the warm-up then takes much longer.
    """

    def __init__(self, models: DittoModels, *, autotune: bool = False) -> None:
        self._models = models
        self._autotune = autotune
        self._points = wide(models.dtype)
        layout = GPU_LAYOUT if models.device.type == "cuda" else CPU_LAYOUT
        self._network = FusedWarpDecode(models.warp_network, models.decoder, layout)
        channels_last(self._network)
        self._runs: dict[int, _Run] = {}
        self._lock = threading.Lock()  # a run has one set of inputs
        self._turns = Turns(models.device)

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return self._models.device

    @property
    def executed_by(self) -> str:
        """The backend's name, the device and the type."""
        graphs = ", CUDA graphs" if self.device.type == "cuda" else ""
        kind = str(self._models.dtype).removeprefix("torch.")
        return f"compiled (torch {torch.__version__} Inductor{graphs}) on {device_name(self.device)}, {kind}"

    def warm_up(self, batch: int, progress: Steps | None = None) -> None:
        """Compiles and captures one batch size; the tool chain runs in processes of its own.

        Args:
            batch: faces drawn at once.
            progress: called with (stages done, all stages).

        Raises:
            BackendError: there is no tool chain, or it fails.
        """
        with self._lock, self._turns.next():
            self._run(batch, progress)

    @torch.inference_mode()
    def volumes(self, crops: Tensor) -> Tensor:
        """See `RenderBackend`."""
        return appearance_volumes(self._models, crops)

    @torch.inference_mode()
    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """See `RenderBackend`."""
        with self._lock, self._turns.next():
            return self._run(len(x_d))(f_s, x_s.to(self.device, self._points), x_d.to(self.device, self._points))

    def close(self) -> None:
        """Gives compiled code, graphs and their memory back; a later call compiles anew."""
        with self._lock:
            for run in self._runs.values():
                run.close()
            self._runs.clear()

    def _run(self, batch: int, progress: Steps | None = None) -> _Run:
        if batch not in self._runs:
            tell = progress or (lambda done, total: None)
            tell(0, _STAGES)
            self._runs[batch] = _Run(self._network, self._examples(batch), autotune=self._autotune, tell=tell)
        return self._runs[batch]

    def _examples(self, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        preset, device = self._models.preset, self.device
        volume = (preset.volume_channels, preset.volume_depth, preset.volume_size, preset.volume_size)
        f_s = torch.rand((batch, *volume), device=device).to(self._models.dtype)
        x_s, x_d = (torch.rand((batch, KEYPOINTS, 3), device=device, dtype=self._points) - 0.5 for _ in range(2))
        return f_s, x_s, x_d


class _Run:
    """The network compiled for one batch size, with inputs of its own."""

    def __init__(
        self,
        network: FusedWarpDecode,
        examples: tuple[Tensor, Tensor, Tensor],
        *,
        autotune: bool,
        tell: Steps,
    ) -> None:
        f_s, *points = examples
        self._prepare = PreparedSource(network.warp)
        self._captured: CapturedCall | None = None
        with torch.no_grad(), fast_kernels(tf32=False):
            self._inputs = (*network.warp.prepare(f_s), *points)
            self._draw = compile_function(network.draw, self._inputs, autotune=autotune)
            tell(1, _STAGES)
            if f_s.is_cuda:
                self._captured = CapturedCall(lambda: self._draw(*self._inputs), f_s.device)
        tell(_STAGES, _STAGES)

    def __call__(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        prepared, changed = self._prepare(f_s)
        given = (*prepared, x_s, x_d) if changed else (x_s, x_d)
        own = self._inputs if changed else self._inputs[2:]
        for place, value in zip(own, given, strict=True):
            place.copy_(value)
        return self._draw(*self._inputs) if self._captured is None else self._captured.replay().clone()

    def close(self) -> None:
        if self._captured is not None:
            self._captured.close()
        self._captured = None
        self._prepare.clear()
        self._inputs = ()

"""The sampler of motion windows, with all work that steps share done once; `sample_window` is its plain form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..backends.cuda_graph import CapturedCall, fast_kernels
from ..networks import MotionDiffusion
from ..networks.fused_motion import FusedDenoiser
from ..networks.layers import wide
from ..networks.presets import MOTION_SIZE, WINDOW_ROWS
from .diffusion import GUIDANCE, Schedule, schedule

Optimise = Callable[[Callable[..., Tensor], tuple[Tensor, ...]], Callable[..., Tensor]]
"""Turns a function of tensors into a faster one, given examples of its arguments."""


@dataclass(kw_only=True)
class _Buffers:
    """What a step reads and writes; a CUDA graph wants it always at the same place."""

    x: Tensor
    fresh: Tensor
    drawn: Tensor  # (steps, b, 80, 265) on the CPU: noise that is still on its way
    step: Tensor
    start: Tensor
    memory: Tensor
    moments: Tensor
    films: Tensor


class FusedSampler:
    """Draws motion windows; on a GPU, each step is one CUDA graph. Not for use by two threads at once.

    Args:
        network: the denoiser.
        steps: 1 to 1000.
        guidance: weight of classifier-free guidance; 1 means none.
        dtype: type of the matrix products; by default the network's own.
        tf32: whether a GPU may round the operands of float32 products to TF32.
        optimise: compiles a step.

    Raises:
        InvalidValueError: the number of steps is out of range.
    """

    def __init__(
        self,
        network: MotionDiffusion,
        *,
        steps: int,
        guidance: float = GUIDANCE,
        dtype: torch.dtype | None = None,
        tf32: bool = True,
        optimise: Optimise | None = None,
    ) -> None:
        weight = network.final_layer.weight
        plan = schedule(steps)
        self._device, self._type = weight.device, wide(weight.dtype)
        self._steps, self._guidance, self._tf32, self._optimise = plan.steps, guidance, tf32, optimise
        self._denoiser = FusedDenoiser(network, dtype)
        self._times = torch.from_numpy(plan.times.copy()).to(self._device)
        self._factors = step_factors(plan).to(self._device, self._type)
        self._buffers: _Buffers | None = None
        self._function = self._estimate
        self._captured: CapturedCall | None = None

    @torch.inference_mode()
    def __call__(
        self,
        condition: Tensor,
        start: Tensor,
        noise: Iterator[Tensor],
        check_cancelled: Callable[[], None] | None = None,
    ) -> Tensor:
        """Draws the motion of one window; arguments and result as of `sample_window`."""
        buffers = self._filled(condition, start)
        buffers.x[..., :MOTION_SIZE].copy_(next(noise))
        for i in range(self._steps):
            if check_cancelled is not None:
                check_cancelled()
            if i < self._steps - 1:
                drawn = buffers.drawn[i].copy_(next(noise))
                buffers.fresh[..., :MOTION_SIZE].copy_(drawn, non_blocking=True)
            if self._captured is None:
                self._advance(buffers)
            else:
                self._captured.replay()
        return buffers.x[..., :MOTION_SIZE].clone()

    def close(self) -> None:
        """Gives graph and buffers back; the next call makes them anew."""
        if self._captured is not None:
            self._captured.close()
        self._captured = self._buffers = None
        self._function = self._estimate

    def _filled(self, condition: Tensor, start: Tensor) -> _Buffers:
        """The buffers with a window's tables in place."""
        window, steps = self._denoiser.tables(condition, start, self._times)
        held = self._buffers
        if held is None or len(held.x) != len(condition):
            self.close()
            shape = (self._steps, len(condition), WINDOW_ROWS, MOTION_SIZE)
            x = torch.zeros(len(condition), WINDOW_ROWS, self._denoiser.row, device=self._device, dtype=self._type)
            first = torch.zeros(1, dtype=torch.long, device=self._device)
            held = _Buffers(
                x=x,
                fresh=torch.zeros_like(x),
                drawn=torch.empty(shape, dtype=self._type, pin_memory=self._device.type == "cuda"),
                step=first,
                start=window.start,
                memory=window.memory,
                moments=steps.memory,
                films=steps.films,
            )
            self._buffers = held
            self._prepare(held)
        else:
            held.start.copy_(window.start)
            held.memory.copy_(window.memory)
            held.moments.copy_(steps.memory)
            held.films.copy_(steps.films)
        held.step.zero_()
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()  # the last window has read its noise
        return held

    def _prepare(self, buffers: _Buffers) -> None:
        """Compiles a step where asked for, and captures it on a GPU."""
        with fast_kernels(tf32=self._tf32):
            if self._optimise is not None:
                examples = buffers.x, buffers.fresh, self._factors[0], buffers.start, buffers.memory, buffers.films[0]
                self._function = self._optimise(self._estimate, examples)
            if self._device.type == "cuda":
                self._captured = CapturedCall(lambda: self._advance(buffers), self._device)
        buffers.x.zero_()  # trial steps ran on it; what lies beyond a row's 265 values must be zero

    def _advance(self, buffers: _Buffers) -> Tensor:
        """One step, from x to x."""
        films, moments, factors = (
            table.index_select(0, buffers.step)[0] for table in (buffers.films, buffers.moments, self._factors)
        )
        buffers.memory[..., WINDOW_ROWS:, :].copy_(moments)
        x = self._function(buffers.x, buffers.fresh, factors, buffers.start, buffers.memory, films)
        buffers.step.add_(1).remainder_(self._steps)
        return buffers.x.copy_(x)

    def _estimate(
        self, x: Tensor, fresh: Tensor, factors: Tensor, start: Tensor, memory: Tensor, films: Tensor
    ) -> Tensor:
        clean = self._denoiser.step(x, start, memory, films, self._guidance)
        return factors[0] * clean + factors[1] * x + factors[2] * fresh


def step_factors(plan: Schedule) -> Tensor:
    """(S, 3) float64 factors of the clean estimate, of x and of fresh noise in each step's next x.

    The estimated noise is put into the step: sqrt(a') clean + c (sqrt(1/(1-a)) x - clean / sqrt(1/a - 1)) + sigma z.
    """
    a = plan.signal
    clean = plan.next_signal - plan.direction / np.sqrt(1 / a - 1)
    return torch.from_numpy(np.stack([clean, plan.direction / np.sqrt(1 - a), plan.sigma], axis=1))

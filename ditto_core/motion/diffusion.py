"""The diffusion schedule and the sampler of motion windows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InvalidValueError
from ..networks import MotionDiffusion
from ..networks.presets import MOTION_SIZE, WINDOW_ROWS

TIMES = 1000
GUIDANCE = 2.0

Array = NDArray[np.float64]


@lru_cache(maxsize=1)
def alphas_cumprod() -> Array:
    """(1000,) cumulative signal power of the cosine schedule (arXiv:2102.09672, eq. 17), s = 0.008, float64."""
    s = 0.008
    t = np.arange(TIMES + 1) / TIMES
    signal = np.cos((t + s) / (1 + s) * (math.pi / 2)) ** 2
    betas = np.clip(1 - signal[1:] / signal[:-1], 0, 0.999)
    return np.cumprod(1 - betas)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The coefficients of a DDIM run with eta = 1 (arXiv:2010.02502, eq. 12 and 16).

    Attributes:
        times: (S,) diffusion times, falling from 999.
        signal: (S,) cumulative signal power a at each time.
        next_signal: (S,) sqrt(a') of the next time; 1 at the last, where x is the estimate itself.
        direction: (S,) c, the share of the estimated noise that is kept.
        sigma: (S,) standard deviation of the fresh noise.
    """

    times: NDArray[np.int64]
    signal: Array
    next_signal: Array
    direction: Array
    sigma: Array

    @property
    def steps(self) -> int:
        """Number of network evaluations."""
        return len(self.times)


@lru_cache(maxsize=16)
def schedule(steps: int) -> Schedule:
    """The schedule of a number of steps.

    c is computed as sqrt(a (1-a')^2 / (a' (1-a))), which equals sqrt(1 - a' - sigma^2) without its cancellation:
    in float32 that difference is rounding noise at the first step, and negative at some step counts.

    Args:
        steps: 1 to 1000.

    Raises:
        InvalidValueError: the number is out of range.
    """
    if not 1 <= steps <= TIMES:
        raise InvalidValueError(f"{steps} sampler steps", remedy=f"choose 1 to {TIMES}")
    points = np.linspace(-1, TIMES - 1, steps + 1).astype(np.int64)[::-1]
    signal_at = np.append(alphas_cumprod(), 1.0)  # time -1, the last entry, is the clean motion
    a, following = signal_at[points[:-1]], signal_at[points[1:]]
    return Schedule(
        times=points[:-1],
        signal=a,
        next_signal=np.sqrt(following),
        direction=np.sqrt(a / following / (1 - a)) * (1 - following),
        sigma=np.sqrt((1 - a / following) * (1 - following) / (1 - a)),
    )


def estimated_noise(x: Tensor, clean: Tensor, signal: float) -> Tensor:
    """The noise in x, if its clean motion is `clean`: sqrt(1/(1-a)) x - clean / sqrt(1/a - 1)."""
    return math.sqrt(1 / (1 - signal)) * x - clean / math.sqrt(1 / signal - 1)


def seeded_generator(kind: str, seed: int, number: int) -> torch.Generator:
    """A generator on the CPU that depends on the three values alone."""
    digest = hashlib.sha256(f"ditto-live {kind} noise|{seed}|{number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))


def window_noise(seed: int, window: int, *, dtype: torch.dtype = torch.float32) -> Iterator[Tensor]:
    """Noise of one window, on the CPU: first the starting x, then one draw for each step.

    It depends on the seed and the window's number alone, never on device, thread or what was drawn before.

    Yields:
        (1, 80, 265) standard normal values, without end.
    """
    generator = seeded_generator("window", seed, window)
    while True:
        yield torch.randn((1, WINDOW_ROWS, MOTION_SIZE), generator=generator, dtype=dtype)


@torch.inference_mode()
def sample_window(
    network: MotionDiffusion,
    condition: Tensor,
    start: Tensor,
    noise: Iterator[Tensor],
    *,
    steps: int,
    guidance: float = GUIDANCE,
    check_cancelled: Callable[[], None] | None = None,
) -> Tensor:
    """Draws the motion of one window.

    Args:
        network: the denoiser.
        condition: (b, 80, condition_size) condition rows.
        start: (b, 265) motion of the row before the window.
        noise: as `window_noise` gives: the starting x (b, 80, 265), then one array for each step but the last.
        steps: 1 to 1000.
        guidance: weight of classifier-free guidance; 1 means none.
        check_cancelled: called before each step; raises to stop.

    Returns:
        (b, 80, 265) motion vectors, of the noise's type.
    """
    plan = schedule(steps)
    encoded = network.encode(condition)
    x = next(noise).to(condition.device)
    for i in range(plan.steps):
        if check_cancelled is not None:
            check_cancelled()
        time = torch.full((len(x),), int(plan.times[i]), device=x.device)
        clean = network.guided(x, start, encoded, time, guidance).to(x.dtype)
        if i == plan.steps - 1:
            return clean
        x = (
            float(plan.next_signal[i]) * clean
            + float(plan.direction[i]) * estimated_noise(x, clean, float(plan.signal[i]))
            + float(plan.sigma[i]) * next(noise).to(x.device)
        )
    raise AssertionError("a schedule has at least one step")

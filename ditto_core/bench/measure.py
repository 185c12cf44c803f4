"""Time, work and difference: what the suites measure."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

_WARM_UP = 3
_Call = Callable[[], Any]
_LAYERS = (nn.Conv2d, nn.Conv3d, nn.Conv1d, nn.Linear)


def milliseconds(call: _Call, device: torch.device, *, rounds: int | None = None) -> dict[str, Any]:
    """The time of one call: median, and 10th and 90th percentile.

    On a GPU each round lies between two events; elsewhere the clock is read.

    Args:
        call: what to time. It runs a few times before.
        device: where it runs.
        rounds: how often; by default 30 on a GPU and 5 on a CPU.
    """
    rounds = rounds or (30 if device.type == "cuda" else 5)
    for _ in range(min(_WARM_UP, rounds)):
        call()
    times = _gpu_times(call, rounds) if device.type == "cuda" else _cpu_times(call, rounds)
    times.sort()
    return {
        "ms": round(statistics.median(times), 4),
        "ms_p10": round(times[len(times) // 10], 4),
        "ms_p90": round(times[-1 - len(times) // 10], 4),
        "rounds": rounds,
    }


def _gpu_times(call: _Call, rounds: int) -> list[float]:
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(rounds)]
    torch.cuda.synchronize()
    for before, after in events:
        before.record()
        call()
        after.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in events]


def _cpu_times(call: _Call, rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def ceilings(device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """What the device reaches: a large matrix product of random numbers, and a large copy (bytes read and written)."""
    size, copied = (8192, 1 << 31) if device.type == "cuda" else (1024, 1 << 26)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    product = milliseconds(lambda: a @ b, device, rounds=10)["ms"]
    source = torch.empty(copied, device=device, dtype=torch.uint8).random_()
    target = torch.empty_like(source)
    copy = milliseconds(lambda: target.copy_(source), device, rounds=10)["ms"]
    return {
        "matmul_tflops": round(2 * size**3 / product * 1e-9, 2),
        "copy_gb_per_s": round(2 * copied / copy * 1e-6, 1),
        "matmul_size": size,
        "dtype": type_name(dtype),
    }


def work(network: nn.Module, call: _Call) -> dict[str, Any]:
    """What one call does: floating-point operations, and the bytes of the layers' inputs, outputs and weights.

    The bytes are those that convolutions and linear layers must move if nothing between two of them is stored.

    Args:
        network: the module whose layers are counted.
        call: runs it once.
    """
    moved = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal moved
        tensors = [inputs[0], output, *module.parameters(recurse=False)]
        moved += sum(t.numel() * t.element_size() for t in tensors)

    hooks = [m.register_forward_hook(count) for m in network.modules() if isinstance(m, _LAYERS)]
    try:
        with FlopCounterMode(display=False) as counter:
            call()
    finally:
        for hook in hooks:
            hook.remove()
    return {"gflop": round(counter.get_total_flops() * 1e-9, 2), "mbytes": round(moved * 1e-6, 1)}


def shares(result: dict[str, Any], ceiling: dict[str, Any] | None) -> dict[str, Any]:
    """Rates, and how near they come to the device's: of a result with `ms`, `gflop` and `mbytes`."""
    rates: dict[str, Any] = {"tflops": round(result["gflop"] / result["ms"], 3)}
    if ceiling is not None:
        product_ms = result["gflop"] / ceiling["matmul_tflops"]
        moving_ms = result["mbytes"] / ceiling["copy_gb_per_s"]
        rates["matmul_share"] = round(product_ms / result["ms"], 3)
        rates["products_ms"], rates["moving_ms"] = round(product_ms, 3), round(moving_ms, 3)
    return rates


def picture_difference(found: Tensor, wanted: Tensor) -> dict[str, Any]:
    """PSNR in dB of pictures in 0..1, and the largest difference."""
    difference = found.double() - wanted.double()
    mean = float(difference.square().mean())
    return {
        "psnr_db": round(-10 * math.log10(mean), 2) if mean else None,
        "largest_difference": float(difference.abs().max()),
        "finite": bool(torch.isfinite(found).all()),
    }


def relative_l2(found: Tensor, wanted: Tensor) -> float:
    """|found - wanted| / |wanted|."""
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


def type_name(dtype: torch.dtype) -> str:
    """float16, say."""
    return str(dtype).removeprefix("torch.")


def memory_mb(device: torch.device) -> float | None:
    """Memory that torch's tensors and graphs take on a GPU."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return round(torch.cuda.memory_reserved(device) / 2**20, 1)

"""Where time goes: kernel by kernel as the profiler sees them, and convolution by convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..backends.cuda_graph import CapturedCall
from .measure import milliseconds

_MOST = 25
_Convolution = nn.Conv2d | nn.Conv3d


def kernel_times(call: Callable[[], Any], device: torch.device) -> list[dict[str, Any]]:
    """The kernels of one call that take longest: name, how often, and milliseconds in all."""
    on_gpu = device.type == "cuda"
    activity = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU
    call()
    with torch.profiler.profile(activities=[activity]) as profile:
        call()
        if on_gpu:
            torch.cuda.synchronize()
    times = []
    for event in profile.key_averages():
        spent = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        if spent:
            times.append({"kernel": event.key[:120], "count": event.count, "ms": round(spent * 1e-3, 4)})
    return sorted(times, key=lambda entry: -entry["ms"])[:_MOST]


def convolutions(network: nn.Module, call: Callable[[], Any], device: torch.device) -> list[dict[str, Any]]:
    """Each shape of convolution in a network, alone and captured: how often it occurs, time, and rate.

    Args:
        network: its convolutions are measured with random inputs of the shapes that they get.
        call: runs the network once.
        device: where it runs.
    """
    seen: dict[str, tuple[_Convolution, Tensor, int]] = {}

    def note(module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        key = f"{tuple(inputs[0].shape)} * {tuple(module.weight.shape)}"
        before = seen.get(key)
        seen[key] = (module, inputs[0], 1 + (before[2] if before else 0))

    hooks = [m.register_forward_hook(note) for m in network.modules() if isinstance(m, _Convolution)]
    try:
        call()
    finally:
        for hook in hooks:
            hook.remove()
    found = [_measured(key, *entry, device) for key, entry in seen.items()]
    return sorted(found, key=lambda entry: -entry["ms"] * entry["count"])


def _measured(key: str, conv: _Convolution, x: Tensor, count: int, device: torch.device) -> dict[str, Any]:
    order = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
    x = torch.randn_like(x).contiguous(memory_format=order)
    output = conv(x)
    gflop = 2e-9 * output.numel() * conv.weight[0].numel()
    if device.type != "cuda":
        times = milliseconds(lambda: conv(x), device, rounds=2)
    else:
        captured = CapturedCall(lambda: conv(x), device)
        times = milliseconds(captured.replay, device, rounds=10)
        captured.close()
    return {
        "shape": key,
        "count": count,
        "ms": times["ms"],
        "gflop": round(gflop, 2),
        "tflops": round(gflop / times["ms"], 2),
    }

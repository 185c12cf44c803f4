"""Calls captured in CUDA graphs: all kernels of a function, launched at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

PROCESS_SETTINGS = threading.RLock()
"""Held by who changes settings of the process for a while; another thread waits until they are set back."""

_WARM_UP = 3


class CapturedCall:
    """A function that reads and writes tensors of its own, captured in a CUDA graph.

    Args:
        function: without arguments; it gives one tensor and does nothing that a graph can't hold. It runs a few times
            before it is captured.
        device: the CUDA device of its tensors.
    """

    def __init__(self, function: Callable[[], Tensor], device: torch.device) -> None:
        self._device = device
        self._graph: torch.cuda.CUDAGraph | None = torch.cuda.CUDAGraph()
        with torch.cuda.device(device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP):
                    function()
            torch.cuda.current_stream().wait_stream(stream)
            # other threads may go on using the device
            with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
                self._output: Tensor | None = function()

    def replay(self) -> Tensor:
        """Runs the function's kernels; the next run overwrites the result."""
        if self._graph is None or self._output is None:
            raise RuntimeError("this call was closed")
        self._graph.replay()
        return self._output

    def close(self) -> None:
        """Gives the graph's memory back; the object can't be used any more."""
        if self._graph is not None:
            torch.cuda.synchronize(self._device)
            self._graph.reset()
        self._graph = self._output = None


class Turns:
    """Lets uses of the same tensors follow each other on the GPU, on whatever streams they are queued.

    A lock keeps calls apart only while they are queued. Take the turn while you hold it.

    Args:
        device: of the tensors; elsewhere than on CUDA there is nothing to wait for.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._last: torch.cuda.Event | None = None

    @contextmanager
    def next(self) -> Iterator[None]:
        """What is queued within it on the current stream begins when the turn before has ended."""
        if self._device.type != "cuda":
            yield
            return
        stream = torch.cuda.current_stream(self._device)
        if self._last is not None:
            stream.wait_event(self._last)
        try:
            yield
        finally:
            self._last = stream.record_event()


@contextmanager
def fast_kernels(*, tf32: bool) -> Iterator[None]:
    """Within it, convolutions take the fastest kernels that measuring finds, and float32 products may use TF32.

    What is captured in a graph keeps its kernels. The settings are the process's; they are set back at the end.
    One thread at a time is within it.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    with PROCESS_SETTINGS:
        before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = tf32, tf32, True
        try:
            yield
        finally:
            matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before

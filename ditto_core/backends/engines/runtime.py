"""Running an engine on a GPU: torch's tensors bound by address, on the caller's stream, in CUDA graphs."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import FileError, InvalidValueError
from ..cuda_graph import CapturedCall, Turns
from .bindings import Messages
from .spec import BUILD_IT, EngineError, EngineSpec
from .store import write_own

_log = logging.getLogger(__name__)

_OUTPUT = "image"
_LARGEST_CACHE = 2**30
_DIGEST = 32


class Cut(NamedTuple):
    """A part of a chunk: its first row, its rows, and the batch in which they run."""

    start: int
    rows: int
    size: int


def cuts(count: int, sizes: Sequence[int]) -> list[Cut]:
    """Cuts a chunk of any length into batches of given sizes; the last may have to be padded.

    Args:
        count: rows of the chunk.
        sizes: batch sizes, rising.
    """
    found, start, most = [], 0, sizes[-1]
    while start < count:
        rows = min(count - start, most)
        found.append(Cut(start, rows, next(size for size in sizes if size >= rows)))
        start += rows
    return found


def run_in_batches(
    inputs: Sequence[Tensor], sizes: Sequence[int], run: Callable[[tuple[Tensor, ...]], Tensor]
) -> Tensor:
    """Runs a chunk of any length in batches of given sizes.

    Args:
        inputs: with the same number of rows, at least 1.
        sizes: batch sizes, rising.
        run: takes inputs of one of the sizes; its result is not changed by later calls.

    Returns:
        The results of all rows. Rows that filled up a batch are cut off.
    """
    counts = {len(value) for value in inputs}
    if len(counts) != 1 or counts == {0}:
        raise InvalidValueError(f"inputs of {sorted(counts)} rows", remedy="give the same number, at least 1")
    parts = []
    for start, rows, size in cuts(counts.pop(), sizes):
        batch = tuple(_padded(value[start : start + rows], size) for value in inputs)
        parts.append(run(batch)[:rows])
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _padded(rows: Tensor, size: int) -> Tensor:
    if len(rows) == size:
        return rows
    return torch.cat([rows, rows[-1:].expand(size - len(rows), *rows.shape[1:])])


@dataclass
class _Captured:
    """One batch size in a CUDA graph, with the tensors whose addresses are in it."""

    call: CapturedCall
    context: Any
    inputs: tuple[Tensor, ...]


class EngineSession:
    """An engine, open on a GPU.

    Args:
        library: the module that built it.
        data: the engine, checked against its side file.
        spec: its part and batch.
        device: the GPU.
        cache: where the library keeps kernels that it compiles at run time (tensorrt_rtx); None keeps none.

    Raises:
        EngineError: the library does not open it, or it has other inputs than its part.
    """

    def __init__(
        self, library: Any, data: bytes, spec: EngineSpec, device: torch.device, *, cache: Path | None = None
    ) -> None:
        self._library, self._spec, self._device = library, spec, device
        self._messages = Messages(library)
        with torch.cuda.device(device):
            runtime = library.Runtime(self._messages.logger)
            runtime.engine_host_code_allowed = False
            self._engine = runtime.deserialize_cuda_engine(data)
            if self._engine is None:
                raise EngineError(
                    f"{library.__name__} {library.__version__} opens no such engine ({self._messages.last_error()})",
                    remedy=BUILD_IT,
                )
            self._types = self._checked_types()
            # one scratch memory for all contexts: they run one after the other
            self._scratch = torch.empty(self._engine.device_memory_size_v2, dtype=torch.uint8, device=device)
            self._kernels = _KernelCache(self._engine, cache)
            self._loose = self._new_context()
        self._captured: dict[int, _Captured] = {}
        self._lock = threading.Lock()  # contexts share their memory, and a graph has one set of inputs
        self._turns = Turns(device)

    def warm_up(self, batch: int) -> None:
        """Captures a batch size in a CUDA graph. From then on, chunks of any length run in captured sizes only.

        Args:
            batch: faces at once; brought into the engine's range.

        Raises:
            EngineError: the library refuses, or the session is closed.
        """
        size = min(max(batch, self._spec.batch[0]), self._spec.batch[2])
        with self._turn():
            if size not in self._captured:
                self._captured[size] = self._capture(size)
                self._kernels.save()

    @torch.inference_mode()
    def __call__(self, *inputs: Tensor) -> Tensor:
        """Runs a chunk of any length on the current stream, after those of other streams.

        Args:
            inputs: as `EngineSpec.inputs` names them, on the device, of any floating type.

        Returns:
            (b, 3, 512, 512) RGB in 0..1.

        Raises:
            InvalidValueError: the inputs have different numbers of rows, or none.
            EngineError: the library refuses, or the session is closed.
        """
        typed = [
            value.to(self._device, self._types[name]) for name, value in zip(self._spec.inputs, inputs, strict=True)
        ]
        least, _, most = self._spec.batch
        with self._turn():
            return run_in_batches(typed, sorted(self._captured) or range(least, most + 1), self._run)

    def close(self) -> None:
        """Gives back all memory. The session can't run any more."""
        with self._lock:
            for captured in self._captured.values():
                captured.call.close()
            self._captured.clear()
            for name in ("_loose", "_kernels", "_engine", "_scratch"):
                setattr(self, name, None)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock, self._turns.next():
            if self._engine is None:
                raise EngineError("a closed engine", remedy="open it again")
            yield

    def _run(self, batch: tuple[Tensor, ...]) -> Tensor:
        captured = self._captured.get(len(batch[0]))
        if captured is None:
            output = self._new_output(len(batch[0]))
            # torch keeps the memory of these rows for this stream until they are read
            self._enqueue(self._loose, tuple(value.contiguous() for value in batch), output)
            return output
        for place, value in zip(captured.inputs, batch, strict=True):
            place.copy_(value)
        return captured.call.replay().clone()

    def _capture(self, size: int) -> _Captured:
        with torch.cuda.device(self._device), torch.inference_mode():
            context = self._new_context()
            inputs = tuple(
                torch.zeros(size, *self._shape(name)[1:], dtype=self._types[name], device=self._device)
                for name in self._spec.inputs
            )
            output = self._new_output(size)

            def call() -> Tensor:
                self._enqueue(context, inputs, output)
                return output

            return _Captured(CapturedCall(call, self._device), context, inputs)

    def _enqueue(self, context: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        for name, value in zip(self._spec.inputs, inputs, strict=True):
            if not context.set_input_shape(name, tuple(value.shape)):
                raise self._refusal(f"input {name} of shape {tuple(value.shape)}")
            context.set_tensor_address(name, value.data_ptr())
        context.set_tensor_address(_OUTPUT, output.data_ptr())
        if not context.execute_async_v3(torch.cuda.current_stream(self._device).cuda_stream):
            raise self._refusal(f"a batch of {len(output)}")

    def _refusal(self, what: str) -> EngineError:
        return EngineError(f"the engine refuses {what} ({self._messages.last_error()})", remedy=BUILD_IT)

    def _new_output(self, size: int) -> Tensor:
        return torch.empty(size, *self._shape(_OUTPUT)[1:], dtype=self._types[_OUTPUT], device=self._device)

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._engine.get_tensor_shape(name))

    def _new_context(self) -> Any:
        context = self._engine.create_execution_context(self._kernels.config(self._library))
        if context is None:
            raise self._refusal("an execution context")
        context.set_device_memory(self._scratch.data_ptr(), self._scratch.numel())
        return context

    def _checked_types(self) -> dict[str, torch.dtype]:
        types = {self._library.DataType.HALF: torch.float16, self._library.DataType.FLOAT: torch.float32}
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        found = {name: types.get(self._engine.get_tensor_dtype(name)) for name in names}
        known = {name: dtype for name, dtype in found.items() if dtype is not None}
        if set(known) != {*self._spec.inputs, _OUTPUT} or known != found:
            raise EngineError(f"an engine with tensors {str(found)[:200]}", remedy=BUILD_IT)
        return known


class _KernelCache:
    """Memory by the caller, and for tensorrt_rtx the kernels that it compiles at run time, in a file.

    The file begins with the SHA-256 of the rest. The library itself refuses kernels of another version or GPU.
    """

    def __init__(self, engine: Any, file: Path | None) -> None:
        self._config = engine.create_runtime_config() if hasattr(engine, "create_runtime_config") else None
        self._cache: Any = None
        self._file = file
        if file is not None and self._config is not None and hasattr(self._config, "create_runtime_cache"):
            self._cache = self._config.create_runtime_cache()
            content = _read_cache(file)
            if content is not None and not self._cache.deserialize(content):
                _log.info("%s: kernels of another version or GPU, compiled anew", file)
            self._config.set_runtime_cache(self._cache)

    def config(self, library: Any) -> Any:
        """The argument of `create_execution_context`."""
        own_memory = library.ExecutionContextAllocationStrategy.USER_MANAGED
        if self._config is None:
            return own_memory
        self._config.set_execution_context_allocation_strategy(own_memory)
        if hasattr(library, "DynamicShapesKernelSpecializationStrategy"):
            # a graph captured with fallback kernels would keep them
            eager = library.DynamicShapesKernelSpecializationStrategy.EAGER
            self._config.dynamic_shapes_kernel_specialization_strategy = eager
        return self._config

    def save(self) -> None:
        """Writes the kernels compiled so far, where the folder is writable."""
        if self._cache is None or self._file is None:
            return
        content = bytes(self._cache.serialize())
        try:
            write_own(self._file, hashlib.sha256(content).digest() + content)
        except FileError as error:
            _log.warning("kernels will be compiled again at the next start: %s", error.problem)


def _read_cache(file: Path) -> bytes | None:
    """A kernel cache's content; None where there is none, or it is damaged."""
    with contextlib.suppress(OSError):
        if file.resolve().parent == file.parent.resolve() and file.stat().st_size <= _LARGEST_CACHE:
            content = file.read_bytes()
            if hashlib.sha256(content[_DIGEST:]).digest() == content[:_DIGEST]:
                return content[_DIGEST:]
            _log.info("%s: damaged, kernels are compiled anew", file)
    return None

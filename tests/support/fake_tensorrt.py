"""A stand-in for a TensorRT module, where none runs: it reads and writes host memory by the addresses it is given."""

from __future__ import annotations

import ctypes
import enum
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

STREAM = 4242
_SIZES = {"deformed": (6, 4, 4), "occlusion": (1, 4, 4), "image": (3, 8, 8)}


class _Severity(enum.IntEnum):
    INTERNAL_ERROR, ERROR, WARNING, INFO = range(4)


class _DataType(enum.Enum):
    HALF, FLOAT, INT8 = range(3)


class Context:
    """Draws a picture whose every value is the mean of its row's inputs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.memory: tuple[int, int] | None = None

    def set_device_memory(self, address: int, size: int) -> None:
        self.memory = address, size

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.shapes[name] = shape
        return shape[0] <= self.engine.most

    def set_tensor_address(self, name: str, address: int) -> None:
        self.addresses[name] = address

    def execute_async_v3(self, stream: int) -> bool:
        rows = self.shapes["deformed"][0]
        self.engine.runs.append((stream, rows))
        if self.engine.breaks:
            return False
        deformed, occlusion = (_at(self.addresses[name], self.shapes[name]) for name in ("deformed", "occlusion"))
        mean = deformed.mean(axis=(1, 2, 3)) + occlusion.mean(axis=(1, 2, 3))
        _at(self.addresses["image"], (rows, *_SIZES["image"]))[:] = mean[:, None, None, None]
        return True


class Engine:
    """What `deserialize_cuda_engine` gives."""

    device_memory_size_v2 = 64

    def __init__(self, library: FakeTensorRT) -> None:
        self.most, self.breaks, self.dtype = 8, False, _DataType.HALF
        self.runs: list[tuple[int, int]] = []
        self.contexts: list[Context] = []
        if library.has_cache:
            self.create_runtime_config = lambda: library.config
        self._names = list(_SIZES)
        self.num_io_tensors = len(self._names)

    def get_tensor_name(self, number: int) -> str:
        return self._names[number]

    def get_tensor_dtype(self, name: str) -> _DataType:
        return self.dtype

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (-1, *_SIZES[name])

    def create_execution_context(self, how: Any) -> Context:
        self.contexts.append(Context(self))
        return self.contexts[-1]


class FakeTensorRT:
    """The module.

    Args:
        has_cache: whether it keeps kernels, as tensorrt_rtx does.
    """

    __name__, __version__ = "tensorrt_rtx", "1.7"
    DataType = _DataType
    ExecutionContextAllocationStrategy = SimpleNamespace(USER_MANAGED="by the caller")

    class ILogger:
        Severity = _Severity

    def __init__(self, *, has_cache: bool = False) -> None:
        self.has_cache = has_cache
        self.engine: Engine | None = Engine(self)
        self.loaded: list[bytes] = []
        self.config = SimpleNamespace(
            create_runtime_cache=lambda: SimpleNamespace(
                serialize=lambda: b"kernels", deserialize=lambda data: self.loaded.append(data) is None
            ),
            set_runtime_cache=lambda cache: None,
            set_execution_context_allocation_strategy=lambda strategy: None,
        )

    def Runtime(self, logger: Any) -> Any:  # noqa: N802  (the library's name)
        def deserialize(data: bytes) -> Engine | None:
            if self.engine is None:
                logger.log(_Severity.ERROR, "Magic tag does not match")
            return self.engine

        return SimpleNamespace(deserialize_cuda_engine=deserialize)


def _at(address: int, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    return np.frombuffer((ctypes.c_uint16 * count).from_address(address), np.float16).reshape(shape)


class FakeBuilder:
    """The building half of a full TensorRT: it parses nothing, takes three steps, and keeps what it was told.

    Attributes:
        flags: of the network.
        config: of the build.
        shapes: of the profile, by input.
        refusal: what the parser says, or "build" where the build fails; empty for neither.
        plugins: libraries that the graph needs.
    """

    __name__, __version__ = "tensorrt", "10.3"
    ILogger = FakeTensorRT.ILogger
    NetworkDefinitionCreationFlag = enum.IntEnum("NetworkDefinitionCreationFlag", {"STRONGLY_TYPED": 1})
    HardwareCompatibilityLevel = SimpleNamespace(AMPERE_PLUS="ampere and later")
    ProfilingVerbosity = SimpleNamespace(DETAILED="detailed")

    class IProgressMonitor:
        pass

    def __init__(self, *, refusal: str = "", plugins: tuple[str, ...] = ()) -> None:
        self.refusal, self.plugins = refusal, plugins
        self.flags = 0
        self.config = SimpleNamespace(add_optimization_profile=lambda profile: None)
        self.shapes: dict[str, tuple[tuple[int, ...], ...]] = {}

    def Builder(self, logger: Any) -> Any:  # noqa: N802
        kind = SimpleNamespace(name="CONVOLUTION")
        layer = SimpleNamespace(type=kind, get_output_type=lambda number: SimpleNamespace(name="HALF"))
        inputs = [SimpleNamespace(name=name, shape=(-1, *_SIZES[name])) for name in ("deformed", "occlusion")]

        def network(flags: int) -> Any:
            self.flags = flags
            return SimpleNamespace(
                num_inputs=2, get_input=inputs.__getitem__, num_layers=2, get_layer=lambda number: layer
            )

        def build(network: Any, config: Any) -> bytes | None:
            monitor = config.progress_monitor
            monitor.phase_start("build", None, 3)
            for step in range(3):
                if not monitor.step_complete("build", step):
                    return None
            if self.refusal == "build":
                logger.log(_Severity.ERROR, "out of memory")
                return None
            return b"engine"

        return SimpleNamespace(
            create_network=network,
            create_builder_config=lambda: self.config,
            create_optimization_profile=lambda: SimpleNamespace(
                set_shape=lambda name, *shapes: self.shapes.update({name: shapes})
            ),
            build_serialized_network=build,
        )

    def OnnxParser(self, network: Any, logger: Any) -> Any:  # noqa: N802
        return SimpleNamespace(
            parse=lambda data: self.refusal in ("", "build"),
            num_errors=1,
            get_error=lambda number: SimpleNamespace(desc=lambda: self.refusal),
            get_used_vc_plugin_libraries=lambda: self.plugins,
        )

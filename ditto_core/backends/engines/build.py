"""Building an engine from a graph, with either library, and reading what the library says of it."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx

from ...progress import Progress
from .bindings import Messages, Monitor
from .export import check_graph
from .spec import PORTABLE, EngineError, EngineSpec

_REPORT_IT = "try another version of the library, and report it with what the log says"


@dataclass(frozen=True, kw_only=True)
class BuiltEngine:
    """An engine in memory.

    Attributes:
        data: the serialized engine.
        network: how many layers of which kind and type the library read from the graph.
    """

    data: bytes
    network: dict[str, int]


def build_from_graph(
    library: Any,
    flavour: str,
    graph: onnx.ModelProto,
    spec: EngineSpec,
    target: str,
    *,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> BuiltEngine:
    """Builds an engine. Its precision is the graph's: the network is strongly typed.

    Nothing is built that brings code of its own: no plug-ins, no version-compatible engine with a runtime inside.

    Args:
        library: the module of the flavour.
        flavour: "tensorrt" or "tensorrt_rtx".
        graph: for a dynamic batch.
        spec: of which the batch counts.
        target: compute capability as "12.0", or "portable".
        progress: called with ("engine", done, 1000).
        check_cancelled: raises to stop.

    Raises:
        EngineError: the graph may not be built, or the library refuses.
    """
    check_graph(graph)
    messages = Messages(library)
    builder = library.Builder(messages.logger)
    network = builder.create_network(_strong_typing(library))
    parser = library.OnnxParser(network, messages.logger)
    if not parser.parse(graph.SerializeToString()):
        errors = "; ".join(str(parser.get_error(i).desc()) for i in range(parser.num_errors))
        raise EngineError(
            f"{flavour} {library.__version__} does not read the graph ({errors[:300]})", remedy=_REPORT_IT
        )
    if parser.get_used_vc_plugin_libraries():
        raise EngineError("a graph that needs plug-in libraries", remedy="export the graph anew with this version")
    config = builder.create_builder_config()
    _aim(library, flavour, config, target)
    config.profiling_verbosity = library.ProfilingVerbosity.DETAILED
    config.add_optimization_profile(_profile(builder, network, spec))
    monitor = Monitor(library, progress, check_cancelled)
    config.progress_monitor = monitor.interface
    serialized = builder.build_serialized_network(network, config)
    if monitor.stopped_by is not None:
        raise monitor.stopped_by
    if serialized is None:
        raise EngineError(
            f"{flavour} {library.__version__} builds no engine for {target} ({messages.last_error()})",
            remedy=_REPORT_IT,
        )
    monitor.finish()
    return BuiltEngine(data=bytes(serialized), network=_layers(network))


def _strong_typing(library: Any) -> int:
    """The network's flags; from TensorRT 11 on there is nothing but strong typing."""
    flag = getattr(library.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def _aim(library: Any, flavour: str, config: Any, target: str) -> None:
    if flavour == "tensorrt":
        if target == PORTABLE:
            config.hardware_compatibility_level = library.HardwareCompatibilityLevel.AMPERE_PLUS
        return
    if target == PORTABLE:  # which is what tensorrt_rtx builds where nothing is said
        return
    config.num_compute_capabilities = 1
    config.set_compute_capability(library.ComputeCapability.__members__[_capability_name(target)], 0)


def check_target(library: Any, flavour: str, target: str) -> None:
    """Refuses a compute capability that the library builds nothing for.

    Raises:
        EngineError: it is one.
    """
    if flavour == "tensorrt" or target == PORTABLE:
        return
    known = [name for name in library.ComputeCapability.__members__ if name.startswith("SM")]
    if _capability_name(target) not in known:
        raise EngineError(
            f"compute capability {target}, which {flavour} {library.__version__} does not know",
            remedy=f"choose portable or one of {', '.join(known)}",
        )


def _capability_name(target: str) -> str:
    return "SM" + target.replace(".", "")


def _profile(builder: Any, network: Any, spec: EngineSpec) -> Any:
    profile = builder.create_optimization_profile()
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        shape = tuple(tensor.shape)[1:]
        profile.set_shape(tensor.name, *((rows, *shape) for rows in spec.batch))
    return profile


def _layers(network: Any) -> dict[str, int]:
    """How many layers of each kind and type, as {"CONVOLUTION HALF": 12}."""
    kinds = Counter(
        f"{layer.type.name} {layer.get_output_type(0).name}"
        for layer in map(network.get_layer, range(network.num_layers))
    )
    return dict(sorted(kinds.items()))


def header_problem(library: Any, data: bytes) -> str:
    """What the library says of an engine's header; empty where it takes it as its own. Needs no GPU."""
    if not hasattr(library.Runtime, "get_engine_validity"):
        return ""
    messages = Messages(library)
    _, bits = library.Runtime(messages.logger).get_engine_validity(data)
    names = library.EngineInvalidityDiagnostics.__members__
    # a machine without a GPU, or with another one, is no fault of the engine
    faults = [name for name in ("VERSION_MISMATCH", "MALFORMED_ENGINE") if int(bits) & int(names[name])]
    return ", ".join(fault.lower().replace("_", " ") for fault in faults)


def inspect(library: Any, data: bytes) -> dict[str, Any]:
    """What the library's inspector says of an engine.

    Returns:
        Layers as JSON, and the device memory of one context; or under "refused" why the library does not open the
        engine here. It opens none without a CUDA driver.
    """
    messages = Messages(library)
    runtime = library.Runtime(messages.logger)
    runtime.engine_host_code_allowed = False
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        return {"refused": messages.last_error()}
    text = engine.create_engine_inspector().get_engine_information(library.LayerInformationFormat.JSON)
    found: dict[str, Any] = {"device_memory": int(engine.device_memory_size_v2), "layers": text}
    with contextlib.suppress(ValueError):
        found["layers"] = json.loads(text)
    return found

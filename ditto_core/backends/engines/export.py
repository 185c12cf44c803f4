"""The fused networks as ONNX graphs, whose types say the precision of every step."""

from __future__ import annotations

import copy
import hashlib
import logging
import warnings
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from ... import networks
from ...checkpoints.models import DittoModels, load_models
from ...errors import MissingPackageError
from ...networks import WarpingNetwork
from ...networks.fused import FusedPostWarp
from ...networks.presets import Preset
from .spec import LARGEST_BATCH, EngineError, EngineSpec

OPSET = 20
"""The first with GridSample of volumes."""
LARGEST_GRAPH = 2**31 - 1
"""Bytes that a graph in one piece may have."""

_OUTPUT = "image"
_FRESH_BUILD = "export the graph anew with this version"


def plain_models(models: DittoModels, device: torch.device | None = None) -> DittoModels:
    """The same models in float32: as they are, or loaded again.

    Args:
        models: in any type.
        device: where they shall be; by default where they are.

    Raises:
        EngineError: their files have changed since.
    """
    device = device or models.device
    if models.dtype == torch.float32 and models.device == device:
        return models
    again = load_models(models.source, device=device)
    if again.fingerprint != models.fingerprint:
        raise EngineError(f"the files of {models.source} have changed since they were loaded", remedy="load them again")
    return again


class WarpDecode(nn.Module):
    """The whole rendering network: the warping network as it is, then the fused rest.

    TensorRT-RTX 1.7 builds nothing from the warping network in matrix products.

    Args:
        warp: the loaded, folded warping network.
        post_warp: what follows its deformation.
    """

    def __init__(self, warp: WarpingNetwork, post_warp: FusedPostWarp) -> None:
        super().__init__()
        self.warp, self.post_warp = warp, post_warp

    def forward(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """As `FusedWarpDecode.forward`."""
        return self.post_warp(*self.warp.deform(f_s, x_s, x_d))


def fused_module(spec: EngineSpec, models: DittoModels) -> nn.Module:
    """The part as one module that shares the models' weights."""
    # folded convolutions are no 3x3 convolutions any more, and it is those that are quantised
    post_warp = FusedPostWarp(models.warp_network, models.decoder, fold_upsampling=spec.precision != "fp8")
    module = post_warp if spec.part == "post-warp" else WarpDecode(models.warp_network, post_warp)
    return module.eval().requires_grad_(False)


def half_module(module: nn.Module) -> nn.Module:
    """A copy in half precision on the CPU; what is sensitive stays float32, as the networks themselves say."""
    return copy.deepcopy(module).cpu().half()


def export_graph(spec: EngineSpec, module: nn.Module, preset: Preset) -> onnx.ModelProto:
    """A fused module as an ONNX graph for batches of 1 to 8.

    Args:
        spec: which part.
        module: the part, on the CPU, in the type that the graph shall have.
        preset: its sizes.

    Returns:
        The graph, weights included; inputs named as in `EngineSpec.inputs`, output "image" (b, 3, 512, 512).

    Raises:
        MissingPackageError: onnxscript is not installed.
        EngineError: the graph has what no engine may have, see `check_graph`.
    """
    half = next(module.parameters()).dtype
    example = tuple(
        # 2 rows, since torch.export takes a batch of 1 for a constant; key points are never half
        torch.zeros(2, *shape, dtype=half if len(shape) > 2 else torch.float32)
        for shape in spec.input_shapes(preset)
    )
    batch = torch.export.Dim("batch", min=1, max=LARGEST_BATCH)
    loud = logging.getLogger("torch.onnx")
    level = loud.level
    try:
        loud.setLevel(logging.ERROR)  # it reports every package that it could have used
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module,
                example,
                dynamo=True,
                opset_version=OPSET,
                input_names=spec.inputs,
                output_names=[_OUTPUT],
                dynamic_shapes=[{0: batch}] * len(example),
                external_data=False,
                verbose=False,
            )
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            error.name or "onnxscript", needed_for="exporting a graph", install="pip install onnxscript"
        ) from error
    finally:
        loud.setLevel(level)
    if program is None:
        raise EngineError("torch exported no graph", remedy=_FRESH_BUILD)
    graph = onnx.ModelProto()
    graph.CopyFrom(program.model_proto)
    _strip_origins(graph)
    check_graph(graph)
    return graph


def check_graph(graph: onnx.ModelProto) -> None:
    """Refuses what an engine's graph may not have: foreign operators, functions, or weights in other files.

    Raises:
        EngineError: it has such.
    """
    if graph.ByteSize() > LARGEST_GRAPH:
        raise EngineError(f"a graph of {graph.ByteSize()} bytes", remedy=_FRESH_BUILD)
    domains = {node.domain for node in graph.graph.node} | {opset.domain for opset in graph.opset_import}
    foreign = sorted(domains - {"", "ai.onnx"})
    if foreign or graph.functions:
        names = foreign + [function.name for function in graph.functions]
        raise EngineError(f"a graph with operators that need a plug-in: {', '.join(names)[:200]}", remedy=_FRESH_BUILD)
    for node in graph.graph.node:
        if any(
            attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute
        ):
            raise EngineError(f"a graph with branches or loops ({node.op_type})", remedy=_FRESH_BUILD)
    for tensor in _tensors(graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise EngineError(f"a graph whose weight {tensor.name!r:.80} is in another file", remedy=_FRESH_BUILD)


def graph_identity(preset: Preset) -> str:
    """SHA-256 over the code and the sizes from which a graph follows: known without exporting it."""
    digest = hashlib.sha256(repr(sorted(preset.to_json().items())).encode())
    here = Path(__file__).parent
    sources = [*Path(networks.__file__).parent.glob("*.py"), here / "export.py", here / "precision.py"]
    for path in sorted(sources):
        digest.update(path.name.encode())
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def _tensors(graph: onnx.ModelProto) -> list[onnx.TensorProto]:
    """All weights and constants of a graph."""
    constants = [attribute.t for node in graph.graph.node for attribute in node.attribute if attribute.HasField("t")]
    sparse = [part for tensor in graph.graph.sparse_initializer for part in (tensor.values, tensor.indices)]
    return [*graph.graph.initializer, *constants, *sparse]


def _strip_origins(graph: onnx.ModelProto) -> None:
    """Takes out the exporter's notes, which name files of this machine."""
    for holder in (graph, graph.graph, *graph.graph.node, *graph.graph.input, *graph.graph.output):
        del holder.metadata_props[:]
    for value in graph.graph.value_info:
        del value.metadata_props[:]
    for node in graph.graph.node:
        node.ClearField("doc_string")

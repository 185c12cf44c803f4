"""Precision in the graph: fp8 by calibrated scales, its emulation in torch, and a graph with all of it taken out.

The fp16 graph is the half-precision module's own. For fp8 the inputs and weights of the decoder's 3x3 convolutions are
quantised to E4M3 (Micikevicius et al., arXiv:2209.05433, section 3): inputs with one scale a tensor, weights with one
an output channel. Products are summed in higher precision.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ...networks.fused_spade import FusedDecoder
from .spec import EngineError

_FP8 = torch.float8_e4m3fn
_LARGEST = torch.finfo(_FP8).max
_HEADROOM = 2.0
"""Inputs may be twice as large as any seen in calibration. E4M3 loses no precision by it."""
_KERNEL = (3, 3)
_CONVOLUTIONS = (torch.ops.aten.convolution, torch.ops.aten.conv2d, torch.ops.aten.conv3d)
"""Inference mode shows the last two, other modes the first."""

Scales = Mapping[str, float]
"""Scale of the input of each quantised convolution, by the module's name."""


@torch.inference_mode()
def calibrate(module: nn.Module, samples: Iterable[Sequence[Tensor]]) -> dict[str, float]:
    """Scales for the inputs of every 3x3 convolution of the decoder but the last.

    Args:
        module: a fused module, float32.
        samples: inputs of the module, as its own warp makes them.

    Raises:
        EngineError: a sample leads to values that are not finite.
    """
    largest: dict[str, float] = {}  # in the order in which they run

    def observe(name: str) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen = float(inputs[0].abs().max())
            largest[name] = max(largest.get(name, 0.0), seen if math.isfinite(seen) else math.inf)

        return hook

    with contextlib.ExitStack() as hooks:
        for name, conv in _candidates(module).items():
            hooks.callback(conv.register_forward_pre_hook(observe(name)).remove)
        for sample in samples:
            module(*sample)
    *names, _ = largest
    if not all(math.isfinite(largest[name]) for name in names):
        raise EngineError("values in calibration are not finite", remedy="check the weights with `models check`")
    return {name: _rounded_scale(largest[name] * _HEADROOM / _LARGEST) for name in names}


def weight_scales(weight: Tensor) -> Tensor:
    """One scale for each output channel of a weight (out, in, k, k), (out,) in half precision's grid."""
    largest = weight.float().abs().amax((1, 2, 3)) / _LARGEST
    return torch.tensor([_rounded_scale(value) for value in largest.tolist()])


def quantise(graph: onnx.ModelProto, module: nn.Module, scales: Scales) -> None:
    """Puts fp8 into a half-precision graph, in place.

    Args:
        graph: exported from `module` in half precision.
        module: whose names the graph's weights have.
        scales: from `calibrate`.

    Raises:
        EngineError: a convolution is not in the graph under its name.
    """
    convolutions = {node.input[1]: node for node in graph.graph.node if node.op_type == "Conv"}
    initializers = {tensor.name: tensor for tensor in graph.graph.initializer}
    before: dict[int, list[onnx.NodeProto]] = {}  # nodes to put before a convolution, by its identity
    added: list[TensorProto] = []
    quantised_inputs: dict[tuple[str, float], str] = {}
    zero = helper.make_tensor("fp8_zero", TensorProto.FLOAT8E4M3FN, [], b"\0", raw=True)
    for name, scale in scales.items():
        key = f"{name}.weight"
        if key not in convolutions or key not in initializers:
            raise EngineError(f"convolution {name} is not in the graph", remedy="export the graph from the same module")
        node, nodes = convolutions[key], []
        source = (node.input[0], scale)
        if source not in quantised_inputs:
            quantised_inputs[source] = f"{name}.input_fp8"
            added.append(numpy_helper.from_array(np.array(scale, np.float16), f"{name}.input_scale"))
            nodes += _quantise_and_back(f"{name}.input", node.input[0], zero.name)
        weight = module.get_submodule(name).get_parameter("weight")
        added += _stored_weight(name, weight)
        nodes.append(
            helper.make_node("DequantizeLinear", [f"{key}_fp8", f"{key}_scale", f"{key}_zero"], [f"{key}_dq"], axis=0)
        )
        before[id(node)] = nodes
        graph.graph.initializer.remove(initializers.pop(key))
        node.input[0], node.input[1] = quantised_inputs[source], f"{key}_dq"
    if scales:
        added.append(zero)
    ordered = [part for node in graph.graph.node for part in (*before.get(id(node), ()), node)]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in ordered]
    del graph.graph.node[:]
    graph.graph.node.extend(copies)
    graph.graph.initializer.extend(added)


def _quantise_and_back(name: str, source: str, zero: str) -> list[onnx.NodeProto]:
    scale = f"{name}_scale"
    return [
        helper.make_node("QuantizeLinear", [source, scale, zero], [f"{name}_q"]),
        helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [f"{name}_fp8"]),
    ]


def _stored_weight(name: str, weight: Tensor) -> list[TensorProto]:
    scales, shape = weight_scales(weight), list(weight.shape)
    values = _to_fp8(weight.detach().float() / scales[:, None, None, None]).view(torch.uint8).cpu().numpy()
    return [
        helper.make_tensor(f"{name}.weight_fp8", TensorProto.FLOAT8E4M3FN, shape, values.tobytes(), raw=True),
        numpy_helper.from_array(scales.numpy().astype(np.float16), f"{name}.weight_scale"),
        helper.make_tensor(f"{name}.weight_zero", TensorProto.FLOAT8E4M3FN, shape[:1], bytes(shape[0]), raw=True),
    ]


def widen(graph: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that computes in float32 throughout: casts between precisions and quantisation are taken out.

    The weights keep the values to which they were rounded.
    """
    wide = onnx.ModelProto()
    wide.CopyFrom(graph)
    _remove_quantisation(wide.graph)
    for tensor in wide.graph.initializer:
        _widen_tensor(tensor)
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            elif node.op_type in ("Cast", "RandomNormal") and attribute.name == "to":
                attribute.i = TensorProto.FLOAT if attribute.i == TensorProto.FLOAT16 else attribute.i
    del wide.graph.value_info[:]
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    return wide


def _remove_quantisation(graph: onnx.GraphProto) -> None:
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    renamed: dict[str, str] = {}
    kept = []
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            renamed[node.output[0]] = node.input[0]
        elif node.op_type == "DequantizeLinear" and node.input[0] in renamed:
            renamed[node.output[0]] = renamed[node.input[0]]
        elif node.op_type == "DequantizeLinear":
            stored, scale = initializers[node.input[0]], numpy_helper.to_array(initializers[node.input[1]])
            values = _from_fp8(stored.raw_data, list(stored.dims)) * scale.astype(np.float32)[:, None, None, None]
            graph.initializer.append(numpy_helper.from_array(values.astype(scale.dtype), node.output[0]))
        else:
            node.input[:] = [renamed.get(name, name) for name in node.input]
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(kept)
    used = {name for node in kept for name in node.input}
    unused = [tensor for tensor in graph.initializer if tensor.name not in used]
    for tensor in unused:
        graph.initializer.remove(tensor)


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT16:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))


@torch.no_grad()
def rounded_weights(half: nn.Module, scales: Scales) -> nn.Module:
    """Rounds, in place, the weights of a half-precision module as the graph holds them."""
    for name in scales:
        weight = half.get_submodule(name).get_parameter("weight")
        scale = weight_scales(weight)[:, None, None, None].to(weight.device)
        weight.copy_(_to_fp8(weight.float() / scale).float() * scale)
    return half


@contextlib.contextmanager
def emulated(half: nn.Module, scales: Scales) -> Iterator[nn.Module]:
    """Emulates on the CPU, in torch, how an engine rounds.

    Convolutions multiply and sum in float32 and round their result to half, as tensor cores do; all other steps run
    in the module's own types. Inputs of quantised convolutions are rounded to fp8 first.

    Args:
        half: a half-precision module with `rounded_weights`.
        scales: of the quantised inputs; none for fp16.

    Yields:
        The module, to be called inside the context.
    """

    def rounding(scale: float) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return ((_to_fp8(inputs[0].float() / scale).float() * scale).half(), *inputs[1:])

        return hook

    with contextlib.ExitStack() as stack:
        for name, scale in scales.items():
            stack.callback(half.get_submodule(name).register_forward_pre_hook(rounding(scale)).remove)
        stack.enter_context(_WideConvolutions())  # type: ignore[no-untyped-call]
        yield half


class _WideConvolutions(TorchDispatchMode):
    """Runs half-precision convolutions in float32 and rounds what comes out."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.overloadpacket in _CONVOLUTIONS and args[0].dtype == torch.float16:
            wide = [value.float() if isinstance(value, Tensor) else value for value in args]
            return func(*wide, **(kwargs or {})).half()
        return func(*args, **(kwargs or {}))


def _candidates(module: nn.Module) -> dict[str, nn.Conv2d]:
    return {
        f"{prefix}.{name}": conv
        for prefix, decoder in module.named_modules()
        if isinstance(decoder, FusedDecoder)
        for name, conv in decoder.named_modules()
        if isinstance(conv, nn.Conv2d) and conv.kernel_size == _KERNEL
    }


def _rounded_scale(value: float) -> float:
    """The scale as half precision holds it, never 0 and never less than asked for."""
    half = np.float16(max(value, float(np.finfo(np.float16).tiny)))
    return float(half if float(half) >= value else np.nextafter(half, np.float16(np.inf)))


def _to_fp8(values: Tensor) -> Tensor:
    """Rounded to E4M3; what is too large becomes the largest."""
    return values.clamp(-_LARGEST, _LARGEST).to(_FP8)


def _from_fp8(data: bytes, shape: list[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    stored = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(_FP8)
    return stored.float().reshape(shape).numpy()

"""The graphs of engines: equal to torch, with the precision that they say, and nothing foreign in them."""

from __future__ import annotations

import copy
import functools
import math
from collections import Counter

import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from support.models import TINY, write_folder

from ditto_core.backends.engines import EngineError, EngineSpec
from ditto_core.backends.engines.engine import engine_graph
from ditto_core.backends.engines.export import check_graph, fused_module, graph_identity, plain_models
from ditto_core.backends.engines.precision import calibrate, emulated, weight_scales, widen
from ditto_core.backends.engines.samples import PartInputs
from ditto_core.backends.engines.verify import Figures, ParityReport, verify_emulated
from ditto_core.checkpoints import load_models
from ditto_core.networks import MINIATURE

SPECS = {
    "post-warp fp16": EngineSpec(),
    "post-warp fp8": EngineSpec(precision="fp8"),
    "warp-decode fp16": EngineSpec(part="warp-decode"),
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Every kind of layer: x2 stages, spectral norm, a coarse motion grid."""
    return load_models(write_folder(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def graphs(tiny):
    """Spec, graph, half module and scales by name, each exported once."""
    return functools.cache(lambda name: (SPECS[name], *engine_graph(tiny, SPECS[name])))


@pytest.fixture(params=SPECS)
def built(request, graphs):
    return graphs(request.param)


def float_inputs(spec: EngineSpec, rows: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(rows)
    shapes = spec.input_shapes(TINY)
    return tuple(torch.rand(rows, *shape, generator=generator) - 0.5 for shape in shapes)


def run(graph: onnx.ModelProto, spec: EngineSpec, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {name: value.numpy() for name, value in zip(spec.inputs, inputs, strict=True)}
    return torch.from_numpy(session.run(None, feed)[0])


def test_a_graph_without_its_precision_equals_torch_at_every_batch(built):
    spec, graph, half, _ = built
    plain, wide = copy.deepcopy(half).float(), widen(graph)
    for rows in (1, 3, 8):
        inputs = float_inputs(spec, rows)
        with torch.inference_mode():
            assert (run(wide, spec, inputs) - plain(*inputs)).abs().max() < 1e-4
    kinds = {tensor.data_type for tensor in wide.graph.initializer}
    assert not kinds & {TensorProto.FLOAT16, TensorProto.FLOAT8E4M3FN}


def test_the_precision_is_in_the_graph(built):
    """Half in and out, key points and what is sensitive float32; weights of fp8 convolutions in fp8."""
    spec, graph, _, scales = built
    onnx.checker.check_model(graph, full_check=True)
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.graph.input, *graph.graph.output)}
    assert types.pop("image") == TensorProto.FLOAT16
    assert types == {name: TensorProto.FLOAT if name.startswith("x_") else TensorProto.FLOAT16 for name in spec.inputs}
    assert all(value.type.tensor_type.shape.dim[0].dim_param for value in graph.graph.input)
    stored = Counter(tensor.data_type for tensor in graph.graph.initializer)
    operators = Counter(node.op_type for node in graph.graph.node)
    assert operators["Cast"] >= 2  # the norms' statistics
    if spec.precision == "fp16":
        assert not scales and not stored[TensorProto.FLOAT8E4M3FN] and not operators["QuantizeLinear"]
    else:
        assert 0 < operators["QuantizeLinear"] <= len(scales)
        assert operators["DequantizeLinear"] == operators["QuantizeLinear"] + len(scales)


def test_fp8_reads_every_3x3_convolution_of_the_decoder_but_the_last(graphs):
    _, graph, _, scales = graphs("post-warp fp8")
    weights = {tensor.name: tensor for tensor in graph.graph.initializer}
    plain = [
        node.input[1]
        for node in graph.graph.node
        if node.op_type == "Conv" and node.input[1] in weights and weights[node.input[1]].dims[2:] == [3, 3]
    ]
    assert plain == ["third.weight", "decoder.conv_img.0.weight"]
    assert all(0 < scale < 10 for scale in scales.values())


def test_calibration_covers_what_it_saw(tiny):
    """No input of a quantised convolution is cut off, neither in the samples nor at twice their size."""
    spec = SPECS["post-warp fp8"]
    module, samples = fused_module(spec, tiny), PartInputs(spec, tiny)
    small, large = (calibrate(module, [samples.warp(number) for number in range(n)]) for n in (1, 3))
    assert small.keys() == large.keys() and all(small[name] <= large[name] for name in small)
    weight = module.get_submodule(next(iter(large))).weight
    assert ((weight.abs().amax((1, 2, 3)) / weight_scales(weight)) <= 448).all()
    with torch.inference_mode(), pytest.raises(EngineError, match="not finite"):
        calibrate(module, [tuple(value * math.nan for value in samples.warp(0))])


def test_the_emulation_rounds_as_half_precision_does(built):
    """Close to float32, but not it; and a wrong scale shows."""
    spec, _, half, scales = built
    inputs = float_inputs(spec, 1)
    typed = tuple(value.half() if value.ndim > 3 else value for value in inputs)
    with torch.inference_mode():
        exact = copy.deepcopy(half).float()(*(value.float() for value in typed))
        with emulated(half, scales) as module:
            rounded = module(*typed)
        assert rounded.dtype == torch.float16
        error = (rounded - exact).abs().mean()
        assert 1e-6 < error < (0.02 if scales else 5e-4)
        if scales:
            with emulated(half, {name: scale / 1000 for name, scale in scales.items()}) as module:
                assert (module(*typed) - exact).abs().mean() > 2 * error


def test_the_gate_passes_for_the_bundled_miniature_and_not_for_another_graph():
    models, spec = load_models(), EngineSpec(precision="fp8")
    graph, half, scales = engine_graph(models, spec)
    reference, samples = fused_module(spec, models), PartInputs(spec, models)
    report = verify_emulated(spec, graph, half, scales, reference, samples, count=4)
    assert report.passed and report.inputs == 4 and set(report.figures) == {"warp", "gaussian"}
    assert report.graph_error <= 1e-4
    assert report.executed_by.startswith("not the engine") and "onnxruntime" in report.executed_by

    node = next(node for node in graph.graph.node if node.op_type == "LeakyRelu")
    node.attribute[0].f *= 2
    broken = verify_emulated(spec, graph, half, scales, reference, samples, count=2)
    assert not broken.passed and "graph error" in broken.problem


@pytest.mark.parametrize(
    ("part", "precision", "cosine", "psnr", "passes"),
    [
        ("post-warp", "fp16", 0.9999, 60.0, True),
        ("post-warp", "fp16", 1.0, 59.9, False),
        ("post-warp", "fp16", 0.9998, 70.0, False),
        ("post-warp", "fp8", 0.9995, 38.0, True),
        ("post-warp", "fp8", 0.9999, 37.9, False),
        ("warp-decode", "fp16", 0.9999, 50.0, True),
        ("warp-decode", "fp16", 0.9999, math.nan, False),
        ("warp-decode", "fp16", math.nan, 60.0, False),
    ],
)
def test_limits_of_the_gate(part, precision, cosine, psnr, passes):
    good = Figures(cosine=1.0, mae=0.0, psnr=200.0)
    figures = {"warp": Figures(cosine=cosine, mae=0.0, psnr=psnr), "gaussian": good}
    report = ParityReport(
        part=part, precision=precision, inputs=2, figures=figures, graph_error=None, executed_by="test"
    )
    assert report.passed is passes and bool(report.problem) is not passes


def test_half_models_are_exported_from_their_files(tiny):
    """Weights that were rounded to load them in half precision are not rounded twice."""
    half = load_models(tiny.source, dtype=torch.bfloat16)
    again = plain_models(half)
    assert again.dtype == torch.float32 and torch.equal(again.decoder.fc.weight, tiny.decoder.fc.weight)
    assert plain_models(tiny) is tiny


def test_the_identity_of_a_graph_follows_the_sizes():
    assert graph_identity(TINY) != graph_identity(MINIATURE) and len(graph_identity(TINY)) == 64


def small_graph(**changes) -> onnx.ModelProto:
    weight = numpy_helper.from_array(torch.ones(2).numpy(), "weight")
    node = helper.make_node("Add", ["x", "weight"], ["y"], domain=changes.get("domain", ""))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "small", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(changes.get("domain", ""), 20)])


def test_a_plain_graph_is_taken():
    check_graph(small_graph())


def test_foreign_operators_are_refused():
    with pytest.raises(EngineError, match="plug-in: trt.plugins"):
        check_graph(small_graph(domain="trt.plugins"))


@pytest.mark.parametrize("place", ["initializer", "constant"])
def test_weights_in_other_files_are_refused(place):
    graph = small_graph()
    tensor = graph.graph.initializer[0]
    if place == "constant":
        tensor = helper.make_node("Constant", [], ["c"], value=tensor).attribute[0].t
        node = graph.graph.node.add(op_type="Constant", output=["c"])
        node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
        tensor = node.attribute[0].t
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    with pytest.raises(EngineError, match="in another file"):
        check_graph(graph)


def test_functions_and_branches_are_refused():
    graph = small_graph()
    graph.functions.add(name="Hidden", domain="")
    with pytest.raises(EngineError, match="Hidden"):
        check_graph(graph)
    graph = small_graph()
    graph.graph.node[0].attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g.CopyFrom(onnx.GraphProto())
    with pytest.raises(EngineError, match="branches"):
        check_graph(graph)

"""What the full TensorRT is told of a build, and what is made of its answers."""

from __future__ import annotations

import sys

import pytest
from onnx import TensorProto, helper
from support.fake_tensorrt import FakeBuilder

from ditto_core.backends.engines import EngineError, EngineSpec
from ditto_core.backends.engines.bindings import load_library
from ditto_core.backends.engines.build import build_from_graph

SPEC = EngineSpec(batch=(1, 2, 4), flavour="tensorrt")


def build(library: FakeBuilder, target: str = "9.0", **told):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return build_from_graph(library, "tensorrt", model, SPEC, target, **told)


def test_the_network_is_strongly_typed_and_has_the_batch_range():
    library, steps = FakeBuilder(), []
    built = build(library, progress=lambda *step: steps.append(step))
    assert built.data == b"engine" and built.network == {"CONVOLUTION HALF": 2}
    assert library.flags == 1 << 1
    assert library.shapes["occlusion"] == ((1, 1, 4, 4), (2, 1, 4, 4), (4, 1, 4, 4))
    assert steps[-1] == ("engine", 1000, 1000) and len(steps) == 3


@pytest.mark.parametrize(("target", "level"), [("9.0", None), ("portable", "ampere and later")])
def test_a_portable_engine_is_built_for_later_gpus_too(target, level):
    library = FakeBuilder()
    build(library, target)
    assert getattr(library.config, "hardware_compatibility_level", None) == level


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (FakeBuilder(refusal="No importer for Relu"), "does not read the graph .No importer for Relu"),
        (FakeBuilder(refusal="build"), "builds no engine for 9.0 .out of memory"),
        (FakeBuilder(plugins=("evil.so",)), "plug-in libraries"),
    ],
)
def test_what_the_library_refuses_is_told(library, said):
    with pytest.raises(EngineError, match=said):
        build(library)


def test_a_cancel_is_seen_at_the_next_step():
    calls = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(FakeBuilder(), check_cancelled=stop)
    assert len(calls) == 2


@pytest.mark.parametrize(("version", "is_old"), [("8.6.1", True), ("10.0.1", True), ("10.1.0", False), ("11.0", False)])
def test_a_tensorrt_that_is_too_old_is_told(tmp_path, monkeypatch, version, is_old):
    """The first that has sizes of device memory in 64 bits is 10.1."""
    (tmp_path / "tensorrt.py").write_text(f"__version__ = {version!r}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tensorrt", raising=False)
    if is_old:
        with pytest.raises(EngineError, match=f"tensorrt {version}, too old"):
            load_library("tensorrt")
    else:
        assert load_library("tensorrt").__version__ == version
    sys.modules.pop("tensorrt", None)

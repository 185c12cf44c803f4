"""When the engine node raises, and when torch draws and says why. ComfyUI itself is not needed for it."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import pytest
from support.engines import KEY
from support.pack import pack_module

MODULES = ("comfy_api.latest", "ditto_pack.nodes.host", "ditto_pack.nodes.types", "ditto_pack.nodes.engine")


@pytest.fixture
def node(monkeypatch) -> ModuleType:
    """The node's module, with as much of ComfyUI as it takes to import it."""
    package = pack_module("nodes")
    pack_module("ditto_core.backends.engines")
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    comfy, host = ModuleType("comfy_api.latest"), ModuleType("ditto_pack.nodes.host")
    comfy.io = SimpleNamespace(ComfyNode=object, Custom=lambda name: MagicMock(), Schema=MagicMock)
    host.engine_folder, host.show_progress, host.check_interrupted = (lambda: "engines"), MagicMock(), MagicMock()
    monkeypatch.setitem(sys.modules, "comfy_api", ModuleType("comfy_api"))
    monkeypatch.setitem(sys.modules, "comfy_api.latest", comfy)
    monkeypatch.setitem(sys.modules, "ditto_pack.nodes.host", host)
    monkeypatch.setattr(package, "host", host, raising=False)
    found = importlib.import_module("ditto_pack.nodes.engine")
    yield found
    for name in MODULES[2:]:
        sys.modules.pop(name)


@pytest.fixture
def built(node, monkeypatch, tmp_path):
    """Takes an engine for compute capability 12.0 into use, on a machine whose GPU does not fit the models."""
    core = pack_module("ditto_core.backends.engines")
    key = core.EngineKey.from_json(KEY.to_json())
    models = SimpleNamespace(networks=pack_module("ditto_core.checkpoints").load_models())

    def take(here: str | None, asked: str, *, is_strict: bool):
        def build(*given, **more):
            return core.Engine(path=tmp_path / "x.engine", key=key, side=MagicMock(), built=True, reason="")

        monkeypatch.setattr(core, "build_engine", build)
        monkeypatch.setattr(pack_module("ditto_core.backends.engines.engine"), "gpu_capability", lambda: here)
        spec = core.EngineSpec(flavour="tensorrt_rtx", compute_capability=asked)
        return node._built(models, spec, rebuild=False, is_strict=is_strict)

    take.models = models
    return take


@pytest.mark.parametrize(("here", "asked"), [("12.0", "auto"), ("12.0", "12.0"), ("8.9", "auto")])
def test_an_engine_for_this_gpu_that_can_not_be_used_is_an_error(built, here, asked):
    error = pack_module("ditto_core.backends.engines").EngineError
    with pytest.raises(error, match="it runs on a GPU"):
        built(here, asked, is_strict=True)


@pytest.mark.parametrize("here", [None, "8.9"])
def test_an_engine_for_another_gpu_is_kept_and_torch_draws(built, here):
    backend, _ = built(here, "12.0", is_strict=True)
    assert "torch on CPU" in backend.executed_by and "the engine is not used" in backend.executed_by


def test_auto_draws_with_torch_and_says_why(built):
    backend, _ = built("12.0", "auto", is_strict=False)
    assert "the engine is not used: it runs on a GPU" in backend.executed_by


def test_a_folder_that_can_not_be_written_stops_only_who_insists(node, built, monkeypatch):
    core, error = pack_module("ditto_core.backends.engines"), pack_module("ditto_core.errors").FileError

    def refuse(*given, **more):
        raise error("engines", "can't be written", remedy="choose another")

    monkeypatch.setattr(core, "build_engine", refuse)
    spec = core.EngineSpec(flavour="tensorrt_rtx", compute_capability="12.0")
    backend, about = node._built(built.models, spec, rebuild=False, is_strict=False)
    assert "no engine was built: engines: can't be written" in backend.executed_by and not about
    with pytest.raises(error):
        node._built(built.models, spec, rebuild=False, is_strict=True)

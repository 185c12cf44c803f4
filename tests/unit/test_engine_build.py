"""Real builds with TensorRT-RTX, ahead of time: no GPU is needed."""

from __future__ import annotations

import json

import pytest

from ditto_core.backends.engines import (
    EngineError,
    EngineFileError,
    EngineSpec,
    build_engine,
    engine_backend,
    load_engine,
    verify_engine,
)
from ditto_core.backends.engines.build import header_problem
from ditto_core.checkpoints import load_models
from ditto_core.cli import main
from ditto_core.errors import FileError, MissingPackageError

library = pytest.importorskip("tensorrt_rtx", reason="tensorrt-rtx-cu13 has no wheel for this system")

BLACKWELL = EngineSpec(flavour="tensorrt_rtx", compute_capability="12.0")


@pytest.fixture(scope="module")
def models():
    return load_models()


@pytest.fixture(scope="module")
def first(models, tmp_path_factory):
    """The post-warp engine in fp16, and what its build told of its progress."""
    told: list[tuple[str, int, int]] = []
    engine = build_engine(
        models, BLACKWELL, tmp_path_factory.mktemp("engines"), progress=lambda *step: told.append(step)
    )
    return engine, told


@pytest.fixture
def copied(first, tmp_path):
    """A folder with the first engine in it, to be damaged."""
    engine, _ = first
    for path in (engine.path, engine.path.with_suffix(".json")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / engine.path.name


def test_an_engine_is_built_for_a_gpu_that_is_not_here(first, models):
    engine, told = first
    assert engine.built and engine.reason == "built: there was none"
    assert engine.path.name == f"post_warp_sm120_fp16_b8_tensorrt_rtx_{models.fingerprint[:8]}.engine"
    assert header_problem(library, engine.path.read_bytes()) == ""
    assert engine.side.network["CONVOLUTION HALF"] == 9
    assert engine.key.version == library.__version__
    assert [stage for stage, done, _ in told if not done] == ["weights", "graph"]
    steps = [done for stage, done, _ in told if stage == "engine"]
    assert steps == sorted(steps) and len(steps) > 3 and steps[-1] == 1000


@pytest.mark.parametrize(
    ("spec", "layer"),
    [
        (EngineSpec(precision="fp8", flavour="tensorrt_rtx", compute_capability="portable"), "QUANTIZE FP8"),
        (EngineSpec(part="warp-decode", flavour="tensorrt_rtx", compute_capability="8.9"), "GRID_SAMPLE FLOAT"),
    ],
    ids=["post-warp fp8 portable", "warp-decode fp16 8.9"],
)
def test_other_parts_precisions_and_targets_are_built(models, tmp_path, spec, layer):
    engine = build_engine(models, spec, tmp_path)
    assert engine.side.network[layer] >= 1
    assert header_problem(library, engine.path.read_bytes()) == ""
    assert load_engine(engine.path, models).key == engine.key


def test_a_fitting_engine_is_found(first, models):
    engine, _ = first
    told = []
    again = build_engine(models, BLACKWELL, engine.path.parent, progress=lambda *step: told.append(step))
    assert not again.built and again.reason == "found" and again.key == engine.key and not told
    assert again.report()["sha256"] == engine.side.sha256
    assert json.dumps(again.report())


@pytest.mark.parametrize("damage", ["truncated", "damaged", "old", "no side file", "foreign"])
def test_what_does_not_fit_is_told_and_built_anew(copied, models, damage):
    side = copied.with_suffix(".json")
    values = json.loads(side.read_text())
    if damage == "truncated":
        copied.write_bytes(copied.read_bytes()[:1000])
        said = "has 1000 bytes"
    elif damage == "damaged":
        copied.write_bytes(copied.read_bytes()[:-1] + b"\0")
        said = "is damaged"
    elif damage == "old":
        values["key"]["version"] = "1.4.0.76"
        side.write_text(json.dumps(values))
        said = f"made by tensorrt_rtx 1.4.0.76, and tensorrt_rtx {library.__version__} is loaded"
    elif damage == "foreign":
        values["key"]["weights"] = "0" * 64
        side.write_text(json.dumps(values))
        said = "made for models 000000000000"
    else:
        side.unlink()
        said = "has no side file"
    with pytest.raises(EngineFileError, match=said):
        load_engine(copied, models)
    if damage in ("truncated", "old"):  # each build takes seconds
        engine = build_engine(models, BLACKWELL, copied.parent)
        assert engine.built and engine.reason.startswith(f"built anew: {copied.name}: ") and said in engine.reason
        assert load_engine(copied, models).side == engine.side


def test_an_engine_that_another_library_wrote_is_refused(first, copied, models):
    """Its side file is in order, but the library itself does not know the format."""
    engine, _ = first
    from ditto_core.backends.engines import store

    store.write_engine(copied, b"another library's engine" * 100, engine.key, graph_sha256="0" * 64, network={})
    with pytest.raises(EngineFileError, match="malformed engine"):
        load_engine(copied, models)


class Stopped(Exception):
    """What a caller raises to cancel."""


def test_a_cancelled_build_leaves_nothing(models, tmp_path):
    steps: list[int] = []

    def stop() -> None:
        if steps:
            raise Stopped

    with pytest.raises(Stopped):
        build_engine(
            models,
            BLACKWELL,
            tmp_path,
            progress=lambda stage, done, total: steps.append(done) if stage == "engine" else None,
            check_cancelled=stop,
        )
    assert steps and steps[-1] < 1000
    assert {path.suffix for path in tmp_path.iterdir()} <= {".lock"}


def test_host_code_stays_forbidden(first):
    """The library's default, on which we rely beside setting it."""
    from ditto_core.backends.engines.bindings import Messages

    assert library.Runtime(Messages(library).logger).engine_host_code_allowed is False


def test_an_engine_does_not_become_a_backend_without_its_gpu(first, models):
    engine, _ = first
    with pytest.raises(EngineError, match="it runs on a GPU, and torch sees no GPU"):
        engine_backend(engine, models)


def test_an_unknown_target_is_told_with_those_known(models, tmp_path):
    with pytest.raises(EngineError, match="SM120"):
        build_engine(models, EngineSpec(flavour="tensorrt_rtx", compute_capability="12.9"), tmp_path)


def test_full_tensorrt_that_is_not_installed_is_told(models, tmp_path, monkeypatch):
    monkeypatch.setattr("ditto_core.backends.engines.bindings.gpu_capability", lambda: "9.0")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="pip install 'tensorrt>=10.1'"):
        build_engine(models, EngineSpec(), tmp_path)


def test_the_command_builds_verifies_and_describes(first, tmp_path, capsys):
    engine, _ = first
    folder, report = str(engine.path.parent), tmp_path / "report.json"
    common = ["--compute-capability", "12.0", "--out", folder, "--report", str(report), "--device", "cpu"]
    assert main(["engine", "build", *common]) == 0
    assert "found" in capsys.readouterr().out
    built = json.loads(report.read_text())
    assert built["engine"]["key"]["target"] == "sm120" and built["inspector"]
    assert main(["engine", "verify", *common, "--inputs", "2"]) == 0
    assert "passed" in capsys.readouterr().out
    parity = json.loads(report.read_text())["parity"]
    assert parity["passed"] and parity["worst"]["psnr"] >= 60 and "not the engine" in parity["executed_by"]
    assert main(["engine", "info", "--out", folder, "--report", str(report)]) == 0
    assert "whole" in capsys.readouterr().out
    assert json.loads(report.read_text())["engines"][0]["name"] == engine.path.name
    assert main(["engine", "verify", "--precision", "fp8", *common]) == 2
    assert "no such file" in capsys.readouterr().err


def test_the_command_verifies_the_batch_range_it_is_asked_for(copied, capsys):
    """Each range has a file of its own, and a renamed one is found out."""
    common = ["--compute-capability", "12.0", "--out", str(copied.parent), "--device", "cpu", "--inputs", "2"]
    assert main(["engine", "verify", "--batch", "1:4:4", *common]) == 2
    said = capsys.readouterr().err
    assert "_b1-4-4_" in said and "no such file" in said
    other = copied.with_name(copied.name.replace("_b8_", "_b1-4-4_"))
    for ending in (".engine", ".json"):
        copied.with_suffix(ending).rename(other.with_suffix(ending))
    assert main(["engine", "verify", "--batch", "1:4:4", *common]) == 2
    assert "made for batch 1:8:8, not 1:4:4" in capsys.readouterr().err


def test_a_fitting_engine_is_found_where_nothing_can_be_written(copied, models):
    copied.with_suffix(".lock").mkdir()  # as a folder that is read-only would refuse it
    assert build_engine(models, BLACKWELL, copied.parent).reason == "found"
    with pytest.raises(FileError, match="can't be written"):
        build_engine(models, BLACKWELL, copied.parent, rebuild=True)


@pytest.mark.long
@pytest.mark.parametrize("part", ["post-warp", "warp-decode"])
@pytest.mark.parametrize("precision", ["fp16", "fp8"])
def test_the_gate_over_100_inputs(models, tmp_path, part, precision):
    spec = EngineSpec(part=part, precision=precision, flavour="tensorrt_rtx", compute_capability="12.0")
    report = verify_engine(build_engine(models, spec, tmp_path), models)
    assert report.passed, report.problem
    assert report.inputs == 100

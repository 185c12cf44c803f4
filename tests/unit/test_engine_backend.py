"""An engine becomes a backend when it has passed the gate, once for a kind of GPU."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch
from support.engines import KEY

from ditto_core.backends import TorchBackend, choose_backend
from ditto_core.backends.engines import Engine, EngineError, EngineFileError, engine_backend, store, verify
from ditto_core.backends.engines import backend as module
from ditto_core.checkpoints import load_models
from ditto_core.errors import FileError

GPU = "tensorrt_rtx 1.7 on a GPU"


class Gate:
    """In the place of the gate: counts its runs.

    Attributes:
        psnr: what it finds.
        told: how it was called.
    """

    def __init__(self) -> None:
        self.psnr, self.told = 70.0, []

    def __call__(self, engine, models, **told):
        self.told.append(told)
        figures = {"warp": verify.Figures(cosine=1.0, mae=0.0, psnr=self.psnr)}
        return verify.ParityReport(
            part="post-warp", precision="fp16", inputs=1, figures=figures, graph_error=None, executed_by=GPU
        )


@pytest.fixture
def gate(monkeypatch) -> Gate:
    """A machine with the GPU that the engine is for, but nothing runs there."""
    gate = Gate()
    monkeypatch.setattr(module, "verify_engine", gate)
    monkeypatch.setattr(module, "executed_by", lambda engine, device: GPU)
    monkeypatch.setattr(module, "open_session", lambda engine, device: None)
    monkeypatch.setattr("ditto_core.backends.engines.engine.gpu_capability", lambda: "12.0")
    return gate


@pytest.fixture
def engine(tmp_path) -> Engine:
    path = tmp_path / (KEY.stem + store.ENDING)
    side = store.write_engine(path, b"engine", KEY, graph_sha256="c" * 64, network={})
    return Engine(path=path, key=KEY, side=side, built=False, reason="found")


MODELS = SimpleNamespace(device=torch.device("cuda"), fingerprint=KEY.weights)


def test_the_gate_runs_once_for_a_gpu_and_an_engine(gate, engine, monkeypatch):
    for _ in range(2):
        assert engine_backend(engine, MODELS).executed_by == GPU + ", warp by torch"
    assert len(gate.told) == 1
    monkeypatch.setattr(module, "executed_by", lambda engine, device: "another GPU")
    engine_backend(engine, MODELS)
    engine_backend(dataclasses.replace(engine, side=dataclasses.replace(engine.side, sha256="d" * 64)), MODELS)
    assert len(gate.told) == 3


def test_other_limits_make_the_gate_run_again(gate, engine, monkeypatch):
    engine_backend(engine, MODELS)
    monkeypatch.setitem(verify._LIMITS, ("post-warp", "fp16"), (0.9999, 65.0))
    engine_backend(engine, MODELS)
    assert len(gate.told) == 2


@pytest.mark.parametrize("kept", ["", "[]", '{"report": 1}'])
def test_a_damaged_record_of_the_gate_makes_it_run_again(gate, engine, kept):
    engine.path.with_suffix(".parity.json").write_text(kept)
    engine_backend(engine, MODELS)
    assert len(gate.told) == 1


def test_an_engine_that_fails_is_refused_and_stays_so(gate, engine):
    gate.psnr = 20.0
    for _ in range(2):
        with pytest.raises(EngineFileError, match=r"fails the parity gate: PSNR 20.00 dB, at least 60 are wanted"):
            engine_backend(engine, MODELS)
    assert len(gate.told) == 1
    assert not json.loads(engine.path.with_suffix(".parity.json").read_text())["report"]["passed"]


def test_a_record_that_can_not_be_kept_is_no_error(gate, engine, caplog):
    engine.path.with_suffix(".parity.json").mkdir()  # as a folder that is read-only would refuse it
    for _ in range(2):
        assert engine_backend(engine, MODELS)
    assert len(gate.told) == 2 and "parity gate will run again" in caplog.text


def test_the_gate_shows_progress_and_is_cancelled(gate, engine):
    def progress(stage: str, done: int, total: int) -> None:
        pass

    def check() -> None:
        pass

    choose_backend("auto", MODELS, engine, progress=progress, check_cancelled=check)
    assert gate.told == [{"progress": progress, "check_cancelled": check}]


def test_what_does_not_fit_is_refused_before_the_gate(gate, engine, monkeypatch):
    with pytest.raises(EngineFileError, match="made for models aaaaaaaaaaaa, not bbbbbbbbbbbb"):
        engine_backend(engine, SimpleNamespace(device=torch.device("cuda"), fingerprint="b" * 64))
    monkeypatch.setattr("ditto_core.backends.engines.engine.gpu_capability", lambda: "8.9")
    with pytest.raises(EngineFileError, match="it is for compute capability 12.0, and this GPU has 8.9"):
        choose_backend("tensorrt_rtx", MODELS, engine)
    assert not gate.told


def test_auto_says_why_an_engine_is_not_used(engine):
    chosen = choose_backend("auto", load_models(), engine)
    assert isinstance(chosen, TorchBackend)
    assert chosen.executed_by.endswith("; the engine is not used: it runs on a GPU, and torch sees no GPU")
    with pytest.raises(EngineError):
        choose_backend("tensorrt_rtx", load_models(), engine)


def test_a_session_is_compared_input_by_input():
    class Twice(torch.nn.Module):
        def forward(self, x):
            return 2 * x

    samples = SimpleNamespace(warp=lambda n: (torch.full((1, 4), 0.1 + n),), gaussian=lambda n: (torch.ones(1, 4),))
    steps: list[tuple[str, int, int]] = []
    report = verify.verify_session(
        KEY.spec, lambda x: x + x, Twice(), samples, executed_by=GPU, count=5,
        progress=lambda *step: steps.append(step),
    )  # fmt: skip
    assert report.passed and report.inputs == 5 and set(report.figures) == {"warp", "gaussian"}
    assert steps[-1] == ("parity", 5, 5)
    for wrong in (lambda x: 2 * x + 0.1, lambda x: x * torch.nan):
        assert not verify.verify_session(KEY.spec, wrong, Twice(), samples, executed_by=GPU, count=3).passed

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify.verify_session(KEY.spec, Twice(), Twice(), samples, executed_by=GPU, check_cancelled=stop)


def test_a_file_that_is_not_there_is_told_as_that(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        store.read_side(tmp_path / "nowhere.engine")

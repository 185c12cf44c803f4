"""Which backend runs: by name, by the machine, and with an engine."""

from __future__ import annotations

import os
import threading
import time

import pytest
import torch
from support.models import write_folder

from ditto_core.backends import BACKENDS, TorchBackend, choose_backend, choose_device, precision_type
from ditto_core.backends.backend import cpu_has_bfloat16
from ditto_core.backends.compiled import CompiledBackend
from ditto_core.backends.cuda_graph import fast_kernels
from ditto_core.backends.inductor import _cache_folder
from ditto_core.checkpoints import DittoModels, load_models
from ditto_core.errors import InvalidValueError
from ditto_core.networks.presets import KEYPOINTS, SOURCE_SIZE

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> DittoModels:
    return load_models(write_folder(tmp_path_factory.mktemp("models") / "tiny"))


def test_auto_is_torch_and_says_no_reason(models):
    backend = choose_backend("auto", models)
    assert isinstance(backend, TorchBackend) and backend.executed_by == "torch on CPU, float32"


def test_a_name_that_is_none_names_those_that_are(models):
    with pytest.raises(InvalidValueError, match="Choose one of auto, " + ", ".join(BACKENDS)):
        choose_backend("onnx", models)


@pytest.mark.parametrize("word", ["tensorrt", "tensorrt_rtx"])
def test_tensorrt_without_an_engine_says_how_to_build_one(models, word):
    with pytest.raises(InvalidValueError, match=f"engine build --flavour {word}"):
        choose_backend(word, models)


def test_precision_follows_the_processor():
    assert precision_type("auto", CPU) == (torch.bfloat16 if cpu_has_bfloat16() else torch.float32)
    assert precision_type("auto", torch.device("cuda")) == torch.float16
    with pytest.raises(InvalidValueError, match="device 'tpu'"):
        choose_device("tpu")


def test_two_compiles_at_once_leave_the_process_as_it_was(monkeypatch):
    """The second waits for the first, and the environment's name of the cache folder is gone after both."""
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    inside, most, settings = [], [], torch.backends.cudnn.benchmark

    def compile_one() -> None:
        with fast_kernels(tf32=False), _cache_folder():
            inside.append(1)
            time.sleep(0.05)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=compile_one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ and torch.backends.cudnn.benchmark == settings


@pytest.mark.long
def test_compiled_draws_the_same_faces(models, monkeypatch):
    """Compiled by the machine's C++ compiler."""
    monkeypatch.delenv("CI", raising=False)  # where it is set, Inductor refuses operators without a lowering
    generator = torch.Generator().manual_seed(0)
    crops = torch.randint(0, 256, (1, SOURCE_SIZE, SOURCE_SIZE, 3), generator=generator, dtype=torch.uint8)
    x_s = 0.3 * torch.randn(2, KEYPOINTS, 3, generator=generator)
    x_d = x_s + 0.05 * torch.randn(2, KEYPOINTS, 3, generator=generator)
    plain, compiled = TorchBackend(models), CompiledBackend(models)
    told: list[tuple[int, int]] = []
    compiled.warm_up(2, lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1]
    f_s = plain.volumes(crops).expand(2, -1, -1, -1, -1)
    assert torch.allclose(compiled.faces(f_s, x_s, x_d), plain.faces(f_s, x_s, x_d), atol=1e-4)
    compiled.close()
    assert "compiled" in compiled.executed_by

"""What an engine is built for: choices, keys and names; and what is said where one does not fit."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import KEY

from ditto_core.backends.engines import EngineError, EngineKey, EngineSpec, parse_batch
from ditto_core.backends.engines.bindings import BuildPhases, gpu_misfit, resolve
from ditto_core.errors import InvalidValueError


@given(st.lists(st.integers(0, 12), min_size=3, max_size=3))
def test_a_batch_range_is_read_or_refused(numbers):
    least, best, most = numbers
    text = f"{least}:{best}:{most}"
    if 1 <= least <= best <= most <= 8:
        assert EngineSpec(batch=parse_batch(text)).batch == (least, best, most)
    else:
        with pytest.raises(InvalidValueError, match=text):
            EngineSpec(batch=parse_batch(text))


@pytest.mark.parametrize("text", ["", "8:1", "1:8:8:8", "-1:2:3", "1:x:3", "999:999:999"])
def test_no_batch_range(text):
    with pytest.raises(InvalidValueError, match="batch"):
        parse_batch(text)


@pytest.mark.parametrize(
    "choice",
    [{"part": "warp"}, {"flavour": "onnx"}, {"precision": "int8"}, {"compute_capability": "sm120"}],
)
def test_unknown_words_are_refused_with_those_allowed(choice):
    with pytest.raises(InvalidValueError, match=next(iter(choice.values()))):
        EngineSpec(**choice)


def test_the_file_name_is_readable_and_a_new_library_takes_the_old_ones_place():
    assert KEY.stem == "post_warp_sm120_fp16_b8_tensorrt_rtx_aaaaaaaa"
    assert dataclasses.replace(KEY, version="1.8").stem == KEY.stem
    changes = ({"target": "portable"}, {"precision": "fp8"}, {"flavour": "tensorrt"}, {"part": "warp-decode"})
    for change in (*changes, {"batch": "1:4:8"}, {"batch": "8:8:8"}):
        assert dataclasses.replace(KEY, **change).stem != KEY.stem


def test_a_key_leads_back_to_its_spec_and_survives_json():
    assert EngineKey.from_json(KEY.to_json()) == KEY
    assert KEY.spec == EngineSpec(flavour="tensorrt_rtx", compute_capability="12.0")
    assert dataclasses.replace(KEY, target="portable").spec.compute_capability == "portable"


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(EngineKey)])
def test_every_field_of_the_key_counts(field):
    other = dataclasses.replace(KEY, **{field: "c" * 64})
    said = other.difference(KEY)
    assert "c" * 12 in said and getattr(KEY, field)[:12] in said
    assert KEY.difference(KEY) == ""


def test_an_old_engine_is_told_with_both_versions():
    old = dataclasses.replace(KEY, version="1.4.0.76", graph="d" * 64)
    assert old.difference(KEY) == "made by tensorrt_rtx 1.4.0.76, and tensorrt_rtx 1.7.1.116 is loaded"


@pytest.mark.parametrize(
    "values",
    [
        {**KEY.to_json(), "more": "x"},
        {**KEY.to_json(), "weights": "short"},
        {**KEY.to_json(), "version": "1\n2"},
        {**KEY.to_json(), "target": 120},
        {**KEY.to_json(), "system": "x" * 1000},
        {},
    ],
)
def test_a_damaged_key_is_refused(values):
    with pytest.raises(InvalidValueError):
        EngineKey.from_json(values)


@pytest.mark.parametrize(
    ("flavour", "target", "here", "said"),
    [
        ("tensorrt_rtx", "12.0", None, "no GPU"),
        ("tensorrt_rtx", "9.0", "9.0", "does not run on compute capability 9.0"),
        ("tensorrt_rtx", "12.0", "8.9", "this GPU has 8.9"),
        ("tensorrt", "portable", "7.5", "needs compute capability 8.0"),
        ("tensorrt", "portable", "10.0", ""),
        ("tensorrt_rtx", "12.0", "12.0", ""),
    ],
)
def test_which_gpu_runs_which_engine(flavour, target, here, said):
    assert said in gpu_misfit(flavour, target, here) and bool(said) == bool(gpu_misfit(flavour, target, here))


def test_without_a_gpu_the_target_has_to_be_named(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(EngineError, match="no GPU here.*Name one, such as 12.0"):
        resolve(EngineSpec(flavour="tensorrt_rtx"))
    assert resolve(EngineSpec(flavour="tensorrt_rtx", compute_capability="8.9"))[:2] == ("tensorrt_rtx", "8.9")
    with pytest.raises(EngineError, match="no GPU"):
        resolve(EngineSpec(flavour="tensorrt", compute_capability="8.9"))
    with pytest.raises(EngineError, match="9.0"):
        resolve(EngineSpec(flavour="tensorrt_rtx", compute_capability="9.0"))


def test_fp8_needs_a_gpu_that_has_it():
    for target in ("7.5", "8.0", "8.6"):
        with pytest.raises(EngineError, match=f"fp8 for compute capability {target}. Choose fp16.*8.9"):
            resolve(EngineSpec(flavour="tensorrt_rtx", precision="fp8", compute_capability=target))
    for target in ("8.9", "12.0", "portable"):
        assert resolve(EngineSpec(flavour="tensorrt_rtx", precision="fp8", compute_capability=target))[1] == target


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_progress_of_nested_phases_rises_to_the_end(steps):
    """Each phase lies within a step of the one before."""
    phases, shares = BuildPhases(), []

    def run(depth: int) -> None:
        name = f"phase {depth}"
        phases.start(name, f"phase {depth - 1}" if depth else None, steps[depth])
        for step in range(steps[depth]):
            if depth + 1 < len(steps):
                run(depth + 1)
            phases.step(name, step)
            shares.append(phases.share())
        if depth:
            phases.finish(name)

    run(0)
    assert shares == sorted(shares) and shares[-1] == 1 and min(shares) > 0

"""Files of weights: what is read, what is refused, and what the errors say."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from support.models import TINY, write_folder

from ditto_core.checkpoints import OFFICIAL_SHAPES, find_models, layout, load_models
from ditto_core.checkpoints.convert import check_folder, convert_folder
from ditto_core.checkpoints.models import recipe_weights
from ditto_core.checkpoints.tensors import MAX_ELEMENTS, read_tensors
from ditto_core.errors import CheckpointError, FileError, InvalidValueError
from ditto_core.networks import MINIATURE, OFFICIAL


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny")


class Code:
    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_loads_a_converted_folder(folder):
    models = load_models(folder)
    assert models.preset == TINY and models.trained and models.source == str(folder)
    with torch.inference_mode():
        f_s = models.appearance_extractor(torch.rand(1, 3, 256, 256))
        points = torch.rand(1, 21, 3)
        assert models.decoder(models.warp_network(f_s, points, points)).shape == (1, 3, 512, 512)
    assert not any(p.requires_grad for p in models.decoder.parameters())


def test_the_fingerprint_follows_the_numbers_alone(folder, tmp_path):
    same = convert_folder(folder, tmp_path / "same")
    assert load_models(folder).fingerprint == load_models(same).fingerprint
    assert load_models(folder).fingerprint == load_models(folder, dtype=torch.float16).fingerprint
    changed = recipe_weights("stitch_network", TINY)
    changed["mlp.0.bias"][0] += 1e-3
    save_file(changed, same / "stitch_network.safetensors")
    assert load_models(folder).fingerprint != load_models(same).fingerprint


def test_precision_goes_to_the_networks_that_draw(folder):
    models = load_models(folder, dtype=torch.bfloat16)
    assert models.decoder.fc.weight.dtype == models.warp_network.fourth.weight.dtype == torch.bfloat16
    assert models.lmdm.final_layer.weight.dtype == models.stitch_network.mlp[0].weight.dtype == torch.float32
    with pytest.raises(InvalidValueError, match="int8"):
        load_models(folder, dtype=torch.int8)


def test_half_precision_files_are_widened_before_folding(tmp_path):
    source = write_folder(tmp_path / "full")
    half = convert_folder(source, tmp_path / "half")
    for name in layout.NETWORKS:
        tensors = recipe_weights(name, TINY)
        save_file(
            {k: v.half() if v.is_floating_point() else v for k, v in tensors.items()}, half / f"{name}.safetensors"
        )
    weight = load_models(half).decoder.fc.weight
    assert weight.dtype == torch.float32
    assert torch.allclose(weight, load_models(source).decoder.fc.weight, rtol=1e-3, atol=1e-4)


def test_recipe_weights_are_never_passed_off_as_trained():
    models = load_models(OFFICIAL_SHAPES)
    assert models.preset == OFFICIAL and not models.trained
    assert "not trained" in models.describe()


def test_the_default_is_the_miniature():
    assert load_models().preset.name == MINIATURE.name


@pytest.mark.parametrize("width", [1103, 1024])
def test_the_condition_width_comes_from_the_weights(width):
    weights = {"cond_projection.weight": torch.empty(512, width)}
    assert layout.with_condition_size(OFFICIAL, weights).condition_size == width


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("decoder", lambda tensors: tensors),
        ("lmdm", lambda tensors: {"model_state_dict": tensors, "epoch": 3}),
        (
            "stitch_network",
            lambda tensors: {
                "retarget_shoulder": OrderedDict((f"module.{k}", v) for k, v in tensors.items()),
                "retarget_eye": OrderedDict(a=torch.zeros(2)),
            },
        ),
    ],
)
def test_official_wrapping(tmp_path, name, wrapped):
    tensors = recipe_weights(name, TINY)
    path = tmp_path / layout.OFFICIAL_FILES[name]
    torch.save(wrapped(tensors), path)
    read = layout.read_network(name, path)
    assert {k: v.tolist() for k, v in read.items()} == {k: v.tolist() for k, v in tensors.items()}


@pytest.mark.parametrize("place", ["ditto_pytorch/models", "models", "."])
def test_finds_the_official_layout(tmp_path, place):
    models = tmp_path / place
    models.mkdir(parents=True, exist_ok=True)
    torch.save({}, models / "decoder.pth")
    found = find_models(tmp_path)
    assert found.layout == "official" and found.preset == OFFICIAL
    assert found.files["lmdm"] == models / "lmdm_v0.4_hubert.pth"


def refuse(path: Path, match: str | None = None) -> CheckpointError:
    with pytest.raises(CheckpointError, match=match) as caught:
        read_tensors(path)
    assert str(path) in str(caught.value) and caught.value.remedy
    return caught.value


def test_a_pth_that_runs_code_is_refused_unrun(tmp_path):
    mark, path = tmp_path / "executed", tmp_path / "decoder.pth"
    torch.save({"fc.weight": torch.zeros(1), "extra": Code(mark)}, path)
    error = refuse(path, "nothing was run")
    assert "mkdir" in str(error) and not mark.exists()


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_truncated_files(tmp_path, ending, keep):
    path = tmp_path / f"decoder.{ending}"
    tensors = {"a": torch.arange(1000.0), "b": torch.ones(3)}
    torch.save(tensors, path) if ending == "pth" else save_file(tensors, path)
    data = path.read_bytes()
    path.write_bytes(data[: keep if isinstance(keep, int) else int(keep * len(data))])
    refuse(path)


def test_compressed_archives_are_refused_unpacked(tmp_path):
    """torch.save stores; a deflated member may be a bomb of any size."""
    whole, path = tmp_path / "whole.pth", tmp_path / "bomb.pth"
    torch.save({"a": torch.zeros(1 << 20)}, whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            target.writestr(member.filename, source.read(member))
    refuse(path, "did not write")


def test_old_and_foreign_formats_name_the_remedy(tmp_path):
    path = tmp_path / "decoder.pth"
    torch.save({"a": torch.zeros(2)}, path, _use_new_zipfile_serialization=False)
    assert "Save it again" in str(refuse(path, "PyTorch 1.6"))
    torch.save([torch.zeros(2)], path)
    refuse(path, "holds a list")
    refuse(tmp_path / "absent.pth", "no such file")
    torch.save({"a": "text"}, path)
    with pytest.raises(CheckpointError, match="'a' is a str"):
        layout.read_network("decoder", path)
    torch.save({"a": torch.zeros(2).to_sparse()}, path)
    with pytest.raises(CheckpointError):
        layout.read_network("decoder", path)


def header(shape: list[int], size: int) -> bytes:
    text = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(text)) + text


def test_a_header_that_claims_too_much_takes_no_memory(tmp_path):
    path = tmp_path / "decoder.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    refuse(path, "not a whole safetensors file")
    path.write_bytes(header([1 << 40], 4 << 40))
    refuse(path, "not a valid safetensors file")
    with path.open("wb") as file:  # sparse on disk: a tensor over the limit that is really there
        file.write(header([MAX_ELEMENTS + 1], 4 * (MAX_ELEMENTS + 1)))
        file.truncate(file.tell() + 4 * (MAX_ELEMENTS + 1))
    refuse(path, "at most 8 dimensions")


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_headers_are_one_clear_error(tmp_path, data):
    for content in (data, struct.pack("<Q", len(data)) + data):
        path = tmp_path / "decoder.safetensors"
        path.write_bytes(content)
        refuse(path)
    path = tmp_path / "decoder.pth"
    path.write_bytes(data)
    refuse(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.pop("fc.bias"), "1 missing \\(first: fc.bias\\)"),
        (lambda t: t.update({"extra": torch.zeros(1)}), "1 unexpected \\(first: extra\\)"),
        (lambda t: t.update({"fc.bias": torch.zeros(3)}), "fc.bias is \\[3\\], not \\[16\\]"),
    ],
)
def test_tensors_that_do_not_fit_are_named(folder, tmp_path, change, match):
    broken = convert_folder(folder, tmp_path / "broken")
    tensors = recipe_weights("decoder", TINY)
    change(tensors)
    save_file(tensors, broken / "decoder.safetensors")
    with pytest.raises(CheckpointError, match=match):
        load_models(broken)
    status = {status.part: status for status in check_folder(broken)}
    assert status["decoder"].state == "mismatched" and status["lmdm"].state == "found"


def test_folders_that_are_none(tmp_path):
    with pytest.raises(CheckpointError, match="no such folder.*models fetch"):
        load_models(tmp_path / "absent")
    with pytest.raises(CheckpointError, match="holds neither"):
        load_models(tmp_path)
    for content in ("", "[]", "{}", '{"preset": 1}', '{"preset": {"name": "x"}}', "[" * 10000, "\x00"):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(CheckpointError, match="no configuration of models"):
            load_models(tmp_path)


def test_conversion_appears_whole_or_not_at_all(folder, tmp_path):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").write_text("mine")
    with pytest.raises(FileError, match="exists already"):
        convert_folder(folder, taken)
    assert (taken / "file").read_text() == "mine"
    incomplete = convert_folder(folder, tmp_path / "incomplete")
    (incomplete / "warp_network.safetensors").unlink()
    with pytest.raises(CheckpointError, match="warp_network"):
        convert_folder(incomplete, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["incomplete", "taken"]


@pytest.mark.long
def test_official_files_at_full_size(tmp_path):
    """All six files in the official wrapping, checked, converted, and loaded again: the same numbers."""
    models = tmp_path / "ditto_pytorch" / "models"
    models.mkdir(parents=True)
    for name, file in layout.OFFICIAL_FILES.items():
        tensors: object = recipe_weights(name, OFFICIAL)
        if name == "lmdm":
            tensors = {"model_state_dict": tensors}
        if name == "stitch_network":
            tensors = {"retarget_shoulder": {f"module.{key}": value for key, value in tensors.items()}}
        torch.save(tensors, models / file)
    assert all(status.state == "found" for status in check_folder(tmp_path) if status.needed)
    expected = load_models(OFFICIAL_SHAPES).fingerprint
    assert load_models(tmp_path).fingerprint == expected
    assert load_models(convert_folder(tmp_path, tmp_path / "converted")).fingerprint == expected

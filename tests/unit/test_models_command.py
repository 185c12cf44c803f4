"""`python -m ditto_core models ...` as a user sees it."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.models import write_folder

from ditto_core.checkpoints.fetch import REVISION
from ditto_core.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = write_folder(tmp_path_factory.mktemp("models") / "tiny")
    config = {"default_kwargs": {"emo": np.full((2, 8), 0.5, np.float32)}, "base_cfg": {}}
    (folder / "v0.4_hubert_cfg_pytorch.pkl").write_bytes(pickle.dumps(config))
    return folder


def test_check_lists_every_part(folder, capsys):
    assert main(["models", "check", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {line.split("  ")[0].strip(): line for line in lines}
    for name in ("appearance_extractor", "lmdm", "configuration"):
        assert " found " in found[name]
    assert "missing (optional)" in found["face detector"] and "det_10g.onnx" in found["face detector"]
    assert "base_cfg, default_kwargs" in found["configuration"]
    assert lines[-1] == "usable"


def test_check_knows_the_miniature(capsys):
    assert main(["models", "check", "miniature"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "usable"


def test_check_of_an_unusable_folder_ends_with_2(folder, tmp_path, capsys):
    assert main(["models", "convert", str(folder), str(tmp_path / "copy")]) == 0
    assert str(tmp_path / "copy") in capsys.readouterr().out
    (tmp_path / "copy" / "decoder.safetensors").write_bytes(b"short")
    (tmp_path / "copy" / "lmdm.safetensors").unlink()
    assert main(["models", "check", str(tmp_path / "copy")]) == 2
    out = capsys.readouterr().out
    assert "unusable" in out and "not a whole safetensors file" in out and "NOT usable" in out


def test_convert_keeps_the_configuration(folder, tmp_path):
    assert main(["models", "convert", str(folder), str(tmp_path / "copy")]) == 0
    defaults = json.loads((tmp_path / "copy" / "defaults.json").read_text())
    assert defaults["default_kwargs"]["emo"] == {"dtype": "<f4", "shape": [2, 8], "values": [0.5] * 16}


def test_convert_brings_what_lies_beside_the_networks(folder, tmp_path, capsys):
    """Without the speech encoder the written folder would load, and then not render."""
    source = tmp_path / "source"
    shutil.copytree(folder, source)
    (source / "hubert").mkdir()
    for name in ("hubert/config.json", "hubert/model.safetensors", "face_mesh.onnx"):
        (source / name).write_bytes(name.encode())
    assert main(["models", "convert", str(source), str(tmp_path / "copy")]) == 0
    for name in ("hubert/config.json", "hubert/model.safetensors", "face_mesh.onnx"):
        assert (tmp_path / "copy" / name).read_bytes() == name.encode()
    capsys.readouterr()
    assert main(["models", "check", str(tmp_path / "copy")]) == 0
    found = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert " found " in found["speech encoder"] and " found " in found["face mesh"]


@pytest.mark.parametrize("action", [["check", "absent"], ["convert", "absent", "out"]])
def test_errors_are_one_line_and_exit_code_2(action, tmp_path):
    """The real program, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "ditto_core", "models", *action],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: absent: no such folder") and done.stderr.count("\n") == 1
    assert "models fetch" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_fetch_offline_says_how_to_do_it_elsewhere(tmp_path):
    """huggingface_hub itself, told that there is no network."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "ditto_core", "models", "fetch", str(tmp_path / "new")],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert "could not be downloaded" in done.stderr and "Traceback" not in done.stderr
    assert f"--revision {REVISION}" in done.stderr and "hf download" in done.stderr
    assert "det_10g" not in done.stderr  # non-commercial files only on request

"""The suite `encode`: it measures the real thing, and its baseline is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.paste_back import pasted_rgb

from ditto_core.bench.encode import FRAMES, Scene, encoding, paste_times
from ditto_core.bench.encode import _float_paste as float_paste
from ditto_core.bench.merge import with_pipe
from ditto_core.errors import FileError
from ditto_core.render import nv12_to_rgb
from ditto_core.video import EncoderOptions

CPU = torch.device("cpu")
SIZE = (128, 96)


def test_paste_times_of_every_way() -> None:
    result = paste_times(SIZE, CPU, 2)
    assert {"nv12", "nv12_general", "rgb", "whole_frame_float"} <= result.keys()
    assert all(result[way]["frames_per_s"] > 0 for way in ("nv12", "nv12_general", "rgb", "whole_frame_float"))
    assert result["frames_per_s"] == result["nv12"]["frames_per_s"]


def test_the_baseline_pastes_the_same_picture() -> None:
    """Else the comparison would be with something easier."""
    scene = Scene(SIZE, CPU)
    faces = scene.faces(0, 1)
    made = float_paste(faces, scene)[1]()
    exact = pasted_rgb(faces[0], scene.frame, scene.matrix[0])
    assert abs(made[0].numpy() + 0.5 - exact).max() <= 0.6


def test_frames_move_and_are_the_presenter() -> None:
    scene = Scene(SIZE, CPU)
    frames = scene.frames()
    assert not torch.equal(frames[0], frames[7])
    assert (nv12_to_rgb(frames[:1])[0].float() - scene.frame.float()).abs().mean() < 12


def test_encoding_of_all_frames() -> None:
    result = encoding(SIZE, EncoderOptions(encoder="libx264", quality="live"), CPU)
    assert result["encoder"] == "libx264"
    for form in ("nv12", "rgb"):
        assert result[form]["file_bytes"] > 150 * 10
        assert result[form]["cpu_s"] > 0 and result[form]["frames_per_s"] > 0
    assert FRAMES == 150


def test_what_the_pipe_measured_joins_the_report(tmp_path: Path) -> None:
    (tmp_path / "pipe.json").write_text(json.dumps({"sizes": {}, "frames": 150}))
    assert with_pipe({"suites": {}}, tmp_path / "pipe.json") == {"suites": {}, "pipe": {"sizes": {}, "frames": 150}}
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "other.json").write_text("{}")
    for name in ("bad.json", "missing.json", "other.json"):
        with pytest.raises(FileError, match=name):
            with_pipe({}, tmp_path / name)

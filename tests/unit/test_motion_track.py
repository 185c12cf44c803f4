"""Motion tracks and their files: whole or not there, and nothing but a motion track."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from ditto_core.errors import FileError, InvalidValueError
from ditto_core.motion.track import MAX_FRAMES, MotionTrack, concat

ABOUT = {"format": "ditto-live motion track 1", "seed": 7, "plan": "offline", "models": "abc", "fps": 25}


def track(n: int = 12, seed: int | None = 7, **changes: Any) -> MotionTrack:
    draw = torch.Generator().manual_seed(n)
    vectors = torch.randn((n, 265), generator=draw)
    values = {"vectors": vectors, "reference": vectors[0], "seed": seed, "plan": "offline", "models": "abc"}
    return MotionTrack(**(values | changes))


def same(a: MotionTrack, b: MotionTrack) -> bool:
    tensors = torch.equal(a.vectors, b.vectors) and torch.equal(a.reference, b.reference)
    return tensors and (a.seed, a.plan, a.models, a.fps) == (b.seed, b.plan, b.models, b.fps)


def test_a_saved_track_comes_back(tmp_path: Path) -> None:
    for original in (track(), track(seed=None), track().slice(3, 7)):
        path = tmp_path / "motion é.safetensors"
        original.save(path)
        assert same(MotionTrack.load(path), original)
    assert os.listdir(tmp_path) == [path.name]


def test_nothing_is_left_where_saving_fails(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    for path in (tmp_path / "folder", tmp_path / "missing" / "track"):
        with pytest.raises(FileError, match="can't be written"):
            track().save(path)
    assert os.listdir(tmp_path) == ["folder"]


def test_slices_keep_the_reference_and_put_together_give_the_whole() -> None:
    whole = track()
    parts = [whole.slice(0, 5), whole.slice(5, 12)]
    assert torch.equal(parts[1].reference, whole.reference)
    assert same(concat(parts), whole)
    for start, stop in ((5, 5), (-1, 3), (0, 13)):
        with pytest.raises(InvalidValueError, match="12"):
            whole.slice(start, stop)


def test_tracks_put_together_keep_each_rows_distance_to_rest() -> None:
    first, second = track(5), track(9, seed=8, plan="low-latency")
    both = concat([first, second])
    torch.testing.assert_close(both.vectors[5:] - both.reference, second.vectors - second.reference)
    assert torch.equal(both.vectors[:5], first.vectors)
    assert (both.seed, both.plan, both.models) == (None, "mixed", "abc")
    with pytest.raises(InvalidValueError, match="xyz"):
        concat([first, track(models="xyz")])
    with pytest.raises(InvalidValueError, match="no motion"):
        concat([])


@pytest.mark.parametrize(
    "wrong",
    [
        {"vectors": torch.zeros(0, 265)},
        {"vectors": torch.zeros(3, 264)},
        {"vectors": torch.zeros(3, 265).double()},
        {"vectors": torch.full((3, 265), float("inf"))},
        {"reference": torch.zeros(264)},
        {"fps": 30},
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        track(**wrong)


def write(path: Path, about: object, **tensors: torch.Tensor) -> None:
    good = {"vectors": torch.zeros(3, 265), "reference": torch.zeros(265)}
    safetensors.torch.save_file(good | tensors, path, metadata={"ditto": json.dumps(about)})


def test_files_that_are_no_motion_track_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "track"
    write(path, ABOUT)
    assert len(MotionTrack.load(path)) == 3
    for about in (ABOUT | {"format": "other"}, ABOUT | {"seed": "7"}, ABOUT | {"more": 1}, {}, [], "text"):
        write(path, about)
        with pytest.raises(FileError, match="no usable motion track"):
            MotionTrack.load(path)
    for tensors in ({"vectors": torch.zeros(3, 3)}, {"vectors": torch.full((3, 265), float("nan"))}):
        write(path, ABOUT, **tensors)
        with pytest.raises(FileError, match="no usable motion track"):
            MotionTrack.load(path)
    safetensors.torch.save_file({"other": torch.zeros(1)}, path)
    with pytest.raises(FileError, match="no usable motion track"):
        MotionTrack.load(path)


def test_damaged_and_oversized_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "track"
    track().save(path)
    content = path.read_bytes()
    for damaged in (b"", content[:100], content[:-1], b"\xff" * 64):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match="no usable motion track"):
            MotionTrack.load(path)
    os.truncate(path, (MAX_FRAMES + 1000) * 265 * 4)
    with pytest.raises(FileError, match="larger"):
        MotionTrack.load(path)
    with pytest.raises(FileError, match="is no file"):
        MotionTrack.load(tmp_path)


def test_a_track_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        track().seed = 3

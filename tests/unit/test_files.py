"""Writing under a final name: whole or not at all."""

from __future__ import annotations

import os

import pytest

from ditto_core.errors import FileError
from ditto_core.files import new_folder, replaced_file


def test_a_file_appears_whole(tmp_path):
    target = tmp_path / "video.mp4"
    target.write_text("old")
    with replaced_file(target) as partial:
        assert partial.suffix == ".mp4" and partial.parent == tmp_path
        partial.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new" and list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "video.mp4"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), replaced_file(target) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_a_failed_folder_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), new_folder(tmp_path / "models") as partial:
        (partial / "file").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileError, match="can't be written") as caught, replaced_file(tmp_path / "no" / "video.mp4"):
        pass
    assert caught.value.path == tmp_path / "no" / "video.mp4"
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(FileError, match="exists already"), new_folder(tmp_path / "taken"):
        pass

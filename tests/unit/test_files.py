"""Writing under a final name: whole or not at all."""

from __future__ import annotations

import os
import resource

import pytest

from ditto_core.errors import FileError
from ditto_core.files import new_folder, replaced_file, write_whole


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


@pytest.mark.parametrize(("kind", "said"), [("folder", "is a folder"), ("pipe", "is no regular file")])
def test_what_is_no_file_is_refused_before_the_work_and_stays(tmp_path, kind, said):
    target = tmp_path / "report.json"
    target.mkdir() if kind == "folder" else os.mkfifo(target)
    begun = False
    with pytest.raises(FileError, match=said), replaced_file(target):
        begun = True
    assert not begun and list(tmp_path.iterdir()) == [target] and not target.is_file()


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_followed(tmp_path, exists):
    real, link = tmp_path / "big" / "real.mp4", tmp_path / "out.mp4"
    real.parent.mkdir()
    if exists:
        real.write_text("old")
    link.symlink_to(real)
    with replaced_file(link) as partial:
        assert partial.parent == real.parent
        partial.write_text("new")
    assert link.is_symlink() and real.read_text() == "new" and list(real.parent.iterdir()) == [real]


def test_a_link_that_leads_to_itself_is_named(tmp_path):
    link = tmp_path / "out.mp4"
    link.symlink_to(link)
    with pytest.raises(FileError, match="can't be written") as caught:
        write_whole(link, b"")
    assert caught.value.path == link


def test_a_name_taken_meanwhile_is_a_typed_error(tmp_path):
    """The final rename can fail, too."""
    target = tmp_path / "video.mp4"
    with pytest.raises(FileError, match="can't be written"), replaced_file(target):
        target.mkdir()
    assert list(tmp_path.iterdir()) == [target]
    target = tmp_path / "pictures"
    with pytest.raises(FileError, match="can't be written"), new_folder(target):
        target.write_text("")


def test_a_file_that_finds_no_room_is_a_typed_error_and_leaves_the_old_one(tmp_path):
    target = tmp_path / "motion"
    write_whole(target, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(FileError, match="can't be written"):
            write_whole(target, bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]

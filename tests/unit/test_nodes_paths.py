"""Names of files that a prompt gives: below the folder, or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pack import pack_module

paths = pack_module("nodes.paths")
InvalidValueError = pack_module("ditto_core.errors").InvalidValueError


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a secret beside it, and links to that."""
    top = tmp_path_factory.mktemp("place")
    (top / "secret").mkdir()
    (top / "secret" / "key").write_text("secret")
    inner = top / "Ünput folder"
    (inner / "sub").mkdir(parents=True)
    (inner / "sub" / "a b.wav").write_text("sound")
    (inner / "file-link").symlink_to(top / "secret" / "key")
    (inner / "folder-link").symlink_to(top / "secret")
    (inner / "good-link").symlink_to(inner / "sub" / "a b.wav")
    (inner / "circle").symlink_to(inner / "circle")
    return inner


@pytest.mark.parametrize("name", ["sub/a b.wav", "./sub/a b.wav", "good-link", "sub/new.mp4", "%date:yyyy%/ü-1"])
def test_a_name_below_the_folder_is_resolved(folder: Path, name: str) -> None:
    path = paths.inside(folder, name)
    assert path == (folder / name).resolve() and folder.resolve() in path.parents


@pytest.mark.parametrize(
    "name",
    [
        "", " ", ".", "/etc/passwd", "../secret/key", "sub/../../secret/key", "sub/../sub/a b.wav", "file-link",
        "folder-link/key", "circle/x", "C:/windows/x", "C:x", "..\\secret\\key", "a\0b", "x" * 501,
        "x" * 201, "sub/" + "ü" * 101 + "/video", ["sub"],
    ],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(InvalidValueError, match="file name"):
        paths.inside(folder, name)


@given(
    st.lists(st.sampled_from(["..", ".", "sub", "folder-link", "file-link", "key", "/", "a b.wav", "~"]), max_size=6)
)
def test_no_name_reaches_the_secret(folder: Path, parts: list[str]) -> None:
    try:
        path = paths.inside(folder, "/".join(parts))
    except InvalidValueError:
        return
    assert folder.resolve() in path.parents and "secret" not in path.parts


def test_a_folder_may_itself_be_a_link(folder: Path) -> None:
    link = folder.parent / "link-to-input"
    link.symlink_to(folder)
    assert paths.inside(link, "sub/a b.wav") == (folder / "sub" / "a b.wav").resolve()


def test_a_missing_file_is_named(folder: Path) -> None:
    with pytest.raises(InvalidValueError, match=r"no file 'sub/gone\.wav'"):
        paths.existing(folder, "sub/gone.wav")


def test_the_state_changes_with_a_file_and_only_then(tmp_path: Path) -> None:
    model = tmp_path / "models"
    (model / "hubert").mkdir(parents=True)
    file = model / "hubert" / "config.json"
    file.write_text("{}")
    before = paths.state([model])
    assert paths.state([model]) == before
    os.utime(file, ns=(1, 1))
    touched = paths.state([model])
    file.write_text("{ }")
    os.utime(file, ns=(1, 1))
    assert len({before, touched, paths.state([model])}) == 3

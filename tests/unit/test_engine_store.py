"""Engines on disk: nothing loads that is not whole, ours, and for what is loaded."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path

import pytest
from support.engines import KEY

from ditto_core.backends.engines import EngineFileError, load_engine, store
from ditto_core.backends.engines.bindings import load_library
from ditto_core.checkpoints import load_models
from ditto_core.cli import main
from ditto_core.errors import FileError, InvalidValueError

DATA = bytes(range(256)) * 40


@pytest.fixture
def engine(tmp_path) -> Path:
    path = tmp_path / (KEY.stem + store.ENDING)
    store.write_engine(path, DATA, KEY, graph_sha256="c" * 64, network={"CONVOLUTION HALF": 3})
    return path


def refusal(path: Path, wanted=KEY) -> str:
    with pytest.raises(EngineFileError) as caught:
        store.read_engine(path, wanted=wanted)
    return str(caught.value)


def test_what_was_written_is_read(engine):
    data, side = store.read_engine(engine, wanted=KEY)
    assert data == DATA and side.key == KEY and side.network == {"CONVOLUTION HALF": 3}
    assert sorted(path.suffix for path in engine.parent.iterdir()) == [".engine", ".json"]


def test_nothing_loads_without_a_side_file(engine):
    store.side_path(engine).unlink()
    assert "has no side file" in refusal(engine)


def test_truncated_and_damaged_engines_are_told_with_both_versions(engine):
    versions = "made by tensorrt_rtx 1.7.1.116, and tensorrt_rtx 1.7.1.116 is loaded"
    engine.write_bytes(DATA[:-1])
    assert f"has {len(DATA) - 1} bytes of {len(DATA)}" in refusal(engine) and versions in refusal(engine)
    engine.write_bytes(DATA[:99] + b"\0" + DATA[100:])
    assert "is damaged" in refusal(engine) and versions in refusal(engine)


def test_an_old_engine_is_refused_before_its_bytes_are_read(engine):
    engine.unlink()
    said = refusal(engine, dataclasses.replace(KEY, version="1.8"))
    assert "made by tensorrt_rtx 1.7.1.116, and tensorrt_rtx 1.8 is loaded" in said


def test_an_engine_of_other_weights_is_refused(engine):
    assert "made for models aaaaaaaaaaaa, not eeeeeeeeeeee" in refusal(
        engine, dataclasses.replace(KEY, weights="e" * 64)
    )


@pytest.mark.parametrize(
    "change",
    [
        {"format": "ditto-live engine 0"},
        {"sha256": "ABC"},
        {"size": -1},
        {"size": True},
        {"size": 5 * 2**30},
        {"key": None},
        {"key": {"flavour": "tensorrt"}},
        {"network": [1]},
        {"more": 1},
        {"key": {**KEY.to_json(), "flavour": "evilmod"}},
        {"key": {**KEY.to_json(), "flavour": "os"}},
        {"key": {**KEY.to_json(), "flavour": "auto"}},
        {"key": {**KEY.to_json(), "part": "everything"}},
        {"key": {**KEY.to_json(), "precision": "int4"}},
        {"key": {**KEY.to_json(), "batch": "8:1:1"}},
        {"key": {**KEY.to_json(), "target": "sm1x"}},
        {"key": {**KEY.to_json(), "target": "auto"}},
    ],
)
def test_a_damaged_side_file_is_refused(engine, change):
    side = store.side_path(engine)
    side.write_text(json.dumps({**json.loads(side.read_text()), **change}))
    assert "is no side file" in refusal(engine)


def test_a_side_file_does_not_choose_what_is_imported(engine, tmp_path, monkeypatch, capsys):
    """Neither by loading nor by describing, and the loader itself knows its own libraries only."""
    (tmp_path / "evilmod.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    side = store.side_path(engine)
    side.write_text(json.dumps({**json.loads(side.read_text()), "key": {**KEY.to_json(), "flavour": "evilmod"}}))
    with pytest.raises(EngineFileError, match="flavour 'evilmod'"):
        load_engine(engine, load_models())
    assert main(["engine", "info", "--out", str(tmp_path)]) == 0
    assert "flavour 'evilmod'" in capsys.readouterr().out
    for word in ("evilmod", "os", "../tensorrt"):
        with pytest.raises(InvalidValueError, match="Choose tensorrt or tensorrt_rtx"):
            load_library(word)


@pytest.mark.parametrize("text", ["", "[" * 50_000, "[]", "{", " " * 200_000])
def test_a_side_file_that_is_no_small_json_object_is_refused(engine, text):
    store.side_path(engine).write_text(text)
    assert "is no readable JSON" in refusal(engine)


@pytest.mark.parametrize("ending", [".engine", ".json"])
def test_links_out_of_the_folder_are_refused(engine, tmp_path_factory, ending):
    file = engine.with_suffix(ending)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / file.name
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    assert "leads out of its folder" in refusal(engine)
    store.write_engine(engine, DATA[::-1], KEY, graph_sha256="c" * 64, network={})
    assert store.read_engine(engine, wanted=KEY)[0] == DATA[::-1]  # a new one takes the link's place
    assert elsewhere.read_bytes() == before


def test_one_builds_while_another_waits_and_may_stop_waiting(engine):
    """The second holder gets the lock after the first, or leaves when it is cancelled."""
    order: list[str] = []

    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    def second() -> None:
        with store.locked(engine):
            order.append("second")

    with store.locked(engine):
        with pytest.raises(Stopped), store.locked(engine, stop):
            order.append("never")
        other = threading.Thread(target=second)
        other.start()
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_folder_that_can_not_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="file"), store.locked(tmp_path / "file" / "x.engine"):
        pass

"""`python -m ditto_core queue` as a user sees it."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bulletin import colored_segments, write_bulletin
from support.loopback import Loopback

from ditto_core.bulletin import BulletinView, Progress, ResultFile, State
from ditto_core.cli import main
from ditto_core.cli.queue import StateTable, table_lines

DONE = Progress(state=State.DONE, files=(ResultFile(name="001.mp4", size=1234567),))
FAILED = Progress(state=State.FAILED, reason="no face")


@pytest.fixture
def loopback():
    with Loopback() as server:
        yield server


def view_of(folder, progresses, away="") -> BulletinView:
    return BulletinView(rows=tuple(zip(colored_segments(folder, len(progresses)), progresses, strict=True)), away=away)


def test_a_bulletin_from_the_command_line(loopback, tmp_path, capsys):
    table, workflow = write_bulletin(tmp_path, 3)
    command = ["queue", str(table), "--workflow", str(workflow), "--server", loopback.url, "--poll", "0.05"]
    assert main([*command, "--out", str(tmp_path / "a" / "b"), "--manifest", str(tmp_path / "m.jsonl")]) == 0
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["001.mp4", "002.mp4", "003.mp4"]
    assert (tmp_path / "m.jsonl").exists()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "001: done  001.mp4 (10 bytes)" and "3 segments: 3 done" in lines[-1]
    loopback.answers["/prompt"] = [(400, b"{}")]
    assert main([*command, "--quiet"]) == 1
    told = capsys.readouterr()
    assert not told.out and told.err.startswith("001 failed: refused: no reason given")


def test_what_is_wrong_ends_with_2_and_one_line(loopback, tmp_path, capsys):
    table, workflow = write_bulletin(tmp_path, 1)
    loopback.stop()
    assert main(["queue", str(table), "--workflow", str(workflow), "--server", loopback.url]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "does not answer" in told and "Start ComfyUI there" in told
    assert main(["queue", str(workflow), "--workflow", str(workflow), "--server", loopback.url]) == 2
    assert main(["queue", str(table), "--workflow", str(table), "--server", loopback.url]) == 2


@given(
    states=st.lists(st.sampled_from([DONE, FAILED, Progress()]), min_size=1, max_size=30),
    width=st.integers(1, 100),
    height=st.integers(2, 20),
)
def test_a_table_fits_its_terminal(tmp_path_factory, states, width, height):
    lines = table_lines(view_of(tmp_path_factory.mktemp("t"), states), width, height)
    assert len(lines) <= height and all(len(line) <= width for line in lines)
    if len(states) < height:
        assert len(lines) == len(states) + 1


def test_a_table_says_all_states_and_what_is_waited_for(tmp_path):
    lines = table_lines(view_of(tmp_path, [DONE, FAILED, Progress()]), 100, 24)
    assert lines == [
        "001  done      001.mp4 (1,234,567 bytes)",
        "002  failed    no face",
        "003  waiting",
        "3 segments: 1 waiting, 1 done, 1 failed",
    ]
    assert table_lines(view_of(tmp_path, [DONE], away="it sleeps"), 100, 24)[-1] == "waiting for the server: it sleeps"


def test_a_terminal_shows_the_last_table_only(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    table = StateTable(quiet=False)
    table(view_of(tmp_path, [Progress(), Progress()]))
    table(view_of(tmp_path, [DONE, FAILED]))
    first, second = terminal.getvalue().split("\033[3A\r\033[J")
    assert first.count("\n") == 3 and "no face" in second


def test_the_library_needs_neither_torch_nor_comfyui():
    code = "import sys, ditto_core.bulletin; print([n for n in ('torch', 'comfy', 'aiohttp') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

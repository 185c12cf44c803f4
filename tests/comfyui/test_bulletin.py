"""A bulletin on a real ComfyUI: the command as a user runs it, stopped, killed and resumed."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.bulletin import workflow_nodes, write_bulletin, write_table
from support.comfy_server import ROOT, ComfyServer
from support.mp4 import decoded

from ditto_core.bulletin.manifest import replay
from ditto_core.bulletin.states import State
from ditto_core.cli import main

RED, GREEN, BLUE = 0xFF0000, 0x00FF00, 0x0000FF
_SECONDS = 180


def arguments(table: Path, workflow: Path, url: str) -> list[str]:
    return ["queue", str(table), "--workflow", str(workflow), "--server", url, "--poll", "0.1"]


def started(command: list[str]) -> subprocess.Popen[str]:
    # A shell that runs the tests in the background has them, and so their children, ignore Ctrl-C.
    heeds_ctrl_c = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen(
        [sys.executable, "-m", "ditto_core", *command],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeds_ctrl_c,
    )


def wait_until(found: Callable[[], Any]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not found():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def states(manifest: Path) -> list[State]:
    """Of the segments that the manifest knows."""
    if not manifest.exists():
        return []
    return [progress.state for progress in replay(manifest.read_bytes()).segments.values()]


def color_of(video: Path) -> tuple[int, ...]:
    """Mean of red, green and blue."""
    return tuple(np.rint(decoded(video).pictures.mean((0, 1, 2))).astype(int))


def near(color: int) -> Any:
    return pytest.approx([color >> 16, color >> 8 & 255, color & 255], abs=6)


def test_a_table_becomes_videos(comfy: ComfyServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also of rows that are the same, which ComfyUI takes from its cache, and beside one that it refuses."""
    header = ["name", "Picture.color", "Save.filename_prefix", "Mr. Video.fps"]
    rows = [["red", RED, "a", 12.5], ["", GREEN, "b", ""], ["too much", 1 << 24, "c", ""], ["same", GREEN, "b", ""]]
    table = write_table(tmp_path / "news.csv", header, rows)
    nodes = workflow_nodes(frames=10)
    nodes["2"]["inputs"]["fps"] = 25
    workflow = tmp_path / "workflow.json"
    workflow.write_text(json.dumps(nodes))
    assert main(arguments(table, workflow, comfy.url)) == 1
    told = capsys.readouterr()
    assert "too much failed: refused: Picture: Value 16777216 bigger than max of 16777215" in told.err
    assert "4 segments: 3 done, 1 failed" in told.out
    out = tmp_path / "news"
    assert {path.name for path in out.iterdir()} == {"red.mp4", "002.mp4", "same.mp4", "manifest.jsonl"}
    assert color_of(out / "red.mp4") == near(RED) and len(decoded(out / "red.mp4").pictures) == 10
    assert decoded(out / "red.mp4").fps == 12.5 and decoded(out / "002.mp4").fps == 25
    assert color_of(out / "002.mp4") == near(GREEN) == color_of(out / "same.mp4")

    rows[2][1] = BLUE
    write_table(table, header, rows)
    executed = comfy.log().count("Prompt executed in")
    assert main(arguments(table, workflow, comfy.url)) == 0
    assert comfy.log().count("Prompt executed in") == executed + 1
    assert color_of(out / "too much.mp4") == near(BLUE)


def test_local_files_go_up(comfy: ComfyServer, tmp_path: Path) -> None:
    pictures = [ROOT / "ditto_core/bundled/presenter.png", ROOT / "benchmarks/miniature/demo.png"]
    table = write_table(tmp_path / "faces.csv", ["Load Image.image"], [[picture] for picture in pictures])
    nodes = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "none.png"}, "_meta": {"title": "Load Image"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "faces"}},
    }
    workflow = tmp_path / "workflow.json"
    workflow.write_text(json.dumps(nodes))
    assert main(arguments(table, workflow, comfy.url)) == 0
    for number, picture in enumerate(pictures, 1):
        result = decoded(tmp_path / "faces" / f"{number:03d}.png").pictures
        assert np.array_equal(result, decoded(picture).pictures)


def test_after_ctrl_c_the_same_command_goes_on(comfy: ComfyServer, tmp_path: Path) -> None:
    table, workflow = write_bulletin(tmp_path, 12, frames=250, prefix="ctrl-c/news")
    manifest = tmp_path / "news" / "manifest.jsonl"
    command = arguments(table, workflow, comfy.url)
    process = started(command)
    wait_until(lambda: State.DONE in states(manifest))
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=_SECONDS)
    assert process.returncode == 130 and "The same command goes on" in told and "Traceback" not in told
    assert set(states(manifest)) != {State.DONE}
    assert main(command) == 0
    assert states(manifest) == [State.DONE] * 12
    assert len(list((comfy.output / "ctrl-c").iterdir())) == 12
    assert len(list((tmp_path / "news").glob("*.mp4"))) == 12


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[ComfyServer]:
    """A server that may be killed."""
    with ComfyServer(tmp_path / "comfyui") as server:
        yield server


@pytest.mark.long
def test_a_bulletin_of_20_survives_the_death_of_either_side(mortal: ComfyServer, tmp_path: Path) -> None:
    """The server dies while it renders, the client too: 20 videos in the end, none rendered twice."""
    _, workflow = write_bulletin(tmp_path, 20, frames=100, side=256)
    colors = [number * 0x0A0000 for number in range(1, 21)]
    table = write_table(tmp_path / "news.csv", ["Picture.color"], [[color] for color in colors])
    out = tmp_path / "news"
    manifest = out / "manifest.jsonl"

    def renders_after(count: int) -> bool:
        found = states(manifest)
        return found.count(State.DONE) >= count and found[-2:].count(State.RUNNING) == 1

    command = arguments(table, workflow, mortal.url)
    process = started(command)
    wait_until(lambda: renders_after(5))
    mortal.kill()
    time.sleep(1)
    assert process.poll() is None, "the client waits"
    mortal.start()
    wait_until(lambda: renders_after(12))
    process.kill()
    process.communicate()
    assert main(command) == 0
    assert states(manifest) == [State.DONE] * 20
    assert mortal.log().count("Prompt executed in") == 20
    videos = sorted(out.glob("*.mp4"))
    assert [video.name for video in videos] == [f"{number:03d}.mp4" for number in range(1, 21)]
    for color, video in zip(colors, videos, strict=True):
        assert len(decoded(video).pictures) == 100 and color_of(video) == near(color)

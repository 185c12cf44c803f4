"""The pack on ComfyUI's own canvas, used as a person does."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.canvas import Canvas
from support.comfy_client import ComfyClient
from support.comfy_server import ComfyServer
from support.workflows import NAMES, api, breaking, short
from support.workflows import canvas as saved


def assert_clean(canvas: Canvas) -> None:
    """Nothing is missing, nothing asks, nothing complains."""
    assert canvas.missing() == []
    assert canvas.dialogs() == []
    assert canvas.errors == []


@pytest.mark.parametrize("name", NAMES)
def test_saved_workflow_opens_and_is_the_api_file(canvas: Canvas, name: str) -> None:
    canvas.load(saved(name))
    assert_clean(canvas)
    assert canvas.prompt() == api(name)


def test_short_workflow_runs_and_its_video_plays(canvas: Canvas) -> None:
    canvas.build(short(api("offline"), 0.6))
    outputs = canvas.run()
    assert_clean(canvas)
    video = canvas.wait_for_video()
    assert video.evaluate("video => [video.videoWidth, video.videoHeight]") == [864, 1080]
    assert video.evaluate("video => video.duration") == pytest.approx(0.6, abs=0.05)
    video.evaluate("video => video.play()")
    canvas.page.wait_for_function("() => document.querySelector('video').currentTime > 0.1")
    assert outputs
    # Once more, with another seed: first frames show, and then the new file.
    first = video.evaluate("video => video.currentSrc")
    canvas.set_value("Motion", "seed", 5)
    canvas.run()
    canvas.page.wait_for_function("first => document.querySelector('video')?.currentSrc !== first", arg=first)
    canvas.wait_for_video()
    assert_clean(canvas)


_WATCH_LIVE = """() => {
    window.live = {addresses: [], last: null, seen: 0}
    const say = kind => app.api.addEventListener(kind, () => window.live.last = kind)
    for (const kind of ['execution_start', 'execution_success', 'execution_error', 'execution_interrupted']) say(kind)
    app.api.addEventListener('ditto.live_video', ({detail}) => window.live.addresses.push(detail.address))
}"""
_LIVE_PLAYS = """() => {
    const video = document.querySelector('video')
    if (live.last === 'execution_start' && video?.currentTime > 0.5 && video.videoWidth) live.seen = video.currentTime
    return live.seen || live.last === 'execution_success' || document.querySelector('[role=dialog]')
}"""


def status_of(canvas: Canvas, address: str) -> int:
    """How the server answers the page's own request for a live video."""
    return canvas.page.evaluate("async address => (await app.api.fetchApi(address)).status", address)


def test_canvas_plays_what_is_made_while_the_rest_is_still_made(canvas: Canvas) -> None:
    canvas.build(short(api("streaming"), 6.0, steps=10))
    canvas.page.evaluate(_WATCH_LIVE)
    canvas.press_run()
    canvas.page.wait_for_function(_LIVE_PLAYS)
    live = canvas.page.evaluate("() => live")
    assert live["seen"] > 0.5 and live["last"] == "execution_start"
    assert canvas.page.locator("video").count() == 1
    (address,) = live["addresses"]
    assert status_of(canvas, address[:-1] + ("0" if address[-1] != "0" else "1")) == 404
    # The finished file takes the place of the live video, and goes on where that was.
    canvas.page.wait_for_function("() => live.last === 'execution_success'")
    canvas.page.wait_for_function("() => document.querySelector('video').currentSrc.includes('/view?')")
    finished = canvas.wait_for_video()
    assert finished.evaluate("video => video.duration") == pytest.approx(6.0, abs=0.1)
    assert finished.evaluate("video => video.currentTime") > 0.3
    assert status_of(canvas, address) == 404
    assert_clean(canvas)


def test_stopped_run_takes_its_live_video_away(canvas: Canvas) -> None:
    canvas.build(short(api("streaming"), 5.0, steps=10))
    canvas.page.evaluate(_WATCH_LIVE)
    canvas.press_run()
    canvas.page.wait_for_function(_LIVE_PLAYS)
    assert canvas.page.evaluate("() => live.last") == "execution_start"
    canvas.page.evaluate("() => app.api.interrupt()")
    canvas.page.wait_for_function("() => live.last === 'execution_interrupted' && !document.querySelector('video')")
    assert status_of(canvas, canvas.page.evaluate("() => live.addresses[0]")) == 404
    assert canvas.errors == []


def test_dropped_video_restores_the_graph(canvas: Canvas, comfy: ComfyServer, tmp_path: Path) -> None:
    canvas.load(saved("offline"))
    canvas.set_value("Controls", "yaw", 12)
    canvas.set_value("Motion", "steps", 1)
    canvas.build(short(canvas.prompt(), 0.4))
    before = canvas.prompt()
    outputs = canvas.run()
    result = next(output["images"][0] for output in outputs.values() if output["images"][0]["filename"].endswith("mp4"))
    with ComfyClient(comfy.url) as client:
        (tmp_path / "dropped.mp4").write_bytes(client.view(result))
    canvas.clear()
    canvas.drop(tmp_path / "dropped.mp4", "video/mp4")
    canvas.page.wait_for_function("count => app.graph._nodes.length === count", arg=len(before))
    assert canvas.prompt() == before
    assert_clean(canvas)


def test_graph_built_and_wired_by_mouse_runs(canvas: Canvas) -> None:
    models = canvas.drag_in("Load Ditto Models", (420, 120))
    example = canvas.drag_in("Ditto Example", (420, 330))
    avatar = canvas.drag_in("Ditto Register Avatar", (800, 120))
    stream = canvas.drag_in("Ditto Stream", (800, 480))
    writer = canvas.drag_in("NVENC Video Writer", (1200, 300))
    trim = canvas.drag_in("Trim Audio Duration", (420, 560))
    for source, output, target, taken in (
        (models, "models", avatar, "models"),
        (example, "image", avatar, "image"),
        (models, "models", stream, "models"),
        (avatar, "avatar", stream, "avatar"),
        (example, "audio", trim, "audio"),
        (trim, "AUDIO", stream, "audio"),
        (stream, "frames", writer, "frames"),
    ):
        canvas.wire(source, output, target, taken)
    canvas.set_value("Trim Audio Duration", "duration", 0.4)
    outputs = canvas.run()
    assert outputs[str(writer)]["images"][0]["filename"].endswith(".mp4")
    assert_clean(canvas)


def test_failure_shows_on_the_node_that_made_the_frames(canvas: Canvas) -> None:
    canvas.build(breaking(short(api("streaming"), 0.6)))
    canvas.press_run()
    dialog = canvas.page.locator("[role=dialog]")
    dialog.wait_for()
    assert "Thin frames" in dialog.inner_text()
    canvas.page.wait_for_function("() => app.graph._nodes.find(node => node.title === 'Thin frames').has_errors")


@pytest.mark.long
def test_bulletin_of_three_runs_makes_three_segments(canvas: Canvas, comfy: ComfyServer) -> None:
    canvas.load(saved("bulletin"))
    for _ in range(3):
        canvas.run()
    made = {path.name for path in (comfy.output / "bulletin").glob("*.mp4")}
    assert made >= {"farewell_00001_.mp4", "good-news_00001_.mp4", "headline_00001_.mp4"}


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_saved_workflow_runs_from_the_button(canvas: Canvas, name: str) -> None:
    canvas.load(saved(name))
    canvas.run()
    canvas.fit()
    assert canvas.wait_for_video().evaluate("video => video.duration") == pytest.approx(6.6, abs=0.1)
    assert_clean(canvas)

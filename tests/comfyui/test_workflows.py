"""The saved workflows, sent as a program sends them."""

from __future__ import annotations

import json

import pytest
from support.comfy_client import ComfyClient, Run
from support.mp4 import Video, decoded
from support.workflows import NAMES, api, canvas, short

SECONDS = 0.6
FRAMES = 15


def writer_of(name: str) -> str:
    """The id of the node that writes the video."""
    return next(key for key, node in api(name).items() if node["class_type"] == "NVENCVideoWriter")


def video_of(client: ComfyClient, run: Run, node: str) -> Video:
    """The video that a node wrote."""
    assert run.succeeded, run.events[-3:]
    return decoded(client.view(run.outputs[node]["images"][0]))


def check(video: Video, frames: int) -> None:
    """Length, size, sound, and that somebody moves."""
    assert len(video.pictures) == frames
    assert video.fps == 25
    assert video.size == (1080, 864)
    assert video.sample_rate == 48000
    assert abs(video.sound.shape[1] / video.sample_rate - frames / 25) < 1 / 25
    assert abs(video.sound).max() > 0.05
    assert abs(video.pictures[-1].astype(int) - video.pictures[0]).max() > 30


def test_all_six_are_there() -> None:
    assert NAMES == ("build-engine", "bulletin", "emotion-schedule", "offline", "register-avatar", "streaming")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "bulletin"])
def test_api_workflow_makes_a_video(client: ComfyClient, name: str) -> None:
    run = client.run(short(api(name), SECONDS))
    check(video_of(client, run, writer_of(name)), FRAMES)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_api_workflow_runs_as_saved(client: ComfyClient, name: str) -> None:
    run = client.run(api(name))
    check(video_of(client, run, writer_of(name)), 165)


def test_offline_and_streaming_differ_by_one_node() -> None:
    offline, streaming = ({node["class_type"] for node in api(name).values()} for name in ("offline", "streaming"))
    assert streaming - offline == {"DittoStreamChunked"}
    assert offline - streaming == {"DittoAudioToMotion", "DittoRenderFusedTRT"}


def test_video_holds_the_workflow(client: ComfyClient) -> None:
    prompt, workflow = short(api("offline"), SECONDS), canvas("offline")
    run = client.run(prompt, workflow)
    metadata = video_of(client, run, writer_of("offline")).metadata
    assert json.loads(metadata["workflow"]) == workflow
    # "is_changed" is ComfyUI's own note of what the cache has seen.
    kept = json.loads(metadata["prompt"]).items()
    assert {key: {k: v for k, v in node.items() if k != "is_changed"} for key, node in kept} == prompt


@pytest.mark.parametrize("name", NAMES)
def test_canvas_file_starts_from_the_example_and_says_how_to_go_on(name: str) -> None:
    nodes = {node["type"]: node for node in canvas(name)["nodes"]}
    assert nodes.keys() & {"DittoExample", "DittoBulletinSegment"}
    note = nodes["MarkdownNote"]["widgets_values"][0]
    assert ("Load Image" in note and "Load Audio" in note) or name == "bulletin"

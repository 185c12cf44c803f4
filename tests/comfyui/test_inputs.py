"""What can be connected to the pack's nodes and written into them, on a real server."""

from __future__ import annotations

import json
import wave
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
from support.bulletin import write_table
from support.comfy_client import ComfyClient, Prompt, PromptRefused, replaced
from support.comfy_server import ROOT, ComfyServer
from support.mp4 import decoded
from support.workflows import api, short

from ditto_core.cli import main

BUNDLED = ROOT / "ditto_core" / "bundled"
TABLE = "avatar,speech,name\npresenter.png,news.wav,{}\npresenter.png,news.wav,second\n"


def node(kind: str, **inputs: Any) -> dict[str, Any]:
    """A node of a prompt."""
    return {"class_type": kind, "inputs": inputs}


def key_of(prompt: Prompt, kind: str) -> str:
    """The id of the only node of a class."""
    (key,) = (key for key, value in prompt.items() if value["class_type"] == kind)
    return key


def offline(seconds: float = 0.3) -> Prompt:
    """The offline workflow in short."""
    return short(api("offline"), seconds)


def pictures(client: ComfyClient, run: Any, writer: str) -> Any:
    """The frames of the video that a writer wrote."""
    assert run.succeeded, run.events[-2:]
    return decoded(client.view(run.outputs[writer]["images"][0]))


def complaints(client: ComfyClient, prompt: Prompt) -> list[dict[str, Any]]:
    """All that the server says of a prompt that it refuses, the message for the whole aside."""
    with pytest.raises(PromptRefused) as refused:
        client.queue(prompt)
    return [error for found in refused.value.node_errors.values() for error in found["errors"]]


# What can be connected ---------------------------------------------------------------------------------------


def test_pictures_of_other_nodes_become_a_video(client: ComfyClient) -> None:
    prompt = {
        "example": node("DittoExample", presenter="presenter", sentence="news"),
        "five": node("RepeatImageBatch", image=["example", 0], amount=5),
        "writer": api("offline")[key_of(api("offline"), "NVENCVideoWriter")],
    }
    prompt = replaced(prompt, "writer", frames=["five", 0], fps=10)
    video = pictures(client, client.run(prompt), "writer")
    assert video.fps == 10 and video.pictures.shape == (5, 1080, 864, 3)


def test_a_video_of_the_presenter_moves(client: ComfyClient, tmp_path: Path) -> None:
    path = tmp_path / "moving.mp4"
    with av.open(str(BUNDLED / "presenter.png")) as source, av.open(str(path), "w") as target:
        picture = next(source.decode(video=0)).reformat(216, 270, format="yuv420p")
        stream = target.add_stream("libx264", rate=25, options={"crf": "18"})
        stream.width, stream.height, stream.pix_fmt = 216, 270, "yuv420p"
        for number in range(6):
            picture.pts, picture.time_base = number, Fraction(1, 25)
            target.mux(stream.encode(picture))
        target.mux(stream.encode(None))
    prompt = {**offline(), "presenter": node("LoadVideo", file=client.upload("moving.mp4", path.read_bytes()))}
    run = client.run(replaced(prompt, "Avatar", image=["presenter", 0]))
    assert pictures(client, run, key_of(prompt, "NVENCVideoWriter")).pictures.shape == (8, 270, 216, 3)


def test_a_box_says_where_the_face_is(client: ComfyClient) -> None:
    box = {"crop": "box", "box_x": 240.0, "box_y": 320.0, "box_size": 200.0, "box_degrees": 0.0}
    prompt = replaced(offline(), "Avatar", **box)
    run = client.run(prompt)
    shown = pictures(client, run, key_of(prompt, "NVENCVideoWriter")).pictures.astype(int)
    assert (key_of(prompt, "DittoRegisterAvatar"), "eyes not measured: neutral values stand for them") in run.texts
    with av.open(str(BUNDLED / "presenter.png")) as source:
        portrait = next(source.decode(video=0)).to_ndarray(format="rgb24").astype(int)
    changed = abs(shown[3] - portrait).mean(-1)
    assert changed[340:500, 260:420].mean() > 5 * changed[700:].mean(), "drawn where the box is, and only there"
    outside = client.run(replaced(prompt, "Avatar", box_x=5000.0)).error["exception_message"]
    assert "outside the picture of 864 x 1080 pixels" in outside and "Give the left edge" in outside


def test_a_face_is_no_use_where_none_is_looked_for(client: ComfyClient) -> None:
    told = client.run(replaced(offline(), "Avatar", face=2)).error["exception_message"]
    assert "face 2 with models without face detectors" in told


@pytest.mark.parametrize(("rate", "channels", "samples", "frames"), [(44100, 2, 8820, 5), (16000, 1, 1, 1)])
def test_any_sound_is_spoken(
    client: ComfyClient, tmp_path: Path, rate: int, channels: int, samples: int, frames: int
) -> None:
    path = tmp_path / "sound.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(b"\x10\x20" * channels * samples)
    prompt = {**offline(), "sound": node("LoadAudio", audio=client.upload(f"sound-{rate}.wav", path.read_bytes()))}
    run = client.run(replaced(prompt, "Motion", audio=["sound", 0]))
    assert len(pictures(client, run, key_of(prompt, "NVENCVideoWriter")).pictures) == frames


def test_frames_become_pictures_for_other_nodes(client: ComfyClient) -> None:
    prompt = offline()
    del prompt[key_of(prompt, "NVENCVideoWriter")]
    prompt["images"] = node("DittoFramesToImages", frames=[key_of(prompt, "DittoRenderFusedTRT"), 0], start=6, count=9)
    prompt["shown"] = node("PreviewImage", images=["images", 0])
    run = client.run(prompt)
    assert run.succeeded and len(run.outputs["shown"]["images"]) == 2, "the video's last frame ends them"


# A table -----------------------------------------------------------------------------------------------------


@pytest.fixture
def table(comfy: ComfyServer) -> Iterator[Path]:
    """A bulletin of two segments in the input folder."""
    for name in ("presenter.png", "news.wav"):
        (comfy.input / name).write_bytes((BUNDLED / name).read_bytes())
    path = comfy.input / "wired.csv"
    path.write_text(TABLE.format("first"))
    yield path
    path.unlink()


def segment(index: Any, segments: Any = "wired.csv") -> Prompt:
    """A prompt that shows what a segment is called."""
    return {
        "models": node("LoadDittoModels", models="miniature (bundled)", device="auto", precision="auto"),
        "segment": node("DittoBulletinSegment", models=["models", 0], segments=segments, index=index),
        "name": node("PreviewAny", source=["segment", 3]),
    }


def test_a_changed_table_is_read_again_where_the_index_is_wired(client: ComfyClient, table: Path) -> None:
    prompt = {**segment(["number", 0]), "number": node("PrimitiveInt", value=0)}
    assert client.run(prompt).outputs["name"]["text"] == ["wired/first"]
    assert client.run(prompt).cached == set(prompt)
    table.write_text(TABLE.format("changed"))
    again = client.run(prompt)
    assert "segment" not in again.cached and again.outputs["name"]["text"] == ["wired/changed"]


def test_a_wrong_row_is_found_before_the_first_is_rendered(client: ComfyClient, table: Path) -> None:
    table.write_text("avatar,speech\n" + "presenter.png,news.wav\n" * 16 + "presenter.png,nwes.wav\n")
    (told,) = complaints(client, segment(0))
    assert told["extra_info"]["input_name"] == "segments" and "segment 17: no file 'nwes.wav'" in told["details"]
    table.write_text("avatar,speech,crop\npresenter.png,news.wav,foo\n")
    (told,) = complaints(client, segment(0))
    assert "segment 1: crop: 'foo'" in told["details"]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"index": -1}, "smaller than min"),
        ({"index": "x"}, "x"),
        ({"index": 0, "segments": [1, 2, 3]}, "length-2 list"),
        ({"index": 0, "segments": "none.csv"}, "none.csv"),
    ],
)
def test_what_is_no_segment_is_told_once(client: ComfyClient, table: Path, inputs: dict[str, Any], said: str) -> None:
    (told,) = complaints(client, segment(**inputs))
    assert said in told["message"] + told["details"]


# One message -------------------------------------------------------------------------------------------------


def test_a_refusal_is_told_once_at_its_input(client: ComfyClient) -> None:
    saving = replaced(short(api("register-avatar"), 0.3), "Save avatar", filename_prefix="../x")
    (told,) = [error for error in complaints(client, saving) if "file name" in error["details"]]
    assert told["extra_info"]["input_name"] == "filename_prefix"
    (told,) = complaints(client, replaced(offline(), "Models", models="../../etc"))
    assert told["extra_info"]["input_name"] == "models" and "Choose miniature (bundled)" in told["details"]


# Models ------------------------------------------------------------------------------------------------------


def test_a_model_folder_may_be_a_link(client: ComfyClient, comfy: ComfyServer) -> None:
    """Models are large, and often lie on another disk."""
    link = comfy.base / "models" / "ditto" / "linked"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(BUNDLED / "miniature")
    try:
        listed = client.get("/object_info/LoadDittoModels")["LoadDittoModels"]["input"]["required"]["models"]
        assert "linked" in json.dumps(listed)
        prompt = replaced(offline(), "Models", models="linked")
        assert len(pictures(client, client.run(prompt), key_of(prompt, "NVENCVideoWriter")).pictures) == 8
    finally:
        link.unlink()


@pytest.mark.long
def test_engines_stay_with_comfyui_where_models_lie_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is for Linux on x86_64")
    (tmp_path / "disk" / "big").mkdir(parents=True)
    (tmp_path / "disk" / "big" / "mine").symlink_to(BUNDLED / "miniature")
    where = tmp_path / "extra.yaml"
    where.write_text(f"other:\n  base_path: {tmp_path / 'disk'}\n  ditto: big\n")
    with (
        ComfyServer(tmp_path / "base", "--extra-model-paths-config", str(where)) as server,
        ComfyClient(server.url) as client,
    ):
        prompt = replaced(short(api("build-engine"), 0.3), "Models", models="mine")
        prompt = replaced(prompt, "Engine", backend="tensorrt_rtx", compute_capability="12.0")
        assert client.run(prompt).succeeded
        assert list((server.base / "models" / "ditto" / "engines").glob("*.engine"))
        assert [path.name for path in (tmp_path / "disk" / "big").iterdir()] == ["mine"]


# While it runs -----------------------------------------------------------------------------------------------


def test_a_run_shows_how_far_it_is(client: ComfyClient) -> None:
    prompt = replaced(offline(0.6), "Motion", seed=77)
    run = client.run(prompt)
    assert run.succeeded and run.previews > 0
    states = [data["nodes"] for data in run.of_type("progress_state")]
    render = key_of(prompt, "DittoRenderFusedTRT")
    told = [state[render]["value"] for state in states if render in state]
    assert told == sorted(told) and told[-1] == states[-1][render]["max"] > 0, "frames are made while the writer runs"


def test_a_streaming_run_can_be_stopped(client: ComfyClient, comfy: ComfyServer) -> None:
    prompt = replaced(short(api("streaming"), 3.0), "Video", filename_prefix="stopped-stream/video")
    run = client.queue(prompt)
    while not run.previews and not run.ended:
        client.wait(run, "progress_state")
    client.interrupt()
    client.wait(run)
    assert run.of_type("execution_interrupted") and not run.succeeded
    assert not list((comfy.output / "stopped-stream").glob("*"))
    assert client.run(short(api("streaming"), 0.3)).succeeded


# From the command line ---------------------------------------------------------------------------------------


def test_a_table_of_the_offline_workflow_becomes_videos(comfy: ComfyServer, tmp_path: Path) -> None:
    workflow = tmp_path / "offline.json"
    workflow.write_text(json.dumps(offline()))
    rows = [["glad", "happy", 4], ["sad", "sad", ""]]
    table = write_table(tmp_path / "news.csv", ["name", "Motion.emotion", "Controls.yaw"], rows)
    assert main(["queue", str(table), "--workflow", str(workflow), "--server", comfy.url, "--poll", "0.1"]) == 0
    glad, sad = (decoded(tmp_path / "news" / f"{name}.mp4").pictures for name in ("glad", "sad"))
    assert glad.shape == sad.shape == (8, 1080, 864, 3) and (glad != sad).any()

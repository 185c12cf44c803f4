"""How the nodes behave in the server: what runs again, what is refused, and what an end in the middle leaves."""

from __future__ import annotations

import os
import shutil
import wave
from pathlib import Path
from typing import Any

import pytest
from support.comfy_client import ComfyClient, Prompt, PromptRefused, replaced
from support.comfy_server import ROOT, ComfyServer
from support.workflows import api, breaking, short

BUNDLED = ROOT / "ditto_core" / "bundled"


def quick(**inputs: Any) -> Prompt:
    """The offline workflow in short; its writer gets the inputs."""
    return replaced(short(api("offline"), 0.4), "Video", **inputs)


def own_files(image: str, audio: str) -> Prompt:
    """The quick workflow with a portrait and a sound from the input folder."""
    prompt = quick(filename_prefix="own/video")
    loaders = {
        "portrait": {"class_type": "LoadImage", "inputs": {"image": image}},
        "sound": {"class_type": "LoadAudio", "inputs": {"audio": audio}},
    }
    prompt = {
        key: node for key, node in prompt.items() if node["class_type"] not in ("DittoExample", "TrimAudioDuration")
    }
    prompt = replaced(prompt, "Avatar", image=["portrait", 0])
    return {**replaced(prompt, "Motion", audio=["sound", 0]), **loaders}


def sound_file(path: Path, first: float, seconds: float) -> bytes:
    """A part of the bundled sentence as a wav file."""
    with wave.open(str(BUNDLED / "news.wav")) as source, wave.open(str(path), "wb") as target:
        target.setparams(source.getparams())
        source.setpos(int(first * source.getframerate()))
        target.writeframes(source.readframes(int(seconds * source.getframerate())))
    return path.read_bytes()


def classes(prompt: Prompt, keys: set[str]) -> set[str]:
    """The classes of nodes."""
    return {prompt[key]["class_type"] for key in keys}


def ran(prompt: Prompt, cached: set[str]) -> set[str]:
    """The classes of the nodes that were not cached."""
    return classes(prompt, set(prompt) - cached)


def files(folder: Path) -> list[Path]:
    """All files below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def refusal(client: ComfyClient, prompt: Prompt) -> str:
    """Why the server does not take a prompt."""
    with pytest.raises(PromptRefused) as refused:
        client.queue(prompt)
    return str(refused.value)


# What runs again ---------------------------------------------------------------------------------------------


def test_same_prompt_runs_nothing_and_writes_no_second_file(comfy: ComfyServer, client: ComfyClient) -> None:
    prompt = quick(filename_prefix="same/video")
    assert client.run(prompt).succeeded
    before = files(comfy.output)
    again = client.run(prompt)
    assert again.succeeded and again.cached == set(prompt)
    assert files(comfy.output) == before


def test_changed_control_leaves_the_motion_as_it_is(client: ComfyClient) -> None:
    prompt = quick()
    client.run(prompt)
    changed = replaced(prompt, "Controls", yaw=8.0)
    run = client.run(changed)
    assert run.succeeded
    assert ran(changed, run.cached) == {"DittoControls", "DittoRenderFusedTRT", "NVENCVideoWriter"}


def test_changed_file_runs_again(client: ComfyClient, tmp_path: Path, comfy: ComfyServer) -> None:
    portrait = client.upload("own portrait ä.png", (BUNDLED / "presenter.png").read_bytes())
    sound = client.upload("own.wav", sound_file(tmp_path / "a.wav", 0.3, 0.4))
    prompt = own_files(portrait, sound)
    assert client.run(prompt).succeeded
    assert client.run(prompt).cached == set(prompt)
    sound_file(comfy.input / sound, 0.8, 0.4)
    again = client.run(prompt)
    assert again.succeeded
    assert ran(prompt, again.cached) >= {"LoadAudio", "DittoAudioToMotion", "NVENCVideoWriter"}
    assert classes(prompt, again.cached) >= {"LoadDittoModels", "DittoRegisterAvatar"}


def test_saved_avatar_is_read_again_only_when_it_changes(client: ComfyClient, comfy: ComfyServer) -> None:
    saved = client.run(short(api("register-avatar"), 0.4))
    name = next(output["text"][0] for output in saved.outputs.values() if "text" in output)
    prompt = {key: node for key, node in quick().items() if node["class_type"] != "DittoRegisterAvatar"}
    prompt["load"] = {"class_type": "DittoLoadAvatar", "inputs": {"models": ["1", 0], "file": name}}
    for title in ("Motion", "Render"):
        prompt = replaced(prompt, title, avatar=["load", 0])
    assert client.run(prompt).succeeded
    assert "load" in client.run(replaced(prompt, "Controls", yaw=1.0)).cached
    os.utime(comfy.output / name.removesuffix(" [output]"))
    assert "load" not in client.run(replaced(prompt, "Controls", yaw=2.0)).cached


# An end in the middle ----------------------------------------------------------------------------------------


def test_interrupt_leaves_nothing_and_the_next_prompt_works(comfy: ComfyServer, client: ComfyClient) -> None:
    prompt = replaced(api("offline"), "Video", filename_prefix="stopped/video")
    run = client.queue(prompt)
    writer = next(key for key, node in prompt.items() if node["class_type"] == "NVENCVideoWriter")
    while not (frames_then := _frames_done(run, writer)) and not run.ended:
        client.wait(run, "progress_state")
    client.interrupt()
    client.wait(run)
    assert run.of_type("execution_interrupted") and not run.succeeded
    assert _frames_done(run, writer) - frames_then <= 16, "two chunks: the one under way, and one already reported"
    assert files(comfy.output / "stopped") == []
    assert client.run(quick(filename_prefix="after/video")).succeeded
    assert len(files(comfy.output / "after")) == 1


def _frames_done(run: Any, node: str) -> int:
    states = [data["nodes"][node]["value"] for data in run.of_type("progress_state") if node in data["nodes"]]
    return int(max(states, default=0))


def test_error_names_the_node_that_made_the_frames(comfy: ComfyServer, client: ComfyClient) -> None:
    # They are made while the writer runs.
    prompt = breaking(short(api("streaming"), 0.6), filename_prefix="failed/video")
    run = client.run(prompt)
    assert not run.succeeded
    assert "Thin frames" in run.error["exception_message"] and "the ice is thin" in run.error["exception_message"]
    assert files(comfy.output / "failed") == []
    assert client.run(quick(filename_prefix="after-error/video")).succeeded


# What is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "name", "value"),
    [
        ("Models", "models", "../../etc"),
        ("Presenter and sentence", "sentence", "none such"),
        ("Avatar", "crop", "half"),
        ("Motion", "emotion", "hungry"),
        ("Controls", "blink", "always"),
        ("Video", "encoder", "h263"),
        ("Video", "quality", "best"),
        ("Video", "container", "exe"),
    ],
)
def test_unknown_word_is_refused_with_the_choices(client: ComfyClient, node: str, name: str, value: str) -> None:
    message = refusal(client, replaced(quick(), node, **{name: value}))
    assert name in message and value in message and "hoose" in message


@pytest.mark.parametrize(("name", "value"), [("device", "toaster"), ("precision", "fp3")])
def test_any_other_word_ends_the_run_with_the_choices(client: ComfyClient, name: str, value: str) -> None:
    # ComfyUI repeats what a node refuses ahead for each input that it looks at, so that it looks at one only.
    told = client.run(replaced(quick(), "Models", **{name: value})).error["exception_message"]
    assert name in told and value in told and "Choose auto" in told


@pytest.mark.parametrize("prefix", ["../outside/video", "/etc/video", "a/../../video", "C:\\video"])
def test_result_stays_in_the_output_folder(comfy: ComfyServer, client: ComfyClient, prefix: str) -> None:
    before = files(comfy.base / "output")
    assert "file name" in refusal(client, quick(filename_prefix=prefix))
    assert files(comfy.base / "output") == before


@pytest.mark.parametrize("name", ["none.safetensors", "../user/comfyui.db", "/etc/passwd", "link.safetensors"])
def test_avatar_file_has_to_be_there_and_inside(comfy: ComfyServer, client: ComfyClient, name: str) -> None:
    link = comfy.input / "link.safetensors"
    if not link.is_symlink():
        shutil.copy(BUNDLED / "miniature" / "lmdm.safetensors", comfy.base / "outside.safetensors")
        link.symlink_to(comfy.base / "outside.safetensors")
    prompt = quick()
    prompt["load"] = {"class_type": "DittoLoadAvatar", "inputs": {"models": ["1", 0], "file": name}}
    message = refusal(client, replaced(prompt, "Render", avatar=["load", 0]))
    assert name in message


def test_file_that_a_table_names_has_to_be_inside(comfy: ComfyServer, client: ComfyClient) -> None:
    (comfy.input / "table.csv").write_text("avatar,speech\n../user/comfyui.db,/etc/passwd\n")
    message = refusal(client, replaced(api("bulletin"), "Segment", segments="table.csv"))
    assert "comfyui.db" in message
    assert "none.csv" in refusal(client, replaced(api("bulletin"), "Segment", segments="none.csv"))


def test_past_the_last_segment_one_clear_message(client: ComfyClient) -> None:
    run = client.run(replaced(api("bulletin"), "Segment", index=3))
    assert run.error["node_type"] == "DittoBulletinSegment"
    assert "index 3 of a bulletin of 3 segments" in run.error["exception_message"]
    assert "set the index to 0" in run.error["exception_message"]


# What is left behind -----------------------------------------------------------------------------------------


def test_nothing_stays_after_unloading_and_no_process_was_started(comfy: ComfyServer, client: ComfyClient) -> None:
    assert client.run(quick()).succeeded
    assert {"DittoModels", "Avatar", "MotionTrack"} <= comfy.probe()["alive"].keys()
    client.post("/free", {"unload_models": True, "free_memory": True})
    # The server frees before it takes the next prompt.
    client.upload("small.png", (BUNDLED / "presenter.png").read_bytes())
    look = {"1": {"class_type": "LoadImage", "inputs": {"image": "small.png"}}}
    client.run({**look, "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}}})
    probe = comfy.probe()
    assert not {"DittoModels", "Avatar", "MotionTrack", "Frames", "TransformersHubert"} & probe["alive"].keys()
    assert probe["started"] == []


@pytest.mark.long
def test_memory_stays_flat_over_fifty_prompts(comfy: ComfyServer, client: ComfyClient) -> None:
    resident = []
    for number in range(50):
        prompt = replaced(quick(filename_prefix="many/video"), "Motion", seed=number)
        assert client.run(prompt).succeeded
        resident.append(comfy.resident_mb())
    assert len(files(comfy.output / "many")) == 50
    assert max(resident[40:]) - max(resident[:20]) < 40, [round(value) for value in resident]

"""Two videos compared by the node: a planted glitch is found, named and shown."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.comfy_client import ComfyClient, Prompt, PromptRefused

from ditto_core.video import EncoderOptions, video_file

SIDE, FRAMES, GLITCH = 128, 50, 30


def clip(path: Path, *, glitch: bool) -> bytes:
    """A disc that sways; one frame of it may stand upside down."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    with video_file(path, size=(SIDE, SIDE), options=EncoderOptions(encoder="libx264", quality="broadcast")) as writer:
        for i in range(FRAMES):
            disc = (x - 64 - 12 * np.sin(i / 6)) ** 2 + (y - 50) ** 2 < 900
            picture = np.where(disc[..., None], (210, 160, 130), (60, 90, 150)).astype(np.uint8)
            writer.write(picture[::-1].copy() if glitch and i == GLITCH else picture)
    return path.read_bytes()


def comparing(client: ComfyClient, folder: Path, *, glitch: bool, **inputs: int) -> Prompt:
    """A prompt that compares a clip with one that may have a glitch."""
    names = [
        client.upload(f"{name}.mp4", clip(folder / f"{name}.mp4", glitch=name == "glitch"))
        for name in ("good", "glitch" if glitch else "same")
    ]
    box = {name: inputs.get(name, 0) for name in ("mouth_x", "mouth_y", "mouth_width", "mouth_height")}
    return {
        "a": {"class_type": "LoadVideo", "inputs": {"file": names[0]}},
        "b": {"class_type": "LoadVideo", "inputs": {"file": names[1]}},
        "c": {"class_type": "DittoCompareVideos", "inputs": {"reference": ["a", 0], "test": ["b", 0], **box}},
        "report": {"class_type": "PreviewAny", "inputs": {"source": ["c", 1]}},
        "summary": {"class_type": "PreviewAny", "inputs": {"source": ["c", 2]}},
        "picture": {"class_type": "PreviewImage", "inputs": {"images": ["c", 0]}},
    }


def test_a_planted_glitch_is_named_and_shown(client: ComfyClient, tmp_path: Path) -> None:
    prompt = comparing(client, tmp_path, glitch=True, mouth_x=50, mouth_y=60, mouth_width=30, mouth_height=20)
    run = client.run(prompt)
    assert run.succeeded, run.events[-1]
    report = json.loads(run.outputs["report"]["text"][0])
    assert report["steps"]["spikes"][0] == GLITCH and set(report["steps"]["spikes"]) <= {GLITCH, GLITCH + 1}
    assert report["compared_frames"] == FRAMES and len(report["aperture"]["test"]) == FRAMES
    assert f"from frame to frame, at {GLITCH}" in run.outputs["summary"]["text"][0]
    assert "a video has no sound" in run.outputs["summary"]["text"][0]
    shown, given = (
        np.asarray(Image.open(io.BytesIO(client.view(run.outputs[node]["images"][0])))) for node in ("c", "picture")
    )
    assert shown.shape == given.shape and shown.shape[1] >= 900
    assert np.abs(shown.astype(int) - given).max() <= 1


def test_a_good_copy_has_no_findings(client: ComfyClient, tmp_path: Path) -> None:
    run = client.run(comparing(client, tmp_path, glitch=False))
    report = json.loads(run.outputs["report"]["text"][0])
    assert report["findings"] == [] and report["aperture"] is None
    assert "nothing found" in run.outputs["summary"]["text"][0]


def test_half_a_box_is_refused(client: ComfyClient, tmp_path: Path) -> None:
    run = client.run(comparing(client, tmp_path, glitch=False, mouth_width=30))
    assert run.error["node_type"] == "DittoCompareVideos" and "a mouth of 30x0 pixels" in run.error["exception_message"]
    with pytest.raises(PromptRefused, match="mouth_width"):
        client.queue(comparing(client, tmp_path, glitch=False, mouth_width=-1, mouth_height=9))

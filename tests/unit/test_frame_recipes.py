"""Frames from a sound, from motion and from pictures: pulled in whole or in part, and written the same way."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models import write_folder

from ditto_core.avatar import Avatar, CropRequest, register
from ditto_core.backends import TorchBackend
from ditto_core.checkpoints import DittoModels, load_models
from ditto_core.errors import InvalidValueError
from ditto_core.media import read_image
from ditto_core.motion.controls import LIP_POINTS
from ditto_core.motion.keypoints import PARTS
from ditto_core.motion.readings import read_motion
from ditto_core.pipeline.frames import Frames
from ditto_core.pipeline.motion import MotionOptions, make_motion
from ditto_core.pipeline.picture_frames import PictureFrames
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.speech_frames import SpeechFrames
from ditto_core.pipeline.write import write_video
from ditto_core.render import RenderOptions, nv12_planes, nv12_to_rgb, rgb_to_nv12
from ditto_core.speech import Sound, recipe_hubert
from ditto_core.video import EncoderOptions

PRESENTER = Path(__file__).parents[2] / "ditto_core" / "bundled" / "presenter.png"
QUICK = MotionOptions(steps=1)
SIDE = 64


def noise(frames: float) -> Sound:
    samples = np.random.default_rng(1).normal(0, 0.1, round(640 * frames)).astype(np.float32)
    return Sound(samples[None], 16000)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> DittoModels:
    return load_models(write_folder(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="module")
def avatar(models) -> Avatar:
    picture = np.ascontiguousarray(read_image(PRESENTER)[100:740:10, 112:752:10])
    return register(picture, models, crop=CropRequest.parse("full"))


@pytest.fixture(scope="module")
def encoder(models):
    return recipe_hubert(models.preset.speech_features, "miniature")


@pytest.fixture(scope="module")
def frames(models, avatar, encoder) -> Frames:
    track = make_motion(models, encoder, avatar, noise(21), QUICK)
    return Frames(
        models=models, backend=TorchBackend(models), avatar=avatar, track=track, options=RenderOptions(batch=2)
    )


@pytest.fixture(scope="module")
def whole(frames) -> dict[int, torch.Tensor]:
    """All pictures, by cadence."""
    return {cadence: pulled(at_cadence(frames, cadence)) for cadence in (1, 2)}


def at_cadence(frames: Frames, cadence: int) -> Frames:
    return dataclasses.replace(frames, options=RenderOptions(batch=2, cadence=cadence))


def pulled(recipe, **options) -> torch.Tensor:
    return torch.cat(
        [torch.zeros(0, *recipe.size, 3, dtype=torch.uint8), *(c.pictures for c in recipe.pull(**options))]
    )


@settings(max_examples=12, deadline=None)
@given(start=st.integers(0, 22), count=st.integers(0, 9), cadence=st.sampled_from((1, 2)))
def test_a_part_is_the_same_as_in_the_whole(frames, whole, start, count, cadence) -> None:
    wanted = range(start, start + count)
    part = list(at_cadence(frames, cadence).pull(wanted=wanted))
    pictures = torch.cat([torch.zeros(0, SIDE, SIDE, 3, dtype=torch.uint8), *(chunk.pictures for chunk in part)])
    assert torch.equal(pictures, whole[cadence][start : start + count])
    assert sum(len(chunk.mouths) for chunk in part) == sum(len(chunk.face_boxes) for chunk in part) == len(pictures)


def test_chunks_without_a_wanted_frame_are_not_rendered(frames) -> None:
    checks: list[int] = []
    pulled(frames, wanted=range(17, 18), check_cancelled=lambda: checks.append(1))
    assert len(checks) == 1


def test_frames_of_a_sound_are_those_of_its_motion(models, avatar, encoder, frames, whole) -> None:
    recipe = SpeechFrames(
        models=models, encoder=encoder, backend=frames.backend, avatar=avatar, sound=noise(21), motion=QUICK,
        options=RenderOptions(batch=2),
    )  # fmt: skip
    stages: list[str] = []
    assert len(recipe) == 21 and recipe.size == (SIDE, SIDE)
    assert torch.equal(pulled(recipe, progress=lambda stage, *_: stages.append(stage)), whole[1])
    assert stages == ["motion"]
    assert torch.equal(pulled(recipe, wanted=range(5, 7)), whole[1][5:7])


def test_motion_is_read_as_it_moves_the_face(avatar, frames) -> None:
    """At rest nothing turns and the mouth keeps its height; a lip further down opens it."""
    rest = dataclasses.replace(frames.track, vectors=frames.track.reference.expand(5, -1).clone())
    readings = read_motion(avatar, rest)
    assert all(not curve.any() and len(curve) == 5 for curve in readings.pose.values())
    assert np.ptp(readings.aperture) == 0
    moved = rest.vectors.clone()
    moved[2, PARTS.exp.start + 3 * torch.tensor(LIP_POINTS) + 1] += torch.linspace(0, 0.2, len(LIP_POINTS))
    moved[3, PARTS.yaw] = torch.linspace(0, 20, 66)
    readings = read_motion(avatar, dataclasses.replace(rest, vectors=moved))
    assert (readings.aperture != readings.aperture[0]).tolist()[:3] == [False, False, True]
    assert readings.pose["yaw"][3] > 10 and not readings.pose["pitch"].any()


@pytest.mark.parametrize("ending, count", [("exact", 30), ("upstream-online", 50)])
def test_a_chunked_plan_promises_the_frames_that_it_makes(models, avatar, encoder, frames, ending, count) -> None:
    plan = dataclasses.replace(named_plan("upstream-online", chunk=25), ending=ending)
    recipe = SpeechFrames(
        models=models, encoder=encoder, backend=frames.backend, avatar=avatar, sound=noise(30),
        motion=dataclasses.replace(QUICK, plan=plan),
    )  # fmt: skip
    assert len(recipe) == len(pulled(recipe)) == count


def test_an_avatar_of_other_models_is_refused(models, avatar, encoder, frames) -> None:
    other = dataclasses.replace(avatar, models="0" * 64)
    with pytest.raises(InvalidValueError, match="avatar made with models 000000000000"):
        SpeechFrames(models=models, encoder=encoder, backend=frames.backend, avatar=other, sound=noise(5))


def test_a_registered_picture_is_that_of_its_file(models, tmp_path, avatar) -> None:
    """A picture in memory, as from a node, and the same as a file make one avatar."""
    from_file = register(PRESENTER, models, crop=CropRequest.parse("full"))
    assert register(read_image(PRESENTER), models, crop=CropRequest.parse("full")).fingerprint == from_file.fingerprint
    with pytest.raises(InvalidValueError, match="a picture of float32"):
        register(np.zeros((64, 64, 3), np.float32), models, crop=CropRequest.parse("full"))


def test_writing_tells_preview_progress_and_metadata(frames, whole, tmp_path) -> None:
    previews, steps = [], []
    report = write_video(
        frames, tmp_path / "v.mp4", sound=noise(21), video=EncoderOptions(encoder="libx264", quality="live"),
        metadata={"workflow": '{"nodes": []}', "prompt": "ü"},
        preview=lambda make: previews.append(make()), progress=lambda *step: steps.append(step),
    )  # fmt: skip
    assert steps[-1] == ("frames", 21, 21) and len(previews) == len(steps) == 6
    assert all(picture.shape == (SIDE, SIDE, 3) and picture.dtype == torch.uint8 for picture in previews)
    assert int((previews[-1].int() - nv12_to_rgb(rgb_to_nv12(whole[1][-1:]))[0].int()).abs().max()) <= 6
    assert json.loads(json.dumps(report))["plan"] == {"name": "offline"}
    assert set(report["executed_by"]) == {"render", "encode"} and len(report["mouth_polygons"]) == 21
    with av.open(str(tmp_path / "v.mp4")) as file:
        assert json.loads(file.metadata["workflow"]) == {"nodes": []} and file.metadata["prompt"] == "ü"
        assert file.streams.video[0].frames == 21 and file.streams.audio


@given(
    height=st.integers(16, 40), width=st.integers(16, 40), channels=st.sampled_from((3, 4)), frames=st.integers(1, 40)
)
@settings(max_examples=20, deadline=None)
def test_pictures_are_rounded_and_even(height, width, channels, frames) -> None:
    values = torch.rand(frames, height, width, channels, generator=torch.Generator().manual_seed(frames)) * 1.2 - 0.1
    recipe = PictureFrames(pictures=values, fps=Fraction(24))
    even = values[:, : height // 2 * 2, : width // 2 * 2, :3].clamp(0, 1).double() * 255
    assert recipe.size == tuple(even.shape[1:3]) and len(recipe) == frames
    assert float((pulled(recipe).double() - even).abs().max()) < 0.501


@pytest.mark.parametrize("rate, frames", [(Fraction(30000, 1001), 5), (Fraction(60000, 1001), 10)])
def test_the_file_has_the_rate_that_was_asked_for(tmp_path, rate, frames) -> None:
    recipe = PictureFrames(pictures=torch.rand(5, 33, 48, 3), fps=Fraction(30000, 1001))
    report = write_video(recipe, tmp_path / "v.mp4", video=EncoderOptions(encoder="libx264", fps=rate))
    with av.open(str(tmp_path / "v.mp4")) as file:
        assert file.streams.video[0].average_rate == rate and file.streams.video[0].frames == frames
        assert not file.streams.audio
    assert report["size"] == [48, 32] and report["fps"] == str(rate) and not report["mouth_polygons"]
    assert report["frames"] == frames and report["source_fps"] == "30000/1001"


def test_nv12_is_the_same_picture(frames, whole) -> None:
    """What the encoder gets differs from the RGB pictures only by rounding and by the halved chroma."""
    made = torch.cat([chunk.pictures for chunk in frames.pull(colour="nv12")])
    luma, _ = nv12_planes(made)
    wanted, _ = nv12_planes(rgb_to_nv12(whole[1]))
    assert made.shape == (21, SIDE * 3 // 2, SIDE) and int((luma.int() - wanted.int()).abs().max()) <= 2


@pytest.mark.parametrize("shape", [(0, 32, 32, 3), (32, 32, 3), (2, 32, 32, 1)])
def test_what_is_no_picture_is_refused(shape) -> None:
    with pytest.raises(InvalidValueError, match="pictures of shape"):
        PictureFrames(pictures=torch.zeros(shape), fps=Fraction(25))


@pytest.mark.parametrize("guidance", [float("nan"), float("inf")])
def test_guidance_that_is_no_number_is_refused(guidance) -> None:
    """JSON as Python reads it can hold them, and no range excludes NaN."""
    with pytest.raises(InvalidValueError, match="guidance"):
        MotionOptions(guidance=guidance)

"""Registration of real picture and video files, and avatar files."""

from __future__ import annotations

import dataclasses
import logging
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from support import recipes

from ditto_core.avatar import Avatar, CropRequest, analysis_for, open_avatar, register
from ditto_core.avatar.analysis import MissingDetectorsError
from ditto_core.avatar.crop import box_crop, transform
from ditto_core.avatar.defaults import preset_defaults
from ditto_core.avatar.detect import Faces
from ditto_core.avatar.mesh import NoMeshError
from ditto_core.avatar.register import FaceError
from ditto_core.avatar.smoothing import smooth_motion
from ditto_core.avatar.store import AvatarFileError
from ditto_core.checkpoints.models import build_network, recipe_weights
from ditto_core.errors import FileError, InvalidValueError
from ditto_core.media import MediaError
from ditto_core.networks import MINIATURE
from ditto_core.networks.motion_extractor import MotionParameters

PRESET = dataclasses.replace(MINIATURE, extractor_depths=(1, 1, 1, 1), extractor_widths=(8, 8, 16, 16))
MODELS = SimpleNamespace(
    preset=PRESET,
    source="miniature",
    folder=None,
    fingerprint="a" * 64,
    motion_extractor=build_network(
        "motion_extractor", PRESET, recipe_weights("motion_extractor", PRESET), origin="recipe"
    ),
)
OFFICIAL_LIKE = SimpleNamespace(**{**vars(MODELS), "preset": dataclasses.replace(PRESET, name="official")})
FULL = CropRequest(mode="full")


def encode(picture: NDArray[np.uint8], codec: str, pixels: str) -> bytes:
    layout = {"rgba": "rgba", "gray": "gray"}.get(pixels, "rgb24")
    context = av.CodecContext.create(codec, "w")
    (context.height, context.width), context.pix_fmt = picture.shape[:2], pixels
    context.time_base = Fraction(1, 25)
    frame = av.VideoFrame.from_ndarray(picture, format=layout).reformat(format=pixels)
    return b"".join(bytes(packet) for packet in [*context.encode(frame), *context.encode(None)])


def png(path: Path, picture: NDArray[np.uint8], pixels: str = "rgb24") -> Path:
    path.write_bytes(encode(picture, "png", pixels))
    return path


def quarter_turned_jpeg(path: Path, picture: NDArray[np.uint8]) -> Path:
    """A JPEG whose EXIF data say that it is to be turned clockwise by a quarter (orientation 6)."""
    entry = b"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00"
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\x00" + entry + b"\0\0\0\0"
    content = encode(picture, "mjpeg", "yuvj444p")
    path.write_bytes(content[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + content[2:])
    return path


class MarkedFace:
    """Faces whose place is that of a picture's brightest pixels, so that what is followed can be checked.

    Args:
        boxes: what the detector sees.
        mesh: whether crops show a mesh.
    """

    def __init__(self, *boxes: tuple[float, ...], mesh: bool = True) -> None:
        self.boxes = np.array(boxes, dtype=np.float32).reshape(-1, 4)
        self.has_mesh = mesh
        self.calls: list[str] = []

    def faces(self, picture: NDArray[np.uint8]) -> Faces:
        self.calls.append("faces")
        return Faces(self.boxes, np.full(len(self.boxes), 0.9, np.float32), np.zeros((len(self.boxes), 5, 2)))

    def landmarks_106(self, picture: NDArray[np.uint8], box: NDArray[Any]) -> NDArray[np.float32]:
        self.calls.append("106")
        middle, extent = (box[:2] + box[2:]) / 2, box[2:] - box[:2]
        return (_spread(106) * extent + middle).astype(np.float32)

    def landmarks_203(self, crop: NDArray[np.uint8], to_picture: NDArray[Any]) -> NDArray[np.float32]:
        self.calls.append("203")
        rows, columns = np.nonzero(crop.min(-1) > 180)
        centre = np.array([columns.mean(), rows.mean()]) if len(rows) else np.array([112, 112])
        return transform(to_picture, _spread(203) * (224 / 1.5) + centre).astype(np.float32)

    def mesh(self, crop: NDArray[np.uint8]) -> NDArray[np.float32]:
        self.calls.append("mesh")
        if not self.has_mesh:
            raise NoMeshError("no face in the crop", remedy="choose another")
        return recipes.uniform("mesh", (478, 3))


def _spread(count: int) -> NDArray[np.float64]:
    """Landmarks of an upright face in -0.5..0.5, eyes above lips."""
    points = recipes.generator("spread").uniform(-0.5, 0.5, (count, 2))
    left, right, lips = {
        106: ([33, 35, 40, 39], [87, 89, 94, 93], [52, 61]),
        203: ([0, 6, 12, 18], [24, 30, 36, 42], [48, 66]),
    }[count]
    points[left], points[right], points[lips] = (-0.2, -0.2), (0.2, -0.2), (0.0, 0.25)
    points[[1, 2]] = (-0.5, -0.5), (0.5, 0.5)
    return points


def marked_video(path: Path, frames: int = 20, rate: Fraction = Fraction(25)) -> Path:
    """A bright square of 20 pixels round (100 + 2 i, 90) in frame i."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "5"})
        stream.height, stream.width, stream.pix_fmt = 180, 240, "yuv420p"
        for i in range(frames):
            picture = np.full((180, 240, 3), 40, np.uint8)
            picture[80:100, 90 + 2 * i : 110 + 2 * i] = 230
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def parameters(crops: torch.Tensor) -> MotionParameters:
    with torch.no_grad():
        return MODELS.motion_extractor(crops.permute(0, 3, 1, 2).float() / 255)


def test_image_with_a_given_crop(tmp_path: Path) -> None:
    picture = recipes.image_hwc("portrait", 300, 401)
    avatar = register(png(tmp_path / "a.png", picture), MODELS, crop=CropRequest.parse("60,20,256,0"))
    assert avatar.is_image and len(avatar) == 1 and avatar.frames.fps is None
    np.testing.assert_array_equal(avatar.frames[0], picture[:, :400])  # an odd column goes
    np.testing.assert_allclose(avatar.crop_to_frame[0], box_crop(60, 20, 256), rtol=1e-6)
    # 256 pixels enlarged to 512 and reduced again
    difference = avatar.crops[0].numpy().astype(int) - picture[20:276, 60:316]
    assert np.abs(difference).mean() < 8
    torch.testing.assert_close(torch.cat(avatar.motion, -1), torch.cat(parameters(avatar.crops), -1))
    torch.testing.assert_close(avatar.canonical, avatar.motion.kp[0])
    assert all(value.dtype == torch.float32 for value in avatar.motion)


def test_miniature_frames_itself_and_has_neutral_eyes(tmp_path: Path) -> None:
    avatar = register(png(tmp_path / "a.png", recipes.image_hwc("p", 540, 960)), MODELS)
    np.testing.assert_allclose(avatar.crop_to_frame[0], box_crop(320, 50, 320), rtol=1e-6)
    defaults = preset_defaults(MINIATURE)
    assert avatar.eye_open.tolist() == [pytest.approx(defaults.eye_open)]
    assert avatar.eye_ball.tolist() == [list(defaults.eye_ball)]
    assert not avatar.eyes_measured


def test_other_models_without_detectors_ask_for_files_or_a_crop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = png(tmp_path / "a.png", recipes.image_hwc("p", 128, 128))
    with pytest.raises(MissingDetectorsError, match=r"insightface_det.onnx or det_10g.*face_mesh.*a box, or"):
        register(path, OFFICIAL_LIKE)
    assert analysis_for(OFFICIAL_LIKE, CropRequest()) is None
    assert not register(path, MODELS, crop=FULL).eyes_measured and not caplog.text  # it has no other ones
    assert not register(path, OFFICIAL_LIKE, crop=FULL).eyes_measured
    assert "the eyes have neutral values" in caplog.text


@pytest.mark.parametrize("crop", ["full", "10,10,100", "auto"])
def test_a_face_is_refused_where_none_is_looked_for(tmp_path: Path, crop: str) -> None:
    path = png(tmp_path / "a.png", recipes.image_hwc("p", 128, 128))
    with pytest.raises(InvalidValueError, match="face 3 with .*, where no faces are looked for"):
        register(path, MODELS, crop=CropRequest.parse(crop), face=3)


def test_a_file_is_a_saved_avatar_or_one_to_register(tmp_path: Path) -> None:
    path = png(tmp_path / "a.png", recipes.image_hwc("p", 128, 128))
    registered = open_avatar(path, MODELS, crop=FULL)
    registered.save(tmp_path / "A.SAFETENSORS")
    assert_same(open_avatar(tmp_path / "A.SAFETENSORS", MODELS), registered)
    for asked, word in (({"crop": FULL}, "crop full"), ({"face": 1}, "face 1")):
        with pytest.raises(InvalidValueError, match=f"{word} with a saved presenter"):
            open_avatar(tmp_path / "A.SAFETENSORS", MODELS, **asked)


@pytest.mark.parametrize("pixels", ["rgba", "gray"])
def test_alpha_and_grey_pictures(tmp_path: Path, pixels: str) -> None:
    picture = recipes.image_hwc("p", 130, 128)
    stored = picture[..., 0] if pixels == "gray" else np.dstack([picture, np.full((130, 128), 99, np.uint8)])
    shown = np.repeat(stored[..., None], 3, axis=-1) if pixels == "gray" else picture
    avatar = register(png(tmp_path / "a.png", np.ascontiguousarray(stored), pixels), MODELS, crop=FULL)
    assert np.abs(avatar.frames[0].astype(int) - shown).max() <= 1


def test_exif_rotation_comes_before_the_crop(tmp_path: Path) -> None:
    picture = np.full((100, 200, 3), 20, np.uint8)
    picture[:, :60] = 220  # left as stored, on top as seen
    avatar = register(quarter_turned_jpeg(tmp_path / "a.jpg", picture), MODELS, crop=CropRequest.parse("0,0,60"))
    assert avatar.frames.size == (200, 100)
    assert avatar.crops[:, 3:-3, 3:-3].min() > 150


def test_8k_pictures_are_reduced_and_the_crop_with_them(tmp_path: Path) -> None:
    picture = np.full((4320, 7680, 3), 30, np.uint8)
    picture[1000:2000, 3000:4000] = 200
    avatar = register(png(tmp_path / "a.png", picture), MODELS, crop=CropRequest.parse("3000,1000,1000"))
    assert avatar.frames.size == (1080, 1920)
    assert avatar.crops[:, 3:-3, 3:-3].min() > 195
    np.testing.assert_allclose(avatar.crop_to_frame[0], box_crop(750, 250, 250), rtol=1e-6)


@pytest.mark.parametrize("width, crop, problem", [(20, "full", "20 x 128 pixels"), (300, "400,0,64", "outside")])
def test_unusable_sizes_and_crops_are_told(tmp_path: Path, width: int, crop: str, problem: str) -> None:
    path = png(tmp_path / "a.png", recipes.image_hwc("p", 128, width))
    with pytest.raises(InvalidValueError, match=problem):
        register(path, MODELS, crop=CropRequest.parse(crop))


def test_no_picture_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("nothing")
    for name in ("a.png", "absent.png"):
        with pytest.raises(MediaError, match=name):
            register(tmp_path / name, MODELS)


def scene(tmp_path: Path) -> Path:
    picture = np.full((400, 600, 3), 40, np.uint8)
    picture[180:200, 390:410] = 230
    return png(tmp_path / "scene.png", picture)


def test_the_largest_face_is_taken_or_the_one_asked_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = scene(tmp_path)
    small, large = (80.0, 100.0, 180.0, 200.0), (320.0, 110.0, 480.0, 270.0)
    with caplog.at_level(logging.INFO, logger="ditto_core"):
        first = register(path, MODELS, analysis=MarkedFace(small, large))
    assert "2 faces" in caplog.text
    second = register(path, MODELS, analysis=MarkedFace(small, large), face=1)
    middles = [transform(a.crop_to_frame[0].numpy(), np.array([[256, 256]]))[0] for a in (first, second)]
    # the centre of the crop is an eighth of its side (2.3 faces) above the face's
    np.testing.assert_allclose(middles[0], [400, 190 - 2.3 * 160 / 8], atol=5)
    np.testing.assert_allclose(middles[1], [130, 150 - 2.3 * 100 / 8], atol=15)
    assert first.eyes_measured and first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    "boxes, face, problem",
    [
        ([], 0, "no face in the picture"),
        ([(320, 110, 480, 270)], 1, "face 1 was asked for, and 1 found"),
        ([(320, 110, 340, 130)], 0, "a face of 20 pixels"),
        ([(520, 310, 720, 510)], 0, "cut by the picture's edge"),
    ],
)
def test_unusable_faces_are_told(tmp_path: Path, boxes: list[tuple[float, ...]], face: int, problem: str) -> None:
    with pytest.raises(FaceError, match=problem):
        register(scene(tmp_path), MODELS, analysis=MarkedFace(*boxes), face=face)
    with pytest.raises(InvalidValueError, match="face -1"):
        register(scene(tmp_path), MODELS, analysis=MarkedFace(*boxes), face=-1)


def test_eyes_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, blind = scene(tmp_path), MarkedFace((320, 110, 480, 270), mesh=False)
    with pytest.raises(NoMeshError):
        register(path, MODELS, analysis=blind)
    avatar = register(path, MODELS, analysis=blind, crop=FULL)  # the user said where the face is
    assert not avatar.eyes_measured
    assert "could not be read in 1 of 1 frames" in caplog.text


def test_video_is_followed_frame_by_frame(tmp_path: Path) -> None:
    analysis = MarkedFace((60, 50, 140, 130))
    done = []
    avatar = register(
        marked_video(tmp_path / "a.mp4", rate=Fraction(30000, 1001)),
        MODELS,
        analysis=analysis,
        progress=lambda i, n: done.append((i, n)),
    )
    assert not avatar.is_image and len(avatar) == 20 and avatar.frames.fps == Fraction(30000, 1001)
    assert analysis.calls[:3] == ["faces", "106", "203"]
    assert analysis.calls.count("faces") == analysis.calls.count("106") == 1
    assert analysis.calls.count("203") == analysis.calls.count("mesh") == 20
    assert done == [(8, 20), (16, 20), (20, 20)]
    middles = np.stack([transform(m.numpy(), np.array([[256, 256]]))[0] for m in avatar.crop_to_frame])
    np.testing.assert_allclose(np.diff(middles[:, 0]), 2, atol=0.7)  # as the mark moves
    assert np.abs(np.diff(middles[:, 1])).max() < 0.7


def test_video_parameters_are_smoothed_but_canonical_points_and_eyes_are_not(tmp_path: Path) -> None:
    path = marked_video(tmp_path / "a.mp4")
    avatar = register(path, MODELS, crop=CropRequest.parse("40,30,120"))
    raw = parameters(avatar.crops)
    for smoothed, expected in zip(avatar.motion, smooth_motion(raw, 13), strict=True):
        torch.testing.assert_close(smoothed, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(avatar.canonical, raw.kp[0], atol=1e-5, rtol=1e-4)
    unsmoothed = register(path, MODELS, crop=CropRequest.parse("40,30,120"), smoothing=1)
    torch.testing.assert_close(unsmoothed.motion.exp, raw.exp, atol=1e-5, rtol=1e-4)
    assert (unsmoothed.motion.exp - avatar.motion.exp).abs().max() > 1e-3
    assert bool((avatar.crop_to_frame == avatar.crop_to_frame[0]).all())


@pytest.mark.parametrize("count", [5, 25])  # while the video is scanned, and while faces are cut
def test_cancelling_ends_the_registration(tmp_path: Path, count: int) -> None:
    calls = []

    def cancel() -> None:
        calls.append(1)
        if len(calls) == count:
            raise KeyboardInterrupt

    path = marked_video(tmp_path / "a.mp4")
    with pytest.raises(KeyboardInterrupt):
        register(path, MODELS, crop=FULL, check_cancelled=cancel)
    assert len(calls) == count


def test_saved_image_needs_no_source_file(tmp_path: Path) -> None:
    path = png(tmp_path / "a.png", recipes.image_hwc("p", 200, 180))
    avatar = register(path, MODELS, crop=FULL)
    avatar.save(tmp_path / "a.safetensors")
    path.unlink()
    again = Avatar.load(tmp_path / "a.safetensors", models=MODELS.fingerprint)
    assert_same(avatar, again)
    assert again.is_image


def test_saved_video_needs_no_source_file(tmp_path: Path) -> None:
    path = marked_video(tmp_path / "a.mp4", rate=Fraction(30000, 1001))
    avatar = register(path, MODELS, analysis=MarkedFace((60, 50, 140, 130)))
    frames = [avatar.frames[i] for i in range(20)]
    fingerprint = avatar.fingerprint
    avatar.save(tmp_path / "a.safetensors")
    path.unlink()
    again = Avatar.load(tmp_path / "a.safetensors")
    assert again.fingerprint == fingerprint and not again.is_image and again.eyes_measured
    assert again.frames.fps == Fraction(30000, 1001)
    for i in reversed(range(20)):
        np.testing.assert_array_equal(again.frames[i], frames[i])


def assert_same(one: Avatar, other: Avatar) -> None:
    assert one.fingerprint == other.fingerprint
    assert (one.models, one.eyes_measured, one.frames.fps) == (other.models, other.eyes_measured, other.frames.fps)
    for name in ("crops", "canonical", "eye_open", "eye_ball", "crop_to_frame"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert all(torch.equal(a, b) for a, b in zip(one.motion, other.motion, strict=True))
    np.testing.assert_array_equal(one.frames[0], other.frames[0])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    register(png(tmp_path / "a.png", recipes.image_hwc("p", 64, 64)), MODELS, crop=FULL).save(tmp_path / "a.avatar")
    return tmp_path / "a.avatar"


def rewritten(path: Path, *, metadata: dict[str, str] | None = None, **tensors: torch.Tensor | None) -> Path:
    """The avatar file with some tensors and metadata replaced, or left out where None."""
    with safe_open(path, framework="pt") as file:
        content = {name: file.get_tensor(name).clone() for name in file.keys()}
        words = file.metadata() | (metadata or {})
    content |= {name.replace("__", "."): value for name, value in tensors.items()}
    save_file({name: value for name, value in content.items() if value is not None}, path, metadata=words)
    return path


def test_wrong_models_are_refused(saved: Path) -> None:
    with pytest.raises(AvatarFileError, match=r"made with models aaaaaaaaaaaa, not bbbbbbbbbbbb.*[Rr]egister"):
        Avatar.load(saved, models="b" * 64)


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"metadata": {"version": "9"}}, "format 9"),
        ({"metadata": {"format": "pictures"}}, "not an avatar"),
        ({"crops": torch.zeros(2, 256, 256, 3, dtype=torch.uint8)}, "motion.pitch|crops|canonical|eye"),
        ({"crops": torch.zeros(1, 128, 128, 3, dtype=torch.uint8)}, "'crops' is U8"),
        ({"motion__exp": torch.zeros(1, 63, dtype=torch.float64)}, "'motion.exp' is F64"),
        ({"motion__exp": torch.full((1, 63), float("nan"))}, "not finite"),
        ({"eye_open": None}, "eye_open"),
        ({"extra": torch.zeros(1)}, "extra"),
        ({"picture": torch.zeros(63, 64, 3, dtype=torch.uint8)}, "63"),
        ({"picture": torch.zeros(8, 4000, 3, dtype=torch.uint8)}, "4000"),
        ({"crop_to_frame": torch.diag(torch.tensor([0.0, 1.0, 1.0]))[None]}, "without area"),
        ({"crop_to_frame": torch.eye(3)[None] * 2}, "without area"),
        ({"crop_to_frame": torch.diag(torch.tensor([1e8, 1.0, 1.0]))[None]}, "out of range"),
    ],
)
def test_avatar_files_are_checked(saved: Path, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(AvatarFileError, match=problem):
        Avatar.load(rewritten(saved, **change))


def test_damaged_avatar_files_are_refused(saved: Path) -> None:
    content = saved.read_bytes()
    huge = (1 << 60).to_bytes(8, "little") + content[8:]
    for damaged in (b"", content[:100], content[:-10], huge, b"x" * 500):
        saved.write_bytes(damaged)
        with pytest.raises(AvatarFileError):
            Avatar.load(saved)
    with pytest.raises(AvatarFileError, match="no such file"):
        Avatar.load(saved.with_name("absent"))


def test_a_save_that_fails_leaves_the_old_file(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    path = marked_video(tmp_path / "b.mp4")
    avatar = register(path, MODELS, crop=FULL)
    path.unlink()
    with pytest.raises(FileError, match="can't be read"):
        avatar.save(saved)
    with pytest.raises(FileError, match="can't be written"):
        avatar_of_picture = Avatar.load(saved)
        avatar_of_picture.save(tmp_path / "no folder" / "a.avatar")
    assert saved.read_bytes() == content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.avatar", "a.png"]

"""The renderer: key points in, finished frames out. The networks are the real miniature."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from ditto_core.backends import TorchBackend, precision_type
from ditto_core.backends.backend import cpu_has_bfloat16
from ditto_core.checkpoints.models import load_models
from ditto_core.errors import InvalidValueError
from ditto_core.render import Renderer, RenderOptions, rgb_to_nv12
from ditto_core.render.cadence import spherical_midpoint

SIZE = (64, 96)
CPU = torch.device("cpu")


@dataclass
class Frames:
    """Frames in memory."""

    pictures: NDArray[np.uint8]
    fps: Fraction | None
    size: tuple[int, int] = SIZE

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.pictures[index]


@dataclass
class Avatar:
    """Noise with a face crop, an image (one frame) or a video."""

    count: int
    frames: Frames = field(init=False)
    crops: Tensor = field(init=False)
    crop_to_frame: Tensor = field(init=False)

    def __post_init__(self) -> None:
        draw = np.random.default_rng(3)
        pictures = draw.integers(0, 256, (self.count, *SIZE, 3), dtype=np.uint8)
        self.frames = Frames(pictures, None if self.count == 1 else Fraction(25))
        self.crops = torch.from_numpy(draw.integers(0, 256, (self.count, 256, 256, 3), dtype=np.uint8))
        shift = torch.arange(self.count)[:, None, None] * torch.tensor([[0, 0, 3.0], [0, 0, 0], [0, 0, 0]])
        self.crop_to_frame = torch.tensor([[0.08, 0, 20], [0, 0.08, 10], [0, 0, 1]]) + shift


@cache
def backend() -> TorchBackend:
    return TorchBackend(load_models("miniature"))


@cache
def motion(frames: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x_s = 0.3 * torch.randn(1, 21, 3, generator=generator).expand(frames, -1, -1)
    return x_s, x_s + 0.05 * torch.randn(frames, 21, 3, generator=generator)


def renderer(count: int = 1, **options: int) -> Renderer:
    return Renderer(backend(), Avatar(count), RenderOptions(**{"batch": 2, **options}))


def test_faces_are_what_the_networks_draw_one_by_one() -> None:
    """Within float32: 1e-4 of the range 0..1."""
    models, avatar = load_models("miniature"), Avatar(1)
    x_s, x_d = motion(3)
    faces = renderer().faces(x_s, x_d)
    picture = avatar.crops[0].permute(2, 0, 1)[None] / 255
    with torch.inference_mode():
        f_s = models.appearance_extractor(picture)
        for i in range(3):
            feature = models.warp_network(f_s, x_s[i : i + 1], x_d[i : i + 1])
            assert (models.decoder(feature)[0] - faces[i]).abs().max() <= 1e-4


class RowSensitive(TorchBackend):
    """Like a GPU's, whose last bits depend on a frame's row in the batch, only that it shows."""

    def volumes(self, crops: Tensor) -> Tensor:
        made = super().volumes(crops)
        return made * (1 + 0.1 * torch.arange(len(made))[:, None, None, None, None])

    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        drawn = super().faces(f_s, x_s, x_d)
        return drawn / (1 + torch.arange(len(drawn))[:, None, None, None])


@pytest.mark.parametrize("count", [1, 3])
def test_every_frame_has_its_fixed_row_in_a_batch(count: int) -> None:
    x_s, x_d = motion(5)
    backend = RowSensitive(load_models("miniature"))
    whole = Renderer(backend, Avatar(count), RenderOptions(batch=2)).faces(x_s, x_d)
    parts = Renderer(backend, Avatar(count), RenderOptions(batch=2, volume_memory_mb=0))
    pieces = [parts.faces(x_s[a:b], x_d[a:b], first=a) for a, b in ((0, 1), (1, 4), (4, 5))]
    assert torch.equal(whole, torch.cat(pieces))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("colour", ["rgb", "nv12"])
def test_frames_do_not_depend_on_how_they_are_grouped(count: int, colour: Literal["rgb", "nv12"]) -> None:
    """Bit for bit, for an image and for a video avatar with its frames forth and back."""
    x_s, x_d = motion(5)
    whole = renderer(count).render(x_s, x_d, colour=colour).pictures
    parts = renderer(count, volume_memory_mb=0)
    pieces = [parts.render(x_s[a:b], x_d[a:b], first=a, colour=colour).pictures for a, b in ((0, 1), (1, 4), (4, 5))]
    assert torch.equal(whole, torch.cat(pieces))


@pytest.mark.parametrize("count", [1, 3])
def test_nv12_is_the_rgb_picture_in_other_colours(count: int) -> None:
    """Within a level: RGB is rounded before, NV12 only once."""
    rgb, nv12 = renderer(count).render(*motion(5)), renderer(count).render(*motion(5), colour="nv12")
    converted = rgb_to_nv12(rgb.pictures)
    assert (converted.int() - nv12.pictures.int()).abs().max() <= 1
    assert rgb.face_boxes == nv12.face_boxes and torch.equal(rgb.mouths, nv12.mouths)


def test_video_frames_lie_over_their_own_source_frames() -> None:
    avatar = Avatar(3)
    result = renderer(3).render(*motion(5))
    for i, source in enumerate((0, 1, 2, 2, 1)):
        box = result.face_boxes[i]
        outside = torch.ones(SIZE, dtype=torch.bool)
        outside[box.top : box.bottom, box.left : box.right] = False
        expected = torch.from_numpy(avatar.frames[source])
        assert box.left == 20 + 3 * source - (3 * source) % 2
        assert torch.equal(result.pictures[i][outside], expected[outside])
        assert not torch.equal(result.pictures[i], expected)
    assert result.mouths.shape == (5, 6, 2)


def test_volumes_that_were_forgotten_are_made_again() -> None:
    x_s, x_d = motion(5)
    assert torch.equal(
        renderer(3, volume_memory_mb=0).faces(x_s, x_d), renderer(3, volume_memory_mb=64).faces(x_s, x_d)
    )


def test_cadence_2_draws_every_second_face_and_says_so() -> None:
    x_s, x_d = motion(4)
    dense, sparse = renderer(), renderer(cadence=2)
    keys, faces = dense.faces(x_s[::2], x_d[::2]), sparse.faces(x_s, x_d)
    assert torch.equal(faces[::2], keys)
    assert torch.equal(faces[1:2], spherical_midpoint(keys[:1], keys[1:]))
    assert torch.equal(faces[3], faces[2])
    assert "interpolated" in sparse.executed_by and sparse.report()["cadence"] == 2
    assert "interpolated" not in dense.executed_by


@pytest.mark.parametrize("options", [{"batch": 0}, {"batch": 65}, {"cadence": 3}, {"volume_memory_mb": -1}])
def test_options_out_of_range(options: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError, match=str(*options.values())):
        RenderOptions(**options)


@pytest.mark.parametrize("shapes", [((2, 21, 3), (3, 21, 3)), ((0, 21, 3), (0, 21, 3)), ((1, 63), (1, 63))])
def test_key_points_of_wrong_shape(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(InvalidValueError, match="x_[sd] of shape"):
        renderer().faces(*(torch.zeros(shape) for shape in shapes))


def test_precision_words() -> None:
    assert precision_type("auto", CPU) is (torch.bfloat16 if cpu_has_bfloat16() else torch.float32)
    assert precision_type("auto", torch.device("cuda")) is torch.float16
    assert precision_type("bf16", CPU) is torch.bfloat16
    with pytest.raises(InvalidValueError, match="fp16 on a CPU"):
        precision_type("fp16", CPU)
    with pytest.raises(InvalidValueError, match="half"):
        precision_type("half", CPU)

"""Paste-back to NV12, against a float64 reference of the whole frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.paste_back import crop_matrix, noise_faces, noise_frames, pasted_rgb
from torch import Tensor

from ditto_core.errors import InvalidValueError
from ditto_core.networks.presets import FACE_SIZE
from ditto_core.render import StillPaste, face_box, nv12_planes, nv12_to_rgb, paste_nv12, place, rgb_to_nv12

CPU = torch.device("cpu")
BOUND = 0.6
"""Half a level of rounding, and float32's places. The promise is 1 level of luma and 2 of chroma."""


def to_yuv(rgb: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """BT.709, TV range, chroma on the left column between two rows; written out from the standard."""
    y = rgb @ [0.2126, 0.7152, 0.0722]
    colour = np.stack([(rgb[..., 2] - y) / 1.8556, (rgb[..., 0] - y) / 1.5748], -1)
    wide = np.pad(colour, ((0, 0), (1, 0), (0, 0)), mode="edge")
    smooth = 0.25 * wide[:, :-1] + 0.5 * colour
    smooth[:, :-1] += 0.25 * colour[:, 1:]
    chroma = smooth[:, ::2].reshape(len(rgb) // 2, 2, -1, 2).mean(1)
    return 16 + 219 / 255 * y, 128 + 224 / 255 * chroma


def largest_error(made: Tensor, rgb: NDArray[np.float64]) -> float:
    """Largest difference of (3 H / 2, W) NV12 from exact colours, in levels."""
    planes = [plane.numpy() for plane in nv12_planes(made)]
    return max(float(np.abs(plane - exact).max()) for plane, exact in zip(planes, to_yuv(rgb), strict=True))


def both_ways(faces: Tensor, frame: Tensor, matrix: Tensor) -> list[Tensor]:
    """The same pasting by the general way and by the one for an image avatar on a CPU."""
    size = (frame.shape[0], frame.shape[1])
    background, placement = rgb_to_nv12(frame[None]), place(matrix, size, CPU)
    return [
        paste_nv12(faces, frame[None], background, placement),
        StillPaste(frame, background[0], placement)(faces),
    ]


sizes = st.tuples(st.integers(8, 60), st.integers(8, 70)).map(lambda halves: (2 * halves[0], 2 * halves[1]))
matrices = st.builds(crop_matrix, st.floats(0.03, 2.5), st.floats(-180, 180), st.floats(-60, 190), st.floats(-60, 160))


@settings(max_examples=40)
@given(matrices, sizes)
def test_exact_to_rounding_for_any_place_and_even_size(matrix: Tensor, size: tuple[int, int]) -> None:
    """Also with the face beyond the frame's edges, or wholly outside; luma and chroma, in the box and around it."""
    faces, frame = noise_faces(1), noise_frames(1, size)[0]
    exact = pasted_rgb(faces[0], frame, matrix[0])
    for made in both_ways(faces, frame, matrix):
        assert largest_error(made[0], exact) <= BOUND


@pytest.mark.parametrize("size", [(1920, 1080), (1080, 1920)])
def test_large_frames_are_as_exact(size: tuple[int, int]) -> None:
    matrix = crop_matrix(1.3, 7, size[1] * 0.6, size[0] * 0.4)
    faces, frame = noise_faces(1), noise_frames(1, size)[0]
    exact = pasted_rgb(faces[0], frame, matrix[0])
    for made in both_ways(faces, frame, matrix):
        assert largest_error(made[0], exact) <= BOUND


def test_a_frame_does_not_depend_on_the_others_of_its_batch() -> None:
    """Bit for bit, so that cutting the sound otherwise changes nothing."""
    faces, frame, matrix = noise_faces(5), noise_frames(1, (96, 128))[0], crop_matrix(0.15, 9, 60, 50)
    for together, *alone in zip(
        both_ways(faces, frame, matrix), *(both_ways(faces[i : i + 1], frame, matrix) for i in range(5)), strict=True
    ):
        assert torch.equal(together, torch.cat(alone))


def test_no_edge_shows_where_the_box_ends() -> None:
    """A face of the frame's own colour is invisible, to the last level."""
    colour = torch.tensor([101, 150, 77], dtype=torch.uint8)
    frame = colour.expand(96, 128, 3).contiguous()
    faces = (colour / 255).view(1, 3, 1, 1).expand(2, -1, FACE_SIZE, FACE_SIZE)
    for made in both_ways(faces, frame, crop_matrix(0.12, 20, 60, 40)):
        assert torch.equal(made, rgb_to_nv12(frame[None]).expand(2, -1, -1))


def test_source_frames_stay_as_they_are_and_each_has_its_own_place() -> None:
    faces, frames = noise_faces(3), noise_frames(3, (96, 128))
    matrices = torch.cat([crop_matrix(0.12, 5 * i, 50 + 7.3 * i, 40 + 3.1 * i) for i in range(3)])
    backgrounds = rgb_to_nv12(frames)
    before = frames.clone(), backgrounds.clone()
    made = paste_nv12(faces, frames, backgrounds, place(matrices, (96, 128), CPU))
    assert torch.equal(frames, before[0]) and torch.equal(backgrounds, before[1])
    for i in range(3):
        assert largest_error(made[i], pasted_rgb(faces[i], frames[i], matrices[i])) <= BOUND
        box = face_box(matrices[i : i + 1], (96, 128))
        changed = nv12_planes(made[i])[0] != nv12_planes(backgrounds[i])[0]
        assert changed.any()
        changed[box.top : box.bottom, box.left : box.right] = False
        assert not changed.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_faces_in_half_precision(dtype: torch.dtype) -> None:
    """As exact as they are."""
    faces, frame, matrix = noise_faces(1).to(dtype), noise_frames(1, (96, 128))[0], crop_matrix(0.3, 0, 60, 50)
    for made in both_ways(faces, frame, matrix):
        assert largest_error(made[0], pasted_rgb(faces[0], frame, matrix[0])) <= BOUND


@settings(max_examples=20)
@given(sizes, st.integers(0, 99))
def test_whole_frames(size: tuple[int, int], seed: int) -> None:
    frames = noise_frames(2, size, seed)
    made = rgb_to_nv12(frames)
    assert made.shape == (2, size[0] * 3 // 2, size[1])
    assert max(largest_error(made[i], frames[i].double().numpy()) for i in range(2)) <= 0.501


def test_a_look_at_nv12_shows_the_colours() -> None:
    """Within two levels where a colour fills its 2 x 2 pixels and more."""
    colours = torch.tensor([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [0, 0, 0], [200, 150, 120]])
    frames = colours.to(torch.uint8).view(6, 1, 1, 3).expand(-1, 16, 16, 3)
    assert (nv12_to_rgb(rgb_to_nv12(frames)).int() - frames.int()).abs().max() <= 2


@pytest.mark.parametrize(
    "pictures",
    [
        torch.zeros(1, 15, 16, 3, dtype=torch.uint8),
        torch.zeros(1, 16, 15, 3, dtype=torch.uint8),
        torch.zeros(1, 16, 16, 4, dtype=torch.uint8),
        torch.zeros(16, 16, 3, dtype=torch.uint8),
        torch.zeros(1, 16, 16, 3),
    ],
)
def test_other_pictures_are_refused(pictures: Any) -> None:
    with pytest.raises(InvalidValueError, match="pictures of shape"):
        rgb_to_nv12(pictures)

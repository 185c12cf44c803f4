"""Paste-back, and where face and mouth are."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paste_back import crop_matrix, noise_faces, noise_frames, pasted_rgb
from torch import Tensor

from ditto_core.errors import InvalidValueError
from ditto_core.motion.controls import LIP_POINTS
from ditto_core.networks.presets import FACE_SIZE, KEYPOINTS
from ditto_core.render import face_box, paste, place
from ditto_core.render.regions import mouth_polygon

CPU = torch.device("cpu")
SIZE = (96, 128)


placements = st.builds(
    crop_matrix,
    st.floats(0.05, 2.5),
    st.floats(-180, 180),
    st.floats(-60, 190),
    st.floats(-60, 160),
)


@settings(max_examples=40)
@given(placements)
def test_within_one_grey_level_of_the_exact_picture(matrix: Tensor) -> None:
    """Also with the face beyond the frame's edges, or wholly outside."""
    faces, frames = noise_faces(1), noise_frames(1, SIZE)
    pasted = paste(faces, frames, place(matrix, SIZE, CPU))
    error = np.abs(pasted[0].numpy() - pasted_rgb(faces[0], frames[0], matrix[0]))
    assert error.max() <= 0.6  # rounded to nearest; float32 positions are within 1e-3 pixel


def test_a_large_frame_is_as_exact() -> None:
    size = (1080, 1920)
    matrix, faces, frames = crop_matrix(1.9, 17, 1500, 600), noise_faces(1), noise_frames(1, size)
    pasted = paste(faces, frames, place(matrix, size, CPU))
    error = np.abs(pasted[0].numpy() - pasted_rgb(faces[0], frames[0], matrix[0]))
    assert error.max() <= 0.6


def test_rounds_where_the_original_truncates() -> None:
    face = torch.full((1, 3, FACE_SIZE, FACE_SIZE), 100.6 / 255)
    frames = torch.full((1, FACE_SIZE, FACE_SIZE, 3), 101, dtype=torch.uint8)
    pasted = paste(face, frames, place(torch.eye(3)[None], (FACE_SIZE, FACE_SIZE), CPU))
    ours, original = 101, 100  # truncation draws a visible square, half a level darker, into an even picture
    assert int(100.6) == original
    assert (pasted == ours).all()


def test_frame_beyond_the_box_and_source_frame_stay_as_they_are() -> None:
    faces, frames, matrix = noise_faces(2), noise_frames(1, SIZE), crop_matrix(0.1, 20, 60, 40)
    before, box = frames.clone(), face_box(matrix, SIZE)
    pasted = paste(faces, frames, place(matrix, SIZE, CPU))
    assert torch.equal(frames, before)
    changed = (pasted != frames).any(-1)
    assert changed.any()
    changed[:, box.top : box.bottom, box.left : box.right] = False
    assert not changed.any()
    assert all(side % 2 == 0 for side in box)


def test_batch_of_different_places_equals_one_by_one() -> None:
    faces, frames = noise_faces(3), noise_frames(3, SIZE)
    matrices = torch.cat([crop_matrix(0.12, 5 * i, 50 + 7.3 * i, 40 + 3.1 * i) for i in range(3)])
    together = paste(faces, frames, place(matrices, SIZE, CPU))
    for i in range(3):
        alone = paste(faces[i : i + 1], frames[i : i + 1], place(matrices[i : i + 1], SIZE, CPU))
        assert torch.equal(together[i], alone[0])


def test_one_placement_serves_a_batch_of_an_image_avatar() -> None:
    faces, frames, matrix = noise_faces(2), noise_frames(1, SIZE), crop_matrix(0.15, 0, 64, 48)
    together = paste(faces, frames, place(matrix, SIZE, CPU))
    twice = place(matrix.expand(2, -1, -1), SIZE, CPU)
    assert torch.equal(together, paste(faces, frames.expand(2, -1, -1, -1), twice))


@pytest.mark.parametrize("size", [(95, 128), (96, 127)])
def test_odd_frames_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(InvalidValueError, match=f"{size[1]}x{size[0]}"):
        place(crop_matrix(0.1, 0, 60, 40), size, CPU)


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_a_crop_without_area_is_refused(value: float) -> None:
    matrix = torch.eye(3)[None] * torch.tensor([value, value, 1.0])[:, None]
    with pytest.raises(InvalidValueError, match="no area"):
        place(matrix, SIZE, CPU)


def test_mouth_polygon_lies_where_the_lips_are_and_does_not_cross_itself() -> None:
    points = torch.zeros(1, KEYPOINTS, 3)
    angles = torch.tensor([0.0, 2.0, 4.0, 1.0, 5.0, 3.0])  # not in turn
    points[0, list(LIP_POINTS), 0] = 0.2 * angles.cos()
    points[0, list(LIP_POINTS), 1] = 0.4 + 0.1 * angles.sin()
    scale, x0, y0 = 0.5, 30.0, 20.0
    matrix = torch.tensor([[[scale, 0, x0], [0, scale, y0], [0, 0, 1]]])
    polygon = mouth_polygon(points, matrix)[0].numpy()
    middle = x0 + scale * 255.5, y0 + scale * (1.4 * 256 - 0.5)
    assert polygon.mean(0) == pytest.approx(middle, abs=3)
    after = np.roll(polygon, -1, axis=0)
    area = 0.5 * (polygon[:, 0] * after[:, 1] - after[:, 0] * polygon[:, 1]).sum()
    gaps = np.diff([*angles.sort().values.tolist(), 2 * math.pi])
    assert area == pytest.approx(0.5 * np.sin(gaps).sum() * (0.2 * 256 * scale) * (0.1 * 256 * scale), rel=1e-5)

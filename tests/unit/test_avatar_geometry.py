"""Crop geometry, working sizes and image warping."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support import recipes

from ditto_core.avatar.crop import (
    CROP_SIZE,
    CropRequest,
    Framing,
    box_crop,
    inside_share,
    landmark_crop,
    requested_crop,
    transform,
)
from ditto_core.avatar.landmarks import cut
from ditto_core.avatar.sizes import fit_picture, fitted_size, reduction
from ditto_core.avatar.warp import affine_warp, halve, to_bytes
from ditto_core.errors import InvalidValueError

sizes = st.integers(64, 8192)
offsets = st.floats(-500, 500)


def similarity(degrees: float, scale: float, dx: float, dy: float) -> NDArray[np.float64]:
    c, s = scale * math.cos(math.radians(degrees)), scale * math.sin(math.radians(degrees))
    return np.array([[c, -s, dx], [s, c, dy], [0, 0, 1]])


def face(count: int, tag: str = "face") -> NDArray[np.float32]:
    return recipes.normal(f"{tag}.{count}", (count, 2), 50) + np.float32([300, 200])


@pytest.mark.parametrize("count", [106, 203])
@given(degrees=st.floats(-180, 180), scale=st.floats(0.2, 5), dx=offsets, dy=offsets)
@settings(max_examples=30)
def test_crop_follows_the_face(count: int, degrees: float, scale: float, dx: float, dy: float) -> None:
    # a face that is turned, resized and moved gives the same crop
    move = similarity(degrees, scale, dx, dy)
    framing = Framing(size=256, scale=2.0, vx=0.05, vy=-0.1)
    still = landmark_crop(face(count), framing)
    moved = landmark_crop(transform(move, face(count)), framing)
    np.testing.assert_allclose(moved, move @ still, atol=1e-6 * (1 + scale) * 1000)


def test_crop_encloses_the_landmarks_tightly() -> None:
    matrix = landmark_crop(face(203), Framing(size=100, scale=1.0))
    points = transform(np.linalg.inv(matrix), face(203))
    assert points.min() == pytest.approx(0, abs=1e-6)
    assert np.ptp(points, axis=0).max() == pytest.approx(100)
    assert points.max() <= 100 + 1e-6


def test_unturned_crop_has_upright_axes() -> None:
    matrix = landmark_crop(face(106), Framing(size=100, scale=1.5, rotate=False))
    assert matrix[0, 1] == matrix[1, 0] == 0
    assert matrix[0, 0] == matrix[1, 1] > 0


@pytest.mark.parametrize(
    "points",
    [np.zeros((68, 2)), np.full((203, 2), np.nan), np.full((203, 2), 7.0), np.full((106, 2), np.inf)],
)
def test_unusable_landmarks_are_refused(points: NDArray[Any]) -> None:
    with pytest.raises(InvalidValueError, match="landmarks"):
        landmark_crop(points, Framing(size=256, scale=2.0))


@given(left=offsets, top=offsets, side=st.floats(32, 4000), degrees=st.floats(-180, 180))
def test_box_keeps_its_centre_and_side(left: float, top: float, side: float, degrees: float) -> None:
    matrix = box_crop(left, top, side, degrees)
    # edges of the crop's first and last pixel
    low, high = -0.5, CROP_SIZE - 0.5
    corners = transform(matrix, np.array([[low, low], [high, low], [high, high], [low, high]]))
    np.testing.assert_allclose(corners.mean(0) + 0.5, [left + side / 2, top + side / 2], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(corners[1] - corners[0]), side, rtol=1e-9)
    upright = transform(box_crop(left, top, side), np.array([[low, low]]))[0] + 0.5
    np.testing.assert_allclose(upright, [left, top], atol=1e-6)


def test_box_turned_clockwise_sets_a_tilted_head_upright() -> None:
    picture = np.zeros((512, 512, 3), np.uint8)
    picture[200:312, 400:500] = 255  # what is on the right of the picture ...
    crop = cut(picture, box_crop(0, 0, 512, 90), 512)
    assert crop[12:112, 200:312].min() == 255  # ... is on top after a quarter turn of the square
    assert crop.astype(int).sum() == picture.astype(int).sum()


def test_full_crop_of_a_square_picture_is_the_picture() -> None:
    picture = recipes.image_hwc("square", 512, 512)
    np.testing.assert_array_equal(cut(picture, requested_crop(CropRequest(mode="full"), (512, 512)), 512), picture)


def test_full_crop_of_a_wide_picture_has_black_bars() -> None:
    picture = np.full((256, 512, 3), 200, np.uint8)
    crop = cut(picture, requested_crop(CropRequest(mode="full"), (256, 512)), 512)
    assert crop[:128].max() == crop[384:].max() == 0
    assert crop[128:384].min() == 200


@given(
    x=st.integers(0, 900),
    y=st.integers(0, 900),
    size=st.integers(32, 900),
    degrees=st.one_of(st.none(), st.floats(-180, 180)),
)
def test_crop_requests_are_read_as_written(x: int, y: int, size: int, degrees: float | None) -> None:
    text = f" {x}, {y},{size}" + ("" if degrees is None else f",{degrees}")
    assert CropRequest.parse(text) == CropRequest(mode="box", box=(x, y, size, degrees or 0.0))
    assert CropRequest.parse("FULL") == CropRequest(mode="full")


@pytest.mark.parametrize("text", ["", "face", "1,2", "1,2,3,4,5", "1,2,x"])
def test_wrong_crop_requests_say_what_to_write(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"auto.*full.*X,Y,SIZE"):
        CropRequest.parse(text)


@pytest.mark.parametrize("text", ["1,2,nan", "1,2,inf", "0,0,8", "0,0,-50", "1e9,0,99"])
def test_boxes_that_are_none_say_what_a_box_is(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"the left edge, the top edge and the side of a square"):
        CropRequest.parse(text)


def test_box_outside_the_picture_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="outside the picture of 640 x 480"):
        requested_crop(CropRequest.parse("800,100,200"), (480, 640))


def test_box_counts_in_pixels_of_the_unreduced_picture() -> None:
    # 3840 x 2160 is worked on at half size: the same place at half the side
    shrunk = requested_crop(CropRequest.parse("1000,600,800,10"), (1080, 1920), reduction(2160, 3840))
    np.testing.assert_allclose(shrunk, box_crop(500, 300, 400, 10), atol=1e-9)


@given(height=sizes, width=sizes)
def test_working_sizes_are_even_bounded_and_keep_the_shape(height: int, width: int) -> None:
    if max(height, width) / min(height, width) > 50:
        return
    h, w = fitted_size(height, width)
    assert h % 2 == w % 2 == 0
    assert max(h, w) <= 1920
    if max(height, width) <= 1920:
        assert (h, w) == (height // 2 * 2, width // 2 * 2)
    else:
        assert abs(h / height - w / width) < 3 / min(height, width)


def test_too_small_pictures_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="33 x 31 pixels"):
        fitted_size(31, 33)
    with pytest.raises(InvalidValueError, match="aspect"):
        fitted_size(100, 8000)


def test_reduced_pictures_are_averaged_not_skipped() -> None:
    stripes = np.zeros((400, 4800, 3), np.uint8)
    stripes[:, ::2] = 200  # one pixel wide: picking pixels would give 0 or 200
    fitted = fit_picture(stripes)
    assert fitted.shape == (160, 1920, 3)
    assert np.abs(fitted[:, 10:-10].astype(int) - 100).max() <= 45


def reference_warp(picture: NDArray[np.uint8], matrix: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Bilinear sampling of (H, W, 3) in float64, pixel by pixel of the four neighbours."""
    padded = np.pad(picture.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    y, x = np.mgrid[:size, :size]
    points = transform(matrix, np.stack([x.ravel(), y.ravel()], -1))
    low = np.floor(points)
    part = points - low
    value = np.zeros((len(points), 3))
    for dx in (0, 1):
        for dy in (0, 1):
            weight = np.where(dx, part[:, 0], 1 - part[:, 0]) * np.where(dy, part[:, 1], 1 - part[:, 1])
            column = np.clip(low[:, 0] + dx + 1, 0, picture.shape[1] + 1).astype(int)
            row = np.clip(low[:, 1] + dy + 1, 0, picture.shape[0] + 1).astype(int)
            value += weight[:, None] * padded[row, column]
    return value.reshape(size, size, 3)


@pytest.mark.parametrize("degrees, scale", [(0, 1.0), (17, 0.4), (-140, 3.0), (90, 1.7)])
def test_warp_is_exact(degrees: float, scale: float) -> None:
    # uint8 within one grey level of float64, on noise, at 1080p, with parts outside
    picture = recipes.image_hwc("warp", 1080, 1920)
    matrix = similarity(degrees, scale, 1700.3, 500.7)
    planes = torch.from_numpy(picture).permute(2, 0, 1)[None]
    warped = affine_warp(planes, torch.from_numpy(matrix)[None], (200, 200))[0].permute(1, 2, 0).numpy()
    expected = reference_warp(picture, matrix, 200)
    assert np.abs(warped - expected).max() < 0.1
    assert np.abs(np.rint(expected) - cut(picture, matrix, 200)).max() <= 1


def test_warp_of_a_batch_is_that_of_each() -> None:
    pictures = torch.stack([torch.from_numpy(recipes.image_hwc(f"b{i}", 90, 70)).permute(2, 0, 1) for i in range(3)])
    matrices = torch.from_numpy(np.stack([similarity(20 * i, 1 + i, 5 * i, -3) for i in range(3)]))
    whole = affine_warp(pictures, matrices, (40, 50))
    assert whole.shape == (3, 3, 40, 50)
    for i in range(3):
        torch.testing.assert_close(whole[i], affine_warp(pictures[i : i + 1], matrices[i : i + 1], (40, 50))[0])


def test_warp_of_half_precision_keeps_exact_positions() -> None:
    picture = torch.from_numpy(recipes.image_hwc("half", 700, 900)).permute(2, 0, 1)[None]
    matrix = torch.from_numpy(similarity(10, 1.3, 300.4, 100.2))[None]
    half = affine_warp((picture / 255).half(), matrix, (300, 300))
    assert half.dtype == torch.float32
    assert (half * 255 - affine_warp(picture, matrix, (300, 300))).abs().max() < 0.1


def test_halving_rounds_halves_up() -> None:
    block = torch.tensor([[[[0, 1], [0, 1]]]], dtype=torch.uint8)
    assert halve(block).item() == 1
    assert halve(torch.full((1, 1, 2, 2), 255, dtype=torch.uint8)).item() == 255
    assert to_bytes(torch.tensor([-3.0, 254.6, 300.0])).tolist() == [0, 255, 255]


def test_share_of_landmarks_inside() -> None:
    points = np.array([[0, 0], [99, 49], [99.5, 10], [-1, 10]])
    assert inside_share(points, (50, 100)) == 0.5

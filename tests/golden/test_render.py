"""Paste-back against the original's pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.golden import GoldenFile, cases
from support.recipes import image_hwc, stats, uniform

from ditto_core.networks.presets import FACE_SIZE
from ditto_core.render import blend, place
from ditto_core.render.paste import edge_mask

EXACT = 1e-6
GREY_LEVELS, GREY_LEVELS_MEAN = 4, 0.3  # OpenCV 4.10 rounds sample positions to 1/32 pixel; we do not


def _mask() -> np.ndarray:
    return edge_mask(FACE_SIZE, FACE_SIZE, ratio_height=0.9, ratio_width=0.9).float().numpy()


@pytest.mark.parametrize("row", cases("putback", r"mask_row(\d+)"))
def test_mask_rows(row: int) -> None:
    GoldenFile.open("putback").check(f"mask_row{row}", _mask()[row], tolerance=EXACT)


@pytest.mark.parametrize("column", cases("putback", r"mask_col(\d+)"))
def test_mask_columns(column: int) -> None:
    GoldenFile.open("putback").check(f"mask_col{column}", _mask()[:, column], tolerance=EXACT)


def test_mask_whole() -> None:
    golden = GoldenFile.open("putback")
    golden.check_slice("mask_sub", _mask(), tolerance=EXACT)
    golden.check_stats("mask_stats", _mask(), tolerance=EXACT)


def test_mask_of_another_size_and_two_ratios() -> None:
    golden = GoldenFile.open("putback")
    height, width, _ = golden["mask_small"].shape
    mask = edge_mask(height, width, ratio_height=0.8, ratio_width=0.9).float()
    golden.check("mask_small", mask[..., None].numpy(), tolerance=EXACT)


def _pasted(golden: GoldenFile) -> np.ndarray:
    """The blended frame before rounding, (H, W, 3) float32."""
    height, width = 3 * len(golden["numpy_sub"]), len(golden["numpy_row180"])
    frame = image_hwc("putback.frame", height, width)
    fraction = uniform("putback.frac", (FACE_SIZE, FACE_SIZE, 3), 0.9)
    face = np.clip(image_hwc("putback.render", FACE_SIZE, FACE_SIZE) + fraction, 0, 255).astype(np.float32)
    placement = place(torch.from_numpy(golden["M_c2o"])[None], frame.shape[:2], torch.device("cpu"))
    faces = torch.from_numpy(face / np.float32(255)).permute(2, 0, 1)[None]
    whole = frame.astype(np.float32)
    box = placement.box
    blended = blend(faces, torch.from_numpy(frame)[None], placement)[0].permute(1, 2, 0)
    whole[box.top : box.bottom, box.left : box.right] = blended.numpy()
    return whole


@pytest.mark.parametrize("key", cases("putback", r"((?:numpy|native)_(?:sub|row\d+))"))
def test_pasted_picture(key: str) -> None:
    """The original truncates, and we round: so the unrounded picture is truncated here.

    Rounded, it would lie half a grey level above the original's within the face.
    """
    golden = GoldenFile.open("putback")
    whole = np.floor(_pasted(golden) + 1e-3)  # whole numbers of the frame stay whole
    actual = whole[::3, ::3] if key.endswith("_sub") else whole[int(key.rpartition("row")[2])]
    expected = golden[key].astype(np.float64)
    GoldenFile("putback", {key: expected}).check(key, actual, tolerance=GREY_LEVELS / expected.max())
    assert np.abs(actual - expected).mean() <= GREY_LEVELS_MEAN


@pytest.mark.parametrize("key", cases("putback", r"((?:numpy|native)_stats)"))
def test_whole_picture_statistics(key: str) -> None:
    golden = GoldenFile.open("putback")
    actual = stats(np.floor(_pasted(golden) + 1e-3))
    assert np.abs(actual[:4] - golden[key][:4]).max() <= GREY_LEVELS
    assert abs(actual[0] - golden[key][0]) <= GREY_LEVELS_MEAN

"""Measures with known answers: pictures, mouths, courses, joints, emotions, borders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.errors import InvalidValueError
from ditto_core.quality import (
    closed,
    difference,
    joint_frames,
    joint_steps,
    lag,
    lip_sync,
    opening,
    psnr,
    separation,
    spikes,
    ssim,
)
from ditto_core.quality.borders import border_step
from ditto_core.quality.courses import correlation, usual_here, usual_there
from ditto_core.quality.mouth import aperture, inside, outline
from ditto_core.quality.pictures import MAX_PSNR, luma

SHUT, OPEN = 0.10, 0.30


def picture(height: int = 96, width: int = 128, seed: int = 0) -> torch.Tensor:
    draw = np.random.default_rng(seed)
    coarse = torch.from_numpy(draw.uniform(40, 220, (1, 3, 12, 16)))
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    return smooth[0].permute(1, 2, 0).round().byte()


def speech(frames: int = 400, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    """An opening that comes and goes like syllables, and the frames in which it is shut on purpose."""
    draw = np.random.default_rng(seed)
    noise = np.convolve(draw.normal(size=frames + 8), np.hanning(9), "valid")
    course = np.clip(0.5 + 0.35 * noise, 0.2, 1)
    shut = list(range(20, frames - 20, 15))
    for frame in shut:
        course[frame - 1 : frame + 2] *= (0.4, 0, 0.4)
    return course, shut


def area(polygon: np.ndarray) -> float:
    x, y = polygon.T
    return abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def judged(made: np.ndarray, meant: np.ndarray, shut: list[int]):
    return lip_sync([made], [meant], [shut], shut=SHUT, open_above=OPEN)


def meets_goals(made: np.ndarray) -> bool:
    """The goals on new sentences."""
    meant, shut = speech()
    found = judged(made, meant, shut)
    in_time = found.lag_frames is not None and abs(found.lag_frames) <= 1
    return found.r >= 0.90 and in_time and found.closed >= 0.95 and found.wrongly_shut <= 0.03


def test_a_mouth_that_does_what_is_meant_passes_and_no_other_does():
    meant, _ = speech()
    noise = 0.02 * np.random.default_rng(1).random(len(meant))
    assert meets_goals(meant + noise)
    assert not meets_goals(np.full_like(meant, 0.5))  # frozen
    assert not meets_goals(np.zeros_like(meant))  # always shut
    assert not meets_goals(np.ones_like(meant))  # always open
    assert not meets_goals(np.roll(meant, 2))  # late
    assert not meets_goals(np.roll(meant, -2))  # early
    assert not meets_goals(1 - meant)
    assert not meets_goals(np.maximum(meant, 0.2))  # never closes


def test_a_shut_mouth_has_all_closures_and_all_wrongly_shut_frames():
    meant, shut = speech()
    found = judged(np.zeros_like(meant), meant, shut)
    assert (found.closed, found.wrongly_shut, found.r, found.lag_frames) == (1.0, 1.0, 0.0, None)


@given(st.integers(-5, 5), st.floats(0.2, 4), st.floats(-1, 1))
def test_lag_is_the_shift(shift: int, gain: float, offset: float):
    meant, _ = speech()
    assert lag(np.roll(meant, shift) * gain + offset, meant) == shift


def test_a_closure_counts_within_one_frame_only():
    meant, _ = speech(100)
    made = np.ones(100)
    made[[30, 52]] = 0
    found = lip_sync([made], [meant], [[31, 50]], shut=SHUT, open_above=OPEN)
    assert (found.closures, found.closed) == (2, 0.5)


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(InvalidValueError, match="3 and 2"):
        correlation(np.ones(3), np.ones(2))
    with pytest.raises(InvalidValueError, match="1 lists"):
        lip_sync([np.ones(9)] * 2, [np.ones(9)] * 2, [[1]], shut=SHUT, open_above=OPEN)


def test_aperture_counts_dark_pixels_within_the_lips():
    shot = np.full((60, 80, 3), 150, np.uint8)
    shot[20:30, 30:50] = 20
    around = np.array([[25, 15], [55, 15], [55, 35], [25, 35.0]])
    assert aperture(shot, around) == 200
    assert aperture(shot, around + (10, 0)) == 150
    assert aperture(shot, around + (500, 0)) == 0
    shot[20:30, 30:40] = 60  # not below 60
    assert aperture(shot, around) == 100
    red = np.zeros((60, 80, 3), np.uint8)
    red[..., 0] = 255  # brightness 54
    assert aperture(red, around) == 600


@given(st.lists(st.tuples(st.floats(-20, 80), st.floats(-20, 80)), min_size=3, max_size=7))
def test_pixels_inside_are_as_many_as_the_area(corners: list[tuple[float, float]]):
    """A shape's area is the number of pixel centres in it, but for its edge; nothing outside the picture is read."""
    polygon = np.array(corners)
    part, within = inside(polygon, 60, 60)
    assert within.shape == np.empty((60, 60))[part].shape
    shape = outline(polygon)
    if (shape >= 0).all() and (shape <= 59).all():
        length = np.linalg.norm(shape - np.roll(shape, -1, axis=0), axis=1).sum()
        assert abs(within.sum() - area(shape)) <= 2 * length + 2


def test_a_polygon_that_crosses_itself_becomes_its_hull():
    crossing = np.array([[10, 10], [30, 30], [30, 10], [10, 30.0]])
    assert area(outline(crossing)) == 400
    hollow = np.array([[10, 10], [20, 18], [30, 10], [30, 30], [10, 30.0]])
    assert area(outline(hollow)) == 320  # the dent is not lips, and stays outside


def test_a_mouth_is_closed_up_to_a_tenth_of_its_widest():
    apertures = np.array([0, 10, 11, 100, 100, 100])
    assert closed(apertures).tolist() == [True, True, False, False, False, False]
    assert closed(np.zeros(4)).all() and not opening(np.zeros(4)).any()
    assert not closed(np.full(4, 50.0)).any()


def test_psnr_of_known_differences():
    a = picture()
    same = difference(a, a)
    assert psnr(same.squared_rgb) == MAX_PSNR and same.ssim == pytest.approx(1) and same.largest == 0
    found = difference(a, (a.float() + 10).clamp(max=255))
    assert psnr(found.squared_luma) == pytest.approx(28.13, abs=0.01)
    assert psnr(found.squared_rgb) == pytest.approx(28.13, abs=0.01)
    assert found.squared_chroma == pytest.approx(0, abs=1e-6)
    assert (found.mean, found.largest) == (10, 10)


def test_a_local_difference_shows_in_its_block_and_not_in_the_mean():
    a = picture(320, 320)
    b = a.clone()
    b[64:96, 64:96] ^= 0x40
    found = difference(a, b)
    assert found.mean < 1 and found.largest_block > 20


def test_ssim_is_that_of_the_formula():
    """Constant pictures have no structure: (2ab + C1) / (a^2 + b^2 + C1) is left."""
    a, b = torch.full((40, 40), 100.0), torch.full((40, 40), 120.0)
    c1 = (0.01 * 255) ** 2
    assert ssim(a, b) == pytest.approx((2 * 100 * 120 + c1) / (100**2 + 120**2 + c1))
    sharp = luma(picture(600, 800))
    noisy = sharp + 20 * torch.randn(sharp.shape, generator=torch.Generator().manual_seed(0))
    assert 0.2 < ssim(sharp, noisy) < 0.95


def test_pictures_that_can_not_be_compared_are_refused():
    with pytest.raises(InvalidValueError, match="equal sizes"):
        difference(picture(96, 128), picture(96, 126))
    with pytest.raises(InvalidValueError, match="8x8"):
        ssim(torch.zeros(8, 8), torch.zeros(8, 8))


def test_planted_glitches_are_named_and_motion_is_not():
    draw = np.random.default_rng(3)
    steps = 6 + 3 * np.sin(np.arange(200) / 7) + draw.random(200)
    assert spikes(steps, usual_here(steps)) == spikes(steps, usual_there(steps)) == ()
    planted = steps.copy()
    for frame in range(16, 200, 16):
        planted[frame : frame + 2] += 40  # into the glitch and out of it
    assert spikes(planted, usual_here(planted)) == tuple(range(16, 200, 16))
    assert spikes(planted, usual_there(steps)) == tuple(range(16, 200, 16))
    assert spikes(planted, usual_there(planted)) == ()  # the reference has them too


def test_a_jump_at_a_joint_stands_out():
    where = joint_frames(200, chunk=40, blended=4)
    assert np.flatnonzero(where)[:6].tolist() == [40, 41, 42, 43, 44, 80]
    steps = np.random.default_rng(4).uniform(1, 3, 200)
    assert joint_steps([steps], [where]).ratio <= 1.2
    jump = steps.copy()
    jump[80] = 6
    assert joint_steps([jump], [where]).ratio > 1.9
    with pytest.raises(InvalidValueError, match="0 steps at joints"):
        joint_steps([steps[:20]], [where[:20]])


def test_kinds_that_differ_less_than_seeds_are_not_apart():
    draw = np.random.default_rng(5)
    far = {"happy": 1.0, "sad": -1.0}
    shapes = {(k, s): far[k] + 0.01 * draw.normal(size=(50, 4, 3)) for k in far for s in (0, 1)}
    assert separation(shapes, ["happy", "sad"]).least_to_noise > 50
    alike = {key: 0.01 * draw.normal(size=(50, 4, 3)) for key in shapes}
    assert separation(alike, ["happy", "sad"]).least_to_noise == pytest.approx(1, abs=0.1)


def test_a_visible_seam_is_measured_and_a_soft_one_is_not():
    plain = luma(picture(200, 200)).numpy()
    box = (40, 50, 160, 170)
    assert abs(border_step(plain, box)) < 2
    seam = plain.copy()
    seam[50:170, 40:160] += 12
    assert border_step(seam, box) == pytest.approx(12, abs=3)
    assert border_step(plain, (0, 0, 200, 200)) is None

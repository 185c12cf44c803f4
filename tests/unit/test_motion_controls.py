"""Controls in degrees, frame by frame; blinks, curves and the order of source frames."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.motion import Frames, Source
from torch import Tensor

from ditto_core.errors import InvalidValueError
from ditto_core.motion.blink import Blink, blink_table
from ditto_core.motion.controls import EYE_POINTS, LIP_POINTS, KeyPoints, MotionControls, MotionMixer
from ditto_core.motion.curves import Curve, fade_curve, sample
from ditto_core.motion.keypoints import degrees_from_logits, keypoints, pack, rotation_matrix, unpack
from ditto_core.motion.order import source_index, source_step
from ditto_core.networks.motion_extractor import MotionParameters

OTHERS = sorted(set(range(21)) - set(LIP_POINTS) - set(EYE_POINTS))


def logits(degrees: Tensor) -> Tensor:
    """Angle logits of a narrow peak at the degrees."""
    bins = torch.arange(66) * 3 - 97.5
    return -((degrees[:, None] - bins) ** 2) / 18


def motion(n: int, seed: int, *, expression: float = 0.05, turn: float = 8.0) -> MotionParameters:
    draw = torch.Generator().manual_seed(seed)

    def normal(size: int, scale: float) -> Tensor:
        return scale * torch.randn((n, size), generator=draw)

    angles = {name: logits(normal(1, turn)[:, 0]) for name in ("pitch", "yaw", "roll")}
    kp = (0.25 * torch.randn((1, 63), generator=torch.Generator().manual_seed(99))).expand(n, -1)
    return MotionParameters(**angles, t=normal(3, 0.05), exp=normal(63, expression), scale=1.3 + normal(1, 0.05), kp=kp)


def avatar(frames: int = 1, fps: Fraction | None = None) -> Source:
    eyes = torch.zeros(frames, 6)
    return Source(motion(frames, 1), torch.zeros(63), eyes[:, :2], eyes, frames == 1, Frames(fps))


DRIVING = pack(motion(30, 2))
REFERENCE = DRIVING[0]
FRAMES = torch.arange(30)


def mixed(source: Source | None = None, **controls: Any) -> KeyPoints:
    mixer = MotionMixer(source or avatar(), MotionControls(**controls), reference=REFERENCE, first=DRIVING[0])
    return mixer(DRIVING, FRAMES)


def face(points: Tensor, source: Source) -> Tensor:
    """Key points without the source's scale and translation: kp @ R + exp."""
    motion = source.motion
    return (points - torch.nn.functional.pad(motion.t[:1, None, :2], (0, 1))) / motion.scale[:1, None]


def driven_degrees(name: str) -> Tensor:
    """The angle of the mixed face, by default."""
    driving = degrees_from_logits(getattr(unpack(DRIVING, torch.zeros(1, 63)), name))
    return degrees_from_logits(getattr(avatar().motion, name)) + driving - driving[0]


def test_at_rest_the_face_is_the_sources() -> None:
    x_s, x_d = mixed()
    torch.testing.assert_close(x_s, keypoints(avatar().motion).expand(30, -1, -1))
    torch.testing.assert_close(x_d[0], x_s[0], atol=1e-5, rtol=0)
    assert float((x_d[1:] - x_s[1:]).abs().amax((1, 2)).min()) > 0.01


def expected_points(pitch: Tensor, yaw: Tensor, roll: Tensor) -> Tensor:
    """A face of the source's own expression under given angles."""
    still = avatar().motion
    return still.kp.reshape(1, 21, 3) @ rotation_matrix(pitch, yaw, roll) + still.exp.reshape(1, 21, 3)


def test_pose_factors_and_offsets_are_degrees() -> None:
    """yaw * factor + offset. The original multiplies logits; twice the logits is not twice the angle."""
    pose = {name: driven_degrees(name) for name in ("pitch", "yaw", "roll")}
    controls = {
        "yaw": 12.0,
        "yaw_factor": 2.0,
        "expression_scale": 0.0,
        "gaze": 0.0,
        "drive": ("pitch", "yaw", "roll"),
    }
    x_d = mixed(**controls).driving
    expected = expected_points(pose["pitch"], pose["yaw"] * 2 + 12, pose["roll"])
    torch.testing.assert_close(face(x_d, avatar()), expected, atol=2e-4, rtol=0)
    upstream = mixed(**(controls | {"yaw": 0.0}), upstream=True).driving
    expected = expected_points(pose["pitch"], pose["yaw"] * 2, pose["roll"])
    assert float((face(upstream, avatar()) - expected).abs().max()) > 0.02


def test_an_offset_follows_its_curve() -> None:
    turning = {"drive": (), "gaze": 0.0}
    x_d = mixed(**turning, yaw=Curve.at_frames({0: 0.0, 10: 20.0})).driving
    for frame, degrees in ((0, 0.0), (5, 10.0), (10, 20.0), (29, 20.0)):
        still = mixed(**turning, yaw=degrees).driving
        torch.testing.assert_close(x_d[frame], still[frame], atol=1e-6, rtol=0)


def test_a_factor_scales_the_driven_distance() -> None:
    half = mixed(drive={"exp": 0.5, "t": 0.5}, gaze=0.0)
    full = mixed(drive=("exp", "t"), gaze=0.0)
    torch.testing.assert_close(half.driving - half.source, (full.driving - full.source) / 2, atol=1e-6, rtol=0)


def test_only_lips_and_eyes_move_and_eyes_only_when_driven() -> None:
    def moved(points: KeyPoints) -> set[int]:
        distance = (points.driving - points.source)[1:].abs().amax((0, 2))
        return {int(i) for i in torch.nonzero(distance > 1e-6)[:, 0]}

    expression_only: dict[str, Any] = {"drive": ("exp",), "gaze": 0.0}
    assert moved(mixed(**expression_only)) == set(LIP_POINTS) | set(EYE_POINTS)
    assert moved(mixed(**expression_only, drive_eyes=False)) == set(LIP_POINTS)
    assert moved(mixed(avatar(3), **expression_only)) == set(LIP_POINTS)


def test_pauses_in_speech_still_the_lips_and_leave_the_eyes() -> None:
    """The original prepares a mask of the lips for it and never uses it, so that the eyes freeze as well."""
    quiet = mixed(drive=("exp",), gaze=0.0, voice=0.0)
    lips, eyes = list(LIP_POINTS), list(EYE_POINTS)
    torch.testing.assert_close(quiet.driving[:, lips], quiet.source[:, lips], atol=1e-6, rtol=0)
    assert float((quiet.driving - quiet.source)[1:, eyes].abs().max()) > 0.01
    upstream = mixed(drive=("exp",), gaze=0.0, voice=0.0, upstream=True)
    torch.testing.assert_close(upstream.driving, upstream.source, atol=1e-5, rtol=0)


def test_expression_delta_is_added_frame_by_frame() -> None:
    delta = torch.zeros(3, 63)
    delta[1] = 0.1
    plain, changed = mixed().driving, mixed(expression_delta=delta).driving
    difference = (changed - plain) / avatar().motion.scale
    torch.testing.assert_close(difference[1], torch.full((21, 3), 0.1), atol=1e-5, rtol=0)
    assert float(difference[[0, 2, 3, 29]].abs().max()) < 1e-6


def test_fades_end_at_the_first_frame_or_at_the_source() -> None:
    parts = ("exp", "pitch", "yaw", "roll", "t", "scale")
    out = fade_curve(30, fade_out=9)
    to_source = mixed(fade=out, fade_to="source", fade_parts=parts, yaw=10.0)
    torch.testing.assert_close(to_source.driving[29], to_source.source[29], atol=1e-5, rtol=0)
    to_first = mixed(fade=out, fade_parts=parts, yaw=10.0).driving
    torch.testing.assert_close(to_first[29], to_first[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(to_first[:21], mixed(yaw=10.0).driving[:21])


def test_the_gaze_of_a_video_follows_the_head_of_its_own_frame() -> None:
    """With nothing driven, a video's eyes stay as filmed.

    The original compares with the pose of the video's first frame, so that they drift when the head turns.
    """
    video = avatar(30)
    ours = mixed(video, drive=(), drive_eyes=True)
    torch.testing.assert_close(ours.driving, ours.source)
    upstream = mixed(video, drive=(), drive_eyes=True, upstream=True)
    assert float((upstream.driving - upstream.source).abs().max()) > 1e-3


def test_the_gaze_can_be_led() -> None:
    aside = mixed(gaze_yaw=10.0).driving - mixed().driving
    assert {int(i) for i in torch.nonzero(aside.abs().amax((0, 2)) > 1e-6)[:, 0]} == {11, 15}
    assert bool((aside[:, [11, 15], 0] > 0).all())


def test_blinks_take_the_place_of_driven_eyes() -> None:
    blink = Blink(delta=torch.linspace(0, 1, 4)[:, None].expand(-1, 63), pauses=(2,), period=30)
    x_s, x_d = mixed(drive=("exp",), gaze=0.0, blink=blink)
    closing = (x_d - x_s)[:, EYE_POINTS[0], 0] / avatar().motion.scale[0]
    expected = [0.0, 0.0, 0.0, 1 / 3, 2 / 3, 1.0, 0.0, 0.0]
    assert closing[:8].tolist() == pytest.approx(expected, abs=1e-5)


def test_the_character_scale_enters_the_factors() -> None:
    controls = MotionControls(character_scale=2.6)
    factors = controls.factors(is_image=True, source_scale=1.3)
    assert factors == {"exp": 2.0, "pitch": 2.0, "yaw": 2.0, "roll": 2.0, "t": 1.0}


def test_absolute_motion_takes_the_sources_place() -> None:
    absolute = mixed(relative=False, drive=("t",)).driving
    moved = absolute - mixed(drive=()).driving
    expected = unpack(DRIVING, torch.zeros(1, 63)).t[:, :2] - avatar().motion.t[:, :2]
    torch.testing.assert_close(moved[:, 0, :2], expected, atol=1e-5, rtol=0)


@given(cut=st.integers(1, 29))
def test_frames_can_be_pulled_in_any_parts(cut: int) -> None:
    blink = Blink(delta=torch.ones(4, 63) * 0.1, seed=3)
    controls = MotionControls(yaw=Curve.at_seconds({0.0: 0.0, 1.0: 9.0}), fade=fade_curve(30, 5, 5), blink=blink)
    mixer = MotionMixer(avatar(4), controls, reference=REFERENCE, first=DRIVING[0])
    whole = mixer(DRIVING, FRAMES)
    parts = [mixer(DRIVING[:cut], FRAMES[:cut]), mixer(DRIVING[cut:], FRAMES[cut:])]
    for points, joined in zip(whole, zip(*parts, strict=True), strict=True):
        torch.testing.assert_close(torch.cat(joined), points, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pitch": float("nan")},
        {"drive": ("kp",)},
        {"drive": {"exp": float("inf")}},
        {"fade_parts": ("mouth",)},
        {"fade_to": "d0"},
        {"character_scale": 0.0},
        {"expression_delta": torch.zeros(2, 62)},
        {"expression_delta": torch.full((63,), float("nan"))},
    ],
)
def test_wrong_controls_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=next(iter(wrong))):
        MotionControls(**wrong)


def test_curves() -> None:
    curve = Curve.at_frames({10: 1.0, 0: 0.0})
    assert [curve.at(frame) for frame in (-5, 0, 5, 10, 99)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert Curve.at_seconds({0.4: 1.0}) == Curve((10,), (1.0,))
    assert sample(2.5, torch.arange(3)).tolist() == [2.5] * 3
    assert [fade_curve(4, 10, 10).at(frame) for frame in range(4)] == pytest.approx([0.0, 0.1, 0.1, 0.0])
    for frames, values in (((), ()), ((1, 1), (0.0, 0.0)), ((0,), (float("nan"),)), ((0, 1), (0.0,))):
        with pytest.raises(InvalidValueError):
            Curve(frames, values)
    with pytest.raises(InvalidValueError):
        fade_curve(0)


@given(st.integers(50, 2000), st.integers(1, 40), st.integers(0, 5))
def test_random_blinks_are_whole_and_apart(count: int, length: int, seed: int) -> None:
    table = blink_table(count, length, None, seed)
    starts = [i for i in range(count - 1) if table[i + 1] == 1]
    assert blink_table(count, length, None, seed) == table
    for start in starts:
        assert table[start : start + length] == tuple(range(length))
    assert all(60 <= after - before - length <= 100 for before, after in zip(starts, starts[1:], strict=False))


def test_wrong_blinks_are_refused() -> None:
    good = Blink(delta=torch.zeros(4, 63))
    wrong = [
        {"delta": torch.zeros(63)},
        {"delta": torch.full((4, 63), float("nan"))},
        {"pauses": (-1,)},
        {"period": 0},
    ]
    for change in wrong:
        with pytest.raises(InvalidValueError):
            dataclasses.replace(good, **change)


def test_a_source_of_another_frame_rate_keeps_its_time() -> None:
    """Of a video of 50 frames a second every second frame is shown; of 30000/1001 one is skipped now and then."""
    assert source_index(torch.arange(4), 10, source_step(Fraction(50))).tolist() == [0, 2, 4, 6]
    step = source_step(Fraction(30000, 1001))
    assert int(source_index(torch.tensor([250]), 1000, step)) == int(10 * Fraction(30000, 1001))
    assert source_step(None) == 1

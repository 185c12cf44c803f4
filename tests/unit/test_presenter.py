"""The drawn presenters: the same every time, and key points where the drawn features are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import grid_sample

from ditto_core.errors import InvalidValueError
from tools.miniature.presenter import render
from tools.miniature.presenter_cast import CAST, HELD_OUT, cast
from tools.miniature.presenter_geometry import (
    BUST,
    FACE,
    LIP_POLYGON,
    View,
    crop_to_frame,
    expression,
    expression_parameters,
    pose_record,
    presenter_keypoints,
)
from tools.miniature.presenter_parameters import (
    EXPRESSIONS,
    GREEN_SCREEN,
    Identity,
    Motion,
    random_identities,
    random_motions,
)

LUMA = torch.tensor([0.299, 0.587, 0.114])
DARK = 60 / 255
SMALL = View(width=256, height=256)


def luma(pictures: Tensor) -> Tensor:
    return torch.einsum("nchw,c->nhw", pictures, LUMA)


def pixel_axes(view: View) -> tuple[Tensor, Tensor]:
    """Coordinates -1..1 of the pixels' columns and rows of a square view."""
    axis = (torch.arange(view.width) + 0.5) * (2 / view.width) - 1
    return axis, axis[:, None]


def inside(points: Tensor, view: View) -> Tensor:
    """Which pixels of a square view lie in a convex polygon of key points, (n, k, 2) -> (n, h, w)."""
    x, y = pixel_axes(view)
    result = torch.ones(len(points), view.height, view.width, dtype=torch.bool)
    for start, end in zip(points.unbind(1), points.roll(-1, 1).unbind(1), strict=True):
        dx, dy = (end - start)[:, :, None, None].unbind(1)
        sx, sy = start[:, :, None, None].unbind(1)
        result &= (x - sx) * dy - (y - sy) * dx <= 0
    return result


def lip_area(identity: Identity, motion: Motion, view: View = FACE) -> Tensor:
    return inside(presenter_keypoints(identity, motion, view)[:, list(LIP_POLYGON), :2], view)


def dark_of_mouth(identity: Identity, motion: Motion, view: View = FACE) -> Tensor:
    """Pixels that an open mouth darkens, against the same face with its mouth shut."""
    shut = Motion(**{**vars(motion), "open": torch.zeros(len(motion))})
    opened, closed = luma(render(identity, motion, view)), luma(render(identity, shut, view))
    return (opened < DARK) & (closed >= DARK)


def test_same_bytes_twice_and_on_a_new_seeded_draw() -> None:
    def draw() -> Tensor:
        generator = torch.Generator().manual_seed(7)
        return render(random_identities(2, generator), random_motions(2, generator), SMALL)

    assert torch.equal(draw(), draw())


def test_a_batch_draws_what_single_pictures_draw() -> None:
    generator = torch.Generator().manual_seed(3)
    identity, motion = random_identities(3, generator), random_motions(3, generator)
    singles = torch.cat([render(identity[[i]], motion[[i]], SMALL) for i in range(3)])
    # Vectorised and scalar sines differ in the last bits; at a jump of a pattern that may be a grey level.
    assert (render(identity, motion, SMALL) - singles).abs().max() <= 1 / 255


@pytest.mark.parametrize("seed", [1, 2])
def test_random_presenters_in_any_motion_are_pictures(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    pictures = render(random_identities(4, generator), random_motions(4, generator), SMALL)
    assert pictures.isfinite().all() and pictures.min() >= 0 and pictures.max() <= 1
    assert pictures.std(dim=(1, 2, 3)).min() > 0.05


def test_the_cast_differs_in_face_clothes_and_backdrop() -> None:
    everyone = cast()
    pictures = render(everyone, Motion.neutral(len(CAST)), View(width=64, height=64))
    distances = (pictures[:, None] - pictures[None]).abs().mean((2, 3, 4)) + torch.eye(len(CAST))
    assert len(CAST) >= 12 and distances.min() > 0.03
    assert int((everyone.backdrop == GREEN_SCREEN).sum()) == 2
    assert set(HELD_OUT) <= set(CAST)


def test_an_unknown_presenter_is_named_in_the_error() -> None:
    with pytest.raises(InvalidValueError, match="zoe.*anna"):
        cast(["anna", "zoe"])


@pytest.mark.parametrize("name", CAST)
def test_aperture_is_zero_when_shut_and_grows_with_opening(name: str) -> None:
    openings = [0.0, 0.15, 0.5, 1.0]
    identity, motion = cast([name]).expand(4), Motion.neutral(4, open=openings)
    dark = (luma(render(identity, motion)) < DARK) & lip_area(identity, motion)
    areas = dark.sum((1, 2)).tolist()
    assert areas[0] == 0
    assert all(small < large for small, large in zip(areas[1:], areas[2:], strict=False))
    assert areas[-1] > 600


@pytest.mark.parametrize(
    "pose", [{}, {"yaw": 15.0}, {"pitch": -10.0}, {"roll": 12.0}, {"x": 0.05, "y": -0.04, "scale": 1.06}]
)
def test_the_open_mouth_lies_inside_the_lip_key_points(pose: dict[str, float]) -> None:
    names = ("anna", "chidi", "liam")
    identity, motion = cast(names), Motion.neutral(3, open=0.7, **pose)
    dark = dark_of_mouth(identity, motion)
    # Only around the mouth: an opening jaw also moves shadows of chin and hair.
    points = presenter_keypoints(identity, motion)[:, list(LIP_POLYGON), :2]
    middle = points.mean(1)[:, :, None, None]
    x, y = pixel_axes(FACE)
    dark &= (x - middle[:, 0]).square() + (y - middle[:, 1]).square() < 0.22**2
    within = (dark & inside(points, FACE)).sum((1, 2)) / dark.sum((1, 2))
    assert within.min() >= 0.96


def test_views_zoom_key_points_and_picture_alike() -> None:
    identity, motion = cast(["karin"]), Motion.neutral(1, open=0.8)
    for view in (FACE, View(span=1.5, x=0.12, y=0.1)):
        dark = dark_of_mouth(identity, motion, view) & lip_area(identity, motion, view)
        rows = dark[0].nonzero()[:, 0].float().mean() * 2 / view.height - 1
        upper, lower = presenter_keypoints(identity, motion, view)[0, [14, 17], 1]
        assert upper < rows < lower
        area_in_scene = dark.sum() * (view.span / view.width) ** 2
        assert area_in_scene == pytest.approx(0.0150, rel=0.1)


def test_lips_have_lip_colour_at_the_key_points() -> None:
    identity = cast(["anna"])
    picture = render(identity, Motion.neutral())
    points = presenter_keypoints(identity, Motion.neutral())[0]
    x, y = ((points[[14, 17, 8], :2] + 1) * 256).long().unbind(-1)
    upper, lower, cheek = (
        picture[0, :, row, column] for row, column in zip(y + torch.tensor([6, -6, 0]), x, strict=True)
    )
    redness = [float(color[0] - color[1:].mean()) / float(color.mean()) for color in (upper, lower, cheek)]
    assert min(redness[:2]) > 1.2 * redness[2]


def test_pupils_move_with_gaze() -> None:
    identity = cast(["erik"]).expand(3)
    motion = Motion.neutral(3, gaze_x=[-1.0, 0.0, 1.0])
    pictures = luma(render(identity, motion))
    points = presenter_keypoints(identity, motion)
    x, y = pixel_axes(FACE)
    centres = []
    for picture, point in zip(pictures, points[1, 11].expand(3, 3), strict=True):
        pupil = (
            (picture < 0.15) & ((x - point[0]).square() + (y - point[1]).square() < 0.055**2) & (y > point[1] - 0.02)
        )
        centres.append(float((pupil * x).sum() / pupil.sum()))
    moved, designed = centres[2] - centres[0], float(points[2, 11, 0] - points[0, 11, 0])
    # Key points of the irises move twice as far as the irises, so that heat maps show it.
    assert centres[0] < centres[1] < centres[2]
    assert moved == pytest.approx(designed / 2, rel=0.25)


def test_a_blink_hides_the_eye_on_its_side_only() -> None:
    identity = cast(["erik"]).expand(2)
    motion = Motion.neutral(2, blink_left=[0.0, 1.0])
    pictures = render(identity, motion)
    change = (pictures[1] - pictures[0]).abs().mean(0)
    points = presenter_keypoints(identity, motion)[0, [11, 15], :2]
    left, right = (((points + 1) * 256).long()).tolist()
    assert change[left[1] - 4 : left[1] + 4, left[0] - 10 : left[0] + 10].mean() > 0.2
    assert change[:, 256:].max() == 0 and right[0] > 256


def test_the_face_picture_is_a_crop_of_the_bust() -> None:
    identity, motion = cast(["ben"]), Motion.neutral()
    face, bust = render(identity, motion), render(identity, motion, BUST)
    matrix = crop_to_frame()
    index = torch.arange(FACE.width, dtype=torch.float32)
    columns, rows = matrix[0, 0] * index + matrix[0, 2], matrix[1, 1] * index + matrix[1, 2]
    x = (columns + 0.5) * (2 / BUST.width) - 1
    y = (rows + 0.5) * (2 / BUST.height) - 1
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)[None]
    difference = (grid_sample(bust, grid, align_corners=False) - face).abs()
    assert difference.mean() < 1 / 255
    shifted = (grid_sample(bust, grid + 4 / BUST.width, align_corners=False) - face).abs()
    assert shifted.mean() > 3 * difference.mean()


@given(st.lists(st.floats(-1, 1, width=32), min_size=len(EXPRESSIONS), max_size=len(EXPRESSIONS)))
def test_expression_values_give_the_parameters_back(values: list[float]) -> None:
    motion = Motion.neutral(1, **dict(zip(EXPRESSIONS, values, strict=True)))
    back = expression_parameters(expression(motion))
    assert torch.allclose(back[0], torch.tensor(values), atol=1e-5)


def test_a_neutral_face_has_no_expression_and_unit_scale() -> None:
    record = pose_record(cast(["hana"]), Motion.neutral())
    assert record.exp.abs().max() == 0 and record.scale.item() == 1 and record.t.abs().max() == 0


def test_a_misspelt_motion_parameter_is_refused() -> None:
    with pytest.raises(TypeError, match="opening"):
        Motion.neutral(1, opening=1.0)

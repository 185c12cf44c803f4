"""Paste-back: the drawn face returns into the source frame, on the device.

The crop's pixels map to the frame's by `crop_to_frame`. Face and a soft-edged mask are sampled at the exact
positions (bilinear, black outside), over the crop's box only; beyond it the frame stays as it is.

Pixels are rounded to nearest (half up). The original truncates, which darkens the face by half a grey level
against its surroundings.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InvalidValueError
from ..networks.presets import FACE_SIZE

_MASK_RATIO = 0.9


class Box(NamedTuple):
    """A rectangle of a frame in pixels; right and bottom are the first beyond it."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the faces of one batch go. For an image avatar it never changes.

    Attributes:
        box: the part of the frames that the faces touch, and where there is room two more columns at its left, for
            the chroma samples that lie there. Its corners are even: it holds whole chroma samples.
        grid: (b, h, w, 2) float32, for each pixel of the box its place in the face picture, in -1..1.
        mask: (b, 1, h, w) float32 in 0..1, the face's share of each pixel.
    """

    box: Box
    grid: Tensor
    mask: Tensor


def edge_mask(height: int, width: int, *, ratio_height: float, ratio_width: float) -> Tensor:
    """1 in the middle, falling to 0 at the border: linearly at the sides, with distance in the corners.

    Args:
        height: rows.
        width: columns.
        ratio_height: share of the rows that is 1.
        ratio_width: share of the columns that is 1.

    Returns:
        (height, width) float64 in 0..1.
    """
    x, y = 1 - _ramp(width, ratio_width), 1 - _ramp(height, ratio_height)
    return (1 - torch.hypot(x, y[:, None])).clamp(min=0)


def face_box(crop_to_frame: Tensor, frame_size: tuple[int, int]) -> Box:
    """The smallest even-cornered box of the frame that holds the face crops; at least 2 x 2 pixels.

    Args:
        crop_to_frame: (b, 3, 3) matrices from pixels of the face crop to pixels of the frame.
        frame_size: even height and width.
    """
    last = FACE_SIZE - 1.0
    corners = torch.tensor([[0, 0, 1], [last, 0, 1], [0, last, 1], [last, last, 1]], dtype=torch.float64)
    points = (corners @ crop_to_frame.detach().cpu().double().mT)[..., :2].flatten(0, 1)
    # a face picture's outermost pixels reach one crop pixel further, where the mask is 0
    (left, top), (right, bottom) = points.amin(0).floor().tolist(), points.amax(0).ceil().tolist()
    height, width = frame_size
    x0, x1 = _even_span(left, right, width)
    y0, y1 = _even_span(top, bottom, height)
    return Box(x0, y0, x1, y1)


def place(crop_to_frame: Tensor, frame_size: tuple[int, int], device: torch.device) -> Placement:
    """Prepares the pasting of a batch of faces.

    Args:
        crop_to_frame: (b, 3, 3) affine matrices from pixels of the face crop to pixels of the frame.
        frame_size: even height and width of the frames.
        device: where the faces are.

    Returns:
        The placement, with one box for the whole batch. A pixel's grid and mask do not depend on the box.

    Raises:
        InvalidValueError: a matrix can't be inverted, or the frame's sides are not even.
    """
    if frame_size[0] % 2 or frame_size[1] % 2:
        raise InvalidValueError(
            f"a frame of {frame_size[1]}x{frame_size[0]} pixels", remedy="use even width and height"
        )
    matrices = crop_to_frame.detach().cpu().double()
    frame_to_crop, failed = torch.linalg.inv_ex(matrices)
    if failed.any() or not frame_to_crop.isfinite().all():
        raise InvalidValueError(
            f"a crop that has no area in the frame (crop_to_frame {matrices.tolist()})",
            remedy="register the avatar again",
        )
    box = face_box(matrices, frame_size)
    box = box._replace(left=max(box.left - 2, 0))
    grid = _sampling_grid(frame_to_crop, box, device)
    mask = _face_mask(device).expand(len(grid), -1, -1, -1)
    return Placement(box=box, grid=grid, mask=_sample(mask, grid))


def blend(faces: Tensor, frames: Tensor, placement: Placement) -> Tensor:
    """The frames within the placement's box, faces blended in, not yet rounded.

    Args:
        faces: (b, 3, 512, 512) RGB in 0..1.
        frames: (b or 1, H, W, 3) uint8 RGB on the faces' device.
        placement: of b faces, or of one that holds for all.

    Returns:
        (b, 3, h, w) float32 in 0..255.
    """
    box = placement.box
    background = frames[:, box.top : box.bottom, box.left : box.right].permute(0, 3, 1, 2).float()
    sampled = _sample(faces.float(), placement.grid.expand(len(faces), -1, -1, -1))
    # exactly the background where the mask is 0
    return torch.lerp(background, sampled * 255, placement.mask).clamp(0, 255)


def paste(faces: Tensor, frames: Tensor, placement: Placement) -> Tensor:
    """Whole frames with the faces in them.

    Args:
        faces: (b, 3, 512, 512) RGB in 0..1.
        frames: (b or 1, H, W, 3) uint8 RGB on the faces' device; not changed.
        placement: of b faces, or of one that holds for all.

    Returns:
        (b, H, W, 3) uint8 RGB, within one grey level of the exact value.
    """
    box = placement.box
    pasted = frames.expand(len(faces), -1, -1, -1).clone(memory_format=torch.contiguous_format)
    rounded = (blend(faces, frames, placement) + 0.5).to(torch.uint8)  # 255.5 truncates to 255
    pasted[:, box.top : box.bottom, box.left : box.right] = rounded.permute(0, 2, 3, 1)
    return pasted


def _ramp(n: int, ratio: float) -> Tensor:
    inner = int(n * ratio)
    before = (n - inner) // 2
    rise = torch.linspace(0, 1, before, dtype=torch.float64)
    fall = torch.linspace(1, 0, n - inner - before, dtype=torch.float64)
    return torch.cat([rise, torch.ones(inner, dtype=torch.float64), fall])


def _even_span(low: float, high: float, limit: int) -> tuple[int, int]:
    start = min(max(int(low), 0), limit - 2) // 2 * 2
    stop = min(max(int(high) + 1, start + 1), limit)
    return start, (stop + 1) // 2 * 2


def _sampling_grid(frame_to_crop: Tensor, box: Box, device: torch.device) -> Tensor:
    """(b, h, w, 2) float32: the box's pixels in the face picture, within 1e-3 of its pixels.

    Positions are counted from the frame's corner, so that they do not depend on the box.
    """
    scale = 2 / FACE_SIZE
    m = frame_to_crop[:, :2] * scale
    m[..., 2] += scale / 2 - 1  # the centre of crop pixel 0 is half a pixel from the edge, which is -1
    along_x, along_y, offset = m.to(device, torch.float32)[:, None, None].unbind(-1)  # (b, 1, 1, 2) each
    x = torch.arange(box.left, box.right, dtype=torch.float32, device=device)
    y = torch.arange(box.top, box.bottom, dtype=torch.float32, device=device)
    return along_x * x[:, None] + (along_y * y[:, None, None] + offset)


def _sample(pictures: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(pictures, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


@functools.lru_cache(maxsize=8)
def _face_mask(device: torch.device) -> Tensor:
    mask = edge_mask(FACE_SIZE, FACE_SIZE, ratio_height=_MASK_RATIO, ratio_width=_MASK_RATIO)
    return mask.float().to(device)[None, None]

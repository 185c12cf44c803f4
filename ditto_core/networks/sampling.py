"""Trilinear samples of volumes, in forms that suit matrix units and fused kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from .layers import wide


def shifted_copies(volume: Tensor, shifts: Tensor, axes: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """A volume sampled at several rigidly shifted grids: three matrix products, since a rigid shift is separable.

    The weight of cell j at position p is the hat function max(0, 1 - |p - j|), which is zero outside as well.

    Args:
        volume: (b, c, d, h, w).
        shifts: (b, k, 3) shifts in x, y and z, in float32 at least.
        axes: (w',), (h',) and (d',) coordinates of the grid in -1..1.

    Returns:
        (b, k, c, d', h', w') of the volume's type; what `sample_volume` gives at grid + shift.
    """
    x, y, z = (
        _hats(axis + shifts[..., i, None], volume.shape[-1 - i]).to(volume.dtype)  # (b, k, n', n)
        for i, axis in enumerate(axes)
    )
    copies = torch.einsum("bcdhw,bkxw->bkcdhx", volume, x)
    copies = torch.einsum("bkcdhx,bkyh->bkcdyx", copies, y)
    return torch.einsum("bkcdyx,bkzd->bkczyx", copies, z)


def _hats(points: Tensor, size: int) -> Tensor:
    """(..., n', size): the weight of each of `size` cells at points (..., n') in -1..1, the cells' outer edges."""
    cells = torch.arange(size, device=points.device, dtype=points.dtype)
    return (1 - (cell_position(points, size)[..., None] - cells).abs()).clamp(min=0)


def cell_position(points: Tensor, size: int) -> Tensor:
    """Where points in -1..1 lie among `size` cells, whose centres are 0, 1, ...; -1 and 1 are the outer edges."""
    return ((points + 1) * size - 1) / 2


def gather_shifted_copies(volume: Tensor, shifts: Tensor, axes: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """`shifted_copies` by eight gathers, which a compiler turns into one kernel that stores nothing between.

    Returns:
        (b, d', h', w', k, c): the layout that channels-last convolutions read.
    """
    b, channels, *sizes = volume.shape
    shapes = ((1, 1, -1), (1, -1, 1), (-1, 1, 1))
    corners = []
    for i, (axis, shape) in enumerate(zip(axes, shapes, strict=True)):
        points = axis[:, None] + shifts[:, None, :, i]  # (b, n', k)
        cells = _two_cells(points, sizes[2 - i])
        size = (b, *shape, len(shifts[0]))
        corners.append([(index.view(size), weight.view(size)) for index, weight in cells])
    return _weighted_corners(volume, corners)


def gather_samples(volume: Tensor, points: Tensor) -> Tensor:
    """`sample_volume` by eight gathers, which a compiler turns into one kernel.

    Args:
        volume: (b, c, d, h, w), best channels-last.
        points: (b, ..., 3) in -1..1.

    Returns:
        (b, ..., c) of the volume's type.
    """
    sizes = volume.shape[2:]
    return _weighted_corners(volume, [_two_cells(points[..., i], sizes[2 - i]) for i in range(3)])


def _two_cells(points: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """The two cells around each point: index, clamped to the volume, and weight, zero outside it."""
    position = cell_position(points, size)
    before = position.floor()
    part = position - before
    found = []
    for cell, weight in ((before, 1 - part), (before + 1, part)):
        inside = (cell >= 0) & (cell <= size - 1)
        found.append((cell.clamp(0, size - 1).long(), torch.where(inside, weight, torch.zeros_like(weight))))
    return found


def _weighted_corners(volume: Tensor, corners: list[list[tuple[Tensor, Tensor]]]) -> Tensor:
    b, channels, depth, height, width = volume.shape
    cells = volume.permute(0, 2, 3, 4, 1).reshape(-1, channels)
    high = wide(volume.dtype)
    total = torch.zeros((), device=volume.device, dtype=high)
    xs, ys, zs = corners
    first = torch.arange(b, device=volume.device).view(-1, *[1] * (xs[0][0].ndim - 1)) * depth
    for z, z_weight in zs:
        for y, y_weight in ys:
            row = ((first + z) * height + y) * width
            for x, x_weight in xs:
                weight = z_weight * y_weight * x_weight
                total = total + cells[row + x].to(high) * weight[..., None].to(high)
    return total.to(volume.dtype)

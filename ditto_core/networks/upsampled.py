"""3x3 convolutions of nearest-enlarged maps, computed at the map's own size.

In a map that was enlarged n times, the n pixels of a cell are equal. Along one axis a kernel of three taps then sees
two cells at a cell's first and last pixel, and one cell in between: taps add up. At x2 that leaves 4 taps of 6 an
axis and cell, at x4 5 of 12. The sums are the same in another order.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class UpsampledConv(nn.Module):
    """What a convolution makes of x enlarged, for a 3x3 one, or a 3x3x3 one where depth is not enlarged.

    A window over two neighbouring cells gives the last pixel of the first and the first pixel of the second, so that
    both come from one convolution with a kernel of 2; at x4 the pixels between see one cell.

    Args:
        conv: a convolution of kernel 3, padding 1 and stride 1.
        factor: 2 or 4, how much height and width were enlarged.
    """

    def __init__(self, conv: nn.Conv2d | nn.Conv3d, factor: int) -> None:
        super().__init__()
        self.factor, self.outputs = factor, conv.out_channels
        self.corners = _reduced(conv, edge_rows=True, edge_columns=True)
        if factor > 2:
            self.rows = _reduced(conv, edge_rows=True, edge_columns=False)
            self.columns = _reduced(conv, edge_rows=False, edge_columns=True)
            self.centre = _reduced(conv, edge_rows=False, edge_columns=False)

    def forward(self, x: Tensor) -> Tensor:
        """(b, in, [d,] h, w) -> (b, out, [d,] factor * h, factor * w)."""
        height, width = x.shape[-2:]
        corners = self.corners(x).unflatten(1, (2, 2, self.outputs))  # (b, 2, 2, out, [d,] h + 1, w + 1)
        # the window before a cell holds its first pixel in place 1, the window behind it the last one in place 0
        first, last = slice(0, -1), slice(1, None)
        top = [corners[:, 1, 1, ..., first, first], corners[:, 1, 0, ..., first, last]]
        bottom = [corners[:, 0, 1, ..., last, first], corners[:, 0, 0, ..., last, last]]
        if self.factor == 2:
            return interleave([top, bottom])
        rows = self.rows(x).unflatten(1, (2, self.outputs))  # (b, 2, out, [d,] h + 1, w)
        columns = self.columns(x).unflatten(1, (2, self.outputs))  # (b, 2, out, [d,] h, w + 1)
        between = self.factor - 2
        top[1:1] = [rows[:, 1, ..., :height, :]] * between
        bottom[1:1] = [rows[:, 0, ..., 1:, :]] * between
        middle = [columns[:, 1, ..., :width], *[self.centre(x)] * between, columns[:, 0, ..., 1:]]
        return interleave([top, *[middle] * between, bottom])


def interleave(pixels: list[list[Tensor]]) -> Tensor:
    """Maps (..., h, w), n x n of them for the pixels of a cell -> (..., n * h, n * w)."""
    cells = torch.stack([torch.stack(row, dim=-1) for row in pixels], dim=-3)  # (..., h, n, w, n)
    return cells.flatten(-4, -3).flatten(-2, -1)


def _reduced(conv: nn.Conv2d | nn.Conv3d, *, edge_rows: bool, edge_columns: bool) -> nn.Conv2d | nn.Conv3d:
    """The convolution for a cell's edge pixels, two an axis, or for those between, one an axis."""
    high = conv.weight.double()
    rows = _edge_taps(high, -2) if edge_rows else [high.sum(-2, keepdim=True)]
    weight = torch.cat([w for row in rows for w in (_edge_taps(row, -1) if edge_columns else [row.sum(-1, True)])])
    copies = len(weight) // conv.out_channels
    bias = None if conv.bias is None else conv.bias.repeat(copies)
    margins = (*conv.padding[:-2], int(edge_rows), int(edge_columns))
    return convolution(weight.to(conv.weight.dtype), bias, margins)


def _edge_taps(weight: Tensor, axis: int) -> list[Tensor]:
    """Kernels over (a cell, the next one): of the first one's last pixel, and of the next one's first pixel."""
    before, here, behind = weight.split(1, dim=axis)
    return [torch.cat([before + here, behind], axis), torch.cat([before, here + behind], axis)]


def convolution(weight: Tensor, bias: Tensor | None, padding: str | tuple[int, ...]) -> nn.Conv2d | nn.Conv3d:
    """A convolution that owns these numbers.

    Args:
        weight: (out, in, [kd,] kh, kw).
        bias: (out,) or None.
        padding: of each axis.
    """
    kind = nn.Conv2d if weight.ndim == 4 else nn.Conv3d
    outputs, inputs, *kernel = weight.shape
    made = kind(inputs, outputs, tuple(kernel), padding=padding, bias=bias is not None, device="meta")  # type: ignore[arg-type]
    made.weight = nn.Parameter(weight.detach().contiguous(), requires_grad=False)
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().to(weight.dtype).contiguous(), requires_grad=False)
    return made

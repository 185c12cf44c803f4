"""Paste-back straight to NV12: the face's box is blended and converted at once, the rest is the source's NV12.

`paste_nv12` does it anywhere and for any avatar. `StillPaste` is for an image avatar on a CPU: place, mask and
background never change there, so each sample of the box is a fixed weighted sum of a few face pixels plus a
constant. That sum runs over all faces of a batch at once, which lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..networks.presets import FACE_SIZE
from .colour import BLACK, CHROMA, GREY, LUMA, colour_difference, nv12_planes, weighted, yuv
from .paste import Box, Placement, blend

LARGEST_BOX = 2**21
"""Pixels of a box for `StillPaste`; it keeps 92 bytes for each."""
_WINDOW_EIGHTHS = (1, 1, 2, 2, 1, 1)
"""Weights of the pixels of a chroma sample: two rows of the column before, of the even and of the odd column."""
_BLOCK_ROWS = 32  # so that preparing stays in a processor's cache


def paste_nv12(faces: Tensor, frames: Tensor, backgrounds: Tensor, placement: Placement) -> Tensor:
    """Whole frames in NV12 with the faces in them.

    Args:
        faces: (b, 3, 512, 512) RGB in 0..1.
        frames: (b or 1, H, W, 3) uint8 RGB on the faces' device.
        backgrounds: (b or 1, 3 H / 2, W) the frames in NV12; not changed.
        placement: of b faces, or of one that holds for all.

    Returns:
        (b, 3 H / 2, W) uint8, rounded to nearest.
    """
    luma, chroma = yuv(blend(faces, frames, placement))
    pasted = _copies(backgrounds, len(faces))
    _put(pasted, placement.box, luma.add_(0.5), chroma.add_(0.5).permute(0, 2, 3, 1))
    return pasted


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """Weighted sums of rows of a table: sum i takes the same number of rows as every other.

    Attributes:
        rows: (n * k,) int32.
        weights: (n * k,) float32.
        starts: (n + 1,) int32.
    """

    rows: Tensor
    weights: Tensor
    starts: Tensor

    @classmethod
    def empty(cls, count: int, taps: int) -> _Sums:
        """Sums to be filled."""
        starts = torch.arange(0, count * taps + 1, taps, dtype=torch.int32)
        rows = torch.empty(count * taps, dtype=torch.int32)
        return cls(rows=rows, weights=torch.empty(count * taps), starts=starts)

    def fill(self, first: int, rows: Sequence[Tensor | int], weights: Sequence[Tensor]) -> None:
        """Sets sums from number `first` on: for each tap the rows and the weights of all sums."""
        taps, count = len(weights), weights[0].numel()
        part = slice(first * taps, (first + count) * taps)
        all_rows, all_weights = self.rows[part].view(count, taps), self.weights[part].view(count, taps)
        for tap in range(taps):
            row = rows[tap]
            all_rows[:, tap] = row.flatten() if isinstance(row, Tensor) else row
            all_weights[:, tap] = weights[tap].flatten()

    def __call__(self, table: Tensor) -> Tensor:
        """(rows, c) float32 -> (n, c)."""
        return F.embedding_bag(
            self.rows,
            table,
            self.starts,
            mode="sum",
            per_sample_weights=self.weights,
            include_last_offset=True,
        )


class StillPaste:
    """Pastes faces into one unchanging frame, on the CPU.

    Args:
        frame: (H, W, 3) uint8 RGB.
        background: (3 H / 2, W) the frame in NV12.
        placement: of one face; its box has at most `LARGEST_BOX` pixels.
    """

    def __init__(self, frame: Tensor, background: Tensor, placement: Placement) -> None:
        box = placement.box
        height, width = box.bottom - box.top, box.right - box.left
        self._box, self._background = box, background
        self._luma = _Sums.empty(height * width, 4 + 1)
        self._chroma = _Sums.empty(height * width // 4, 24 + 2)
        picture = frame[box.top : box.bottom, box.left : box.right]
        for top in range(0, height, _BLOCK_ROWS):
            rows = slice(top, min(top + _BLOCK_ROWS, height))
            self._fill(rows, picture[rows], placement.grid[0, rows], placement.mask[0, 0, rows])

    def _fill(self, rows: slice, picture: Tensor, grid: Tensor, mask: Tensor) -> None:
        """The sums of some rows of the box."""
        pixels, shares = _bilinear(grid)
        share_of_face = mask * 255  # faces are in 0..1
        shares = [share * share_of_face for share in shares]
        behind = picture.permute(2, 0, 1).float() * (1 - mask)
        first = FACE_SIZE**2  # the constants are weights of rows of ones below the face's pixels; half a level rounds
        luma = weighted(behind, LUMA) + (BLACK + 0.5)
        self._luma.fill(rows.start * grid.shape[1], [*pixels, first], [*shares, luma])
        blue, red = colour_difference(behind) + (GREY + 0.5)
        around = [window for pixel in pixels for window in _window(pixel)]
        weights = [
            window * (eighths / 8)
            for share in shares
            for window, eighths in zip(_window(share), _WINDOW_EIGHTHS, strict=True)
        ]
        self._chroma.fill(rows.start * grid.shape[1] // 4, [*around, first, first + 1], [*weights, blue, red])

    def __call__(self, faces: Tensor) -> Tensor:
        """(b, 3, 512, 512) RGB in 0..1 -> (b, 3 H / 2, W) uint8 NV12, rounded to nearest."""
        count, box = len(faces), self._box
        height, width = box.bottom - box.top, box.right - box.left
        faces = faces.float()
        luma = self._luma(_table([weighted(faces, LUMA)]))
        chroma = self._chroma(_table([weighted(faces, weights) for weights in CHROMA]))
        pasted = _copies(self._background[None], count)
        _put(
            pasted,
            box,
            luma.view(height, width, count).permute(2, 0, 1),
            chroma.view(height // 2, width // 2, 2, count).permute(3, 0, 1, 2),
        )
        return pasted


def _copies(backgrounds: Tensor, count: int) -> Tensor:
    return backgrounds.expand(count, -1, -1).clone(memory_format=torch.contiguous_format)


def _put(pictures: Tensor, box: Box, luma: Tensor, chroma: Tensor) -> None:
    """Truncates (b, h, w) and (b, h / 2, w / 2, 2) floats into the box."""
    y, uv = nv12_planes(pictures)
    y[:, box.top : box.bottom, box.left : box.right] = luma
    # the first column of chroma lacks its left neighbour; `place` has put the box's left edge beyond the face
    first = 0 if box.left == 0 else 1
    rows, columns = slice(box.top // 2, box.bottom // 2), slice(box.left // 2 + first, box.right // 2)
    uv[:, rows, columns] = chroma[:, :, first:]


def _bilinear(grid: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The four face pixels around each place, and their shares; 0 outside the face.

    Args:
        grid: (h, w, 2) places in -1..1.

    Returns:
        Four times (h, w) int32 pixel numbers, and four times (h, w) float32 shares.
    """
    taps = []
    for place in grid.unbind(-1):
        position = (place + 1) * (FACE_SIZE / 2) - 0.5
        lower = position.floor()
        share, first = position - lower, lower.to(torch.int32)
        both = ((first, 1 - share), (first + 1, share))
        taps.append([(i.clamp(0, FACE_SIZE - 1), part * ((i >= 0) & (i < FACE_SIZE))) for i, part in both])
    across, down = taps
    pairs = [(x, y) for y in down for x in across]
    return [y[0] * FACE_SIZE + x[0] for x, y in pairs], [x[1] * y[1] for x, y in pairs]


def _window(values: Tensor) -> list[Tensor]:
    """(h, w) of pixels -> for each pixel of a chroma sample's window, (h / 2, w / 2)."""
    even, odd = values[:, 0::2], values[:, 1::2]
    before = torch.cat([even[:, :1], odd[:, :-1]], 1)
    return [column[row::2] for column in (before, even, odd) for row in (0, 1)]


def _table(channels: list[Tensor]) -> Tensor:
    """Channels as rows of pixels, and below them for each channel a row of ones in it.

    Args:
        channels: c times (b, 512, 512).

    Returns:
        (512 * 512 + c, c * b).
    """
    count, pixels = len(channels[0]), FACE_SIZE**2
    table = torch.empty(pixels + len(channels), len(channels) * count)
    # as a picture whose channels lie together, which torch copies faster than a transposed matrix
    table[:pixels].view(1, FACE_SIZE, FACE_SIZE, -1).permute(0, 3, 1, 2).copy_(torch.cat(channels)[None])
    table[pixels:] = torch.eye(len(channels)).repeat_interleave(count, 1)
    return table

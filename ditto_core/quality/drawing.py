"""Pictures of measurements: tiles beside each other, charts and labels, drawn in arrays and written as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..files import write_whole

Pixels = NDArray[np.uint8]
Color = tuple[int, int, int]

INK, PALE, BLUE, ORANGE, RED = (40, 40, 40), (225, 225, 225), (30, 90, 200), (225, 120, 20), (210, 30, 40)
_PAPER = 255
_GLYPH_ROWS, _GLYPH_COLUMNS = 5, 3
# A glyph is five octal digits, one a row; its three bits are the pixels from left to right.
_GLYPHS = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.-:%/,+_()'",
        (
            "75557 26227 71747 71317 55711 74717 74757 71244 75757 75717 25755 65656 34443 65556 74647 74644 34553 "
            "55755 72227 11152 55655 44447 57755 65555 25552 65644 25563 65655 34216 72222 55557 55552 55775 55255 "
            "55222 71247 00002 00700 02020 51245 11244 00024 02720 00007 24442 21112 22000"
        ).split(),
        strict=True,
    )
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """A line of a chart.

    Attributes:
        label: a word or two.
        values: one a frame.
        color: RGB.
    """

    label: str
    values: NDArray[np.floating]
    color: Color


def write_png(path: str | Path, pixels: Pixels) -> None:
    """Writes RGB pixels (h, w, 3) to a PNG file, whole or not at all.

    Raises:
        FileError: the folder is missing or not writable.
    """
    encoder = av.CodecContext.create("png", "w")
    encoder.height, encoder.width, _ = pixels.shape
    encoder.pix_fmt, encoder.time_base = "rgb24", Fraction(1, 25)
    encoder.options = {"pred": "mixed"}
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), "rgb24")
    packets = encoder.encode(frame) + encoder.encode(None)
    write_whole(path, b"".join(bytes(packet) for packet in packets))


def scaled(picture: Pixels, height: int) -> Pixels:
    """A picture (h, w, 3) at another height, its sides in proportion."""
    width = max(1, round(picture.shape[1] * height / picture.shape[0]))
    values = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None].float()
    small: Pixels = F.interpolate(values, (height, width), mode="area")[0].permute(1, 2, 0).round().byte().numpy()
    return small


def largest_differences(a: Pixels, b: Pixels, height: int, factor: int) -> Pixels:
    """Where two pictures (h, w, 3) differ, on black, at another height, so that not one pixel's difference is lost.

    Each pixel shows the largest absolute difference of its part of the pictures, so many times as large.
    """
    width = max(1, round(a.shape[1] * height / a.shape[0]))
    apart = torch.from_numpy(np.abs(a.astype(np.int16) - b)).permute(2, 0, 1)[None].float()
    largest = F.adaptive_max_pool2d(apart, (height, width))[0].permute(1, 2, 0)
    drawn: Pixels = (factor * largest).clamp(max=255).byte().numpy()
    return drawn


def blank(height: int, width: int) -> Pixels:
    """White paper."""
    return np.full((height, width, 3), _PAPER, np.uint8)


def label_width(text: str, size: int = 2) -> int:
    """Pixels that `write` needs across for a text."""
    return len(text) * (_GLYPH_COLUMNS + 1) * size


def write(pixels: Pixels, text: str, *, x: int, y: int, color: Color = INK, size: int = 2) -> None:
    """Writes a label into a picture, in capitals; what lies outside is cut off.

    Args:
        pixels: (h, w, 3), changed.
        text: letters, digits and .-:%/,+_()'; other characters stay empty.
        x: left end.
        y: upper end.
        color: RGB.
        size: pixels of a glyph's pixel; a line is 5 of them high.
    """
    for character in text.upper():
        rows = _GLYPHS.get(character, "00000")
        bits = np.array([[int(row) >> 2 - column & 1 for column in range(_GLYPH_COLUMNS)] for row in rows], bool)
        mask = bits.repeat(size, 0).repeat(size, 1)
        part = pixels[max(y, 0) : y + _GLYPH_ROWS * size, max(x, 0) : x + _GLYPH_COLUMNS * size]
        part[mask[: part.shape[0], : part.shape[1]]] = color
        x += (_GLYPH_COLUMNS + 1) * size


def beside(tiles: Sequence[Pixels], gap: int = 4) -> Pixels:
    """Tiles in a row, on white."""
    height = max(tile.shape[0] for tile in tiles)
    row = blank(height, sum(tile.shape[1] + gap for tile in tiles) - gap)
    x = 0
    for tile in tiles:
        row[: tile.shape[0], x : x + tile.shape[1]] = tile
        x += tile.shape[1] + gap
    return row


def below(rows: Sequence[Pixels], gap: int = 6) -> Pixels:
    """Rows under each other, on white."""
    return beside([row.transpose(1, 0, 2) for row in rows], gap).transpose(1, 0, 2)


def chart(title: str, curves: Sequence[Curve], *, width: int, height: int = 150, marks: Sequence[int] = ()) -> Pixels:
    """Curves over frames, from the smallest value to the largest.

    Args:
        title: above the curves; each curve's label follows in its colour.
        curves: at least one value in all.
        width: pixels.
        height: pixels.
        marks: frames with a red line.
    """
    picture = blank(height, width)
    left, right, top, bottom = 70, width - 10, 22, height - 18
    values = np.concatenate([curve.values for curve in curves])
    low, high = float(values.min()), float(values.max())
    frames = max(len(curve.values) for curve in curves)
    across = max(frames - 1, 1)
    picture[bottom, left:right] = picture[top, left:right] = PALE
    for frame in marks:
        picture[top:bottom, left + round(frame * (right - left - 1) / across)] = RED
    for curve in curves:
        _plot(picture[top : bottom + 1, left:right], curve, low, high, across)
    x = left
    for text, color in ((title, INK), *((curve.label, curve.color) for curve in curves)):
        write(picture, text, x=x, y=6, color=color)
        x += label_width(text) + 16
    for value, y in ((high, top - 4), (low, bottom - 6)):
        write(picture, f"{value:.4g}", x=4, y=y)
    last = f"{frames - 1}"
    write(picture, "0", x=left, y=bottom + 5)
    write(picture, last, x=right - label_width(last), y=bottom + 5)
    return picture


def _plot(field: Pixels, curve: Curve, low: float, high: float, across: int) -> None:
    """Draws a curve into a chart's field; each column from the value before to its own."""
    if not len(curve.values):
        return
    height, width = field.shape[:2]
    last = int((len(curve.values) - 1) * (width - 1) / across)
    at = np.interp(np.arange(last + 1) * across / max(width - 1, 1), np.arange(len(curve.values)), curve.values)
    rows = np.round((height - 1) * (1 - (at - low) / ((high - low) or 1))).astype(int)
    for column, (before, row) in enumerate(zip(np.concatenate([rows[:1], rows[:-1]]), rows, strict=True)):
        field[min(before, row) : max(before, row) + 2, column] = curve.color

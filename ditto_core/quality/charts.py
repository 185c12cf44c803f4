"""A comparison as one picture: chosen frames beside each other, what differs, and courses over time."""

from __future__ import annotations

import numpy as np

from .compare import Comparison, Tile
from .drawing import BLUE, ORANGE, Curve, Pixels, below, beside, blank, chart, label_width, write

AMPLIFIED = 8
"""Differences are drawn so many times as large, around grey."""
_LABEL = 20
_LEAST_WIDTH = 900
_MARGIN = 10


def comparison_picture(comparison: Comparison) -> Pixels:
    """The whole picture, (h, w, 3) RGB."""
    rows: list[Pixels] = []
    if comparison.tiles:
        rows.append(beside([_column(tile) for tile in comparison.tiles]))
    width = max(_LEAST_WIDTH, *(row.shape[1] for row in rows)) if rows else _LEAST_WIDTH
    curves = comparison.curves
    spikes = comparison.report["steps"]["spikes"]
    charts = (
        ("psnr of luma, db", ("psnr y",), ()),
        ("ssim", ("ssim",), ()),
        ("largest difference in a block", ("block delta",), ()),
        ("step from frame to frame", ("reference step", "test step"), spikes),
        ("aperture, pixels", ("reference aperture", "test aperture"), ()),
    )
    for title, names, marks in charts:
        drawn = [
            Curve(label=name.split()[0] if len(names) > 1 else "", values=curves[name], color=color)
            for name, color in zip(names, (BLUE, ORANGE), strict=False)
            if name in curves and len(curves[name])
        ]
        if drawn:
            rows.append(chart(title, drawn, width=width, marks=marks))
    lines = comparison.report["findings"] or ["no findings"]
    lines = [*lines, *(f"not measured: {what}: {why}" for what, why in comparison.report["not_measured"].items())]
    rows += [_line(line, width) for line in lines]
    page = below(rows)
    framed = blank(page.shape[0] + 2 * _MARGIN, page.shape[1] + 2 * _MARGIN)
    framed[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN] = page
    return framed


def _column(tile: Tile) -> Pixels:
    """A frame of both videos and what differs, under its number."""
    some = tile.reference if tile.reference is not None else tile.test
    empty = blank(*(some.shape[:2] if some is not None else (1, 1)))
    x, y = (empty if picture is None else picture for picture in (tile.reference, tile.test))
    head = blank(_LABEL, x.shape[1])
    write(head, f"frame {tile.frame}", x=0, y=4)
    parts = [("reference", x), ("test", y)]
    if x.shape == y.shape:
        apart = AMPLIFIED * (y.astype(np.int16) - x) + 128
        parts.append((f"difference x {AMPLIFIED}", apart.clip(0, 255).astype(np.uint8)))
    return below([head, *(_named(name, picture) for name, picture in parts)], gap=2)


def _named(name: str, picture: Pixels) -> Pixels:
    band = blank(14, picture.shape[1])
    write(band, name, x=0, y=2)
    return below([band, picture], gap=0)


def _line(text: str, width: int) -> Pixels:
    row = blank(14, max(width, label_width(text)))
    write(row, text, x=0, y=2)
    return row

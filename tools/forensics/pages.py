"""Pictures of the runs: some frames of each beside each other, and where they differ from what they should equal."""

from __future__ import annotations

from collections.abc import Sequence

from ditto_core.quality.drawing import Pixels, below, beside, blank, label_width, largest_differences, scaled, write

from .measure import Row, Tile

_HEIGHT, _LABEL = 192, 16
_LARGEST_FACTOR = 64


def montage(rows: Sequence[Row]) -> Pixels:
    """The plain pipeline's face in the chosen frames, and below it that of each run."""
    first = next(row for row in rows if row.tiles)
    plain = _strip("plain", [tile.wanted for tile in first.tiles], first.tiles)
    return below([plain, *(_strip(row.name, [tile.found for tile in row.tiles], row.tiles) for row in _drawn(rows))])


def differences(rows: Sequence[Row]) -> Pixels:
    """Where each run differs in the chosen frames; the factor by which that is amplified stands above."""
    return below([_apart(row) for row in _drawn(rows)])


def factor_for(largest: float) -> int:
    """The power of two, at most 64, that makes a difference as bright as it can be without loss."""
    factor = _LARGEST_FACTOR
    while factor > 1 and factor * largest > 255:
        factor //= 2
    return factor


def _apart(row: Row) -> Pixels:
    if not row.largest:
        return _named(f"{row.name}: no difference in any frame", blank(1, 1))
    factor = factor_for(row.largest)
    parts = [largest_differences(tile.wanted, tile.found, _HEIGHT, factor) for tile in row.tiles]
    name = f"{row.name}: largest difference {row.largest:.0f} of 255, drawn x {factor}"
    return _labelled(name, parts, row.tiles)


def _drawn(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.tiles]


def _strip(name: str, pictures: Sequence[Pixels], tiles: Sequence[Tile]) -> Pixels:
    return _labelled(name, [scaled(picture, _HEIGHT) for picture in pictures], tiles)


def _labelled(name: str, parts: Sequence[Pixels], tiles: Sequence[Tile]) -> Pixels:
    columns = [_named(f"frame {tile.frame}", part) for tile, part in zip(tiles, parts, strict=True)]
    return _named(name, beside(columns))


def _named(name: str, picture: Pixels) -> Pixels:
    head = blank(_LABEL, max(picture.shape[1], label_width(name)))
    write(head, name, x=0, y=4)
    return below([head, picture], gap=0)

"""How far a mouth is open in a picture: dark pixels inside the polygon of the lips."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .courses import correlation
from .pictures import luma

DARK = 60.0
"""Luma, of 255, below which a pixel inside the lips belongs to the open mouth."""
CLOSED = 0.10
"""Share of the clip's 95th percentile up to which a mouth counts as closed."""

Points = NDArray[np.float64]


def outline(polygon: Points) -> Points:
    """A polygon (k, 2) that does not cross itself: as given, or its convex hull where it does."""
    sides = list(zip(polygon, np.roll(polygon, -1, axis=0), strict=True))
    apart = ((i, j) for i, j in itertools.combinations(range(len(sides)), 2) if 1 < j - i < len(sides) - 1)
    return convex_hull(polygon) if any(_cross(*sides[i], *sides[j]) for i, j in apart) else polygon


def _turn(a: Points, b: Points, c: Points) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _cross(a: Points, b: Points, c: Points, d: Points) -> bool:
    return _turn(a, b, c) * _turn(a, b, d) < 0 and _turn(c, d, a) * _turn(c, d, b) < 0


def convex_hull(points: Points) -> Points:
    """Corners of the smallest convex polygon around points (k, 2), in turn (Andrew's monotone chain)."""
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]

    def chain(row: Points) -> list[Points]:
        kept: list[Points] = []
        for point in row:
            while len(kept) > 1 and _turn(kept[-2], kept[-1], point) <= 0:
                kept.pop()
            kept.append(point)
        return kept[:-1]

    return np.array(chain(ordered) + chain(ordered[::-1]))


def inside(polygon: Points, width: int, height: int) -> tuple[tuple[slice, slice], NDArray[np.bool_]]:
    """Which pixels have their centre in a polygon.

    Args:
        polygon: (k, 2) x and y in pixels; pixel centres are whole numbers. It may leave the picture.
        width: of the picture.
        height: of the picture.

    Returns:
        Rows and columns of the picture that hold the polygon, and which of their pixels are inside.
    """
    shape = outline(polygon)
    low = np.clip(np.ceil(shape.min(0)), 0, (width, height)).astype(int)
    high = np.clip(np.floor(shape.max(0)) + 1, low, (width, height)).astype(int)
    x, y = np.arange(low[0], high[0])[None], np.arange(low[1], high[1])[:, None]
    odd = np.zeros((high[1] - low[1], high[0] - low[0]), bool)
    for (x0, y0), (x1, y1) in zip(shape, np.roll(shape, -1, axis=0), strict=True):
        side = (x - x0) * (y1 - y0) - (y - y0) * (x1 - x0)
        odd ^= ((y0 <= y) != (y1 <= y)) & (side < 0 if y1 > y0 else side > 0)
    return (slice(low[1], high[1]), slice(low[0], high[0])), odd


def aperture(picture: NDArray[np.uint8], polygon: Points) -> int:
    """Dark pixels inside the lips.

    Args:
        picture: (h, w, 3) RGB.
        polygon: (k, 2) of the lips, see `inside`.
    """
    part, within = inside(polygon, picture.shape[1], picture.shape[0])
    brightness = luma(torch.from_numpy(np.ascontiguousarray(picture[part]))).numpy()
    return int(((brightness < DARK) & within).sum())


def opening(apertures: NDArray[np.floating]) -> NDArray[np.float64]:
    """A clip's apertures (n,) as shares of its 95th percentile; all 0 where the mouth never opens."""
    values = np.asarray(apertures, np.float64)
    most = np.percentile(values, 95) if len(values) else 0.0
    return values / most if most > 0 else np.zeros_like(values)


def closed(apertures: NDArray[np.floating]) -> NDArray[np.bool_]:
    """In which frames of a clip (n,) the mouth is closed: at most 10 % of the 95th percentile."""
    return opening(apertures) <= CLOSED


def aperture_difference(reference: NDArray[np.floating], test: NDArray[np.floating]) -> dict[str, Any]:
    """How a mouth differs from the one it should equal, ready for JSON.

    Args:
        reference: (n,) apertures in pixels, n at least 1.
        test: (n,) those of the same frames.

    Returns:
        Percentages are of the reference's 95th percentile; None where its mouth never opens.
    """
    most, delta = float(np.percentile(reference, 95)), np.abs(test - reference)
    return {
        "reference_95th_percentile": most,
        "test_95th_percentile": float(np.percentile(test, 95)),
        "mean_delta_percent": 100 * float(delta.mean()) / most if most else None,
        "largest_delta_percent": 100 * float(delta.max()) / most if most else None,
        "largest_delta": float(delta.max()),
        "largest_delta_frame": int(delta.argmax()),
        "r": correlation(reference, test) if len(reference) > 1 else None,
        "reference_closed": int(closed(reference).sum()),
        "test_closed": int(closed(test).sum()),
        "closed_alike": float((closed(reference) == closed(test)).mean()),
    }

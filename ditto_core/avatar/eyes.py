"""How far the eyes are open and where they look, read off the 478 points of a face mesh.

The points are MediaPipe's, normalised: x by the picture's width, y by its height, z by its width. Eyes come
in the order that the mesh numbers them: the one left in the picture first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_OUTER_CORNERS, _INNER_CORNERS = [33, 263], [133, 362]
_LOWER_LIDS = [[145, 144, 153], [374, 373, 380]]
_UPPER_LIDS = [[159, 160, 158], [386, 387, 385]]
_IRISES = [468, 473]


def eye_axis(mesh: NDArray[np.float32]) -> NDArray[np.floating]:
    """From the inner to the outer corner of each eye: (..., 478, 3) -> (..., 2, 3)."""
    return mesh[..., _OUTER_CORNERS, :] - mesh[..., _INNER_CORNERS, :]


def iris_offset(mesh: NDArray[np.float32]) -> NDArray[np.floating]:
    """From the middle between the corners to the iris of each eye: (..., 478, 3) -> (..., 2, 3)."""
    return mesh[..., _IRISES, :] - (mesh[..., _OUTER_CORNERS, :] + mesh[..., _INNER_CORNERS, :]) / 2


def eye_opening(mesh: NDArray[np.float32]) -> NDArray[np.float32]:
    """Three lid distances of each eye, summed, over its width.

    Args:
        mesh: (..., 478, 3).

    Returns:
        (..., 2); 0 is closed.
    """
    lids = np.linalg.norm(mesh[..., _LOWER_LIDS, :] - mesh[..., _UPPER_LIDS, :], axis=-1).sum(-1)
    return (lids / (np.linalg.norm(eye_axis(mesh), axis=-1) + 1e-8)).astype(np.float32)


def gaze(mesh: NDArray[np.float32]) -> NDArray[np.float32]:
    """Where each eye looks: the iris's direction from the middle, less the eye's own, by the iris's distance.

    Args:
        mesh: (..., 478, 3).

    Returns:
        (..., 6): x of both eyes, y of both, z of both; 0 where the iris is in the middle.
    """
    offset, axis = iris_offset(mesh), eye_axis(mesh)
    distance = np.linalg.norm(offset, axis=-1, keepdims=True)
    outwards = axis / (np.linalg.norm(axis, axis=-1, keepdims=True) + 1e-8)
    move = offset - outwards * distance
    return np.swapaxes(move, -1, -2).reshape(*move.shape[:-2], 6).astype(np.float32)

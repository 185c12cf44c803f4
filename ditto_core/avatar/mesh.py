"""478 face mesh points: BlazeFace (arXiv:1907.05047) finds the region, the mesh network reads it."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..errors import DittoError
from .crop import transform
from .landmarks import cut, numbers
from .sessions import Run

MESH_POINTS = 478
_BLAZE_SIZE = 128
_BLAZE_ANCHORS = 896
_BLAZE_VALUES = 16
_SCORE = 0.5
_OVERLAP = 0.3
_MESH_SIZE = 256
_MARGIN = 1.5


class NoMeshError(DittoError):
    """BlazeFace sees no face in the crop."""


def mesh_points(crop: NDArray[np.uint8], blaze: Run, mesh: Run) -> NDArray[np.float32]:
    """The face mesh of the most certain face.

    Args:
        crop: (H, W, 3) RGB.
        blaze: (1, 128, 128, 3) in -1..1 -> regressors (1, 896, 16) and logits (1, 896, 1).
        mesh: (1, 256, 256, 3) in 0..1 -> 1434 numbers, in pixels of that input.

    Returns:
        (478, 3), x and z over the crop's width, y over its height.

    Raises:
        NoMeshError: no face is found.
        DetectorError: a model gives something else.
    """
    outputs = blaze(blaze_input(crop))
    values = numbers(outputs, _BLAZE_ANCHORS * _BLAZE_VALUES, "blaze_face.onnx").reshape(_BLAZE_ANCHORS, _BLAZE_VALUES)
    logits = numbers(outputs, _BLAZE_ANCHORS, "blaze_face.onnx").reshape(_BLAZE_ANCHORS)
    faces = blaze_faces(values, logits)
    if not len(faces):
        raise NoMeshError(
            "no face in the crop, so that the eyes can't be read",
            remedy="choose another picture, face or crop",
        )
    height, width = crop.shape[:2]
    to_crop = _region(faces[0], height, width)
    patch = cut(crop, to_crop, _MESH_SIZE)
    points = numbers(mesh(mesh_input(patch)), MESH_POINTS * 3, "face_mesh.onnx").reshape(MESH_POINTS, 3)
    unit = math.hypot(to_crop[0, 0], to_crop[1, 0])
    placed = np.concatenate([transform(to_crop, points[:, :2]), points[:, 2:] * unit], -1)
    return (placed / [width, height, width]).astype(np.float32)


def blaze_input(crop: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The crop at BlazeFace's size, (1, 128, 128, 3)."""
    planes = torch.from_numpy(np.ascontiguousarray(crop)).permute(2, 0, 1)[None].float()
    small = F.interpolate(planes, (_BLAZE_SIZE, _BLAZE_SIZE), mode="bilinear", align_corners=False).round()
    return np.ascontiguousarray((small / 127.5 - 1).permute(0, 2, 3, 1).numpy())


def mesh_input(patch: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The region as the mesh network takes it, (1, 256, 256, 3)."""
    return patch[None].astype(np.float32) / np.float32(255)


def blaze_anchors() -> NDArray[np.float32]:
    """(896, 2) centres of the cells, in 0..1: 16 x 16 cells twice, then 8 x 8 cells six times."""
    grids = []
    for cells, repeats in ((16, 2), (8, 6)):
        y, x = np.divmod(np.arange(cells * cells), cells)
        grids.append(np.repeat((np.stack([x, y], -1) + 0.5) / cells, repeats, axis=0))
    return np.concatenate(grids).astype(np.float32)


def blaze_faces(values: NDArray[np.float32], logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Faces by falling score, overlapping ones averaged, weighted by their scores.

    Args:
        values: (896, 16) centre, size and six points, in 128ths of the picture round the anchors.
        logits: (896,).

    Returns:
        (n, 17): left, top, right, bottom in 128ths of the picture; six points x, y in 0..1; the mean score.
    """
    scores = 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -50, 100)))
    certain = np.flatnonzero(scores >= _SCORE)
    order = certain[np.argsort(-scores[certain], kind="stable")]
    anchors = blaze_anchors()[order].astype(np.float64)
    values = values[order].astype(np.float64)
    centre = values[:, :2] + anchors * _BLAZE_SIZE
    half = values[:, 2:4] / 2
    points = values[:, 4:].reshape(-1, 6, 2) / _BLAZE_SIZE + anchors[:, None]
    faces = np.concatenate([centre - half, centre + half, points.reshape(-1, 12), scores[order, None]], -1)
    merged = []
    while len(faces):
        alike = _overlaps(faces[0], faces) > _OVERLAP
        alike[0] = True
        weights = faces[alike, -1:]
        mean = (faces[alike] * weights).sum(0) / weights.sum()
        mean[-1] = weights.mean()
        merged.append(mean)
        faces = faces[~alike]
    return np.array(merged, dtype=np.float32).reshape(-1, 17)


def _overlaps(face: NDArray[np.float64], faces: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intersection over union of one box with several."""
    low, high = np.maximum(face[:2], faces[:, :2]), np.minimum(face[2:4], faces[:, 2:4])
    shared = np.maximum(0, high - low).prod(-1)
    area = (faces[:, 2:4] - faces[:, :2]).prod(-1)
    union = (face[2:4] - face[:2]).prod() + area - shared
    return shared / np.where(union > 0, union, 1)


def _region(face: NDArray[np.float32], height: int, width: int) -> NDArray[np.float64]:
    """The square round a face, eyes level: from pixels of the mesh's input to pixels of the crop."""
    scale = np.array([width, height]) / _BLAZE_SIZE
    low, high = face[:2] * scale, face[2:4] * scale
    first, second = face[4:6], face[6:8]
    angle = math.atan2(second[1] - first[1], second[0] - first[0])
    unit = _MARGIN * float((high - low).max()) / _MESH_SIZE
    matrix = np.eye(3)
    matrix[:2, :2] = unit * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    matrix[:2, 2] = (low + high) / 2 - matrix[:2, :2] @ np.full(2, _MESH_SIZE / 2)
    return matrix

"""Paste-back of a whole frame in float64, as the reference, and faces, frames and places to paste."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ditto_core.networks.presets import FACE_SIZE
from ditto_core.render.paste import edge_mask


def crop_matrix(scale: float, degrees: float, x: float, y: float) -> Tensor:
    """(1, 3, 3): a crop of `scale` frame pixels a crop pixel, turned, with its middle at (x, y)."""
    cos, sin = scale * math.cos(math.radians(degrees)), scale * math.sin(math.radians(degrees))
    middle = (FACE_SIZE - 1) / 2
    dx, dy = x - middle * (cos - sin), y - middle * (sin + cos)
    return torch.tensor([[[cos, -sin, dx], [sin, cos, dy], [0, 0, 1]]], dtype=torch.float32)


def noise_faces(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, 3, FACE_SIZE, FACE_SIZE, generator=torch.Generator().manual_seed(seed))


def noise_frames(count: int, size: tuple[int, int], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, *size, 3), dtype=torch.uint8, generator=generator)


def bilinear(picture: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Samples (h, w, c) at float64 positions, zero outside, tap by tap."""
    height, width = picture.shape[:2]
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    total = np.zeros((*x.shape, picture.shape[2]))
    for column, row in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
        weight = (1 - np.abs(x - column)) * (1 - np.abs(y - row)) * inside
        total += weight[..., None] * picture[row.clip(0, height - 1), column.clip(0, width - 1)]
    return total


def pasted_rgb(face: Tensor, frame: Tensor, matrix: Tensor) -> NDArray[np.float64]:
    """Paste-back of the whole frame in float64, not rounded."""
    height, width = frame.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float64)
    u, v, _ = np.einsum("ij,jhw->ihw", np.linalg.inv(matrix.double().numpy()), np.stack([x, y, np.ones_like(x)]))
    mask = edge_mask(FACE_SIZE, FACE_SIZE, ratio_height=0.9, ratio_width=0.9).numpy()[..., None]
    sampled = bilinear(face.double().permute(1, 2, 0).numpy() * 255, u, v)
    share = bilinear(mask, u, v)
    return share * sampled + (1 - share) * frame.double().numpy()

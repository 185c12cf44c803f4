"""106 and 203 face landmarks: pre- and post-processing round the networks."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from .crop import LANDMARK_FRAMING, transform
from .detect import DetectorError
from .sessions import Run
from .warp import affine_warp, to_bytes

_SIZE_106 = 192
_MARGIN_106 = 1.5


def landmarks_106(picture: NDArray[np.uint8], box: NDArray[np.floating], run: Run) -> NDArray[np.float32]:
    """106 landmarks of the face in a box.

    Args:
        picture: (H, W, 3) RGB.
        box: left, top, right, bottom in pixels.
        run: (1, 3, 192, 192) BGR in 0..255 -> 212 numbers in about -1..1.

    Returns:
        (106, 2) in pixels of the picture.

    Raises:
        DetectorError: the model gives something else.
    """
    blob, to_picture = input_106(picture, box)
    points = (numbers(run(blob), 212, "landmark106.onnx or 2d106det.onnx").reshape(106, 2) + 1) * (_SIZE_106 / 2)
    return transform(to_picture, points).astype(np.float32)


def input_106(picture: NDArray[np.uint8], box: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The box with a margin, unturned, as the network takes it, and the matrix back to the picture."""
    left, top, right, bottom = (float(value) for value in box[:4])
    unit = max(right - left, bottom - top) * _MARGIN_106 / _SIZE_106
    to_picture = np.diag([unit, unit, 1.0])
    to_picture[:2, 2] = np.array([left + right, top + bottom]) / 2 - unit * _SIZE_106 / 2
    patch = cut(picture, to_picture, _SIZE_106)
    return np.ascontiguousarray(patch[..., ::-1].transpose(2, 0, 1)[None], dtype=np.float32), to_picture


def landmarks_203(crop: NDArray[np.uint8], to_picture: NDArray[np.floating], run: Run) -> NDArray[np.float32]:
    """203 landmarks of an upright face.

    Args:
        crop: (224, 224, 3) RGB.
        to_picture: (3, 3) from pixels of the crop to pixels of the picture.
        run: (1, 3, 224, 224) RGB in 0..1 -> outputs, the one of 406 numbers being the landmarks in 0..1.

    Returns:
        (203, 2) in pixels of the picture.

    Raises:
        DetectorError: the model gives something else.
    """
    points = numbers(run(input_203(crop)), 406, "landmark203.onnx").reshape(203, 2) * LANDMARK_FRAMING.size
    return transform(to_picture, points).astype(np.float32)


def input_203(crop: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The crop as the network takes it."""
    return np.ascontiguousarray(crop.transpose(2, 0, 1)[None], dtype=np.float32) / np.float32(255)


def cut(picture: NDArray[np.uint8], to_picture: NDArray[np.floating], size: int) -> NDArray[np.uint8]:
    """A square patch of a picture, black outside.

    Args:
        picture: (H, W, 3).
        to_picture: (3, 3) from pixels of the patch to pixels of the picture.
        size: of the patch.

    Returns:
        (size, size, 3).
    """
    planes = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None]
    patch = to_bytes(affine_warp(planes, torch.from_numpy(to_picture)[None], (size, size)))
    return np.ascontiguousarray(patch[0].permute(1, 2, 0).numpy())


def numbers(outputs: list[NDArray[np.float32]], size: int, file: str) -> NDArray[np.float32]:
    """The output of a certain size.

    Raises:
        DetectorError: there is none, or it is not finite.
    """
    for array in outputs:
        if array.size == size:
            if not np.isfinite(array).all():
                raise DetectorError("a landmark model whose output is not finite", remedy="get the official file again")
            return array
    raise DetectorError(
        f"a landmark model whose outputs have {[array.size for array in outputs]} numbers, none {size}",
        remedy=f"use {file} of the official files",
    )

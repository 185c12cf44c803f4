"""Finding faces: pre- and post-processing of an SCRFD detector (arXiv:2105.04714)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..errors import DittoError
from .sessions import Run

_INPUT_SIZE = 512
_STRIDES = (8, 16, 32)
_ANCHORS = 2
_SCORE = 0.5
_OVERLAP = 0.4


class Faces(NamedTuple):
    """Faces found in a picture.

    Attributes:
        boxes: (n, 4) left, top, right, bottom in pixels.
        scores: (n,) in 0..1.
        points: (n, 5, 2) eyes, nose, corners of the mouth in pixels.
    """

    boxes: NDArray[np.floating]
    scores: NDArray[np.floating]
    points: NDArray[np.floating]

    def largest_first(self) -> Faces:
        """The same faces by falling area."""
        extent = self.boxes[:, 2:] - self.boxes[:, :2]
        order = np.argsort(-extent.prod(1), kind="stable")
        return Faces(self.boxes[order], self.scores[order], self.points[order])


class DetectorError(DittoError):
    """A detector or landmark model gave something that such a model can't give."""


def detect_faces(picture: NDArray[np.uint8], run: Run) -> Faces:
    """All faces of a picture, by falling score.

    Args:
        picture: (H, W, 3) RGB.
        run: the detector: (1, 3, 512, 512) -> scores, distances of the box's edges, and key points for
            strides 8, 16, 32.

    Raises:
        DetectorError: the model's outputs have other shapes, or are not finite.
    """
    blob, factor = detector_input(picture)
    outputs = {(a.size // a.shape[-1], a.shape[-1]): a for a in run(blob) if a.ndim and a.size}
    found = [_decode(outputs, stride) for stride in _STRIDES]
    boxes, scores, points = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(-scores, kind="stable")
    boxes, scores, points = boxes[order] / factor, scores[order], points[order] / factor
    kept = suppress(boxes)
    return Faces(boxes[kept], scores[kept], points[kept])


def detector_input(picture: NDArray[np.uint8]) -> tuple[NDArray[np.float32], float]:
    """The picture fitted into the top left of a black square, as BGR in about -1..1.

    Returns:
        (1, 3, 512, 512), and the factor by which the picture was resized.
    """
    height, width = picture.shape[:2]
    if height > width:
        size = _INPUT_SIZE, max(1, int(_INPUT_SIZE * width / height))
    else:
        size = max(1, int(_INPUT_SIZE * height / width)), _INPUT_SIZE
    planes = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None].float()
    resized = F.interpolate(planes, size, mode="bilinear", align_corners=False).round()
    square = torch.zeros(1, 3, _INPUT_SIZE, _INPUT_SIZE)
    square[:, :, : size[0], : size[1]] = resized.flip(1)
    return ((square - 127.5) / 128).numpy(), size[0] / height


def _decode(
    outputs: dict[tuple[int, int], NDArray[np.floating]], stride: int
) -> tuple[NDArray[np.floating], NDArray[np.float32], NDArray[np.float32]]:
    """Boxes, scores and points of one stride, in pixels of the detector's input, where the score is high."""
    cells = _INPUT_SIZE // stride
    anchors = cells * cells * _ANCHORS
    try:
        scores, distances, offsets = (outputs[anchors, n].reshape(anchors, n) for n in (1, 4, 10))
    except KeyError:
        raise DetectorError(
            f"a face detector with outputs of {sorted(outputs)} numbers",
            remedy="use insightface_det.onnx or det_10g.onnx of the official files",
        ) from None
    if not (np.isfinite(scores).all() and np.isfinite(distances).all() and np.isfinite(offsets).all()):
        raise DetectorError("a face detector whose outputs are not finite", remedy="get the official file again")
    y, x = np.divmod(np.arange(anchors) // _ANCHORS, cells)
    corner = np.stack([x, y], -1).astype(np.float32) * stride
    kept = scores[:, 0] >= _SCORE
    corner, distances, offsets = corner[kept], distances[kept] * stride, offsets[kept] * stride
    boxes = np.concatenate([corner - distances[:, :2], corner + distances[:, 2:]], -1)
    return boxes, scores[kept, 0], corner[:, None] + offsets.reshape(-1, 5, 2)


def suppress(boxes: NDArray[np.floating], overlap: float = _OVERLAP) -> NDArray[np.int64]:
    """Greedy non-maximum suppression; an edge's pixel counts into the box.

    Args:
        boxes: (n, 4) by falling score.
        overlap: intersection over union above which the later box goes.

    Returns:
        Indices of the boxes that stay, rising.
    """
    area = (boxes[:, 2:] - boxes[:, :2] + 1).prod(1)
    kept, rest = [], np.arange(len(boxes))
    while rest.size:
        first, rest = rest[0], rest[1:]
        kept.append(first)
        low = np.maximum(boxes[first, :2], boxes[rest, :2])
        high = np.minimum(boxes[first, 2:], boxes[rest, 2:])
        shared = np.maximum(0, high - low + 1).prod(1)
        rest = rest[shared / (area[first] + area[rest] - shared) <= overlap]
    return np.array(kept, dtype=np.int64)

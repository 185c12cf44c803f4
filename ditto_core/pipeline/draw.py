"""From rows of motion to pictures, the same whoever asks and however the rows are cut."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..checkpoints import DittoModels
from ..motion.controls import KeyPoints, MotionMixer
from ..render import RenderedFrames, Renderer


def next_piece(first: int, available: int, *, ended: bool, length: int) -> range | None:
    """The frames to draw together at cadence 2.

    Key frames are those of even number. A piece ends with one, so that no frame waits for a key frame of the next
    piece, and where it goes on from the one before it is drawn from that piece's last key frame on (`lead`): so steps
    at its borders are as small as elsewhere. Its end lies at a multiple of `length` or one frame before, and does not
    depend on how many frames come at once. A last frame of odd number is a piece by itself.

    Args:
        first: the first frame that is not drawn, counted from the first of all.
        available: frames whose motion is final.
        ended: whether no more come.
        length: frames of a piece, or one more or less.

    Returns:
        None where more frames must come first, or nothing is left.
    """
    mark = ((first + 1) // length + 1) * length
    if first >= available or (mark > available and not ended):
        return None
    stop = min(mark, available)
    return range(first, max(stop - 1 + stop % 2, first + 1))


def lead(piece: range) -> int:
    """How many frames before a piece of `next_piece` are needed to draw it: 1 where it goes on from a key frame."""
    return int(piece.start % 2 and len(piece) > 1)


class FrameDrawer:
    """Draws frames of motion.

    Args:
        models: the networks.
        renderer: of the avatar.
        mixer: of the avatar, its controls and the motion.
    """

    def __init__(self, models: DittoModels, renderer: Renderer, mixer: MotionMixer) -> None:
        self._models, self._renderer, self._mixer = models, renderer, mixer

    def __call__(
        self, vectors: Tensor, *, first: int, lead: int = 0, colour: Literal["rgb", "nv12"] = "rgb"
    ) -> RenderedFrames:
        """Draws consecutive frames; at cadence 2 they are one piece.

        Args:
            vectors: (lead + n, 265) their motion, n at least 1.
            first: number of the first of these rows.
            lead: rows at the start that are no frames of this call, see `lead`.
            colour: what the pictures are.
        """
        points = self._keypoints(vectors, first)
        return self._renderer.render(points.source, points.driving, first=first, lead=lead, colour=colour)

    @torch.inference_mode()
    def _keypoints(self, vectors: Tensor, first: int) -> KeyPoints:
        """Key points of frames, stitched; each computed in its fixed place of a batch of one size."""
        batch, stop = self._renderer.batch, first + len(vectors)
        sources, drivings = [], []
        for start in range(first - first % batch, stop, batch):
            frames = torch.arange(start, start + batch)
            points = self._mixer(vectors[(frames - first).clamp(0, len(vectors) - 1)], frames)
            driving = points.driving
            if self._mixer.controls.stitching:
                driving = self._models.stitch_network(points.source, driving)
            sources.append(points.source)
            drivings.append(driving)
        wanted = slice(first % batch, first % batch + len(vectors))
        return KeyPoints(torch.cat(sources)[wanted], torch.cat(drivings)[wanted])

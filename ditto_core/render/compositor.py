"""Compositor: faces return into an avatar's source frames, as RGB or NV12."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .colour import rgb_to_nv12
from .nv12 import LARGEST_BOX, StillPaste, paste_nv12
from .paste import Placement, paste, place

if TYPE_CHECKING:
    from ..avatar.avatar import Avatar


class Compositor:
    """Pastes faces into source frames. What a frame needs is made once, and for an image avatar kept.

    Args:
        avatar: the source frames, and where the faces are in them.
        device: where the faces are.
        memory_mb: memory for the NV12 of a video avatar's frames that is kept for its next turn.
    """

    def __init__(self, avatar: Avatar, device: torch.device, *, memory_mb: int) -> None:
        self._avatar = avatar
        self._device = device
        self._is_still = len(avatar.frames) == 1
        height, width = avatar.frames.size
        self._kept = max(1, memory_mb * 2**20 // (height * width * 3 // 2))
        self._nv12: OrderedDict[int, Tensor] = OrderedDict()
        self._still: tuple[Tensor, Placement] | None = None
        self._still_paste: StillPaste | None = None

    def rgb(self, faces: Tensor, sources: Sequence[int]) -> Tensor:
        """(b, 3, 512, 512) RGB in 0..1, and the b source frames -> (b, H, W, 3) uint8 RGB."""
        frames, placement = self._background(sources)
        return paste(faces, frames, placement)

    def nv12(self, faces: Tensor, sources: Sequence[int]) -> Tensor:
        """The same as (b, 3 H / 2, W) uint8 NV12, BT.709 in TV range."""
        frames, placement = self._background(sources)
        box = placement.box
        small = (box.right - box.left) * (box.bottom - box.top) <= LARGEST_BOX
        if self._is_still and self._device.type == "cpu" and small:
            if self._still_paste is None:
                self._still_paste = StillPaste(frames[0], self._nv12_of(0, frames[0]), placement)
            return self._still_paste(faces)
        numbers = [0] if self._is_still else sources
        backgrounds = [self._nv12_of(source, frame) for source, frame in zip(numbers, frames, strict=True)]
        return paste_nv12(faces, frames, torch.stack(backgrounds), placement)

    def _background(self, sources: Sequence[int]) -> tuple[Tensor, Placement]:
        """Source frames on the device and where the faces go; made once for an image."""
        if self._still is not None:
            return self._still
        frames = self._avatar.frames
        wanted = [0] if self._is_still else list(sources)
        pictures = torch.from_numpy(np.stack([frames[source] for source in wanted])).to(self._device)
        background = pictures, place(self._avatar.crop_to_frame[wanted], frames.size, self._device)
        if self._is_still:
            self._still = background
        return background

    def _nv12_of(self, source: int, frame: Tensor) -> Tensor:
        if source not in self._nv12:
            self._nv12[source] = rgb_to_nv12(frame[None])[0]
            if len(self._nv12) > self._kept:
                self._nv12.popitem(last=False)
        self._nv12.move_to_end(source)
        return self._nv12[source]

"""NV12 pictures as frames for an encoder, copied only where there is no other way."""

from __future__ import annotations

from collections.abc import Iterator

import av
import torch
from av.video.frame import VideoFrame
from torch import Tensor

from ..render.colour import nv12_planes
from .encoder import NVENC, tag_colours

_IN_PLACE_FROM = 18
"""PyAV's first version that is known to take planes in place, and those of CUDA."""


class FrameMaker:
    """Makes frames of one encoder's pictures.

    A GPU's pictures stay there where NVENC encodes and PyAV is 18 or later; else they are copied once, into pinned
    memory. A CPU's are used in place by PyAV 18, copied once by earlier ones.

    Args:
        encoder: its name.
        device: where the pictures are.

    Attributes:
        bytes_copied: so far.
    """

    def __init__(self, encoder: str, device: torch.device) -> None:
        self.bytes_copied = 0
        self._in_place = int(av.__version__.partition(".")[0]) >= _IN_PLACE_FROM
        self._on_gpu = device.type == "cuda" and encoder in NVENC and self._in_place
        self._cuda = av.video.frame.CudaContext(device_id=device.index or 0) if self._on_gpu else None

    @property
    def pixel_format(self) -> str | None:
        """The format that the encoder must be opened with; None leaves it its own."""
        return "cuda" if self._on_gpu else None

    @property
    def way(self) -> str:
        """How pictures reach the encoder, for reports."""
        if self._on_gpu:
            return "CUDA frames, no copy"
        return "NV12 in memory" if self._in_place else "NV12 in memory, copied (PyAV 18 needs no copy)"

    def __call__(self, pictures: Tensor) -> Iterator[VideoFrame]:
        """(n, 3 H / 2, W) uint8 NV12 on the device -> n frames, tagged BT.709, TV range."""
        if self._on_gpu:
            torch.cuda.current_stream(pictures.device).synchronize()  # the encoder reads on a stream of its own
        elif pictures.is_cuda:
            self.bytes_copied += pictures.numel()
            pictures = torch.empty(pictures.shape, dtype=torch.uint8, pin_memory=True).copy_(pictures)
        for picture in pictures:
            frame = self._frame(picture)
            tag_colours(frame)
            yield frame

    def _frame(self, picture: Tensor) -> VideoFrame:
        if not self._in_place:
            self.bytes_copied += picture.numel()
            return VideoFrame.from_ndarray(picture.numpy(), format="nv12")
        return VideoFrame.from_dlpack(nv12_planes(picture), format="nv12", cuda_context=self._cuda)

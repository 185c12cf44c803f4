"""Renderer: key points in, finished frames out, on the device."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from ..backends.backend import RenderBackend
from ..errors import InvalidValueError
from ..motion.order import source_index, source_step
from ..networks.presets import KEYPOINTS
from .cadence import interpolate_chunk
from .compositor import Compositor
from .paste import Box, face_box
from .regions import mouth_polygon

if TYPE_CHECKING:
    from ..avatar.avatar import Avatar

_LARGEST_BATCH = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class RenderOptions:
    """How faces are drawn.

    Attributes:
        batch: faces drawn at once, 1 to 64; None is 8 on a GPU and 4 on a CPU. A batch of 1 is slow on a CPU.
        cadence: 1 draws every face, 2 every second one; the others are interpolated.
        volume_memory_mb: memory for the appearance volumes of a video avatar that are kept for its next turn,
            and as much for its frames in NV12; those of one batch are kept in any case.
    """

    batch: int | None = None
    cadence: int = 1
    volume_memory_mb: int = 256

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            InvalidValueError: a value is out of its range.
        """
        if self.batch is not None and not 1 <= self.batch <= _LARGEST_BATCH:
            raise InvalidValueError(f"a batch of {self.batch}", remedy=f"choose 1 to {_LARGEST_BATCH}")
        if self.cadence not in (1, 2):
            raise InvalidValueError(f"cadence {self.cadence}", remedy="choose 1 or 2")
        if self.volume_memory_mb < 0:
            raise InvalidValueError(f"{self.volume_memory_mb} MB for volumes", remedy="choose 0 or more")


class RenderedFrames(NamedTuple):
    """Frames of one chunk, and what is where in them.

    Attributes:
        pictures: (n, H, W, 3) uint8 RGB on the device; or NV12, (n, 3 H / 2, W), where that was asked for.
        face_boxes: n boxes of the face crop in the frame.
        mouths: (n, 6, 2) mouth polygons in pixels of the frame, float64 on the CPU.
    """

    pictures: Tensor
    face_boxes: list[Box]
    mouths: Tensor


class Renderer:
    """Draws the frames of one avatar.

    All faces are drawn in batches of one fixed size, and each frame has its fixed row in a batch; rows
    without a frame are filled up and dropped. So at cadence 1 a frame does not depend on which frames it is
    asked for with. (On a GPU the last bits depend on the row.) At cadence 2 a call's frames are one chunk,
    drawn and interpolated by itself.

    Args:
        backend: draws the faces; several renderers may share it.
        avatar: the source frames with their crops.
        options: batch size and cadence.
    """

    def __init__(self, backend: RenderBackend, avatar: Avatar, options: RenderOptions = RenderOptions()) -> None:
        self._backend = backend
        self._avatar = avatar
        self._options = options
        self._is_still = len(avatar.frames) == 1
        self._batch = options.batch or (8 if backend.device.type == "cuda" else 4)
        self._volumes: OrderedDict[int, Tensor] = OrderedDict()
        self._compositor = Compositor(avatar, backend.device, memory_mb=options.volume_memory_mb)

    @property
    def batch(self) -> int:
        """Faces drawn at once."""
        return self._batch

    @property
    def executed_by(self) -> str:
        """What draws the faces, and whether some are interpolated."""
        cadence = ", cadence 2: every second face is interpolated" if self._options.cadence == 2 else ""
        return self._backend.executed_by + cadence

    def report(self) -> dict[str, Any]:
        """Backend, batch and cadence, ready for JSON."""
        return {"executed_by": self.executed_by, "batch": self._batch, "cadence": self._options.cadence}

    @torch.inference_mode()
    def faces(self, x_s: Tensor, x_d: Tensor, *, first: int = 0) -> Tensor:
        """Faces of consecutive output frames.

        Args:
            x_s: (n, 21, 3) source key points.
            x_d: (n, 21, 3) driving key points, stitched.
            first: number of the first output frame; its source frame and its row in a batch follow from it.

        Returns:
            (n, 3, 512, 512) RGB in 0..1 on the device.

        Raises:
            InvalidValueError: the key points have other shapes, or there are none.
        """
        for name, points in (("x_s", x_s), ("x_d", x_d)):
            if points.shape != (len(x_d), KEYPOINTS, 3) or not len(points):
                raise InvalidValueError(
                    f"{name} of shape {tuple(points.shape)}", remedy="pass (n, 21, 3) of both, n at least 1"
                )
        sources = self._sources(first, len(x_d))
        if self._options.cadence == 1:
            return self._draw(x_s, x_d, sources, first % self._batch)
        return interpolate_chunk(self._draw(x_s[::2], x_d[::2], sources[::2], 0), len(x_d))

    @torch.inference_mode()
    def render(
        self,
        x_s: Tensor,
        x_d: Tensor,
        *,
        first: int = 0,
        lead: int = 0,
        colour: Literal["rgb", "nv12"] = "rgb",
    ) -> RenderedFrames:
        """Finished frames, faces pasted back.

        Args:
            x_s: see `faces`.
            x_d: see `faces`.
            first: see `faces`.
            lead: frames at the start that are drawn, for interpolation, but not finished.
            colour: what the pictures are: RGB, or NV12 for an encoder.

        Raises:
            InvalidValueError: as of `faces`.
        """
        faces = self.faces(x_s, x_d, first=first)[lead:]
        sources = self._sources(first + lead, len(faces))
        composite = self._compositor.nv12 if colour == "nv12" else self._compositor.rgb
        parts = [slice(start, start + self._batch) for start in range(0, len(faces), self._batch)]
        pictures = [composite(faces[part], sources[part]) for part in parts]
        matrices = self._avatar.crop_to_frame[sources]
        boxes = [face_box(matrix[None], self._avatar.frames.size) for matrix in matrices]
        return RenderedFrames(torch.cat(pictures), boxes, mouth_polygon(x_d[lead:].cpu(), matrices))

    def _sources(self, first: int, count: int) -> list[int]:
        """The source frame of each output frame."""
        frames = self._avatar.frames
        return source_index(torch.arange(first, first + count), len(frames), source_step(frames.fps)).tolist()

    def _draw(self, x_s: Tensor, x_d: Tensor, sources: Sequence[int], row: int) -> Tensor:
        """All faces in batches of one size, the first face in the given row of the first batch."""
        count, drawn = len(x_d), []
        for start in range(-row, count, self._batch):
            rows = [min(max(i, 0), count - 1) for i in range(start, start + self._batch)]
            f_s = self._source_volumes([sources[i] for i in rows])
            drawn.append(self._backend.faces(f_s, x_s[rows], x_d[rows]))
        return torch.cat(drawn)[row : row + count]

    def _source_volumes(self, sources: Sequence[int]) -> Tensor:
        """(batch, c, d, s, s): one volume expanded for an image, else one for each source frame."""
        if self._is_still:
            return self._volume_block(0).expand(len(sources), -1, -1, -1, -1)
        return torch.stack([self._volume_block(i // self._batch)[i % self._batch] for i in sources])

    def _volume_block(self, block: int) -> Tensor:
        """Volumes of source frames block * batch and following: each frame has its fixed row here, too."""
        if block not in self._volumes:
            last = len(self._avatar.frames) - 1
            rows = [min(block * self._batch + i, last) for i in range(1 if self._is_still else self._batch)]
            self._volumes[block] = self._backend.volumes(self._avatar.crops[rows])
            size = self._volumes[block].numel() * self._volumes[block].element_size()
            while len(self._volumes) > max(1, self._options.volume_memory_mb * 2**20 // size):
                self._volumes.popitem(last=False)
        self._volumes.move_to_end(block)
        return self._volumes[block]

"""Frames: an immutable recipe of a talking-head video. Whoever pulls it renders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import torch
from torch import Tensor

from ..avatar import Avatar
from ..backends import RenderBackend
from ..checkpoints import DittoModels
from ..errors import InvalidValueError
from ..motion.controls import KeyPoints, MotionControls, MotionMixer
from ..motion.track import MotionTrack
from ..render import RenderedFrames, Renderer, RenderOptions

_CHUNK_BATCHES = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Frames:
    """What to render. Iterating renders it, chunk by chunk; again gives the same frames.

    Attributes:
        models: the networks.
        backend: what draws the faces.
        avatar: the presenter.
        track: the driving motion.
        controls: what is changed about it.
        options: batch and cadence.
    """

    models: DittoModels = field(repr=False)
    backend: RenderBackend = field(repr=False)
    avatar: Avatar = field(repr=False)
    track: MotionTrack = field(repr=False)
    controls: MotionControls = MotionControls()
    options: RenderOptions = RenderOptions()

    def __post_init__(self) -> None:
        """Checks that the parts belong together.

        Raises:
            InvalidValueError: avatar or motion were made with other models.
        """
        for what, made_with in (("avatar", self.avatar.models), ("motion", self.track.models)):
            if made_with != self.models.fingerprint:
                raise InvalidValueError(
                    f"{what} made with models {made_with[:12]}, to be rendered with {self.models.fingerprint[:12]}",
                    remedy=f"make the {what} again with these models",
                )

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.track)

    @property
    def fps(self) -> Fraction:
        """Frames a second."""
        return Fraction(self.track.fps)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels, even."""
        return self.avatar.frames.size

    def __iter__(self) -> Iterator[RenderedFrames]:
        """Renders all frames in order, a chunk of some batches at a time."""
        renderer = Renderer(self.backend, self.avatar, self.options)
        mixer = MotionMixer(
            self.avatar,
            self.controls,
            reference=self.track.reference,
            first=self.track.vectors[0],
            device=self.models.device,
        )
        first = 0
        while first < len(self):
            stop = min(first + renderer.batch * self.options.cadence * _CHUNK_BATCHES, len(self))
            if self.options.cadence == 2 and (stop - first) % 2 == 0:
                stop -= 1  # an odd chunk ends with a key frame, so that no frame is repeated
            points = self._keypoints(mixer, first, stop, renderer.batch)
            yield renderer.render(points.source, points.driving, first=first)
            first = stop

    @torch.inference_mode()
    def _keypoints(self, mixer: MotionMixer, first: int, stop: int, batch: int) -> KeyPoints:
        """Key points of frames, stitched; each computed in its fixed place of a batch of one size."""
        sources, drivings = [], []
        for start in range(first - first % batch, stop, batch):
            frames = torch.arange(start, start + batch)
            points = mixer(self.track.vectors[frames.clamp(max=len(self) - 1)], frames)
            driving = points.driving
            if self.controls.stitching:
                driving = self.models.stitch_network(points.source, driving)
            sources.append(points.source)
            drivings.append(driving)
        wanted = slice(first % batch, first % batch + stop - first)
        return KeyPoints(torch.cat(sources)[wanted], torch.cat(drivings)[wanted])


def pictures(frames: Frames) -> Iterator[Tensor]:
    """The pictures alone, (n, H, W, 3) uint8 RGB on the device, a chunk at a time."""
    return (chunk.pictures for chunk in frames)

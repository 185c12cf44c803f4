"""The sizes of the networks: the official ones, and a miniature of the same family."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidValueError

KEYPOINTS = 21
SOURCE_SIZE = 256
FACE_SIZE = 512
MOTION_SIZE = 265
"""Values of a motion vector: scale, 3 x 66 angle logits, translation, 21 x 3 expression."""
WINDOW_ROWS = 80
"""Rows (frames) that the motion diffusion network makes at once."""
CONDITION_EXTRAS = 79
"""Condition values beside speech: emotion 8, eye opening 2, gaze 6, canonical key points 63."""

_MAX_WIDTH = 4096
_MAX_DEPTH = 64
_LENGTHS = {
    "extractor_depths": (4, 4),
    "extractor_widths": (4, 4),
    "motion_grid": (2, 2),
    "appearance_widths": (1, 6),
    "hourglass_widths": (1, 6),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preset:
    """The sizes of all six networks.

    Attributes:
        name: a word for reports.
        appearance_widths: channels of the appearance extractor at 256, 128, ... pixels; each step halves the size.
        appearance_blocks: its 3-D residual blocks.
        volume_channels: channels of the appearance volume.
        volume_depth: depth of the appearance volume.
        extractor_depths: blocks in the motion extractor's four stages (ConvNeXt-V2).
        extractor_widths: channels in the four stages.
        motion_grid: depth and size of the dense-motion grid; each divides the volume's.
        motion_channels: channels to which the volume is compressed for dense motion.
        hourglass_widths: channels of the dense-motion hourglass's down blocks.
        hourglass_out: channels of its last up block.
        mask_kernel: size of the cubic kernel of the mask convolution (odd).
        occlusion_kernel: size of the square kernel of the occlusion convolution (odd).
        heatmap_variance: variance of the key points' heat maps along x and y, in grid units (-1..1).
        heatmap_depth_variance: the same along depth; a coarse depth wants more, or points between planes vanish.
        feature_channels: channels of the warped feature map that the decoder reads.
        decoder_width: channels of the decoder's middle blocks.
        middle_blocks: number of middle blocks.
        upsample_widths: channels after each x2 stage.
        spade_hidden: channels between the feature map and SPADE's gamma and beta.
        pixel_shuffle: factor of the last enlargement.
        spectral_norm: whether the decoder's files carry spectral norm.
        latent_size: width of the motion diffusion transformer.
        heads: its attention heads.
        feed_forward: width of its feed-forward layers.
        decoder_layers: its decoder layers.
        encoder_layers: its condition encoder's layers.
        condition_size: values of a condition row; speech features and the extras. Read from the weights.
        default_steps: sampler steps where none are asked for.
    """

    name: str
    appearance_widths: tuple[int, ...]
    appearance_blocks: int
    volume_channels: int
    volume_depth: int
    extractor_depths: tuple[int, int, int, int]
    extractor_widths: tuple[int, int, int, int]
    motion_grid: tuple[int, int]
    motion_channels: int
    hourglass_widths: tuple[int, ...]
    hourglass_out: int
    mask_kernel: int
    occlusion_kernel: int
    heatmap_variance: float
    heatmap_depth_variance: float
    feature_channels: int
    decoder_width: int
    middle_blocks: int
    upsample_widths: tuple[int, ...]
    spade_hidden: int
    pixel_shuffle: int
    spectral_norm: bool
    latent_size: int
    heads: int
    feed_forward: int
    decoder_layers: int
    encoder_layers: int
    condition_size: int
    default_steps: int

    def __post_init__(self) -> None:
        """Checks each size by itself, then that they fit together.

        Raises:
            InvalidValueError: a size is out of range, or two do not fit.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple) != str(field.type).startswith("tuple"):
                raise self._error(field.name, f"is {value!r}, where {field.type} is wanted")
            values = value if isinstance(value, tuple) else (value,)
            least, most = _LENGTHS.get(field.name, (0, _MAX_DEPTH))
            if not least <= len(values) <= most:
                raise self._error(field.name, f"holds {len(values)} numbers, not {least} to {most}")
            for item in values:
                self._check_range(field.name, item)
        self._check_fit()

    def _check_range(self, name: str, value: object) -> None:
        if name in ("name", "spectral_norm"):
            if not isinstance(value, str if name == "name" else bool):
                raise self._error(name, f"is {value!r}")
            return
        if name.endswith("variance"):
            if not isinstance(value, float) or not (math.isfinite(value) and 0 < value <= 100):
                raise self._error(name, f"is {value!r}, not a number above 0, at most 100")
            return
        largest = _MAX_DEPTH if name.endswith(("blocks", "layers", "depths", "kernel", "shuffle")) else _MAX_WIDTH
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
            raise self._error(name, f"is {value!r}, not a whole number from 1 to {largest}")

    def _check_fit(self) -> None:
        depth, size = self.motion_grid
        if self.volume_depth % depth or self.volume_size % size:
            raise self._error(
                "motion_grid", f"is {depth}x{size}, which does not divide {self.volume_depth}x{self.volume_size}"
            )
        if size % 2 ** len(self.hourglass_widths):
            raise self._error("motion_grid", f"size {size} can't be halved {len(self.hourglass_widths)} times")
        if self.mask_kernel % 2 == 0 or self.occlusion_kernel % 2 == 0:
            raise self._error("mask_kernel, occlusion_kernel", "must be odd")
        reached = self.volume_size * 2 ** len(self.upsample_widths) * self.pixel_shuffle
        if reached != FACE_SIZE:
            raise self._error("pixel_shuffle", f"leads to a face of {reached} pixels, not {FACE_SIZE}")
        if self.latent_size % (2 * self.heads):
            raise self._error("latent_size", f"is {self.latent_size}, not a multiple of 2 x {self.heads} heads")

    def _error(self, name: str, problem: str) -> InvalidValueError:
        return InvalidValueError(f"preset '{self.name}': {name} {problem}", remedy="correct the preset's sizes")

    @property
    def volume_size(self) -> int:
        """Height and width of the appearance volume."""
        return SOURCE_SIZE >> (len(self.appearance_widths) - 1)

    @property
    def speech_features(self) -> int:
        """Values of one row of speech features, where the condition has all its extras."""
        return self.condition_size - CONDITION_EXTRAS

    def to_json(self) -> dict[str, Any]:
        """The preset as a dictionary for a JSON file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Preset:
        """The preset from a dictionary as `to_json` gives.

        Raises:
            InvalidValueError: a field is unknown, missing, of the wrong kind, or out of range.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        unknown, missing = sorted(set(values) - known), sorted(known - set(values))
        if unknown or missing:
            raise InvalidValueError(
                f"preset with unknown fields {unknown} and missing fields {missing}",
                remedy="use a configuration written by this version's `models convert`",
            )
        fields: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**fields)


OFFICIAL = Preset(
    name="official",
    appearance_widths=(64, 128, 256),
    appearance_blocks=6,
    volume_channels=32,
    volume_depth=16,
    extractor_depths=(3, 3, 9, 3),
    extractor_widths=(96, 192, 384, 768),
    motion_grid=(16, 64),
    motion_channels=4,
    hourglass_widths=(64, 128, 256, 512, 1024),
    hourglass_out=32,
    mask_kernel=7,
    occlusion_kernel=7,
    heatmap_variance=0.01,
    heatmap_depth_variance=0.01,
    feature_channels=256,
    decoder_width=512,
    middle_blocks=6,
    upsample_widths=(256, 64),
    spade_hidden=128,
    pixel_shuffle=2,
    spectral_norm=True,
    latent_size=512,
    heads=8,
    feed_forward=1024,
    decoder_layers=8,
    encoder_layers=2,
    condition_size=1103,
    default_steps=50,
)

MINIATURE = Preset(
    name="miniature",
    appearance_widths=(32, 48),
    appearance_blocks=4,
    volume_channels=8,
    volume_depth=4,
    extractor_depths=(2, 2, 4, 2),
    extractor_widths=(24, 48, 96, 192),
    motion_grid=(2, 64),
    motion_channels=1,
    hourglass_widths=(16, 24, 32, 48),
    hourglass_out=4,
    mask_kernel=1,
    occlusion_kernel=3,
    heatmap_variance=0.01,
    heatmap_depth_variance=1.0,
    feature_channels=32,
    decoder_width=32,
    middle_blocks=1,
    upsample_widths=(),
    spade_hidden=16,
    pixel_shuffle=4,
    spectral_norm=False,
    latent_size=128,
    heads=4,
    feed_forward=256,
    decoder_layers=4,
    encoder_layers=2,
    condition_size=64 + CONDITION_EXTRAS,
    default_steps=10,
)

"""What a whole run needs: networks, backend, an avatar of the bundled presenter, and speech."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from ..avatar import Avatar, CropRequest, register
from ..backends import RenderBackend, choose_backend
from ..checkpoints.models import DittoModels, load_models
from ..media import read_image
from ..speech import Sound, SpeechEncoder, read_sound, speech_encoder_for
from .run import Settings

_BUNDLED = Path(__file__).parents[1] / "bundled"
_FACE = (112, 100, 640)
"""Left, top and side of the crop in the bundled picture."""


@dataclass(frozen=True, kw_only=True)
class Speaker:
    """The parts of a run.

    Attributes:
        models: the networks.
        encoder: the speech encoder.
        backend: what draws the faces.
    """

    models: DittoModels
    encoder: SpeechEncoder
    backend: RenderBackend

    @classmethod
    def of(cls, settings: Settings) -> Speaker:
        """Loads the networks, with the fastest backend of the device."""
        models = load_models(settings.models, device=settings.device, dtype=settings.dtype)
        backend = choose_backend("compiled" if settings.device.type == "cuda" else "torch", models)
        return cls(models=models, encoder=speech_encoder_for(models), backend=backend)

    def avatar(self, size: tuple[int, int] | None = None) -> Avatar:
        """The bundled presenter.

        Args:
            size: height and width of the frame; by default the picture's own.
        """
        picture, (left, top, side) = read_image(_BUNDLED / "presenter.png"), _FACE
        if size is not None:
            picture, (left, top, side) = framed(picture, size)
        return register(picture, self.models, crop=CropRequest.parse(f"{left},{top},{side}"))


def framed(picture: NDArray[np.uint8], size: tuple[int, int]) -> tuple[NDArray[np.uint8], tuple[int, int, int]]:
    """The presenter in a frame of another size: as large as fits, standing on its lower edge, the borders repeated.

    Args:
        picture: (h, w, 3) uint8 RGB, the bundled one.
        size: height and width of the frame.

    Returns:
        (H, W, 3) uint8 RGB, and left, top and side of the face's crop in it.
    """
    height, width = size
    scale = min(height / picture.shape[0], width / picture.shape[1])
    scaled = round(picture.shape[0] * scale), round(picture.shape[1] * scale)
    values = torch.from_numpy(picture).permute(2, 0, 1)[None].float()
    values = F.interpolate(values, scaled, mode="bilinear", antialias=True)
    above, beside = height - scaled[0], width - scaled[1]
    values = F.pad(values, (beside // 2, beside - beside // 2, above, 0), mode="replicate")
    left, top, side = (round(scale * value) for value in _FACE)
    frame: NDArray[np.uint8] = values[0].permute(1, 2, 0).round().byte().numpy()
    return frame, (left + beside // 2, top + above, side)


def speech(seconds: float | None = None) -> Sound:
    """The bundled sentence, over and over to a length in seconds; by default once."""
    sound = read_sound(_BUNDLED / "news.wav")
    if seconds is None:
        return sound
    count = max(1, round(seconds * sound.rate))
    return Sound(np.resize(sound.samples, (len(sound.samples), count)), sound.rate)

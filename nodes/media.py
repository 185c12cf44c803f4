"""Between ComfyUI's IMAGE, AUDIO and VIDEO and what `ditto_core` works on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from comfy_api.latest import InputImpl
from numpy.typing import NDArray
from torch import Tensor

from ..ditto_core.checkpoints.models import BUNDLED as _MINIATURE
from ..ditto_core.errors import InvalidValueError
from ..ditto_core.media import read_image
from ..ditto_core.speech import Sound, read_sound
from . import host

BUNDLED = _MINIATURE.parent
"""The folder of the example's files."""


def image_of_file(path: Path) -> Tensor:
    """A picture file as an IMAGE, (1, H, W, 3)."""
    return image_of(torch.from_numpy(read_image(path))[None])


def image_of(pictures: Tensor) -> Tensor:
    """(n, H, W, 3) uint8 pictures as an IMAGE."""
    return pictures.cpu().float() / 255


def audio_of_file(path: Path) -> dict[str, Any]:
    """A sound file as an AUDIO."""
    sound = read_sound(path)
    return {"waveform": torch.from_numpy(sound.samples.copy())[None], "sample_rate": sound.rate}


def sound_of(audio: dict[str, Any]) -> Sound:
    """An AUDIO as a sound.

    Raises:
        InvalidValueError: it holds several sounds, none, or values that are no sound.
    """
    return Sound.from_waveform(audio["waveform"], int(audio["sample_rate"]))


def presenter_of(image: Any) -> Path | NDArray[np.uint8]:
    """What `register` reads, of an IMAGE or a VIDEO.

    Raises:
        InvalidValueError: an IMAGE of several pictures.
    """
    if isinstance(image, Tensor):
        if image.ndim != 4 or len(image) != 1 or image.shape[-1] not in (3, 4):
            raise InvalidValueError(
                f"an IMAGE of shape {tuple(image.shape)}", remedy="give one picture, or a VIDEO for a moving presenter"
            )
        picture = (image[0, :, :, :3].clamp(0, 1) * 255).round().to(torch.uint8)
        return np.ascontiguousarray(picture.cpu().numpy())
    return video_file(image)


def video_file(video: Any) -> Path:
    """The file of a VIDEO; one is written where it has none."""
    source = video.get_stream_source() if isinstance(video, InputImpl.VideoFromFile) else None
    if isinstance(source, str):
        return Path(source)
    path = host.temporary_file("ditto/video", ".mp4")
    video.save_to(str(path))
    return path

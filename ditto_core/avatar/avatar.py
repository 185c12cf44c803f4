"""The avatar: all that rendering and motion need of a source picture or video."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..networks.motion_extractor import MotionParameters
from . import store
from .sizes import LONGEST_SIDE
from .source import FrameSource, ImageSource, VideoIndex, VideoSource
from .store import AvatarFileError

_OTHER_MODELS = "register the presenter again with the models that will render it"


@dataclass(frozen=True, kw_only=True, eq=False)
class Avatar:
    """A registered presenter. Tensors are on the CPU and not to be changed.

    Attributes:
        frames: the source pictures, n.
        crops: (n, 256, 256, 3) uint8 RGB: what the extractors see.
        motion: parameters of the n frames, (n, ...) float32, smoothed for a video; angles as logits.
        canonical: (63,) canonical key points of the first frame, before smoothing.
        eye_open: (n, 2) opening of the eyes.
        eye_ball: (n, 6) gaze.
        eyes_measured: False where the preset's neutral values stand for what could not be measured.
        crop_to_frame: (n, 3, 3) float32, from pixels of the 512 crop to pixels of the frame.
        is_image: whether the source is one image.
        models: fingerprint of the models that the avatar was made with.
    """

    frames: FrameSource
    crops: Tensor
    motion: MotionParameters
    canonical: Tensor
    eye_open: Tensor
    eye_ball: Tensor
    eyes_measured: bool
    crop_to_frame: Tensor
    is_image: bool
    models: str

    def __len__(self) -> int:
        return len(self.frames)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of everything in the avatar."""
        digest = hashlib.sha256(f"{self.models} {self.is_image} {self.frames.fps} {self.frames.digest()}".encode())
        for name, tensor in self._tensors().items():
            digest.update(f"{name} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Writes all that rendering needs into one safetensors file; the source may go.

        Args:
            path: the file; an existing one is replaced once the new one is whole.

        Raises:
            FileError: it can't be written, or the source video is gone or too large.
        """
        tensors = self._tensors()
        source = self.frames
        metadata = {"models": self.models, "eyes_measured": str(int(self.eyes_measured))}
        if isinstance(source, ImageSource):
            tensors["picture"] = torch.from_numpy(np.ascontiguousarray(source.picture))
        elif isinstance(source, VideoSource):
            tensors["video"] = torch.from_numpy(source.content())
            tensors["video_times"] = torch.tensor(source.index.times, dtype=torch.int64)
            tensors["video_keys"] = torch.tensor(source.index.keys, dtype=torch.bool)
            metadata |= {"fps": str(source.fps), "size": f"{source.size[0]}x{source.size[1]}"}
        else:
            raise InvalidValueError(
                f"a source of kind {type(source).__name__} can't be saved",
                remedy="register an image or a video file",
            )
        store.write(path, tensors, metadata)

    @classmethod
    def load(cls, path: str | Path, *, models: str | None = None) -> Avatar:
        """Reads what `save` wrote.

        Args:
            path: the file.
            models: fingerprint of the models that shall render it; None leaves that unchecked.

        Raises:
            AvatarFileError: the file is missing, damaged, too large, of another version, or made with other
                models.
        """
        tensors, metadata = store.read(path)
        made_with = metadata.get("models", "")
        if models is not None and made_with != models:
            raise AvatarFileError(path, f"made with models {made_with[:12]}, not {models[:12]}", remedy=_OTHER_MODELS)
        if not _are_crops(tensors["crop_to_frame"]):
            raise AvatarFileError(path, "holds crops without area or out of range", remedy=_OTHER_MODELS)
        return cls(
            frames=_source(Path(path), tensors, metadata),
            crops=tensors["crops"],
            motion=MotionParameters(**{name: tensors[f"motion.{name}"] for name in MotionParameters._fields}),
            canonical=tensors["canonical"],
            eye_open=tensors["eye_open"],
            eye_ball=tensors["eye_ball"],
            eyes_measured=metadata.get("eyes_measured") == "1",
            crop_to_frame=tensors["crop_to_frame"],
            is_image="picture" in tensors,
            models=made_with,
        )

    def _tensors(self) -> dict[str, Tensor]:
        return {
            "crops": self.crops,
            **{f"motion.{name}": value for name, value in self.motion._asdict().items()},
            "canonical": self.canonical,
            "eye_open": self.eye_open,
            "eye_ball": self.eye_ball,
            "crop_to_frame": self.crop_to_frame,
        }


def _are_crops(matrices: Tensor) -> bool:
    """Whether all are affine, can be inverted and stay near the picture."""
    affine = (matrices[:, 2] == torch.tensor([0.0, 0.0, 1.0])).all()
    area = torch.linalg.det(matrices[:, :2, :2].double()).abs()
    return bool(affine and (area > 1e-9).all() and (matrices.abs() < 1e6).all())


def _source(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> ImageSource | VideoSource:
    if "picture" in tensors:
        picture = tensors["picture"]
        if len(tensors["crops"]) != 1 or picture.shape[0] % 2 or picture.shape[1] % 2:
            raise AvatarFileError(
                path,
                f"an image of {list(picture.shape)} with {len(tensors['crops'])} frames",
                remedy=_OTHER_MODELS,
            )
        return ImageSource(picture.numpy())
    fps = re.fullmatch(r"(\d{1,9})(?:/([1-9]\d{0,8}))?", metadata.get("fps", ""))
    size = re.fullmatch(r"(\d{1,4})x(\d{1,4})", metadata.get("size", ""))
    if fps is None or size is None:
        raise AvatarFileError(
            path,
            f"a video of {metadata.get('fps')} frames a second, {metadata.get('size')}",
            remedy=_OTHER_MODELS,
        )
    height, width = int(size[1]), int(size[2])
    if height % 2 or width % 2 or not (2 <= height <= LONGEST_SIDE and 2 <= width <= LONGEST_SIDE):
        raise AvatarFileError(path, f"a video of {height} x {width} pixels", remedy=_OTHER_MODELS)
    try:
        return VideoSource(
            tensors["video"].numpy(),
            index=VideoIndex(tuple(tensors["video_times"].tolist()), tuple(tensors["video_keys"].tolist())),
            size=(height, width),
            fps=Fraction(int(fps[1]), int(fps[2] or 1)),
        )
    except InvalidValueError as error:
        raise AvatarFileError(path, error.problem, remedy=_OTHER_MODELS) from error

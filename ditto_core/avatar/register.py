"""Registration: a picture or a video becomes an avatar."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import DittoError, InvalidValueError, MissingPackageError
from ..media import read_image
from ..networks.motion_extractor import MotionExtractor, MotionParameters
from ..networks.presets import SOURCE_SIZE, Preset
from .analysis import FaceAnalysis, MissingDetectorsError, OnnxFaceAnalysis, missing_files
from .avatar import Avatar
from .crop import (
    CROP_SIZE,
    FACE_FRAMING,
    LANDMARK_FRAMING,
    CropRequest,
    Framing,
    inside_share,
    landmark_crop,
    requested_crop,
)
from .defaults import PresetDefaults, preset_defaults
from .detect import Faces
from .eyes import eye_opening, gaze
from .landmarks import cut
from .mesh import NoMeshError
from .sizes import fit_picture, reduction
from .smoothing import SMOOTHING_WINDOW, smooth_motion
from .source import FrameSource, ImageSource, VideoSource, is_image
from .warp import halve

_log = logging.getLogger(__name__)

AVATAR_ENDING = ".safetensors"
"""Of files that `Avatar.save` wrote."""
MIN_FACE = 32
"""Pixels of the longer side of the smallest face that is accepted, in the working picture."""
_MIN_INSIDE = 0.75
"""Share of the 203 landmarks that must lie inside the picture."""
_BATCH = 8
_OTHER_PICTURE = "use another picture, or say where the face is: a box, or the full picture as the crop"


class FaceError(DittoError):
    """There is no usable face where one was asked for."""


class Models(Protocol):
    """What registration needs of loaded models."""

    @property
    def preset(self) -> Preset:
        """Their sizes."""

    @property
    def source(self) -> str:
        """Their folder, or the name of a bundled set."""

    @property
    def folder(self) -> Path | None:
        """Where their files are; None for recipe weights."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of their weights."""

    @property
    def motion_extractor(self) -> MotionExtractor:
        """In evaluation mode, on its device."""


def register(
    source: str | Path | NDArray[np.uint8],
    models: Models,
    *,
    analysis: FaceAnalysis | None = None,
    crop: CropRequest | None = None,
    face: int = 0,
    framing: Framing = FACE_FRAMING,
    frames: int | None = None,
    smoothing: int = SMOOTHING_WINDOW,
    progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> Avatar:
    """Makes an avatar of a picture or a video.

    The face is found in the first frame and followed through the others, each starting from the landmarks
    before it; a crop that is given, or that is the preset's own, is the same in all frames.

    Args:
        source: the file of a picture (png, jpeg, webp, bmp, tiff) or a video; or a picture, (H, W, 3) RGB.
        models: of which the motion extractor runs.
        analysis: how faces are found; see `analysis_for`. Without it, `auto` means the preset's own framing
            where it has one, and the eyes have the preset's neutral values.
        crop: where the face is; None means `auto`.
        face: which face, counted from 0 by falling size; 0 where none are looked for.
        framing: how the crop lies round the landmarks.
        frames: how many frames of a video to use, from the first on; None uses all.
        smoothing: frames of the centred mean over a video's motion parameters.
        progress: called with the frames done and the frames in all.
        check_cancelled: called before each frame; what it raises ends the registration.

    Raises:
        MediaError: the file can't be read.
        MissingDetectorsError: `auto` without a way to find faces.
        FaceError: no face, fewer than asked for, or one that is too small or cut by the picture's edge.
        NoMeshError: the eyes can't be read where the face was found.
        InvalidValueError: a crop outside the picture, a picture too small, or a number out of range.
    """
    if face < 0:
        raise InvalidValueError(f"face {face}", remedy="count faces from 0, the largest")
    crop = crop or CropRequest()
    defaults = preset_defaults(models.preset)
    if crop.mode == "auto" and analysis is None and defaults.framing is None:
        raise MissingDetectorsError(models.source, models.folder)
    if face and (crop.mode != "auto" or analysis is None):
        given = f"crop {crop.mode}" if crop.mode != "auto" else "models without face detectors"
        raise InvalidValueError(f"face {face} with {given}, where no faces are looked for", remedy="leave it at 0")
    pictures, scale = _open(source, frames, check_cancelled)
    if crop.mode == "auto" and analysis is not None:
        matrices: Iterable[NDArray[np.float64]] = _followed(pictures, analysis, face, framing)
    elif crop.mode == "auto" and defaults.framing is not None:
        matrices = itertools.repeat(defaults.framing.crop(pictures.size), len(pictures))
    else:
        matrices = itertools.repeat(requested_crop(crop, pictures.size, scale), len(pictures))
    eyes = _EyeReader(analysis, defaults, needed=crop.mode == "auto")

    crops = torch.empty(len(pictures), SOURCE_SIZE, SOURCE_SIZE, 3, dtype=torch.uint8)
    crop_to_frame = torch.empty(len(pictures), 3, 3)
    eye_open, eye_ball = torch.empty(len(pictures), 2), torch.empty(len(pictures), 6)
    motion = []
    for position, matrix in enumerate(matrices):
        if check_cancelled is not None:
            check_cancelled()
        view = cut(pictures[position], matrix, CROP_SIZE)
        eye_open[position], eye_ball[position] = eyes.read(view)
        crops[position] = halve(torch.from_numpy(view).permute(2, 0, 1)).permute(1, 2, 0)
        crop_to_frame[position] = torch.from_numpy(matrix)
        if (position + 1) % _BATCH == 0 or position + 1 == len(pictures):
            motion.append(_extract(models.motion_extractor, crops[position // _BATCH * _BATCH : position + 1]))
            if progress is not None:
                progress(position + 1, len(pictures))
    if analysis is None and defaults.framing is None:
        _log.warning("the eyes have neutral values: without the face detectors they can't be measured")
    elif eyes.missed:
        _log.warning("the eyes could not be read in %d of %d frames", eyes.missed, len(pictures))
    raw = MotionParameters(*(torch.cat(parts) for parts in zip(*motion, strict=True)))
    return Avatar(
        frames=pictures,
        crops=crops,
        motion=smooth_motion(raw, smoothing),
        canonical=raw.kp[0].clone(),
        eye_open=eye_open,
        eye_ball=eye_ball,
        eyes_measured=analysis is not None and not eyes.missed,
        crop_to_frame=crop_to_frame,
        is_image=isinstance(pictures, ImageSource),
        models=models.fingerprint,
    )


def analysis_for(models: Models, crop: CropRequest) -> OnnxFaceAnalysis | None:
    """The face analysis that comes with models, if all its files are there.

    Raises:
        MissingPackageError: they are and `auto` wants them, but onnxruntime is not installed.
        CheckpointError: a file is damaged.
    """
    if models.folder is None or missing_files(models.folder):
        return None
    try:
        return OnnxFaceAnalysis(models.folder)
    except MissingPackageError as error:
        if crop.mode == "auto":
            raise
        _log.warning("%s", error)
        return None


def open_avatar(
    source: str | Path,
    models: Models,
    *,
    crop: CropRequest | None = None,
    face: int = 0,
    progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> Avatar:
    """The avatar of a file: a saved one is read, a picture or a video is registered.

    Args:
        source: a file of `Avatar.save`, ending in .safetensors; else see `register`.
        models: see `register`.
        crop: see `register`; a saved avatar has its own.
        face: see `register`; a saved avatar has its own.
        progress: see `register`.
        check_cancelled: see `register`.

    Raises:
        InvalidValueError: a crop or a face for a saved avatar; see `register`.
        AvatarFileError: see `Avatar.load`.
        DittoError: see `analysis_for` and `register`.
    """
    crop = crop or CropRequest()
    if Path(source).suffix.lower() == AVATAR_ENDING:
        if face or crop.mode != "auto":
            given = f"face {face}" if face else f"crop {crop.mode}"
            raise InvalidValueError(
                f"{given} with a saved presenter, which has its own", remedy="leave it out, or name the picture"
            )
        return Avatar.load(source, models=models.fingerprint)
    return register(
        source,
        models,
        analysis=analysis_for(models, crop),
        crop=crop,
        face=face,
        progress=progress,
        check_cancelled=check_cancelled,
    )


def _open(
    source: str | Path | NDArray[np.uint8], frames: int | None, check_cancelled: Callable[[], None] | None
) -> tuple[ImageSource | VideoSource, tuple[float, float]]:
    """The source's pictures, and by what their y and x were multiplied to get the working size."""
    if not isinstance(source, np.ndarray) and not is_image(source):
        video, size = VideoSource.scan(source, frames=frames, check_cancelled=check_cancelled)
        return video, reduction(*size)
    picture = source if isinstance(source, np.ndarray) else read_image(source)
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise InvalidValueError(f"a picture of {picture.dtype} {picture.shape}", remedy="give (H, W, 3) uint8 RGB")
    return ImageSource(fit_picture(picture)), reduction(*picture.shape[:2])


def _followed(
    source: FrameSource, analysis: FaceAnalysis, face: int, framing: Framing
) -> Iterator[NDArray[np.float64]]:
    """From pixels of the crop to pixels of the frame, frame by frame."""
    landmarks = None
    for position in range(len(source)):
        picture = source[position]
        if landmarks is None:
            landmarks = analysis.landmarks_106(picture, _chosen_box(analysis.faces(picture), face))
        near = landmark_crop(landmarks, LANDMARK_FRAMING)
        landmarks = analysis.landmarks_203(cut(picture, near, LANDMARK_FRAMING.size), near)
        if inside_share(landmarks, source.size) < _MIN_INSIDE:
            raise FaceError(f"the face is cut by the picture's edge in frame {position}", remedy=_OTHER_PICTURE)
        if np.ptp(landmarks, axis=0).max() < MIN_FACE / 2:
            raise FaceError(f"the face is lost in frame {position}", remedy=_OTHER_PICTURE)
        yield landmark_crop(landmarks, framing)


def _chosen_box(faces: Faces, face: int) -> NDArray[np.float32]:
    boxes = faces.largest_first().boxes
    if not len(boxes):
        raise FaceError("no face in the picture", remedy=_OTHER_PICTURE)
    if face >= len(boxes):
        raise FaceError(
            f"face {face} was asked for, and {len(boxes)} found",
            remedy=f"choose one of 0 to {len(boxes) - 1}",
        )
    if len(boxes) > 1:
        _log.info("%d faces, number %d by falling size is taken", len(boxes), face)
    side = float((boxes[face, 2:] - boxes[face, :2]).max())
    if side < MIN_FACE:
        raise FaceError(
            f"a face of {side:.0f} pixels in the working picture, at least {MIN_FACE} are needed",
            remedy="cut the picture closer to the face",
        )
    return boxes[face]


class _EyeReader:
    """Reads the eyes of frame after frame.

    Args:
        analysis: what finds the mesh; without it, all frames have the neutral values.
        defaults: which hold the neutral values.
        needed: whether the first frame must show the eyes.

    Attributes:
        missed: frames in which they could not be read, and have the values of the frame before.
    """

    def __init__(self, analysis: FaceAnalysis | None, defaults: PresetDefaults, *, needed: bool) -> None:
        self.missed = 0
        self._analysis = analysis
        self._needed = needed
        self._last = torch.tensor(defaults.eye_open), torch.tensor(defaults.eye_ball)

    def read(self, crop: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
        """Opening (2,) and gaze (6,) in the next frame's crop, (512, 512, 3).

        Raises:
            NoMeshError: they are needed and can't be read.
        """
        if self._analysis is None:
            return self._last
        try:
            mesh = self._analysis.mesh(crop)
            self._last = torch.from_numpy(eye_opening(mesh)), torch.from_numpy(gaze(mesh))
        except NoMeshError:
            if self._needed:
                raise
            self.missed += 1
        self._needed = False
        return self._last


@torch.no_grad()
def _extract(extractor: MotionExtractor, crops: Tensor) -> MotionParameters:
    """Motion parameters of (b, 256, 256, 3) uint8 crops, float32 on the CPU."""
    weight = next(extractor.parameters())
    pictures = crops.permute(0, 3, 1, 2).to(weight.device, weight.dtype) / 255
    return MotionParameters(*(value.float().cpu() for value in extractor(pictures)))

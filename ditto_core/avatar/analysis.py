"""What registration needs to know about a face, and the official ONNX files that tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..checkpoints.auxiliary import AUXILIARY, find_auxiliary
from ..errors import FileError
from .detect import Faces, detect_faces
from .landmarks import landmarks_106, landmarks_203
from .mesh import mesh_points
from .sessions import open_session

PARTS = ("face detector", "106 landmarks", "203 landmarks", "face box for the mesh", "face mesh")
"""What finding faces needs, as `checkpoints.auxiliary` names it."""


class FaceAnalysis(Protocol):
    """Faces and their landmarks. Pictures are (H, W, 3) uint8 RGB, points are in their pixels."""

    def faces(self, picture: NDArray[np.uint8]) -> Faces:
        """All faces in a picture."""

    def landmarks_106(self, picture: NDArray[np.uint8], box: NDArray[np.floating]) -> NDArray[np.float32]:
        """(106, 2) landmarks of the face in a box."""

    def landmarks_203(self, crop: NDArray[np.uint8], to_picture: NDArray[np.floating]) -> NDArray[np.float32]:
        """(203, 2) landmarks, in the picture, of a face cut to 224 pixels; the matrix goes to the picture."""

    def mesh(self, crop: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(478, 3) normalised mesh points of the face in a crop.

        Raises:
            NoMeshError: there is no face in it.
        """


class MissingDetectorsError(FileError):
    """A model folder lacks files that finding faces needs.

    Args:
        source: what the models were loaded from.
        folder: where their files are, if anywhere.

    Attributes:
        missing: the names, alternatives joined by " or ".
    """

    def __init__(self, source: str | Path, folder: str | Path | None) -> None:
        self.missing = missing_files(folder)
        super().__init__(
            source,
            f"faces can't be found without {', '.join(self.missing)} "
            "(MediaPipe's .task file is not read, blaze_face.onnx and face_mesh.onnx stand for it)",
            remedy="download them, or say where the face is: a box, or the full picture as the crop",
        )


class OnnxFaceAnalysis:
    """The official models through onnxruntime, on the CPU.

    Args:
        folder: a model folder in the official layout, its root or one of the folders inside.

    Raises:
        MissingDetectorsError: a file is missing.
        MissingPackageError: onnxruntime is not installed.
        CheckpointError: a file is damaged, too large, or of another kind.
    """

    def __init__(self, folder: str | Path) -> None:
        if missing_files(folder):
            raise MissingDetectorsError(folder, folder)
        self._runs = {part: open_session(path) for part, path in _found(folder).items()}

    def faces(self, picture: NDArray[np.uint8]) -> Faces:
        """See `detect_faces`."""
        return detect_faces(picture, self._runs["face detector"])

    def landmarks_106(self, picture: NDArray[np.uint8], box: NDArray[np.floating]) -> NDArray[np.float32]:
        """See `landmarks.landmarks_106`."""
        return landmarks_106(picture, box, self._runs["106 landmarks"])

    def landmarks_203(self, crop: NDArray[np.uint8], to_picture: NDArray[np.floating]) -> NDArray[np.float32]:
        """See `landmarks.landmarks_203`."""
        return landmarks_203(crop, to_picture, self._runs["203 landmarks"])

    def mesh(self, crop: NDArray[np.uint8]) -> NDArray[np.float32]:
        """See `mesh_points`."""
        return mesh_points(crop, self._runs["face box for the mesh"], self._runs["face mesh"])


def missing_files(folder: str | Path | None) -> tuple[str, ...]:
    """What a model folder lacks for finding faces; alternative names joined by " or ". Without a folder, all."""
    found = {} if folder is None else _found(folder)
    return tuple(" or ".join(AUXILIARY[part]) for part in PARTS if part not in found)


def _found(folder: str | Path) -> dict[str, Path]:
    found = {part: find_auxiliary(part, folder) for part in PARTS}
    return {part: path for part, path in found.items() if path is not None}

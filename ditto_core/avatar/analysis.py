"""What registration needs to know about a face, and the official ONNX files that tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError
from .detect import Faces, detect_faces
from .landmarks import landmarks_106, landmarks_203
from .mesh import mesh_points
from .sessions import open_session

FILES = {
    "detector": ("insightface_det.onnx", "det_10g.onnx"),
    "landmarks_106": ("landmark106.onnx", "2d106det.onnx"),
    "landmarks_203": ("landmark203.onnx",),
    "blaze": ("blaze_face.onnx",),
    "mesh": ("face_mesh.onnx",),
}
"""Names under which each model comes; any of them will do."""
_PLACES = ("ditto_onnx", "ditto_pytorch/aux_models", "aux_models", ".")


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
        folder: a model folder, or the name of a bundled set.

    Attributes:
        missing: the names, alternatives joined by " or ".
    """

    def __init__(self, folder: str | Path) -> None:
        self.missing = missing_files(folder)
        super().__init__(
            folder,
            f"faces can't be found without {', '.join(self.missing)} (looked in {', '.join(_PLACES)}; "
            "MediaPipe's .task file is not read, blaze_face.onnx and face_mesh.onnx stand for it)",
            remedy="download them, or say where the face is with --crop X,Y,SIZE[,DEGREES] or --crop full",
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
            raise MissingDetectorsError(folder)
        self._runs = {role: open_session(path) for role, path in _found(folder).items()}

    def faces(self, picture: NDArray[np.uint8]) -> Faces:
        """See `detect_faces`."""
        return detect_faces(picture, self._runs["detector"])

    def landmarks_106(self, picture: NDArray[np.uint8], box: NDArray[np.floating]) -> NDArray[np.float32]:
        """See `landmarks.landmarks_106`."""
        return landmarks_106(picture, box, self._runs["landmarks_106"])

    def landmarks_203(self, crop: NDArray[np.uint8], to_picture: NDArray[np.floating]) -> NDArray[np.float32]:
        """See `landmarks.landmarks_203`."""
        return landmarks_203(crop, to_picture, self._runs["landmarks_203"])

    def mesh(self, crop: NDArray[np.uint8]) -> NDArray[np.float32]:
        """See `mesh_points`."""
        return mesh_points(crop, self._runs["blaze"], self._runs["mesh"])


def missing_files(folder: str | Path) -> tuple[str, ...]:
    """What a model folder lacks for finding faces; alternative names joined by " or "."""
    found = _found(folder)
    return tuple(" or ".join(names) for role, names in FILES.items() if role not in found)


def _found(folder: str | Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for role, names in FILES.items():
        for path in (Path(folder, place, name) for place in _PLACES for name in names):
            if role not in found and path.is_file():
                found[role] = path
    return found

"""Downloading the official files."""

from __future__ import annotations

from pathlib import Path

from ..errors import FileError, MissingPackageError

REPOSITORY = "digital-avatar/ditto-talkinghead"
REVISION = "e4a2f60328ee7c32af585ac4b3cce299e4c8e254"
FILES = (
    "ditto_cfg/v0.4_hubert_cfg_pytorch.pkl",
    "ditto_cfg/v0.4_hubert_cfg_trt_online.pkl",
    "ditto_pytorch/models/*.pth",
    "ditto_pytorch/aux_models/hubert_streaming_fix_kv.onnx",
    "ditto_pytorch/aux_models/landmark203.onnx",
    "ditto_onnx/blaze_face.onnx",
    "ditto_onnx/face_mesh.onnx",
)
NON_COMMERCIAL_FILES = ("ditto_pytorch/aux_models/det_10g.onnx", "ditto_pytorch/aux_models/2d106det.onnx")
"""InsightFace's detector and landmarks, whose licence allows non-commercial research only."""


def fetch_models(folder: str | Path, *, with_detectors: bool = False) -> Path:
    """Downloads the official files at a pinned revision through huggingface_hub.

    Args:
        folder: where they go; what is there already and whole is kept.
        with_detectors: also InsightFace's files, which are for non-commercial research only.

    Returns:
        The folder, for `load_models`.

    Raises:
        FileError: the download failed; the message holds the command for another machine.
        MissingPackageError: huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingPackageError(
            "huggingface_hub", needed_for="models fetch", install="pip install huggingface_hub"
        ) from error
    files = [*FILES, *(NON_COMMERCIAL_FILES if with_detectors else ())]
    try:
        snapshot_download(REPOSITORY, revision=REVISION, allow_patterns=files, local_dir=folder)
    except Exception as error:  # the library lets many kinds of network errors through
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(
            folder,
            f"the official files could not be downloaded ({reason})",
            remedy="run this where the network is reachable, and copy the folder here: "
            + download_command(folder, files),
        ) from error
    return Path(folder)


def download_command(folder: str | Path, files: list[str]) -> str:
    """The shell command that downloads the same files with huggingface_hub's own tool."""
    includes = " ".join(f"--include '{pattern}'" for pattern in files)
    return f"hf download {REPOSITORY} --revision {REVISION} {includes} --local-dir '{folder}'"

"""What a model folder may hold beside the six networks, and where it lies there."""

from __future__ import annotations

from pathlib import Path

AUXILIARY = {
    "speech encoder": ("hubert/config.json", "hubert_streaming_fix_kv.onnx", "hubert.onnx"),
    "face detector": ("insightface_det.onnx", "det_10g.onnx"),
    "106 landmarks": ("landmark106.onnx", "2d106det.onnx"),
    "203 landmarks": ("landmark203.onnx",),
    "face box for the mesh": ("blaze_face.onnx",),
    "face mesh": ("face_mesh.onnx",),
    "configuration": (
        "v0.4_hubert_cfg_pytorch.pkl",
        "v0.4_hubert_cfg_trt_online.pkl",
        "v0.4_hubert_cfg_trt.pkl",
        "defaults.json",
    ),
}
"""Names under which each part comes; the first that is found counts."""
_PLACES = ("", "ditto_onnx", "ditto_pytorch/aux_models", "aux_models", "ditto_cfg", "../ditto_cfg", "../ditto_onnx")


def find_auxiliary(part: str, root: str | Path) -> Path | None:
    """The file that serves a part of AUXILIARY, in the official or the converted layout; None without one.

    Args:
        part: its name.
        root: a folder as `find_models` takes it.
    """
    candidates = (Path(root, place, name) for name in AUXILIARY[part] for place in _PLACES)
    return next((path for path in candidates if path.is_file()), None)

"""Avatars: finding and cutting out the face, and what rendering and motion need to know of it."""

from .analysis import FaceAnalysis, OnnxFaceAnalysis
from .avatar import Avatar
from .crop import CropRequest
from .register import analysis_for, open_avatar, register
from .source import FrameSource

__all__ = [
    "Avatar",
    "CropRequest",
    "FaceAnalysis",
    "FrameSource",
    "OnnxFaceAnalysis",
    "analysis_for",
    "open_avatar",
    "register",
]

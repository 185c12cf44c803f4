"""Rendering: key points and an avatar become frames, on the device."""

from .backend import BACKENDS, PRECISIONS, RenderBackend, TorchBackend, choose_backend, precision_type
from .paste import Box, Placement, blend, face_box, paste, place
from .renderer import RenderedFrames, Renderer, RenderOptions

__all__ = [
    "BACKENDS",
    "PRECISIONS",
    "Box",
    "Placement",
    "RenderBackend",
    "RenderOptions",
    "RenderedFrames",
    "Renderer",
    "TorchBackend",
    "blend",
    "choose_backend",
    "face_box",
    "paste",
    "place",
    "precision_type",
]

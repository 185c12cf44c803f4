"""Rendering: key points and an avatar become frames, on the device."""

from .paste import Box, Placement, blend, face_box, paste, place
from .renderer import RenderedFrames, Renderer, RenderOptions

__all__ = [
    "Box",
    "Placement",
    "RenderOptions",
    "RenderedFrames",
    "Renderer",
    "blend",
    "face_box",
    "paste",
    "place",
]

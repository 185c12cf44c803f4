"""Rendering: key points and an avatar become frames, on the device."""

from .alpha import GreenScreen, fitted_background
from .colour import nv12_planes, nv12_to_rgb, rgb_to_nv12
from .nv12 import StillPaste, paste_nv12
from .paste import Box, Placement, blend, face_box, paste, place
from .renderer import RenderedFrames, Renderer, RenderOptions

__all__ = [
    "Box",
    "GreenScreen",
    "Placement",
    "RenderOptions",
    "RenderedFrames",
    "Renderer",
    "StillPaste",
    "blend",
    "face_box",
    "fitted_background",
    "nv12_planes",
    "nv12_to_rgb",
    "paste",
    "paste_nv12",
    "place",
    "rgb_to_nv12",
]

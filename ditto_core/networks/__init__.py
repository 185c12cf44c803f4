"""The six networks of Ditto, and their sizes.

Each is an `nn.Module` whose parameters carry the official files' names. In half precision what is sensitive stays
float32: coordinates, sampling grids, heat maps, softmax and the statistics of norms. In float64 all is float64.
"""

from .appearance import AppearanceExtractor
from .motion_diffusion import MotionDiffusion
from .motion_extractor import MotionExtractor
from .presets import MINIATURE, OFFICIAL, Preset
from .spade import SpadeDecoder
from .stitching import StitchingNetwork
from .warping import WarpingNetwork

__all__ = [
    "MINIATURE",
    "OFFICIAL",
    "AppearanceExtractor",
    "MotionDiffusion",
    "MotionExtractor",
    "Preset",
    "SpadeDecoder",
    "StitchingNetwork",
    "WarpingNetwork",
]

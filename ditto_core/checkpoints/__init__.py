"""Files of weights: the official layout, our converted one, the bundled miniature, and recipe weights."""

from .layout import find_models
from .models import MINIATURE_SOURCE, OFFICIAL_SHAPES, DittoModels, load_models

__all__ = ["MINIATURE_SOURCE", "OFFICIAL_SHAPES", "DittoModels", "find_models", "load_models"]

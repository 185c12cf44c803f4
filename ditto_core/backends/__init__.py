"""Backends: what runs the rendering networks."""

from .backend import PRECISIONS, RenderBackend, precision_type
from .choice import BACKENDS, choose_backend
from .eager import TorchBackend

__all__ = ["BACKENDS", "PRECISIONS", "RenderBackend", "TorchBackend", "choose_backend", "precision_type"]

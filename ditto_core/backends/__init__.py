"""Backends: what runs the rendering networks."""

from .backend import PRECISIONS, RenderBackend, choose_device, precision_type
from .choice import BACKENDS, choose_backend
from .compiled import CompiledBackend
from .eager import TorchBackend

__all__ = [
    "BACKENDS",
    "PRECISIONS",
    "CompiledBackend",
    "RenderBackend",
    "TorchBackend",
    "choose_backend",
    "choose_device",
    "precision_type",
]

"""Fused engines: the rendering networks as one graph, built by TensorRT or TensorRT-RTX, verified and run."""

from .backend import EngineBackend, engine_backend
from .engine import Engine, build_engine, engine_key, load_engine, verify_engine
from .spec import ENGINE_PRECISIONS, FLAVOURS, PARTS, EngineError, EngineKey, EngineSpec, parse_batch
from .store import EngineFileError
from .verify import ParityReport

__all__ = [
    "ENGINE_PRECISIONS",
    "FLAVOURS",
    "PARTS",
    "Engine",
    "EngineBackend",
    "EngineError",
    "EngineFileError",
    "EngineKey",
    "EngineSpec",
    "ParityReport",
    "build_engine",
    "engine_backend",
    "engine_key",
    "load_engine",
    "parse_batch",
    "verify_engine",
]

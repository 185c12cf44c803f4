"""Which backend runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..checkpoints.models import DittoModels
from ..errors import InvalidValueError, MissingPackageError
from ..progress import Progress
from .backend import RenderBackend
from .compiled import CompiledBackend
from .eager import TorchBackend

if TYPE_CHECKING:
    from .engines import Engine

ENGINE_BACKENDS = ("tensorrt", "tensorrt_rtx")
BACKENDS = ("torch", "compiled", *ENGINE_BACKENDS)


def choose_backend(
    word: str,
    models: DittoModels,
    engine: Engine | None = None,
    *,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> RenderBackend:
    """The backend of a name.

    Args:
        word: "auto" or one of `BACKENDS`. "auto" is the engine where one is given and can be used here; else it is
            torch, which every device has and which is ready at once, and `executed_by` says why.
        models: the networks that it shall run.
        engine: built from these models.
        progress: told of the engine's parity gate, as ("parity", done, all).
        check_cancelled: called before each input of the gate; raises to stop.

    Raises:
        InvalidValueError: this version has no backend of that name, or word and engine do not go together.
        EngineError: the engine that is asked for by name can't be used here, or fails the parity gate.
        MissingPackageError: its library is not installed.
    """
    if word not in ("auto", *BACKENDS):
        raise InvalidValueError(f"backend {word!r}", remedy=f"choose one of auto, {', '.join(BACKENDS)}")
    if word in ENGINE_BACKENDS and (engine is None or engine.key.flavour != word):
        given = "no engine" if engine is None else f"an engine of {engine.key.flavour}"
        raise InvalidValueError(
            f"backend {word} with {given}", remedy=f"build one with `engine build --flavour {word}` and name its file"
        )
    if engine is None or word in ("torch", "compiled"):
        if engine is not None:
            raise InvalidValueError(f"backend {word} with an engine", remedy="choose auto, or leave the engine out")
        return CompiledBackend(models) if word == "compiled" else TorchBackend(models)
    from .engines import EngineError, engine_backend  # onnx takes a second to import

    try:
        return engine_backend(engine, models, progress=progress, check_cancelled=check_cancelled)
    except (EngineError, MissingPackageError) as error:
        if word != "auto":
            raise
        return TorchBackend(models, reason=f"the engine is not used: {error.problem}")

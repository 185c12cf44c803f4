"""Engines in the suite `render`: given ones, or ones that are built where a library and a GPU allow it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from ..backends import choose_backend
from ..checkpoints.models import DittoModels, load_models
from ..errors import InvalidValueError, MissingPackageError
from .measure import milliseconds, picture_difference
from .run import Result, Settings

COMMAND = "python -m ditto_core bench --suite render --models official-shapes --report benchmarks/rtx/render.json"
"""Measures engines where a card can run them."""
ENGINE_STAGES = ("post-warp", "warp-decode")

Inputs = tuple[Tensor, Tensor, Tensor]


def run_engine(settings: Settings, part: str, inputs: Inputs, reference: Callable[[Inputs], Tensor]) -> Result:
    """Times an engine as the renderer calls it, once it has passed the parity gate.

    Args:
        settings: of the suite.
        part: of the networks; see `EngineSpec`. Where an engine is given, its own counts.
        inputs: volumes, source and driving key points of a batch.
        reference: gives the plain float32 pictures of inputs.

    Returns:
        The figures; or why there are none, with the command that measures them.
    """
    from ..backends.engines import EngineError  # onnx takes a second to import

    begun = time.perf_counter()
    models = load_models(settings.models, device=settings.device, dtype=settings.dtype)
    try:
        with _engine(settings, part, models) as engine:
            backend = choose_backend(engine.key.flavour, models, engine)
            ready_s = time.perf_counter() - begun
            batch = min(len(inputs[0]), engine.key.spec.batch[2])
            given: Inputs = (inputs[0][:batch], inputs[1][:batch], inputs[2][:batch])
            backend.warm_up(batch)
            result: Result = {"batch": batch, **milliseconds(lambda: backend.faces(*given), settings.device)}
            result["frames_per_s"] = round(1e3 * batch / result["ms"], 1)
            result["executed_by"] = backend.executed_by
            result["engine"] = {**engine.report(), "ready_s": round(ready_s, 1)}
            result["against_plain_float32"] = picture_difference(backend.faces(*given), reference(given))
            backend.close()
            return result
    except (EngineError, MissingPackageError, InvalidValueError) as error:
        return {"not_measured": str(error), "command": COMMAND}


@contextmanager
def _engine(settings: Settings, part: str, models: DittoModels) -> Iterator[Any]:
    """The given engine, or one that is built here and kept no longer than it is used."""
    from ..backends.engines import EngineSpec, build_engine, load_engine

    if settings.engine is not None:
        yield load_engine(settings.engine, models)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield build_engine(models, EngineSpec(part=part), Path(folder))

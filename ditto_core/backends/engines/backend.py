"""An engine as a rendering backend, once it has passed the parity gate on its GPU."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...checkpoints.models import DittoModels
from ...errors import FileError
from ...progress import Progress, Steps
from ..eager import appearance_volumes
from . import store
from .engine import Engine, executed_by, open_session, verify_engine
from .spec import EngineError
from .verify import gate_limits

_log = logging.getLogger(__name__)


class EngineBackend:
    """Faces by an engine; all that is before its part by torch.

    Args:
        engine: verified.
        models: whose weights it has, on the GPU.
    """

    def __init__(self, engine: Engine, models: DittoModels) -> None:
        self._engine, self._models = engine, models
        self._session = open_session(engine, models.device)

    @property
    def device(self) -> torch.device:
        """See `RenderBackend`."""
        return self._models.device

    @property
    def executed_by(self) -> str:
        """The engine and the GPU, and what torch does."""
        before = ", warp by torch" if self._engine.key.part == "post-warp" else ""
        return executed_by(self._engine, self.device) + before

    def warm_up(self, batch: int, progress: Steps | None = None) -> None:
        """Captures one batch size in a CUDA graph; see `EngineSession.warm_up`."""
        tell = progress or (lambda done, total: None)
        tell(0, 1)
        self._session.warm_up(batch)
        tell(1, 1)

    @torch.inference_mode()
    def volumes(self, crops: Tensor) -> Tensor:
        """See `RenderBackend`."""
        return appearance_volumes(self._models, crops)

    @torch.inference_mode()
    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """See `RenderBackend`."""
        x_s, x_d = x_s.to(self.device, torch.float32), x_d.to(self.device, torch.float32)
        if self._engine.key.part == "warp-decode":
            return self._session(f_s, x_s, x_d)
        return self._session(*self._models.warp_network.deform(f_s, x_s, x_d))

    def close(self) -> None:
        """Gives back all memory of the engine."""
        self._session.close()


def engine_backend(
    engine: Engine,
    models: DittoModels,
    *,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> EngineBackend:
    """A rendering backend that runs an engine, which must have passed the parity gate.

    The gate runs before an engine's first use on a kind of GPU; what it found is kept beside the engine, where that
    folder is writable.

    Args:
        engine: from `build_engine` or `load_engine`.
        models: whose weights it has, on the GPU.
        progress: called with ("parity", done, all).
        check_cancelled: raises to stop.

    Raises:
        EngineError: this machine can't run it, it was built for other models, or it fails the gate; the figures are
            in the error. Use the torch backend then.
    """
    if models.device.type != "cuda":
        sees = f"the models are on {models.device}" if torch.cuda.is_available() else "torch sees no GPU"
        raise EngineError(f"it runs on a GPU, and {sees}", remedy="load the models on the GPU")
    if models.fingerprint != engine.key.weights:
        raise store.EngineFileError(
            engine.path,
            f"made for models {engine.key.weights[:12]}, not {models.fingerprint[:12]}",
            remedy="build it anew with `engine build`",
        )
    if engine.misfit:
        raise store.EngineFileError(engine.path, f"can't run here: {engine.misfit}", remedy="build one for this GPU")
    problem = _known_parity(engine, models.device)
    if problem is None:
        report = verify_engine(engine, models, progress=progress, check_cancelled=check_cancelled)
        problem = report.problem
        _keep_parity(engine, {**_parity_subject(engine, models.device), "report": report.to_json()})
    if problem:
        raise store.EngineFileError(engine.path, f"fails the parity gate: {problem}", remedy="draw with torch")
    return EngineBackend(engine, models)


def _parity_path(engine: Engine) -> Path:
    return engine.path.with_suffix(".parity.json")


def _parity_subject(engine: Engine, device: torch.device) -> dict[str, Any]:
    return {
        "sha256": engine.side.sha256,
        "executed_by": executed_by(engine, device),
        "limits": gate_limits(engine.key.part, engine.key.precision),
    }


def _keep_parity(engine: Engine, found: dict[str, Any]) -> None:
    try:
        store.write_json(_parity_path(engine), found)
    except FileError as error:
        _log.warning("the parity gate will run again at the next start: %s", error.problem)


def _known_parity(engine: Engine, device: torch.device) -> str | None:
    """What the gate found before for this engine on this kind of GPU; None where it has not run."""
    path = _parity_path(engine)
    if not path.is_file():
        return None
    try:
        known = store.read_json(path)
    except store.EngineFileError:
        return None
    report = known.pop("report", None)
    if known != _parity_subject(engine, device) or not isinstance(report, dict):
        return None
    problem = report.get("problem")
    return problem if isinstance(problem, str) else None

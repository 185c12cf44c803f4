"""Engines as a whole: found or built, and verified."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

from ...checkpoints.models import DittoModels
from ...progress import Progress
from . import export, store
from .bindings import gpu_capability, gpu_misfit, load_library, resolve
from .build import build_from_graph, check_target, header_problem
from .precision import Scales, calibrate, quantise, rounded_weights
from .runtime import EngineSession
from .samples import PartInputs
from .spec import BUILD_IT, EngineKey, EngineSpec, target_name, this_system
from .verify import INPUTS, ParityReport, verify_emulated, verify_session

_log = logging.getLogger(__name__)

_CALIBRATION_WARPS = 4


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A handle of an engine on disk, which was found to fit when the handle was made.

    Attributes:
        path: the engine file.
        key: what it fits.
        side: its side file.
        built: whether it was built now.
        reason: why it was built, or "found".
    """

    path: Path
    key: EngineKey
    side: store.SideFile
    built: bool
    reason: str

    @property
    def misfit(self) -> str:
        """Why this machine can't run it; empty where it can."""
        return gpu_misfit(self.key.flavour, self.key.spec.compute_capability, gpu_capability())

    def report(self) -> dict[str, Any]:
        """What it is, ready for JSON."""
        side = self.side.to_json()
        return {
            "path": str(self.path),
            "built": self.built,
            "reason": self.reason,
            **{name: side[name] for name in ("key", "sha256", "size", "graph_sha256", "network")},
        }


def engine_key(models: DittoModels, spec: EngineSpec) -> tuple[EngineKey, Any]:
    """The key that a spec leads to on this machine, and the library of its flavour.

    Raises:
        EngineError: see `resolve` and `check_target`.
        MissingPackageError: the library is not installed.
    """
    flavour, target, reason = resolve(spec)
    library = load_library(flavour)
    check_target(library, flavour, target)
    _log.info("engine: %s %s (%s) for %s", flavour, library.__version__, reason, target)
    key = EngineKey(
        flavour=flavour,
        version=str(library.__version__),
        system=this_system(),
        target=target_name(target),
        part=spec.part,
        precision=spec.precision,
        batch=":".join(map(str, spec.batch)),
        weights=models.fingerprint,
        graph=export.graph_identity(models.preset),
    )
    return key, library


def build_engine(
    models: DittoModels,
    spec: EngineSpec,
    folder: str | Path,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> Engine:
    """Finds the engine of a spec in a folder, or builds it there.

    One process builds while others wait. An engine that does not fit, or is not whole, is built anew, and the reason
    says why. A cancelled build leaves nothing behind.

    Args:
        models: whose weights it has, on any device in any type.
        spec: what is wanted.
        folder: where engines are; made where it is absent.
        rebuild: build anew even where a fitting engine is.
        progress: called with ("weights", "graph", "calibration" or "engine", done, all).
        check_cancelled: raises to stop; called between the stages and at the library's steps. A stage of torch's,
            such as the graph's export, is not stopped midway.

    Raises:
        EngineError: there is nothing to build for, or the library refuses.
        MissingPackageError: the library, or what exports the graph, is not installed.
        FileError: the folder is not writable.
    """
    key, library = engine_key(models, spec)
    path = Path(folder) / (key.stem + store.ENDING)
    if not rebuild:
        found, _ = _found(path, key, library)  # before the lock, for which the folder has to be writable
        if found is not None:
            return found
    with store.locked(path, check_cancelled):
        found, reason = _found(path, key, library)
        if found is not None and not rebuild:
            return found
        if found is not None:
            reason = "built anew: asked for"
        _log.info("engine %s", reason)
        graph, _, _ = engine_graph(models, spec, progress=progress, check_cancelled=check_cancelled)
        built = build_from_graph(
            library,
            key.flavour,
            graph,
            spec,
            key.spec.compute_capability,
            progress=progress,
            check_cancelled=check_cancelled,
        )
        side = store.write_engine(
            path,
            built.data,
            key,
            graph_sha256=hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest(),
            network=built.network,
        )
    return Engine(path=path, key=key, side=side, built=True, reason=reason)


def _found(path: Path, key: EngineKey, library: Any) -> tuple[Engine | None, str]:
    """The engine at a path, if it fits; else why one is built."""
    try:
        data, side = store.read_engine(path, wanted=key)
    except store.EngineFileError as error:
        problem = error.problem.replace(str(error.path), error.path.name, 1)
        return None, f"built anew: {problem}" if path.exists() else "built: there was none"
    problem = header_problem(library, data)
    if problem:
        return None, f"built anew: {path.name}: {key.flavour} {key.version} finds a {problem}"
    return Engine(path=path, key=key, side=side, built=False, reason="found"), ""


def load_engine(path: str | Path, models: DittoModels) -> Engine:
    """An engine file that was built before, for these models and the library installed here.

    Raises:
        EngineFileError: it is foreign, old, truncated, damaged, or has no side file.
        MissingPackageError: its library is not installed.
    """
    path = Path(path)
    key = store.read_side(path).key
    wanted, library = _fitting_key(key, models)
    data, side = store.read_engine(path, wanted=wanted)
    problem = header_problem(library, data)
    if problem:
        raise store.EngineFileError(path, f"{key.flavour} {key.version} finds a {problem}", remedy=BUILD_IT)
    return Engine(path=path, key=wanted, side=side, built=False, reason="found")


def _fitting_key(key: EngineKey, models: DittoModels) -> tuple[EngineKey, Any]:
    """What the key would have to be to fit models, library and machine."""
    library = load_library(key.flavour)
    return (
        dataclasses.replace(
            key,
            version=str(library.__version__),
            system=this_system(),
            weights=models.fingerprint,
            graph=export.graph_identity(models.preset),
        ),
        library,
    )


def engine_graph(
    models: DittoModels,
    spec: EngineSpec,
    *,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> tuple[onnx.ModelProto, nn.Module, Scales]:
    """The graph of an engine, with its precision in it.

    Returns:
        The graph; the half-precision module of which it is the export, with weights rounded alike; and the scales of
        quantised inputs, none for fp16.
    """

    def begin(stage: str) -> None:
        if check_cancelled is not None:
            check_cancelled()
        if progress is not None:
            progress(stage, 0, 1)

    begin("weights")
    plain = export.plain_models(models)
    module = export.fused_module(spec, plain)
    half = export.half_module(module)
    begin("graph")
    graph = export.export_graph(spec, half, plain.preset)
    scales: Scales = {}
    if spec.precision == "fp8":
        begin("calibration")
        samples = PartInputs(spec, plain, check_cancelled=check_cancelled)
        scales = calibrate(module, (samples.warp(number) for number in range(_CALIBRATION_WARPS)))
        quantise(graph, half, scales)
        rounded_weights(half, scales)
    return graph, half, scales


def verify_engine(
    engine: Engine,
    models: DittoModels,
    *,
    count: int = INPUTS,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> ParityReport:
    """The parity gate: runs the engine where this machine can, else its graph and an emulation of its rounding.

    Args:
        engine: what is checked.
        models: whose weights it has.
        count: inputs; half are the models' own warps, half Gaussian.
        progress: called with ("parity", done, count).
        check_cancelled: raises to stop.

    Raises:
        EngineError: the library does not open the engine, or refuses to run it.
        MissingPackageError: without a GPU, where onnxruntime is not installed.
    """
    spec = engine.key.spec
    runs = models.device.type == "cuda" and not engine.misfit
    plain = export.plain_models(models, None if runs else torch.device("cpu"))
    reference = export.fused_module(spec, plain)
    samples = PartInputs(spec, plain, check_cancelled=check_cancelled)
    if runs:
        with contextlib.closing(open_session(engine, plain.device)) as session:
            return verify_session(
                spec,
                session,
                reference,
                samples,
                executed_by=executed_by(engine, plain.device),
                count=count,
                progress=progress,
                check_cancelled=check_cancelled,
            )
    graph, half, scales = engine_graph(plain, spec, progress=progress, check_cancelled=check_cancelled)
    return verify_emulated(
        spec,
        graph,
        half,
        scales,
        reference,
        samples,
        count=count,
        progress=progress,
        check_cancelled=check_cancelled,
    )


def open_session(engine: Engine, device: torch.device) -> EngineSession:
    """Opens an engine on a GPU; its file is checked against its side file once more.

    Raises:
        EngineFileError: it has been changed since the handle was made.
        EngineError: the library does not open it.
    """
    library = load_library(engine.key.flavour)
    data, _ = store.read_engine(engine.path, wanted=engine.key)
    return EngineSession(library, data, engine.key.spec, device, cache=engine.path.with_suffix(".kernels"))


def executed_by(engine: Engine, device: torch.device) -> str:
    """What runs, in words."""
    key = engine.key
    return (
        f"{key.flavour} {key.version} ({key.part} {key.precision} {key.target}) on {torch.cuda.get_device_name(device)}"
    )

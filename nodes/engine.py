"""Engines: what draws the faces, built ahead."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from comfy_api.latest import io

from ..ditto_core.backends import RenderBackend, TorchBackend, choose_backend
from ..ditto_core.errors import FileError, InvalidValueError, MissingPackageError
from . import host
from .types import CATEGORY, Engine, EngineType, Models, ModelsType, check_choices, verdict

if TYPE_CHECKING:
    from ..ditto_core.backends.engines import EngineSpec

_PARTS = ("post-warp", "warp-decode")
_BACKENDS = ("auto", "torch", "compiled", "tensorrt", "tensorrt_rtx")
_PRECISIONS = ("fp16", "fp8")
_LARGEST_BATCH = 8
_WITHOUT_ENGINE = ("torch", "compiled")
_HERE = "this GPU"
_CAPABILITIES = (_HERE, "portable", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")


class BuildFusedPostWarpEngine(io.ComfyNode):
    """The networks behind the warp, fused into one engine."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="BuildFusedPostWarpEngine",
            display_name="Build Fused Post-Warp Engine",
            category=CATEGORY,
            description="Builds what draws the faces for one GPU, ahead of time, and keeps it in models/ditto/engines. "
            "Where this machine can't build it or run it, torch draws, and the report says why.",
            inputs=[
                ModelsType.Input("models", tooltip="The networks to build from."),
                io.Combo.Input(
                    "part",
                    options=list(_PARTS),
                    tooltip="Which networks the engine holds: those behind the warp, or the warp as well; the others "
                    "run in torch.",
                ),
                io.Combo.Input(
                    "backend",
                    options=list(_BACKENDS),
                    tooltip="auto: TensorRT where it is installed, else torch; compiled: torch's own compiler.",
                ),
                io.Combo.Input(
                    "precision",
                    options=list(_PRECISIONS),
                    tooltip="Type of the engine's numbers: fp16, or fp8 on compute capability 8.9 and later.",
                ),
                io.Int.Input("batch_min", default=1, min=1, max=_LARGEST_BATCH, tooltip="Fewest faces drawn at once."),
                io.Int.Input("batch_max", default=8, min=1, max=_LARGEST_BATCH, tooltip="Most faces drawn at once."),
                io.Combo.Input(
                    "compute_capability",
                    options=list(_CAPABILITIES),
                    tooltip="The GPU that the engine is for: this one, one named by its compute capability, or any "
                    "from 8.0 on (portable).",
                ),
                io.Boolean.Input(
                    "force_rebuild", default=False, tooltip="Build anew even where a fitting engine is kept."
                ),
            ],
            outputs=[
                EngineType.Output(display_name="engine", tooltip="To Ditto Render or Ditto Stream."),
                io.String.Output(display_name="report", tooltip="What was built, and what really runs, as JSON."),
            ],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def validate_inputs(cls, backend: str | None) -> bool | str:
        """Checks the word."""
        return verdict(lambda word: check_choices({"backend": (word, _BACKENDS)}), backend)

    @classmethod
    def execute(
        cls,
        models: Models,
        part: str,
        backend: str,
        precision: str,
        batch_min: int,
        batch_max: int,
        compute_capability: str,
        force_rebuild: bool,
    ) -> io.NodeOutput:
        """Builds or finds the engine, and takes it into use where that can be."""
        check_choices(
            {
                "part": (part, _PARTS),
                "backend": (backend, _BACKENDS),
                "precision": (precision, _PRECISIONS),
                "compute_capability": (compute_capability, _CAPABILITIES),
            }
        )
        if batch_min > batch_max:
            raise InvalidValueError(
                f"batch_min {batch_min} above batch_max {batch_max}", remedy="let batch_max be the larger one"
            )
        from ..ditto_core.backends.engines import EngineSpec  # onnx takes a second to import

        host.bring_in(models)
        spec = EngineSpec(
            part=part,
            flavour="auto" if backend in _WITHOUT_ENGINE else backend,
            precision=precision,
            batch=(batch_min, batch_max, batch_max),
            compute_capability="auto" if compute_capability == _HERE else compute_capability,
        )
        report: dict[str, Any] = {"asked": {"backend": backend, **dataclasses.asdict(spec)}}
        if backend in _WITHOUT_ENGINE:
            chosen = choose_backend(backend, models.networks)
        else:
            chosen, about = _built(models, spec, rebuild=force_rebuild, is_strict=backend != "auto")
            report |= about
        report["executed_by"] = chosen.executed_by
        host.say_on_node(chosen.executed_by, cls.hidden.unique_id)
        return io.NodeOutput(Engine(backend=chosen, models=models), json.dumps(report, indent=1))


def _built(models: Models, spec: EngineSpec, *, rebuild: bool, is_strict: bool) -> tuple[RenderBackend, dict[str, Any]]:
    """What draws the faces after an engine was built or found, and what is to be reported of it.

    Args:
        models: loaded.
        spec: what to build.
        rebuild: build even where there is one.
        is_strict: raise where it can't be built, or can't be used on the GPU that it is for; else torch draws.
    """
    from ..ditto_core.backends.engines import EngineError, build_engine

    def show(stage: str, done: int, total: int) -> None:
        host.show_progress(done, total)

    try:
        engine = build_engine(
            models.networks,
            spec,
            host.engine_folder(),
            rebuild=rebuild,
            progress=show,
            check_cancelled=host.check_interrupted,
        )
    except (EngineError, FileError, MissingPackageError) as error:
        if is_strict:
            raise
        return TorchBackend(models.networks, reason=f"no engine was built: {error.problem}"), {}
    is_for_here = spec.compute_capability == "auto" or not engine.misfit
    chosen = choose_backend(
        engine.key.flavour if is_strict and is_for_here else "auto",
        models.networks,
        engine,
        progress=show,
        check_cancelled=host.check_interrupted,
    )
    return chosen, {"engine": engine.report()}

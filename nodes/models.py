"""Loading the networks."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from . import host, paths
from .types import CATEGORY, ModelsType, check_choices, verdict


class LoadDittoModels(io.ComfyNode):
    """The six networks and the speech encoder of a model folder."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="LoadDittoModels",
            display_name="Load Ditto Models",
            category=CATEGORY,
            description="Loads Ditto's networks. ComfyUI moves them to the GPU when they run, and frees them as it "
            "frees other models.",
            inputs=[
                io.Combo.Input(
                    "models",
                    options=host.model_names(),
                    default=host.MINIATURE,
                    tooltip="A folder in models/ditto with the official or the converted files; or the miniature "
                    "that comes with the pack: small, for drawn faces, fast on a CPU.",
                ),
                io.Combo.Input(
                    "device",
                    options=list(host.DEVICES),
                    default="auto",
                    tooltip="Where the networks run. auto is what ComfyUI itself uses.",
                ),
                io.Combo.Input(
                    "precision",
                    options=list(host.PRECISION_WORDS),
                    default="auto",
                    tooltip="Type of the networks that draw. auto is fp16 on a GPU; on a CPU it is "
                    "bf16 where the processor multiplies that itself, else fp32.",
                ),
            ],
            outputs=[ModelsType.Output(display_name="models", tooltip="To every other Ditto node.")],
        )

    @classmethod
    def validate_inputs(cls, models: str | None) -> bool | str:
        """Checks that the folder is there."""
        return verdict(host.model_folder, models)

    @classmethod
    def fingerprint_inputs(cls, models: str | None, **_: Any) -> str | float:
        """Changes with the files of the folder; always, where a link brings its name."""
        return float("nan") if models is None else paths.state([host.model_folder(models)])

    @classmethod
    def execute(cls, models: str, device: str, precision: str) -> io.NodeOutput:
        """Loads."""
        check_choices({"device": (device, host.DEVICES), "precision": (precision, host.PRECISION_WORDS)})
        return io.NodeOutput(host.load(models, device, precision))

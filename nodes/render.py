"""Rendering: motion and a presenter become frames."""

from __future__ import annotations

from comfy_api.latest import io

from ..ditto_core.avatar import Avatar
from ..ditto_core.backends import RenderBackend
from ..ditto_core.errors import InvalidValueError
from ..ditto_core.motion.settings import ControlSettings
from ..ditto_core.pipeline.frames import Frames
from ..ditto_core.render import RenderOptions
from .types import (
    CATEGORY,
    AvatarType,
    ControlsType,
    Engine,
    EngineType,
    FramesType,
    Models,
    ModelsType,
    Motion,
    MotionType,
    VideoFrames,
)


def engine_input() -> io.Input:
    """What draws the faces."""
    return EngineType.Input(
        "engine",
        optional=True,
        tooltip="What draws the faces, from Build Fused Post-Warp Engine; without it, the models run in torch.",
    )


def controls_input() -> io.Input:
    """What is changed about the motion."""
    return ControlsType.Input(
        "controls", optional=True, tooltip="What is changed about the motion, from Ditto Controls."
    )


def chosen_backend(models: Models, engine: Engine | None) -> tuple[RenderBackend, tuple[Models, ...]]:
    """What draws the faces, and all models that have to be loaded then.

    Raises:
        InvalidValueError: the engine was built from other models.
    """
    if engine is None:
        return models.backend, (models,)
    if engine.models.networks.fingerprint != models.networks.fingerprint:
        raise InvalidValueError(
            "an engine that was built from other models", remedy="connect one Load Ditto Models node to both"
        )
    return engine.backend, (models,) if engine.models is models else (models, engine.models)


class DittoRenderFusedTRT(io.ComfyNode):
    """Motion becomes frames."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoRenderFusedTRT",
            display_name="Ditto Render",
            category=CATEGORY,
            description="Puts models, presenter, motion and controls together. The frames are rendered when a "
            "writer pulls them, a chunk at a time; progress and errors then appear here.",
            inputs=[
                ModelsType.Input("models", tooltip="From Load Ditto Models."),
                AvatarType.Input("avatar", tooltip="The presenter."),
                MotionType.Input("motion", tooltip="From Ditto Audio to Motion."),
                io.Int.Input(
                    "cadence",
                    default=1,
                    min=1,
                    max=2,
                    tooltip="1 draws every face; 2 every second one and interpolates between, about twice as fast.",
                ),
                io.Int.Input(
                    "batch",
                    default=0,
                    min=0,
                    max=64,
                    tooltip="Faces drawn at once; 0 takes 8 on a GPU and 4 on a CPU.",
                ),
                engine_input(),
                controls_input(),
            ],
            outputs=[FramesType.Output(display_name="frames", tooltip="To NVENC Video Writer.")],
        )

    @classmethod
    def execute(
        cls,
        models: Models,
        avatar: Avatar,
        motion: Motion,
        cadence: int,
        batch: int,
        engine: Engine | None = None,
        controls: ControlSettings | None = None,
    ) -> io.NodeOutput:
        """Puts the parts together."""
        backend, needed = chosen_backend(models, engine)
        frames = Frames(
            models=models.networks,
            backend=backend,
            avatar=avatar,
            track=motion.track,
            controls=(controls or ControlSettings()).controls(len(motion.track), motion.sound),
            options=RenderOptions(batch=batch or None, cadence=cadence),
        )
        return io.NodeOutput(VideoFrames(recipe=frames, models=needed, sound=motion.sound))

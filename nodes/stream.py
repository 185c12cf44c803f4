"""Streaming: speech and a presenter become frames, chunk by chunk."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..ditto_core.avatar import Avatar
from ..ditto_core.motion.conditions import EMOTIONS, Emotion
from ..ditto_core.motion.settings import ControlSettings
from ..ditto_core.pipeline.motion import MotionOptions
from ..ditto_core.pipeline.plan import named_plan
from ..ditto_core.pipeline.stream_frames import StreamFrames
from ..ditto_core.speech.windows import SAMPLE_RATE
from . import host, media
from .motion import schedule_input, speech_inputs
from .render import chosen_backend, controls_input, engine_input
from .types import (
    CATEGORY,
    AvatarType,
    Engine,
    FramesType,
    Models,
    ModelsType,
    VideoFrames,
    check_choices,
    verdict,
)

_CHUNKS = ("4", "8", "16", "25")
_PLAN = "low-latency"


class DittoStreamChunked(io.ComfyNode):
    """Speech becomes frames in small chunks."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoStreamChunked",
            display_name="Ditto Stream",
            category=CATEGORY,
            description="Replaces Ditto Audio to Motion and Ditto Render: makes motion in small chunks, as a live "
            "stream does. Speech, motion and pictures are made at once when a writer pulls the frames, so that the "
            "first frames are there long before the last motion.",
            inputs=[
                ModelsType.Input("models", tooltip="From Load Ditto Models."),
                AvatarType.Input("avatar", tooltip="The presenter."),
                *speech_inputs(),
                io.Combo.Input(
                    "chunk",
                    options=list(_CHUNKS),
                    default="8",
                    tooltip="New frames of each motion window: small ones answer sooner and cost more.",
                ),
                engine_input(),
                controls_input(),
                schedule_input(),
            ],
            outputs=[FramesType.Output(display_name="frames", tooltip="To NVENC Video Writer.")],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def validate_inputs(cls, chunk: Any) -> bool | str:
        """Checks the word."""
        return verdict(lambda word: check_choices({"chunk": (str(word), _CHUNKS)}), chunk)

    @classmethod
    def execute(
        cls,
        models: Models,
        avatar: Avatar,
        audio: dict[str, Any],
        emotion: str,
        seed: int,
        steps: int,
        guidance: float,
        chunk: str,
        engine: Engine | None = None,
        controls: ControlSettings | None = None,
        emotion_schedule: Emotion | None = None,
    ) -> io.NodeOutput:
        """Puts the parts together."""
        check_choices({"emotion": (emotion, EMOTIONS), "chunk": (str(chunk), _CHUNKS)})
        backend, needed = chosen_backend(models, engine)
        sound = media.sound_of(audio)
        plan = named_plan(_PLAN, chunk=int(chunk))
        frames = StreamFrames(
            models=models.networks,
            encoder=models.encoder,
            backend=backend,
            avatar=avatar,
            sound=sound,
            motion=MotionOptions(
                plan=plan, seed=seed, steps=steps or None, guidance=guidance, emotion=emotion_schedule or emotion
            ),
            controls=(controls or ControlSettings()).controls(sound.frames, sound),
        )
        milliseconds = plan.look_ahead * 1000 // SAMPLE_RATE
        host.say_on_node(
            f"{_PLAN}, chunks of {chunk}: {milliseconds} ms of sound must have arrived before its frame can be drawn",
            cls.hidden.unique_id,
        )
        return io.NodeOutput(VideoFrames(recipe=frames, models=needed, sound=sound))

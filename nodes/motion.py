"""Driving motion: made of speech, with emotions, and what is changed about it later."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..ditto_core.avatar import Avatar
from ..ditto_core.motion.conditions import EMOTIONS, Emotion
from ..ditto_core.motion.diffusion import GUIDANCE
from ..ditto_core.motion.readings import read_motion
from ..ditto_core.motion.schedule import read_schedule
from ..ditto_core.motion.settings import ControlSettings
from ..ditto_core.pipeline.frames import check_made_with
from ..ditto_core.pipeline.motion import MotionOptions, make_motion
from . import host, media
from .plot import draw_motion
from .types import (
    CATEGORY,
    AvatarType,
    ControlsType,
    EmotionType,
    Models,
    ModelsType,
    Motion,
    MotionType,
    check_choices,
    verdict,
)

_LARGEST_SEED = 0xFFFF_FFFF_FFFF_FFFF
_BLINKS = ("as driven", "none")


def speech_inputs() -> list[io.Input]:
    """What both nodes that make motion of speech ask for."""
    return [
        io.Audio.Input("audio", tooltip="What is said: any rate, any number of channels."),
        io.Combo.Input(
            "emotion", options=list(EMOTIONS), default="neutral", tooltip="The emotion of the whole speech."
        ),
        io.Int.Input(
            "seed",
            default=0,
            min=0,
            max=_LARGEST_SEED,
            control_after_generate=True,
            tooltip="Of the motion's noise; one seed gives one motion.",
        ),
        io.Int.Input(
            "steps",
            default=0,
            min=0,
            max=1000,
            tooltip="Steps of the motion sampler; 0 takes the models' own number.",
        ),
        io.Float.Input(
            "guidance",
            default=GUIDANCE,
            min=0.0,
            max=20.0,
            step=0.1,
            tooltip="How strongly the motion follows the speech; 1 is without guidance, and twice as fast.",
        ),
    ]


def schedule_input() -> io.Input:
    """Emotions over time in place of one."""
    return EmotionType.Input(
        "emotion_schedule",
        optional=True,
        tooltip="Emotions over time, from Ditto Emotion Schedule or Ditto Bulletin Segment; counts in place of "
        "the emotion above.",
    )


class DittoAudioToMotion(io.ComfyNode):
    """Speech becomes motion."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoAudioToMotion",
            display_name="Ditto Audio to Motion",
            category=CATEGORY,
            description="Makes the motion of a whole speech, and draws how far the mouth opens and how the head "
            "turns over the sound.",
            inputs=[
                ModelsType.Input("models", tooltip="From Load Ditto Models."),
                AvatarType.Input("avatar", tooltip="The presenter who speaks."),
                *speech_inputs(),
                schedule_input(),
            ],
            outputs=[MotionType.Output(display_name="motion", tooltip="To Ditto Render.")],
        )

    @classmethod
    def validate_inputs(cls, emotion: str | None) -> bool | str:
        """Checks the word."""
        return verdict(lambda word: check_choices({"emotion": (word, EMOTIONS)}), emotion)

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
        emotion_schedule: Emotion | None = None,
    ) -> io.NodeOutput:
        """Makes the motion."""
        check_made_with(models.networks, avatar=avatar.models)
        host.bring_in(models)
        sound = media.sound_of(audio)
        options = MotionOptions(seed=seed, steps=steps or None, guidance=guidance, emotion=emotion_schedule or emotion)
        track = make_motion(
            models.networks,
            models.encoder,
            avatar,
            sound,
            options,
            progress=lambda _, done, total: host.show_progress(done, total),
            check_cancelled=host.check_interrupted,
        )
        plot = draw_motion(sound, read_motion(avatar, track))
        return io.NodeOutput(Motion(track=track, sound=sound), ui=host.show_picture(plot))


class DittoEmotionSchedule(io.ComfyNode):
    """Emotions over time."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoEmotionSchedule",
            display_name="Ditto Emotion Schedule",
            category=CATEGORY,
            description="One emotion after another, or several at once.",
            inputs=[
                io.String.Input(
                    "schedule",
                    multiline=True,
                    default="0 neutral\n2 happy\n4 happy 0.6, surprise 0.4",
                    tooltip="One line an emotion: seconds, then a name, or names with weights between commas. Names: "
                    + ", ".join(EMOTIONS),
                ),
                io.Float.Input(
                    "fade",
                    default=0.4,
                    min=0.0,
                    max=60.0,
                    step=0.04,
                    tooltip="Seconds over which each emotion passes to the next.",
                ),
            ],
            outputs=[
                EmotionType.Output(display_name="emotion_schedule", tooltip="To Ditto Audio to Motion or Ditto Stream.")
            ],
        )

    @classmethod
    def validate_inputs(cls, schedule: str | None) -> bool | str:
        """Reads the schedule; that its lines leave room for the fade is an error of `execute`."""
        return verdict(read_schedule, schedule)

    @classmethod
    def execute(cls, schedule: str, fade: float) -> io.NodeOutput:
        """Reads the schedule."""
        return io.NodeOutput(read_schedule(schedule, fade=fade))


class DittoControls(io.ComfyNode):
    """What is changed about a driven face."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""

        def degrees(name: str, what: str) -> io.Input:
            return io.Float.Input(
                name, default=0.0, min=-60.0, max=60.0, step=0.5, tooltip=f"Degrees {what}, in every frame."
            )

        return io.Schema(
            node_id="DittoControls",
            display_name="Ditto Controls",
            category=CATEGORY,
            description="Changes how motion moves the face, without making the motion again. Several of these in a "
            "row add up: degrees are added, factors multiplied.",
            inputs=[
                degrees("pitch", "added to the head's pitch"),
                degrees("yaw", "added to the head's yaw"),
                degrees("roll", "added to the head's roll"),
                io.Float.Input(
                    "expression_scale",
                    default=1.0,
                    min=0.0,
                    max=3.0,
                    step=0.05,
                    tooltip="How strongly the face moves; 1 as driven, 0 not at all.",
                ),
                io.Float.Input(
                    "gaze",
                    default=1.0,
                    min=0.0,
                    max=3.0,
                    step=0.05,
                    tooltip="How much the eyes make up for turns of the head, to keep looking at the camera.",
                ),
                degrees("gaze_yaw", "by which the eyes look further to the side"),
                degrees("gaze_pitch", "by which the eyes look further up or down"),
                io.Combo.Input(
                    "blink",
                    options=list(_BLINKS),
                    tooltip="As the motion drives the eyes, or none: they stay as in the presenter's picture.",
                ),
                io.Float.Input(
                    "fade_in",
                    default=0.0,
                    min=0.0,
                    max=60.0,
                    step=0.04,
                    tooltip="Seconds over which the expression rises at the start.",
                ),
                io.Float.Input(
                    "fade_out",
                    default=0.0,
                    min=0.0,
                    max=60.0,
                    step=0.04,
                    tooltip="Seconds over which the expression falls back at the end.",
                ),
                io.Boolean.Input(
                    "vad",
                    default=False,
                    tooltip="Voice activity: let the lips rest where the sound is silent.",
                ),
                ControlsType.Input("controls", optional=True, tooltip="Controls that come before these."),
            ],
            outputs=[ControlsType.Output(display_name="controls", tooltip="To Ditto Render or Ditto Stream.")],
        )

    @classmethod
    def validate_inputs(cls, blink: str | None) -> bool | str:
        """Checks the word."""
        return verdict(lambda word: check_choices({"blink": (word, _BLINKS)}), blink)

    @classmethod
    def execute(cls, blink: str, vad: bool, controls: ControlSettings | None = None, **numbers: float) -> io.NodeOutput:
        """Adds these settings to those before."""
        check_choices({"blink": (blink, _BLINKS)})
        settings = ControlSettings(blinks=blink == "as driven", rest_in_pauses=vad, **numbers)
        return io.NodeOutput(settings if controls is None else controls.then(settings))

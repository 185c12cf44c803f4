"""What goes along the links between nodes. All values are immutable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from comfy_api.latest import io

from ..ditto_core.backends import RenderBackend
from ..ditto_core.checkpoints import DittoModels
from ..ditto_core.errors import InvalidValueError
from ..ditto_core.motion.track import MotionTrack
from ..ditto_core.pipeline.frames import FrameRecipe
from ..ditto_core.speech import Sound, SpeechEncoder

CATEGORY = "Ditto"

ModelsType = io.Custom("DITTO_MODELS")
EngineType = io.Custom("DITTO_ENGINE")
AvatarType = io.Custom("DITTO_AVATAR")
EmotionType = io.Custom("DITTO_EMOTION")
MotionType = io.Custom("DITTO_MOTION")
ControlsType = io.Custom("DITTO_CONTROLS")
FramesType = io.Custom("DITTO_FRAMES")


@dataclass(frozen=True, kw_only=True, eq=False)
class Models:
    """DITTO_MODELS.

    Attributes:
        networks: the six networks.
        encoder: the speech encoder that belongs to them.
        backend: what draws faces with them, where no engine is given.
        patcher: ComfyUI's handle of their memory. Whoever runs them calls `host.bring_in` before.
    """

    networks: DittoModels
    encoder: SpeechEncoder = field(repr=False)
    backend: RenderBackend = field(repr=False)
    patcher: Any = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Engine:
    """DITTO_ENGINE.

    Attributes:
        backend: what draws the faces.
        models: whose networks it runs.
    """

    backend: RenderBackend
    models: Models


@dataclass(frozen=True, kw_only=True, eq=False)
class Motion:
    """DITTO_MOTION.

    Attributes:
        track: the driving motion.
        sound: what it was made of.
    """

    track: MotionTrack = field(repr=False)
    sound: Sound


@dataclass(frozen=True, kw_only=True, eq=False)
class VideoFrames:
    """DITTO_FRAMES.

    Attributes:
        recipe: whoever pulls it renders.
        models: all models that run then.
        sound: what is heard, where nothing else is said.
    """

    recipe: FrameRecipe
    models: tuple[Models, ...]
    sound: Sound


def choices_problem(choices: dict[str, tuple[Any, Sequence[Any]]]) -> str | None:
    """The first value that is none of its choices, in words; ComfyUI does not check V3 combos.

    Args:
        choices: by input: the value, None where it comes by a link, and what it may be.
    """
    for name, (value, allowed) in choices.items():
        if value is not None and value not in allowed:
            return str(InvalidValueError(f"{name} {value!r}", remedy=f"choose {', '.join(map(str, allowed))}"))
    return None

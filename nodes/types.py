"""What goes along the links between nodes. All values are immutable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from comfy_api.latest import io

from ..ditto_core.backends import RenderBackend
from ..ditto_core.checkpoints import DittoModels
from ..ditto_core.errors import DittoError, InvalidValueError
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


def check_choices(choices: Mapping[str, tuple[Any, Sequence[Any]]]) -> None:
    """Checks words, which ComfyUI does not do for V3 combos.

    Args:
        choices: by input: the value, and what it may be.

    Raises:
        InvalidValueError: the first value that is none of its choices.
    """
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            raise InvalidValueError(f"{name} {value!r}", remedy=f"choose {', '.join(map(str, allowed))}")


def verdict(check: Callable[[Any], object], value: Any) -> bool | str:
    """What `validate_inputs` answers about the one input that it names: True, or what is wrong, in words.

    ComfyUI repeats the answer for each input that `validate_inputs` names. The others are checked by `execute`.

    Args:
        check: raises DittoError where the value can't be used.
        value: None where it comes by a link; a list where ComfyUI itself has found it to be none.
    """
    if value is None or isinstance(value, list):
        return True
    try:
        check(value)
    except DittoError as error:
        return str(error)
    return True


def choices_problem(choices: Mapping[str, tuple[Any, Sequence[Any]]]) -> str | None:
    """As `check_choices`, in words; a value of None comes by a link."""
    try:
        check_choices({name: choice for name, choice in choices.items() if choice[0] is not None})
    except InvalidValueError as error:
        return str(error)
    return None

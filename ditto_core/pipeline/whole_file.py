"""The whole-file driver: a sound and an avatar in, a finished video file out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..avatar import Avatar
from ..backends import RenderBackend
from ..checkpoints import DittoModels
from ..motion.controls import MotionControls
from ..progress import Progress
from ..render import RenderOptions
from ..speech import Sound, SpeechEncoder
from ..video import EncoderOptions
from .motion import MotionOptions, make_motion
from .speech_frames import SpeechFrames
from .write import write_video

__all__ = ["MotionOptions", "Progress", "make_motion", "render_file"]

_MOTION, _CONTROLS, _RENDER, _VIDEO = MotionOptions(), MotionControls(), RenderOptions(), EncoderOptions()


def render_file(
    models: DittoModels,
    encoder: SpeechEncoder,
    backend: RenderBackend,
    avatar: Avatar,
    sound: Sound,
    out: str | Path,
    *,
    motion: MotionOptions = _MOTION,
    controls: MotionControls = _CONTROLS,
    render: RenderOptions = _RENDER,
    video: EncoderOptions = _VIDEO,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Renders a whole video file. The file appears under its name when it is whole.

    Args:
        models: the networks.
        encoder: the speech encoder that belongs to them.
        backend: what draws the faces.
        avatar: the presenter.
        sound: what is said; it goes into the file with all its channels.
        out: the .mp4 file.
        motion: how motion is made.
        controls: what is changed about it.
        render: batch (the plan's own where None) and cadence.
        video: encoder, quality and frame rate of the file.
        progress: called with ("motion", "warm-up" or "frames", done, all).
        check_cancelled: called before each sampler step and each chunk of frames; raises to stop.

    Returns:
        The report, see `write_video`. `ttff_ms` and `realtime_factor` leave out loading, registration and the
        backend's warm-up, which is a stage of its own.

    Raises:
        InvalidValueError: an option is out of range, or parts do not belong together.
        EncoderError: the encoder asked for does not open.
        FileError: the file can't be written.
    """
    frames = SpeechFrames(
        models=models,
        encoder=encoder,
        backend=backend,
        avatar=avatar,
        sound=sound,
        motion=motion,
        controls=controls,
        options=render,
    )
    return write_video(frames, out, sound=sound, video=video, progress=progress, check_cancelled=check_cancelled)

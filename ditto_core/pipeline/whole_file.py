"""The whole-file driver: a sound and an avatar in, a finished video file out."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..avatar import Avatar
from ..backends import RenderBackend
from ..checkpoints import DittoModels
from ..errors import InvalidValueError
from ..motion.conditions import Conditions
from ..motion.controls import MotionControls
from ..motion.diffusion import GUIDANCE
from ..motion.generate import generate_motion
from ..motion.track import MotionTrack
from ..render import Renderer, RenderOptions
from ..speech import Sound, SpeechEncoder, analysis_signal, speech_features
from ..speech.windows import ROW_SAMPLES
from ..video import EncoderOptions, video_file
from .frames import Frames
from .plan import Plan, named_plan
from .timing import StageClock, peak_memory_mb

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, all)."""

_SPEECH_BATCH = 16


@dataclass(frozen=True, kw_only=True)
class MotionOptions:
    """How motion is made.

    Attributes:
        plan: how sound becomes windows of motion.
        seed: of the noise.
        steps: sampler steps, 1 to 1000; None is the preset's own.
        guidance: weight of classifier-free guidance; 1 means none.
        emotion: see `motion.conditions.Emotion.of`.
    """

    plan: Plan = named_plan("offline")
    seed: int = 0
    steps: int | None = None
    guidance: float = GUIDANCE
    emotion: Any = "neutral"


_MOTION, _CONTROLS, _RENDER, _VIDEO = MotionOptions(), MotionControls(), RenderOptions(), EncoderOptions()


def make_motion(
    models: DittoModels,
    encoder: SpeechEncoder,
    avatar: Avatar,
    sound: Sound,
    options: MotionOptions,
    *,
    clock: StageClock | None = None,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> MotionTrack:
    """Speech and motion of a whole sound.

    Args:
        models: the networks.
        encoder: the speech encoder that belongs to them.
        avatar: the presenter.
        sound: what is said.
        options: plan, seed, steps, guidance and emotion.
        clock: counts the stages "speech" and "motion".
        progress: called after each window of motion.
        check_cancelled: called before each sampler step; raises to stop.

    Raises:
        InvalidValueError: an option is out of range, or the plan makes no frame of so short a sound.
    """
    clock = clock or StageClock(models.device)
    plan = options.plan
    with clock.stage("speech"):
        signal = analysis_signal(sound)
        geometry = plan.speech
        features = speech_features(
            signal, encoder, hop=plan.hop, lead=geometry.lead, batch=_SPEECH_BATCH, rows=plan.rows(len(signal))
        )
        silence = silent_features(encoder, plan)
    with clock.stage("motion"):
        return generate_motion(
            models.lmdm,
            features.to(models.device),
            Conditions.of(avatar, options.emotion),
            plan,
            seed=options.seed,
            steps=models.preset.default_steps if options.steps is None else options.steps,
            guidance=options.guidance,
            silence=None if silence is None else silence.to(models.device),
            models=models.fingerprint,
            progress=None if progress is None else lambda done, total: progress("motion", done, total),
            check_cancelled=check_cancelled,
        )


def silent_features(encoder: SpeechEncoder, plan: Plan) -> torch.Tensor | None:
    """Features of the silence before the sound, (plan.silence, F); None where the plan has none."""
    if not plan.silence:
        return None
    geometry = plan.speech
    signal = np.zeros(plan.silence * ROW_SAMPLES, np.float32)
    return speech_features(signal, encoder, hop=plan.hop, lead=geometry.lead, batch=_SPEECH_BATCH, rows=plan.silence)


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
        video: encoder, quality and frame rate.
        progress: called with ("motion" or "frames", done, all).
        check_cancelled: called before each sampler step and each chunk of frames; raises to stop.

    Returns:
        The report, ready for JSON: figures of the run, and for each frame the mouth's polygon and the face's
        box in pixels. `ttff_ms` is from the sound in memory to the first video packet at the muxer,
        `realtime_factor` seconds of video a second of work, without loading and registration.

    Raises:
        InvalidValueError: an option is out of range, or parts do not belong together.
        EncoderError: the encoder asked for does not open.
        FileError: the file can't be written.
    """
    check = check_cancelled or (lambda: None)
    if video.fps != 25:
        raise InvalidValueError(f"{video.fps} frames a second", remedy="use 25, the rate of the motion")
    render = dataclasses.replace(render, batch=render.batch or motion.plan.render_batch)
    clock = StageClock(models.device)
    if models.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(models.device)
    mouths: list[list[list[float]]] = []
    boxes: list[list[int]] = []
    with (
        contextlib.ExitStack() as ending,
        video_file(out, size=avatar.frames.size, sound=sound, options=video) as writer,
    ):
        track = make_motion(
            models, encoder, avatar, sound, motion, clock=clock, progress=progress, check_cancelled=check
        )
        frames = Frames(models=models, backend=backend, avatar=avatar, track=track, controls=controls, options=render)
        chunks = iter(frames)
        while len(boxes) < len(frames):
            check()
            with clock.stage("render"):
                chunk = next(chunks)
            with clock.stage("encode"):
                writer.write(chunk.pictures)
            mouths += [[[round(v, 2) for v in point] for point in polygon] for polygon in chunk.mouths.tolist()]
            boxes += [list(box) for box in chunk.face_boxes]
            if progress is not None:
                progress("frames", len(boxes), len(frames))
        ending.enter_context(clock.stage("finish"))
    first_packet, written = writer.first_packet_at, writer.report()
    wall = clock.since_start()
    return {
        "frames": len(frames),
        "fps": str(frames.fps),
        "size": [frames.size[1], frames.size[0]],
        "duration_s": written["duration_s"],
        "wall_s": round(wall, 3),
        "ttff_ms": None if first_packet is None else round(clock.since_start(first_packet) * 1000, 1),
        "realtime_factor": round(written["duration_s"] / wall, 3),
        "encoder": written["encoder"],
        "quality": written["quality"],
        "executed_by": {
            "speech": encoder.executed_by,
            "motion": f"torch on {models.device}",
            "render": Renderer(backend, avatar, render).executed_by,
            "encode": written["executed_by"],
        },
        "seed": track.seed,
        "steps": models.preset.default_steps if motion.steps is None else motion.steps,
        "plan": motion.plan.to_json(),
        "models": {"source": models.describe(), "trained": models.trained, "fingerprint": models.fingerprint},
        "stages_ms": clock.stages_ms(),
        "peak_memory_mb": peak_memory_mb(models.device),
        "mouth_polygons": mouths,
        "face_boxes": boxes,
    }

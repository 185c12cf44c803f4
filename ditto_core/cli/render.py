"""`render`: a portrait and a voice in, a talking-head video out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from ..avatar import Avatar, CropRequest, analysis_for, register
from ..backends import PRECISIONS, choose_backend, precision_type
from ..checkpoints import MINIATURE_SOURCE, DittoModels, load_models
from ..errors import InvalidValueError
from ..files import replaced_file
from ..motion.conditions import EMOTIONS
from ..networks.presets import WINDOW_ROWS
from ..pipeline.plan import PLAN_NAMES, Plan, named_plan
from ..pipeline.whole_file import MotionOptions, render_file
from ..render import RenderOptions
from ..speech import read_sound, speech_encoder_for
from ..video import ENCODERS, QUALITIES, EncoderOptions
from .output import ProgressLine, say

AVATAR_FILE = ".safetensors"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `render`."""
    parser = commands.add_parser("render", help="a portrait and a voice in, a talking-head video out")
    parser.add_argument("--avatar", type=Path, required=True, metavar="FILE", help="picture, video or saved avatar")
    parser.add_argument("--speech", type=Path, required=True, metavar="FILE", help="any sound or video with sound")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .mp4 to write")
    add_model_options(parser)
    add_avatar_options(parser)
    add_motion_options(parser)
    parser.add_argument(
        "--overlap", type=int, metavar="N", help="rows that motion windows share, 10..79; by default the plan's own"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="faces drawn at once, 1..64; by default the plan's own")
    parser.add_argument("--cadence", type=int, choices=(1, 2), default=1, help="2 draws every second face only")
    parser.add_argument("--encoder", choices=ENCODERS, default=EncoderOptions().encoder)
    parser.add_argument("--quality", choices=QUALITIES, default=EncoderOptions().quality)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what was done and measured, as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress, no closing line")
    parser.set_defaults(run=_render)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Which networks, where, and how they run."""
    parser.add_argument(
        "--models", default=MINIATURE_SOURCE, metavar="DIR", help="model folder, or 'miniature' (the default)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--backend", default="auto", metavar="NAME", help="what draws the faces: auto or torch")
    parser.add_argument("--engine", type=Path, metavar="FILE", help="a built engine; this version runs none yet")
    parser.add_argument("--precision", choices=("auto", *PRECISIONS), default="auto")


def add_avatar_options(parser: argparse.ArgumentParser) -> None:
    """Where the face is."""
    parser.add_argument(
        "--crop", default="auto", metavar="WHERE", help="auto, full, or X,Y,SIZE[,DEGREES] in the picture's pixels"
    )
    parser.add_argument("--face", type=int, default=0, metavar="N", help="which face, from 0 by falling size")


def add_motion_options(parser: argparse.ArgumentParser) -> None:
    """How the face moves."""
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--steps", type=int, metavar="N", help="sampler steps, 1..1000; by default the preset's own")
    parser.add_argument("--emotion", choices=EMOTIONS, default="neutral")
    parser.add_argument("--plan", choices=PLAN_NAMES, default="offline", help="how sound becomes windows of motion")


def chosen_device(word: str) -> torch.device:
    """The device of auto, cpu or cuda.

    Raises:
        InvalidValueError: cuda is asked for, and torch sees no GPU.
    """
    available = torch.cuda.is_available()
    if word == "cuda" and not available:
        raise InvalidValueError(
            "device cuda, where torch sees no GPU", remedy="use --device cpu, or see `python -m ditto_core doctor`"
        )
    return torch.device("cuda" if available and word != "cpu" else "cpu")


def open_models(options: argparse.Namespace) -> DittoModels:
    """The networks that the options ask for."""
    device = chosen_device(options.device)
    return load_models(options.models, device=device, dtype=precision_type(options.precision, device))


def open_avatar(options: argparse.Namespace, models: DittoModels) -> Avatar:
    """The avatar that the options ask for: a saved one, or a picture or video that is registered now."""
    crop = CropRequest.parse(options.crop)
    if options.avatar.suffix == AVATAR_FILE:
        return Avatar.load(options.avatar, models=models.fingerprint)
    return register(options.avatar, models, analysis=analysis_for(models, crop), crop=crop, face=options.face)


def chosen_plan(name: str, overlap: int | None) -> Plan:
    """A named plan, with another overlap where one is given.

    Raises:
        InvalidValueError: the overlap is out of range.
    """
    if overlap is None:
        return named_plan(name)
    if not 10 <= overlap < WINDOW_ROWS:
        raise InvalidValueError(f"an overlap of {overlap} rows", remedy=f"choose 10 to {WINDOW_ROWS - 1}")
    return named_plan(name, chunk=WINDOW_ROWS - overlap)


def write_report(path: Path, report: dict[str, Any]) -> None:
    """Writes a report as JSON, whole or not at all."""
    with replaced_file(path) as partial:
        partial.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _render(options: argparse.Namespace) -> int:
    if options.engine is not None:
        raise InvalidValueError(f"engine {options.engine}: this version runs none", remedy="leave --engine out")
    motion = MotionOptions(
        plan=chosen_plan(options.plan, options.overlap),
        seed=options.seed,
        steps=options.steps,
        emotion=options.emotion,
    )
    render = RenderOptions(batch=options.batch, cadence=options.cadence)
    video = EncoderOptions(encoder=options.encoder, quality=options.quality)
    models = open_models(options)
    backend = choose_backend(options.backend, models)
    sound = read_sound(options.speech)
    avatar = open_avatar(options, models)
    progress = ProgressLine(quiet=options.quiet)
    try:
        report = render_file(
            models,
            speech_encoder_for(models),
            backend,
            avatar,
            sound,
            options.out,
            motion=motion,
            render=render,
            video=video,
            progress=progress,
        )
    finally:
        progress.clear()
    if options.report is not None:
        write_report(options.report, report)
    if not options.quiet:
        say(
            f"{options.out}: {report['frames']} frames, {report['duration_s']:.2f} s, {report['encoder']}; "
            f"rendered in {report['wall_s']:.1f} s ({report['realtime_factor']:.2f} x real time) "
            f"with {report['models']['source']}"
        )
    return 0

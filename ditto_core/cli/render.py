"""`render`: a portrait and a voice in, a talking-head video out."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

from ..avatar import Avatar, CropRequest
from ..avatar import open_avatar as load_or_register
from ..backends import BACKENDS, PRECISIONS, RenderBackend, choose_backend, choose_device, precision_type
from ..checkpoints import MINIATURE_SOURCE, DittoModels, load_models
from ..errors import InvalidValueError
from ..files import write_whole
from ..media import read_image
from ..motion.conditions import EMOTIONS
from ..networks.presets import WINDOW_ROWS
from ..pipeline.backdrop import BackdropFrames
from ..pipeline.motion import MotionOptions
from ..pipeline.plan import PLAN_NAMES, Plan, named_plan
from ..pipeline.speech_frames import SpeechFrames
from ..pipeline.write import write_alpha, write_video
from ..progress import Progress
from ..render import GreenScreen, RenderOptions
from ..speech import read_sound, speech_encoder_for
from ..video import ENCODERS, QUALITIES, EncoderOptions
from .output import ProgressLine, say


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `render`."""
    parser = commands.add_parser("render", help="a portrait and a voice in, a talking-head video out")
    parser.add_argument("--avatar", type=Path, required=True, metavar="FILE", help="picture, video or saved avatar")
    parser.add_argument("--speech", type=Path, required=True, metavar="FILE", help="any sound or video with sound")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="the .mp4 or .ts to write; with alpha, from a green screen: a .mov, or a folder (no ending) of PNG files",
    )
    add_model_options(parser)
    add_avatar_options(parser)
    add_motion_options(parser)
    parser.add_argument(
        "--overlap", type=int, metavar="N", help="rows that motion windows share, 10..79; by default the plan's own"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="faces drawn at once, 1..64; by default the plan's own")
    parser.add_argument("--cadence", type=int, choices=(1, 2), default=1, help="2 draws every second face only")
    add_video_options(parser)
    parser.add_argument("--fragmented", action="store_true", help="an .mp4 that is playable while it grows")
    parser.add_argument(
        "--background", type=Path, metavar="FILE", help="picture to show in place of the avatar's green screen"
    )
    parser.add_argument("--report", type=report_path, metavar="FILE", help="write what was done and measured, as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress, no closing line")
    parser.set_defaults(run=_render)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Which networks, where, and how they run."""
    parser.add_argument(
        "--models", default=MINIATURE_SOURCE, metavar="DIR", help="model folder, or 'miniature' (the default)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument(
        "--backend", default="auto", metavar="NAME", help=f"what draws the faces: auto or {', '.join(BACKENDS)}"
    )
    parser.add_argument(
        "--engine", type=Path, metavar="FILE", help="an engine that `engine build` made from these models"
    )
    parser.add_argument("--precision", choices=("auto", *PRECISIONS), default="auto")


def add_avatar_options(parser: argparse.ArgumentParser) -> None:
    """Where the face is."""
    parser.add_argument(
        "--crop", default="auto", metavar="WHERE", help="auto, full, or X,Y,SIZE[,DEGREES] in the picture's pixels"
    )
    parser.add_argument("--face", type=int, default=0, metavar="N", help="which face, from 0 by falling size")


def add_motion_options(
    parser: argparse.ArgumentParser, *, plans: Sequence[str] = PLAN_NAMES, plan: str = "offline"
) -> None:
    """How the face moves; `plan` is the default of the plans to choose from."""
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--steps", type=int, metavar="N", help="sampler steps, 1..1000; by default the preset's own")
    parser.add_argument("--emotion", choices=EMOTIONS, default="neutral")
    parser.add_argument("--plan", choices=plans, default=plan, help="how sound becomes windows of motion")


def add_video_options(parser: argparse.ArgumentParser) -> None:
    """How the video is encoded."""
    parser.add_argument("--encoder", choices=ENCODERS, default=EncoderOptions().encoder)
    parser.add_argument("--quality", choices=QUALITIES, default=EncoderOptions().quality)
    parser.add_argument(
        "--crf", type=float, metavar="N", help="1..51 in place of the quality word's own: lower is better"
    )
    parser.add_argument("--bitrate", type=int, metavar="BITS", help="bits a second, in place of a constant quality")
    parser.add_argument("--fps", type=frame_rate, default=EncoderOptions().fps, metavar="N", help="25, 30000/1001, ...")


def frame_rate(text: str) -> Fraction:
    """The rate of a word such as 25 or 30000/1001.

    Raises:
        ArgumentTypeError: it is no number above 0.
    """
    with contextlib.suppress(ValueError, ZeroDivisionError):
        if (rate := Fraction(text)) > 0:
            return rate
    raise argparse.ArgumentTypeError(f"{text!r} is no frame rate; give a number such as 25 or 30000/1001")


def encoder_options(options: argparse.Namespace) -> EncoderOptions:
    """What `add_video_options` asked for."""
    return EncoderOptions(
        encoder=options.encoder, quality=options.quality, crf=options.crf, bitrate=options.bitrate, fps=options.fps
    )


def open_models(options: argparse.Namespace) -> DittoModels:
    """The networks that the options ask for."""
    device = choose_device(options.device)
    return load_models(options.models, device=device, dtype=precision_type(options.precision, device))


def open_backend(options: argparse.Namespace, models: DittoModels) -> RenderBackend:
    """What draws the faces, as the options ask for."""
    if options.engine is None:
        return choose_backend(options.backend, models)
    from ..backends.engines import load_engine  # onnx takes a second to import

    return choose_backend(options.backend, models, load_engine(options.engine, models))


def open_avatar(options: argparse.Namespace, models: DittoModels) -> Avatar:
    """The avatar that the options ask for: a saved one, or a picture or video that is registered now."""
    return load_or_register(options.avatar, models, crop=CropRequest.parse(options.crop), face=options.face)


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


def report_path(text: str) -> Path:
    """Where a report goes; checked before the work begins that it tells of.

    Raises:
        ArgumentTypeError: there is no such folder, or it is not writable.
    """
    path = Path(text)
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} can't be written; name a file in a folder that is writable")
    return path


def write_report(path: Path, report: dict[str, Any]) -> None:
    """Writes a report as JSON, whole or not at all."""
    write_whole(path, (json.dumps(report, indent=1) + "\n").encode())


def _render(options: argparse.Namespace) -> int:
    motion = MotionOptions(
        plan=chosen_plan(options.plan, options.overlap),
        seed=options.seed,
        steps=options.steps,
        emotion=options.emotion,
    )
    video = encoder_options(options)
    if _has_alpha(options.out):
        _refuse_for_alpha(options)
    models = open_models(options)
    frames = SpeechFrames(
        models=models,
        encoder=speech_encoder_for(models),
        backend=open_backend(options, models),
        avatar=open_avatar(options, models),
        sound=read_sound(options.speech),
        motion=motion,
        options=RenderOptions(batch=options.batch, cadence=options.cadence),
    )
    progress = ProgressLine(quiet=options.quiet)
    try:
        report = _write(frames, options, video, progress)
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


def _write(
    frames: SpeechFrames, options: argparse.Namespace, video: EncoderOptions, progress: Progress
) -> dict[str, Any]:
    out, sound = options.out, frames.sound
    with_alpha = _has_alpha(out)
    if not with_alpha and options.background is None:
        return write_video(frames, out, sound=sound, video=video, fragmented=options.fragmented, progress=progress)
    screen = _screen_of(frames.avatar, _alpha_of(out) if with_alpha else "a background")
    if with_alpha:
        if video.fps != frames.fps:
            raise InvalidValueError(
                f"{video.fps} frames a second for pictures with alpha", remedy=f"use {frames.fps}, or write an .mp4"
            )
        return write_alpha(frames, out, screen, sound=sound, progress=progress)
    background = torch.from_numpy(read_image(options.background))
    shown = BackdropFrames(frames=frames, screen=screen, background=background)
    return write_video(shown, out, sound=sound, video=video, fragmented=options.fragmented, progress=progress)


def _has_alpha(out: Path) -> bool:
    return out.suffix.lower() in ("", ".mov")


def _alpha_of(out: Path) -> str:
    if out.suffix:
        return "alpha, as a .mov file has it,"
    return f"{out}, whose name has no ending and so means a folder of PNG files with alpha,"


def _refuse_for_alpha(options: argparse.Namespace) -> None:
    """Refuses options that pictures with alpha would leave without effect."""
    if options.background is not None:
        raise InvalidValueError(f"a background for {options.out}, which has none", remedy="leave one of both out")
    plain = EncoderOptions()
    given = [
        f"--{name}"
        for name, usual in (
            ("encoder", plain.encoder),
            ("quality", plain.quality),
            ("crf", None),
            ("bitrate", None),
            ("fragmented", False),
        )
        if getattr(options, name) != usual
    ]
    if given:
        raise InvalidValueError(
            f"{', '.join(given)} for {options.out}, which is ProRes or PNG and has no such setting",
            remedy="leave them out, or end the name in .mp4",
        )


def _screen_of(avatar: Avatar, wanted: str) -> GreenScreen:
    """The avatar's green screen, which something needs."""
    try:
        return GreenScreen.of(torch.from_numpy(avatar.frames[0]))
    except InvalidValueError as error:
        raise InvalidValueError(
            f"{wanted} needs a presenter before a green screen",
            remedy="write an .mp4 without a background, or name another presenter",
        ) from error

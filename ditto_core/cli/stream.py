"""`stream`: what `render` does, while the sound still arrives, into a growing file or over the network."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..errors import InvalidValueError
from ..pipeline.clock import SystemClock
from ..pipeline.motion import MotionOptions
from ..pipeline.plan import Plan, named_plan
from ..pipeline.session import Session
from ..pipeline.stream import Block, paced, stream_video
from ..render import RenderOptions
from ..speech import Sound, read_sound, speech_encoder_for
from ..speech.resample import check_rate
from ..video.sinks import container_for
from .output import ProgressLine, say
from .render import (
    add_avatar_options,
    add_model_options,
    add_motion_options,
    add_video_options,
    encoder_options,
    open_avatar,
    open_backend,
    open_models,
    report_path,
    write_report,
)

_PLANS = ("low-latency", "upstream")
_STANDARD_INPUT = "-"
_FULL_SCALE = 32768
_BLOCKS_A_SECOND = 50


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `stream`."""
    parser = commands.add_parser("stream", help="the same while the sound arrives, to a growing file or the network")
    parser.add_argument("--avatar", type=Path, required=True, metavar="FILE", help="picture, video or saved avatar")
    parser.add_argument(
        "--speech", required=True, metavar="FILE", help="any sound; or - for raw PCM (s16le) from standard input"
    )
    parser.add_argument("--rate", type=int, default=16000, metavar="N", help="samples a second of raw PCM")
    parser.add_argument("--channels", type=int, default=1, metavar="N", help="channels of raw PCM, 1..8")
    parser.add_argument(
        "--out",
        required=True,
        metavar="TARGET",
        help="an .mp4 (in fragments) or .ts, also at s3://... and the like; or rtmp://, srt://, udp://, tcp://",
    )
    parser.add_argument("--chunk", type=int, metavar="N", help="new frames of a motion window, 1..70: few come sooner")
    parser.add_argument("--paced", action="store_true", help="take the file at the pace of speech, as if it were live")
    add_model_options(parser)
    add_avatar_options(parser)
    add_motion_options(parser, plans=_PLANS, plan=_PLANS[0])
    parser.add_argument("--batch", type=int, metavar="N", help="faces drawn at once, 1..64; by default the plan's own")
    parser.add_argument("--cadence", type=int, choices=(1, 2), default=1, help="2 draws every second face only")
    add_video_options(parser)
    parser.add_argument("--report", type=report_path, metavar="FILE", help="write what was done and measured, as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress, no closing line")
    parser.set_defaults(run=_stream, quality="live")


def streaming_plan(word: str, chunk: int | None) -> Plan:
    """A plan for live sound; upstream's ends with the sound, where the original goes on to the end of a chunk.

    Args:
        word: low-latency or upstream.
        chunk: new frames of a window, or None.
    """
    if word == "upstream":
        return dataclasses.replace(named_plan("upstream-online", chunk=chunk), ending="exact")
    return named_plan(word, chunk=chunk)


def pcm_blocks(source: BinaryIO, *, rate: int, channels: int) -> Iterator[Block]:
    """Raw PCM as it comes: signed 16 bits, little endian, channels interleaved.

    Args:
        source: where it comes from, such as standard input.
        rate: samples a second.
        channels: 1 to 8.

    Yields:
        Blocks of 20 ms, the last one shorter; what is left of an incomplete sample at the end is dropped.
    """
    width = 2 * channels
    size = max(1, rate // _BLOCKS_A_SECOND) * width
    while data := source.read(size):
        values = np.frombuffer(data[: len(data) // width * width], "<i2").reshape(-1, channels)
        yield np.ascontiguousarray(values.T, np.float32) / _FULL_SCALE, rate


def _stream(options: argparse.Namespace) -> int:
    container_for(options.out)
    motion = MotionOptions(
        plan=streaming_plan(options.plan, options.chunk),
        seed=options.seed,
        steps=options.steps,
        emotion=options.emotion,
    )
    video, render = encoder_options(options), RenderOptions(batch=options.batch, cadence=options.cadence)
    sound = _sound(options)
    models = open_models(options)
    clock = SystemClock()
    progress = ProgressLine(quiet=options.quiet or sound is None)
    with Session(
        models=models,
        encoder=speech_encoder_for(models),
        backend=open_backend(options, models),
        avatar=open_avatar(options, models),
        motion=motion,
        options=render,
        clock=clock,
    ) as session:
        if sound is None:
            blocks = _begun(pcm_blocks(sys.stdin.buffer, rate=options.rate, channels=options.channels))
        else:
            blocks = paced(sound, clock) if options.paced else iter([(sound.samples, sound.rate)])
        live = options.paced or sound is None
        try:
            report = stream_video(
                session,
                blocks,
                options.out,
                video=video,
                live=live,
                clock=clock,
                progress=progress,
                total=0 if sound is None else sound.frames,
            )
        finally:
            progress.clear()
    if options.report is not None:
        write_report(options.report, report)
    if not options.quiet:
        first = report["live_ttff_ms"] if live else report["ttff_ms"]
        say(
            f"{report['target']}: {report['frames']} frames, {report['duration_s']:.2f} s, {report['encoder']}; "
            f"the first after {first:.0f} ms, {report['realtime_factor']:.2f} x real time, "
            f"{report['starved_frames']} late, with {report['models']['source']}"
        )
    return 0


def _begun(blocks: Iterator[Block]) -> Iterator[Block]:
    """Blocks of which the first has arrived, so that waiting for it is no part of what is measured."""
    first = next(blocks, None)
    return blocks if first is None else itertools.chain([first], blocks)


def _sound(options: argparse.Namespace) -> Sound | None:
    """The file's sound; None for standard input."""
    if options.speech != _STANDARD_INPUT:
        return read_sound(Path(options.speech))
    check_rate(options.rate)
    if not 1 <= options.channels <= 8:
        raise InvalidValueError(f"raw PCM of {options.channels} channels", remedy="use 1 to 8")
    if options.paced:
        raise InvalidValueError("--paced with standard input, which has its own pace", remedy="leave --paced out")
    return None

"""Measures the other way of encoding: raw RGB frames through a pipe into an ffmpeg process.

It encodes the same frames, as many, with the same encoder and settings as `python -m ditto_core bench --suite
encode`, and counts the system calls a frame of both ways with strace, where that is installed. The JSON that it
writes goes into the suite's report with `--pipe FILE`.

    python tools/bench_pipe.py --report pipe.json
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ditto_core.bench.encode import FRAMES, SIZES, Scene  # noqa: E402
from ditto_core.bench.environment import describe  # noqa: E402
from ditto_core.cli.output import complain, say  # noqa: E402
from ditto_core.files import write_whole  # noqa: E402
from ditto_core.render import nv12_to_rgb  # noqa: E402
from ditto_core.video import EncoderOptions, video_file  # noqa: E402
from ditto_core.video.encoder import encoder_settings, key_frame_distance  # noqa: E402

ENCODER = "libx264"
FEW = 20
"""System calls of so many frames are subtracted, so that starting and ending do not count."""


def ffmpeg_command(size: tuple[int, int], options: EncoderOptions, out: Path) -> list[str]:
    """Ffmpeg reading RGB from its standard input."""
    settings = encoder_settings(ENCODER, options)
    given = [word for name, value in settings.items() for word in (f"-{name}", value)]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[1]}x{size[0]}", "-r", str(options.fps), "-i", "-"]
    colours = ["-vf", "scale=out_color_matrix=bt709:out_range=tv", "-pix_fmt", "yuv420p", "-colorspace", "bt709"]
    encoder = ["-c:v", ENCODER, "-g", str(key_frame_distance(options)), *given]
    return ["ffmpeg", "-loglevel", "error", "-y", *source, *colours, *encoder, "-movflags", "faststart", str(out)]


def through_pipe(frames: Tensor, count: int, size: tuple[int, int], options: EncoderOptions, out: Path) -> None:
    """Writes RGB frames to an ffmpeg process, as is common: a copy to bytes, then through the pipe."""
    with subprocess.Popen(ffmpeg_command(size, options, out), stdin=subprocess.PIPE) as process:
        stdin = process.stdin
        if stdin is None:
            raise RuntimeError("ffmpeg has no standard input")
        for i in range(count):
            stdin.write(frames[i % len(frames)].numpy().tobytes())
        stdin.close()
    if process.returncode:
        raise RuntimeError(f"ffmpeg ended with {process.returncode}")


def in_process(frames: Tensor, count: int, size: tuple[int, int], options: EncoderOptions, out: Path) -> None:
    """Encodes NV12 frames with the package's own writer."""
    with video_file(out, size=size, options=options) as writer:
        for i in range(count):
            writer.write_nv12(frames[i % len(frames)][None])


WAYS = {"pipe": through_pipe, "in_process": in_process}


def encode(way: str, size: tuple[int, int], options: EncoderOptions, count: int) -> dict[str, Any]:
    """Encodes frames one way, and measures it."""
    with torch.inference_mode():
        frames = Scene(size, torch.device("cpu")).frames()
        if way == "pipe":
            frames = nv12_to_rgb(frames)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.mp4"
        cpu, start = sum(os.times()[:4]), time.perf_counter()
        WAYS[way](frames, count, size, options, out)
        wall = time.perf_counter() - start
        frame_bytes = frames[0].numel()
        return {
            "frames_per_s": round(count / wall, 1),
            "cpu_s": round(sum(os.times()[:4]) - cpu, 3),
            # to bytes, into the pipe and out of it
            "bytes_copied": 3 * frame_bytes * count if way == "pipe" else 0,
            "file_bytes": out.stat().st_size,
        }


def system_calls(way: str, size: str, quality: str, count: int) -> dict[str, Any]:
    """System calls a frame of this process and its children, by strace."""
    if shutil.which("strace") is None:
        return {"not_measured": "strace is not installed"}
    totals = []
    for frames in (FEW, count):
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "calls"
            worker = [sys.executable, __file__, "--worker", way, "--size", size, "--frames", str(frames)]
            command = ["strace", "-f", "-c", "-o", str(table), *worker, "--quality", quality]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode or not table.is_file():
                return {"not_measured": f"strace ended with {done.returncode}: {done.stderr[-300:]}"}
            totals.append(int(table.read_text().splitlines()[-1].split()[3]))
    return {"a_frame": round((totals[1] - totals[0]) / (count - FEW), 2), "whole_run": totals[1]}


def main() -> int:
    """Runs both ways at both sizes, or one as a worker under strace."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--quality", default="live", choices=("broadcast", "web", "live"))
    parser.add_argument("--frames", type=int, default=FRAMES, metavar="N", help=f"more than {FEW}")
    parser.add_argument("--worker", choices=tuple(WAYS), help="encode one way only, to be traced")
    parser.add_argument("--size", choices=tuple(SIZES), default=next(iter(SIZES)), help="of the worker")
    arguments = parser.parse_args()
    options = EncoderOptions(encoder=ENCODER, quality=arguments.quality)
    if arguments.worker:
        encode(arguments.worker, SIZES[arguments.size], options, arguments.frames)
        return 0
    if shutil.which("ffmpeg") is None:
        complain("ffmpeg is not installed: there is nothing to compare with")
        return 1
    version = subprocess.run(["ffmpeg", "-version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    report: dict[str, Any] = {
        "environment": describe(),
        "ffmpeg": version,
        "encoder": ENCODER,
        "settings": encoder_settings(ENCODER, options),
        "frames": arguments.frames,
        "sizes": {},
    }
    for name, size in SIZES.items():
        report["sizes"][name] = {}
        for way in WAYS:
            result = encode(way, size, options, arguments.frames)
            result["system_calls"] = system_calls(way, name, arguments.quality, arguments.frames)
            report["sizes"][name][way] = result
            say(f"{name} {way}: {json.dumps(result)}")
    if arguments.report is not None:
        write_whole(arguments.report, (json.dumps(report, indent=1) + "\n").encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""How fast the miniature renders: ten seconds of speech before a 512x512 picture, without loading and registration.

python -m tools.miniature.speed [--out FILE] [--rounds N] [--precision auto|fp32|bf16]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ditto_core.avatar import CropRequest, register
from ditto_core.backends import choose_backend, choose_device, precision_type
from ditto_core.bench.environment import describe
from ditto_core.checkpoints import load_models
from ditto_core.checkpoints.models import BUNDLED
from ditto_core.files import write_whole
from ditto_core.pipeline.whole_file import render_file
from ditto_core.speech import Sound, read_sound, speech_encoder_for

from .presenter import render
from .presenter_cast import cast
from .presenter_parameters import Motion
from .presenter_sheet import to_bytes

_SECONDS = 10
_KEPT = ("frames", "wall_s", "ttff_ms", "realtime_factor", "stages_ms", "executed_by", "steps", "peak_memory_mb")


def repeated(sound: Sound, seconds: int) -> Sound:
    """The sound over and over, to a length."""
    count = seconds * sound.rate
    return Sound(np.resize(sound.samples, (len(sound.samples), count)), sound.rate)


def measure(precision: str, rounds: int) -> dict[str, Any]:
    """Renders `rounds` times; the report of each round, and the median."""
    device = choose_device("auto")
    models = load_models(device=device, dtype=precision_type(precision, device))
    portrait = to_bytes(render(cast(["anna"]), Motion.neutral())[0])
    avatar = register(portrait, models, crop=CropRequest.parse("full"))
    sound = repeated(read_sound(BUNDLED.parent / "news.wav"), _SECONDS)
    encoder, backend = speech_encoder_for(models), choose_backend("auto", models)
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            report = render_file(models, encoder, backend, avatar, sound, Path(folder) / "video.mp4")
            reports.append({key: report[key] for key in _KEPT})
    return {
        "command": "python -m tools.miniature.speed",
        "environment": describe(),
        "size": list(avatar.frames.size),
        "seconds": _SECONDS,
        "realtime_factor": statistics.median(report["realtime_factor"] for report in reports),
        "rounds": reports,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/miniature/speed.json"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="auto")
    given = parser.parse_args()
    result = measure(given.precision, given.rounds)
    write_whole(given.out, (json.dumps(result, indent=1) + "\n").encode())
    sys.stdout.write(f"{given.out}: {result['realtime_factor']} x real time\n")


if __name__ == "__main__":
    main()

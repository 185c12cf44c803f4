"""Streams speech for long, and watches whether memory and threads stay what they are.

python -m tools.soak [--prepared MINUTES] [--real MINUTES] [--out FILE]

Each part runs in a process of its own. Speech, motion, paste-back and encoder are real in both; "prepared" takes its
faces from pictures that were drawn before, so that half an hour of sound takes minutes. Nothing paces the sound: it is
taken as fast as frames are made. Before each look at it, the C library gives back what is free: the process holds tens
of megabytes more and less of that, as it happens that stages work at the same time.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ditto_core.backends import RenderBackend, choose_device, precision_type
from ditto_core.bench.run import Settings
from ditto_core.bench.speaker import Speaker, speech
from ditto_core.pipeline.motion import MotionOptions
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.session import Session
from ditto_core.pipeline.stream import Block, stream_video
from ditto_core.speech.windows import FRAME_RATE
from ditto_core.video import EncoderOptions

from .reports import goal, write_report

LEAST_MINUTES = 0.2
SAMPLES = 240
PREPARED_BATCHES = 3
PAUSE_S = 1
WARM_UP_SHARE, WARM_UP_LIMIT_S = 0.25, 120
TAIL_S = 5
"""Sound that is streamed beyond what is measured: at its end the networks run once with batches of other sizes."""
MOST_GROWTH_MB = 24.0
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The process at one moment.

    Attributes:
        sound_s: seconds of sound that were streamed.
        resident_mb: memory that is in use.
        threads: of the operating system.
    """

    sound_s: float
    resident_mb: float
    threads: int

    @classmethod
    def now(cls, sound_s: float) -> Sample:
        """Gives free memory back, and reads them; Linux with glibc only."""
        ctypes.CDLL(None).malloc_trim(0)
        values = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return cls(sound_s=sound_s, resident_mb=int(values["VmRSS"].split()[0]) / 1024, threads=int(values["Threads"]))


class PreparedBackend:
    """Draws a few batches, and returns those from then on.

    Args:
        backend: what draws them.
    """

    def __init__(self, backend: RenderBackend) -> None:
        self._backend = backend
        self._drawn: list[Tensor] = []
        self._turns = itertools.count()
        self.device, self.executed_by = backend.device, f"prepared pictures of {backend.executed_by}"
        self.volumes, self.warm_up, self.close = backend.volumes, backend.warm_up, backend.close

    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """See `RenderBackend`."""
        if len(self._drawn) < PREPARED_BATCHES:
            self._drawn.append(self._backend.faces(f_s, x_s, x_d))
            return self._drawn[-1]
        return self._drawn[next(self._turns) % PREPARED_BATCHES]


def sentences(seconds: float) -> Iterator[Block]:
    """The bundled sentence over and over with pauses, in blocks of a frame each."""
    sound = speech()
    step = sound.rate // FRAME_RATE
    pause = np.zeros((len(sound.samples), PAUSE_S * sound.rate), np.float32)
    samples = np.concatenate([sound.samples, pause], axis=1)
    blocks = samples.shape[1] // step
    for number in range(round(seconds * FRAME_RATE)):
        first = number % blocks * step
        yield samples[:, first : first + step], sound.rate


def soak(part: str, minutes: float) -> dict[str, Any]:
    """Streams for so many minutes of sound; must run in a process that does nothing else.

    Args:
        part: prepared or real.
        minutes: of sound.

    Returns:
        What ran, the samples, and the verdict; ready for JSON.
    """
    device = choose_device("auto")
    speaker = Speaker.of(Settings(models="miniature", device=device, dtype=precision_type("auto", device)))
    backend = PreparedBackend(speaker.backend) if part == "prepared" else speaker.backend
    total = round(minutes * 60 * FRAME_RATE)
    every = max(1, total // SAMPLES)
    samples: list[Sample] = []

    def watch(stage: str, done: int, _: int) -> None:
        if done % every == 0 and done <= total:
            samples.append(Sample.now(done / FRAME_RATE))

    with Session(
        models=speaker.models,
        encoder=speaker.encoder,
        backend=backend,
        avatar=speaker.avatar(),
        motion=MotionOptions(plan=named_plan("low-latency")),
    ) as session:
        report = stream_video(
            session,
            sentences(minutes * 60 + TAIL_S),
            _dropped,
            video=EncoderOptions(quality="live"),
            progress=watch,
        )
    wanted = ("frames", "size", "duration_s", "wall_s", "realtime_factor", "stages_ms", "executed_by", "encoder")
    return {
        **{name: report[name] for name in wanted},
        **verdict(samples),
        "samples": {"columns": ["sound_s", "resident_mb", "threads"], "rows": [list(astuple(s)) for s in samples]},
    }


def verdict(samples: Sequence[Sample]) -> dict[str, Any]:
    """Whether memory and threads are flat after the warm-up: a quarter of the run, two minutes at most.

    Memory is flat where neither the slope (the median of the slopes between all pairs of samples) makes more than
    `MOST_GROWTH_MB` of the whole time, nor the last third's median is more than that above the first third's.
    Threads are flat where the last third has no more than the first.
    """
    end = samples[-1].sound_s
    measured = [s for s in samples if s.sound_s >= min(WARM_UP_SHARE * end, WARM_UP_LIMIT_S)]
    minutes = np.array([s.sound_s for s in measured]) / 60
    memory = np.array([s.resident_mb for s in measured])
    threads = [s.threads for s in measured]
    earlier, later = np.triu_indices(len(measured), 1)
    slope = float(np.median((memory[later] - memory[earlier]) / (minutes[later] - minutes[earlier])))
    third = max(1, len(measured) // 3)
    growth = slope * float(minutes[-1] - minutes[0])
    first, last = float(np.median(memory[:third])), float(np.median(memory[-third:]))
    goals = [
        goal("memory_growth_mb", round(growth, 2), most=MOST_GROWTH_MB),
        goal("growth_from_first_to_last_third_mb", round(last - first, 2), most=MOST_GROWTH_MB),
        goal("more_threads", max(threads[-third:]) - max(threads[:third]), most=0),
    ]
    return {
        "slope_mb_a_minute": slope,
        "median_mb": {"first_third": first, "last_third": last},
        "peak_mb": float(memory.max()),
        "threads": {"least": min(threads), "most": max(threads)},
        "goals": goals,
        "flat": all(item["met"] for item in goals),
    }


def _dropped(data: bytes) -> None:
    """A target that takes everything."""


def main() -> int:
    """The command; 1 where a part is not flat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=float, default=30, metavar="MINUTES", help="of sound; 0 leaves it out")
    parser.add_argument("--real", type=float, default=3, metavar="MINUTES", help="of sound; 0 leaves it out")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/soak.json"), metavar="FILE")
    given = parser.parse_args()
    if not _STATUS.is_file() or not hasattr(ctypes.CDLL(None), "malloc_trim"):
        parser.error(f"memory is measured through {_STATUS} and glibc, which only Linux has")
    chosen = {"prepared": given.prepared, "real": given.real}
    if any(minutes and minutes < LEAST_MINUTES for minutes in chosen.values()):
        parser.error(f"less than {LEAST_MINUTES} minutes say nothing; 0 leaves a part out")
    report: dict[str, Any] = {}
    for part, minutes in chosen.items():
        if minutes:
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                report[part] = process.submit(soak, part, minutes).result()
            found = report[part]
            sys.stdout.write(
                f"{part}: {'flat' if found['flat'] else 'NOT FLAT'}, {found['slope_mb_a_minute']:.2f} MB a minute, "
                f"{found['threads']['most']} threads; {found['frames']} frames, {found['realtime_factor']} x\n"
            )
    command = f"python -m tools.soak --prepared {given.prepared:g} --real {given.real:g}"
    write_report(given.out, command, report)
    return 0 if all(found["flat"] for found in report.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())

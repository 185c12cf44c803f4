"""The suite `ttff`: how soon the first frame comes, and how fast the others follow, for chunks of several sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from ..avatar import Avatar
from ..backends import RenderBackend, choose_backend
from ..pipeline.clock import SystemClock
from ..pipeline.motion import MotionOptions
from ..pipeline.plan import Plan, named_plan
from ..pipeline.session import Session
from ..pipeline.speech_frames import SpeechFrames
from ..pipeline.stream import paced, stream_video
from ..pipeline.write import write_video
from ..speech import Sound
from ..speech.windows import FRAME_RATE
from ..video import EncoderOptions
from .run import Result, Settings, Stage
from .speaker import Speaker, speech

_CHUNKS = (25, 16, 8, 4)
_UPSTREAM_CHUNK = 10
_VIDEO = EncoderOptions(quality="live")


class TtffSuite:
    """The stages, and what they share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def speaker(self) -> Speaker:
        """Networks, speech encoder, and the fastest backend of the device."""
        return Speaker.of(self.settings)

    @cached_property
    def avatar(self) -> Avatar:
        """The bundled presenter."""
        return self.speaker.avatar()

    @cached_property
    def sound(self) -> Sound:
        """The bundled speech."""
        return speech()

    def stages(self) -> Iterator[Stage]:
        """All stages: the whole file, then smaller and smaller chunks, then upstream's own geometry."""
        if self.settings.device.type == "cuda":  # elsewhere the plain backend is the fastest one
            yield Stage(name="offline_plain", run=self.run_offline_plain)
        yield Stage(name="offline", run=self.run_offline)
        for chunk in _CHUNKS:
            plan = named_plan("low-latency", chunk=chunk)
            yield Stage(name=f"chunk_{chunk}", run=lambda plan=plan: self.run_chunk(plan))  # type: ignore[misc]
        upstream = named_plan("upstream-online", chunk=_UPSTREAM_CHUNK)
        yield Stage(name=f"upstream_{_UPSTREAM_CHUNK}", run=lambda: self.run_chunk(upstream))

    def run_offline(self) -> Result:
        """The whole-file driver, for comparison; the second of two runs."""
        return self._offline(self.speaker.backend)

    def run_offline_plain(self) -> Result:
        """The same with the plain networks, as torch runs them."""
        return self._offline(choose_backend("torch", self.speaker.models))

    def _offline(self, backend: RenderBackend) -> Result:
        frames = SpeechFrames(
            models=self.speaker.models,
            encoder=self.speaker.encoder,
            backend=backend,
            avatar=self.avatar,
            sound=self.sound,
        )
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                report = write_video(frames, Path(folder, "video.mp4"), sound=self.sound, video=_VIDEO)
        return _figures(report, chunk=frames.motion.plan.chunk)

    def run_chunk(self, plan: Plan) -> Result:
        """A session that has all sound at once, and one that hears it at the pace of speech."""
        whole, live = self._stream(plan, live=False), self._stream(plan, live=True)
        return {
            **_figures(whole, chunk=plan.chunk),
            "live_ttff_ms": live["live_ttff_ms"],
            "live_starved_frames": live["starved_frames"],
            "live_first_ms": live["first_ms"],
            "live_inter_frame_ms": live["inter_frame_ms"],
            "look_ahead_ms": round(plan.look_ahead / 16, 1),
        }

    def _stream(self, plan: Plan, *, live: bool) -> dict[str, Any]:
        clock = SystemClock()
        with Session(
            models=self.speaker.models,
            encoder=self.speaker.encoder,
            backend=self.speaker.backend,
            avatar=self.avatar,
            motion=MotionOptions(plan=plan),
            clock=clock,
        ) as session:
            blocks = paced(self.sound, clock) if live else [(self.sound.samples, self.sound.rate)]
            return stream_video(session, blocks, _dropped, video=_VIDEO, live=live, clock=clock)


def ttff_suite(settings: Settings) -> Iterator[Stage]:
    """The suite."""
    return TtffSuite(settings).stages()


def _dropped(data: bytes) -> None:
    """A target that takes everything."""


def _figures(report: dict[str, Any], *, chunk: int) -> Result:
    wanted = (
        "frames", "ttff_ms", "realtime_factor", "inter_frame_ms", "starved_frames", "stages_ms", "first_ms",
        "peak_memory_mb", "executed_by",
    )  # fmt: skip
    return {
        "chunk": chunk,
        "chunk_ms": chunk * 1000 // FRAME_RATE,
        "frames_per_s": round(report["frames"] / report["wall_s"], 2),
        **{name: report[name] for name in wanted if name in report},
    }

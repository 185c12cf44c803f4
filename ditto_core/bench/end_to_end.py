"""The suite `end_to_end`: a whole offline render from sound to file, at both video sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from ..pipeline.whole_file import render_file
from ..render import RenderOptions
from ..video import EncoderError, EncoderOptions, choose_encoder
from .encode import SIZES
from .run import Result, Settings, Stage
from .speaker import Speaker, speech

_ENCODERS = ("libx264", "h264_nvenc")
_QUALITY = "live"
"""For libx264 that is its preset ultrafast."""
_WARM_UP_S = 1.0


class EndToEndSuite:
    """The stages, and what they share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def speaker(self) -> Speaker:
        """The parts of a run."""
        return Speaker.of(self.settings)

    def stages(self) -> Iterator[Stage]:
        """Every encoder at both sizes."""
        for encoder in _ENCODERS:
            for name, size in SIZES.items():
                options = EncoderOptions(encoder=encoder, quality=_QUALITY)
                yield Stage(
                    name=f"{encoder}_{name}",
                    run=lambda size=size, options=options: self.run(size, options),  # type: ignore[misc]
                )

    def run(self, size: tuple[int, int], options: EncoderOptions) -> Result:
        """Renders a short sound to make everything ready, then the one that counts."""
        try:
            choose_encoder(options, size)
        except EncoderError as error:
            return {"not_measured": error.problem}
        self._render(size, options, _WARM_UP_S)
        return whole_render(self._render(size, options, self.settings.seconds))

    def _render(self, size: tuple[int, int], options: EncoderOptions, seconds: float) -> dict[str, Any]:
        speaker, avatar = self.speaker, self.speaker.avatar(size)
        with tempfile.TemporaryDirectory() as folder:
            return render_file(
                speaker.models,
                speaker.encoder,
                speaker.backend,
                avatar,
                speech(seconds),
                Path(folder, "video.mp4"),
                render=RenderOptions(batch=self.settings.batch),
                video=options,
            )


def whole_render(report: dict[str, Any]) -> Result:
    """The figures of a render's report: rates, seconds of each stage, and the stage that takes longest."""
    seconds = {name: round(value / 1000, 4) for name, value in report["stages_ms"].items()}
    slowest = max(seconds, key=lambda name: seconds[name])
    wanted = ("frames", "size", "ttff_ms", "realtime_factor", "encoder", "quality", "executed_by", "steps")
    return {
        "frames_per_s": round(report["frames"] / report["wall_s"], 1),
        "whole_s": report["wall_s"],
        **{name: report[name] for name in wanted},
        "stages_s": seconds,
        "limited_by": slowest,
        "limit_share": round(seconds[slowest] / report["wall_s"], 3),
        "peak_memory_mb": report["peak_memory_mb"],
    }


def end_to_end_suite(settings: Settings) -> Iterator[Stage]:
    """The suite."""
    return EndToEndSuite(settings).stages()

"""The runs that are compared: other backends and batches, live sessions, and encoders."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ditto_core.avatar import Avatar, CropRequest, register
from ditto_core.backends import RenderBackend, choose_backend, precision_type
from ditto_core.backends.choice import ENGINE_BACKENDS
from ditto_core.checkpoints import DittoModels, load_models
from ditto_core.checkpoints.models import BUNDLED
from ditto_core.errors import DittoError
from ditto_core.media import open_media
from ditto_core.pipeline.frames import FrameRecipe, Frames
from ditto_core.pipeline.motion import MotionOptions, make_motion
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.session import Session
from ditto_core.pipeline.speech_frames import SpeechFrames
from ditto_core.pipeline.stream import Block, feed
from ditto_core.quality import FaceTrack
from ditto_core.render import RenderedFrames, RenderOptions
from ditto_core.speech import Sound, SpeechEncoder, read_sound, speech_encoder_for
from ditto_core.speech.windows import FRAME_RATE
from ditto_core.video import ENCODERS, EncoderError, EncoderOptions, choose_encoder, video_file

from .measure import ENCODED, FLOAT32, HALF, LIVE, Bar, Row, compared, left_out

_CROP = "112,100,640"
_LARGEST_PUSH = 3000
"""Samples; a live session gets pushes of any length up to this."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """How much is compared.

    Attributes:
        frames: of the bundled sentence, which has 165.
        shown: frames whose pictures are drawn.
        chunks: of live sessions.
        compiled: batches of the compiled backend.
        encoders: those that are tried.
    """

    frames: int = 165
    shown: Sequence[int] = (20, 60, 90, 120, 150)
    chunks: Sequence[int] = (4, 8, 16, 25)
    compiled: Sequence[int] = (1, 8)
    encoders: Sequence[str] = tuple(name for name in ENCODERS if name != "auto")


class Runs:
    """The plain pipeline and all others: the bundled presenter speaks the bundled sentence.

    Args:
        device: where the networks run.
        size: how much is compared.
    """

    def __init__(self, device: torch.device, size: Size) -> None:
        self.device, self.size = device, size

    @cached_property
    def models(self) -> DittoModels:
        """The miniature in float32."""
        return load_models(device=self.device)

    @cached_property
    def encoder(self) -> SpeechEncoder:
        """Of speech."""
        return speech_encoder_for(self.models)

    @cached_property
    def avatar(self) -> Avatar:
        """The presenter."""
        return register(BUNDLED.parent / "presenter.png", self.models, crop=CropRequest.parse(_CROP))

    @cached_property
    def sound(self) -> Sound:
        """The sentence."""
        sound = read_sound(BUNDLED.parent / "news.wav")
        return Sound(sound.samples[:, : self.size.frames * sound.rate // FRAME_RATE], sound.rate)

    @cached_property
    def backend(self) -> RenderBackend:
        """The networks as torch runs them."""
        return choose_backend("torch", self.models)

    @cached_property
    def plain(self) -> tuple[list[Tensor], FaceTrack]:
        """The frames of the plain pipeline in NV12, and where mouth and face are in them."""
        pieces = list(self._drawn(self.models, self.backend, batch=1).pull(colour="nv12"))
        return [picture for piece in pieces for picture in piece.pictures.cpu()], self._track(pieces)

    @property
    def plain_is(self) -> dict[str, Any]:
        """What the plain pipeline is made with, ready for JSON."""
        return {**self._drawn(self.models, self.backend, batch=1).report(), "batch": 1, "cadence": 1}

    def rows(self) -> Iterator[Row]:
        """All runs, one after the other."""
        yield self.by_backend("torch", self.models, batch=8, bar=FLOAT32)
        for batch in self.size.compiled:
            yield self.by_backend("compiled", self.models, batch=batch, bar=FLOAT32)
        if self._usual != torch.float32:
            yield from self._in_half_precision()
        for flavour in ENGINE_BACKENDS:
            yield self.by_engine(flavour)
        for chunk in self.size.chunks:
            yield self.live(chunk)
        for encoder in self.size.encoders:
            yield self.encoded(encoder)

    def by_backend(self, word: str, models: DittoModels, *, batch: int, bar: Bar) -> Row:
        """The same motion, drawn by another backend or in another batch."""
        name = f"{word}, {str(models.dtype).removeprefix('torch.')}, batch {batch}"
        try:
            backend = choose_backend(word, models)
            backend.warm_up(batch)
        except DittoError as error:
            return left_out(name, error)
        return self._by(name, models, backend, batch, bar)

    def by_engine(self, flavour: str) -> Row:
        """The same motion, drawn by an engine of half precision that is built for this machine."""
        name = f"{flavour}, float16, batch 8"
        with tempfile.TemporaryDirectory() as folder:
            try:
                from ditto_core.backends.engines import EngineSpec, build_engine  # onnx takes a second to import

                models = load_models(device=self.device, dtype=self._usual)
                engine = build_engine(models, EngineSpec(flavour=flavour), folder)
                backend = choose_backend(flavour, models, engine)
                backend.warm_up(8)
            except DittoError as error:
                return left_out(name, error)
            return self._by(name, models, backend, 8, HALF)

    def live(self, chunk: int) -> Row:
        """The low-latency plan, whose sound comes bit by bit, beside the whole-file driver of the same plan."""
        parts: dict[str, Any] = {
            "models": self.models,
            "encoder": self.encoder,
            "backend": self.backend,
            "avatar": self.avatar,
            "motion": MotionOptions(plan=named_plan("low-latency", chunk=chunk)),
        }
        pieces = list(SpeechFrames(**parts, sound=self.sound).pull(colour="nv12"))
        wanted = (picture for piece in pieces for picture in piece.pictures.cpu())
        with Session(**parts) as session:
            feed(session, pushes(self.sound))
            return compared(
                f"live, low-latency plan, chunk {chunk}",
                wanted,
                (frame.picture for frame in session),
                track=self._track(pieces),
                shown=self.size.shown,
                bar=LIVE,
                about={"against": "the whole-file driver of the same plan", **_made_with(session.report())},
            )

    def encoded(self, encoder: str) -> Row:
        """The plain frames, encoded at the best quality and decoded again."""
        name = f"{encoder}, broadcast"
        options, size = EncoderOptions(encoder=encoder, quality="broadcast"), self.avatar.frames.size
        try:
            choose_encoder(options, size)
        except EncoderError as error:
            return left_out(name, error)
        frames, track = self.plain
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "video.mp4"
            with video_file(path, size=size, sound=self.sound, options=options) as writer:
                for picture in frames:
                    writer.write_nv12(picture[None])
            with open_media(path, "video") as media:
                return compared(
                    name,
                    frames,
                    (torch.from_numpy(frame.to_ndarray(format="nv12")) for frame in media.frames()),
                    track=track,
                    shown=self.size.shown,
                    bar=ENCODED,
                    about={
                        "against": "the plain pipeline's frames before encoding",
                        "executed_by": {"encode": writer.report()["executed_by"]},
                        "file_bytes": path.stat().st_size,
                    },
                )

    @property
    def _usual(self) -> torch.dtype:
        """The type that rendering takes here where none is asked for."""
        return precision_type("auto", self.device)

    @cached_property
    def _motion(self) -> Any:
        return make_motion(self.models, self.encoder, self.avatar, self.sound, MotionOptions())

    def _in_half_precision(self) -> Iterator[Row]:
        models = load_models(device=self.device, dtype=self._usual)
        for batch in (1, 8):
            yield self.by_backend("torch", models, batch=batch, bar=HALF)
        for batch in self.size.compiled:
            yield self.by_backend("compiled", models, batch=batch, bar=HALF)

    def _drawn(self, models: DittoModels, backend: RenderBackend, *, batch: int) -> FrameRecipe:
        options = RenderOptions(batch=batch)
        return Frames(models=models, backend=backend, avatar=self.avatar, track=self._motion, options=options)

    def _by(self, name: str, models: DittoModels, backend: RenderBackend, batch: int, bar: Bar) -> Row:
        frames = self._drawn(models, backend, batch=batch)
        wanted, track = self.plain
        try:
            return compared(
                name,
                wanted,
                (picture for piece in frames.pull(colour="nv12") for picture in piece.pictures.cpu()),
                track=track,
                shown=self.size.shown,
                bar=bar,
                about={"against": "the plain pipeline", **_made_with(frames.report())},
            )
        finally:
            backend.close()

    def _track(self, pieces: Sequence[RenderedFrames]) -> FaceTrack:
        height, width = self.avatar.frames.size
        mouths = torch.cat([piece.mouths for piece in pieces]).numpy()
        boxes = (box for piece in pieces for box in piece.face_boxes)
        return FaceTrack(mouths=mouths, boxes=tuple(boxes), size=(width, height))


def pushes(sound: Sound) -> Iterable[Block]:
    """A sound in blocks of unequal lengths, the same in every run."""
    draw, first = np.random.default_rng(0), 0
    while first < sound.samples.shape[1]:
        stop = first + int(draw.integers(1, _LARGEST_PUSH))
        yield sound.samples[:, first:stop], sound.rate
        first = stop


def _made_with(report: dict[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in ("executed_by", "plan", "seed") if name in report}

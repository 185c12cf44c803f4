"""A bulletin from the canvas: one segment a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ..ditto_core.avatar import Avatar, CropRequest
from ..ditto_core.errors import DittoError
from ..ditto_core.motion.conditions import Emotion
from ..ditto_core.pipeline.segments import Segment, read_segments, segment_at
from . import host, media, paths
from .avatar import registered
from .types import CATEGORY, AvatarType, EmotionType, Models, ModelsType

_EXAMPLE = "example (bundled)"
_SAVED_AVATAR = ".safetensors"


class DittoBulletinSegment(io.ComfyNode):
    """One segment of a bulletin's table."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoBulletinSegment",
            display_name="Ditto Bulletin Segment",
            category=CATEGORY,
            description="Reads one row of a table of segments. Let the index increment after each run, and Run x N "
            "renders a bulletin of N segments.",
            inputs=[
                ModelsType.Input("models", tooltip="From Load Ditto Models."),
                io.Combo.Input(
                    "segments",
                    options=[_EXAMPLE, *host.input_names(".csv")],
                    default=_EXAMPLE,
                    tooltip="A CSV file in ComfyUI's input folder with the columns avatar, speech, emotion, crop and "
                    "name; the last three may be left out. The files that it names lie in the input folder as well.",
                ),
                io.Int.Input(
                    "index",
                    default=0,
                    min=0,
                    max=9999,
                    control_after_generate=True,
                    tooltip="Which segment, counted from 0. Set 'control after generate' to increment.",
                ),
            ],
            outputs=[
                AvatarType.Output(display_name="avatar", tooltip="The segment's presenter."),
                io.Audio.Output(display_name="audio", tooltip="What is said."),
                EmotionType.Output(display_name="emotion_schedule", tooltip="The segment's emotion."),
                io.String.Output(display_name="filename_prefix", tooltip="For the writer: the segment's name."),
                io.Int.Output(display_name="index", tooltip="The segment's number, from 0."),
                io.Int.Output(display_name="total", tooltip="How many segments there are."),
            ],
        )

    @classmethod
    def validate_inputs(cls, segments: str | None, index: int | None) -> bool | str:
        """Checks the table, and that the segment's files are there.

        An index past its end is an error of `execute`: what is refused here, ComfyUI says once for each input.
        """
        if segments is None or index is None:
            return True
        try:
            for segment in read_segments(_table(segments))[index : index + 1]:
                _file(segments, segment.avatar)
                _file(segments, segment.speech)
        except DittoError as error:
            return str(error)
        return True

    @classmethod
    def fingerprint_inputs(cls, segments: str | None, index: int | None, **_: Any) -> str:
        """Changes with the table and the segment's files."""
        if segments is None or index is None:
            return ""
        files = [_table(segments)]
        for segment in read_segments(files[0])[index : index + 1]:
            files += [_file(segments, segment.avatar), _file(segments, segment.speech)]
        return paths.state(files)

    @classmethod
    def execute(cls, models: Models, segments: str, index: int) -> io.NodeOutput:
        """Reads the row and its files."""
        table = read_segments(_table(segments))
        segment = segment_at(table, index)
        return io.NodeOutput(
            _presenter(models, segments, segment),
            media.audio_of_file(_file(segments, segment.speech)),
            Emotion.of(segment.emotion),
            f"{Path(segments).stem if segments != _EXAMPLE else 'bulletin'}/{segment.name}",
            index,
            len(table),
        )


def _table(name: str) -> Path:
    return media.BUNDLED / "bulletin.csv" if name == _EXAMPLE else host.input_file(name)


def _file(segments: str, name: str) -> Path:
    """A file that a table names."""
    return paths.existing(media.BUNDLED, name) if segments == _EXAMPLE else host.input_file(name)


def _presenter(models: Models, segments: str, segment: Segment) -> Avatar:
    path = _file(segments, segment.avatar)
    if path.suffix == _SAVED_AVATAR:
        return Avatar.load(path, models=models.networks.fingerprint)
    return registered(models, path, CropRequest.parse(segment.crop))

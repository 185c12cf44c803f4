"""A bulletin from the canvas: one segment a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ..ditto_core.avatar import open_avatar
from ..ditto_core.bulletin.canvas import BulletinRow, read_bulletin, row_at
from ..ditto_core.errors import InvalidValueError
from ..ditto_core.motion.conditions import Emotion
from . import host, media, paths
from .types import CATEGORY, AvatarType, EmotionType, Models, ModelsType, verdict

_EXAMPLE = "example (bundled)"


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
    def validate_inputs(cls, segments: str | None) -> bool | str:
        """Checks the whole table, and that all files that it names are there.

        An index past its end is an error of `execute`.
        """
        return verdict(_bulletin, segments)

    @classmethod
    def fingerprint_inputs(cls, segments: str | None, index: int | None, **_: Any) -> str | float:
        """Changes with the table and the segment's files; always, where a link brings the table's name."""
        if segments is None:
            return float("nan")
        table = _bulletin(segments)
        files = table.files if index is None else table.files[index : index + 1]
        return paths.state([table.path, *(file for pair in files for file in pair)])

    @classmethod
    def execute(cls, models: Models, segments: str, index: int) -> io.NodeOutput:
        """Reads the row and its files."""
        table = _bulletin(segments)
        row = row_at(table.rows, index)
        avatar, speech = table.files[index]
        host.bring_in(models)
        presenter = open_avatar(
            avatar,
            models.networks,
            crop=row.crop,
            progress=host.show_progress,
            check_cancelled=host.check_interrupted,
        )
        return io.NodeOutput(
            presenter,
            media.audio_of_file(speech),
            Emotion.of(row.emotion),
            f"{table.path.stem}/{row.name}",
            index,
            len(table.rows),
        )


@dataclass(frozen=True, kw_only=True)
class _Bulletin:
    """A table whose files are all there.

    Attributes:
        path: of the table.
        rows: its segments.
        files: the avatar and the speech of each.
    """

    path: Path
    rows: tuple[BulletinRow, ...]
    files: tuple[tuple[Path, Path], ...]


def _bulletin(segments: str) -> _Bulletin:
    """Reads a table.

    Raises:
        FileError: it can't be used.
        InvalidValueError: it is not there, or a file that it names.
    """
    is_example = segments == _EXAMPLE
    path = media.BUNDLED / "bulletin.csv" if is_example else host.input_file(segments)
    rows = read_bulletin(path)
    files = []
    for number, row in enumerate(rows, 1):
        try:
            avatar, speech = (
                paths.existing(media.BUNDLED, name) if is_example else host.input_file(name)
                for name in (row.avatar, row.speech)
            )
        except InvalidValueError as error:
            raise InvalidValueError(f"segment {number}: {error.problem}", remedy=error.remedy) from error
        files.append((avatar, speech))
    return _Bulletin(path=path, rows=rows, files=tuple(files))

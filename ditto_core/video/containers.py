"""Container formats: what a file's ending means, and how the file is laid out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from ..errors import InvalidValueError

_FRAGMENTS = "frag_keyframe+delay_moov+default_base_moof"  # only a delayed index knows where the sound starts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Container:
    """A container format.

    Attributes:
        name: FFmpeg's name of the muxer.
        options: the muxer's settings.
        keeps_metadata: whether texts under any name have a place in it.
        unfit: encoders that do not fit into it.
        reads_back: whether the muxer reads what it has written, to put the index first.
    """

    name: str
    options: dict[str, str]
    keeps_metadata: bool = True
    unfit: tuple[str, ...] = ()
    reads_back: bool = False


MP4 = Container(name="mp4", options={"movflags": "faststart+use_metadata_tags"}, reads_back=True)
"""The index stands first, so that a player starts before the end has arrived; it is written last."""
FRAGMENTED_MP4 = Container(name="mp4", options={"movflags": f"{_FRAGMENTS}+use_metadata_tags"})
"""A piece for each key frame, playable while it grows."""
GROWING_MP4 = Container(name="mp4", options={"movflags": "delay_moov+default_base_moof", "frag_duration": "200000"})
"""A piece for each 0.2 s, for a player that watches from the start while it grows."""
MOV = Container(name="mov", options={"movflags": "faststart+use_metadata_tags"}, reads_back=True)
TS = Container(name="mpegts", options={}, keeps_metadata=False, unfit=("libsvtav1", "av1_nvenc"))
"""MPEG-TS: playable from any key frame on."""
FLV = Container(
    name="flv",
    options={"flvflags": "no_duration_filesize"},
    keeps_metadata=False,
    unfit=("libx265", "hevc_nvenc", "libsvtav1", "av1_nvenc"),
)
"""What RTMP carries."""


def container_of(path: Path, *, fragmented: bool) -> Container:
    """The format for a file's ending, .mp4 or .ts.

    Raises:
        InvalidValueError: another ending, or fragments asked of another format.
    """
    suffix = path.suffix.lower()
    if suffix == ".mp4":
        return FRAGMENTED_MP4 if fragmented else MP4
    if suffix != ".ts":
        raise InvalidValueError(f"a video file named {path.name!r}", remedy="end its name in .mp4 or .ts")
    if fragmented:
        raise InvalidValueError(f"fragments in {path.name!r}", remedy="end its name in .mp4")
    return TS


def check_fits(container: Container, encoder: str, *, has_metadata: bool) -> None:
    """Checks that the container can hold what is meant for it.

    Raises:
        InvalidValueError: it can't.
    """
    if encoder in container.unfit:
        raise InvalidValueError(f"{encoder} in an {container.name} file", remedy="use .mp4, or encode H.264 or H.265")
    if has_metadata and not container.keeps_metadata:
        raise InvalidValueError(
            f"metadata in an {container.name} file, which has no place for it", remedy="use .mp4, or give none"
        )


def check_texts(metadata: Mapping[str, str]) -> None:
    """Checks that texts can be written, which are UTF-8 in every container.

    Raises:
        InvalidValueError: one can't, as it holds half of a character.
    """
    for name, text in metadata.items():
        try:
            f"{name}{text}".encode()
        except UnicodeEncodeError as error:
            raise InvalidValueError(
                f"metadata {name!r} with the lone surrogate {error.object[error.start]!r}",
                remedy="give text that is valid Unicode",
            ) from error

"""Where a stream goes while it is made: a file, a file object, a function, object storage, or the network."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import av

from ..errors import InvalidValueError, MissingPackageError
from .containers import FLV, FRAGMENTED_MP4, TS, Container
from .copies import SinkError, StreamCopy
from .encoder import EncoderOptions
from .mux import VideoWriter, video_stream
from .muxer import VideoWriteError
from .sound import SoundSource
from .targets import Target as ByteTarget

NETWORK = {"rtmp": FLV, "rtmps": FLV, "srt": TS, "udp": TS, "tcp": TS}
"""Protocols of FFmpeg, and what they carry; all other addresses are fsspec's."""
_SUFFIXES = {".mp4": FRAGMENTED_MP4, ".ts": TS}
_DEFAULT = EncoderOptions(quality="live")
_PART_BYTES = 8 << 20
"""What is uploaded at once to object storage; S3 takes 5 MB or more, and 10,000 parts."""

Target = str | Path | BinaryIO | Callable[[bytes], object]
"""A file's name or an address; an object with a `write` method; or a function that takes the bytes."""


def sink_name(target: Target) -> str:
    """A target's name for reports and messages: without user, password, query, or the path where it is a key."""
    if not isinstance(target, str | Path):
        return str(getattr(target, "name", type(target).__name__))
    parts = urlsplit(str(target))
    if not _is_address(target):
        return str(target)
    host = parts.netloc.rpartition("@")[2]
    path = "" if parts.scheme.lower() in NETWORK else parts.path
    return f"{parts.scheme}://{host}{path}"


def container_for(target: Target, *, container: Container | None = None) -> Container:
    """The format that fits a target: by its ending, or by the protocol.

    Args:
        target: see `Target`.
        container: the format of an object or a function; by default fragmented MP4.

    Raises:
        InvalidValueError: a name ends otherwise than in .mp4 or .ts.
    """
    if not isinstance(target, str | Path):
        return container or FRAGMENTED_MP4
    if _is_address(target):
        parts = urlsplit(str(target))
        if parts.scheme.lower() in NETWORK:
            return NETWORK[parts.scheme.lower()]
        suffix = Path(parts.path).suffix.lower()
    else:
        suffix = Path(target).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidValueError(
            f"a stream to {sink_name(target)!r}",
            remedy=f"end its name in .mp4 or .ts, or use {', '.join(f'{scheme}://' for scheme in NETWORK)}",
        )
    return _SUFFIXES[suffix]


@contextlib.contextmanager
def stream_sink(
    target: Target,
    *,
    size: tuple[int, int],
    sound: SoundSource | None = None,
    options: EncoderOptions = _DEFAULT,
    source_fps: Fraction | None = None,
    container: Container | None = None,
) -> Iterator[VideoWriter]:
    """Opens a target for a stream. A file stands under its name at once, and plays while it grows.

    Args:
        target: a file (.mp4 in fragments, or .ts); an address of fsspec, such as s3://bucket/name.mp4; an address
            rtmp://, rtmps://, srt://, udp:// or tcp://; an object with a `write` method; or a function.
        size: even height and width of the frames.
        sound: what is heard; it may be growing.
        options: encoder, quality and frame rate.
        source_fps: frames that are written a second, where the stream has another rate.
        container: the format of an object or a function; by default fragmented MP4.

    Yields:
        The writer.

    Raises:
        InvalidValueError: the name or the size does not fit.
        MissingPackageError: fsspec, or what it needs for such an address, is not installed.
        EncoderError: the encoder asked for does not open.
        SinkError: the target can't be opened, or broke midway.
    """
    name, chosen = sink_name(target), container_for(target, container=container)
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(_opened(target, name))
        try:
            with video_stream(
                opened, size=size, sound=sound, options=options, source_fps=source_fps, container=chosen, name=name
            ) as writer:
                yield writer
        except VideoWriteError as error:
            # "from None": the chain would show the whole address
            if isinstance(error.__cause__, av.ProtocolNotFoundError):
                raise SinkError(
                    f"{name}: the FFmpeg in this PyAV has no {urlsplit(name).scheme}",
                    remedy="use another protocol, or a PyAV that is built with an FFmpeg that has it",
                ) from None
            problem = error.problem.partition(": ")[2]
            raise SinkError(f"{name}: {problem}", remedy="see whether the other end answers") from None


@contextlib.contextmanager
def stream_copy(
    target: Target,
    *,
    container: Container | None = None,
    begun: Callable[[str | None], None] | None = None,
    may_break: bool = False,
) -> Iterator[StreamCopy]:
    """Opens a target for a copy of what is written to a file meanwhile; see `mux.video_file`.

    Args:
        target: see `stream_sink`.
        container: the format of an object or a function; by default fragmented MP4.
        begun: called before the first byte with what a browser calls such a video; see `copies.media_type`.
        may_break: keeps the file where the copy breaks after its beginning; the copy's `problem` tells.

    Yields:
        The copy, for one video.

    Raises:
        InvalidValueError: the name does not fit.
        MissingPackageError: fsspec, or what it needs for such an address, is not installed.
        SinkError: the target can't be opened, or broke midway where it may not.
    """
    name, chosen = sink_name(target), container_for(target, container=container)
    copy: StreamCopy | None = None
    try:
        with _opened(target, name) as opened:
            copy = StreamCopy(opened, chosen, name=name, begun=begun, may_break=may_break)
            try:
                yield copy
            finally:
                copy.abandon()
    except SinkError as error:
        if not may_break or copy is None or not copy.is_finished:
            raise
        copy.problem = copy.problem or error


def _is_address(target: str | Path) -> bool:
    return isinstance(target, str) and "://" in target


@contextlib.contextmanager
def _opened(target: Target, name: str) -> Iterator[BinaryIO | str]:
    if not isinstance(target, str | Path):
        yield _guarded(target if callable(target) else target.write, name)
    elif not _is_address(target):
        try:
            file = Path(target).open("wb", buffering=0)
        except OSError as error:
            raise SinkError(
                f"{name}: can't be written ({error.strerror})", remedy="choose a folder that exists and is writable"
            ) from error
        with file:
            yield _guarded(_whole(file), name)
    elif urlsplit(str(target)).scheme.lower() in NETWORK:
        yield str(target)
    else:
        with _remote(str(target), name) as file:
            yield _guarded(file.write, name)


@contextlib.contextmanager
def _remote(target: str, name: str) -> Iterator[Any]:
    """A file of fsspec, which uploads it in parts as it grows; closed in any case, so that what was written stays."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingPackageError(
            "fsspec", needed_for=f"a stream to {name}", install="pip install 'ditto-live[s3]'"
        ) from error
    try:
        system, path = fsspec.core.url_to_fs(target)
        file = system.open(path, "wb", block_size=_PART_BYTES)
    except (ImportError, ValueError) as error:  # no such protocol, or its package is missing
        raise SinkError(f"{name}: fsspec can't open it ({error})", remedy="install what it names") from None
    except Exception as error:  # each file system has errors of its own
        raise SinkError(
            f"{name}: can't be opened ({type(error).__name__})", remedy="check address and access"
        ) from None
    try:
        yield file
    except BaseException:
        with contextlib.suppress(Exception):
            file.close()
        raise
    try:
        file.close()
    except Exception as error:
        raise SinkError(f"{name}: can't be finished ({type(error).__name__})", remedy="check the access") from None


class _Guarded(ByteTarget):
    """Bytes to a function, whose first error is told by name."""

    def __init__(self, write: Callable[[bytes], object], name: str) -> None:
        super().__init__(write)
        self._name = name

    def typed(self, error: Exception) -> Exception:
        return SinkError(
            f"{self._name}: broke after {self._count} bytes ({type(error).__name__}: {error})",
            remedy="see why it takes no more; what it took can be played",
        )


def _whole(file: FileIO) -> Callable[[bytes], None]:
    """Writes every byte at once, where a system may take only some, as just before a disk is full."""

    def write(data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]

    return write


def _guarded(write: Callable[[bytes], object], name: str) -> BinaryIO:
    return cast(BinaryIO, _Guarded(write, name))

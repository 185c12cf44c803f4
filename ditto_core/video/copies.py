"""A video's packets once more, in a container of their own: nothing is encoded twice."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import av
from av.container import OutputContainer
from av.stream import Stream

from ..errors import DittoError
from .containers import Container
from .targets import Target

_log = logging.getLogger(__name__)

_SEQUENCE_PARAMETERS = re.compile(rb"\x00\x00\x01[\x07\x27\x47\x67](...)", re.DOTALL)
_AAC_LC = "mp4a.40.2"


class SinkError(DittoError):
    """A stream's target can't be opened, or broke; what reached it before can be played."""


class StreamCopy:
    """Takes the packets that a `Muxer` has written.

    Args:
        target: an object with a `write` method, or an address of the network as FFmpeg knows it.
        container: its format.
        name: of the target, for messages.
        begun: called once, before the first byte, with what a browser calls such a video; see `media_type`.
        may_break: whether an error after the first packet ends only this copy.

    Attributes:
        problem: the error that ended it; None while it goes on, and where errors are raised.
        is_finished: whether all packets came, and nothing is left to write.

    Raises:
        SinkError: the target can't be opened.
    """

    def __init__(
        self,
        target: BinaryIO | str,
        container: Container,
        *,
        name: str,
        begun: Callable[[str | None], None] | None = None,
        may_break: bool = False,
    ) -> None:
        self.name, self.container = name, container
        self.problem: SinkError | None = None
        self.is_finished = False
        self._target, self._begun, self._may_break = target, begun, may_break
        self._streams: dict[int, Stream] = {}
        with self._typed_errors():
            self._output = av.open(target, "w", format=container.name, container_options=container.options)

    def add(self, packet: av.Packet[Any], source: OutputContainer) -> None:
        """Writes a packet, and leaves it as it was.

        Args:
            packet: of the source, which has written it.
            source: the container whose streams are copied; the same for all packets.

        Raises:
            SinkError: the target broke.
        """
        if self.problem is not None:
            return
        stream, times = packet.stream, (packet.pts, packet.dts, packet.duration, packet.time_base)
        is_first = not self._streams
        with self._bearable(not is_first), self._typed_errors():
            if is_first:
                self._begin(source)
            packet.stream = self._streams[stream.index]
            self._output.mux(packet)
            self._check()
        packet.stream = stream
        packet.pts, packet.dts, packet.duration, packet.time_base = times

    def finish(self) -> None:
        """Writes what is left.

        Raises:
            SinkError: the target broke.
        """
        with self._bearable(), self._typed_errors():
            self._output.close()
            self._check()
        self.is_finished = True

    def abandon(self) -> None:
        """Closes it as it is; nothing happens where it is closed already."""
        with contextlib.suppress(av.FFmpegError, OSError, DittoError):
            self._output.close()

    def _begin(self, source: OutputContainer) -> None:
        if self._begun is not None:
            self._begun(media_type(source))
        self._streams = {stream.index: self._output.add_stream_from_template(stream) for stream in source.streams}

    def _check(self) -> None:
        if isinstance(self._target, Target):
            self._target.check()

    @contextlib.contextmanager
    def _bearable(self, is_begun: bool = True) -> Iterator[None]:
        """Keeps an error that ends only the copy."""
        try:
            yield
        except SinkError as error:
            if not (self._may_break and is_begun):
                raise
            self.problem = error
            _log.warning("%s; the file goes on without it", error)

    @contextlib.contextmanager
    def _typed_errors(self) -> Iterator[None]:
        try:
            yield
        except av.FFmpegError as error:
            # the chain would show the whole address
            raise SinkError(
                f"{self.name}: could not be written ({error.strerror or error})",
                remedy="see whether the other end answers",
            ) from None


def media_type(container: OutputContainer) -> str | None:
    """What a browser's MediaSource wants to know of a container's streams, once these are open (RFC 6381).

    Returns:
        Such as 'video/mp4; codecs="avc1.64001f, mp4a.40.2"'; None where the picture is not H.264.
    """
    codecs = []
    for stream in container.streams:
        if stream.type == "audio":
            codecs.append(_AAC_LC)
            continue
        context = stream.codec_context
        parameters = _avc_parameters(context.extradata or b"") if context.codec.canonical_name == "h264" else None
        if parameters is None:
            return None
        codecs.append(f"avc1.{parameters.hex()}")
    return f'video/mp4; codecs="{", ".join(codecs)}"'


def _avc_parameters(extradata: bytes) -> bytes | None:
    """Profile, constraints and level, a byte each; of start codes, or of an avcC box (ISO/IEC 14496-15, 5.3.3)."""
    if extradata[:1] == b"\1":
        return extradata[1:4]
    found = _SEQUENCE_PARAMETERS.search(extradata)
    return None if found is None else found[1]

"""A video's packets once more, in a container of their own: nothing is encoded twice."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import av
from av.container import OutputContainer
from av.stream import Stream

from ..errors import DittoError
from .containers import Container

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
    ) -> None:
        self.name, self.container = name, container
        self._begun = begun
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
        stream, times = packet.stream, (packet.pts, packet.dts, packet.duration, packet.time_base)
        with self._typed_errors():
            if not self._streams:
                self._begin(source)
            packet.stream = self._streams[stream.index]
            self._output.mux(packet)
        packet.stream = stream
        packet.pts, packet.dts, packet.duration, packet.time_base = times

    def finish(self) -> None:
        """Writes what is left.

        Raises:
            SinkError: the target broke.
        """
        with self._typed_errors():
            self._output.close()

    def abandon(self) -> None:
        """Closes it as it is; nothing happens where it is closed already."""
        with contextlib.suppress(av.FFmpegError, OSError, DittoError):
            self._output.close()

    def _begin(self, source: OutputContainer) -> None:
        if self._begun is not None:
            self._begun(media_type(source))
        self._streams = {stream.index: self._output.add_stream_from_template(stream) for stream in source.streams}

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

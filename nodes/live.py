"""What is made so far of a video, for the page that started its run."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path

from ..ditto_core.video import GROWING_MP4, StreamCopy
from ..ditto_core.video.sinks import stream_copy
from . import host

_log = logging.getLogger(__name__)

_TOKEN_BYTES = 16


class LiveVideo:
    """A video on the disk that one thread writes and any number of viewers read, each at its own pace.

    Args:
        path: the file, which lasts until `end`.

    Attributes:
        is_over: nothing more comes.
    """

    def __init__(self, path: Path) -> None:
        self.is_over = False
        self._path, self._file = path, path.open("wb")

    def write(self, data: bytes) -> int:
        """Appends. A full disk ends what viewers see, and nothing else."""
        if not self.is_over:
            try:
                self._file.write(data)
                self._file.flush()
            except OSError as error:
                _log.warning("the video can't be shown while it is made: %s", error)
                self.end()
        return len(data)

    def read(self, start: int, most: int) -> bytes:
        """What is there from a byte on; nothing where it has not been written, or the video is over."""
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                return file.read(most)
        except OSError:
            return b""

    def end(self) -> None:
        """Removes the file."""
        self.is_over = True
        with contextlib.suppress(OSError):  # a full disk; or a viewer reads it, on a system where that holds it
            self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink()


class LiveVideos:
    """The videos that are being made, each known by the random token of its run."""

    def __init__(self) -> None:
        self._running: dict[str, LiveVideo] = {}

    def find(self, token: str) -> LiveVideo | None:
        """The video of a token, while its run lasts."""
        return self._running.get(token)

    @contextlib.contextmanager
    def for_page(self, node: str) -> Iterator[tuple[StreamCopy, ...]]:
        """Lets the page that started this run play a node's video until the block ends.

        Args:
            node: its id.

        Yields:
            What the video has to be copied to; nothing where no page is there.
        """
        if not host.has_page():
            yield ()
            return
        token = secrets.token_hex(_TOKEN_BYTES)
        video = self._running[token] = LiveVideo(host.temporary_file(f"ditto/{token}", ".mp4"))

        def begun(media_type: str | None) -> None:
            if media_type is not None:
                host.show_live_video(node, token, media_type)

        try:
            with stream_copy(video.write, container=GROWING_MP4, begun=begun) as copy:
                yield (copy,)
        finally:
            del self._running[token]
            video.end()


VIDEOS = LiveVideos()
"""Of this server; a video is in it while its writer runs."""

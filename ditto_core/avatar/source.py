"""The pictures that rendered faces are put into: one image, or a video's frames, decoded on request."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from av.error import FFmpegError
from numpy.typing import NDArray

from ..errors import InvalidValueError
from ..media import Media, MediaError, open_media
from .sizes import fit_picture, fitted_size
from .store import MAX_FRAMES, MAX_VIDEO_BYTES

_IMAGE_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"II*\0", b"MM\0*")
CACHE_BYTES = 256 << 20
"""Decoded frames that a video source keeps at most, beside the decoder's own few."""
_FPS = Fraction(1, 10), Fraction(1000)
_DAMAGED = "remux or convert the video, for instance to H.264 in mp4"


def is_image(path: str | Path) -> bool:
    """Whether a file begins as a png, jpeg, bmp, tiff or webp picture does.

    Raises:
        MediaError: it can't be read.
    """
    try:
        with Path(path).open("rb") as file:
            head = file.read(12)
    except OSError as error:
        raise _unreadable(Path(path), error) from error
    return head.startswith(_IMAGE_MAGIC) or (head[:4] == b"RIFF" and head[8:] == b"WEBP")


class FrameSource(Protocol):
    """Source pictures by number; read only."""

    @property
    def fps(self) -> Fraction | None:
        """Frames a second of a video; None for an image."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width, even."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, position: int) -> NDArray[np.uint8]:
        """(H, W, 3) RGB, not to be changed.

        Raises:
            IndexError: the position is not in 0..len-1.
        """

    def digest(self) -> str:
        """SHA-256 of what the source was made from."""


class ImageSource:
    """One picture.

    Args:
        picture: (H, W, 3) uint8 RGB at its working size.
    """

    fps = None

    def __init__(self, picture: NDArray[np.uint8]) -> None:
        self.picture = picture

    @property
    def size(self) -> tuple[int, int]:
        """See `FrameSource`."""
        return self.picture.shape[0], self.picture.shape[1]

    def __len__(self) -> int:
        return 1

    def __getitem__(self, position: int) -> NDArray[np.uint8]:
        if position != 0:
            raise IndexError(position)
        return self.picture

    def digest(self) -> str:
        """See `FrameSource`."""
        return hashlib.sha256(np.ascontiguousarray(self.picture).data).hexdigest()


@dataclass(frozen=True)
class VideoIndex:
    """Which frames a video has, in the order of display.

    Attributes:
        times: time stamps in units of the stream, rising.
        keys: whether decoding can begin at the frame; it always can at the first.
    """

    times: tuple[int, ...]
    keys: tuple[bool, ...]

    def __post_init__(self) -> None:
        """Checks the table.

        Raises:
            InvalidValueError: it is empty, of two lengths, or the time stamps don't rise.
        """
        if not self.times or len(self.times) != len(self.keys) or any(b <= a for a, b in pairwise(self.times)):
            raise InvalidValueError("video whose time stamps are missing or don't rise", remedy=_DAMAGED)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Positions at which decoding can begin, rising from 0."""
        return (0, *(position for position, key in enumerate(self.keys) if key and position))

    @cached_property
    def positions(self) -> dict[int, int]:
        """Position of each time stamp."""
        return {time: position for position, time in enumerate(self.times)}

    def start_before(self, position: int) -> int:
        """The last position up to this one at which decoding can begin."""
        return self.starts[bisect_right(self.starts, position) - 1]


@dataclass(frozen=True, kw_only=True)
class _IndexedMedia(Media):
    """An open video whose pictures come by the index, one after the other from a position on.

    Attributes:
        index: the frames that it must have.
        first: the position of the first picture.
    """

    index: VideoIndex
    first: int

    def frames(self) -> Iterator[Any]:
        """The frames from `first` on; ends at the first one that is not where the index has it."""
        wanted = self.first
        for frame in super().frames():
            position = self.index.positions.get(frame.pts, -1)
            if position > wanted:
                return
            if position == wanted:
                yield frame
                wanted += 1


class VideoSource:
    """The frames of a video, decoded when asked for, in memory that does not grow with its length.

    Forwards, each frame is decoded once. Backwards, a group of pictures is decoded up to the frame asked for,
    and as much of its end as CACHE_BYTES hold is kept for the requests to come; a group longer than that is
    decoded once for each such part. Any thread may ask; one is served at a time.

    Args:
        origin: the file, or its bytes, which are put into a temporary file as long as it is read.
        index: its frames.
        size: height and width of the working pictures.
        fps: frames a second.

    Raises:
        InvalidValueError: no sensible frame rate.
        MediaError: on reading: the file is gone, damaged, or no longer what the index was made from.
    """

    def __init__(
        self, origin: Path | NDArray[np.uint8], *, index: VideoIndex, size: tuple[int, int], fps: Fraction
    ) -> None:
        if not _FPS[0] <= fps <= _FPS[1]:
            raise InvalidValueError(f"video of {float(fps):g} frames a second", remedy="convert it to 25")
        self.origin = origin
        self.index = index
        self._size = size
        self._fps = fps
        self._capacity = max(2, CACHE_BYTES // (size[0] * size[1] * 3))
        self._cache: dict[int, NDArray[np.uint8]] = {}
        self._last = -1
        self._media: Media | None = None
        self._copy: Path | None = None
        self._pictures: Iterator[NDArray[np.uint8]] | None = None
        self._next = 0
        self._lock = threading.Lock()
        self._container, self._temporary = contextlib.ExitStack(), contextlib.ExitStack()
        weakref.finalize(self, _close_all, self._container, self._temporary)

    @classmethod
    def scan(
        cls, path: str | Path, *, frames: int | None = None, check_cancelled: Callable[[], None] | None = None
    ) -> tuple[VideoSource, tuple[int, int]]:
        """Decodes a video once to learn its frames.

        Args:
            path: the file.
            frames: how many to use, from the first on; None uses all.
            check_cancelled: called for each frame; what it raises ends the scan.

        Returns:
            The source, and height and width of the pictures before they were fitted.

        Raises:
            MediaError: no video, over the limits, damaged, or longer than MAX_FRAMES where `frames` is None.
            InvalidValueError: pictures too small, or `frames` not in 1..MAX_FRAMES.
        """
        if frames is not None and not 1 <= frames <= MAX_FRAMES:
            raise InvalidValueError(f"{frames} frames of the video", remedy=f"ask for 1 to {MAX_FRAMES}")
        path = Path(path)
        times: list[int | None] = []
        keys: list[bool] = []
        with open_media(path, "video") as media:
            fps = media.fps
            for frame in media.frames():
                if check_cancelled is not None:
                    check_cancelled()
                if len(times) == (frames or MAX_FRAMES):
                    break
                times.append(frame.pts)
                keys.append(bool(frame.key_frame))
            else:
                frames = len(times)
        if frames is None:
            raise MediaError(
                path, f"has more than {MAX_FRAMES} frames", remedy="cut it, or ask for its first frames only"
            )
        if not times or not fps or None in times:
            raise MediaError(path, "has no frames, no time stamps or no frame rate", remedy=_DAMAGED)
        with open_media(path, "video") as media:
            height, width = next(media.pictures()).shape[:2]
        size = fitted_size(height, width)
        try:
            index = VideoIndex(tuple(time for time in times if time is not None), tuple(keys))
            return cls(path, index=index, size=size, fps=fps), (height, width)
        except InvalidValueError as error:
            raise MediaError(path, error.problem, remedy=error.remedy) from error

    @property
    def fps(self) -> Fraction:
        """See `FrameSource`."""
        return self._fps

    @property
    def size(self) -> tuple[int, int]:
        """See `FrameSource`."""
        return self._size

    def __len__(self) -> int:
        return len(self.index.times)

    def __getitem__(self, position: int) -> NDArray[np.uint8]:
        if not 0 <= position < len(self):
            raise IndexError(position)
        with self._lock:
            if position not in self._cache:
                backwards = position < self._last
                first = max(self.index.start_before(position), position - self._capacity + 1)
                self._fill(first if backwards else position, position)
            self._last = position
            return self._cache[position]

    def content(self) -> NDArray[np.uint8]:
        """The bytes of the encoded file.

        Raises:
            MediaError: it is gone, or larger than an avatar file may hold.
        """
        if not isinstance(self.origin, Path):
            return self.origin
        try:
            if self.origin.stat().st_size > MAX_VIDEO_BYTES:
                raise MediaError(self.origin, f"has more than {MAX_VIDEO_BYTES} bytes", remedy="encode it smaller")
            return np.fromfile(self.origin, dtype=np.uint8)
        except OSError as error:
            raise _unreadable(self.origin, error) from error

    def digest(self) -> str:
        """See `FrameSource`."""
        if not isinstance(self.origin, Path):
            return hashlib.sha256(self.origin.data).hexdigest()
        digest = hashlib.sha256()
        try:
            with self.origin.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError as error:
            raise _unreadable(self.origin, error) from error
        return digest.hexdigest()

    def close(self) -> None:
        """Closes the file and drops the decoded frames; a later request opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        self._media = self._pictures = self._copy = None
        self._cache.clear()
        _close_all(self._container, self._temporary)

    def _fill(self, first: int, last: int) -> None:
        """Decodes up to `last`, and keeps the pictures from `first` on."""
        start = self.index.start_before(first)
        earlier = self.index.start_before(max(0, start - 1))
        try:
            # a search may end up one start too late (MPEG-TS); from the beginning, every frame is found
            if not any(self._read(place, first, last) for place in sorted({start, earlier, 0}, reverse=True)):
                raise MediaError(self._name, f"frame {last} is missing or changed", remedy="register the video again")
        except BaseException:
            self._close()
            raise

    def _read(self, start: int, first: int, last: int) -> bool:
        """Decodes from `start`, or goes on where the last call ended; whether all frames were found."""
        self._cache.clear()
        if self._pictures is None or not start <= self._next <= first:
            self._pictures, self._next = self._pictures_from(start, first), first
        while self._next <= last:
            picture = next(self._pictures, None)
            if picture is None:
                self._pictures = None
                return False
            if self._next >= first:
                self._cache[self._next] = self._fitted(picture)
            self._next += 1
        return True

    def _pictures_from(self, start: int, first: int) -> Iterator[NDArray[np.uint8]]:
        """The pictures from `first` on, decoded from a position at which decoding can begin."""
        if self._media is None or start == 0:
            self._container.close()
            self._media = self._container.enter_context(open_media(self._path(), "video"))
        if start:
            self._seek(self._media, self.index.times[start])
        return _IndexedMedia(**vars(self._media), index=self.index, first=first).pictures()

    def _seek(self, media: Media, time: int) -> None:
        try:
            media.container.seek(time, stream=media.stream)
        except FFmpegError as error:
            raise MediaError(self._name, f"can't be searched ({error.strerror})", remedy=_DAMAGED) from error

    def _path(self) -> Path:
        if isinstance(self.origin, Path):
            return self.origin
        if self._copy is None:
            folder = self._temporary.enter_context(tempfile.TemporaryDirectory(prefix="ditto-live-"))
            self._copy = Path(folder, "video")
            self.origin.tofile(self._copy)
        return self._copy

    def _fitted(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        fitted = fit_picture(picture)
        if fitted.shape[:2] != self._size:
            raise MediaError(self._name, "the size of the picture changes midway", remedy=_DAMAGED)
        return fitted

    @property
    def _name(self) -> Path:
        return self.origin if isinstance(self.origin, Path) else Path("video of the avatar")


def _unreadable(path: Path, error: OSError) -> MediaError:
    return MediaError(path, f"can't be read ({error.strerror})", remedy="check the path")


def _close_all(*stacks: contextlib.ExitStack) -> None:
    for stack in stacks:
        stack.close()

"""What takes a container's bytes, and keeps the first error.

An error must not pass through FFmpeg: PyAV drops one that comes while a container is closed, or raises it in a later
call. So writing goes on in vain, and whoever writes asks after each step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


class Target:
    """Bytes to a function.

    Args:
        write: takes all the bytes that it is given, or raises.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._count = 0
        self._error: Exception | None = None

    def write(self, data: bytes) -> int:
        """Takes bytes; drops them after an error."""
        if self._error is None:
            try:
                self._write(data)
                self._count += len(data)
            except Exception as error:  # whatever the function raises
                self._error = self.typed(error)
                self._error.__cause__ = None if self._error is error else error
        return len(data)

    def typed(self, error: Exception) -> Exception:
        """What `check` raises in place of an error."""
        return error

    def check(self) -> None:
        """Raises the first error, if there was one."""
        if self._error is not None:
            raise self._error


class FileTarget(Target):
    """Bytes to a file, which may go back in it.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        super().__init__(self._file.write)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to a place, as files do."""
        return self._file.seek(offset, whence) if self._error is None else 0

    def tell(self) -> int:
        """The place in the file."""
        return self._file.tell() if self._error is None else 0

    def close(self) -> None:
        """Writes what is left, for `check` to tell; nothing happens where it is closed already."""
        try:
            self._file.close()
        except OSError as error:
            self._error = self._error or error

"""The errors that Ditto Live raises: what was wrong, with which value, and what to do."""

from __future__ import annotations

from pathlib import Path


class DittoError(Exception):
    """Base of all errors raised on purpose by this package.

    Args:
        problem: what was wrong, with the value, as one clause without a full stop.
        remedy: what the user can do about it, as one clause without a full stop.

    Attributes:
        problem: as given.
        remedy: as given.
    """

    def __init__(self, problem: str, *, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}. {remedy[:1].upper()}{remedy[1:]}.")


class InvalidValueError(DittoError):
    """A value given by the caller is out of its range or of the wrong kind."""


class FileError(DittoError):
    """A file could not be used.

    Attributes:
        path: the file or folder in question.
    """

    def __init__(self, path: str | Path, problem: str, *, remedy: str) -> None:
        self.path = Path(path)
        super().__init__(f"{self.path}: {problem}", remedy=remedy)


class CheckpointError(FileError):
    """A file of weights or its configuration is missing, damaged, unsafe or of another model."""


class MissingPackageError(DittoError):
    """An optional package is needed for what was asked, and it is not installed.

    Attributes:
        package: the name to import.
    """

    def __init__(self, package: str, *, needed_for: str, install: str) -> None:
        self.package = package
        super().__init__(f"{needed_for} needs the package '{package}'", remedy=f"install it: {install}")


class BackendError(DittoError):
    """A rendering backend was asked for, and can't be made ready here."""

"""What can go wrong with a bulletin."""

from __future__ import annotations

from ..errors import DittoError, FileError


class WorkflowError(FileError):
    """The workflow file can't be read, or it is not in ComfyUI's API format."""


class TableError(FileError):
    """The table of segments can't be read, or it does not fit the workflow."""


class ManifestError(FileError):
    """The manifest can't be read, is in use, or belongs to something else."""


class ServerUnreachableError(DittoError):
    """The server does not answer: it may be back later."""


class ServerAnswerError(DittoError):
    """The server refused a request, or its answer is not what ComfyUI answers.

    Attributes:
        status: the HTTP status; 0 where the answer came but can't be used.
    """

    def __init__(self, problem: str, *, remedy: str, status: int = 0) -> None:
        self.status = status
        super().__init__(problem, remedy=remedy)

"""Which backend runs."""

from __future__ import annotations

from ..checkpoints.models import DittoModels
from ..errors import InvalidValueError
from .backend import RenderBackend
from .eager import TorchBackend

BACKENDS = ("torch",)


def choose_backend(word: str, models: DittoModels) -> RenderBackend:
    """The backend of a name.

    Args:
        word: "auto" or one of `BACKENDS`; "auto" is torch, which every device has.
        models: the networks that it shall run.

    Raises:
        InvalidValueError: this version has no backend of that name.
    """
    if word != "auto" and word not in BACKENDS:
        raise InvalidValueError(f"backend {word!r}", remedy=f"choose auto or {', '.join(BACKENDS)}")
    return TorchBackend(models)

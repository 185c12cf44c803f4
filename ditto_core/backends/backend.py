"""What draws faces: the interface of all rendering backends, and their precisions."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from ..errors import InvalidValueError

PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class RenderBackend(Protocol):
    """Draws faces in batches of any one size; a renderer always calls with the same."""

    @property
    def device(self) -> torch.device:
        """Where volumes and faces are."""
        ...

    @property
    def executed_by(self) -> str:
        """What really runs, in words, for reports."""
        ...

    def volumes(self, crops: Tensor) -> Tensor:
        """(b, 256, 256, 3) uint8 RGB -> (b, c, d, s, s) appearance volumes on the device."""
        ...

    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        """Volumes (b, ...), source and driving key points (b, 21, 3) -> (b, 3, 512, 512) RGB in 0..1."""
        ...


def precision_type(word: str, device: torch.device) -> torch.dtype:
    """The type in which the rendering networks shall be loaded.

    Args:
        word: auto, fp32, fp16 or bf16. "auto" is fp16 on a GPU, as in the original, and fp32 on a CPU.
        device: where they shall run.

    Raises:
        InvalidValueError: the word is none of these, or fp16 is asked for on a CPU.
    """
    if word == "auto":
        word = "fp16" if device.type == "cuda" else "fp32"
    if word not in PRECISIONS:
        raise InvalidValueError(f"precision {word!r}", remedy=f"choose auto, {', '.join(PRECISIONS)}")
    if word == "fp16" and device.type == "cpu":
        raise InvalidValueError("precision fp16 on a CPU, where it takes minutes a frame", remedy="choose fp32 or bf16")
    return PRECISIONS[word]

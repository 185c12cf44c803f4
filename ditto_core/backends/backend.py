"""What draws faces: the interface of all rendering backends, and their precisions."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..progress import Steps

PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

_CPU_BFLOAT16 = {"avx512_bf16", "amx_bf16"}


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

    def warm_up(self, batch: int, progress: Steps | None = None) -> None:
        """Makes everything ready for one batch size, so that no call of `faces` is slow."""
        ...

    def close(self) -> None:
        """Gives back what the backend holds beside the models."""
        ...


def choose_device(word: str) -> torch.device:
    """The device of auto, cpu or cuda; auto is the GPU where torch sees one.

    Raises:
        InvalidValueError: cuda is asked for, and torch sees no GPU, or the word is none of these.
    """
    if word not in ("auto", "cpu", "cuda"):
        raise InvalidValueError(f"device {word!r}", remedy="choose auto, cpu or cuda")
    available = torch.cuda.is_available()
    if word == "cuda" and not available:
        raise InvalidValueError(
            "device cuda, where torch sees no GPU", remedy="choose cpu, or see `python -m ditto_core doctor`"
        )
    return torch.device("cuda" if available and word != "cpu" else "cpu")


def device_name(device: torch.device) -> str:
    """The GPU's name, or CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def cpu_has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 by itself, as Linux tells; elsewhere the answer is no."""
    file = Path("/proc/cpuinfo")
    if not file.is_file():
        return False
    flags = (line.split() for line in file.read_text().splitlines() if line.startswith("flags"))
    return bool(_CPU_BFLOAT16 & set(next(flags, [])))


def precision_type(word: str, device: torch.device) -> torch.dtype:
    """The type in which the rendering networks shall be loaded.

    Args:
        word: auto, fp32, fp16 or bf16. "auto" is fp16 on a GPU, as in the original; on a CPU it is bf16 where the
            processor multiplies bf16 by itself, which halves the time, else fp32.
        device: where they shall run.

    Raises:
        InvalidValueError: the word is none of these, or fp16 is asked for on a CPU.
    """
    if word == "auto":
        word = "fp16" if device.type == "cuda" else "bf16" if cpu_has_bfloat16() else "fp32"
    if word not in PRECISIONS:
        raise InvalidValueError(f"precision {word!r}", remedy=f"choose auto, {', '.join(PRECISIONS)}")
    if word == "fp16" and device.type == "cpu":
        raise InvalidValueError("precision fp16 on a CPU, where it takes minutes a frame", remedy="choose fp32 or bf16")
    return PRECISIONS[word]

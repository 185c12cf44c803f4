"""Motion tracks: the driving motion of a whole sound, before any controls, and its file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ..errors import FileError, InvalidValueError
from ..files import write_whole
from ..networks.presets import MOTION_SIZE
from ..speech.windows import FRAME_RATE

MAX_FRAMES = 4 * 3600 * FRAME_RATE
"""Longest track that a file may hold: four hours."""

_FORMAT = "ditto-live motion track 1"
_LARGEST_HEADER = 100_000
_MIXED = "mixed"


@dataclass(frozen=True, kw_only=True)
class MotionTrack:
    """Raw driving motion, one row a frame. Controls are applied when frames are pulled, never here.

    Attributes:
        vectors: (n, 265) float32 motion vectors on the CPU, n at least 1.
        reference: (265,) the motion that counts as rest, d0: relative mode reads how far a row is from it.
        seed: of the noise; None where parts of several seeds were put together.
        plan: name of the plan.
        models: fingerprint of the models that made it.
        fps: frames a second.
    """

    vectors: Tensor
    reference: Tensor
    seed: int | None
    plan: str
    models: str
    fps: int = FRAME_RATE

    def __post_init__(self) -> None:
        """Checks shapes and values.

        Raises:
            InvalidValueError: a shape, type or value is not as described.
        """
        n, shape = len(self.vectors), tuple(self.vectors.shape)
        if shape != (n, MOTION_SIZE) or not 1 <= n <= MAX_FRAMES or tuple(self.reference.shape) != (MOTION_SIZE,):
            raise InvalidValueError(
                f"a motion track of shape {shape} with a reference of shape {tuple(self.reference.shape)}",
                remedy=f"give 1 to {MAX_FRAMES} rows of {MOTION_SIZE} values and one reference row",
            )
        for tensor in (self.vectors, self.reference):
            if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
                raise InvalidValueError(
                    f"a motion track of {tensor.dtype} on '{tensor.device}'", remedy="give float32 on the CPU"
                )
            if not bool(torch.isfinite(tensor).all()):
                raise InvalidValueError("a motion track with values that are not finite", remedy="make it anew")
        if self.fps != FRAME_RATE:
            raise InvalidValueError(f"a motion track of {self.fps} fps", remedy=f"motion is made at {FRAME_RATE} fps")

    def __len__(self) -> int:
        return len(self.vectors)

    def slice(self, start: int, stop: int) -> MotionTrack:
        """Frames start..stop, with the reference of the whole.

        Raises:
            InvalidValueError: the range is empty or reaches beyond the track.
        """
        if not 0 <= start < stop <= len(self):
            raise InvalidValueError(
                f"frames {start} to {stop} of a track of {len(self)}",
                remedy="choose 0 <= start < stop <= length",
            )
        return dataclasses.replace(self, vectors=self.vectors[start:stop])

    def save(self, path: str | Path) -> None:
        """Writes the track as a safetensors file; under its name there is a whole file or none.

        Raises:
            FileError: it can't be written.
        """
        path = Path(path)
        about = {
            "format": _FORMAT,
            "seed": self.seed,
            "plan": self.plan,
            "models": self.models,
            "fps": self.fps,
        }
        content = safetensors.torch.save(
            # Copies, since the reference may be a view of the vectors, and a file can't hold shared memory.
            {"vectors": self.vectors.clone(), "reference": self.reference.clone()},
            metadata={"ditto": json.dumps(about)},
        )
        write_whole(path, content)

    @classmethod
    def load(cls, path: str | Path) -> MotionTrack:
        """Reads a track that `save` wrote.

        Raises:
            FileError: there is no such file, or it is no motion track, damaged, or too large.
        """
        path = Path(path)
        if not path.is_file():
            raise FileError(path, "is no file", remedy="give the path of a motion track")
        largest = (MAX_FRAMES + 1) * MOTION_SIZE * 4 + _LARGEST_HEADER
        if path.stat().st_size > largest:
            raise FileError(path, f"is larger than {largest} bytes", remedy="split the track")
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                about = _about(file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in ("vectors", "reference")}
            return cls(**tensors, **about)
        except (
            safetensors.SafetensorError,
            InvalidValueError,
            ValueError,
            KeyError,
            TypeError,
            OSError,
        ) as error:
            raise FileError(
                path, f"is no usable motion track ({error})", remedy="make it anew with this version"
            ) from error


def _about(metadata: dict[str, str]) -> dict[str, Any]:
    if len(metadata["ditto"]) > _LARGEST_HEADER:
        raise ValueError("too long a header")
    about = json.loads(metadata["ditto"])
    if not isinstance(about, dict) or about.pop("format", None) != _FORMAT:
        raise ValueError("unknown format")
    wanted: dict[str, type | tuple[type, ...]] = {
        "seed": (int, type(None)),
        "plan": str,
        "models": str,
        "fps": int,
    }
    if set(about) != set(wanted) or not all(isinstance(about[name], kind) for name, kind in wanted.items()):
        raise ValueError("unknown fields")
    return dict(about)


def concat(tracks: Sequence[MotionTrack]) -> MotionTrack:
    """Tracks one after another.

    Rows of later tracks are moved by the distance of their reference from the first one's, so that in
    relative mode every row moves the face as it did alone.

    Raises:
        InvalidValueError: there is no track, or they come from different models.
    """
    if not tracks:
        raise InvalidValueError("no motion tracks to put together", remedy="give at least one")
    first = tracks[0]
    models = {track.models for track in tracks}
    if len(models) > 1:
        raise InvalidValueError(
            f"motion tracks of different models {sorted(models)}",
            remedy="make all tracks with the same models",
        )
    return dataclasses.replace(
        first,
        vectors=torch.cat([track.vectors + (first.reference - track.reference) for track in tracks]),
        seed=first.seed if len({track.seed for track in tracks}) == 1 else None,
        plan=first.plan if len({track.plan for track in tracks}) == 1 else _MIXED,
    )

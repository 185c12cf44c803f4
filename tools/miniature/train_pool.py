"""Pictures to train on: drawn on the training device while the training runs, and kept as bytes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from .presenter import render
from .presenter_cast import CAST, HELD_OUT, cast
from .presenter_geometry import FACE, PoseRecord, View, pose_record
from .presenter_parameters import Identity, Motion, Parameters, random_identities, random_motions

TRAINED = tuple(name for name in CAST if name not in HELD_OUT)
_POSE = ("yaw", "pitch", "roll", "x", "y", "scale")
_KINDS = {"neutral": (0.0, 0.0), "calm": (0.2, 0.2), "talking": (0.2, 1.0), "half": (0.5, 0.5), "full": (1.0, 1.0)}
"""Kinds of motion: strength of pose and of expression."""

Some = TypeVar("Some", bound=Parameters)


def join(parts: Sequence[Some]) -> Some:
    """Several sets of entries as one."""
    first = parts[0]
    return type(first)(**{name: torch.cat([getattr(part, name) for part in parts]) for name in vars(first)})


def looks(n: int, named: float, generator: torch.Generator) -> Identity:
    """Random identities, a share of them replaced by named presenters that training may see."""
    random = random_identities(n, generator)
    known = cast(TRAINED)[torch.randint(len(TRAINED), (n,), generator=generator)]
    chosen = torch.rand(n, generator=generator) < named

    def mixed(name: str) -> Tensor:
        ours, theirs = getattr(known, name), getattr(random, name)
        return torch.where(chosen.reshape(-1, *[1] * (ours.ndim - 1)), ours, theirs)

    return Identity(**{name: mixed(name) for name in vars(random)})


def moves(kind: str, n: int, generator: torch.Generator) -> Motion:
    """Motions of one kind."""
    pose, expression = (random_motions(n, generator, strength) for strength in _KINDS[kind])
    return dataclasses.replace(expression, **{name: getattr(pose, name) for name in _POSE})


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolSettings:
    """What a pool holds.

    Attributes:
        groups: presenters at once.
        frames: how many pictures of each kind of motion a presenter has.
        named: share of named presenters.
        size: height and width of the pictures.
        framing: how far the view may be off: share of its size, and place in scene units.
        at_once: presenters drawn together.
    """

    groups: int
    frames: Mapping[str, int]
    named: float
    size: int = FACE.width
    framing: float = 0.0
    at_once: int = 4


class PicturePool:
    """A ring of presenters, each in several motions.

    Attributes:
        filled: presenters in the ring.
        drawn: pictures drawn so far.
        seconds: time spent drawing.
    """

    def __init__(self, chosen: PoolSettings, *, seed: int, device: torch.device) -> None:
        self._settings, self._device = chosen, device
        self._generator = torch.Generator().manual_seed(seed)
        self.kinds = tuple(kind for kind, count in chosen.frames.items() for _ in range(count))
        shape = (chosen.groups, len(self.kinds))
        self._pictures = torch.empty(*shape, 3, chosen.size, chosen.size, dtype=torch.uint8, device=device)
        self._records: dict[str, Tensor] = {}
        self._next, self.filled, self.drawn, self.seconds = 0, 0, 0, 0.0

    def fill(self, seconds: float) -> None:
        """Draws until the ring is full or the time is over; at least once."""
        while not self.drawn or (self.filled < self._settings.groups and self.seconds < seconds):
            self.refresh()

    def refresh(self) -> None:
        """Draws some new presenters in place of the oldest."""
        start = time.perf_counter()
        chosen, frames = self._settings, len(self.kinds)
        count = min(chosen.at_once, chosen.groups - self._next)
        identity = looks(count, chosen.named, self._generator)[torch.arange(count).repeat_interleave(frames)]
        by_kind = [moves(kind, count, self._generator) for kind in self.kinds]
        order = torch.arange(frames * count).reshape(frames, count).T.flatten()
        motion, view = join(by_kind)[order].to(self._device), self._view(count * frames)
        identity = identity.to(self._device)
        pictures = (render(identity, motion, view) * 255).round().to(torch.uint8)
        place = slice(self._next, self._next + count)
        self._pictures[place] = pictures.unflatten(0, (count, frames))
        for name, value in pose_record(identity, motion, view)._asdict().items():
            store = self._records.get(name)
            if store is None:
                store = value.new_empty(chosen.groups, frames, *value.shape[1:])
                self._records[name] = store
            store[place] = value.unflatten(0, (count, frames))
        self._next = (self._next + count) % chosen.groups
        self.filled = max(self.filled, place.stop)
        self.drawn += count * frames
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - start

    def _view(self, n: int) -> View:
        size, off = self._settings.size, self._settings.framing
        if not off:
            return View(width=size, height=size)
        draw = (2 * torch.rand(3, n, generator=self._generator) - 1).to(self._device) * off
        return View(width=size, height=size, span=2 * (1 + draw[0]), x=draw[1], y=draw[2])

    def pictures(self, group: Tensor, frame: Tensor) -> Tensor:
        """Chosen pictures, (n, 3, size, size) in 0..1."""
        return self._pictures[group, frame].float() / 255

    def records(self, group: Tensor, frame: Tensor) -> PoseRecord:
        """Their designed motion."""
        return PoseRecord(**{name: value[group, frame] for name, value in self._records.items()})

"""Measures of courses over time, one value a frame: likeness, lag, spikes, joints, and how lips follow speech."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidValueError

Course = NDArray[np.floating]

FARTHEST_LAG = 5
"""Frames by which a course is looked for before and after its place."""
SPIKE_FLOOR = 4.0
"""Grey levels in a block of 32 x 32 pixels below which no step is a spike: coders make steps of 1 to 2 of them."""
SPIKE_FACTOR = 2.0
"""How many times the usual step a spike is."""
_NEAR, _AROUND = 2, 12
_STILL = 1e-9


@dataclass(frozen=True, kw_only=True)
class LipSync:
    """How a mouth follows what is said.

    Attributes:
        frames: frames looked at.
        r: correlation of the opening with what was meant; 0 for a mouth that never moves.
        slope: opening made for an opening meant of 1, by least squares.
        lag_frames: frames by which the mouth comes late; None where it does not move with what is meant at all.
        closures: sounds that shut the lips.
        closed: share of them in which the mouth is shut within a frame.
        open_frames: frames in which it is meant to be open.
        wrongly_shut: share of these in which it is shut. Without it, `closed` says nothing.
    """

    frames: int
    r: float
    slope: float
    lag_frames: int | None
    closures: int
    closed: float
    open_frames: int
    wrongly_shut: float


@dataclass(frozen=True, kw_only=True)
class JointSteps:
    """Steps from frame to frame where windows of motion join, and elsewhere.

    Attributes:
        joint_largest: largest step at a joint.
        elsewhere_largest: largest step elsewhere.
        joint_mean: mean at joints.
        elsewhere_mean: mean elsewhere.
    """

    joint_largest: float
    elsewhere_largest: float
    joint_mean: float
    elsewhere_mean: float

    @property
    def ratio(self) -> float:
        """Largest at a joint over largest elsewhere; infinite where only joints move."""
        if self.elsewhere_largest > 0:
            return self.joint_largest / self.elsewhere_largest
        return float("inf") if self.joint_largest > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Separation:
    """How far courses of different kinds are from each other, beside what chance does.

    Attributes:
        noise: mean distance of two draws of one kind.
        distances: mean distance of each two kinds, over the draws they share.
        least: the smallest of them.
    """

    noise: float
    distances: dict[tuple[Hashable, Hashable], float]
    least: float

    @property
    def least_to_noise(self) -> float:
        """The smallest distance over the noise; infinite without noise."""
        return self.least / self.noise if self.noise > 0 else float("inf")


def correlation(a: Course, b: Course) -> float:
    """Pearson's r of two courses (n,); 0 where one of them does not move."""
    if len(a) != len(b) or len(a) < 2:
        raise InvalidValueError(f"courses of {len(a)} and {len(b)} frames", remedy="pass equal lengths of 2 or more")
    x, y = (np.asarray(values, np.float64) - np.mean(values, dtype=np.float64) for values in (a, b))
    size = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / size) if size > _STILL else 0.0


def lag(made: Course, meant: Course, farthest: int = FARTHEST_LAG) -> int | None:
    """Frames by which a course comes after what was meant: the shift of the largest correlation.

    Args:
        made: (n,).
        meant: (n,).
        farthest: shifts that are tried to both sides.

    Returns:
        The shift; None where no shift correlates above 0, or the courses are too short for a shift.
    """
    if len(made) != len(meant):
        raise InvalidValueError(f"courses of {len(made)} and {len(meant)} frames", remedy="pass equal lengths")
    middle = meant[farthest : len(meant) - farthest]
    if len(middle) < 2:
        return None
    found = {k: correlation(made[farthest + k : len(made) - farthest + k], middle) for k in _by_size(farthest)}
    best = max(found, key=lambda k: found[k])
    return best if found[best] > 0 else None


def _by_size(farthest: int) -> list[int]:
    return sorted(range(-farthest, farthest + 1), key=abs)


def lip_sync(
    made: Sequence[Course],
    meant: Sequence[Course],
    closures: Sequence[Sequence[int] | NDArray[np.integer]],
    *,
    shut: float,
    open_above: float,
) -> LipSync:
    """How mouths follow speech, over one or more clips.

    Args:
        made: the opening in each frame of each clip.
        meant: the opening that was meant, as many values.
        closures: for each clip the frames in the middle of a sound that shuts the lips (b, p, m).
        shut: opening made, up to which a mouth counts as shut.
        open_above: opening meant, above which it is to be open.

    Raises:
        InvalidValueError: clips of different lengths or numbers, or fewer than 2 frames.
    """
    if not len(made) == len(meant) == len(closures):
        raise InvalidValueError(
            f"{len(made)} courses, {len(meant)} targets and {len(closures)} lists of closures",
            remedy="pass one of each for every clip",
        )
    middles = [(course, frame) for course, frames in zip(made, closures, strict=True) for frame in frames]
    held = sum(bool(course[max(0, frame - 1) : frame + 2].min() <= shut) for course, frame in middles)
    opened, wanted = np.concatenate(made), np.concatenate(meant)
    r = correlation(opened, wanted)
    meant_open = wanted > open_above
    return LipSync(
        frames=len(opened),
        r=r,
        slope=float(np.polyfit(wanted, opened, 1)[0]) if np.ptp(wanted) > 0 else 0.0,
        lag_frames=lag(opened, wanted),
        closures=len(middles),
        closed=held / max(len(middles), 1),
        open_frames=int(meant_open.sum()),
        wrongly_shut=float((opened[meant_open] <= shut).mean()) if meant_open.any() else 0.0,
    )


def usual_here(steps: Course) -> NDArray[np.float64]:
    """What steps (n,) usually are around each frame of the same clip: the median of 12 frames to both sides."""
    padded = np.pad(np.asarray(steps, np.float64), _AROUND, mode="reflect" if len(steps) > _AROUND else "edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _AROUND + 1), axis=1)


def usual_there(steps: Course) -> NDArray[np.float64]:
    """What steps (n,) another clip of the same motion has: its largest within 2 frames."""
    padded = np.pad(np.asarray(steps, np.float64), _NEAR, mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEAR + 1).max(axis=1)


def spikes(
    steps: Course, usual: Course, *, factor: float = SPIKE_FACTOR, floor: float = SPIKE_FLOOR
) -> tuple[int, ...]:
    """Frames into which a picture jumps.

    Args:
        steps: (n,) difference of each frame from the one before.
        usual: (n,) what it may be, see `usual_here` and `usual_there`.
        factor: how many times the usual step a spike is, at least.
        floor: what a spike is above the usual step, at least.

    Returns:
        The frames. Steps that spike one after another, as into a glitch and out of it, are one spike, named by its
        first frame.
    """
    high = (steps > factor * usual) & (steps > usual + floor)
    first = high & ~np.concatenate([[False], high[:-1]])
    return tuple(int(frame) for frame in np.flatnonzero(first))


def joint_frames(frames: int, *, chunk: int, blended: int) -> NDArray[np.bool_]:
    """Which frames (frames,) lie at a joint of motion windows: the first after it, and those blended.

    Args:
        frames: in all.
        chunk: new frames a window.
        blended: frames after a joint that both windows have a share in.
    """
    frame = np.arange(frames)
    return (frame >= chunk) & (frame % chunk <= blended)


def joint_steps(steps: Sequence[Course], joints: Sequence[NDArray[np.bool_]]) -> JointSteps:
    """Steps at joints beside the others.

    Args:
        steps: for each clip the difference of each frame from the one before.
        joints: for each clip which frames lie at a joint.

    Raises:
        InvalidValueError: there is no joint, or nothing else.
    """
    every, where = np.concatenate(steps), np.concatenate(joints)
    at, off = every[where], every[~where]
    if not len(at) or not len(off):
        raise InvalidValueError(f"{len(at)} steps at joints and {len(off)} elsewhere", remedy="use longer clips")
    return JointSteps(
        joint_largest=float(at.max()),
        elsewhere_largest=float(off.max()),
        joint_mean=float(at.mean()),
        elsewhere_mean=float(off.mean()),
    )


def separation(shapes: Mapping[tuple[Hashable, int], NDArray[np.floating]], kinds: Sequence[Hashable]) -> Separation:
    """How far kinds of motion are from each other in their key points.

    Args:
        shapes: by kind and seed, (n, k, 3) key points.
        kinds: those to tell apart, at least 2, each with the same 2 or more seeds.

    Raises:
        InvalidValueError: too few kinds or seeds.
    """
    seeds = sorted({seed for kind, seed in shapes if kind in kinds})
    if len(kinds) < 2 or len(seeds) < 2:
        raise InvalidValueError(f"{len(kinds)} kinds with {len(seeds)} seeds", remedy="pass at least 2 of each")

    def distance(a: tuple[Hashable, int], b: tuple[Hashable, int]) -> float:
        return float(np.linalg.norm(shapes[a] - shapes[b], axis=-1).mean())

    noise = [distance((kind, a), (kind, b)) for kind in kinds for a, b in itertools.combinations(seeds, 2)]
    distances = {
        (a, b): float(np.mean([distance((a, seed), (b, seed)) for seed in seeds]))
        for a, b in itertools.combinations(kinds, 2)
    }
    return Separation(noise=float(np.mean(noise)), distances=distances, least=min(distances.values()))

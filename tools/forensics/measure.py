"""Measures of a run's frames beside those that they should equal, and what is asked of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ditto_core.errors import DittoError, InvalidValueError
from ditto_core.quality import ClipMeter, FaceTrack, PairMeter, aperture_difference, psnr
from ditto_core.quality.drawing import Pixels
from ditto_core.quality.pictures import luma
from ditto_core.render import nv12_to_rgb

from ..reports import goal


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What is asked of a run.

    Attributes:
        psnr_db: least PSNR of brightness over all frames.
        largest_delta: most dark pixels by which the open mouth may differ in any frame; None asks nothing.
        mean_delta_percent: the same on average, in percent of the mouth wide open.
        exact: whether every byte of every frame has to be the same.
    """

    psnr_db: float
    largest_delta: int | None = None
    mean_delta_percent: float | None = None
    exact: bool = False


FLOAT32 = Bar(psnr_db=60, largest_delta=0)
HALF = Bar(psnr_db=50, mean_delta_percent=0.5)
LIVE = Bar(psnr_db=60, largest_delta=0, exact=True)
ENCODED = Bar(psnr_db=42)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tile:
    """A face in one frame.

    Attributes:
        frame: its number.
        wanted: (h, w, 3) RGB as it should be.
        found: the same of the run.
    """

    frame: int
    wanted: Pixels
    found: Pixels


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """A run beside what it should equal.

    Attributes:
        name: of the run.
        about: what it was made with, and all figures, ready for JSON.
        goals: each with its limit, and whether it is met.
        tiles: some frames of the face.
        largest: largest difference of any channel of any pixel; None where nothing was measured.
    """

    name: str
    about: dict[str, Any]
    goals: Sequence[dict[str, Any]] = ()
    tiles: Sequence[Tile] = field(default=(), repr=False)
    largest: float | None = None


def left_out(name: str, error: DittoError) -> Row:
    """A run that can't be made on this machine, and what came of trying."""
    return Row(name=name, about={"not_measured": error.problem})


def compared(
    name: str,
    wanted: Iterable[Tensor],
    found: Iterable[Tensor],
    *,
    track: FaceTrack,
    shown: Sequence[int],
    bar: Bar,
    about: dict[str, Any],
) -> Row:
    """Compares two runs frame by frame; neither is held in memory.

    Args:
        name: of the run.
        wanted: (3 H / 2, W) uint8 NV12 frames on the CPU, as they should be.
        found: those of the run.
        track: where mouth and face are, in both.
        shown: frames to keep a picture of.
        bar: what is asked.
        about: what the run was made with.

    Raises:
        InvalidValueError: one of the runs has no frame.
    """
    pairs, clips = PairMeter(), (ClipMeter(track), ClipMeter(track))
    counts, unequal, of_face, tiles = [0, 0], 0, [], []
    for frame, both in enumerate(itertools.zip_longest(wanted, found)):
        counts = [count + (picture is not None) for count, picture in zip(counts, both, strict=True)]
        if both[0] is None or both[1] is None:
            continue
        unequal += not torch.equal(*both)
        x, y = (nv12_to_rgb(picture[None])[0].numpy() for picture in both)
        pairs.add(x, y)
        for clip, picture in zip(clips, (x, y), strict=True):
            clip.add(picture)
        left, top, right, bottom = track.boxes[frame]
        tile = Tile(frame=frame, wanted=x[top:bottom, left:right], found=y[top:bottom, left:right])
        of_face.append(_squared(tile))
        if frame in shown:
            tiles.append(tile)
    if not of_face:
        raise InvalidValueError(f"{name}: no frame to compare", remedy="compare runs of at least one frame")
    apertures = aperture_difference(*(clip.courses().apertures for clip in clips))
    pictures = pairs.summary()
    figures = {
        "frames": counts[0],
        "frames_of_run": counts[1],
        "frames_not_equal": unequal,
        "pictures": pictures,
        "psnr_y_db_of_face": psnr(float(np.mean(of_face))),
        "aperture": apertures,
        "spikes": list(pairs.spikes()),
        "largest_change_of_difference": float(pairs.changes().max()),
    }
    goals = goals_of(name, figures, bar)
    return Row(name=name, about={**about, **figures}, goals=goals, tiles=tiles, largest=pictures["largest_delta"])


def goals_of(name: str, figures: dict[str, Any], bar: Bar) -> list[dict[str, Any]]:
    """What is asked of a run, and whether its figures meet it."""
    apertures = figures["aperture"]
    asked = [
        goal("frames too many or too few", abs(figures["frames_of_run"] - figures["frames"]), most=0),
        goal("psnr of brightness in dB", figures["pictures"]["psnr_y_db"], least=bar.psnr_db),
        goal("spikes from frame to frame", len(figures["spikes"]), most=0),
    ]
    if bar.exact:
        asked.append(goal("frames that are not equal bit for bit", figures["frames_not_equal"], most=0))
    if bar.largest_delta is not None:
        asked.append(goal("aperture: largest difference in pixels", apertures["largest_delta"], most=bar.largest_delta))
    if bar.mean_delta_percent is not None:
        percent = apertures["mean_delta_percent"]
        asked.append(goal("aperture: mean difference in percent", percent, most=bar.mean_delta_percent))
    return [{**item, "goal": f"{name}: {item['goal']}"} for item in asked]


def _squared(tile: Tile) -> float:
    """Mean squared difference of brightness within the face's box."""
    x, y = (luma(torch.from_numpy(np.ascontiguousarray(picture))) for picture in (tile.wanted, tile.found))
    return float((y - x).square().mean(dtype=torch.float64))

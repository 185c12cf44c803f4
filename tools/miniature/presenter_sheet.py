"""Contact sheet of all presenters and of what a face can do.

python -m tools.miniature.presenter_sheet [FILE.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from ditto_core.quality import write_png

from .presenter import render
from .presenter_cast import CAST, cast
from .presenter_geometry import BUST
from .presenter_parameters import Motion

_COLUMNS = 7
_TILE = 256
_DEFAULT = Path("benchmarks/miniature/presenters.png")
_SHOWN = ("anna", "chidi")
_BESIDE = ("karin", "george")
MOTIONS: tuple[dict[str, float], ...] = (
    {},
    {"open": 0.3},
    {"open": 0.9},
    {"open": 0.35, "pucker": 1.0},
    {"smile": 0.9, "teeth": 0.7, "open": 0.25},
    {"teeth": 1.0, "wide": 0.3},
    {"blink_left": 1.0, "blink_right": 1.0},
    {"gaze_x": 1.0},
    {"yaw": 15.0, "open": 0.3},
    {"yaw": -20.0},
    {"pitch": 10.0, "open": 0.2},
    {"roll": 12.0, "smile": 0.5},
    {"brow": 1.0, "blink_left": -0.3, "blink_right": -0.3, "open": 0.3},
    {"smile": -0.5, "brow_inner": 1.0},
)
"""One tile each, for two presenters."""


def to_bytes(picture: Tensor) -> NDArray[np.uint8]:
    """A picture (3, h, w) in 0..1 as RGB bytes (h, w, 3)."""
    array: NDArray[np.uint8] = (picture * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().cpu().numpy()
    return array


def _tiles(pictures: Tensor, size: int, columns: int) -> Tensor:
    """Pictures (n, 3, h, w) as one picture of square tiles."""
    small = interpolate(pictures, size=(size, size), mode="area")
    rows = [torch.cat(list(row), dim=-1) for row in small.split(columns)]
    return torch.cat(rows, dim=-2)


def contact_sheet() -> Tensor:
    """The sheet: the cast, motions of two presenters, two faces at full size beside two busts."""
    everyone = cast()
    faces = torch.cat([render(everyone[[i]], Motion.neutral()) for i in range(len(CAST))])
    parts = [_tiles(faces, _TILE, _COLUMNS)]
    for name in _SHOWN:
        moved = torch.cat([render(cast([name]), Motion.neutral(1, **motion)) for motion in MOTIONS])
        parts.append(_tiles(moved, _TILE, _COLUMNS))
    beside = cast(_BESIDE)
    big = [render(beside[[i]], Motion.neutral(1, open=0.6, smile=0.3))[0] for i in range(len(_BESIDE))]
    busts = [render(beside[[i]], Motion.neutral(), BUST) for i in range(len(_BESIDE))]
    narrow = [interpolate(bust, size=(512, 410), mode="area")[0, :, :, 13:-13] for bust in busts]
    row = torch.cat([big[0], narrow[0], big[1], narrow[1]], dim=-1)
    return torch.cat([*parts, row], dim=-2)


def main() -> None:
    """Writes the sheet."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else _DEFAULT
    write_png(path, to_bytes(contact_sheet()))


if __name__ == "__main__":
    main()

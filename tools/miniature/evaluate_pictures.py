"""Measures the miniature's picture networks on drawn presenters, and draws a sheet of what they make.

python -m tools.miniature.evaluate_pictures [MODELS] [--out FOLDER] [--count N]

MODELS is a folder, or by default the bundled miniature. Writes pictures.json and pictures.png.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ditto_core.bench.environment import describe
from ditto_core.checkpoints.layout import find_models, read_network
from ditto_core.checkpoints.models import BUNDLED, build_network
from ditto_core.files import write_whole
from ditto_core.motion.keypoints import keypoints

from . import train_extractor, train_pictures
from .presenter import render
from .presenter_cast import HELD_OUT, cast
from .presenter_geometry import pose_record, presenter_keypoints
from .presenter_parameters import Motion
from .presenter_sheet import to_bytes, write_png
from .train_pool import TRAINED

_DEFAULT = Path("benchmarks/miniature")
GOALS = MappingProxyType(
    {"itself": 31.0, "named_half": 30.0, "held_out_half": 28.0, "named_region": 23.0, "held_out_region": 23.0}
)
"""PSNR in dB that the miniature shall reach."""
_SHOWN = ("anna", "chidi", "karin", *HELD_OUT)
_MOTIONS: tuple[dict[str, float], ...] = (
    {},
    {"open": 0.35},
    {"open": 0.9},
    {"pucker": 1.0, "open": 0.3},
    {"smile": 0.9, "teeth": 0.7, "open": 0.25},
    {"blink_left": 1.0, "blink_right": 1.0},
    {"gaze_x": 1.0},
    {"yaw": 12.0, "open": 0.3},
    {"pitch": 7.0, "roll": -6.0},
)
_TILE = 160


def load(folder: Path) -> nn.ModuleDict:
    """The picture networks and the motion extractor of a model folder, on the CPU, as they run in use."""
    models = find_models(folder)
    names = [*train_pictures.NETWORKS, train_extractor.NETWORK]
    return nn.ModuleDict(
        {
            name: build_network(name, models.preset, read_network(name, models.files[name]), origin=folder)
            for name in names
        }
    )


@torch.inference_mode()
def psnr_cases(networks: nn.ModuleDict, named: Sequence[str], count: int) -> dict[str, dict[str, float]]:
    """PSNR in dB by case, see `train_pictures.measure`.

    Args:
        networks: as `load` gives them.
        named: presenters that were trained on.
        count: motions of each of them; held-out ones get three times as many.
    """
    who = {"named": (named, count), "held_out": (HELD_OUT, 3 * count)}
    cases = {
        f"{name}_{kind}": train_pictures.measure(networks, *train_pictures.examples(names, kind, n, seed=100))
        for name, (names, n) in who.items()
        for kind in ("half", "talking")
    }
    source_is_target = train_pictures.examples(named, "half", count, seed=101)
    return cases | {"itself": train_pictures.measure(networks, *source_is_target, itself=True)}


def reached(cases: dict[str, dict[str, float]]) -> dict[str, float]:
    """What the goals ask for, of `psnr_cases`."""
    return {
        "itself": cases["itself"]["whole"],
        "named_half": cases["named_half"]["whole"],
        "held_out_half": cases["held_out_half"]["whole"],
        "named_region": cases["named_half"]["region"],
        "held_out_region": cases["held_out_half"]["region"],
    }


@torch.inference_mode()
def evaluate(networks: nn.ModuleDict, count: int) -> dict[str, object]:
    """All measures.

    Args:
        networks: as `load` gives them.
        count: motions of each named presenter; held-out ones get three times as many.

    Returns:
        PSNR by case, the goals and which were missed, the extractor's errors, and the time of a frame.
    """
    cases = psnr_cases(networks, TRAINED, count)
    extractor = {}
    for name, names, n in (("named", TRAINED, count), ("held_out", HELD_OUT, 3 * count)):
        identity, motion = train_pictures.examples(names, "half", n, seed=102)
        pictures = F.avg_pool2d(torch.cat([render(identity[[i]], motion[[i]]) for i in range(len(identity))]), 2)
        record = pose_record(identity, motion)
        extractor[name] = train_extractor.measure(networks[train_extractor.NETWORK], pictures, record)
    found = reached(cases)
    return {
        "psnr_db": cases,
        "goals_db": dict(GOALS),
        "missed": {name: round(found[name] - goal, 2) for name, goal in GOALS.items() if found[name] < goal},
        "extractor": extractor,
    }


@torch.inference_mode()
def sheet(networks: nn.ModuleDict) -> Tensor:
    """Drawn motions, and what the networks make of the first one.

    Three rows for each presenter shown: drawn; made by designed key points; made by key points that the motion
    extractor reads off the drawn pictures.

    Returns:
        (3, h, w) in 0..1.
    """
    rows = []
    for name in _SHOWN:
        who = cast([name]).expand(len(_MOTIONS))
        keys = sorted({key for motion in _MOTIONS for key in motion})
        motion = Motion.neutral(len(_MOTIONS), **{key: [m.get(key, 0.0) for m in _MOTIONS] for key in keys})
        wanted = torch.cat([render(who[[i]], motion[[i]]) for i in range(len(_MOTIONS))])
        designed = presenter_keypoints(who, motion)
        read = keypoints(networks[train_extractor.NETWORK](F.avg_pool2d(wanted, 2)))
        made = [
            train_pictures.draw(networks, wanted[:1], x[:1].expand(len(x), -1, -1), x, each=len(x))
            for x in (designed, read)
        ]
        small = [F.interpolate(picture, size=(_TILE, _TILE), mode="area") for picture in (wanted, *made)]
        rows += [torch.cat(list(pictures), dim=-1) for pictures in small]
    return torch.cat(rows, dim=-2)


def main() -> None:
    """Measures, and writes both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path, nargs="?", default=BUNDLED)
    parser.add_argument("--out", type=Path, default=_DEFAULT)
    parser.add_argument("--count", type=int, default=2, help="motions of each named presenter")
    given = parser.parse_args()
    networks = load(given.models)
    command = f"python -m tools.miniature.evaluate_pictures --count {given.count}"
    measured = evaluate(networks, given.count)
    result = json.dumps({"command": command, "environment": describe(), **measured}, indent=1)
    given.out.mkdir(parents=True, exist_ok=True)
    write_whole(given.out / "pictures.json", (result + "\n").encode())
    write_png(given.out / "pictures.png", to_bytes(sheet(networks)))
    sys.stdout.write(result + "\n")


if __name__ == "__main__":
    main()

"""Whether every way to the same frames leads to the same frames.

python -m tools.forensics [--device auto|cpu|cuda] [--out FOLDER] [--small]

The bundled presenter speaks the bundled sentence, drawn by the miniature. The plain pipeline (torch, float32, one face
at a time, every frame drawn, from a whole file) stands beside each other backend and batch that runs here, beside live
sessions with chunks of several sizes, and beside each encoder that opens. Writes forensics.json, which names each goal,
its limit and whether it is met, and two pictures: montage.png and differences.png.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ditto_core.backends.backend import choose_device
from ditto_core.quality import ClipMeter, lip_sync, opening, write_png
from ditto_core.quality.mouth import CLOSED
from ditto_core.render import nv12_to_rgb

from ..miniature.bundle import NEWS, news_targets
from ..miniature.corpus import TARGETS
from ..miniature.speech_espeak import EspeakError
from ..reports import goal, tally, write_report
from .measure import Row
from .pages import differences, montage
from .runs import Runs, Size

SMALL = Size(frames=36, shown=(5, 20, 30), chunks=(8,), compiled=(), encoders=("libx264", "h264_nvenc"))
_DEFAULT = Path(__file__).parents[2] / "benchmarks" / "forensics"
_OPEN, _LEAST_CLOSED, _MOST_WRONGLY_SHUT = 0.30, 0.95, 0.03


def sentence(runs: Runs) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the plain pipeline's mouth makes of the sentence, and its goals."""
    frames, track = runs.plain
    meter = ClipMeter(track)
    for picture in frames:
        meter.add(nv12_to_rgb(picture[None])[0].numpy())
    apertures = meter.courses().apertures
    about = {"text": NEWS, "frames": len(frames), "aperture_95th_percentile": float(np.percentile(apertures, 95))}
    try:
        targets = news_targets()[: len(frames)]
    except EspeakError as error:
        return {**about, "lips": f"not measured here: {error}"}, []
    return closures(about, apertures, targets)


def closures(
    about: dict[str, Any], apertures: NDArray[np.float64], targets: NDArray[np.float32]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a mouth follows what is said, and whether it closes where lips do."""
    shut = np.flatnonzero(targets[:, TARGETS.index("closed")] > 0.5)
    meant = targets[:, TARGETS.index("open")]
    found = lip_sync([opening(apertures)], [meant], [shut], shut=CLOSED, open_above=_OPEN)
    goals = [
        goal("plain: closures of b, p, m in the sentence", found.closures, least=1),
        goal("plain: share of them closed within a frame", found.closed, least=_LEAST_CLOSED),
        goal("plain: open frames wrongly shut", found.wrongly_shut, most=_MOST_WRONGLY_SHUT),
    ]
    return {**about, "lips": dataclasses.asdict(found)}, goals


def examine(device: torch.device, size: Size, out: Path) -> dict[str, Any]:
    """Makes all runs and writes the pictures.

    Args:
        device: where the networks run.
        size: how much is compared.
        out: a folder.

    Returns:
        The report, ready for JSON.
    """
    runs = Runs(device, size)
    said, goals = sentence(runs)
    rows = []
    for row in runs.rows():
        rows.append(row)
        sys.stdout.write(summary(row) + "\n")
        sys.stdout.flush()
    goals += [item for row in rows for item in row.goals]
    write_png(out / "montage.png", montage(rows))
    write_png(out / "differences.png", differences(rows))
    return {
        "models": runs.models.fingerprint,
        "plain": runs.plain_is,
        "sentence": said,
        "met": tally(goals),
        "goals": goals,
        "runs": {row.name: row.about for row in rows},
    }


def summary(row: Row) -> str:
    """One line on a run."""
    if "not_measured" in row.about:
        return f"{row.name}: not measured here: {row.about['not_measured']}"
    missed = [f"{item['goal']} {item['value']:.4g}, not {item['limit']}" for item in row.goals if not item["met"]]
    pictures = row.about["pictures"]
    return f"{row.name}: PSNR {pictures['psnr_y_db']:.1f} dB, " + ("; ".join(missed) or "all goals met")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--out", type=Path, default=_DEFAULT)
    parser.add_argument("--small", action="store_true", help="some frames and few runs, to try it")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SVT_LOG", "1")  # errors only
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # float32 is float32
    device = choose_device(given.device)
    report = examine(device, SMALL if given.small else Size(), given.out)
    command = f"python -m tools.forensics --device {device.type}" + (" --small" if given.small else "")
    write_report(given.out / "forensics.json", command, report)
    sys.stdout.write(f"{given.out / 'forensics.json'}: {report['met']} goals met\n")


if __name__ == "__main__":
    main()

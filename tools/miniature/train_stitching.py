"""Trains the stitching network to leave the drawn presenters' driving key points alone.

python -m tools.miniature.train_stitching STATE.safetensors --log FILE.jsonl [--minutes M] [--steps N] [--small]

Stitching moves driving key points so that shoulders and neck stay where the source has them. The drawn torso never
moves with the head, so that the right correction is none. An untrained network would add random shifts instead.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .presenter_geometry import presenter_keypoints
from .presenter_parameters import random_identities, random_motions
from .train_common import Clock, Log, arguments, settings, start, train

NETWORK = "stitch_network"


def pairs(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Key points of n presenters in two independent motions each, (n, 21, 3)."""
    identity = random_identities(n, generator)
    x_s, x_d = (presenter_keypoints(identity, random_motions(n, generator)) for _ in range(2))
    return x_s, x_d


def main() -> None:
    """Trains until the time is over."""
    given = arguments(__doc__ or "").parse_args()
    clock = Clock(minutes=given.minutes, steps=given.steps)
    chosen, device = settings("stitching", small=given.small), torch.device(given.device)
    trainer = start([NETWORK], given, chosen)
    generator = torch.Generator().manual_seed(chosen["seed"] + trainer.steps)
    test = [x.to(device) for x in pairs(256, torch.Generator().manual_seed(0))]

    def loss() -> Tensor:
        x_s, x_d = (x.to(device) for x in pairs(chosen["batch"], generator))
        correction: Tensor = trainer.networks[NETWORK](x_s, x_d) - x_d
        return correction.square().sum((1, 2)).mean()

    def look(networks: nn.ModuleDict) -> dict[str, object]:
        correction = networks[NETWORK](*test) - test[1]
        return {"largest": round(float(correction.abs().max()), 5), "mean": round(float(correction.abs().mean()), 6)}

    log = Log(given.log, "stitching", clock)
    train(trainer, clock, log, given.state, loss=loss, measure=look, log_every=chosen["log_every"])


if __name__ == "__main__":
    main()

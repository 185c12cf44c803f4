"""Trains the motion extractor on drawn presenters.

python -m tools.miniature.train_extractor STATE.safetensors --log FILE.jsonl [--minutes M] [--device D] [--small]
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ditto_core.motion.keypoints import degrees_from_logits, keypoints, transform_keypoints
from ditto_core.networks.motion_extractor import ANGLE_BINS, MotionParameters

from .presenter import render
from .presenter_cast import HELD_OUT
from .presenter_geometry import PoseRecord, View, expression_parameters, pose_record
from .presenter_parameters import EXPRESSIONS, random_identities, random_motions
from .train_common import Clock, Log, arguments, settings, start, train
from .train_pictures import examples
from .train_pool import TRAINED, PicturePool, PoolSettings

NETWORK = "motion_extractor"
ANGLES = ("pitch", "yaw", "roll")
_BIN_DEGREES, _FIRST_BIN = 3.0, -97.5
_BIN_SPREAD = 2.0
_SMALL_HEADS = ("fc_exp", "fc_kp", "fc_t.", "fc_scale")
"""Heads whose values are hundredths. At the trunk's rate one step of theirs is worth a whole open mouth, and the
expression's error then drowns all else."""
_SMALL = View(width=256, height=256)


def angle_loss(logits: Tensor, degrees: Tensor) -> Tensor:
    """Cross-entropy to a bell over the bins around the angle, and the error of the expected angle.

    Args:
        logits: (n, 66).
        degrees: (n,).
    """
    place = ((degrees - _FIRST_BIN) / _BIN_DEGREES).clamp(0, ANGLE_BINS - 1)
    bell = (-0.5 * ((_bins(logits) - place[:, None]) / _BIN_SPREAD) ** 2).softmax(-1)
    cross = -(bell * logits.log_softmax(-1)).sum(-1).mean()
    return 0.1 * cross + F.smooth_l1_loss(degrees_from_logits(logits) / 10, degrees / 10, beta=0.05)


def _bins(like: Tensor) -> Tensor:
    return torch.arange(ANGLE_BINS, device=like.device, dtype=like.dtype)


def motion_loss(found: MotionParameters, wanted: PoseRecord) -> Tensor:
    """How far what was read off pictures is from their designed motion.

    Most of the 63 expression values are always zero, so that an average over them says little of a blink or a smile.
    The squared error of the parameters behind them says it.
    """
    loss = sum(
        (angle_loss(getattr(found, name), getattr(wanted, name)) for name in ANGLES), torch.zeros(()).to(found.t)
    )
    parameters = expression_parameters(found.exp) - expression_parameters(wanted.exp)
    loss = loss + 4 * parameters.square().mean() + 0.5 * parameters.abs().mean()
    loss = loss + 20 * (found.exp - wanted.exp).square().mean() + 2 * (found.exp - wanted.exp).abs().mean()
    for name in ("kp", "t", "scale"):
        loss = loss + 4 * (getattr(found, name) - getattr(wanted, name)).abs().mean()
    return loss + 4 * (keypoints(found) - transform_keypoints(**wanted._asdict())).abs().mean()


def disturb(pictures: Tensor) -> Tensor:
    """Small changes of brightness, contrast, sharpness and noise, as cropping and decoding of real files make."""
    n = len(pictures)
    shift, gain = (torch.randn(2, n, 1, 1, 1, device=pictures.device) * 0.04).unbind(0)
    soft = F.avg_pool2d(F.pad(pictures, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    pictures = pictures.lerp(soft, torch.rand(n, 1, 1, 1, device=pictures.device))
    return ((pictures - 0.5) * (1 + gain) + 0.5 + shift + 0.01 * torch.randn_like(pictures)).clamp(0, 1)


def measure(network: nn.Module, pictures: Tensor, wanted: PoseRecord) -> dict[str, object]:
    """Mean errors in degrees and key point units, and the correlation of each expression parameter."""
    found: MotionParameters = network(pictures)
    errors: dict[str, object] = {
        name: round(float((degrees_from_logits(getattr(found, name)) - getattr(wanted, name)).abs().mean()), 2)
        for name in ANGLES
    }
    for name in ("kp", "t", "scale", "exp"):
        errors[name] = round(float((getattr(found, name) - getattr(wanted, name)).abs().mean()), 4)
    points = keypoints(found) - transform_keypoints(**wanted._asdict())
    errors["points"] = round(float(points.abs().mean()), 4)
    pairs = (expression_parameters(found.exp), expression_parameters(wanted.exp))
    errors["parameters"] = round(float((pairs[0] - pairs[1]).abs().mean()), 3)
    both = [(values - values.mean(0)) / (values.std(0) + 1e-6) for values in pairs]
    correlation = (both[0] * both[1]).sum(0) / (len(pictures) - 1)
    errors["r"] = dict(zip(EXPRESSIONS, (round(v, 2) for v in correlation.tolist()), strict=True))
    return errors


def _prepare(detector: nn.Module, *, device: torch.device) -> None:
    """Starts the heads at the mean answer, so that no step is spent on reaching it."""
    generator = torch.Generator().manual_seed(0)
    mean = pose_record(random_identities(64, generator), random_motions(64, generator))
    with torch.no_grad():
        for name in ("kp", "scale", "t", "exp"):
            weight, bias = detector.get_parameter(f"fc_{name}.weight"), detector.get_parameter(f"fc_{name}.bias")
            weight.mul_(0.1)
            bias.copy_(getattr(mean, name).mean(0).to(device))
        for name in ANGLES:
            weight, bias = detector.get_parameter(f"fc_{name}.weight"), detector.get_parameter(f"fc_{name}.bias")
            weight.mul_(0.1)
            bias.copy_(-0.5 * ((_bins(bias) + _FIRST_BIN / _BIN_DEGREES) / (2 * _BIN_SPREAD)) ** 2)


def main() -> None:
    """Trains until the time is over."""
    given = arguments(__doc__ or "").parse_args()
    clock = Clock(minutes=given.minutes, steps=given.steps)
    chosen, device = settings("extractor", small=given.small), torch.device(given.device)
    log = Log(given.log, "extractor", clock)
    trainer = start([NETWORK], given, chosen, slow=_SMALL_HEADS)
    network = trainer.networks[NETWORK]
    if not trainer.steps:
        for module in (network, trainer.averaged[NETWORK]):
            _prepare(module.get_submodule("detector"), device=device)
    pool = PicturePool(PoolSettings(**chosen["pool"]), seed=chosen["seed"] + trainer.steps, device=device)
    pool.fill(chosen["fill_seconds"])
    log.write(settings=chosen, rate=given.rate, pictures=pool.drawn, drawing_s=round(pool.seconds, 1))
    tests = {}
    for name, names in (("named", TRAINED), ("held_out", HELD_OUT)):
        identity, motion = examples(names, "half", 24 // len(names), seed=2)
        identity, motion = identity.to(device), motion.to(device)
        tests[name] = (render(identity, motion, _SMALL), pose_record(identity, motion))

    def loss() -> Tensor:
        if pool.seconds < chosen["drawing_share"] * clock.seconds:
            pool.refresh()
        group = torch.randint(pool.filled, (chosen["batch"],)).to(device)
        frame = torch.randint(len(pool.kinds), (chosen["batch"],)).to(device)
        pictures, wanted = disturb(pool.pictures(group, frame)), pool.records(group, frame)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            found = network(pictures)
        return motion_loss(found, wanted)

    def look(networks: nn.ModuleDict) -> dict[str, object]:
        return {"pictures": pool.drawn, **{name: measure(networks[NETWORK], *pair) for name, pair in tests.items()}}

    train(trainer, clock, log, given.state, loss=loss, measure=look, log_every=chosen["log_every"])


if __name__ == "__main__":
    main()

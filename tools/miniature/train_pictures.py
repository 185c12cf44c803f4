"""Trains appearance extractor, warping network and decoder on drawn presenters, from their designed key points.

python -m tools.miniature.train_pictures STATE.safetensors --log FILE.jsonl [--minutes M] [--device D] [--small]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ditto_core.motion.keypoints import transform_keypoints
from ditto_core.networks.presets import FACE_SIZE

from .presenter import render
from .presenter_cast import HELD_OUT, cast
from .presenter_geometry import PoseRecord, presenter_keypoints
from .presenter_parameters import Identity, Motion
from .train_common import Clock, Log, arguments, settings, start, train
from .train_pool import TRAINED, PicturePool, PoolSettings, moves

NETWORKS = ("appearance_extractor", "warp_network", "decoder")
MOUTH, EYES = (6, 12, 14, 17), (11, 15)
UNDRIVEN = (7, 8, 9)
"""Jaw and cheeks. They move in the drawn pictures, but the runtime drives lips and eyes alone: a mouth has to open
from its lip points too."""
MOUTH_RADIUS, EYE_RADIUS = 0.20, 0.11
"""Of the discs that make the region of mouth and eyes, in half widths of the picture."""
LUMA, DARK = (0.2126, 0.7152, 0.0722), 60.0
"""Brightness, and its level inside a mouth: as in `ditto_core.quality`, which needs media libraries."""
_THRESHOLD_WIDTH = 12.0
"""Grey levels over which a pixel turns from dark to light in `opening_loss`."""
_WIDE_OPEN = 1000.0
"""Dark pixels of a wide open mouth, about."""
_AXIS = (torch.arange(FACE_SIZE) + 0.5) * (2 / FACE_SIZE) - 1


def squared_distances(points: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances of all pixels from the mouth (n, 1, h, w) and from the eyes (n, 2, h, w)."""
    middle = points[:, list(MOUTH), :2].mean(1, keepdim=True)
    axis = _AXIS.to(points.device)

    def squared(centres: Tensor) -> Tensor:
        x, y = (axis - centres[..., i, None] for i in (0, 1))
        return x.square()[..., None, :] + y.square()[..., :, None]

    return squared(middle), squared(points[:, list(EYES), :2])


def region(points: Tensor) -> Tensor:
    """Which pixels belong to mouth and eyes of faces with these key points, (n, 1, h, w) bool."""
    mouth, eyes = squared_distances(points)
    return (mouth < MOUTH_RADIUS**2) | (eyes < EYE_RADIUS**2).any(1, keepdim=True)


def weights(points: Tensor, mouth_weight: float, eye_weight: float) -> Tensor:
    """Weights of the pixels: 1 and Gaussian bumps on mouth and eyes, scaled to a mean of 1; (n, 1, h, w)."""
    mouth, eyes = squared_distances(points)
    bumps = mouth_weight * torch.exp(-0.5 * mouth / (0.6 * MOUTH_RADIUS) ** 2)
    bumps = bumps + eye_weight * torch.exp(-0.5 * eyes / (0.6 * EYE_RADIUS) ** 2).sum(1, keepdim=True)
    total = 1 + bumps
    return total / total.mean((2, 3), keepdim=True)


def picture_loss(made: Tensor, wanted: Tensor, weight: Tensor, scales: float, gradients: float) -> Tensor:
    """Weighted absolute error, and errors and gradient errors at four scales.

    Args:
        made: (n, 3, h, w).
        wanted: the same.
        weight: (n, 1, h, w).
        scales: share of the plain errors at half, quarter, eighth and sixteenth size.
        gradients: share of the gradient errors, weighted likewise at full size.
    """
    error = made - wanted
    loss = (error.abs() * weight).mean()
    for scale in range(4):
        steps = (error.diff(dim=-1).abs(), error.diff(dim=-2).abs())
        if scale == 0:
            steps = (steps[0] * weight[..., 1:], steps[1] * weight[..., 1:, :])
        error = F.avg_pool2d(error, 2)
        loss = loss + gradients * (steps[0].mean() + steps[1].mean()) + scales * error.abs().mean()
    return loss


def opening_loss(made: Tensor, wanted: Tensor, points: Tensor) -> Tensor:
    """How differently wide the mouths are open, as `ditto_core.quality` counts it but with a soft threshold.

    Where a network is unsure of the place of a thin opening, errors of pixels are least if it is drawn too light;
    its size is known all the same.

    Args:
        made: (n, 3, h, w).
        wanted: the same.
        points: (n, 21, 3), where the mouths are.
    """
    mouth = squared_distances(points)[0] < MOUTH_RADIUS**2
    counts = []
    for pictures in (made, wanted):
        brightness = 255 * (pictures.movedim(1, -1) @ pictures.new_tensor(LUMA))
        dark = torch.sigmoid((DARK - brightness) / _THRESHOLD_WIDTH)
        counts.append((dark * mouth[:, 0]).sum((1, 2)))
    return (counts[0] - counts[1]).abs().mean() / _WIDE_OPEN


def draw(networks: nn.ModuleDict, sources: Tensor, x_s: Tensor, x_d: Tensor, each: int = 1) -> Tensor:
    """Faces of sources (n, 3, 512, 512) in `each` motions a source: key points (n * each, 21, 3)."""
    f_s = networks["appearance_extractor"](F.avg_pool2d(sources, 2))
    feature = networks["warp_network"](f_s.repeat_interleave(each, 0), x_s, x_d)
    made: Tensor = networks["decoder"](feature)
    return made


def choose(pool: PicturePool, sources: int, each: int, neutral: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Groups and frames of sources (n,) and targets (n * each,).

    Args:
        pool: the pictures.
        sources: how many sources.
        each: targets of each source; any frame of the same presenter, itself included.
        neutral: least share of sources with a neutral or calm face, as in use.
    """
    still = sum(kind in ("neutral", "calm") for kind in pool.kinds)
    group = torch.randint(pool.filled, (sources,))
    any_frame, still_frame = torch.randint(len(pool.kinds), (sources,)), torch.randint(still, (sources,))
    source = torch.where(torch.rand(sources) < neutral, still_frame, any_frame)
    target = torch.randint(len(pool.kinds), (sources * each,))
    return group, source, group.repeat_interleave(each), target


def as_driven(source: Tensor, target: PoseRecord, share: float) -> PoseRecord:
    """The targets, some of them with jaw and cheeks left as in the source.

    Args:
        source: (n, 63) expressions of the sources.
        target: of n targets.
        share: how many are changed.
    """
    undriven = torch.zeros(source.shape[1], dtype=torch.bool, device=source.device)
    undriven.view(-1, 3)[list(UNDRIVEN)] = True
    chosen = torch.rand(len(source), 1, device=source.device) < share
    return target._replace(exp=torch.where(undriven & chosen, source, target.exp))


def batch_loss(networks: nn.ModuleDict, pool: PicturePool, chosen: dict[str, Any], device: torch.device) -> Tensor:
    """The loss of one batch."""
    each = chosen["targets"]
    picks = [index.to(device) for index in choose(pool, chosen["sources"], each, chosen["neutral"])]
    sources, wanted = pool.pictures(*picks[:2]), pool.pictures(*picks[2:])
    source, target = pool.records(*picks[:2]), pool.records(*picks[2:])
    target = as_driven(source.exp.repeat_interleave(each, 0), target, chosen["undriven"])
    x_s, x_d = (transform_keypoints(**record._asdict()) for record in (source, target))
    weight = weights(x_d, chosen["mouth_weight"], chosen["eye_weight"])
    x_s, x_d = (x + chosen["noise"] * torch.randn_like(x) for x in (x_s.repeat_interleave(each, 0), x_d))
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        made = draw(networks, sources, x_s, x_d, each)
    made = made.float()
    pixels = picture_loss(made, wanted, weight, chosen["scales"], chosen["gradients"])
    return pixels + chosen["opening"] * opening_loss(made, wanted, x_d)


def psnr(made: Tensor, wanted: Tensor, where: Tensor | None = None) -> Tensor:
    """Peak signal-to-noise ratio of each picture in dB, over all or some of its pixels."""
    squared = (made - wanted).square().mean(1, keepdim=True)
    share = torch.ones_like(squared) if where is None else where.to(squared)
    error = (squared * share).sum((1, 2, 3)) / share.sum((1, 2, 3))
    return -10 * error.clamp(min=1e-10).log10()


def _order(networks: nn.Module) -> None:
    """Reorders weights in memory: channels-last convolutions train a quarter faster."""
    for module in networks.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last)
        elif isinstance(module, nn.Conv3d):
            module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last_3d)


def examples(names: Sequence[str], kind: str, count: int, seed: int) -> tuple[Identity, Motion]:
    """`count` motions of one kind for each of some named presenters; the same for the same seed."""
    identity = cast(names)[torch.arange(len(names)).repeat_interleave(count)]
    return identity, moves(kind, len(identity), torch.Generator().manual_seed(seed))


def measure(networks: nn.ModuleDict, identity: Identity, motion: Motion, *, itself: bool = False) -> dict[str, float]:
    """How well networks draw presenters in motions from a neutral picture, or from the very picture itself.

    Args:
        networks: NETWORKS in evaluation mode.
        identity: n presenters, on the networks' device.
        motion: of each.
        itself: whether the source is the target.

    Returns:
        Mean PSNR in dB of the whole picture and the region of mouth and eyes, and of the source taken as the answer.
    """
    n, neutral = len(identity), Motion.neutral(len(identity)).to(identity.device)
    rows = []
    for first in range(0, n, 4):
        part = slice(first, first + 4)
        who, target = identity[part], motion[part]
        source = target if itself else neutral[part]
        sources, wanted = render(who, source), render(who, target)
        x_s, x_d = presenter_keypoints(who, source), presenter_keypoints(who, target)
        made, where = draw(networks, sources, x_s, x_d), region(x_d)
        pairs = ((made, None), (made, where), (sources, None), (sources, where))
        rows.append(torch.stack([psnr(picture, wanted, place) for picture, place in pairs], dim=-1))
    means = torch.cat(rows).mean(0).tolist()
    return dict(zip(("whole", "region", "copy_whole", "copy_region"), (round(v, 2) for v in means), strict=True))


def main() -> None:
    """Trains until the time is over."""
    given = arguments(__doc__ or "").parse_args()
    clock = Clock(minutes=given.minutes, steps=given.steps)
    chosen, device = settings("pictures", small=given.small), torch.device(given.device)
    log = Log(given.log, "pictures", clock)
    trainer = start(NETWORKS, given, chosen)
    for networks in (trainer.networks, trainer.averaged):
        _order(networks)
    pool = PicturePool(PoolSettings(**chosen["pool"]), seed=chosen["seed"] + trainer.steps, device=device)
    pool.fill(chosen["fill_seconds"])
    log.write(settings=chosen, rate=given.rate, pictures=pool.drawn, drawing_s=round(pool.seconds, 1))
    tests = {}
    for name, names in (("named", TRAINED[:4]), ("held_out", HELD_OUT)):
        identity, motion = examples(names, "half", 2, seed=1)
        tests[name] = (identity.to(device), motion.to(device))

    def loss() -> Tensor:
        if pool.seconds < chosen["drawing_share"] * clock.seconds:
            pool.refresh()
        return batch_loss(trainer.networks, pool, chosen, device)

    def look(networks: nn.ModuleDict) -> dict[str, object]:
        return {"pictures": pool.drawn, **{name: measure(networks, *pair) for name, pair in tests.items()}}

    train(trainer, clock, log, given.state, loss=loss, measure=look, log_every=chosen["log_every"])


if __name__ == "__main__":
    main()

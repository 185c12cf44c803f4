"""Training of the miniature's picture networks: state files, export, measures, and the pool of pictures."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ditto_core.checkpoints.layout import CONFIG_FILE, read_network, read_preset
from ditto_core.checkpoints.models import build_network
from ditto_core.errors import CheckpointError
from ditto_core.motion.keypoints import degrees_from_logits, transform_keypoints
from ditto_core.networks import MINIATURE
from ditto_core.quality import mouth
from ditto_core.quality import pictures as quality_pictures
from tools.miniature import train_pictures, train_stitching
from tools.miniature.presenter import render
from tools.miniature.presenter_cast import HELD_OUT, cast
from tools.miniature.presenter_geometry import LIP_POLYGON, presenter_keypoints
from tools.miniature.presenter_parameters import Motion
from tools.miniature.train_common import MAX_STATE_BYTES, Clock, Log, Trainer, export, read_state, settings, train
from tools.miniature.train_extractor import NETWORK as EXTRACTOR
from tools.miniature.train_extractor import angle_loss
from tools.miniature.train_pictures import (
    NETWORKS,
    batch_loss,
    measure,
    opening_loss,
    picture_loss,
    psnr,
    region,
    weights,
)
from tools.miniature.train_pool import TRAINED, PicturePool, PoolSettings

CPU = torch.device("cpu")
TINY_POOL = PoolSettings(groups=3, frames={"neutral": 1, "full": 1}, named=1.0, size=64, at_once=2)


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def stitching_trainer(seed: int = 0) -> Trainer:
    torch.manual_seed(seed)
    return Trainer([train_stitching.NETWORK], MINIATURE, rate=1e-3, decay=0.9, device=CPU)


def stitching_loss(trainer: Trainer) -> Tensor:
    x_s, x_d = train_stitching.pairs(16, torch.Generator().manual_seed(1))
    correction: Tensor = trainer.networks[train_stitching.NETWORK](x_s, x_d) - x_d
    return correction.square().sum((1, 2)).mean()


def test_a_resumed_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first, second = stitching_trainer(0), stitching_trainer(1)
    for _ in range(30):
        first.step(stitching_loss(first), 0.5)
    first.save(tmp_path / "state.safetensors")
    second.resume(tmp_path / "state.safetensors")
    assert second.steps == 30
    for name, value in first.averaged.state_dict().items():
        assert torch.equal(second.averaged.state_dict()[name], value)
        assert torch.equal(second.networks.state_dict()[name], value)
    before = stitching_loss(second).item()
    for _ in range(10):
        second.step(stitching_loss(second), 0.5)
    # Without the optimiser's moments the first steps after a resume would jump away.
    assert stitching_loss(second).item() < before


def test_states_of_both_trainings_stay_under_the_limit(tmp_path: Path) -> None:
    for names in (NETWORKS, (EXTRACTOR,)):
        trainer = Trainer(names, MINIATURE, rate=1e-3, decay=0.9, device=CPU)
        trainer.step(torch.stack([p.square().sum() for p in trainer.networks.parameters()]).sum(), 0.5)
        path = tmp_path / f"{names[0]}.safetensors"
        trainer.save(path)
        assert path.stat().st_size <= MAX_STATE_BYTES
        assert set(read_state(path)[1]) == set(names)


def test_another_networks_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    stitching_trainer().save(path)
    with pytest.raises(CheckpointError, match="stitch_network"):
        Trainer([EXTRACTOR], MINIATURE, rate=1e-3, decay=0.9, device=CPU).resume(path)


def test_a_run_that_fails_or_is_told_to_stop_leaves_its_state(tmp_path: Path) -> None:
    trainer, path = stitching_trainer(), tmp_path / "state.safetensors"
    clock = Clock(minutes=1, steps=100)
    log = Log(tmp_path / "log.jsonl", "test", clock)

    def loss() -> Tensor:
        if clock.step == 3:
            raise RuntimeError("out of memory")
        return stitching_loss(trainer)

    with pytest.raises(RuntimeError, match="memory"):
        train(trainer, clock, log, path, loss=loss, measure=lambda networks: {}, log_every=60)
    assert read_state(path)[2] == 3

    clock = Clock(minutes=1, steps=100)
    signal.raise_signal(signal.SIGTERM)
    train(trainer, clock, log, path, loss=loss, measure=lambda networks: {"seen": 1}, log_every=60)
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert clock.step == 0 and last["seen"] == 1 and last["all_steps"] == 3


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    trainer = stitching_trainer()
    before = [value.clone() for value in trainer.networks.parameters()]
    trainer.step(stitching_loss(trainer) * math.nan, 0.5)
    assert trainer.skipped == 1 and trainer.steps == 0
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.networks.parameters(), strict=True))


def test_exported_networks_load_by_the_official_names_and_draw_the_same(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trainer = Trainer(NETWORKS, MINIATURE, rate=1e-3, decay=0.9, device=CPU)
    trainer.save(tmp_path / "state.safetensors")
    folder = tmp_path / "miniature"
    assert export([tmp_path / "state.safetensors"], folder) == sorted(NETWORKS)
    preset = read_preset(folder / CONFIG_FILE)
    assert preset == MINIATURE
    loaded = nn.ModuleDict()
    for name in NETWORKS:
        tensors = read_network(name, folder / f"{name}.safetensors")
        assert all(value.dtype == torch.float16 for value in tensors.values() if value.is_floating_point())
        loaded[name] = build_network(name, preset, tensors, origin=folder)
    identity, motion = cast(["anna"]), Motion.neutral(1, open=0.5)
    # Half precision in the files: two grey levels of a picture in 0..1, which shows in no measure of tenths of dB.
    assert measure(loaded, identity, motion) == pytest.approx(measure(trainer.averaged, identity, motion), abs=0.02)


def test_weights_that_float16_cannot_hold_are_not_exported(tmp_path: Path) -> None:
    trainer = stitching_trainer()
    next(iter(trainer.averaged.parameters()))[0] = 1e6
    trainer.save(tmp_path / "state.safetensors")
    with pytest.raises(CheckpointError, match=r"mlp\.0\.weight.*float16"):
        export([tmp_path / "state.safetensors"], tmp_path / "out")


def test_stitching_training_removes_the_random_correction() -> None:
    trainer = stitching_trainer()
    before = stitching_loss(trainer).item()
    for _ in range(60):
        trainer.step(stitching_loss(trainer), 0.5)
    assert stitching_loss(trainer).item() < 0.1 * before


@given(st.floats(-80, 80, width=32), st.floats(1, 15), st.sampled_from([-1, 1]))
def test_the_best_logits_of_an_angle_are_a_bell_around_it(degrees: float, away: float, side: int) -> None:
    def bell(angle: float) -> torch.Tensor:
        return (-0.5 * ((torch.arange(66) - (angle + 97.5) / 3) / 2) ** 2)[None]

    wanted = torch.tensor([degrees])
    assert abs(float(degrees_from_logits(bell(degrees))) - degrees) < 0.05
    assert angle_loss(bell(degrees), wanted) < angle_loss(bell(degrees + side * away), wanted)


def test_the_region_holds_lips_and_eyes_and_little_else() -> None:
    identity = cast(["anna", "liam"])
    points = presenter_keypoints(identity, Motion.neutral(2, open=0.8, yaw=10.0))
    inside = region(points)[:, 0]
    assert 0.03 < inside.float().mean() < 0.10
    for face, where in zip(points, inside, strict=True):
        for point in (*LIP_POLYGON, 11, 15):
            x, y = ((face[point, :2] + 1) * 256).long().tolist()
            assert where[y, x]
        assert not where[20, 20]


def test_psnr_of_known_errors() -> None:
    wanted = torch.full((1, 3, 8, 8), 0.5)
    made = wanted.clone()
    made[..., :4] += 0.1
    left = torch.zeros(1, 1, 8, 8, dtype=torch.bool)
    left[..., :4] = True
    assert psnr(made, wanted, left).item() == pytest.approx(20.0, abs=1e-3)
    assert psnr(made, wanted).item() == pytest.approx(20.0 + 10 * math.log10(2), abs=1e-3)


def test_an_error_on_the_mouth_costs_more_than_one_on_the_backdrop() -> None:
    identity = cast(["anna"])
    points = presenter_keypoints(identity, Motion.neutral())
    wanted = render(identity, Motion.neutral())
    x, y = ((points[0, [14, 17], :2].mean(0) + 1) * 256).long().tolist()
    losses = []
    for column, row in ((x, y), (40, 40)):
        made = wanted.clone()
        made[..., row - 16 : row + 16, column - 16 : column + 16] += 0.1
        losses.append(picture_loss(made, wanted, weights(points, 8.0, 6.0), 0.3, 0.5).item())
    assert losses[0] > 2 * losses[1] > 0


def test_the_opening_loss_sees_a_mouth_too_far_shut_as_the_measure_does() -> None:
    """A mouth drawn half as open, and one whose opening is too light to count, cost what the measure loses."""
    identity = cast(["anna"])
    open_, half = Motion.neutral(1, open=1.0), Motion.neutral(1, open=0.5)
    points = presenter_keypoints(identity, open_)
    wanted, narrow = render(identity, open_), render(identity, half)
    assert opening_loss(wanted, wanted, points) == 0
    assert opening_loss(narrow, wanted, points) > 0.1
    assert opening_loss(0.6 * wanted + 0.4, wanted, points) > 0.1
    assert (train_pictures.LUMA, train_pictures.DARK) == (quality_pictures.LUMA, mouth.DARK)


def test_a_pool_holds_what_its_records_say_and_the_same_for_the_same_seed() -> None:
    pools = [PicturePool(TINY_POOL, seed=5, device=CPU) for _ in range(2)]
    for pool in pools:
        pool.fill(60)
    group, frame = torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0])
    assert torch.equal(pools[0].pictures(group, frame), pools[1].pictures(group, frame))
    record = pools[0].records(group, frame)
    assert record.exp.abs().max() == 0 and record.yaw.abs().max() == 0
    moved = pools[0].records(group, frame + 1)
    assert moved.yaw.abs().min() > 0
    assert torch.equal(moved.kp, record.kp)
    points = transform_keypoints(**moved._asdict())
    assert points.shape == (3, 21, 3) and points.isfinite().all()
    pools[0].refresh()
    assert pools[0].filled == 3 and pools[0].drawn == 10
    assert not torch.equal(pools[0].pictures(group[:1], frame[:1]), pools[1].pictures(group[:1], frame[:1]))


def test_no_held_out_presenter_is_trained_on() -> None:
    assert not set(TRAINED) & set(HELD_OUT) and len(TRAINED) >= 12


def test_one_batch_of_the_small_setting_has_gradients_everywhere() -> None:
    chosen = settings("pictures", small=True)
    pool = PicturePool(PoolSettings(**{**chosen["pool"], "groups": 1}), seed=1, device=CPU)
    pool.fill(0)
    torch.manual_seed(0)
    trainer = Trainer(NETWORKS, MINIATURE, rate=1e-3, decay=0.9, device=CPU)
    batch_loss(trainer.networks, pool, {**chosen, "sources": 1}, CPU).backward()
    without = [name for name, p in trainer.networks.named_parameters() if p.grad is None or not p.grad.any()]
    assert not without


def test_training_needs_no_media_library() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(('av', 'transformers', 'onnx', 'onnxruntime')));"
        "import tools.miniature.train_pictures, tools.miniature.train_extractor, tools.miniature.train_stitching"
    )
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root, timeout=120)

"""The forensics: what must not pass does not, in the measures and in a real run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from ditto_core.backends import TorchBackend
from ditto_core.media import read_image
from ditto_core.quality import FaceTrack, aperture_difference
from ditto_core.quality.drawing import largest_differences
from ditto_core.render import rgb_to_nv12
from tools.forensics import __main__ as command
from tools.forensics import runs as forensic_runs
from tools.forensics.measure import ENCODED, FLOAT32, HALF, LIVE, Bar, compared
from tools.forensics.pages import differences, factor_for, montage
from tools.forensics.runs import Runs, Size, pushes

FRAMES, SIDE = 40, 96
MOUTH = (36, 50, 60, 74)


def talk(*, opens: bool = True) -> list[Tensor]:
    """A mouth that opens and closes in a textured face, as NV12 frames."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    face = np.stack([180 + 20 * np.sin(x / 4), 140 + 20 * np.sin(y / 5), 120 + 0 * x], axis=-1)
    frames = []
    for i in range(FRAMES):
        picture = face.copy()
        opened = 9 * abs(np.sin(i / 3)) if opens else 0.0
        picture[((x - 48) / 10) ** 2 + ((y - 62) / (opened + 1e-6)) ** 2 < 1] = 20
        frames.append(rgb_to_nv12(torch.from_numpy(picture.astype(np.uint8))[None])[0])
    return frames


def row_of(found: list[Tensor], bar: Bar):
    track = FaceTrack.resting(MOUTH, FRAMES)
    track = FaceTrack(mouths=track.mouths, boxes=(MOUTH,) * FRAMES, size=(SIDE, SIDE))
    return compared("run", talk(), found, track=track, shown=(3, 20), bar=bar, about={})


def missed(found: list[Tensor], bar: Bar) -> list[str]:
    return [item["goal"].removeprefix("run: ") for item in row_of(found, bar).goals if not item["met"]]


def changed(change: Callable[[int, Tensor], None]) -> list[Tensor]:
    frames = talk()
    for i, frame in enumerate(frames):
        change(i, frame)
    return frames


def noisy(levels: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)

    def add(_: int, frame: Tensor) -> None:
        noise = torch.randint(-levels, levels + 1, frame.shape, generator=draw)
        frame.copy_((frame.int() + noise).clamp(0, 255).byte())

    return changed(add)


PSNR, SPIKES = "psnr of brightness in dB", "spikes from frame to frame"
EXACT, COUNT = "frames that are not equal bit for bit", "frames too many or too few"
LARGEST, MEAN = "aperture: largest difference in pixels", "aperture: mean difference in percent"


@pytest.mark.parametrize("bar", [FLOAT32, HALF, LIVE, ENCODED])
def test_the_same_frames_meet_every_goal(bar):
    assert missed(talk(), bar) == []


def test_a_glitch_in_one_frame_is_a_spike_that_is_named():
    def glitch(i: int, frame: Tensor) -> None:
        if i == 20:
            frame[40:80, 20:60] = frame[40:80, 20:60].flip(0)

    row = row_of(changed(glitch), ENCODED)
    assert row.about["spikes"] == [20]
    assert not next(item for item in row.goals if item["goal"].endswith(SPIKES))["met"]


def test_a_mouth_that_stays_closed_is_caught():
    shut = talk(opens=False)
    assert {LARGEST, PSNR} <= set(missed(shut, FLOAT32))
    assert MEAN in missed(shut, HALF)


def test_a_dark_pixel_too_many_is_caught_and_half_a_percent_is_not():
    def darken(i: int, frame: Tensor) -> None:
        if i == 19:  # the mouth is nearly closed
            frame[54, 44] = 16

    assert missed(changed(darken), FLOAT32) == [LARGEST]
    assert missed(changed(darken), HALF) == []


def test_noise_is_caught_where_it_is_above_the_bar():
    assert missed(noisy(1), FLOAT32)[0] == PSNR
    assert PSNR not in missed(noisy(1), ENCODED)
    assert missed(noisy(8), ENCODED) == [PSNR]


def test_one_bit_is_caught_in_a_live_run_alone():
    def flip(i: int, frame: Tensor) -> None:
        if i == 7:
            frame[2, 2] ^= 1

    assert missed(changed(flip), LIVE) == [EXACT]
    assert missed(changed(flip), FLOAT32) == []


@pytest.mark.parametrize("found", [talk()[:-1], [*talk(), talk()[0]]])
def test_a_frame_too_few_or_too_many_is_caught(found):
    assert missed(found, ENCODED) == [COUNT]


def test_one_pixel_shows_in_the_picture_of_differences():
    a = np.zeros((100, 80, 3), np.uint8)
    b = a.copy()
    b[37, 51, 1] = 2
    drawn = largest_differences(a, b, 25, 64)
    assert drawn.shape == (25, 20, 3) and drawn.max() == drawn[9, 12, 1] == 128 and np.count_nonzero(drawn) == 1
    assert [factor_for(largest) for largest in (1, 3, 4, 60, 255)] == [64, 64, 32, 4, 1]
    rows = [row_of(noisy(8), ENCODED), row_of(talk(), LIVE)]
    assert montage(rows).shape[0] > 3 * 192 and differences(rows).shape[0] < 2 * 192


def test_apertures_are_compared_in_shares_of_the_mouth_wide_open():
    wide = np.array([0.0, 100, 200, 200])
    found = aperture_difference(wide, np.array([0.0, 100, 196, 200]))
    assert found["largest_delta"] == 4 and found["largest_delta_frame"] == 2
    assert found["mean_delta_percent"] == pytest.approx(0.5) and found["closed_alike"] == 1
    assert aperture_difference(0 * wide, wide)["mean_delta_percent"] is None


class NoisyBackend(TorchBackend):
    """Draws faces with noise that no eye sees."""

    def faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        faces = super().faces(f_s, x_s, x_d)
        return (faces + 0.01 * torch.randn(faces.shape, generator=torch.Generator().manual_seed(1))).clamp(0, 1)


def test_a_backend_that_adds_noise_is_caught_and_the_real_one_is_not(monkeypatch):
    runs = Runs(torch.device("cpu"), Size(frames=4, shown=(2,)))
    good = runs.by_backend("torch", runs.models, batch=4, bar=FLOAT32)
    assert all(item["met"] for item in good.goals) and good.about["frames"] == 4
    monkeypatch.setattr(forensic_runs, "choose_backend", lambda word, models: NoisyBackend(models))
    bad = runs.by_backend("torch", runs.models, batch=4, bar=FLOAT32)
    assert [item["goal"].split(": ", 1)[1] for item in bad.goals if not item["met"]][0] == PSNR
    assert "psnr" in command.summary(bad)


def test_what_does_not_open_is_told_with_its_reason():
    row = Runs(torch.device("cpu"), Size(frames=8)).by_engine("tensorrt")
    assert not row.goals and "GPU" in row.about["not_measured"]


def test_pushes_are_the_whole_sound():
    sound = Runs(torch.device("cpu"), Size(frames=20)).sound
    pieces = [samples for samples, _ in pushes(sound)]
    assert np.array_equal(np.concatenate(pieces, axis=1), sound.samples) and len({p.shape[1] for p in pieces}) > 3


@pytest.mark.long
def test_the_command_writes_figures_and_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["forensics", "--small", "--device", "cpu", "--out", str(tmp_path)])
    command.main()
    report = json.loads((tmp_path / "forensics.json").read_text())
    # in so few frames the mouth hardly opens, so that half a percent of it is less than half precision keeps
    assert [item for item in report["goals"] if not item["met"] and "float16" not in item["goal"]] == []
    assert report["sentence"]["lips"]["closures"] >= 1
    measured = [name for name, run in report["runs"].items() if "not_measured" not in run]
    assert {"torch, float32, batch 8", "live, low-latency plan, chunk 8", "libx264, broadcast"} <= set(measured)
    for name in ("montage.png", "differences.png"):
        assert min(read_image(tmp_path / name).shape[:2]) > 400

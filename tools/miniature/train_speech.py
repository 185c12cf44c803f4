"""Trains the miniature's speech encoder: 64 features from which the mouth can be read off linearly.

python -m tools.miniature.train_speech OUT --corpus FILE.npz [--minutes 2.5] [--setting gpu] [--resume FILE]

It runs where neither PyAV nor espeak-ng is installed, and writes OUT/speech.safetensors and lines to
OUT/speech_motion.jsonl.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import safetensors
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ditto_core.files import replaced_file

from .corpus import ROW_SAMPLES, TARGETS, Corpus, load_corpus

HUBERT: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "conv_dim": [48] * 7,
    "num_conv_pos_embeddings": 32,
    "num_conv_pos_embedding_groups": 4,
}
"""The encoder's sizes, as its config.json has them."""
WINDOW, MARGIN, WINDOW_ROWS = 6480, 80, 10
KEPT = slice(3, 8)
"""The geometry of `ditto_core.speech.SpeechWindows`: rows of a window that any plan keeps, for hops up to 5."""

LOG = "speech_motion.jsonl"
"""The log of both runs."""

Learner = TypeVar("Learner", bound=nn.Module)

_CONFIG = Path(__file__).with_name("train_speech_motion.json")
_TARGET_WEIGHTS = (2.0, 1.0, 1.5, 1.0, 1.5, 0.5, 0.5)
_CLOSED_WEIGHT, _CLOSED = 3.0, 0.06
_CHANGE_WEIGHT = 0.5
_WARM_UP, _LAST_RATE, _AVERAGE = 100, 0.02, 0.999


class SpeechLearner(nn.Module):
    """The encoder, and the head that training alone has."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import HubertConfig, HubertModel  # takes seconds to import

        dropouts: dict[str, Any] = {"hidden_dropout": 0.05, "attention_dropout": 0.0, "activation_dropout": 0.0}
        config = HubertConfig(**HUBERT, **dropouts, feat_proj_dropout=0.0, layerdrop=0.0, apply_spec_augment=False)
        self.hubert = HubertModel(config)
        self.head = nn.Linear(HUBERT["hidden_size"], len(TARGETS))

    def rows(self, windows: Tensor) -> Tensor:
        """(b, 6480) sound -> (b, 10, 64) features, two of the encoder's frames a row."""
        frames = self.hubert(windows).last_hidden_state
        rows: Tensor = frames.unflatten(1, (WINDOW_ROWS, 2)).mean(2)
        return rows

    def forward(self, windows: Tensor) -> Tensor:
        """(b, 6480) sound -> (b, 5, 7) targets of the kept rows."""
        targets: Tensor = self.head(self.rows(windows)[:, KEPT])
        return targets


class Run(Generic[Learner]):
    """A training run that ends when its time or its steps are over; keeps the log and the averaged weights.

    Args:
        name: of the files.
        folder: where they go.
        learner: what is trained; its averaged copy is `average`.
        config: "minutes", "steps", "rate", "log_every".
        resume: a file of an earlier run to go on from. The optimiser starts anew.
    """

    def __init__(
        self, name: str, folder: Path, learner: Learner, config: Mapping[str, Any], resume: Path | None
    ) -> None:
        self.name, self.folder, self.learner, self.config = name, folder, learner, config
        self.average = copy.deepcopy(learner).eval().requires_grad_(False)
        self.step = 0
        if resume is not None:
            tensors = safetensors.torch.load_file(resume)
            learner.load_state_dict(part_of(tensors, "weights"))
            self.average.load_state_dict(part_of(tensors, "average"))
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / LOG).open("a", encoding="utf-8")
        self.optimizer = torch.optim.AdamW(
            learner.parameters(),
            lr=config["rate"],
            betas=(0.9, 0.98),
            weight_decay=0.01,
            fused=next(learner.parameters()).is_cuda,
        )
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._begin

    @property
    def share(self) -> float:
        """Of the run that is over, 0..1."""
        minutes, steps = float(self.config["minutes"]), int(self.config["steps"])
        return min(1.0, max(self.seconds / (60 * minutes), self.step / steps))

    def descend(self, loss: Tensor) -> None:
        """One step down the loss's gradient."""
        fall = _LAST_RATE + (1 - _LAST_RATE) * 0.5 * (1 + math.cos(math.pi * self.share))
        for group in self.optimizer.param_groups:
            group["lr"] = self.config["rate"] * fall * min(1.0, (self.step + 1) / _WARM_UP)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.learner.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        kept = min(_AVERAGE, self.step / (self.step + 10))
        with torch.no_grad():
            averaged: list[Tensor] = [*self.average.parameters()]
            torch._foreach_lerp_(averaged, [*self.learner.parameters()], 1 - kept)

    def log(self, **values: Any) -> None:
        """Writes a line to the log, and shows it."""
        rounded = {key: round(v, 4) if isinstance(v, float) else v for key, v in values.items()}
        line = json.dumps({"run": self.name, "step": self.step, "seconds": round(self.seconds, 1), **rounded})
        self._log.write(line + "\n")
        self._log.flush()
        print(line, flush=True)  # noqa: T201

    def save(self) -> None:
        """Writes weights, averaged weights and the configuration."""
        state = {f"weights/{key}": value for key, value in self.learner.state_dict().items()}
        state |= {f"average/{key}": value for key, value in self.average.state_dict().items()}
        about = {"run": self.name, "step": self.step, "config": dict(self.config)}
        with replaced_file(self.folder / f"{self.name}.safetensors") as beside:
            safetensors.torch.save_file(
                {key: value.detach().cpu().contiguous().clone() for key, value in state.items()},
                beside,
                metadata={"about": json.dumps(about)},
            )


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors below a prefix, without it."""
    return {key.removeprefix(f"{part}/"): v for key, v in tensors.items() if key.startswith(f"{part}/")}


def configuration(name: str, *, setting: str, minutes: float | None = None) -> dict[str, Any]:
    """The numbers of a run, "speech" or "motion", in a setting of the file; `minutes` replaces its time."""
    config: dict[str, Any] = json.loads(_CONFIG.read_text(encoding="utf-8"))[setting][name]
    return config if minutes is None else config | {"minutes": minutes}


def sound_at(signal: Tensor, first: Tensor, length: int, speed: Tensor) -> Tensor:
    """Pieces of a signal, played faster or slower.

    Args:
        signal: (n,).
        first: (b,) integer, the sample of each piece that its sample 80 is.
        length: samples of a piece.
        speed: (b,) samples of the signal to a sample of the piece.

    Returns:
        (b, length); silence beyond the signal.
    """
    offset = (torch.arange(length, device=signal.device) - MARGIN) * speed[:, None]
    whole = offset.floor()
    index = first[:, None] + whole.long()
    inside = (index >= 0) & (index < len(signal) - 1)
    index = index.clamp(0, len(signal) - 2)
    return torch.lerp(signal[index], signal[index + 1], offset - whole) * inside


def targets_at(targets: Tensor, first: Tensor, rows: int, speed: Tensor) -> Tensor:
    """(b, rows, c): the targets of the rows of pieces as `sound_at` cuts them."""
    middles = (torch.arange(rows, device=targets.device) + 0.5) * ROW_SAMPLES * speed[:, None].double()
    position = ((first[:, None] + middles) / ROW_SAMPLES - 0.5).clamp(0, len(targets) - 1.001)
    index = position.floor().long()
    share = (position - index)[..., None].to(targets.dtype)
    return torch.lerp(targets[index], targets[index + 1], share)


def altered(sound: Tensor, gain_db: Tensor, noise: float) -> Tensor:
    """Sound (b, n) louder or softer by gain_db (b,), another timbre, and noise of up to a standard deviation."""
    tilt, amount = torch.rand(2, len(sound), 1, device=sound.device)
    before = F.pad(sound, (1, 0))[:, :-1]
    louder = (sound + (tilt - 0.5) * before) * 10 ** (gain_db[:, None] / 20)
    noisy: Tensor = louder + noise * amount**2 * torch.randn_like(sound)
    return noisy.clamp(-1, 1)


def draw(corpus: Corpus, config: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """A batch: windows of sound (b, 6480), and the targets of their kept rows (b, 5, 7)."""
    n, device = config["batch"], corpus.signal.device
    last = corpus.training_rows * ROW_SAMPLES - 2 * WINDOW
    first = torch.randint(last, (n,), device=device)
    speed = torch.exp(config["speed"] * (2 * torch.rand(n, device=device) - 1))
    gain = config["gain_db"] * (2 * torch.rand(n, device=device) - 1)
    sound = sound_at(corpus.signal, first, WINDOW, speed)
    targets = targets_at(corpus.targets, first, WINDOW_ROWS, speed)[:, KEPT].clone()
    heard = (torch.rand(n, 1, device=device) >= config["silent"]).float()
    energy = TARGETS.index("energy")
    targets[..., energy] = (targets[..., energy] + gain[:, None] / 60 * (targets[..., energy] > 0)).clamp(0, 1)
    return altered(sound * heard, gain, config["noise"]), targets * heard[..., None]


def speech_loss(found: Tensor, wanted: Tensor) -> Tensor:
    """Distances of the targets and of their changes from row to row; shut lips count more."""
    weights = found.new_tensor(_TARGET_WEIGHTS)
    shut = 1 + _CLOSED_WEIGHT * (wanted[..., :1] < _CLOSED)
    error, change = found - wanted, (found - wanted).diff(dim=1)
    # The mean of absolute and squared error: exact at the many rows where nothing is, fair at rare peaks.
    return (weights * shut * (error.abs() + 2 * error**2)).mean() + _CHANGE_WEIGHT * change.abs().mean()


@torch.inference_mode()
def corpus_features(
    learner: SpeechLearner, signal: Tensor, *, hop: int = 5, phase: int = 0, batch: int = 512
) -> Tensor:
    """Features of a long signal as the pipeline makes them, (rows, 64).

    Args:
        learner: in evaluation mode.
        signal: (rows * 640,).
        hop: rows kept of a window.
        phase: rows by which the first window begins before the signal, below hop.
        batch: windows at once.
    """
    rows = len(signal) // ROW_SAMPLES
    windows = -(-(rows + phase) // hop)
    first = (torch.arange(windows, device=signal.device) * hop - phase - (KEPT.stop - hop)) * ROW_SAMPLES
    kept = []
    for start in first.split(batch):
        sound = sound_at(signal, start, WINDOW, torch.ones(len(start), device=signal.device))
        kept.append(learner.rows(sound)[:, KEPT.stop - hop : KEPT.stop].flatten(0, 1))
    return torch.cat(kept)[phase : phase + rows]


def validate(learner: SpeechLearner, corpus: Corpus) -> dict[str, float]:
    """Correlation of each target on the validation rows."""
    part = corpus.part(validation=True)
    signal = corpus.signal[part.start * ROW_SAMPLES :]
    with torch.inference_mode():
        found = learner.head(corpus_features(learner, signal))
    wanted = corpus.targets[part]
    return {
        f"r_{name}": float(torch.corrcoef(torch.stack([found[:, i], wanted[:, i]]))[0, 1])
        for i, name in enumerate(TARGETS)
    }


def load_speech(path: Path) -> SpeechLearner:
    """The averaged weights of a run's file, in evaluation mode."""
    learner = SpeechLearner().eval().requires_grad_(False)
    learner.load_state_dict(part_of(safetensors.torch.load_file(path), "average"))
    return learner


def train(
    folder: Path, corpus: Corpus, config: Mapping[str, Any], *, device: str, resume: Path | None = None
) -> Run[SpeechLearner]:
    """Trains, and writes the run's files to a folder."""
    torch.manual_seed(config["seed"])
    corpus = corpus.to(device)
    run = Run("speech", folder, SpeechLearner().to(device).train(), config, resume)
    while run.share < 1:
        windows, targets = draw(corpus, config)
        loss = speech_loss(run.learner(windows), targets)
        run.descend(loss)
        if run.step % config["log_every"] == 0:
            run.log(loss=loss.item(), **validate(run.average, corpus))
            run.save()
    run.log(done=True, **validate(run.average, corpus))
    run.save()
    return run


def arguments(description: str) -> argparse.ArgumentParser:
    """What both training commands take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("out", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--setting", choices=("gpu", "cpu", "rehearsal"), default="gpu")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--resume", type=Path, help="a file of an earlier run")
    return parser


def main() -> None:
    """The command."""
    given = arguments("Trains the miniature's speech encoder.").parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    config = configuration("speech", setting=given.setting, minutes=given.minutes)
    train(given.out, load_corpus(given.corpus), config, device=given.device, resume=given.resume)


if __name__ == "__main__":
    main()

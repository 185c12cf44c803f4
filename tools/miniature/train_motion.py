"""Trains the miniature's motion diffusion network on features of its own speech encoder.

python -m tools.miniature.train_motion OUT --corpus FILE.npz --speech FILE.safetensors [--minutes 5] [--setting gpu]
python -m tools.miniature.train_motion OUT --export SPEECH.safetensors MOTION.safetensors

It runs where neither PyAV nor espeak-ng is installed, and writes OUT/motion.safetensors and lines to
OUT/speech_motion.jsonl.
The second form writes lmdm.safetensors and hubert/ into a model folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from ditto_core.motion.diffusion import GUIDANCE, alphas_cumprod, sample_window, schedule
from ditto_core.motion.keypoints import PARTS
from ditto_core.networks import MINIATURE, MotionDiffusion
from ditto_core.networks.presets import MOTION_SIZE, WINDOW_ROWS

from .corpus import ROW_SAMPLES, TARGETS, Corpus, load_corpus
from .motion_targets import ROWS, Actors, MotionWindows, draw_windows, smoothed, source_vectors
from .presenter_parameters import EXPRESSIONS
from .train_speech import (
    HUBERT,
    Run,
    SpeechLearner,
    altered,
    arguments,
    configuration,
    corpus_features,
    load_speech,
    part_of,
    targets_at,
)

SHUT, OPEN = 0.12, 0.30
"""Openings below which the mouth counts as closed, and above which it is meant to be open."""

_FLOOR = 0.01
_PART_WEIGHTS = {"scale": 0.05, "pitch": 1.0, "yaw": 1.0, "roll": 1.0, "t": 1.0, "exp": 2.0}
_PARAMETER_WEIGHTS = {"open": 4.0, "wide": 1.5, "pucker": 1.5, "smile": 1.0, "teeth": 1.5, "brow": 0.3}
_OTHER_PARAMETER, _SHUT_WEIGHT, _CHANGE_WEIGHT = 0.6, 3.0, 0.5
_FIRST_ROW_WEIGHT = 8.0
_HOPS = (5, 5, 4, 2)


class MotionLearner(nn.Module):
    """The network in units of the data's spread; `raw_state` writes it in those of motion vectors.

    Args:
        mean: (265,) of the motion.
        spread: (265,) standard deviation of the motion, above 0.
        start_mean: (265,) of the rows before windows.
        start_spread: (265,) likewise.
    """

    mean: Tensor
    spread: Tensor
    start_mean: Tensor
    start_spread: Tensor

    def __init__(self, mean: Tensor, spread: Tensor, start_mean: Tensor, start_spread: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)
        self.register_buffer("start_mean", start_mean)
        self.register_buffer("start_spread", start_spread)
        self.network = MotionDiffusion(MINIATURE)
        _align(self.network)

    def forward(self, x: Tensor, start: Tensor, condition: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
        """Estimates with and without the condition, as vectors (b, 80, 265); arguments as the network's."""
        network, units = self.network, (start - self.start_mean) / self.start_spread
        with_condition = network(x, units, network.encode(condition), time)
        without = network(x, units, network.unconditioned(len(x)), time)
        return with_condition * self.spread + self.mean, without * self.spread + self.mean

    def raw_state(self) -> dict[str, Tensor]:
        """The network's weights with mean and spread folded in."""
        state = {key: value.detach().clone() for key, value in self.network.state_dict().items()}
        weight = state["input_projection.weight"]
        weight[:, MOTION_SIZE:] /= self.start_spread
        state["input_projection.bias"] -= weight[:, MOTION_SIZE:] @ self.start_mean
        state["final_layer.weight"] *= self.spread[:, None]
        state["final_layer.bias"] = state["final_layer.bias"] * self.spread + self.mean
        return state

    def raw_network(self) -> MotionDiffusion:
        """The network as the pipeline loads it."""
        network = MotionDiffusion(MINIATURE).to(self.mean.device).eval().requires_grad_(False)
        network.load_state_dict(self.raw_state())
        return network


def _align(network: MotionDiffusion) -> None:
    """Lets one head of each decoder layer begin by attending to its own row's condition.

    Queries and keys are turned by their rows before they are projected. Where both hold the same constant in the fast
    turning pairs, their product is largest for equal rows; without that, finding the row takes most of the training.
    """
    size = MINIATURE.latent_size
    head = size // MINIATURE.heads
    with torch.no_grad():
        layers: Any = network.seqTransDecoder.stack
        for layer in layers:
            for projection in (slice(0, head), slice(size, size + head)):
                layer.multihead_attn.in_proj_weight[projection] = 1.5 * torch.eye(head, size)
            for norm in (layer.norm2, network.norm_cond):
                norm.weight[:head] = 0.3
                norm.bias[:head:2] = 1.5


class Features:
    """Speech features of the training rows in several variants, with their targets.

    Args:
        learner: the speech encoder.
        corpus: on the learner's device.
        config: "variants", "speed", "gain_db", "noise".
    """

    def __init__(self, learner: SpeechLearner, corpus: Corpus, config: Mapping[str, Any]) -> None:
        signal = corpus.signal[: corpus.training_rows * ROW_SAMPLES]
        targets = corpus.targets[corpus.part(validation=False)]
        speech, wanted = [], []
        for variant in range(config["variants"]):
            speed, gain = torch.rand(2, 1, device=signal.device) * 2 - 1
            speed, hop = torch.exp(config["speed"] * speed), _HOPS[variant % len(_HOPS)]
            sound = altered(_faster(signal, speed)[None], config["gain_db"] * gain, config["noise"])[0]
            speech.append(corpus_features(learner, sound, hop=hop, phase=variant % hop))
            first = torch.zeros(1, dtype=torch.long, device=signal.device)
            wanted.append(targets_at(targets, first, len(speech[-1]), speed)[0])
        self.speech, self.targets = torch.cat(speech).clone(), torch.cat(wanted)
        self.stress = smoothed(self.targets[None, :, TARGETS.index("energy"), None], 5.0)[0, :, 0]

    def draw(self, n: int, actors: Actors) -> tuple[Tensor, MotionWindows]:
        """A batch: conditions (n, 80, 143), and windows of motion."""
        first = torch.randint(len(self.speech) - ROWS, (n, 1), device=self.speech.device)
        rows = first + torch.arange(ROWS, device=first.device)
        windows = draw_windows(self.targets[rows][..., :4], self.stress[rows], actors)
        return torch.cat([self.speech[rows[:, 1:]], windows.extras], dim=-1), windows


def _faster(signal: Tensor, speed: Tensor) -> Tensor:
    """The whole signal, `speed` (1,) of its samples to one; whole rows."""
    length = int((len(signal) - 2) / speed) // ROW_SAMPLES * ROW_SAMPLES
    position = torch.arange(length, device=signal.device, dtype=torch.float64) * speed
    index = position.long()
    return torch.lerp(signal[index], signal[index + 1], (position - index).float())


def motion_loss(
    estimates: tuple[Tensor, Tensor], windows: MotionWindows, spread: Tensor, inverse: Tensor
) -> dict[str, Tensor]:
    """The parts of the loss.

    The sampler uses free + guidance * (conditioned - free). That guided estimate is what is held against the truth, so
    that guidance of 2 gives the motion as it is and not an exaggeration of it.

    Args:
        estimates: with and without condition, (b, 80, 265).
        windows: the truth.
        spread: (265,).
        inverse: (63, 11), from expression values to parameters.
    """
    conditioned, free = estimates
    guided = free.detach() + GUIDANCE * (conditioned - free.detach())
    difference = (guided - windows.vectors) / spread
    unheard = (free - windows.vectors) / spread
    parts = [
        weight * (difference[..., where] ** 2 + 0.5 * unheard[..., where] ** 2).mean()
        for weight, where in ((_PART_WEIGHTS[name], where) for name, where in PARTS._asdict().items())
    ]
    error = guided[..., PARTS.exp] @ inverse - windows.parameters
    weights = error.new_tensor([_PARAMETER_WEIGHTS.get(name, _OTHER_PARAMETER) for name in EXPRESSIONS])
    important = torch.ones_like(error)
    important[..., EXPRESSIONS.index("open")] += _SHUT_WEIGHT * (windows.parameters[..., 0] < SHUT / 2)
    # All of a track is counted from its first row, so that a fault there shifts the whole.
    important[:, 0] *= _FIRST_ROW_WEIGHT
    change = error.diff(dim=1).abs() * weights
    return {
        "vectors": torch.stack(parts).sum(),
        "parameters": (error.abs() * weights * important).mean(),
        "change": _CHANGE_WEIGHT * change.mean(),
    }


def noisy(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors at random diffusion times, half of them those of the usual number of steps; and the times."""
    n, device = len(vectors), vectors.device
    usual = torch.from_numpy(schedule(MINIATURE.default_steps).times.copy()).to(device)
    any_time = torch.randint(1000, (n,), device=device)
    time = torch.where(
        torch.rand(n, device=device) < 0.5, usual[torch.randint(len(usual), (n,), device=device)], any_time
    )
    signal = torch.from_numpy(alphas_cumprod()).float().to(device)[time][:, None, None]
    return signal.sqrt() * vectors + (1 - signal).sqrt() * torch.randn_like(vectors), time


def data_spread(features: Features, actors: Actors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and standard deviation (265,) of motion and of starts; deviations are at least 0.01.

    A source's angle logits are many times as large as ours. That of starts lies between both deviations, so that the
    network reads our own poses and is not flooded by others.
    """
    windows = features.draw(2048, actors)[1]
    motion, start = windows.vectors.flatten(0, 1), windows.start
    spread, start_spread = motion.std(0).clamp(min=_FLOOR), start.std(0).clamp(min=_FLOOR)
    return motion.mean(0), spread, motion.mean(0), (spread * start_spread**2) ** (1 / 3)


def validate(learner: MotionLearner, speech: Tensor, wanted: Tensor, actors: Actors) -> dict[str, float]:
    """What the sampler makes of windows of other sentences, each from a source at rest.

    Args:
        learner: the averaged one.
        speech: (b, 80, 64) features.
        wanted: (b, 80, 7) targets.
        actors: as in training.
    """
    n, device = len(speech), speech.device
    neutral = actors.emotions[4].expand(n, WINDOW_ROWS, -1)
    others = torch.cat([actors.eyes.expand(n, -1), actors.canonical[:1].expand(n, -1)], dim=-1)
    condition = torch.cat([speech, neutral, others[:, None].expand(-1, WINDOW_ROWS, -1)], dim=-1)
    generator = torch.Generator().manual_seed(0)

    def noise() -> Iterator[Tensor]:
        while True:
            yield torch.randn(n, WINDOW_ROWS, MOTION_SIZE, generator=generator).to(device)

    start = source_vectors(n, actors) * 0.5
    motion = sample_window(
        learner.raw_network(), condition, start, noise(), steps=MINIATURE.default_steps, guidance=GUIDANCE
    )
    made = (motion[..., PARTS.exp] @ torch.linalg.pinv(actors.basis))[:, 5:]
    wanted = wanted[:, 5:]
    opened, meant = made[..., 0], wanted[..., 0]
    closures = wanted[:, 1:-1, TARGETS.index("closed")] > 0.5
    lowest = opened.unfold(1, 3, 1).amin(-1)
    meant_open = meant > OPEN
    correlations = {
        f"r_{name}": float(torch.corrcoef(torch.stack([made[..., i].flatten(), wanted[..., j].flatten()]))[0, 1])
        for name, i, j in (("open", 0, 0), ("wide", 1, 1), ("pucker", 2, 2), ("teeth", 4, 3))
    }
    yaw = motion[..., PARTS.yaw].softmax(-1) @ (torch.arange(66.0, device=device) * 3 - 97.5)
    return correlations | {
        "slope_open": float((opened - opened.mean()).mul(meant - meant.mean()).mean() / meant.var()),
        "closed": float((lowest[closures] < SHUT).float().mean()),
        "wrongly_shut": float((opened[meant_open] < SHUT).float().mean()),
        "yaw_sd": float(yaw.std()),
        "blinks": float((made[..., 7].amax(1) > 0.6).float().mean()),
    }


def validation_windows(speech: SpeechLearner, corpus: Corpus) -> tuple[Tensor, Tensor]:
    """Features (b, 80, 64) and targets (b, 80, 7) of whole windows of the validation rows."""
    part = corpus.part(validation=True)
    features = corpus_features(speech, corpus.signal[part.start * ROW_SAMPLES :]).clone()
    targets = corpus.targets[part]
    whole = len(targets) // WINDOW_ROWS * WINDOW_ROWS
    shape = (-1, WINDOW_ROWS)
    return features[:whole].unflatten(0, shape), targets[:whole].unflatten(0, shape)


def train(
    folder: Path,
    corpus: Corpus,
    speech: SpeechLearner,
    config: Mapping[str, Any],
    *,
    device: str,
    resume: Path | None = None,
) -> Run[MotionLearner]:
    """Trains, and writes the run's files to a folder."""
    torch.manual_seed(config["seed"])
    corpus, speech = corpus.to(device), speech.to(device)
    actors = Actors.random(config["identities"], config["seed"], corpus.emotions, corpus.eyes)
    features = Features(speech, corpus, config)
    held, wanted = validation_windows(speech, corpus)
    inverse = torch.linalg.pinv(actors.basis)
    learner = MotionLearner(*data_spread(features, actors)).to(device).train()
    run = Run("motion", folder, learner, config, resume)
    while run.share < 1:
        condition, windows = features.draw(config["batch"], actors)
        x, time = noisy(windows.vectors)
        losses = motion_loss(learner(x, windows.start, condition, time), windows, learner.spread, inverse)
        run.descend(torch.stack(list(losses.values())).sum())
        if run.step % config["log_every"] == 0:
            values = {name: loss.item() for name, loss in losses.items()}
            run.log(**values, **validate(run.average, held, wanted, actors))
            run.save()
    run.log(done=True, **validate(run.average, held, wanted, actors))
    run.save()
    return run


def load_motion(path: Path) -> MotionLearner:
    """The averaged weights of a run's file."""
    state = part_of(safetensors.torch.load_file(path), "average")
    learner = MotionLearner(*(state[name] for name in ("mean", "spread", "start_mean", "start_spread")))
    learner.load_state_dict(state)
    return learner.eval().requires_grad_(False)


def export(folder: Path, speech: Path, motion: Path) -> None:
    """Writes both networks into a model folder: lmdm.safetensors, hubert/config.json and hubert/model.safetensors.

    Args:
        folder: the folder; another command writes the other networks.
        speech: file of the speech encoder's run.
        motion: file of the motion network's run.
    """
    hubert = load_speech(speech).hubert.state_dict()
    (folder / "hubert").mkdir(parents=True, exist_ok=True)
    config = json.dumps({"model_type": "hubert", "architectures": ["HubertModel"], **HUBERT}, indent=2)
    (folder / "hubert" / "config.json").write_text(config + "\n", encoding="utf-8")
    safetensors.torch.save_file(_halved(hubert), folder / "hubert" / "model.safetensors", metadata={"format": "pt"})
    safetensors.torch.save_file(_halved(load_motion(motion).raw_state()), folder / "lmdm.safetensors")


def _halved(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights in half precision. The frequencies of rotary embeddings stay: they are multiplied by up to 80 rows."""
    return {k: (v if k.endswith("freqs") else v.half()).contiguous().clone() for k, v in state.items()}


def main() -> None:
    """The command."""
    parser = arguments("Trains the miniature's motion diffusion network, or exports it.")
    parser.add_argument("--speech", type=Path, help="file of the speech encoder's run")
    parser.add_argument("--export", type=Path, nargs=2, metavar=("SPEECH", "MOTION"))
    given = parser.parse_args()
    if given.export:
        export(given.out, *given.export)
        return
    if given.corpus is None or given.speech is None:
        parser.error("training needs --corpus and --speech")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    config = configuration("motion", setting=given.setting, minutes=given.minutes)
    corpus, speech = load_corpus(given.corpus), load_speech(given.speech)
    train(given.out, corpus, speech, config, device=given.device, resume=given.resume)


if __name__ == "__main__":
    main()

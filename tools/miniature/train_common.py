"""What the training scripts share: settings, the run's clock and log, averaged weights, state files, and export.

python -m tools.miniature.train_common FOLDER STATE.safetensors...    exports trained networks into a model folder
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ditto_core.checkpoints.layout import CONFIG_FILE, NETWORKS, compare
from ditto_core.errors import CheckpointError, InvalidValueError
from ditto_core.files import replaced_file, write_whole
from ditto_core.networks import MINIATURE, Preset

SETTINGS = Path(__file__).with_name("train_pictures.json")
MAX_STATE_BYTES = 15 << 20
_SAVE_EVERY = 60.0
_FINAL_RATE = 0.02
_SLOW_FACTOR = 0.03
"""Share of the learning rate that is left at a run's end."""


def settings(section: str, *, small: bool = False) -> dict[str, Any]:
    """The settings of one training, for a GPU or, `small`, for a CPU."""
    content = json.loads(SETTINGS.read_text(encoding="utf-8"))[section]
    changes = content.pop("small")
    return {**content, **(changes if small else {})}


def arguments(description: str) -> argparse.ArgumentParser:
    """The command line that all training scripts have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("state", type=Path, help="file of weights to write; an existing one is trained further")
    parser.add_argument("--log", type=Path, required=True, help="file to which JSON lines are added")
    parser.add_argument("--minutes", type=float, default=7.0, help="time limit of the whole run, start included")
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps, if that comes first")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--rate", type=float, default=1.0, help="factor of the learning rate")
    parser.add_argument("--small", action="store_true", help="the settings for a CPU")
    return parser


class Clock:
    """How far a run is, by time or by steps; also ends it when the process is asked to stop."""

    def __init__(self, *, minutes: float, steps: int | None) -> None:
        self._start, self._limit, self._steps = time.perf_counter(), 60 * minutes, steps
        self._last_save, self._stopped = self._start, False
        self.step = 0
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self._stopped = True

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def progress(self) -> float:
        """0 at the start, 1 at the end."""
        return min(1.0, max(self.seconds / self._limit, self.step / self._steps if self._steps else 0.0))

    def ticks(self) -> Iterator[float]:
        """The progress before each step until the run ends."""
        while not self._stopped and self.progress < 1:
            yield self.progress
            self.step += 1

    def save_is_due(self) -> bool:
        """True about once a minute."""
        due = time.perf_counter() - self._last_save > _SAVE_EVERY
        if due:
            self._last_save = time.perf_counter()
        return due


class Log:
    """JSON lines, added to a file and shown."""

    def __init__(self, path: Path, run: str, clock: Clock) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._run, self._clock = path, run, clock

    def write(self, **values: object) -> None:
        """Adds one line."""
        head = {"run": self._run, "seconds": round(self._clock.seconds, 1), "step": self._clock.step}
        line = json.dumps({**head, **values}) + "\n"
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line)
        sys.stdout.write(line)
        sys.stdout.flush()


class Trainer:
    """Networks in training, their optimiser and their averaged weights.

    Args:
        names: the networks.
        preset: their sizes.
        rate: learning rate.
        decay: of the averaged weights.
        device: where to train.
        slow: parts of parameter names that learn at 3 % of the rate.

    Attributes:
        networks: in training.
        averaged: the same with exponentially averaged weights, in evaluation mode: the result.
        steps: steps of all runs so far.
        skipped: steps left out because a gradient was not finite.
    """

    def __init__(
        self,
        names: Sequence[str],
        preset: Preset,
        *,
        rate: float,
        decay: float,
        device: torch.device,
        slow: tuple[str, ...] = (),
    ) -> None:
        self.networks = nn.ModuleDict({name: NETWORKS[name](preset) for name in names}).to(device)
        self.averaged = copy.deepcopy(self.networks).eval().requires_grad_(False)
        self.steps, self.skipped = 0, 0
        self._preset, self._rate, self._decay = preset, rate, decay
        named = list(self.networks.named_parameters())
        groups = [
            {"params": [p for name, p in named if any(part in name for part in slow) == late], "factor": factor}
            for late, factor in ((False, 1.0), (True, _SLOW_FACTOR))
        ]
        self._optimiser = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99), weight_decay=1e-4)

    def step(self, loss: Tensor, progress: float, warm: float = 0.01) -> float:
        """One step down the gradient, at a rate that rises over the first `warm` of the run and falls as a cosine.

        Returns:
            The gradient's norm before it was clipped to 1.
        """
        shape = min(1.0, (progress + 1e-3) / warm) * 0.5 * (1 + math.cos(math.pi * progress))
        for group in self._optimiser.param_groups:
            group["lr"] = group["factor"] * self._rate * (_FINAL_RATE + (1 - _FINAL_RATE) * shape)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = float(nn.utils.clip_grad_norm_(self.networks.parameters(), 1.0))
        if not math.isfinite(norm):
            self.skipped += 1
            return norm
        self._optimiser.step()
        self.steps += 1
        self._average()
        return norm

    @torch.no_grad()
    def _average(self) -> None:
        weight = 1 - min(self._decay, (self.steps + 1) / (self.steps + 20))
        new, old = self.networks.state_dict(), self.averaged.state_dict()
        real = [key for key, value in new.items() if value.is_floating_point()]
        torch._foreach_lerp_([old[key] for key in real], [new[key] for key in real], weight)

    def save(self, path: Path) -> None:
        """Writes averaged weights and, in half precision, the optimiser's moments.

        Raises:
            InvalidValueError: the file would have more than 15 MiB.
        """
        tensors = {f"{key.replace('.', '/', 1)}": value for key, value in self.averaged.state_dict().items()}
        for name, parameter in self.networks.named_parameters():
            moments = self._optimiser.state.get(parameter, {})
            for kind in ("exp_avg", "exp_avg_sq"):
                if kind in moments:
                    tensors[f"{kind}/{name}"] = moments[kind].to(torch.bfloat16)
        tensors = {key: value.contiguous().cpu().clone() for key, value in tensors.items()}
        size = sum(value.numel() * value.element_size() for value in tensors.values())
        if size > MAX_STATE_BYTES:
            raise InvalidValueError(f"state of {size} bytes", remedy="make the networks smaller, or split the training")
        metadata = {"preset": json.dumps(self._preset.to_json()), "steps": str(self.steps)}
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(path) as partial:
            save_file(tensors, partial, metadata)

    def resume(self, path: Path) -> None:
        """Goes on from a state file: from its averaged weights, which after a run are the better ones.

        Raises:
            CheckpointError: the file holds other networks or sizes.
        """
        preset, networks, steps = read_state(path)
        if set(networks) != set(self.networks):
            raise CheckpointError(path, f"holds {sorted(networks)}", remedy="train into another file")
        if preset != self._preset:
            raise CheckpointError(path, "was trained in other sizes", remedy="train into another file")
        for module in (self.networks, self.averaged):
            for name, tensors in networks.items():
                module.get_submodule(name).load_state_dict(tensors)
        self.steps = steps
        with safe_open(path, framework="pt") as file:
            known = set(file.keys())
            for name, parameter in self.networks.named_parameters():
                if f"exp_avg_sq/{name}" in known:
                    kinds = ("exp_avg", "exp_avg_sq")
                    moments = {kind: file.get_tensor(f"{kind}/{name}").float().to(parameter.device) for kind in kinds}
                    self._optimiser.state[parameter] = {"step": torch.tensor(float(steps)), **moments}


def start(
    names: Sequence[str], given: argparse.Namespace, chosen: Mapping[str, Any], *, slow: tuple[str, ...] = ()
) -> Trainer:
    """Seeds torch and makes the trainer that a command line and settings ask for, from its state where there is one."""
    torch.manual_seed(chosen["seed"])
    trainer = Trainer(
        names,
        MINIATURE,
        rate=chosen["rate"] * given.rate,
        decay=chosen["decay"],
        device=torch.device(given.device),
        slow=slow,
    )
    if given.state.is_file():
        trainer.resume(given.state)
        torch.manual_seed(chosen["seed"] + trainer.steps)
    return trainer


def train(
    trainer: Trainer,
    clock: Clock,
    log: Log,
    state: Path,
    *,
    loss: Callable[[], Tensor],
    measure: Callable[[nn.ModuleDict], Mapping[str, object]],
    log_every: float,
) -> None:
    """Trains until the clock's end, and saves whatever happens.

    Args:
        trainer: what to train.
        clock: when to end.
        log: gets the mean loss and what `measure` says about the averaged networks.
        state: file to write: about once a minute, and at the end.
        loss: gives the loss of a new batch.
        measure: looks at the averaged networks.
        log_every: seconds between two looks.
    """
    losses: list[float] = []
    last = clock.seconds

    def look() -> None:
        mean = sum(losses) / max(1, len(losses))
        with torch.no_grad():
            seen = measure(trainer.averaged)
        log.write(all_steps=trainer.steps, skipped=trainer.skipped, loss=round(mean, 5), **seen)
        losses.clear()

    try:
        for progress in clock.ticks():
            batch = loss()
            trainer.step(batch, progress)
            losses.append(float(batch.detach()))
            if clock.save_is_due():
                trainer.save(state)
            if clock.seconds - last > log_every:
                look()
                last = clock.seconds
        look()
    finally:
        trainer.save(state)


def read_state(path: Path) -> tuple[Preset, dict[str, dict[str, Tensor]], int]:
    """A state file's preset, each network's tensors under the official names, and the steps so far."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        preset = json.loads(metadata["preset"])
        networks: dict[str, dict[str, Tensor]] = {}
        for key in file.keys():  # noqa: SIM118 - not a dictionary
            name, _, rest = key.partition("/")
            if name in NETWORKS:
                networks.setdefault(name, {})[rest] = file.get_tensor(key)
    return Preset.from_json(preset), networks, int(metadata["steps"])


def export(states: Sequence[Path], folder: Path) -> list[str]:
    """Writes trained networks into a folder that `ditto_core.checkpoints` loads, in float16.

    Files of other networks stay as they are, so that each training can be exported by itself.

    Args:
        states: state files.
        folder: it is made if missing.

    Returns:
        The names of the networks written.

    Raises:
        CheckpointError: a tensor does not fit the miniature's preset, or not into float16.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path in states:
        for name, tensors in read_state(path)[1].items():
            report = compare(NETWORKS[name](MINIATURE), tensors)
            if not report.fits:
                raise CheckpointError(path, f"{name}: {report}", remedy="train again in the preset's present sizes")
            with replaced_file(folder / f"{name}.safetensors") as partial:
                save_file(_halved(path, tensors), partial)
            written.append(name)
    config = json.dumps({"format": 1, "preset": MINIATURE.to_json()}, indent=2) + "\n"
    write_whole(folder / CONFIG_FILE, config.encode())
    return written


def _halved(path: Path, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    halved = {key: value.half() if value.is_floating_point() else value for key, value in tensors.items()}
    infinite = [key for key, value in halved.items() if not value.isfinite().all()]
    if infinite:
        raise CheckpointError(path, f"{infinite[0]} does not fit into float16", remedy="train again")
    return halved


def main() -> None:
    """Exports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("states", type=Path, nargs="+")
    chosen = parser.parse_args()
    sys.stdout.write(f"{chosen.folder}: {', '.join(export(chosen.states, chosen.folder))}\n")


if __name__ == "__main__":
    main()

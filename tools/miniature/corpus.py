"""Speech to train with, and what the face does with it, in one file that a machine without espeak-ng can read.

python -m tools.miniature.corpus FILE.npz [--small]
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ditto_core.files import replaced_file

if TYPE_CHECKING:
    from .speech_espeak import Utterance

ROW_SAMPLES = 640
TARGETS = ("open", "wide", "pucker", "teeth", "closed", "energy", "voiced")
"""Columns of the targets. The first four are as in `speech_visemes.MouthTargets`; closed is 1 where lips are shut for
p, b or m; energy is 0 at -60 dB and 1 at full scale; voiced is 1 in sounds with a voice."""
TEST_SEED = 2
"""Of the grammar's sentences that are kept for tests; training takes none of them."""

_TRAINING_SEED, _MU = 1, 255
_VOICELESS = ("p", "t", "k", "f", "s", "S", "T", "h")
_ONSETS = (
    "b", "p", "m", "f", "v", "w", "s", "z", "t", "d", "n", "l", "r", "k", "g", "h", "sh", "ch", "th", "j", "y",
    "br", "pl", "st", "fr", "sp", "tr", "bl", "m", "p", "b",
)  # fmt: skip
_NUCLEI = ("a", "e", "i", "o", "u", "ee", "oo", "ow", "ay", "ar", "or", "er", "igh", "oy", "ou", "ea")
_CODAS = ("", "", "", "n", "m", "p", "b", "s", "t", "l", "f", "k", "d", "v", "ng", "sh")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
    """Sentences one after another, with silence between them; the last ones are for validation.

    Attributes:
        signal: float32 (rows * 640,), mono at 16 kHz, -1..1.
        targets: float32 (rows, 7), in the order of TARGETS.
        training_rows: the rows to train with; those after them are other sentences in other voices.
        emotions: float32 (8, 8), a condition's emotion values for each emotion.
        eyes: float32 (8,), opening and gaze of neutral eyes as a condition has them.
    """

    signal: Tensor
    targets: Tensor
    training_rows: int
    emotions: Tensor
    eyes: Tensor

    def to(self, device: torch.device | str) -> Corpus:
        """The same on a device."""
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return dataclasses.replace(self, **moved)

    def part(self, *, validation: bool) -> slice:
        """The rows for training or for validation."""
        return slice(self.training_rows, None) if validation else slice(0, self.training_rows)


def load_corpus(path: str | Path) -> Corpus:
    """Reads what `write_corpus` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return Corpus(
            signal=torch.from_numpy(expanded(file["signal"])),
            targets=torch.from_numpy(file["targets"].astype(np.float32) / 100),
            training_rows=int(file["training_rows"]),
            emotions=torch.from_numpy(file["emotions"]),
            eyes=torch.from_numpy(file["eyes"]),
        )


def companded(signal: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Samples in eight bits by the mu-law (ITU-T G.711), of which a speech encoder misses nothing."""
    shaped = np.sign(signal) * np.log1p(_MU * np.abs(signal.clip(-1, 1))) / np.log1p(_MU)
    codes: NDArray[np.uint8] = np.round(shaped * 127 + 128).astype(np.uint8)
    return codes


def expanded(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The samples of `companded` codes; silence is exactly 0."""
    shaped = (codes.astype(np.float32) - 128) / 127
    signal: NDArray[np.float32] = np.sign(shaped) * np.expm1(np.abs(shaped) * np.log1p(_MU)) / _MU
    return signal.astype(np.float32, copy=False)


def pseudo_sentences(n: int, seed: int) -> list[str]:
    """Sentences of invented words: sounds in all orders, where the grammar of news has few."""
    draw = np.random.default_rng(seed)

    def syllable() -> str:
        return "".join(str(draw.choice(parts)) for parts in (_ONSETS, _NUCLEI, _CODAS))

    def word() -> str:
        return "".join(syllable() for _ in range(draw.integers(1, 4)))

    return [" ".join(word() for _ in range(draw.integers(4, 9))) + "." for _ in range(n)]


def utterance_targets(utterance: Utterance) -> NDArray[np.float32]:
    """(frames, 7) targets of an utterance, in the order of TARGETS."""
    from .speech_visemes import mouth_targets

    mouth = mouth_targets(utterance)
    frames = len(mouth.open)
    closed = np.zeros(frames, np.float32)
    closed[list(mouth.closures)] = 1
    blocks = _whole_rows(utterance.samples).reshape(frames, ROW_SAMPLES)
    energy = 1 + 20 * np.log10(np.sqrt((blocks**2).mean(1)) + 1e-6) / 60
    middles = (np.arange(frames) + 0.5) * ROW_SAMPLES / 16000
    voiced = np.zeros(frames, np.float32)
    for phoneme in utterance.phonemes:
        plain = phoneme.name.strip("',%=_:;|")
        if plain and not plain.startswith(_VOICELESS):
            voiced[(middles >= phoneme.start) & (middles < phoneme.end)] = 1
    columns = (mouth.open, mouth.wide, mouth.pucker, mouth.teeth, closed, energy.clip(0, 1), voiced)
    return np.stack(columns, axis=1).astype(np.float32)


def _whole_rows(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.pad(samples, (0, -len(samples) % ROW_SAMPLES))


def _spoken(texts: list[str], voices: tuple[str, ...], seed: int) -> Iterator[tuple[NDArray[np.uint8], ...]]:
    """Codes and targets of each text and of the silence after it."""
    from .speech_espeak import say

    draw = np.random.default_rng(seed)
    for i, text in enumerate(texts):
        rate, pitch = int(draw.integers(130, 205)), int(draw.integers(22, 80))
        utterance = say(text, voice=voices[i % len(voices)], words_per_minute=rate, pitch=pitch)
        # Now and then a silence that fills a whole window of motion.
        pause = 110 if i % 25 == 24 else int(draw.integers(6, 26))
        samples = np.pad(_whole_rows(utterance.samples), (0, pause * ROW_SAMPLES))
        yield companded(samples), np.pad(utterance_targets(utterance), ((0, pause), (0, 0)))


def write_corpus(path: Path, *, news: int, invented: int, validation: int) -> None:
    """Speaks the sentences and writes the file.

    Args:
        path: a .npz file.
        news: sentences of the grammar.
        invented: sentences of invented words.
        validation: other sentences in other voices.
    """
    from ditto_core.avatar.defaults import preset_defaults
    from ditto_core.motion.conditions import EMOTIONS, Emotion
    from ditto_core.networks import MINIATURE

    from .speech_espeak import OTHER_VOICES, VOICES
    from .speech_texts import OTHER_TEXTS, news_sentences

    kept = set(news_sentences(1000, TEST_SEED))
    texts = [text for text in news_sentences(news, _TRAINING_SEED) if text not in kept]
    texts += pseudo_sentences(invented, _TRAINING_SEED)
    order = np.random.default_rng(_TRAINING_SEED).permutation(len(texts))
    training = list(_spoken([texts[i] for i in order], VOICES, _TRAINING_SEED))
    held = list(_spoken(list(OTHER_TEXTS[:validation]), OTHER_VOICES, TEST_SEED))
    eyes = preset_defaults(MINIATURE)
    with replaced_file(path) as beside, beside.open("wb") as file:
        np.savez_compressed(
            file,
            signal=np.concatenate([codes for codes, _ in training + held]),
            targets=np.round(100 * np.concatenate([targets for _, targets in training + held])).astype(np.int8),
            training_rows=sum(len(targets) for _, targets in training),
            emotions=torch.stack([Emotion.of(name).table[0] for name in EMOTIONS]).numpy(),
            eyes=np.array([*eyes.eye_open, *eyes.eye_ball], np.float32),
        )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Speaks sentences to train with.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--small", action="store_true", help="some seconds of speech, to rehearse with")
    arguments = parser.parse_args()
    counts = (24, 12, 4) if arguments.small else (400, 240, 16)
    write_corpus(arguments.file, news=counts[0], invented=counts[1], validation=counts[2])


if __name__ == "__main__":
    main()

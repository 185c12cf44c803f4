"""Measures what the miniature's speech encoder and motion network make of sentences that they were not trained on.

python -m tools.miniature.evaluate_motion [MODEL_FOLDER] [JSON]

Speech runs through the real pipeline, from sound to motion tracks; expression parameters are read back from the tracks.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ditto_core.avatar.defaults import preset_defaults
from ditto_core.checkpoints.layout import read_network
from ditto_core.checkpoints.models import BUNDLED, build_network
from ditto_core.motion.conditions import EMOTIONS, Conditions, Emotion
from ditto_core.motion.controls import EYE_POINTS, LIP_POINTS
from ditto_core.motion.generate import generate_motion
from ditto_core.motion.keypoints import PARTS, degrees_from_logits, transform_keypoints
from ditto_core.motion.track import MotionTrack
from ditto_core.networks import MINIATURE, MotionDiffusion
from ditto_core.networks.presets import MOTION_SIZE
from ditto_core.pipeline.motion import silent_features
from ditto_core.pipeline.plan import Plan, named_plan
from ditto_core.quality import joint_frames, joint_steps, lip_sync, separation
from ditto_core.quality.courses import correlation
from ditto_core.speech import Sound, SpeechEncoder, TransformersHubert, analysis_signal, speech_features

from ..reports import write_report
from .corpus import ROW_SAMPLES, TARGETS, TEST_SEED, utterance_targets
from .motion_targets import sharp_logits
from .presenter_cast import HELD_OUT, cast
from .presenter_geometry import canonical_keypoints, expression_parameters
from .presenter_parameters import EXPRESSIONS
from .speech_espeak import OTHER_VOICES, SAMPLE_RATE, VOICES, say
from .speech_texts import OTHER_TEXTS, news_sentences

SHUT, OPEN = 0.12, 0.30
"""Openings below which the mouth counts as closed, and above which it is meant to be open."""
SHOWN = ("happy", "sad", "surprise", "neutral")
"""Emotions that have to differ visibly."""

_PLAN, _STEPS, _SEEDS = "offline", 10, (0, 1, 2)
_OFFLINE = named_plan(_PLAN)
_PAUSE_ROWS, _SENTENCES = 10, 4
_SETTLED = 25
_BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "miniature" / "motion.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speech:
    """Some sentences in a row.

    Attributes:
        samples: float32 (n,), 16 kHz.
        targets: (n / 640, 7), in the order of TARGETS.
    """

    samples: NDArray[np.float32]
    targets: NDArray[np.float32]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chain:
    """Sound to motion.

    Attributes:
        encoder: of speech.
        network: of motion.
    """

    encoder: SpeechEncoder
    network: MotionDiffusion

    @classmethod
    def of_folder(cls, folder: Path) -> Chain:
        """The two networks of a model folder; it need not hold the others."""
        tensors = read_network("lmdm", folder / "lmdm.safetensors")
        network = build_network("lmdm", MINIATURE, tensors, origin=folder)
        assert isinstance(network, MotionDiffusion)  # noqa: S101
        return cls(encoder=TransformersHubert.from_folder(folder / "hubert"), network=network)

    def motion(self, speech: Speech, *, plan: Plan = _OFFLINE, emotion: str = "neutral", seed: int = 0) -> MotionTrack:
        """The motion of a presenter who was never trained on."""
        signal = analysis_signal(Sound.from_waveform(speech.samples, SAMPLE_RATE))
        geometry, batch = plan.speech, plan.speech_batch
        features = speech_features(
            signal, self.encoder, hop=plan.hop, lead=geometry.lead, batch=batch, rows=plan.rows(len(signal))
        )
        silence = silent_features(self.encoder, plan)
        return generate_motion(
            self.network, features, conditions(emotion), plan, seed=seed, steps=_STEPS, silence=silence
        )


def conditions(emotion: str) -> Conditions:
    """Of a held-out presenter at rest, seen from the front."""
    eyes = preset_defaults(MINIATURE)
    source = torch.zeros(MOTION_SIZE)
    for name in ("pitch", "yaw", "roll"):
        source[getattr(PARTS, name)] = sharp_logits(torch.zeros(()), torch.tensor(8.0)).clamp(min=-12)
    return Conditions(
        source=source,
        emotion=Emotion.of(emotion),
        eye_open=torch.tensor([eyes.eye_open]),
        eye_ball=torch.tensor([eyes.eye_ball]),
        canonical=_canonical(),
    )


def _canonical() -> Tensor:
    return canonical_keypoints(cast([HELD_OUT[0]])).flatten()


def spoken(texts: Sequence[str], voices: Sequence[str], seed: int, group: int = _SENTENCES) -> list[Speech]:
    """Some sentences each in a row, four by default, with pauses."""
    draw = np.random.default_rng(seed)
    pieces = []
    for i, text in enumerate(texts):
        rate, pitch = int(draw.integers(140, 195)), int(draw.integers(30, 75))
        utterance = say(text, voice=voices[i % len(voices)], words_per_minute=rate, pitch=pitch)
        targets = utterance_targets(utterance)
        samples = np.pad(utterance.samples, (0, len(targets) * ROW_SAMPLES - len(utterance.samples)))
        pause = _PAUSE_ROWS
        pieces.append((np.pad(samples, (0, pause * ROW_SAMPLES)), np.pad(targets, ((0, pause), (0, 0)))))
    rows = (pieces[i : i + group] for i in range(0, len(pieces), group))
    return [
        Speech(samples=np.concatenate([s for s, _ in row]), targets=np.concatenate([t for _, t in row])) for row in rows
    ]


def parameters(track: MotionTrack) -> NDArray[np.float32]:
    """(n, 11) expression parameters of a track, counted from its rest."""
    return expression_parameters(track.vectors[:, PARTS.exp] - track.reference[PARTS.exp]).numpy()


def lips(made: Sequence[NDArray[np.float32]], meant: Sequence[NDArray[np.float32]]) -> dict[str, Any]:
    """How lips follow speech.

    Args:
        made: (n, 11) expression parameters of each track.
        meant: (n, 7) targets of each.
    """
    opened = [track[:, EXPRESSIONS.index("open")] for track in made]
    target = [rows[:, TARGETS.index("open")] for rows in meant]
    closures = [np.flatnonzero(rows[:, TARGETS.index("closed")] > 0.5) for rows in meant]
    sync = dataclasses.asdict(lip_sync(opened, target, closures, shut=SHUT, open_above=OPEN))
    others = {
        f"r_{name}": correlation(
            np.concatenate([track[:, EXPRESSIONS.index(name)] for track in made]),
            np.concatenate([rows[:, TARGETS.index(name)] for rows in meant]),
        )
        for name in ("wide", "pucker", "teeth")
    }
    named = {"r": "r_open", "slope": "slope_open"}
    return {named.get(name, name): value for name, value in sync.items()} | others


def points(track: MotionTrack) -> Tensor:
    """(n, 21, 3) key points of a track on the presenter's face."""
    vectors = track.vectors
    angles = {name: degrees_from_logits(vectors[:, getattr(PARTS, name)]) for name in ("pitch", "yaw", "roll")}
    return transform_keypoints(
        kp=_canonical().expand(len(vectors), -1),
        exp=vectors[:, PARTS.exp],
        scale=torch.ones(len(vectors), 1),
        t=vectors[:, PARTS.t],
        **angles,
    )


def border_steps(tracks: Sequence[MotionTrack]) -> dict[str, float]:
    """The largest move of a key point from frame to frame, where windows join and elsewhere (face half widths)."""
    plan = _OFFLINE
    steps = [points(track).diff(dim=0).norm(dim=-1).amax(1).numpy() for track in tracks]
    joints = [joint_frames(len(course) + 1, chunk=plan.chunk, blended=plan.overlap)[1:] for course in steps]
    return dataclasses.asdict(joint_steps(steps, joints))


def life(tracks: Sequence[MotionTrack]) -> dict[str, float]:
    """How much the head moves and how often the eyes blink."""
    angles = {
        f"{name}_sd_degrees": float(
            torch.cat([degrees_from_logits(track.vectors[:, getattr(PARTS, name)]) for track in tracks]).std()
        )
        for name in ("pitch", "yaw", "roll")
    }
    lids = [parameters(track)[:, EXPRESSIONS.index("blink_left")] for track in tracks]
    shut = [np.diff((course > 0.6).astype(int)) == 1 for course in lids]
    half = [np.diff((course > 0.25).astype(int)) == 1 for course in lids]
    minutes = sum(len(course) for course in lids) / (25 * 60)
    return angles | {
        "blinks_per_minute": float(sum(s.sum() for s in shut) / minutes),
        "blinks_that_do_not_close_per_minute": float(
            (sum(h.sum() for h in half) - sum(s.sum() for s in shut)) / minutes
        ),
    }


def emotions(
    chain: Chain, speech: Speech, kinds: Sequence[str] = EMOTIONS, seeds: Sequence[int] = _SEEDS
) -> dict[str, Any]:
    """How far emotions are from each other beside how far seeds are, in the key points that are driven."""
    driven = sorted({*LIP_POINTS, *EYE_POINTS})
    shapes: dict[tuple[Hashable, int], NDArray[np.floating]] = {}
    for emotion, seed in itertools.product(kinds, seeds):
        track = chain.motion(speech, emotion=emotion, seed=seed)
        moved = (track.vectors[:, PARTS.exp] - track.reference[PARTS.exp]).unflatten(-1, (-1, 3))
        shapes[emotion, seed] = moved[_SETTLED:, driven].numpy()
    shown, every = separation(shapes, SHOWN), separation(shapes, kinds)
    return {
        "seed_noise": shown.noise,
        "least_of_shown_to_noise": shown.least_to_noise,
        "distances": {f"{a} - {b}": distance for (a, b), distance in every.distances.items()},
    }


def evaluate(folder: Path) -> dict[str, Any]:
    """All measures of a model folder."""
    chain = Chain.of_folder(folder)
    sets = {
        "new sentences": spoken(news_sentences(40, TEST_SEED), VOICES, TEST_SEED),
        "other texts and voices": spoken([*OTHER_TEXTS, *OTHER_TEXTS[1:], OTHER_TEXTS[0]], OTHER_VOICES, TEST_SEED),
    }
    report: dict[str, Any] = {"plan": _PLAN, "steps": _STEPS, "closed_below": SHUT, "lips": {}}
    tracks: list[MotionTrack] = []
    for name, speeches in sets.items():
        made = [chain.motion(speech, seed=i) for i, speech in enumerate(speeches)]
        report["lips"][name] = lips([parameters(track) for track in made], [s.targets for s in speeches])
        tracks += made
    report["borders"] = border_steps(tracks)
    report["life"] = life(tracks)
    report["emotion"] = emotions(chain, sets["other texts and voices"][0])
    return report


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Measures the miniature's speech and motion.")
    parser.add_argument("folder", type=Path, nargs="?", default=BUNDLED)
    parser.add_argument("json", type=Path, nargs="?", default=_BENCHMARK)
    given = parser.parse_args()
    command = "python -m tools.miniature.evaluate_motion"
    sys.stdout.write(write_report(given.json, command, evaluate(given.folder)))


if __name__ == "__main__":
    main()

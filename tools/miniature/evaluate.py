"""Measures the miniature through the whole chain: a drawn portrait and spoken sentences in, a decoded video out.

python -m tools.miniature.evaluate [MODELS] [--out FOLDER] [--small]

Presenters, sentences and poses are none that training saw. Writes evaluation.json, which names each goal, its limit and
whether it is met, and two pictures: held_out.png, the presenters speaking, and emotions.png, at the same instants.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_core.avatar import Avatar, register
from ditto_core.backends import RenderBackend, choose_backend
from ditto_core.checkpoints import DittoModels, load_models
from ditto_core.checkpoints.models import BUNDLED
from ditto_core.media import open_media
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.whole_file import MotionOptions, render_file
from ditto_core.quality import (
    ClipCourses,
    ClipMeter,
    FaceTrack,
    joint_frames,
    joint_steps,
    lip_sync,
    opening,
    write_png,
)
from ditto_core.quality.drawing import Pixels, below, beside, blank, scaled, write
from ditto_core.quality.mouth import CLOSED
from ditto_core.speech import Sound, SpeechEncoder, speech_encoder_for

from ..reports import goal, tally, write_report
from . import evaluate_motion, evaluate_pictures
from .corpus import ROW_SAMPLES, TARGETS, TEST_SEED
from .evaluate_motion import OPEN, SHOWN, Speech, spoken
from .presenter import render
from .presenter_cast import HELD_OUT, cast
from .presenter_geometry import BUST
from .presenter_parameters import Motion
from .presenter_sheet import to_bytes
from .speech_espeak import OTHER_VOICES, SAMPLE_RATE, VOICES
from .speech_texts import OTHER_TEXTS, news_sentences
from .train_pool import TRAINED

NEW, OTHER = "new sentences", "other texts and voices"
_LIP_GOALS = {NEW: (0.90, 0.95), OTHER: (0.85, 0.90)}
"""Least correlation, and least share of closures that are closed."""
_MOST_WRONGLY_SHUT, _MOST_LAG = 0.03, 1
_MOST_JOINT_RATIO, _MOST_BORDER_STEP, _LEAST_EMOTION_RATIO = 1.2, 2.0, 3.0
_POSE = {"yaw": 8.0, "pitch": -3.0, "roll": 4.0, "smile": 0.15}
"""Of a portrait that does not look straight ahead."""
_STRIP_FRAMES, _TILE = 6, 220
_PLAN = "offline"
_DEFAULT = Path(__file__).parents[2] / "benchmarks" / "miniature"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured.

    Attributes:
        sentences: of each clip.
        named: presenters for the pictures' PSNR.
        motions: of each of them.
        seeds: of emotions.
        emotion_frames: of each clip of the sheet of emotions.
    """

    sentences: int = 4
    named: Sequence[str] = TRAINED
    motions: int = 2
    seeds: Sequence[int] = (0, 1, 2)
    emotion_frames: int = 60


SMALL = Size(sentences=1, named=TRAINED[:2], motions=1, seeds=(0, 1), emotion_frames=24)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One clip.

    Attributes:
        presenter: a held-out one.
        pose: of the portrait.
        kind: NEW or OTHER.
        speech: what is said.
    """

    presenter: str
    pose: dict[str, float]
    kind: str
    speech: Speech


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clip:
    """What became of a case.

    Attributes:
        courses: measures of the decoded frames.
        track: where the mouth was meant to be.
        tiles: some frames of the face.
        report: of `render_file`.
    """

    courses: ClipCourses
    track: FaceTrack
    tiles: list[Pixels]
    report: dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Chain:
    """The whole chain.

    Attributes:
        models: the networks.
        encoder: of speech.
        backend: draws.
        folder: for files that are read back.
    """

    models: DittoModels
    encoder: SpeechEncoder
    backend: RenderBackend
    folder: Path

    @classmethod
    def of_folder(cls, models: Path, folder: Path) -> Chain:
        """Loads a model folder."""
        loaded = load_models(models)
        encoder = speech_encoder_for(loaded)
        return cls(models=loaded, encoder=encoder, backend=choose_backend("auto", loaded), folder=folder)

    def avatar(self, presenter: str, pose: dict[str, float]) -> Avatar:
        """Draws a portrait, writes it to a file, and registers that."""
        path = self.folder / "portrait.png"
        write_png(path, to_bytes(render(cast([presenter]), Motion.neutral(1, **pose), BUST)[0]))
        return register(path, self.models)

    def clip(self, avatar: Avatar, samples: NDArray[np.float32], tiles: int, emotion: str = "neutral") -> Clip:
        """Renders a video file, decodes it and measures its frames."""
        path = self.folder / "video.mp4"
        sound = Sound.from_waveform(samples, SAMPLE_RATE)
        options = MotionOptions(plan=named_plan(_PLAN), emotion=emotion)
        report = render_file(self.models, self.encoder, self.backend, avatar, sound, path, motion=options)
        track = FaceTrack.of_report(report)
        meter = ClipMeter(track)
        shown = np.linspace(len(track) * 0.4, len(track) - 1, tiles).astype(int) if tiles else np.zeros(0, int)
        found = []
        with open_media(path, "video") as media:
            for i, picture in enumerate(media.pictures()):
                meter.add(picture)
                if i in shown:
                    left, top, right, bottom = track.boxes[i]
                    found.append(scaled(picture[top:bottom, left:right], _TILE))
        return Clip(courses=meter.courses(), track=track, tiles=found, report=report)


def cases(size: Size) -> list[Case]:
    """Both held-out presenters, straight and turned, with new sentences and with other texts and voices."""
    n = size.sentences
    new = spoken(news_sentences(2 * n, TEST_SEED)[: 2 * n], VOICES, TEST_SEED, group=n)
    other = spoken(OTHER_TEXTS[: 2 * n], OTHER_VOICES, TEST_SEED, group=n)
    straight: dict[str, float] = {}
    return [
        Case(presenter=HELD_OUT[0], pose=straight, kind=NEW, speech=new[0]),
        Case(presenter=HELD_OUT[1], pose=_POSE, kind=NEW, speech=new[1]),
        Case(presenter=HELD_OUT[0], pose=_POSE, kind=OTHER, speech=other[0]),
        Case(presenter=HELD_OUT[1], pose=straight, kind=OTHER, speech=other[1]),
    ]


def lips(speeches: Sequence[Speech], courses: Sequence[NDArray[np.float64]]) -> dict[str, Any]:
    """How openings, as shares of each clip's 95th percentile, follow what is said."""
    targets = [speech.targets[: len(course)] for speech, course in zip(speeches, courses, strict=True)]
    closures = [np.flatnonzero(rows[:, TARGETS.index("closed")] > 0.5) for rows in targets]
    meant = [rows[:, TARGETS.index("open")] for rows in targets]
    return dataclasses.asdict(lip_sync(courses, meant, closures, shut=CLOSED, open_above=OPEN))


def lip_opening(track: FaceTrack) -> NDArray[np.float64]:
    """The opening that the key points ask for: the lips' height above that of shut lips, over its 95th percentile."""
    heights = track.heights()
    return opening(np.maximum(heights - np.percentile(heights, 2), 0))


def lip_goals(kind: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Those of one kind of sentences; a mouth that is always shut closes in all closures, and meets none."""
    r, closed = _LIP_GOALS[kind]
    late, shut = found["lag_frames"], found["wrongly_shut"]
    spoke = goal(f"{kind}: open frames wrongly shut", shut, most=_MOST_WRONGLY_SHUT)
    closures = goal(f"{kind}: closures of b, p, m closed within a frame", found["closed"], least=closed)
    return [
        goal(f"{kind}: r of aperture and phoneme targets", found["r"], least=r),
        goal(f"{kind}: lag in frames, without sign", None if late is None else abs(late), most=_MOST_LAG),
        {**closures, "met": closures["met"] and spoke["met"]},
        spoke,
    ]


def measure_clips(chain: Chain, size: Size) -> tuple[dict[str, Any], list[dict[str, Any]], Pixels]:
    """Figures, goals, and a picture of the held-out presenters speaking."""
    told = cases(size)
    clips = [chain.clip(chain.avatar(case.presenter, case.pose), case.speech.samples, _STRIP_FRAMES) for case in told]
    found: dict[str, Any] = {"lips": {}, "lips_by_key_points": {}}
    goals = []
    for kind in _LIP_GOALS:
        these = [(case.speech, clip) for case, clip in zip(told, clips, strict=True) if case.kind == kind]
        speeches = [speech for speech, _ in these]
        found["lips"][kind] = lips(speeches, [opening(clip.courses.apertures) for _, clip in these])
        found["lips_by_key_points"][kind] = lips(speeches, [lip_opening(clip.track) for _, clip in these])
        goals += lip_goals(kind, found["lips"][kind])
    plan = named_plan(_PLAN)
    steps = [clip.courses.steps[1:] for clip in clips]
    where = [joint_frames(len(course) + 1, chunk=plan.chunk, blended=plan.overlap)[1:] for course in steps]
    joints = joint_steps(steps, where)
    border = [float(clip.courses.borders.mean()) for clip in clips]
    found["joints"] = dataclasses.asdict(joints)
    found["clips"] = [
        {
            "presenter": case.presenter,
            "pose": case.pose,
            "kind": case.kind,
            "frames": len(clip.track),
            "aperture_95th_percentile": float(np.percentile(clip.courses.apertures, 95)),
            "border_step": step,
        }
        for case, clip, step in zip(told, clips, border, strict=True)
    ]
    goals += [
        goal("largest step at a window border over the largest elsewhere", joints.ratio, most=_MOST_JOINT_RATIO),
        goal("mean step across the paste border above that beside it", float(np.mean(border)), most=_MOST_BORDER_STEP),
    ]
    rows = [(f"{case.presenter}, {case.kind}", clip.tiles) for case, clip in zip(told, clips, strict=True)]
    return found, goals, _sheet(rows)


def measure_pictures(folder: Path, size: Size) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """PSNR of the face picture."""
    found = evaluate_pictures.psnr_cases(evaluate_pictures.load(folder), size.named, size.motions)
    values = evaluate_pictures.reached(found)
    goals = [goal(f"psnr in dB: {name}", values[name], least=least) for name, least in evaluate_pictures.GOALS.items()]
    return {"psnr_db": found}, goals


def measure_emotions(chain: Chain, folder: Path, size: Size) -> tuple[dict[str, Any], list[dict[str, Any]], Pixels]:
    """Distances of emotions in the key points, and a sheet of them at the same instants."""
    (speech,) = spoken(OTHER_TEXTS[-1:], OTHER_VOICES, TEST_SEED)
    motion = evaluate_motion.Chain.of_folder(folder)
    found = evaluate_motion.emotions(motion, speech, SHOWN, size.seeds)
    ratio = found["least_of_shown_to_noise"]
    avatar = chain.avatar(HELD_OUT[0], {})
    samples = speech.samples[: size.emotion_frames * ROW_SAMPLES]
    order = sorted(SHOWN, key="neutral".__ne__)
    rows = [(emotion, chain.clip(avatar, samples, _STRIP_FRAMES - 1, emotion).tiles) for emotion in order]
    goals = [goal("least distance of two emotions over that of two seeds", ratio, least=_LEAST_EMOTION_RATIO)]
    return {"emotion": found}, goals, _sheet(rows)


def _sheet(rows: Sequence[tuple[str, list[Pixels]]]) -> Pixels:
    """Rows of tiles, each under its name."""
    parts = []
    for name, tiles in rows:
        row = beside(tiles)
        head = blank(16, row.shape[1])
        write(head, name, x=2, y=3)
        parts += [head, row]
    return below(parts, gap=2)


def evaluate(models: Path, out: Path, size: Size) -> dict[str, Any]:
    """Measures everything and writes the pictures.

    Args:
        models: a model folder.
        out: where pictures are written.
        size: how much is measured.

    Returns:
        The report, ready for JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        chain = Chain.of_folder(models, Path(folder))
        clips, clip_goals, speaking = measure_clips(chain, size)
        emotions, emotion_goals, sheet = measure_emotions(chain, models, size)
    pictures, picture_goals = measure_pictures(models, size)
    write_png(out / "held_out.png", speaking)
    write_png(out / "emotions.png", sheet)
    goals = [*clip_goals, *picture_goals, *emotion_goals]
    return {
        "models": chain.models.fingerprint,
        "plan": _PLAN,
        "met": tally(goals),
        "goals": goals,
        **clips,
        **pictures,
        **emotions,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path, nargs="?", default=BUNDLED)
    parser.add_argument("--out", type=Path, default=_DEFAULT)
    parser.add_argument("--small", action="store_true", help="one sentence a clip and few pictures, to try it")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    command = "python -m tools.miniature.evaluate" + (" --small" if given.small else "")
    report = evaluate(given.models, given.out, SMALL if given.small else Size())
    sys.stdout.write(write_report(given.out / "evaluation.json", command, report))


if __name__ == "__main__":
    main()

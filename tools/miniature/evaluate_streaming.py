"""What streaming costs the miniature: borders of chunks, lips and smoothness, beside the offline plan.

python -m tools.miniature.evaluate_streaming [MODELS] [--out FILE] [--small]

Sentences and presenter are none that training saw. Two tables: by key points, each plan over many sentences; by
pictures, sentences driven live through a session, for each chunk with every frame drawn and with every second one
(cadence 2). Writes streaming.json, which names each goal, its limit and whether it is met.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ditto_core.avatar import Avatar
from ditto_core.checkpoints.models import BUNDLED
from ditto_core.motion.track import MotionTrack
from ditto_core.pipeline.draw import next_piece
from ditto_core.pipeline.live_items import LiveFrame
from ditto_core.pipeline.motion import MotionOptions
from ditto_core.pipeline.plan import Plan, named_plan
from ditto_core.pipeline.session import Session
from ditto_core.pipeline.stream import feed
from ditto_core.quality import ClipCourses, ClipMeter, FaceTrack, joint_frames, joint_steps, opening
from ditto_core.render import RenderOptions, nv12_to_rgb

from ..reports import goal, tally, write_report
from . import evaluate, evaluate_motion
from .corpus import ROW_SAMPLES, TEST_SEED
from .evaluate import NEW, OTHER
from .evaluate_motion import Speech, parameters, points, spoken
from .presenter_cast import HELD_OUT
from .speech_espeak import OTHER_VOICES, SAMPLE_RATE, VOICES
from .speech_texts import OTHER_TEXTS, news_sentences

Lips = Mapping[str, dict[str, Any]]
"""By kind of sentences."""

_BASELINE, _CADENCE_2 = "offline, chunk 70", ", cadence 2"
_MOST_JOINT_RATIO, _MOST_SHAKE_RATIO = 1.2, 1.2
_MOST_LOST_R, _MOST_LAG, _MOST_WRONGLY_SHUT = 0.03, 1, 0.03
_LEAST_CLOSED = {NEW: 0.95, OTHER: 0.90}
_DEFAULT = Path(__file__).parents[2] / "benchmarks" / "miniature" / "streaming.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured.

    Attributes:
        chunks: of the low-latency plan.
        sentences: of each kind, for the key points.
        drawn: of each kind, for the pictures.
    """

    chunks: Sequence[int] = (4, 8, 16, 25)
    sentences: int = 16
    drawn: int = 3


SMALL = Size(chunks=(8, 16), sentences=2, drawn=1)


def plans(chunks: Sequence[int]) -> dict[str, Plan]:
    """Those that are compared, each with exactly as many frames as the sound has; the first is the measure."""
    every = [named_plan("offline"), named_plan("upstream-online")]
    every += [named_plan("low-latency", chunk=chunk) for chunk in chunks]
    return {f"{plan.name}, chunk {plan.chunk}": dataclasses.replace(plan, ending="exact") for plan in every}


def told(count: int, group: int) -> dict[str, list[Speech]]:
    """Sentences by kind, some in a row."""
    return {
        NEW: spoken(news_sentences(count, TEST_SEED), VOICES, TEST_SEED, group=group),
        OTHER: spoken(OTHER_TEXTS[:count], OTHER_VOICES, TEST_SEED, group=group),
    }


def border_frames(frames: int, plan: Plan, cadence: int) -> NDArray[np.bool_]:
    """Which frames (frames,) come first after a border of motion windows, or of pieces that are drawn together."""
    at = joint_frames(frames, chunk=plan.chunk, blended=0)
    first = 0
    while cadence == 2 and (piece := next_piece(first, frames, ended=True, length=plan.piece)) is not None:
        at[first] |= first > 0
        first = piece.stop
    return at


def borders(steps: Sequence[NDArray[np.floating]], plan: Plan, cadence: int = 1) -> dict[str, Any]:
    """Steps from frame to frame at borders and elsewhere.

    Args:
        steps: for each clip (n,), the first of which is no step.
        plan: of the motion.
        cadence: of the pictures.

    Returns:
        `at_borders`; and where a blend after a joint ends before the next one, the same `with_blends`.
    """
    ways = {"at_borders": [border_frames(len(course), plan, cadence) for course in steps]}
    if plan.fuse + 1 < plan.chunk:
        ways["with_blends"] = [joint_frames(len(course), chunk=plan.chunk, blended=plan.fuse) for course in steps]
    found = {}
    for name, where in ways.items():
        joints = joint_steps([course[1:] for course in steps], [at[1:] for at in where])
        found[name] = {**dataclasses.asdict(joints), "ratio": joints.ratio}
    return found


def border_goals(name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """No step at a border is larger than elsewhere."""
    words = {"at_borders": "at a border", "with_blends": "at a border or in the blend after it"}
    return [
        goal(f"{name}: largest step {words[way]} over the largest elsewhere", part["ratio"], most=_MOST_JOINT_RATIO)
        for way, part in found.items()
    ]


def lip_goals(name: str, found: Lips, baseline: Lips, r: str) -> list[dict[str, Any]]:
    """Lips follow as with the baseline; `r` is the name of the correlation."""
    goals = []
    for kind, lips in found.items():
        late, least = lips["lag_frames"], round(baseline[kind][r] - _MOST_LOST_R, 4)
        goals += [
            goal(f"{name}, {kind}: r of opening and phoneme targets", lips[r], least=least),
            goal(f"{name}, {kind}: lag in frames, without sign", None if late is None else abs(late), most=_MOST_LAG),
            goal(
                f"{name}, {kind}: closures of b, p, m closed within a frame", lips["closed"], least=_LEAST_CLOSED[kind]
            ),
            goal(f"{name}, {kind}: open frames wrongly shut", lips["wrongly_shut"], most=_MOST_WRONGLY_SHUT),
        ]
    return goals


def moves(track: MotionTrack) -> NDArray[np.floating]:
    """(n,) largest move of a key point from the frame before, in half widths of the face; 0 at first."""
    steps: NDArray[np.floating] = points(track).diff(dim=0).norm(dim=-1).amax(1).numpy()
    return np.concatenate([[0.0], steps])


def shake(tracks: Sequence[MotionTrack]) -> float:
    """How much the key points' moves change from frame to frame, on average: what smoothness is the lack of."""
    return float(torch.cat([points(track).diff(n=2, dim=0).norm(dim=-1).flatten() for track in tracks]).mean())


def measure_motion(folder: Path, size: Size) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Each plan by its key points, over many sentences."""
    chain = evaluate_motion.Chain.of_folder(folder)
    speeches = told(size.sentences, group=4)
    table: dict[str, Any] = {}
    for name, plan in plans(size.chunks).items():
        made = {
            kind: [chain.motion(speech, plan=plan, seed=i) for i, speech in enumerate(some)]
            for kind, some in speeches.items()
        }
        tracks = [track for some in made.values() for track in some]
        table[name] = {
            "lips": {
                kind: evaluate_motion.lips([parameters(t) for t in some], [s.targets for s in speeches[kind]])
                for kind, some in made.items()
            },
            "shake": shake(tracks),
            **borders([moves(track) for track in tracks], plan),
        }
        tell(f"key points, {name}")
    goals, baseline = [], table[_BASELINE]
    for name in low_latency(table):
        row, told_as = table[name], f"key points, {name}"
        ratio = row["shake_over_offline"] = row["shake"] / baseline["shake"]
        goals += border_goals(told_as, {way: row[way] for way in ("at_borders", "with_blends") if way in row})
        goals += lip_goals(told_as, row["lips"], baseline["lips"], "r_open")
        goals.append(goal(f"{told_as}: shake over the offline plan's", ratio, most=_MOST_SHAKE_RATIO))
    return table, goals


def low_latency(table: Mapping[str, Any]) -> list[str]:
    """The rows of a table that are held to goals; the others are for comparison."""
    return [name for name in table if name.startswith("low-latency")]


def live_clip(chain: evaluate.Chain, avatar: Avatar, speech: Speech, plan: Plan, cadence: int) -> ClipCourses:
    """Speaks through a live session, frame by frame of sound, and measures the pictures before encoding."""
    blocks = [
        (speech.samples[first : first + ROW_SAMPLES], SAMPLE_RATE)
        for first in range(0, len(speech.samples), ROW_SAMPLES)
    ]
    with Session(
        models=chain.models,
        encoder=chain.encoder,
        backend=chain.backend,
        avatar=avatar,
        motion=MotionOptions(plan=plan),
        options=RenderOptions(cadence=cadence),
    ) as session:
        feed(session, blocks)
        frames = list(session)
    meter = ClipMeter(face_track(frames))
    for frame in frames:
        meter.add(nv12_to_rgb(frame.picture[None])[0].numpy())
    return meter.courses()


def face_track(frames: Sequence[LiveFrame]) -> FaceTrack:
    """Where mouth and face are in a session's frames."""
    return FaceTrack(
        mouths=torch.stack([frame.mouth for frame in frames]).numpy(),
        boxes=tuple(frame.face_box for frame in frames),
    )


def measure_pictures(chain: evaluate.Chain, size: Size) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Each plan by its pictures; the offline and the low-latency ones at both cadences."""
    avatar = chain.avatar(HELD_OUT[0], {})
    speeches = {kind: some[0] for kind, some in told(size.drawn, group=size.drawn).items()}
    table: dict[str, Any] = {}
    for (name, plan), cadence in itertools.product(plans(size.chunks).items(), (1, 2)):
        if cadence == 2 and plan.name == "upstream-online":
            continue
        clips = {kind: live_clip(chain, avatar, speech, plan, cadence) for kind, speech in speeches.items()}
        key = name if cadence == 1 else f"{name}{_CADENCE_2}"
        table[key] = {
            "frames": sum(len(clip.steps) for clip in clips.values()),
            "lips": {kind: evaluate.lips([speeches[kind]], [opening(clip.apertures)]) for kind, clip in clips.items()},
            **borders([clip.steps for clip in clips.values()], plan, cadence),
        }
        tell(f"pictures, {key}")
    goals, baseline = [], table[_BASELINE]
    for name in low_latency(table):
        row, told_as = table[name], f"pictures, {name}"
        goals += border_goals(told_as, {way: row[way] for way in ("at_borders", "with_blends") if way in row})
        if not name.endswith(_CADENCE_2):  # what that costs the lips is not the plan's doing; it stands in the table
            goals += lip_goals(told_as, row["lips"], baseline["lips"], "r")
    return table, goals


def tell(line: str) -> None:
    """Says what is done."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def measure(models: Path, size: Size) -> dict[str, Any]:
    """Both tables and all goals, ready for JSON."""
    motion, goals = measure_motion(models, size)
    with tempfile.TemporaryDirectory() as folder:
        chain = evaluate.Chain.of_folder(models, Path(folder))
        pictures, picture_goals = measure_pictures(chain, size)
    goals += picture_goals
    return {
        "models": chain.models.fingerprint,
        "met": tally(goals),
        "goals": goals,
        "by_key_points": motion,
        "by_pictures": pictures,
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path, nargs="?", default=BUNDLED)
    parser.add_argument("--out", type=Path, default=_DEFAULT)
    parser.add_argument("--small", action="store_true", help="few sentences and chunks, to try it")
    given = parser.parse_args()
    report = measure(given.models, SMALL if given.small else Size())
    command = "python -m tools.miniature.evaluate_streaming" + (" --small" if given.small else "")
    write_report(given.out, command, report)
    tell(f"{given.out}: {report['met']} goals met")


if __name__ == "__main__":
    main()

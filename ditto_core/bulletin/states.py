"""How far a segment is, and which steps may follow each other. Pure: no input or output here."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace


class State(str, enum.Enum):
    """How far a segment is."""

    WAITING = "waiting"
    """To be sent."""
    QUEUED = "queued"
    """Sent, or about to be: the server may know its prompt."""
    RUNNING = "running"
    """The server works on it."""
    RENDERED = "rendered"
    """The server has its results; they are to be fetched."""
    DONE = "done"
    """The results are here."""
    FAILED = "failed"
    """It ended without results."""


_LOST = State.WAITING
TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.WAITING: frozenset({State.QUEUED, State.FAILED}),
    State.QUEUED: frozenset({State.RUNNING, State.RENDERED, State.FAILED, _LOST}),
    State.RUNNING: frozenset({State.RENDERED, State.FAILED, _LOST}),
    State.RENDERED: frozenset({State.DONE, State.FAILED, _LOST}),
    # A result that was deleted here is fetched again. The next run tries a failed segment again: it only fetches what
    # failed on the way.
    State.DONE: frozenset({State.RENDERED}),
    State.FAILED: frozenset({State.WAITING, State.RENDERED}),
}
SENT = frozenset({State.QUEUED, State.RUNNING})
ENDED = frozenset({State.DONE, State.FAILED})


@dataclass(frozen=True, kw_only=True)
class Output:
    """A result file on the server, by the server's own words. They are sent back to it and used for nothing else."""

    filename: str
    subfolder: str
    type: str


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """A result file here.

    Attributes:
        name: in the output folder.
        size: in bytes.
        sha256: of its content, in hex; empty in manifests that were written before it was kept.
    """

    name: str
    size: int
    sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One transition and what came with it: a line of the manifest.

    Attributes:
        state: the state that the segment enters.
        prompt_id: with QUEUED: the identity that we chose for the prompt.
        outputs: with RENDERED: what to fetch.
        files: with DONE: what was fetched.
        reason: with FAILED and WAITING: why.
    """

    state: State
    prompt_id: str = ""
    outputs: tuple[Output, ...] = ()
    files: tuple[ResultFile, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a segment is, after all its steps.

    Attributes:
        state: its state.
        prompt_id: the prompt that was sent; empty while it waits.
        outputs: its results on the server, once it was rendered.
        files: its results here.
        reason: why it failed or waits again.
        losses: how often the server lost it since it began or last failed.
    """

    state: State = State.WAITING
    prompt_id: str = ""
    outputs: tuple[Output, ...] = ()
    files: tuple[ResultFile, ...] = ()
    reason: str = ""
    losses: int = 0

    def after(self, step: Step) -> Progress:
        """The progress after one more step.

        Raises:
            ValueError: the table of transitions does not allow it.
        """
        if step.state not in TRANSITIONS[self.state]:
            raise ValueError(f"no step from {self.state.value} to {step.state.value}")
        losses = 0 if self.state is State.FAILED else self.losses + (step.state is _LOST)
        if step.state is State.WAITING:
            return Progress(reason=step.reason, losses=losses)
        return replace(
            self,
            state=step.state,
            prompt_id=step.prompt_id or self.prompt_id,
            outputs=step.outputs or self.outputs,
            files=step.files or self.files,
            reason=step.reason,
            losses=losses,
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a prompt ended on the server: with results, or with an error."""

    outputs: tuple[Output, ...] = ()
    error: str = ""


def observed(progress: Progress, place: State | None, outcome: Outcome | None, most_losses: int) -> Step | None:
    """What seeing a sent prompt on the server means.

    Args:
        progress: the segment, QUEUED or RUNNING.
        place: QUEUED or RUNNING where the server's queue lists the prompt, else None.
        outcome: how it ended, from the history, read after the queue; None where the history does not have it.
        most_losses: how often it may get lost before it fails.

    Returns:
        The step to take; None where nothing changed.
    """
    if place is not None:
        return Step(state=place) if place in TRANSITIONS[progress.state] else None
    if outcome is None:
        return lost(progress, "the server no longer knows its prompt", most_losses)
    if outcome.error:
        return Step(state=State.FAILED, reason=outcome.error)
    if not outcome.outputs:
        return Step(state=State.FAILED, reason="the workflow ended, but saved no file")
    return Step(state=State.RENDERED, outputs=outcome.outputs)


def lost(progress: Progress, reason: str, most_losses: int) -> Step:
    """A segment that the server lost waits again, or fails when that happens too often."""
    if progress.losses >= most_losses:
        return Step(state=State.FAILED, reason=f"{reason} ({progress.losses + 1} times)")
    return Step(state=State.WAITING, reason=reason)

"""Drives a bulletin: sends segments, watches them, fetches results, waits for a server that is away."""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidValueError
from .answers import local_names
from .errors import ManifestError, ServerAnswerError, ServerUnreachableError, TableError
from .manifest import Manifest
from .server import ComfyServer
from .states import ENDED, SENT, Progress, ResultFile, State, Step, lost, observed
from .table import Segment

_LOG = logging.getLogger(__name__)
_GONE = 404
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """How a bulletin is run.

    Attributes:
        ahead: segments that the server holds at once, 1..100: one that it works on, and those that follow.
        poll: seconds between looks at the server, 0.05..60.
        patience: seconds that a server may be away before the run gives up (it can be resumed).
        segment_limit: seconds that the server may work on one segment.
        losses: how often the server may lose a segment, or break off one of its transfers, before the segment fails.
    """

    ahead: int = 2
    poll: float = 0.5
    patience: float = 900.0
    segment_limit: float = 7200.0
    losses: int = 4

    def __post_init__(self) -> None:
        for name, low, high in (("ahead", 1, 100), ("poll", 0.05, 60), ("losses", 0, 100)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidValueError(f"{name} {value:g}", remedy=f"choose {low} to {high}")
        for name in ("patience", "segment_limit"):
            value = getattr(self, name)
            if not value >= 0:
                raise InvalidValueError(f"{name.replace('_', ' ')} of {value:g} seconds", remedy="choose 0 or more")


@dataclass(frozen=True, kw_only=True)
class BulletinView:
    """What an observer sees after each change.

    Attributes:
        rows: each segment and its progress, in the table's order.
        away: why the server does not answer; empty while it does.
    """

    rows: tuple[tuple[Segment, Progress], ...]
    away: str = ""


Observer = Callable[[BulletinView], None]


def run_bulletin(
    segments: Sequence[Segment],
    server: ComfyServer,
    manifest: Manifest,
    folder: Path,
    *,
    options: QueueOptions | None = None,
    observer: Observer = lambda view: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> BulletinView:
    """Renders the segments that are not done yet, one prompt each, and fetches their results.

    Stopped at any moment (an exception, Ctrl-C, a crash), it goes on when called again with the same manifest: the
    identity of each prompt is on the disk before the prompt is sent, and what the server's queue or history still has
    is not sent again. What the server lost before it told anybody that it had ended is rendered again.

    Args:
        segments: what to render.
        server: where.
        manifest: what has happened so far, and where steps are recorded.
        folder: where the results go; it must exist.
        options: how to go about it.
        observer: called after each change.
        clock: seconds that only grow.
        sleep: waits some seconds.
        new_id: makes identities for prompts.

    Returns:
        How each segment ended: DONE or FAILED.

    Raises:
        ServerUnreachableError: the server does not answer at the start, or is away for longer than the patience.
        ServerAnswerError: what answers is no ComfyUI server.
        ManifestError: a new manifest, where the folder holds results already.
        FileError: a result can't be written.
    """
    run = _Run(segments, server, manifest, folder, options or QueueOptions(), observer, clock, sleep, new_id)
    run.begin()
    while run.open():
        try:
            run.turn()
        except ServerUnreachableError as error:
            run.wait_for_server(error)
        else:
            if run.open():
                sleep(run.options.poll)
    return run.view()


class _Run:
    """The state of one call of `run_bulletin`."""

    def __init__(
        self,
        segments: Sequence[Segment],
        server: ComfyServer,
        manifest: Manifest,
        folder: Path,
        options: QueueOptions,
        observer: Observer,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        new_id: Callable[[], str],
    ) -> None:
        self.options = options
        self._segments = {segment.key: segment for segment in segments}
        self._progress = {key: manifest.segments.get(key, Progress()) for key in self._segments}
        self._server, self._manifest, self._folder = server, manifest, folder
        self._observer, self._clock, self._sleep, self._new_id = observer, clock, sleep, new_id
        self._running_since: dict[str, float] = {}
        self._uploaded: dict[str, str] = {}
        self._broken: Counter[str] = Counter()

    def view(self, away: str = "") -> BulletinView:
        """What an observer sees now."""
        rows = tuple((segment, self._progress[key]) for key, segment in self._segments.items())
        return BulletinView(rows=rows, away=away)

    def open(self) -> bool:
        """Whether a segment is still to end."""
        return any(progress.state not in ENDED for progress in self._progress.values())

    def begin(self) -> None:
        """Meets the server and takes up what an earlier run left."""
        if not self._manifest.segments:
            self._refuse_foreign_results()
        for key, progress in self._progress.items():
            missing = progress.state is State.DONE and not all(map(self._is_here, progress.files))
            if missing or (progress.state is State.FAILED and progress.outputs):
                self._take(key, Step(state=State.RENDERED))
            elif progress.state is State.FAILED:
                self._take(key, Step(state=State.WAITING, reason="failed before, tried again"))
        if self.open():
            self._server.check()
        self._observer(self.view())

    def turn(self) -> None:
        """One look at everything: what was sent, what is to be fetched, what can be sent."""
        self._watch()
        for key in self._those_in(State.RENDERED):
            self._guarded(key, self._fetch)
        for key in self._those_in(State.WAITING)[: max(0, self.options.ahead - len(self._those_in(*SENT)))]:
            self._guarded(key, self._send)

    def wait_for_server(self, error: ServerUnreachableError) -> None:
        """Returns when the server answers again.

        Raises:
            ServerUnreachableError: it is away for longer than the patience.
        """
        since = self._clock()
        _LOG.info("waiting: %s", error.problem)
        while True:
            self._observer(self.view(away=error.problem))
            self._sleep(self.options.poll)
            try:
                self._server.check()
                break
            except (ServerUnreachableError, ServerAnswerError):
                if self._clock() - since >= self.options.patience:
                    raise error from None
        # What came back may be another server, with another input folder.
        self._uploaded.clear()
        self._observer(self.view())

    def _watch(self) -> None:
        if not self._those_in(*SENT):
            return
        # The queue before the history: a prompt that ends in between is found in the history.
        places = self._server.queue()
        for key in self._those_in(*SENT):
            self._guarded(key, lambda key: self._look_at(key, places.get(self._progress[key].prompt_id)))

    def _look_at(self, key: str, place: State | None) -> None:
        progress = self._progress[key]
        outcome = None
        if place is None:
            outcome = self._server.outcome(progress.prompt_id, self._segments[key].workflow)
        step = observed(progress, place, outcome, self.options.losses)
        if step is not None:
            self._take(key, step)
        if place is State.RUNNING:
            since = self._running_since.setdefault(progress.prompt_id, self._clock())
            if self._clock() - since > self.options.segment_limit:
                self._server.cancel(progress.prompt_id)
                self._take(key, Step(state=State.FAILED, reason=f"not ready after {self.options.segment_limit:g} s"))

    def _send(self, key: str) -> None:
        segment = self._segments[key]
        with self._transfer(key):
            for file in segment.files:
                if file.digest not in self._uploaded:
                    self._uploaded[file.digest] = self._server.upload(file)
        prompt_id = self._new_id()
        self._take(key, Step(state=State.QUEUED, prompt_id=prompt_id))
        self._server.submit(
            segment.prompt(self._uploaded),
            prompt_id=prompt_id,
            client_id=self._manifest.bulletin,
            workflow=segment.workflow,
        )

    def _fetch(self, key: str) -> None:
        outputs = self._progress[key].outputs
        names = local_names(self._segments[key].name, outputs)
        with self._transfer(key):
            files = tuple(
                self._server.download(output, self._folder / name) for output, name in zip(outputs, names, strict=True)
            )
        self._take(key, Step(state=State.DONE, files=files))

    def _guarded(self, key: str, act: Callable[[str], None]) -> None:
        """Does something for one segment, so that what is wrong with it stops no other one."""
        try:
            act(key)
        except (ServerAnswerError, TableError) as error:
            progress = self._progress[key]
            gone = isinstance(error, ServerAnswerError) and error.status == _GONE
            if gone and progress.state is State.RENDERED:
                self._take(key, lost(progress, "the server no longer has its results", self.options.losses))
            else:
                self._take(key, Step(state=State.FAILED, reason=str(error)))

    @contextmanager
    def _transfer(self, key: str) -> Iterator[None]:
        """A server that is back, and breaks off the same transfer each time, must not hold up the others for ever."""
        try:
            yield
        except ServerUnreachableError as error:
            self._broken[key] += 1
            if self._broken[key] > self.options.losses:
                raise ServerAnswerError(f"a transfer breaks off: {error.problem}", remedy="see the network") from error
            raise

    def _take(self, key: str, step: Step) -> None:
        """Records a step, then makes it."""
        after = self._progress[key].after(step)
        self._manifest.record(key, self._segments[key].name, step)
        self._progress[key] = after
        self._observer(self.view())

    def _those_in(self, *states: State) -> list[str]:
        return [key for key, progress in self._progress.items() if progress.state in states]

    def _is_here(self, result: ResultFile) -> bool:
        path = self._folder / result.name
        if not path.is_file() or path.stat().st_size != result.size:
            return False
        return not result.sha256 or _digest(path) == result.sha256

    def _refuse_foreign_results(self) -> None:
        names = {segment.name.casefold() for segment in self._segments.values()}
        for path in sorted(self._folder.iterdir()):
            if path.name.partition(".")[0].casefold() in names:
                raise ManifestError(
                    path, "is there already, and not of this bulletin", remedy="name another output folder"
                )


def _digest(path: Path) -> str:
    """SHA-256 of a file's content, in hex; empty where it can't be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()

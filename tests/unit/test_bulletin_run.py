"""A whole bulletin against a loopback server: outages, lost answers, crashes anywhere, and nothing rendered twice."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bulletin import colored_segments, workflow_nodes, write_table
from support.loopback import Loopback

from ditto_core.bulletin import (
    ComfyServer,
    ManifestError,
    QueueOptions,
    ServerUnreachableError,
    State,
    Workflow,
    open_manifest,
    read_segments,
    run_bulletin,
)
from ditto_core.errors import InvalidValueError


class Crash(BaseException):
    """The end of a process, as far as a test in one process can have it."""


@pytest.fixture
def loopback():
    with Loopback() as server:
        yield server


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


class Time:
    """A clock that only sleeping moves, and what happens at each sleep."""

    def __init__(self, *happenings) -> None:
        self.now = 0.0
        self._happenings = list(happenings)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._happenings:
            happening = self._happenings.pop(0)
            if happening is not None:
                happening()


def run(segments, loopback, out, *, time=None, observer=lambda view: None, **options):
    time = time or Time()
    with open_manifest(out / "manifest.jsonl") as manifest:
        return run_bulletin(
            segments,
            ComfyServer(loopback.url),
            manifest,
            out,
            options=QueueOptions(**options),
            observer=observer,
            clock=lambda: time.now,
            sleep=time.sleep,
        )


def states(view) -> list[State]:
    return [progress.state for _, progress in view.rows]


def videos(out) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.glob("*.mp4"))}


def expected(count: int) -> dict[str, bytes]:
    return {f"{color:03d}.mp4": f"video of {color}".encode() for color in range(1, count + 1)}


def once(count: int) -> Counter[int]:
    return Counter(range(1, count + 1))


def test_each_segment_is_rendered_once_and_named_by_its_row(loopback, out, tmp_path):
    most_at_once = 0

    def watch(view):
        nonlocal most_at_once
        most_at_once = max(most_at_once, sum(s in (State.QUEUED, State.RUNNING) for s in states(view)))

    view = run(colored_segments(tmp_path, 6), loopback, out, observer=watch, ahead=3)
    assert states(view) == [State.DONE] * 6 and most_at_once == 3
    assert videos(out) == expected(6) and loopback.renders == once(6)


def test_a_second_run_asks_the_server_nothing(loopback, out, tmp_path):
    segments = colored_segments(tmp_path, 3)
    run(segments, loopback, out)
    loopback.stop()
    assert states(run(segments, loopback, out)) == [State.DONE] * 3


@settings(max_examples=40)
@given(
    crashes=st.lists(st.integers(1, 12), max_size=5),
    finished=st.lists(st.booleans(), min_size=5, max_size=5),
    dropped=st.lists(st.sampled_from(["/prompt", "/queue", "/view"]), max_size=3),
)
def test_after_crashes_anywhere_nothing_is_rendered_twice(tmp_path_factory, crashes, finished, dropped):
    """A crash follows the nth step that was recorded: before its prompt is sent, or after, or while results come."""
    folder = tmp_path_factory.mktemp("run")
    out = folder / "out"
    out.mkdir()
    segments = colored_segments(folder, 4)
    with Loopback() as loopback:
        loopback.dropped = list(dropped)
        for steps, server_goes_on in zip(crashes, finished, strict=False):
            remaining = iter(range(steps, -1, -1))

            def observer(view, remaining=remaining):
                if next(remaining) == 0:
                    raise Crash

            try:
                run(segments, loopback, out, observer=observer)
            except Crash:
                pass
            if server_goes_on:
                loopback.finish()
        view = run(segments, loopback, out)
        assert states(view) == [State.DONE] * 4
        assert videos(out) == expected(4) and loopback.renders == once(4)


def test_a_server_that_goes_away_is_waited_for(loopback, out, tmp_path):
    """It forgets its queue; what it had rendered and told us of is not rendered again."""
    away = []
    time = Time(None, None, None, loopback.stop, None, None, loopback.start)
    view = run(
        colored_segments(tmp_path, 5), loopback, out, time=time, observer=lambda view: away.append(view.away), ahead=2
    )
    assert states(view) == [State.DONE] * 5
    assert videos(out) == expected(5) and loopback.renders == once(5)
    assert any("does not answer" in reason for reason in away) and not away[-1]


def test_what_a_server_ended_and_told_nobody_before_it_died_is_rendered_again(loopback, out, tmp_path):
    """The one case in which ComfyUI leaves nothing to know it by: its history lives in its memory."""

    def die_after_the_work():
        loopback.finish()
        loopback.stop()
        loopback.start()

    view = run(colored_segments(tmp_path, 3), loopback, out, time=Time(die_after_the_work), ahead=1)
    assert states(view) == [State.DONE] * 3
    assert videos(out) == expected(3) and loopback.renders == once(3) + Counter([1])


def test_patience_ends_and_the_same_command_goes_on(loopback, out, tmp_path):
    segments = colored_segments(tmp_path, 3)
    time = Time(None, None, loopback.stop)
    with pytest.raises(ServerUnreachableError, match="does not answer"):
        run(segments, loopback, out, time=time, patience=100)
    assert 100 <= time.now < 110
    loopback.start()
    assert states(run(segments, loopback, out)) == [State.DONE] * 3
    assert videos(out) == expected(3) and loopback.renders == once(3)


def test_no_server_at_the_start_is_told_at_once(loopback, out, tmp_path):
    loopback.stop()
    time = Time()
    with pytest.raises(ServerUnreachableError):
        run(colored_segments(tmp_path, 1), loopback, out, time=time)
    assert time.now == 0


def test_a_server_that_dies_of_a_segment_is_not_fed_it_for_ever(loopback, out, tmp_path):
    def die():
        loopback.stop()
        loopback.start()

    view = run(colored_segments(tmp_path, 1), loopback, out, time=Time(*[die] * 100), losses=3)
    assert states(view) == [State.FAILED]
    assert len(loopback.prompts) == 4 and "(4 times)" in view.rows[0][1].reason


def test_a_failed_segment_stops_no_other_and_is_tried_again_by_the_next_run(loopback, out, tmp_path):
    segments = colored_segments(tmp_path, 3)
    loopback.answers["/prompt"] = [(400, b'{"error": {"message": "no", "details": "color"}, "node_errors": {}}')]
    view = run(segments, loopback, out)
    assert states(view) == [State.FAILED, State.DONE, State.DONE]
    assert "refused: no color" in view.rows[0][1].reason
    assert states(run(segments, loopback, out)) == [State.DONE] * 3
    assert loopback.renders == once(3)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([["execution_interrupted", {}]], "interrupted on the server"),
        (
            [["execution_error", {"node_id": "1", "exception_type": "ValueError", "exception_message": "no\nface"}]],
            "Picture: ValueError: no face",
        ),
        ("odd", "does not say why"),
    ],
)
def test_why_the_server_failed_is_told(loopback, out, tmp_path, messages, reason):
    (segment,) = colored_segments(tmp_path, 1)

    def fail():
        (prompt,) = loopback.prompts
        entry = {"outputs": {}, "status": {"status_str": "error", "messages": messages}}
        loopback.answers = {
            "/queue": [(200, b'{"queue_running": [], "queue_pending": []}')],
            f"/history/{prompt}": [(200, json.dumps({prompt: entry}).encode())],
        }

    view = run([segment], loopback, out, time=Time(fail))
    assert states(view) == [State.FAILED] and reason in view.rows[0][1].reason


def test_a_workflow_that_saves_nothing_is_told(loopback, out, tmp_path):
    loopback.outputs = {"3": {"images": [{"filename": "a.png", "subfolder": "", "type": "temp"}]}}
    view = run(colored_segments(tmp_path, 1), loopback, out)
    assert "saved no file" in view.rows[0][1].reason


def test_a_deleted_result_is_fetched_again_and_rendered_only_if_the_server_lacks_it(loopback, out, tmp_path):
    segments = colored_segments(tmp_path, 2)
    run(segments, loopback, out)
    (out / "001.mp4").unlink()
    run(segments, loopback, out)
    assert videos(out) == expected(2) and loopback.renders == once(2)
    (out / "002.mp4").unlink()
    loopback.results.clear()
    run(segments, loopback, out)
    assert videos(out) == expected(2) and loopback.renders == once(2) + Counter([2])


def test_a_transfer_that_always_breaks_off_fails_alone_and_is_only_fetched_by_the_next_run(loopback, out, tmp_path):
    segments = colored_segments(tmp_path, 2)
    loopback.dropped = ["/view"] * 3
    view = run(segments, loopback, out, losses=2)
    assert states(view) == [State.FAILED, State.DONE] and "breaks off" in view.rows[0][1].reason
    assert states(run(segments, loopback, out)) == [State.DONE] * 2
    assert videos(out) == expected(2) and loopback.renders == once(2)


def test_a_segment_has_a_time_limit(loopback, out, tmp_path):
    def hang():
        (prompt,) = loopback.prompts
        stuck = json.dumps({"queue_running": [[0, prompt]], "queue_pending": []}).encode()
        loopback.answers["/queue"] = [(200, stuck)] * 100

    time = Time(hang)
    view = run(colored_segments(tmp_path, 1), loopback, out, time=time, segment_limit=20, losses=0)
    assert states(view) == [State.FAILED] and "not ready after 20 s" in view.rows[0][1].reason
    assert 20 <= time.now < 25


def test_local_files_are_uploaded_once_each(loopback, out, tmp_path):
    for name, content in (("a.wav", b"a" * 1000), ("b.wav", b"--b\r\n")):
        (tmp_path / name).write_bytes(content)
    header = ["Picture.color", "Save.filename_prefix"]
    table = write_table(tmp_path / "t.csv", header, [[1, "a.wav"], [2, "b.wav"], [3, "a.wav"]])
    segments = read_segments(table, Workflow(workflow_nodes()))
    run(segments, loopback, out)
    assert loopback.uploads == 2 and sorted(loopback.inputs.values()) == [b"--b\r\n", b"a" * 1000]
    sent = [prompt["3"]["inputs"]["filename_prefix"] for prompt in loopback.prompts.values()]
    assert [loopback.inputs[name] for name in sent] == [b"a" * 1000, b"--b\r\n", b"a" * 1000]


def test_a_changed_row_is_rendered_and_replaces_its_result_the_others_stay(loopback, out, tmp_path):
    run(colored_segments(tmp_path, 3), loopback, out)
    table = write_table(tmp_path / "news.csv", ["Picture.color"], [[1], [9], [3]])
    run(read_segments(table, Workflow(workflow_nodes())), loopback, out)
    assert videos(out)["002.mp4"] == b"video of 9" and loopback.renders == Counter([1, 2, 3, 9])


def test_a_result_that_was_changed_here_is_fetched_again(loopback, out, tmp_path):
    segments = colored_segments(tmp_path, 2)
    run(segments, loopback, out)
    was = (out / "001.mp4").read_bytes()
    (out / "001.mp4").write_bytes(was[::-1])  # of the same size
    run(segments, loopback, out)
    assert (out / "001.mp4").read_bytes() == was and sum(loopback.renders.values()) == 2


def test_a_manifest_without_digests_still_tells_by_size(loopback, out, tmp_path):
    segments, manifest = colored_segments(tmp_path, 2), out / "manifest.jsonl"
    run(segments, loopback, out)
    manifest.write_text(re.sub(r', "sha256": "[0-9a-f]{64}"', "", manifest.read_text()))
    (out / "001.mp4").write_bytes(b"same size!")
    (out / "002.mp4").write_bytes(b"another size")
    run(segments, loopback, out)
    assert videos(out) == {"001.mp4": b"same size!", "002.mp4": b"video of 2"}
    assert sum(loopback.renders.values()) == 2


def test_files_that_are_not_ours_are_not_replaced(loopback, out, tmp_path):
    (out / "002.mp4").write_bytes(b"mine")
    for _ in range(2):
        with pytest.raises(ManifestError, match="002.mp4: is there already"):
            run(colored_segments(tmp_path, 2), loopback, out)
    assert videos(out) == {"002.mp4": b"mine"} and not loopback.prompts


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"ahead": 0}, "ahead 0. Choose 1 to 100"),
        ({"poll": 0}, "poll 0. Choose 0.05 to 60"),
        ({"poll": float("nan")}, "poll nan. Choose"),
        ({"patience": -1.0}, "patience of -1 seconds. Choose 0 or more"),
        ({"segment_limit": -1.0}, "segment limit of -1 seconds. Choose 0 or more"),
    ],
)
def test_options_out_of_range_are_refused(options, problem):
    with pytest.raises(InvalidValueError, match=problem):
        QueueOptions(**options)

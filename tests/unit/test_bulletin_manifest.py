"""The manifest: what it says after any steps, any crash, and any damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.bulletin import ManifestError, Output, Progress, ResultFile, State, Step, open_manifest
from ditto_core.bulletin.manifest import replay
from ditto_core.bulletin.states import TRANSITIONS, Outcome, lost, observed

NAMES = st.text(max_size=8)
OUTPUTS = st.lists(st.builds(Output, filename=NAMES, subfolder=NAMES, type=NAMES), max_size=2).map(tuple)
FILES = st.lists(st.builds(ResultFile, name=st.sampled_from(["a.mp4", "ä.2.png"]), size=st.integers(0)), max_size=2)
STEPS = st.builds(
    Step, state=st.sampled_from(State), prompt_id=NAMES, outputs=OUTPUTS, files=FILES.map(tuple), reason=NAMES
)


def record_all(path, steps):
    """Records the steps that may follow each other; how each segment stands then."""
    known: dict[str, Progress] = {}
    with open_manifest(path, now=lambda: 0.0) as manifest:
        for key, step in steps:
            progress = known.get(key, Progress())
            if step.state in TRANSITIONS[progress.state]:
                known[key] = progress.after(step)
                manifest.record(key, "name", step)
    return known


@given(steps=st.lists(st.tuples(st.sampled_from("ab"), STEPS), max_size=30), cut=st.integers(0, 4000))
def test_a_manifest_torn_anywhere_says_what_was_whole_and_goes_on(tmp_path_factory, steps, cut):
    path = tmp_path_factory.mktemp("manifest") / "manifest.jsonl"
    known = record_all(path, steps)
    data = path.read_bytes()
    assert replay(data).segments == known
    torn = data[: max(0, len(data) - cut)]
    path.write_bytes(torn)
    whole = torn[: torn.rfind(b"\n") + 1]
    with open_manifest(path, now=lambda: 0.0) as manifest:
        assert manifest.segments == replay(whole).segments
        bulletin = manifest.bulletin
        manifest.record("c", "c", Step(state=State.QUEUED, prompt_id="p"))
    again = replay(path.read_bytes())
    assert again.bulletin == bulletin and path.read_bytes().startswith(whole)
    assert again.segments == {**replay(whole).segments, "c": Progress(state=State.QUEUED, prompt_id="p")}


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_a_clear_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("manifest") / "manifest.jsonl"
    path.write_bytes(data + b"\n")
    with pytest.raises(ManifestError, match="name another manifest"), open_manifest(path):
        pass
    assert path.read_bytes() == data + b"\n"


def test_a_file_without_a_whole_line_is_not_cut_off_unless_a_manifest_began_there(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"my notes")
    with pytest.raises(ManifestError, match="is no manifest"), open_manifest(path):
        pass
    assert path.read_bytes() == b"my notes"


@pytest.mark.parametrize(
    "line",
    [
        '{"segment": "a", "name": "a", "state": "done"}',
        '{"segment": "a", "name": "a", "state": "asleep"}',
        '{"name": "a", "state": "queued"}',
        '{"segment": "a", "name": "a", "state": "queued", "files": [{"name": "../a.mp4", "size": 1}]}',
        "[]",
    ],
)
def test_a_line_that_can_not_be_is_told_by_number(tmp_path, line):
    path = tmp_path / "manifest.jsonl"
    record_all(path, [])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ManifestError, match="line 2 is no line of a manifest"), open_manifest(path):
        pass


def test_a_manifest_is_open_once(tmp_path):
    path = tmp_path / "manifest.jsonl"
    with open_manifest(path):
        with pytest.raises(ManifestError, match="another run has it open"), open_manifest(path):
            pass
    with open_manifest(path):
        pass


def test_a_place_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ManifestError, match="can't be opened"), open_manifest(tmp_path / "none" / "manifest.jsonl"):
        pass


@given(
    state=st.sampled_from([State.QUEUED, State.RUNNING]),
    place=st.sampled_from([None, State.QUEUED, State.RUNNING]),
    outcome=st.none() | st.builds(Outcome, outputs=OUTPUTS, error=NAMES),
    losses=st.integers(0, 4),
)
def test_whatever_is_seen_leads_to_an_allowed_step(state, place, outcome, losses):
    progress = Progress(state=state, losses=losses)
    step = observed(progress, place, outcome, 4)
    if step is not None:
        after = progress.after(step)
        assert after.losses <= 4
        assert after.state is not State.FAILED or after.reason
    if place is None:
        assert step is not None, "a prompt that the queue does not have must move on"


def test_what_gets_lost_again_and_again_fails():
    progress, seen = Progress(), []
    while progress.state is not State.FAILED:
        progress = progress.after(Step(state=State.QUEUED, prompt_id=str(len(seen))))
        progress = progress.after(lost(progress, "away", 3))
        seen.append(progress.state)
    assert seen == [State.WAITING] * 3 + [State.FAILED]
    assert progress.after(Step(state=State.WAITING)).losses == 0

"""Tables and workflows: what a row sets, and what is refused before anything is sent."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bulletin import workflow_nodes, write_table

from ditto_core.bulletin import TableError, Workflow, WorkflowError, read_segments
from ditto_core.errors import InvalidValueError

WORKFLOW = Workflow(workflow_nodes())
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=30)


def prompts(path, workflow=WORKFLOW, uploaded=None):
    return [segment.prompt(uploaded or {}) for segment in read_segments(path, workflow)]


@given(
    rows=st.lists(
        st.tuples(st.integers(-(2**62), 2**62), st.floats(allow_nan=False, allow_infinity=False), CELLS), min_size=1
    )
)
def test_each_row_sets_its_inputs_and_nothing_else(tmp_path_factory, rows):
    header = ["Picture.color", "Mr. Video.fps", "Save.filename_prefix"]
    table = write_table(tmp_path_factory.mktemp("table") / "t.csv", header, rows)
    for (color, fps, prefix), prompt in zip(rows, prompts(table), strict=True):
        expected = workflow_nodes()
        expected["1"]["inputs"]["color"] = color
        expected["2"]["inputs"]["fps"] = fps
        expected["3"]["inputs"]["filename_prefix"] = prefix or "news"
        assert prompt == expected
        assert type(prompt["1"]["inputs"]["color"]) is int and type(prompt["2"]["inputs"]["fps"]) is float


@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_table_or_a_clear_error(tmp_path_factory, data):
    table = tmp_path_factory.mktemp("table") / "t.csv"
    table.write_bytes(b"Picture.color,name\n" + data)
    try:
        assert read_segments(table, WORKFLOW)
    except TableError as error:
        assert error.remedy


@given(
    titles=st.lists(st.text(string.ascii_letters + ". ", min_size=1, max_size=6), min_size=1, max_size=4, unique=True),
    names=st.lists(st.text(string.ascii_letters + ".", min_size=1, max_size=4), min_size=1, max_size=3, unique=True),
)
def test_a_column_reaches_the_one_place_that_it_can_mean(titles, names):
    """Dots may stand in titles and in inputs; a column with two readings is refused, never guessed."""
    nodes = {
        str(i): {"class_type": "Node", "inputs": dict.fromkeys(names, ""), "_meta": {"title": title}}
        for i, title in enumerate(titles)
    }
    workflow = Workflow(nodes)
    readings = [f"{title}.{name}" for title in titles for name in names]
    for i, title in enumerate(titles):
        for name in names:
            column = f"{title}.{name}"
            if readings.count(column) == 1:
                place = workflow.place(column)
                assert (place.node, place.input) == (str(i), name)
            else:
                with pytest.raises(InvalidValueError, match="ambiguous"):
                    workflow.place(column)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("Piture.color", r"names no node.*'Mr. Video', 'Picture', 'Save'"),
        ("Picture", "names no node"),
        ("Picture.colour", r"no input 'colour'.*'batch_size', 'color', 'height', 'width'"),
        ("Mr. Video.images", "wired to another node"),
    ],
)
def test_a_wrong_column_is_told_with_what_there_is(tmp_path, column, message):
    with pytest.raises(TableError, match=message):
        read_segments(write_table(tmp_path / "t.csv", [column], [["1"]]), WORKFLOW)


def test_a_title_that_two_nodes_have_is_ambiguous(tmp_path):
    nodes = workflow_nodes()
    nodes["4"] = nodes["1"]
    with pytest.raises(TableError, match="'Picture.color' is ambiguous"):
        read_segments(write_table(tmp_path / "t.csv", ["Picture.color"], [["1"]]), Workflow(nodes))


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("Picture.color", "red", "line 3: Picture.color: 'red' is no whole number"),
        ("Picture.color", "1.5", "'1.5' is no whole number"),
        ("Mr. Video.fps", "fast", "'fast' is no number"),
        ("Mr. Video.fps", "nan", "'nan' is no number"),
        ("Save.lossless", "maybe", "'maybe' is neither true nor false"),
        ("name", "../etc/passwd", "line 3: name '../etc/passwd'"),
        ("name", "a.mp4", "name 'a.mp4'"),
    ],
)
def test_a_wrong_cell_is_told_with_its_line(tmp_path, column, cell, message):
    nodes = workflow_nodes()
    nodes["3"]["inputs"]["lossless"] = False
    fine = "a" if column == "name" else ""
    table = write_table(tmp_path / "t.csv", ["Save.codec", column], [["auto", fine], ["auto", cell]])
    with pytest.raises(TableError, match=message):
        read_segments(table, Workflow(nodes))


def test_a_float_that_a_browser_wrote_without_its_fraction_takes_one(tmp_path):
    nodes = workflow_nodes()
    nodes["2"]["inputs"]["fps"] = 25
    table = write_table(tmp_path / "t.csv", ["Mr. Video.fps"], [["29.97"]])
    with pytest.raises(TableError, match="no whole number"):
        read_segments(table, Workflow(nodes))
    (prompt,) = prompts(table, Workflow(nodes).with_floats({("CreateVideo", "fps")}))
    assert prompt["2"]["inputs"]["fps"] == 29.97 and type(prompt["1"]["inputs"]["width"]) is int


def test_truth_is_written_as_words(tmp_path):
    nodes = workflow_nodes()
    nodes["3"]["inputs"]["lossless"] = False
    table = write_table(tmp_path / "t.csv", ["Save.lossless"], [["TRUE"], ["false"]])
    assert [p["3"]["inputs"]["lossless"] for p in prompts(table, Workflow(nodes))] == [True, False]


def test_paths_of_files_become_uploads_and_a_mistyped_one_is_found(tmp_path):
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "Änna.WAV").write_bytes(b"RIFF")
    header = ["Save.filename_prefix"]
    segment, empty = read_segments(
        write_table(tmp_path / "t.csv", ["name", *header], [["a", "voices/Änna.WAV"], ["b", ""]]), WORKFLOW
    )
    (file,) = segment.files
    assert file.upload_name == f"bulletin-{file.digest[:32]}.wav" and not empty.files
    prompt = segment.prompt({file.digest: "bulletin-1.wav"})
    assert prompt["3"]["inputs"]["filename_prefix"] == "bulletin-1.wav"
    with pytest.raises(TableError, match="line 3: there is no file 'voices/Anna.WAV'"):
        read_segments(write_table(tmp_path / "t.csv", header, [["voices/Änna.WAV"], ["voices/Anna.WAV"]]), WORKFLOW)


def test_other_content_is_another_segment(tmp_path):
    table = write_table(tmp_path / "t.csv", ["Save.filename_prefix"], [["voice.wav"]])
    keys = set()
    for content in (b"one", b"two", b"one"):
        (tmp_path / "voice.wav").write_bytes(content)
        keys.add(read_segments(table, WORKFLOW)[0].key)
    assert len(keys) == 2


def test_names_come_from_the_table_or_from_the_row(tmp_path):
    header = ["name", "Picture.color"]
    table = write_table(tmp_path / "t.csv", header, [["Früh 1", 1], ["", 2], ["weather", 3]])
    assert [segment.name for segment in read_segments(table, WORKFLOW)] == ["Früh 1", "002", "weather"]
    with pytest.raises(TableError, match="name 'A' is there twice"):
        read_segments(write_table(tmp_path / "t.csv", header, [["a", 1], ["A", 2]]), WORKFLOW)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no segments"),
        ("Picture.color\n", "no segments"),
        ("Picture.color,Picture.color\n1,2\n", "twice"),
        ("Picture.color,name\n1\n", "line 2: 1 cells, where the first row has 2"),
        ('Picture.color\n"1\n', "is no CSV"),
        ("Picture.color\n\xff", "not UTF-8"),
    ],
)
def test_a_broken_table_is_refused(tmp_path, text, message):
    (tmp_path / "t.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(TableError, match=message):
        read_segments(tmp_path / "t.csv", WORKFLOW)


def test_a_table_from_a_spreadsheet_with_mark_and_empty_rows(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfPicture.color,name\r\n7,a\r\n,\r\n8,b\r\n")
    assert [p["1"]["inputs"]["color"] for p in prompts(tmp_path / "t.csv")] == [7, 8]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"nodes": [], "links": []}, "canvas workflow"),
        ({}, "no workflow in API format"),
        ([1], "no workflow in API format"),
        ({"1": {"class_type": "A"}}, "no workflow in API format"),
    ],
)
def test_what_is_no_api_workflow_is_told(tmp_path, content, message):
    (tmp_path / "w.json").write_text(json.dumps(content))
    with pytest.raises(WorkflowError, match=rf"{message}.*Export \(API\)"):
        Workflow.load(tmp_path / "w.json")


def test_damaged_json_and_a_missing_file_are_told(tmp_path):
    (tmp_path / "w.json").write_text("[" * 100_000)
    with pytest.raises(WorkflowError, match="is no JSON"):
        Workflow.load(tmp_path / "w.json")
    with pytest.raises(WorkflowError, match="can't be read"):
        Workflow.load(tmp_path / "none.json")

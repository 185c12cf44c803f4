"""A bulletin's table of segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from ditto_core.errors import FileError, InvalidValueError
from ditto_core.pipeline.segments import Segment, read_segments, segment_at

BUNDLED = Path(__file__).parents[2] / "ditto_core" / "bundled"


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "news.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_table_is_read_whatever_wrote_it(tmp_path: Path) -> None:
    text = 'speech,avatar,emotion,crop,name\r\n"a, b.wav",ann.png,happy,"1,2,300",Öffnung\r\nc.mp3,b.safetensors,,,\r\n'
    first = Segment(avatar="ann.png", speech="a, b.wav", emotion="happy", crop="1,2,300", name="Öffnung")
    second = Segment(avatar="b.safetensors", speech="c.mp3", name="segment-002")
    for encoding in ("utf-8", "utf-8-sig"):
        assert read_segments(written(tmp_path, text, encoding)) == (first, second)


def test_past_the_end_is_one_clear_message() -> None:
    segments = read_segments(BUNDLED / "bulletin.csv")
    assert segment_at(segments, 2).name == "farewell"
    for index in (3, -1):
        with pytest.raises(InvalidValueError, match=rf"segment index {index} of a bulletin of 3 segments.*finished"):
            segment_at(segments, index)


def test_the_bundled_table_names_bundled_files() -> None:
    for segment in read_segments(BUNDLED / "bulletin.csv"):
        assert (BUNDLED / segment.avatar).is_file() and (BUNDLED / segment.speech).is_file()


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "columns"),
        ("avatar,speech\n", "0 segments"),
        ("avatar\na.png\n", "columns avatar"),
        ("avatar,speech,colour\na,b,c\n", "colour"),
        ("avatar,speech\na.png,\n", "segment 1 has no speech"),
        ("avatar,speech\na.png\n", "segment 1 has another number of fields"),
        ("avatar,speech\na,b,c\n", "segment 1 has another number of fields"),
        ("avatar,speech,emotion\na,b,glad\n", "emotion 'glad'"),
        ("avatar,speech\n" + "a" * 501 + ",b\n", "more than 500"),
        ('avatar,speech\n"a,b\n', "no CSV"),
        ("avatar,speech\n" + "a,b\n" * 10_001, "10001 segments"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(FileError, match=problem):
        read_segments(written(tmp_path, text))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "news.csv").write_bytes(b"avatar,speech\n\xff\xfe,b\n")
    with pytest.raises(FileError, match="no CSV"):
        read_segments(tmp_path / "news.csv")
    (tmp_path / "news.csv").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(FileError, match="1048576 bytes"):
        read_segments(tmp_path / "news.csv")
    with pytest.raises(FileError, match="is no file"):
        read_segments(tmp_path)

"""A bulletin's table of segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from ditto_core.avatar import CropRequest
from ditto_core.bulletin.canvas import BulletinRow, read_bulletin, row_at
from ditto_core.errors import FileError, InvalidValueError

BUNDLED = Path(__file__).parents[2] / "ditto_core" / "bundled"


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "news.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_a_table_is_read_whatever_wrote_it(tmp_path: Path) -> None:
    text = 'speech,avatar,emotion,crop,name\r\n"a, b.wav",ann.png,happy,"1,2,300",Öffnung\r\nc.mp3,b.safetensors,,,\r\n'
    crop = CropRequest(mode="box", box=(1, 2, 300, 0))
    first = BulletinRow(avatar="ann.png", speech="a, b.wav", emotion="happy", crop=crop, name="Öffnung")
    second = BulletinRow(avatar="b.safetensors", speech="c.mp3", name="segment-002")
    for encoding in ("utf-8", "utf-8-sig"):
        assert read_bulletin(written(tmp_path, text, encoding)) == (first, second)


def test_past_the_end_is_one_clear_message() -> None:
    segments = read_bulletin(BUNDLED / "bulletin.csv")
    assert row_at(segments, 2).name == "farewell"
    for index in (3, -1):
        with pytest.raises(InvalidValueError, match=rf"segment index {index} of a bulletin of 3 segments.*finished"):
            row_at(segments, index)


def test_the_bundled_table_names_bundled_files() -> None:
    for segment in read_bulletin(BUNDLED / "bulletin.csv"):
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
        ("avatar,speech,crop\na,b,auto\na,b,foo\n", "segment 2: crop: 'foo'"),
        ("avatar,speech,name\na,b,../../x\n", r"segment 1: name '\.\./\.\./x'"),
        ("avatar,speech,name\na,b,/etc/x\n", "segment 1: name '/etc/x'"),
        ("avatar,speech,name\na,b," + "x" * 300 + "\n", "segment 1: name 'xxx"),
        ("avatar,speech,name\na,b," + "語" * 70 + "\n", "segment 1: name '語"),
        ("avatar,speech,name\na,b,News\na,b,news\n", "segment 2: name 'news' is there twice"),
        ("avatar,speech,name\na,b,segment-002\na,b,\n", "segment 2: name 'segment-002' is there twice"),
        ("avatar,speech\n" + "a" * 501 + ",b\n", "more than 500"),
        ('avatar,speech\n"a,b\n', "no CSV"),
        ("avatar,speech\n" + "a,b\n" * 10_001, "10001 segments"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(FileError, match=problem):
        read_bulletin(written(tmp_path, text))


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "news.csv").write_bytes(b"avatar,speech\n\xff\xfe,b\n")
    with pytest.raises(FileError, match="no CSV"):
        read_bulletin(tmp_path / "news.csv")
    (tmp_path / "news.csv").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(FileError, match="1048576 bytes"):
        read_bulletin(tmp_path / "news.csv")
    with pytest.raises(FileError, match="is no file"):
        read_bulletin(tmp_path)

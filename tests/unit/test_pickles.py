"""The configuration pickle: plain data comes through, nothing else does, and nothing runs."""

from __future__ import annotations

import collections
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ditto_core.checkpoints.pickles import imports, read_config
from ditto_core.errors import CheckpointError

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
NUMBERS = st.sampled_from(["f2", "f4", "f8", "i1", "i4", "i8", "u1", "?", "c8", ">f4"])


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("pickles") / "config.pkl"


def read(file: Path, data: bytes):
    file.write_bytes(data)
    return read_config(file)


@given(st.dictionaries(st.text(), PLAIN), st.sampled_from([0, 1, 2, 3, 4, 5]))
def test_plain_data_comes_through(file, config, protocol):
    assert read(file, pickle.dumps(config, protocol)) == config


@given(hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=0, min_side=0)), st.sampled_from([2, 4, 5]), st.booleans())
def test_arrays_come_through(file, array, protocol, fortran):
    array = np.asarray(array, order="F" if fortran else "C")
    result = read(file, pickle.dumps({"array": array}, protocol))["array"]
    assert result.dtype == array.dtype and result.shape == array.shape
    assert result.tobytes() == array.tobytes()


def test_the_shape_of_the_official_configuration(file):
    config = {
        "base_cfg": collections.OrderedDict(lmdm_cfg={"model_path": "lmdm.pth", "device": "cuda"}),
        "default_kwargs": {
            "emo": np.full((600, 8), 0.125, np.float32),
            "fix_kp_cond_dim": [0, 202],
            "scale": np.float32(1.5),
            "ch_info": {"x_s_info_lst": [{"kp": np.zeros((1, 63), np.float32)}], "names": np.array(["a", "bc"])},
        },
    }
    result = read(file, pickle.dumps(config))
    assert result["base_cfg"] == config["base_cfg"]
    assert result["default_kwargs"]["scale"] == 1.5
    assert result["default_kwargs"]["emo"].sum() == 600
    assert list(result["default_kwargs"]["ch_info"]["names"]) == ["a", "bc"]


class Call:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.reduced = (function, arguments)

    def __reduce__(self):
        return self.reduced


class Thing:
    pass


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize(
    ("value", "named"),
    [
        (lambda mark: Call(os.mkdir, str(mark)), "mkdir"),
        (lambda mark: Call(eval, f"open({str(mark)!r}, 'w')"), "builtin(s|__).eval"),
        (lambda mark: Call(getattr, "", "join"), "builtin(s|__).getattr"),
        (lambda mark: np.array([object()], dtype=object), "(builtin(s|__)|copyreg|copy_reg).*|'O8'"),
        (lambda mark: np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]), "type 'V8'"),
        (lambda mark: np.array(["2020-01-01"], dtype="M8[D]"), "M8"),
        (lambda mark: Call(np.ndarray, (1 << 40,)), "numpy.ndarray|not a whole pickle"),
        (lambda mark: Path("x"), "pathlib"),
    ],
)
def test_everything_else_is_refused_by_name(file, tmp_path, protocol, value, named):
    mark = tmp_path / "executed"
    with pytest.raises(CheckpointError, match=named) as caught:
        read(file, pickle.dumps({"config": value(mark)}, protocol))
    assert not mark.exists()
    assert str(file) in str(caught.value) and caught.value.remedy


def test_objects_are_refused(file):
    for protocol in (0, 2, 4):
        with pytest.raises(CheckpointError, match="Thing|copy_reg"):
            read(file, pickle.dumps({"thing": Thing()}, protocol))


def test_a_pickle_can_change_nothing_for_the_next_one(file):
    """BUILD sets attributes on what an import gave; the allowed names have none to set."""
    attack = b"\x80\x02c_codecs\nencode\n(N}X\x08\x00\x00\x00__call__K\x01stb}X\x01\x00\x00\x00aK\x01s."
    for name in (b"c_codecs\nencode\n", b"cnumpy\nndarray\n", b"cnumpy\ndtype\n", b"ccollections\nOrderedDict\n"):
        for state in (b"}X\x01\x00\x00\x00xK\x01s", b"N}X\x08\x00\x00\x00__call__K\x01s\x86"):
            with pytest.raises(CheckpointError):
                read(file, b"\x80\x02" + name + state + b"b.")
    with pytest.raises(CheckpointError):
        read(file, attack)
    assert read(file, pickle.dumps({"a": np.arange(3)}, 2))["a"].tolist() == [0, 1, 2]


def test_sizes_that_a_file_only_claims_take_no_memory(file):
    """A memo number of two billion, an array of a terabyte, a text of a terabyte: refused, not allocated."""
    huge_memo = b"\x80\x02}r" + struct.pack("<I", (1 << 31) - 1) + b"."
    with pytest.raises(CheckpointError, match="numbers its"):
        read(file, huge_memo)
    claimed = pickle.dumps({"a": np.zeros(4, np.float32)}, 2).replace(b"K\x04\x85", b"\x8a\x05\x00\x00\x00\x00\x01\x85")
    with pytest.raises(CheckpointError):
        read(file, claimed)
    with pytest.raises(CheckpointError):
        read(file, b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"abc")


def test_nesting_cannot_multiply_the_work(file):
    """Thirty lists, each holding the one before twice: a billion leaves if visited one by one."""
    nested: list = []
    for _ in range(30):
        nested = [nested, nested]
    result = read(file, pickle.dumps({"nested": nested}))["nested"]
    assert result[0] is result[1]
    deep: list = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(CheckpointError, match="nested"):
        read(file, pickle.dumps({"deep": deep}))


@given(st.binary(max_size=200))
def test_random_bytes_are_one_clear_error(file, data):
    try:
        read(file, data)
    except CheckpointError as error:
        assert str(file) in str(error)
    else:
        pytest.fail("random bytes were read as a configuration") if data[-1:] != b"." else None


@given(st.integers(min_value=0, max_value=400), st.binary(min_size=1, max_size=3))
def test_damaged_files_are_one_clear_error_or_plain_data(file, position, replacement):
    data = bytearray(pickle.dumps({"a": np.arange(12.0), "b": [1, "two"]}, 2))
    data[position : position + len(replacement)] = replacement
    try:
        assert isinstance(read(file, bytes(data)), dict)
    except CheckpointError as error:
        assert str(file) in str(error)


def test_a_list_is_no_configuration(file):
    with pytest.raises(CheckpointError, match="holds a list"):
        read(file, pickle.dumps([1]))
    with pytest.raises(CheckpointError, match="no such file"):
        read_config(file.with_name("absent.pkl"))


def test_imports_are_found_without_running():
    assert imports(pickle.dumps(Call(os.mkdir, "x"), 0)) == {f"{os.mkdir.__module__}.mkdir"}
    assert imports(pickle.dumps(Call(os.mkdir, "x"), 4)) == {f"{os.mkdir.__module__}.mkdir"}

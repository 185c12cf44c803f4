"""How chunks of any length run in an engine's batches, and how a session binds, runs and ends."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.fake_tensorrt import STREAM, FakeTensorRT

from ditto_core.backends.cuda_graph import Turns
from ditto_core.backends.engines import EngineError, EngineSpec
from ditto_core.backends.engines.runtime import EngineSession, _read_cache, cuts, run_in_batches
from ditto_core.errors import InvalidValueError

SIZES = st.sets(st.integers(1, 8), min_size=1).map(sorted)


@given(st.integers(1, 60), SIZES)
def test_cuts_cover_a_chunk_in_order_and_pad_only_the_last(count, sizes):
    found = cuts(count, sizes)
    assert [row for cut in found for row in range(cut.start, cut.start + cut.rows)] == list(range(count))
    assert all(cut.size in sizes and cut.rows <= cut.size for cut in found)
    assert all(cut.rows == cut.size == sizes[-1] for cut in found[:-1])


@given(st.integers(1, 30), SIZES)
def test_a_chunk_run_in_batches_gives_each_row_its_own_result(count, sizes):
    seen = []

    def run(batch):
        seen.append(len(batch[0]))
        return batch[0] * 2 + batch[1]

    a, b = torch.arange(count * 3.0).view(count, 3), torch.ones(1, 3).expand(count, 3)
    assert torch.equal(run_in_batches((a, b), sizes, run), a * 2 + 1)
    assert set(seen) <= set(sizes)


def test_inputs_of_different_lengths_and_empty_ones_are_refused():
    for lengths in ((2, 3), (0, 0)):
        with pytest.raises(InvalidValueError, match="rows"):
            run_in_batches([torch.zeros(n, 1) for n in lengths], [1], lambda batch: batch[0])


def test_a_full_batch_is_not_copied():
    value = torch.zeros(8, 2)
    assert run_in_batches([value], [8], lambda batch: torch.tensor([batch[0].data_ptr()] * 8))[0] == value.data_ptr()


def test_a_damaged_kernel_cache_is_made_anew(tmp_path):
    file = tmp_path / "engine.kernels"
    assert _read_cache(file) is None
    file.write_bytes(hashlib.sha256(b"kernels").digest() + b"kernels")
    assert _read_cache(file) == b"kernels"
    file.write_bytes(file.read_bytes()[:-1])
    assert _read_cache(file) is None


class OnceCaptured:
    """In the place of a CUDA graph: calls the function again."""

    def __init__(self, function, device) -> None:
        self.function, self.is_closed = function, False

    def replay(self) -> torch.Tensor:
        assert not self.is_closed
        return self.function()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def opened(monkeypatch):
    """Opens sessions of a stand-in library, on the CPU."""
    monkeypatch.setattr("torch.cuda.device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr("torch.cuda.current_stream", lambda device: SimpleNamespace(cuda_stream=STREAM))
    monkeypatch.setattr("ditto_core.backends.engines.runtime.CapturedCall", OnceCaptured)

    def open_one(library: FakeTensorRT, cache: Path | None = None) -> EngineSession:
        return EngineSession(library, b"engine", EngineSpec(), torch.device("cpu"), cache=cache)

    return open_one


def inputs(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs whose row i has the mean i + 1; not contiguous, in another type than the engine's."""
    levels = torch.arange(rows, dtype=torch.float32)
    deformed = levels[:, None, None, None].expand(rows, 6, 4, 4)
    return deformed, torch.ones(rows, 1, 4, 4)


def test_a_session_binds_by_address_and_runs_on_the_callers_stream(opened):
    library = FakeTensorRT()
    picture = opened(library)(*inputs(11))
    assert picture.shape == (11, 3, 8, 8) and torch.equal(picture[:, 0, 0, 0], torch.arange(11) + 1.0)
    assert library.engine.runs == [(STREAM, 8), (STREAM, 3)]


def test_once_captured_only_captured_sizes_run_and_results_stay(opened):
    library = FakeTensorRT()
    session = opened(library)
    session.warm_up(4)
    session.warm_up(100)
    session.warm_up(4)  # nothing new
    assert len(library.engine.contexts) == 3
    assert len({context.memory for context in library.engine.contexts}) == 1  # one scratch memory for all
    first = session(*inputs(3))
    session(*inputs(8))
    assert {rows for _, rows in library.engine.runs} == {4, 8}
    assert torch.equal(first[:, 0, 0, 0], torch.arange(3) + 1.0)


def test_what_the_library_refuses_is_told(opened):
    library = FakeTensorRT()
    session = opened(library)
    library.engine.most = 4
    with pytest.raises(EngineError, match=r"refuses input deformed of shape \(8, 6, 4, 4\)"):
        session(*inputs(8))
    library.engine.breaks = True
    with pytest.raises(EngineError, match="refuses a batch of 2"):
        session(*inputs(2))
    library.engine.dtype = library.DataType.INT8
    with pytest.raises(EngineError, match="an engine with tensors"):
        opened(library)
    library.engine = None
    with pytest.raises(EngineError, match="opens no such engine .Magic tag"):
        opened(library)


def test_a_closed_session_says_so(opened):
    session = opened(FakeTensorRT())
    session.warm_up(8)
    session.close()
    session.close()
    for use in (lambda: session(*inputs(1)), lambda: session.warm_up(8), lambda: session.warm_up(4)):
        with pytest.raises(EngineError, match="a closed engine"):
            use()


def test_kernels_are_kept_and_given_back_to_the_library(opened, tmp_path):
    file = tmp_path / "x.kernels"
    opened(FakeTensorRT(has_cache=True), file).warm_up(8)
    assert _read_cache(file) == b"kernels"
    library = FakeTensorRT(has_cache=True)
    opened(library, file)
    assert library.loaded == [b"kernels"]


def test_kernels_that_can_not_be_kept_are_no_error(opened, tmp_path, caplog):
    file = tmp_path / "x.kernels"
    file.mkdir()  # as a folder that is read-only would refuse it
    session = opened(FakeTensorRT(has_cache=True), file)
    session.warm_up(8)
    assert len(session(*inputs(8))) == 8 and "x.kernels" in caplog.text


def test_a_turn_waits_for_the_one_before_on_any_stream(monkeypatch):
    done: list[tuple[str, str]] = []

    def stream(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            wait_event=lambda event: done.append((name, "waits for " + event)),
            record_event=lambda: done.append((name, "ends")) or f"end of {name}",
        )

    turns, streams = Turns(torch.device("cuda")), iter([stream("first"), stream("second"), stream("third")])
    monkeypatch.setattr("torch.cuda.current_stream", lambda device: next(streams))
    with turns.next():
        pass
    with pytest.raises(KeyboardInterrupt), turns.next():
        raise KeyboardInterrupt
    with turns.next():
        pass
    assert done == [
        ("first", "ends"),
        ("second", "waits for end of first"),
        ("second", "ends"),
        ("third", "waits for end of second"),
        ("third", "ends"),
    ]

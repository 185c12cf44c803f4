"""How chunks of any length run in an engine's batches."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.backends.engines.runtime import _read_cache, cuts, run_in_batches
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

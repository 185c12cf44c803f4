"""The machinery of the golden suite: files, comparison, and the table of what was compared.

The folder comes from DITTO_GOLDEN_DIR (default: tests/golden). Cases come from the keys that a file holds;
a file that the folder lacks is skipped. Strides of a stored slice follow from its shape.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

FOLDER = Path(os.environ.get("DITTO_GOLDEN_DIR") or Path(__file__).parents[1] / "golden")


@dataclass
class Tally:
    """What one golden file was compared with so far."""

    comparisons: int = 0
    largest_relative_error: float = 0.0
    worst_key: str = ""


tallies: dict[str, Tally] = {}


@cache
def _read(name: str) -> dict[str, Any] | None:
    arrays = FOLDER / f"golden_{name}.npz"
    if arrays.is_file():
        with np.load(arrays, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    table = FOLDER / f"golden_{name}.json"
    if table.is_file():
        return json.loads(table.read_text())
    return None


def cases(name: str, pattern: str) -> list[Any]:
    """The first group of `pattern` in each key that it matches whole; whole numbers as int; [] without the file."""
    found = []
    for key in _read(name) or {}:
        match = re.fullmatch(pattern, key)
        if match:
            value = match.group(1)
            found.append(int(value) if value.isdecimal() else value)
    return found


@dataclass
class GoldenFile:
    """One golden file. Comparisons assert, and enter the suite's table.

    The error of a comparison is relative to the golden array's scale, its largest magnitude.
    """

    name: str
    arrays: dict[str, Any] = field(repr=False)

    @classmethod
    def open(cls, name: str) -> GoldenFile:
        """The file golden_<name>.npz or .json; skips the test when the folder lacks it."""
        arrays = _read(name)
        if arrays is None:
            pytest.skip(f"no golden_{name} in {FOLDER}")
        return cls(name, arrays)

    def __getitem__(self, key: str) -> Any:
        return self.arrays[key]

    def __contains__(self, key: str) -> bool:
        return key in self.arrays

    def check(self, key: str, actual: ArrayLike, *, tolerance: float) -> None:
        """`actual` equals the stored array: integers exactly, floats within tolerance * scale."""
        self._compare(key, np.asarray(self[key]), np.asarray(actual), tolerance)

    def check_slice(self, key: str, full: ArrayLike, *, tolerance: float, stats: str | None = None) -> None:
        """The stored array is full[::a, ::b, ...]; the strides are those that its shape allows.

        With `stats`, the key of the whole array's statistics, the scale is the whole array's.

        A shape may allow several strides (8 of 64 cells: 8 or 9). Only the true one shows small errors.
        """
        full, expected = np.asarray(full), np.asarray(self[key])
        assert full.ndim == expected.ndim, f"{key}: {full.shape} can't hold a slice {expected.shape}"
        per_axis = [
            [s for s in range(1, n + 1) if -(-n // s) == m] for n, m in zip(full.shape, expected.shape, strict=True)
        ]
        assert all(per_axis), f"{key}: no stride takes {full.shape} to {expected.shape}"
        slices = (full[tuple(slice(None, None, s) for s in steps)] for steps in itertools.product(*per_axis))
        best = min(slices, key=lambda part: float(np.abs(part - expected).max()))
        scale = None if stats is None else float(np.abs(self[stats][2:4]).max())
        self._compare(key, expected, best, tolerance, scale)

    def check_stats(self, key: str, full: ArrayLike, *, tolerance: float) -> None:
        """The stored mean, deviation, min and max within tolerance * scale; the absolute sum likewise."""
        x = np.asarray(full, dtype=np.float64)
        expected = np.asarray(self[key])
        scale = max(abs(expected[2]), abs(expected[3]))
        actual = np.array([x.mean(), x.std(), x.min(), x.max(), np.abs(x).sum()])
        self._compare(key, expected[:4] / scale, actual[:4] / scale, tolerance)
        self._compare(key, expected[4:], actual[4:], tolerance)

    def _compare(
        self, key: str, expected: NDArray[Any], actual: NDArray[Any], tolerance: float, scale: float | None = None
    ) -> None:
        assert actual.shape == expected.shape, f"{key}: shape {actual.shape}, golden {expected.shape}"
        tally = tallies.setdefault(self.name, Tally())
        tally.comparisons += 1
        if not np.issubdtype(expected.dtype, np.floating):
            assert np.array_equal(actual, expected), f"{key}: differs from the golden values"
            return
        assert np.isfinite(actual).all(), f"{key}: not finite"
        scale = scale or float(np.abs(expected).max()) or 1.0
        error = float(np.abs(actual.astype(np.float64) - expected).max()) / scale
        if error > tally.largest_relative_error:
            tally.largest_relative_error, tally.worst_key = error, key
        assert error <= tolerance, f"{key}: relative error {error:.2e} above {tolerance:.0e}"

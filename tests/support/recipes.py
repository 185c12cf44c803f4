"""Seeded inputs of the golden files: every array is a pure function of its tag and the seed.

The forms are fixed by the golden files (see tests/golden/README.md); a change here changes what they mean.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from numpy.typing import DTypeLike, NDArray

SEED = os.environ.get("DITTO_GOLDEN_SEED", "public")


def generator(tag: str) -> np.random.Generator:
    """The PCG64 generator of a tag, seeded from SHA-256 of "<seed>|<tag>"."""
    digest = hashlib.sha256(f"{SEED}|{tag}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def normal(
    tag: str, shape: tuple[int, ...], scale: float = 1.0, offset: float = 0.0, dtype: DTypeLike = np.float32
) -> NDArray[np.float32]:
    """offset + scale * N(0, 1), drawn in float64."""
    return (offset + scale * generator(tag).standard_normal(shape)).astype(dtype)


def uniform(
    tag: str, shape: tuple[int, ...], scale: float = 1.0, offset: float = 0.0, dtype: DTypeLike = np.float32
) -> NDArray[np.float32]:
    """offset + scale * U[0, 1), drawn in float64."""
    return (offset + scale * generator(tag).random(shape)).astype(dtype)


def image_chw(tag: str, n: int = 256) -> NDArray[np.float32]:
    """A (1, 3, n, n) picture in [0, 1): 80 % blocks of n/16 pixels, 20 % pixel noise."""
    blocks = uniform(tag + ".blocks", (1, 3, 16, 16), dtype=np.float64)
    noise = uniform(tag + ".noise", (1, 3, n, n), dtype=np.float64)
    big = np.repeat(np.repeat(blocks, n // 16, axis=2), n // 16, axis=3)
    return (0.8 * big + 0.2 * noise).astype(np.float32)


def image_hwc(tag: str, height: int, width: int) -> NDArray[np.uint8]:
    """A (height, width, 3) uint8 picture: blocks of 16 pixels with pixel noise of +-16."""
    draw = generator(tag)
    blocks = draw.integers(16, 240, size=(-(-height // 16), -(-width // 16), 3))
    big = np.repeat(np.repeat(blocks, 16, axis=0), 16, axis=1)[:height, :width]
    return (big + draw.integers(-16, 17, size=(height, width, 3))).clip(0, 255).astype(np.uint8)


def stats(x: NDArray[np.generic]) -> NDArray[np.float64]:
    """[mean, standard deviation, min, max, sum of absolute values] in float64."""
    x = np.asarray(x, dtype=np.float64)
    return np.array([x.mean(), x.std(), x.min(), x.max(), np.abs(x).sum()])

"""Recipe weights: numbers made from a tensor's name, for tests and benchmarks where no trained file is at hand.

Every tensor is a pure function of its qualified name ("decoder/fc.weight") and its shape. The golden files were made
with these very numbers, so that a change here breaks them. The scales keep all outputs finite and spread out.
"""

from __future__ import annotations

import hashlib
import math
import re

import numpy as np
from numpy.typing import NDArray

# (pattern in the qualified name, gain): a weight's standard deviation is gain / sqrt(fan-in). The first hit counts.
_GAINS = [
    (re.compile(pattern), gain)
    for pattern, gain in [
        (r"^motion_extractor/detector\.fc_(pitch|yaw|roll)\.weight$", 1.5),
        (r"^motion_extractor/detector\.fc_scale\.weight$", 0.10),
        (r"^motion_extractor/detector\.fc_t\.weight$", 0.08),
        (r"^motion_extractor/detector\.fc_exp\.weight$", 0.05),
        (r"^motion_extractor/detector\.fc_kp\.weight$", 0.25),
        (r"^appearance_extractor/resblocks_3d\.", 1.0),
        (r"^warp_network/(third\.conv|fourth)\.weight$", 1.7),
        (r"^warp_network/dense_motion_network\.mask\.weight$", 4.0),
        (r"^warp_network/dense_motion_network\.occlusion\.weight$", 5.0),
        (r"^decoder/conv_img\.0\.weight$", 0.30),
        (r"^decoder/.*\.mlp_(gamma|beta)\.weight$", 0.7),
        (r"^stitch_network/mlp\.6\.weight$", 0.05),
        (r"^lmdm/final_layer\.weight$", 0.12),
    ]
]
_BIAS_OFFSETS = {"motion_extractor/detector.fc_scale.bias": 1.3}
_SIGMA = 2.5  # about u^T W v of a weight under spectral norm; far from 1, so that leaving it out shows


def recipe_tensor(name: str, shape: tuple[int, ...]) -> NDArray[np.float32] | NDArray[np.int64]:
    """The numbers of one tensor.

    Args:
        name: "<network>/<key>", with the network's name as in the golden files.
        shape: its shape.

    Returns:
        float32, but for batch norm's counters, which are int64 zeros.
    """
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "num_batches_tracked":
        return np.zeros(shape, dtype=np.int64)
    if leaf == "running_var":
        return (0.5 + _generator(name).random(shape, dtype=np.float32)).astype(np.float32)
    if leaf == "running_mean":
        return np.float32(0.1) * _normal(name, shape)
    if name.endswith("rotary.freqs"):
        return (10000.0 ** (-np.arange(shape[0], dtype=np.float64) / shape[0])).astype(np.float32)
    if name.endswith("grn.gamma"):
        return np.float32(0.3) * _normal(name, shape)
    if leaf in ("weight_u", "weight_v"):
        return _unit_vector(name, shape[0]).astype(np.float32)
    if "null_cond" in name:
        return _normal(name, shape)
    if leaf.endswith("bias") or name.endswith("grn.beta"):
        return np.float32(0.05) * _normal(name, shape) + np.float32(_BIAS_OFFSETS.get(name, 0.0))
    if len(shape) == 1:
        return (1.0 + 0.1 * _normal(name, shape)).astype(np.float32)
    fan_in = math.prod(shape[1:])
    gain = _gain(name, len(shape))
    if leaf == "weight_orig":
        stem = name[: -len("orig")]
        outer = np.outer(_unit_vector(stem + "u", shape[0]), _unit_vector(stem + "v", fan_in)).reshape(shape)
        noise = _normal(name, shape).astype(np.float64) * (gain / np.sqrt(fan_in))
        return (_SIGMA * (outer + noise)).astype(np.float32)
    return (_normal(name, shape) * np.float32(gain / np.sqrt(fan_in))).astype(np.float32)


def _gain(name: str, dimensions: int) -> float:
    for pattern, gain in _GAINS:
        if pattern.search(name):
            return gain
    return 1.4 if dimensions >= 3 else 1.0


def _generator(name: str) -> np.random.Generator:
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def _normal(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return _generator(name).standard_normal(shape, dtype=np.float32)


def _unit_vector(name: str, n: int) -> NDArray[np.float64]:
    v = _normal(name, (n,)).astype(np.float64)
    return v / np.sqrt(np.sum(v * v))

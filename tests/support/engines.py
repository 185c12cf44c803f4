"""Keys of engines that several tests use."""

from __future__ import annotations

from ditto_core.backends.engines import EngineKey

KEY = EngineKey(
    flavour="tensorrt_rtx",
    version="1.7.1.116",
    system="Linux x86_64",
    target="sm120",
    part="post-warp",
    precision="fp16",
    batch="1:8:8",
    weights="a" * 64,
    graph="b" * 64,
)

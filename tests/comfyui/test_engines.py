"""The engine node on the real server: a real build ahead of time, with no GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.comfy_client import ComfyClient, replaced
from support.comfy_server import ComfyServer
from support.mp4 import decoded
from support.workflows import api, short

pytest.importorskip("tensorrt_rtx", reason="TensorRT-RTX is for Linux on x86_64")


def reported(client: ComfyClient, **inputs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs the build-engine workflow: the engine node's report, and the writer's outputs."""
    prompt = replaced(short(api("build-engine"), 0.3), "Engine", **inputs)
    key = {node["class_type"]: key for key, node in prompt.items()}
    show = {"class_type": "PreviewAny", "inputs": {"source": [key["BuildFusedPostWarpEngine"], 1]}}
    run = client.run({**prompt, "report": show})
    assert run.succeeded, run.events[-3:]
    return json.loads(run.outputs["report"]["text"][0]), run.outputs[key["NVENCVideoWriter"]]


def test_an_engine_for_another_gpu_is_built_kept_and_not_used_here(client: ComfyClient, comfy: ComfyServer) -> None:
    asked = {"backend": "tensorrt_rtx", "compute_capability": "12.0"}
    report, video = reported(client, **asked)
    kept = comfy.base / "models" / "ditto" / "engines"
    assert [path.name for path in kept.glob("post_warp_sm120_fp16_b8_*.engine")]
    assert report["engine"]["built"]
    assert report["executed_by"].startswith("torch on CPU") and "the engine is not used" in report["executed_by"]
    assert len(decoded(client.view(video["images"][0])).pictures) == 8
    again, _ = reported(client, **asked, batch_min=1, force_rebuild=False)
    assert again["engine"]["sha256"] == report["engine"]["sha256"]


def test_auto_says_why_torch_draws(client: ComfyClient) -> None:
    report, _ = reported(client, backend="auto")
    assert "no engine was built: no GPU" in report["executed_by"]

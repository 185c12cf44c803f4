"""What ComfyUI knows of the pack once it has loaded it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from support.comfy_client import ComfyClient
from support.comfy_server import PACK_FOLDER, ComfyServer
from support.workflows import NAMES

NODES = (
    "BuildFusedPostWarpEngine",
    "DittoAudioToMotion",
    "DittoBulletinSegment",
    "DittoCompareVideos",
    "DittoControls",
    "DittoEmotionSchedule",
    "DittoExample",
    "DittoFramesToImages",
    "DittoLoadAvatar",
    "DittoRegisterAvatar",
    "DittoRenderFusedTRT",
    "DittoSaveAvatar",
    "DittoStreamChunked",
    "LoadDittoModels",
    "NVENCVideoWriter",
)
"""They live in saved files: none may be renamed or lost."""


def test_all_nodes_are_there(comfy: ComfyServer, client: ComfyClient) -> None:
    found = {name: node for name, node in client.get("/object_info").items() if node["category"].startswith("Ditto")}
    assert tuple(sorted(found)) == NODES
    assert {node["category"] for node in found.values()} == {"Ditto"}
    assert "IMPORT FAILED" not in comfy.log()


@pytest.mark.parametrize("name", NODES)
def test_node_explains_itself(client: ComfyClient, name: str) -> None:
    node = client.get(f"/object_info/{name}")[name]
    assert node["display_name"] and node["description"]
    inputs = {**node["input"].get("required", {}), **node["input"].get("optional", {})}
    without = [key for key, (_, *options) in inputs.items() if not (options and options[0].get("tooltip"))]
    assert without == []
    page = client.fetch(f"/extensions/{quote(PACK_FOLDER)}/docs/{name}.md").decode()
    assert page.startswith(f"# {node['display_name']}\n")


def test_workflows_are_among_the_templates(client: ComfyClient) -> None:
    assert sorted(client.get("/workflow_templates")[PACK_FOLDER]) == sorted(NAMES)


@pytest.mark.long
def test_template_browser_gets_workflows_and_thumbnails(tmp_path: Path) -> None:
    # ComfyUI itself serves no templates of a folder whose name has a space or a letter beyond ASCII.
    with ComfyServer(tmp_path / "base", pack_folder="ditto-live") as server, ComfyClient(server.url) as client:
        for name in NAMES:
            address = f"/api/workflow_templates/ditto-live/{name}"
            assert client.get(f"{address}.json")["nodes"]
            assert client.fetch(f"{address}.jpg").startswith(b"\xff\xd8")

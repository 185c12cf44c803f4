"""The pack's files, read without ComfyUI: what they may import and do, and that each node has its help page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "nodes").glob("*.py"))
NODES = {
    "LoadDittoModels", "BuildFusedPostWarpEngine", "DittoExample", "DittoRegisterAvatar", "DittoSaveAvatar",
    "DittoLoadAvatar", "DittoAudioToMotion", "DittoEmotionSchedule", "DittoControls", "DittoRenderFusedTRT",
    "DittoStreamChunked", "NVENCVideoWriter", "DittoFramesToImages", "DittoBulletinSegment", "DittoCompareVideos",
}  # fmt: skip
"""Ids that live in saved workflows, and so never change."""
COMFY = {"comfy", "comfy_execution", "folder_paths", "server", "execution", "aiohttp"}
FORBIDDEN = {"subprocess", "socket", "requests", "http", "multiprocessing", "pip", "ctypes"}
CLASS_METHODS = {"define_schema", "validate_inputs", "fingerprint_inputs", "execute"}


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


def node_classes() -> dict[str, ast.ClassDef]:
    """The V3 nodes by their id."""
    found = {}
    for file in FILES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "io.ComfyNode" for base in node.bases):
                found[re.search(r"node_id='(\w+)'", ast.unparse(node))[1]] = node
    return found


def test_the_nodes_are_those_that_saved_files_name() -> None:
    assert set(node_classes()) == NODES
    listed = (ROOT / "nodes" / "extension.py").read_text(encoding="utf-8")
    assert {name for name in NODES if re.search(rf"^            {name},$", listed, re.M)} == NODES


def test_every_node_has_a_help_page() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "web" / "docs").glob("*.md")}
    assert set(pages) == NODES
    assert all(text.startswith("# ") and len(text) > 200 for text in pages.values())


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_only_one_file_knows_comfyui_and_none_reaches_out(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = imported(tree)
    assert not names & FORBIDDEN
    assert file.name == "host.py" or not names & COMFY
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"eval", "exec", "compile", "__import__", "open"}


@pytest.mark.parametrize("name", sorted(NODES))
def test_a_node_class_keeps_no_state(name: str) -> None:
    """ComfyUI shares the class among all prompts."""
    _, *body = node_classes()[name].body  # after the docstring
    assert all(isinstance(item, ast.FunctionDef) and item.name in CLASS_METHODS for item in body)
    for node in (inner for item in body for inner in ast.walk(item)):
        targets = node.targets if isinstance(node, ast.Assign) else []
        assert not any(ast.unparse(target).startswith("cls.") for target in targets)


def test_no_refusal_is_repeated() -> None:
    """ComfyUI repeats what `validate_inputs` answers for each input that it names."""
    inputs = {
        name: [argument.arg for argument in item.args.args[1:]]
        for name, node in node_classes().items()
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name == "validate_inputs"
    }
    del inputs["NVENCVideoWriter"]
    assert inputs and all(len(names) == 1 for names in inputs.values()), inputs

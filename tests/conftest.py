"""Property tests draw the same examples in every run, however slow the machine is. One ComfyUI serves all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from support.comfy_server import ComfyServer

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def comfy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComfyServer]:
    """A real ComfyUI server with this pack."""
    with ComfyServer(tmp_path_factory.mktemp("comfyui") / "base") as server:
        yield server

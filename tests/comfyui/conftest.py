"""A client for each test, of the one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.comfy_client import ComfyClient
from support.comfy_server import ComfyServer


@pytest.fixture
def client(comfy: ComfyServer) -> Iterator[ComfyClient]:
    """A user of the server."""
    with ComfyClient(comfy.url) as client:
        yield client

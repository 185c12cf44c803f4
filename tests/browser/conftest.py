"""One browser for all tests, a fresh canvas for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from support.canvas import Canvas, chromium
from support.comfy_server import ComfyServer


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def canvas(browser: Browser, comfy: ComfyServer) -> Iterator[Canvas]:
    """ComfyUI's canvas, empty."""
    canvas = Canvas(browser, comfy.url)
    canvas.clear()
    yield canvas
    canvas.close()

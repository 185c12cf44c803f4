"""One browser for a module's tests, a fresh canvas for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from support.canvas import Canvas, chromium
from support.comfy_server import ComfyServer


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. Its event loop ends with the module: other tests run loops of their own."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def canvas(browser: Browser, comfy: ComfyServer) -> Iterator[Canvas]:
    """ComfyUI's canvas, empty."""
    canvas = Canvas(browser, comfy.url)
    canvas.clear()
    yield canvas
    canvas.close()

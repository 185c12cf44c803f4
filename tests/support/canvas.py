"""ComfyUI's own canvas in a headless Chromium."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, sync_playwright

_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
_MILLISECONDS = 600_000
_FREE = (90, 130, 1480, 740)
"""What buttons leave free of the screen: left, top, width, height."""

_READY = "() => window.app?.extensionManager && window.app.graph?._nodes.length > 0 && app.canvas"


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, for several canvases."""
    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("chromium is not installed; install it with: tools/install_debian_packages.sh")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        yield browser
        browser.close()


class Canvas:
    """A page with ComfyUI's canvas, as a person sees it.

    Args:
        browser: that shows it.
        url: of the server.

    Attributes:
        page: for what has no method here.
        errors: what the scripts of custom nodes complained of; ComfyUI's own page is not at issue.
    """

    def __init__(self, browser: Browser, url: str) -> None:
        self.errors: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": 1600, "height": 900})
        self.page.set_default_timeout(_MILLISECONDS)
        self.page.on("pageerror", lambda error: self._note(error.stack))
        self.page.on("console", lambda message: self._note(f"{message.text} {message.location}", message.type))
        # An advertisement above the canvas.
        self.page.add_init_script("localStorage.setItem('vueNodesBannerDismissed', 'true')")
        self.page.goto(url, wait_until="domcontentloaded")
        # The page shows a default graph at last; before that, a graph loaded by a test would be overwritten.
        self.page.wait_for_function(_READY)

    def load(self, workflow: dict[str, Any]) -> None:
        """Shows a saved workflow, as Open does."""
        self.page.evaluate("async workflow => { await app.loadGraphData(workflow, true, true) }", workflow)
        self.page.wait_for_function("count => app.graph._nodes.length === count", arg=len(workflow["nodes"]))

    def build(self, prompt: dict[str, dict[str, Any]]) -> None:
        """Shows a prompt of the API as a graph, with seeds that stay as they are."""
        self.page.evaluate(
            """prompt => {
                app.loadApiJson(prompt, 'prompt')
                for (const widget of app.graph._nodes.flatMap(node => node.widgets ?? []))
                    if (widget.name === 'control_after_generate') widget.value = 'fixed'
            }""",
            prompt,
        )

    def set_value(self, title: str, name: str, value: Any) -> None:
        """Sets a value on a node, named by its title."""
        self.page.evaluate(
            """([title, name, value]) => {
                const node = app.graph._nodes.find(node => node.title === title)
                node.widgets.find(widget => widget.name === name).value = value
            }""",
            [title, name, value],
        )

    def clear(self) -> None:
        """Shows an empty graph."""
        self.page.evaluate("() => app.graph.clear()")

    def prompt(self) -> dict[str, dict[str, Any]]:
        """The graph in the API format."""
        return self.page.evaluate("async () => (await app.graphToPrompt()).output")

    def workflow(self) -> dict[str, Any]:
        """The graph in the format of saved workflows."""
        text = self.page.evaluate("async () => JSON.stringify((await app.graphToPrompt()).workflow)")
        return json.loads(text)

    def missing(self) -> list[str]:
        """Types of nodes in the graph that the server does not have."""
        return self.page.evaluate(
            "() => app.graph._nodes.map(node => node.type).filter(type => !(type in LiteGraph.registered_node_types))"
        )

    def dialogs(self) -> list[str]:
        """The text of each dialog on the screen."""
        return self.page.locator("[role=dialog]").all_inner_texts()

    def press_run(self) -> None:
        """Presses the Run button."""
        self.page.get_by_role("button", name="Run", exact=True).click()

    def run(self) -> dict[str, Any]:
        """Presses Run and waits for the end; the outputs by node id.

        Raises:
            AssertionError: the page shows a dialog, which is how it tells of an error.
        """
        self.page.evaluate(
            """() => {
                window.runEnded = null
                for (const kind of ['execution_success', 'execution_error', 'execution_interrupted'])
                    app.api.addEventListener(kind, () => window.runEnded = kind, {once: true})
            }"""
        )
        self.press_run()
        end = self.page.wait_for_function("() => window.runEnded ?? document.querySelector('[role=dialog]')?.innerText")
        assert end.json_value() == "execution_success", end.json_value()
        return self.page.evaluate("() => app.nodeOutputs")

    def wait_for_output(self, node: int) -> dict[str, Any]:
        """Waits until a node shows a result; what it is."""
        found = self.page.wait_for_function("node => app.nodeOutputs[node]", arg=str(node))
        return found.json_value()

    def show_moment(self, second: float) -> None:
        """Halts the video inside the page at a moment, and takes its buttons away."""
        self.wait_for_video().evaluate(
            """(video, second) => new Promise(done => {
                video.addEventListener('seeked', done, {once: true})
                video.pause()
                video.controls = false
                video.currentTime = second
            })""",
            second,
        )

    def wait_for_video(self) -> Locator:
        """Waits for a finished video that can play inside the page; one that is still made comes from elsewhere."""
        self.page.wait_for_function(
            """() => [...document.querySelectorAll('video')].some(
                video => video.readyState >= 3 && video.currentSrc.includes('/view?'))"""
        )
        return self.page.locator("video").first

    def drop(self, path: Path, kind: str) -> None:
        """Drops a file of a media type on the canvas."""
        content = base64.b64encode(path.read_bytes()).decode()
        self.page.evaluate(
            """([content, name, type]) => {
                const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0))
                const dataTransfer = new DataTransfer()
                dataTransfer.items.add(new File([bytes], name, {type}))
                const canvas = document.getElementById('graph-canvas')
                const options = {dataTransfer, bubbles: true, cancelable: true, clientX: 800, clientY: 450}
                for (const event of ['dragenter', 'dragover', 'drop'])
                    canvas.dispatchEvent(new DragEvent(event, options))
            }""",
            [content, path.name, kind],
        )

    def drag_in(self, title: str, at: tuple[int, int]) -> int:
        """Drags a node from the node library to a place on the screen; its id."""
        library = self.page.get_by_placeholder("Search Nodes...")
        if not library.is_visible():
            self.page.get_by_role("button", name="Node Library").click()
        library.fill(title)
        entry = self.page.locator(".node-lib-node-container").get_by_text(title, exact=True)
        entry.drag_to(self.page.locator("#graph-canvas"), target_position={"x": at[0], "y": at[1]})
        return self.page.evaluate("() => app.graph._nodes.at(-1).id")

    def wire(self, source: int, output: str, target: int, input_: str) -> None:
        """Pulls a wire with the mouse from an output to an input."""
        self.page.mouse.move(*self._slot(source, output, "outputs"))
        self.page.mouse.down()
        self.page.mouse.move(*self._slot(target, input_, "inputs"), steps=8)
        self.page.mouse.up()

    def _slot(self, node: int, name: str, side: str) -> tuple[float, float]:
        return self.page.evaluate(
            """([id, name, side]) => {
                const node = app.graph.getNodeById(id)
                const slot = node[side].findIndex(slot => [slot.name, slot.label].includes(name))
                const at = app.canvas.ds.convertOffsetToCanvas(node.getConnectionPos(side === 'inputs', slot))
                const box = app.canvas.canvas.getBoundingClientRect()
                return [at[0] + box.left, at[1] + box.top]
            }""",
            [node, name, side],
        )

    def fit(self) -> dict[str, float]:
        """Lays the whole graph into the free part of the screen; where it is then: x, y, width, height."""
        box = self.page.evaluate(
            """([left, top, width, height]) => {
                const boxes = app.graph._nodes.map(node => node.getBounding())
                const from = [0, 1].map(axis => Math.min(...boxes.map(box => box[axis])))
                const size = [0, 1].map(axis => Math.max(...boxes.map(box => box[axis] + box[axis + 2])) - from[axis])
                const scale = Math.min(width / size[0], height / size[1], 1)
                app.canvas.ds.scale = scale
                app.canvas.ds.offset = [left / scale - from[0], top / scale - from[1]]
                app.canvas.setDirty(true, true)
                return {x: left, y: top, width: size[0] * scale, height: size[1] * scale}
            }""",
            _FREE,
        )
        self.settle()
        return box

    def settle(self) -> None:
        """Lets the page draw what it has."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def close(self) -> None:
        """Closes the page."""
        self.page.close()

    def _note(self, text: str, kind: str = "error") -> None:
        if kind == "error" and "/extensions/" in text:
            self.errors.append(text)

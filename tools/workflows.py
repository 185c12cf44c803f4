"""Makes the canvas files and thumbnails of the saved workflows: python -m tools.workflows [NAME ...].

The files in workflows/api are the source. ComfyUI's own canvas turns each into a graph, which is laid out here, given a
note, run, saved and photographed; the API file is then written anew from that graph, with all values that it left out.
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.support.canvas import Canvas, chromium
from tests.support.comfy_server import ROOT, ComfyServer

FOLDER = ROOT / "workflows"
PICTURE = ROOT / "benchmarks" / "comfyui" / "canvas.png"
_IN_README = "offline"
_MOMENT = 1.5
"""Second of the video that the pictures show."""

_GAP = 50
_TITLE = 30
_WIDTH = 330
_SIZES = {
    "NVENCVideoWriter": (460, 760),
    "DittoAudioToMotion": (330, 400),
    "BuildFusedPostWarpEngine": (330, 330),
    "DittoStreamChunked": (330, 400),
    "DittoSaveAvatar": (330, 160),
    "MarkdownNote": (330, 200),
}
_AFTER_RUN = {"DittoBulletinSegment": "increment"}
"""What a number does after each run; "fixed" at all other nodes."""


_OWN_SOUND_AND_FACE = """

**Your own portrait and voice:** add *Load Image* and *Load Audio*, choose your files in them, and pull their
outputs to where those of *Presenter and sentence* go now.
For a photograph choose the official weights in *Models*: the bundled miniature knows drawn faces only.
"""
_NOTES = {
    "offline": "A portrait and a voice become a talking-head video. The whole sound is known before the first frame.",
    "streaming": "As *offline*, but made chunk by chunk, as it would be while the sound is still arriving.",
    "build-engine": "Builds an engine for this GPU once, finds it again later, and renders with it. "
    "Where none can be built, the frames are drawn by torch, and the report says why.",
    "register-avatar": "Finds the face once and saves the presenter as a file. *Load avatar* opens it again, "
    "so that later videos need no portrait.",
    "emotion-schedule": "The mood changes within the sentence: each line of the schedule says from when, and how.",
    "bulletin": "Renders a bulletin from a list. Put a CSV file, portraits and sounds into ComfyUI's input folder, "
    "name it in *Segment*, set the number beside Run to the number of segments, and press Run once.",
}

_BUILD = """([prompt, name, afterRun]) => {
    app.loadApiJson(prompt, name)
    const note = LiteGraph.createNode('MarkdownNote')
    note.title = 'How to use it'
    app.graph.add(note)
    for (const node of app.graph._nodes)
        for (const widget of node.widgets ?? [])
            if (widget.name === 'control_after_generate') widget.value = afterRun[node.type] ?? 'fixed'
    return app.graph._nodes.map(node => ({id: node.id, type: node.type, size: node.computeSize()}))
}"""
_PLACE = """([places, text]) => {
    for (const {id, pos, size} of places) {
        const node = app.graph.getNodeById(id)
        node.pos = pos
        node.setSize(size)
        if (node.type === 'MarkdownNote') node.widgets[0].value = text
    }
}"""


def main() -> None:
    """Makes the named workflows, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=sorted(_NOTES))
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory() as folder:
        with ComfyServer(Path(folder) / "base", pack_folder="ditto-live") as server, chromium() as browser:
            for name in names:
                make(browser, server.url, name)


def make(browser: Browser, url: str, name: str) -> None:
    """Writes workflows/NAME.json, NAME.jpg and, with all values, api/NAME.json."""
    source = FOLDER / "api" / f"{name}.json"
    canvas = Canvas(browser, url)
    build(canvas, name, json.loads(source.read_text()))
    prompt = canvas.prompt()
    workflow = {**canvas.workflow(), "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"ditto-live/{name}"))}
    # Nodes show what they made only while they are on the screen.
    canvas.fit()
    canvas.run()
    canvas.show_moment(_MOMENT)
    area = canvas.fit()
    canvas.page.screenshot(path=FOLDER / f"{name}.jpg", type="jpeg", quality=75, clip=area)
    if name == _IN_README:
        canvas.page.screenshot(path=PICTURE)
    _write(FOLDER / f"{name}.json", workflow)
    _write(source, prompt)
    canvas.close()


def build(canvas: Canvas, name: str, prompt: Mapping[str, Mapping[str, Any]]) -> None:
    """Turns a prompt into a graph that is laid out for reading."""
    nodes = canvas.page.evaluate(_BUILD, [prompt, name, _AFTER_RUN])
    places = layout(nodes, columns(prompt))
    has_example = any(node["class_type"] == "DittoExample" for node in prompt.values())
    note = _NOTES[name] + (_OWN_SOUND_AND_FACE if has_example else "")
    canvas.page.evaluate(_PLACE, [places, note])
    canvas.settle()


def layout(nodes: list[dict[str, Any]], column: Mapping[str, int]) -> list[dict[str, Any]]:
    """Position and size of each node: columns from left to right, a note under the first."""
    ends: dict[int, float] = {}
    places = []
    for node in nodes:
        at = column.get(str(node["id"]), 0)
        least = _SIZES.get(node["type"], (_WIDTH, 0))
        size = [max(least[0], node["size"][0]), max(least[1], node["size"][1])]
        top = ends.get(at, 0)
        places.append({"id": node["id"], "pos": [at * (_WIDTH + _GAP), top], "size": size})
        ends[at] = top + size[1] + _TITLE + _GAP
    return places


def columns(prompt: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """The column of each node, from 0 at the left: just before the first node that takes its output."""
    takers: dict[str, list[str]] = {key: [] for key in prompt}
    for key, node in prompt.items():
        for value in node["inputs"].values():
            if isinstance(value, list):
                takers[value[0]].append(key)

    @functools.cache
    def steps_to_end(key: str) -> int:
        return max((1 + steps_to_end(taker) for taker in takers[key]), default=0)

    last = max(map(steps_to_end, prompt))
    return {key: last - steps_to_end(key) for key in prompt}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

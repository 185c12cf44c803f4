"""A client of ComfyUI's public API: HTTP for requests, a WebSocket for what happens meanwhile."""

from __future__ import annotations

import json
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from websockets.sync.client import ClientConnection, connect

Prompt = dict[str, dict[str, Any]]
"""The API format: node id to class_type and inputs."""

_SECONDS = 600
_TEXT = 3
"""ComfyUI's number for a message that is a line of text on a node; the others hold pictures."""


class PromptRefused(Exception):
    """The server did not take a prompt.

    Attributes:
        error: the server's description of the whole.
        node_errors: node id to its errors.
    """

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(json.dumps(answer))
        self.error: dict[str, Any] = answer["error"]
        self.node_errors: dict[str, Any] = answer["node_errors"]


@dataclass(kw_only=True)
class Run:
    """What the server said about one prompt until it ended.

    Attributes:
        id: of the prompt.
        events: (type, data) of each message about it, in order.
        previews: how many pictures came meanwhile.
        texts: node id and line of text of all that nodes said on themselves.
    """

    id: str
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    previews: int = 0
    texts: list[tuple[str, str]] = field(default_factory=list)

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """The data of all messages of one type."""
        return [data for name, data in self.events if name == kind]

    @property
    def cached(self) -> set[str]:
        """The nodes that did not run because their result was there."""
        return {node for data in self.of_type("execution_cached") for node in data["nodes"]}

    @property
    def outputs(self) -> dict[str, dict[str, Any]]:
        """Node id to what it shows on the canvas."""
        return {data["node"]: data["output"] or {} for data in self.of_type("executed")}

    @property
    def succeeded(self) -> bool:
        """Whether it came to a good end."""
        return bool(self.of_type("execution_success"))

    @property
    def error(self) -> dict[str, Any]:
        """What the failing node said: node_id, node_type, exception_type, exception_message."""
        return self.of_type("execution_error")[0]

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        last = {"execution_error", "execution_interrupted"}
        return any(name in last or (name == "executing" and data["node"] is None) for name, data in self.events)


class ComfyClient:
    """One user of a server. Use it as a context manager.

    Args:
        url: of the server, http://host:port.

    Attributes:
        heard: the data of all messages so far, about this user's runs and others'.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.id = uuid.uuid4().hex
        self.heard: list[dict[str, Any]] = []
        self._closing = ExitStack()
        self._socket: ClientConnection | None = None

    def __enter__(self) -> ComfyClient:
        address = f"{self.url.replace('http', 'ws', 1)}/ws?clientId={self.id}"
        self._socket = self._closing.enter_context(connect(address, max_size=None))
        # As the page does, which else gets no pictures.
        self._socket.send(json.dumps({"type": "feature_flags", "data": {"supports_preview_metadata": True}}))
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def get(self, path: str, **query: str) -> Any:
        """The JSON at a path."""
        return json.loads(self.fetch(path, **query))

    def fetch(self, path: str, **query: str) -> bytes:
        """The bytes at a path."""
        address = self.url + path + ("?" + urllib.parse.urlencode(query) if query else "")
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:
            return answer.read()

    def post(self, path: str, content: Any = None) -> Any:
        """Sends JSON and returns the JSON answer; None where it is empty."""
        body = json.dumps({} if content is None else content).encode()
        return self._send(path, body, "application/json")

    def upload(self, name: str, content: bytes) -> str:
        """Puts a file of any kind into the input folder; the name that nodes know it by."""
        boundary = uuid.uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\n\r\n'
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        answer = self._send("/upload/image", body, f"multipart/form-data; boundary={boundary}")
        return "/".join(part for part in (answer["subfolder"], answer["name"]) if part)

    def view(self, result: dict[str, str]) -> bytes:
        """The file that a node's output names: filename, subfolder, type."""
        return self.fetch("/view", **{name: result[name] for name in ("filename", "subfolder", "type")})

    def history(self, prompt_id: str) -> dict[str, Any]:
        """Outputs and status of a prompt that ended."""
        return self.get(f"/history/{prompt_id}")[prompt_id]

    def interrupt(self) -> None:
        """Stops the prompt that runs."""
        self.post("/interrupt")

    def queue(self, prompt: Prompt, workflow: dict[str, Any] | None = None) -> Run:
        """Sends a prompt; it runs when those before it are done.

        Raises:
            PromptRefused: the server found it invalid.
        """
        extra = {} if workflow is None else {"extra_pnginfo": {"workflow": workflow}}
        content = {"prompt": prompt, "client_id": self.id, "extra_data": extra}
        return Run(id=self.post("/prompt", content)["prompt_id"])

    def run(self, prompt: Prompt, workflow: dict[str, Any] | None = None) -> Run:
        """Sends a prompt and waits for its end, good or bad."""
        return self.wait(self.queue(prompt, workflow))

    def wait(self, run: Run, until: str | None = None, *, count: int = 1) -> Run:
        """Takes in messages until a prompt ends, or until `count` more of the type `until` have come."""
        assert self._socket is not None
        deadline = time.monotonic() + _SECONDS
        while not run.ended:
            message = self._socket.recv(timeout=max(0, deadline - time.monotonic()))
            if isinstance(message, bytes):
                kind, length = struct.unpack(">II", message[:8])
                if kind == _TEXT:
                    run.texts.append((message[8 : 8 + length].decode(), message[8 + length :].decode()))
                else:
                    run.previews += 1
                continue
            event = json.loads(message)
            self.heard.append(event["data"])
            if event["data"].get("prompt_id") != run.id:
                continue
            run.events.append((event["type"], event["data"]))
            count -= event["type"] == until
            if count == 0:
                break
        return run

    def _send(self, path: str, body: bytes, content_type: str) -> Any:
        request = urllib.request.Request(self.url + path, body, {"Content-Type": content_type})
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            answer = error.read()
            if path == "/prompt" and error.code == 400:
                raise PromptRefused(json.loads(answer)) from None
            raise AssertionError(f"{path}: {error.code} {answer.decode(errors='replace')}") from error


def replaced(prompt: Prompt, node: str, **inputs: Any) -> Prompt:
    """A prompt with other inputs at one node, named by its title or id."""
    found = [key for key, value in prompt.items() if node in (key, value.get("_meta", {}).get("title"))]
    assert len(found) == 1, f"{node} names {len(found)} nodes"
    changed = {**prompt[found[0]], "inputs": {**prompt[found[0]]["inputs"], **inputs}}
    return {**prompt, found[0]: changed}

"""A small HTTP server that speaks the part of ComfyUI's API that a bulletin uses, and misbehaves on request."""

from __future__ import annotations

import email
import json
import threading
from collections import Counter
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Loopback:
    """Holds prompts; each look at the queue moves them one step on: pending, running, in the history.

    Attributes:
        renders: how often each color was rendered to its end.
        inputs: uploaded files by name.
        uploads: how many came.
        results: file name to content; what `/view` serves.
        answers: path to (status, body): sent instead of the real answer, once for each entry of the list.
        headers: sent with those answers.
        outputs: what the history says of each finished prompt; None for what was really saved.
        dropped: paths whose next answer is cut off after the request has taken effect.
    """

    def __init__(self) -> None:
        self.renders: Counter[int] = Counter()
        self.inputs: dict[str, bytes] = {}
        self.uploads = 0
        self.results: dict[str, bytes] = {}
        self.answers: dict[str, list[tuple[int, bytes]]] = {}
        self.headers: dict[str, str] = {}
        self.outputs: Any = None
        self.dropped: list[str] = []
        self.prompts: dict[str, dict[str, Any]] = {}
        self._pending: list[str] = []
        self._running: list[str] = []
        self._history: dict[str, Any] = {}
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Loopback:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listens; on the same port as before."""
        state = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                state.answer(self, b"")

            def do_POST(self) -> None:
                state.answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = _Quiet(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True).start()

    def stop(self) -> None:
        """Goes away and forgets all prompts, as a killed ComfyUI does; its files stay."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        self._pending, self._running, self._history = [], [], {}

    def finish(self) -> None:
        """Renders all that is queued, as a server does while nobody looks."""
        while self._pending or self._running:
            self._advance()

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answers one request."""
        path = urlsplit(request.path)
        if self.answers.get(path.path):
            status, content = self.answers[path.path].pop(0)
        else:
            status, content = self._real_answer(path.path, parse_qs(path.query), request.headers, body)
        if path.path in self.dropped:
            self.dropped.remove(path.path)
            request.close_connection = True
            return
        request.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **self.headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(content)

    def _real_answer(self, path: str, query: dict[str, list[str]], headers: Any, body: bytes) -> tuple[int, bytes]:
        if path == "/system_stats":
            return _json({"system": {}})
        if path == "/queue" and not body:
            self._advance()
            running, pending = ([[0, name, {}] for name in names] for names in (self._running, self._pending))
            return _json({"queue_running": running, "queue_pending": pending})
        if path.startswith("/history/"):
            name = path.removeprefix("/history/")
            return _json({name: self._history[name]} if name in self._history else {})
        if path == "/prompt":
            sent = json.loads(body)
            self.prompts[sent["prompt_id"]] = sent["prompt"]
            self._pending.append(sent["prompt_id"])
            return _json({"prompt_id": sent["prompt_id"], "number": 0, "node_errors": {}})
        if path == "/upload/image":
            kind = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode()
            (part,) = email.message_from_bytes(kind + body, policy=HTTP).iter_parts()
            self.uploads += 1
            self.inputs[part.get_filename()] = part.get_payload(decode=True)
            return _json({"name": part.get_filename(), "subfolder": "", "type": "input"})
        if path == "/view":
            content = self.results.get(query["filename"][0])
            return (404, b"") if content is None else (200, content)
        return _json({})

    def _advance(self) -> None:
        for name in self._running:
            color = self.prompts[name]["1"]["inputs"]["color"]
            self.renders[color] += 1
            file = f"news_{len(self.results):05d}_.mp4"
            self.results[file] = f"video of {color}".encode()
            saved = {"3": {"images": [{"filename": file, "subfolder": "", "type": "output"}], "animated": [True]}}
            status = {"status_str": "success", "completed": True, "messages": []}
            self._history[name] = {"outputs": self.outputs or saved, "status": status}
        self._running, self._pending = self._pending[:1], self._pending[1:]


class _Quiet(ThreadingHTTPServer):
    """A client that hangs up on purpose is nothing to report."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def _json(value: Any) -> tuple[int, bytes]:
    return 200, json.dumps(value).encode()

"""HTTP client of one ComfyUI server: bounded in size and time, no redirects, no names of the server's used as paths."""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ..errors import InvalidValueError
from ..files import replaced_file
from .answers import (
    float_inputs,
    node_complaints,
    outcome_of,
    parse_object,
    places_in_queue,
    printable,
    refusal,
    uploaded_name,
)
from .errors import ServerAnswerError, ServerUnreachableError
from .states import Outcome, Output, ResultFile, State
from .table import LocalFile
from .workflow import Workflow

_BLOCK = 1 << 18
# What a proxy answers while the server behind it is away.
_AWAY = frozenset({502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """What a server may cost us.

    Attributes:
        silence_s: seconds without a byte before the server counts as away.
        answer_s: seconds for a whole JSON answer.
        transfer_s: seconds for a whole result file.
        answer_bytes: size of a JSON answer.
        result_bytes: size of a result file.
    """

    silence_s: float = 30.0
    answer_s: float = 120.0
    transfer_s: float = 3600.0
    answer_bytes: int = 1 << 26
    result_bytes: int = 1 << 33


class ComfyServer:
    """A ComfyUI server's public API. Every method may raise ServerUnreachableError or ServerAnswerError.

    Args:
        url: `http://host:port` or `https://...`, with a path where a proxy wants one.
        limits: bounds on its answers.
        clock: seconds that only grow.

    Raises:
        InvalidValueError: the URL is of another kind.
    """

    def __init__(
        self, url: str, *, limits: ServerLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise InvalidValueError(
                f"server '{printable(url.rpartition('@')[2])}'", remedy="write http://HOST:PORT or https://HOST"
            )
        self.url = url.rstrip("/")
        self._connection = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._path = parts.hostname, port, parts.path.rstrip("/")
        self._limits = limits or ServerLimits()
        self._clock = clock

    def check(self) -> None:
        """Makes sure that a ComfyUI answers there."""
        if "system" not in self._ask("/system_stats"):
            raise ServerAnswerError(f"{self.url} is no ComfyUI server", remedy="check the address")

    def float_inputs(self, workflow: Workflow) -> frozenset[tuple[str, str]]:
        """(class, input) of each input of a workflow's nodes that takes fractions; for `Workflow.with_floats`."""
        return frozenset(
            (name, found)
            for name in workflow.classes
            for found in float_inputs(self._ask(f"/object_info/{quote(name, safe='')}"), name)
        )

    def queue(self) -> dict[str, State]:
        """Prompt id to QUEUED or RUNNING."""
        return places_in_queue(self._ask("/queue"))

    def outcome(self, prompt_id: str, workflow: Workflow) -> Outcome | None:
        """How a prompt ended; None where the server's history does not have it."""
        return outcome_of(self._ask(f"/history/{prompt_id}"), prompt_id, workflow)

    def submit(self, prompt: dict[str, Any], *, prompt_id: str, client_id: str, workflow: Workflow) -> None:
        """Queues a prompt under an identity that we chose.

        Args:
            prompt: the prompt.
            prompt_id: its identity.
            client_id: who asks. Without one ComfyUI leaves cached outputs out of the history.
            workflow: for the titles of nodes in messages.
        """
        body = json.dumps({"prompt": prompt, "prompt_id": prompt_id, "client_id": client_id}).encode()
        with self._request("POST", "/prompt", body, "application/json") as response:
            data = self._read(response, "/prompt")
            if response.status != http.client.OK:
                raise ServerAnswerError(
                    f"refused: {refusal(data, workflow)}", remedy="correct the segment's row", status=response.status
                )
        answer = parse_object(data, "/prompt")
        if answer.get("prompt_id") != prompt_id:
            self.cancel(str(answer.get("prompt_id")))
            raise ServerAnswerError("the server does not take a prompt_id from its client", remedy="update ComfyUI")
        if complaints := node_complaints(answer, workflow):
            self.cancel(prompt_id)
            raise ServerAnswerError(f"refused in part: {complaints}", remedy="correct the segment's row")

    def upload(self, file: LocalFile) -> str:
        """Brings a file into the server's input folder; returns what to call it in a prompt."""
        boundary = secrets.token_hex(16)
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="{file.upload_name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        body = head + file.content() + tail
        with self._request("POST", "/upload/image", body, f"multipart/form-data; boundary={boundary}") as response:
            self._expect_ok(response, "/upload/image")
            return uploaded_name(parse_object(self._read(response, "/upload/image"), "/upload/image"))

    def download(self, output: Output, target: Path) -> ResultFile:
        """Fetches a result into a file, whole or not at all."""
        words = {"filename": output.filename, "subfolder": output.subfolder, "type": output.type}
        with self._request("GET", f"/view?{urlencode(words)}") as response:
            self._expect_ok(response, "/view")
            if response.length is None and not response.chunked:
                raise ServerAnswerError("the server sends a result without its length", remedy="look at its proxy")
            blocks = self._blocks(response, "/view", self._limits.result_bytes, self._limits.transfer_s)
            size, digest = 0, hashlib.sha256()
            with replaced_file(target) as partial, partial.open("wb") as file:
                for block in blocks:
                    size += file.write(block)
                    digest.update(block)
            return ResultFile(name=target.name, size=size, sha256=digest.hexdigest())

    def cancel(self, prompt_id: str) -> None:
        """Takes a prompt out of the queue, or interrupts it where it runs."""
        for path, body in (("/queue", {"delete": [prompt_id]}), ("/interrupt", {"prompt_id": prompt_id})):
            with self._request("POST", path, json.dumps(body).encode(), "application/json") as response:
                self._expect_ok(response, path)

    def _ask(self, path: str) -> dict[str, Any]:
        with self._request("GET", path) as response:
            self._expect_ok(response, path)
            return parse_object(self._read(response, path), path)

    @contextmanager
    def _request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        """One request on a connection of its own; what breaks on the way means that the server is away."""
        headers = {"Connection": "close", **({"Content-Type": content_type} if content_type else {})}
        connection = self._connection(self._host, self._port, timeout=self._limits.silence_s)
        with closing(connection):
            with self._away():
                # A server that refuses a large body answers before it has read all of it.
                with suppress(BrokenPipeError, ConnectionResetError):
                    connection.request(method, self._path + path, body, headers)
                response = connection.getresponse()
            if response.status in _AWAY:
                raise ServerUnreachableError(
                    f"{self.url} answers {response.status}", remedy="see whether the server behind it runs"
                )
            yield response

    @contextmanager
    def _away(self) -> Iterator[None]:
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            reason = printable(error) or type(error).__name__
            raise ServerUnreachableError(
                f"{self.url} does not answer ({reason})", remedy="start ComfyUI there, or correct the address"
            ) from error

    def _expect_ok(self, response: http.client.HTTPResponse, what: str) -> None:
        if response.status != http.client.OK:
            raise ServerAnswerError(
                f"the server answers {response.status} to {what.partition('?')[0]}",
                remedy="look into the server's log",
                status=response.status,
            )

    def _read(self, response: http.client.HTTPResponse, what: str) -> bytes:
        return b"".join(self._blocks(response, what, self._limits.answer_bytes, self._limits.answer_s))

    def _blocks(self, response: http.client.HTTPResponse, what: str, most: int, seconds: float) -> Iterator[bytes]:
        """The body, piece by piece. `read1` comes back after each packet, so that a dripping server meets the clock."""
        promised = response.length
        if promised is not None and promised > most:
            raise _too_large(what, most)
        end, got = self._clock() + seconds, 0
        while True:
            with self._away():
                block = response.read1(_BLOCK)
            if not block:
                break
            got += len(block)
            if got > most:
                raise _too_large(what, most)
            if self._clock() > end:
                raise ServerAnswerError(
                    f"the answer to {what} takes longer than {seconds:g} s", remedy="see the network"
                )
            yield block
        if promised is not None and got < promised:
            raise ServerUnreachableError(f"{self.url} broke off {what}", remedy="see whether the server runs")


def _too_large(what: str, most: int) -> ServerAnswerError:
    return ServerAnswerError(f"the answer to {what} is larger than {most} bytes", remedy="check that it is a ComfyUI")

"""A writer that also sends its video elsewhere, where the server's owner has allowed it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.comfy_client import ComfyClient, Prompt, PromptRefused, replaced
from support.comfy_server import ComfyServer
from support.mp4 import decoded
from support.workflows import api, short

KEY = "hunter2"


class Receiver(threading.Thread):
    """Listens on a port of this machine; `data` is what one sender sent."""

    def __init__(self, limit: int | None = None) -> None:
        super().__init__()
        self.data = b""
        self._limit = limit
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"

    def run(self) -> None:
        """Takes what comes, up to the limit."""
        with self._server, self._server.accept()[0] as connection:
            while (block := connection.recv(65536)) and (self._limit is None or len(self.data) < self._limit):
                self.data += block


@pytest.fixture(scope="module")
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[ComfyServer]:
    """One whose owner allows the receiver's address, a bucket in its memory, and a port where nobody listens."""
    base: Path = tmp_path_factory.mktemp("sinks") / "base"
    allowed = f"{receiver.address} memory://bucket/a, tcp://127.0.0.1:9"
    with ComfyServer(base, environment={"DITTO_ALLOWED_SINKS": allowed}) as server:
        yield server


@pytest.fixture
def sender(server: ComfyServer) -> Iterator[ComfyClient]:
    with ComfyClient(server.url) as client:
        yield client


def sending(sink: str, **inputs: object) -> Prompt:
    return replaced(short(api("offline"), 0.6), "Video", sink=sink, **inputs)


def refusal(client: ComfyClient, prompt: Prompt) -> str:
    with pytest.raises(PromptRefused) as refused:
        client.queue(prompt)
    return json.dumps(refused.value.node_errors)


def test_a_sink_gets_the_video_and_no_file_or_report_its_key(sender: ComfyClient, receiver: Receiver) -> None:
    receiver.start()
    sink = f"{receiver.address}?key={KEY}"
    prompt = sending(sink, filename_prefix="sent/video")
    prompt["report"] = {"class_type": "PreviewAny", "inputs": {"source": ["7", 1]}}
    writer = next(key for key, node in prompt.items() if node["class_type"] == "NVENCVideoWriter")
    prompt["report"]["inputs"]["source"] = [writer, 1]
    run = sender.run(prompt, workflow={"nodes": [{"type": "NVENCVideoWriter", "widgets_values": [25, sink]}]})
    assert run.succeeded, run.events[-1]
    receiver.join()
    file = decoded(sender.view(run.outputs[writer]["images"][0]))
    sent = decoded(receiver.data)
    assert len(sent.pictures) == len(file.pictures) == 15
    assert (sent.pictures == file.pictures).all(), "nothing was encoded twice"
    report = json.loads(run.outputs["report"]["text"][0])
    assert report["sink"] == receiver.address
    assert json.loads(file.metadata["prompt"])[writer]["inputs"]["sink"] == receiver.address
    assert json.loads(file.metadata["workflow"])["nodes"][0]["widgets_values"] == [25, receiver.address]
    assert KEY not in json.dumps([report, file.metadata])


def test_object_storage_is_a_sink(sender: ComfyClient) -> None:
    run = sender.run(sending("memory://bucket/a/video.mp4", filename_prefix="stored/video"))
    assert run.succeeded, run.events[-1]


def test_a_sink_that_breaks_is_named_and_nothing_is_left(server: ComfyServer, sender: ComfyClient) -> None:
    run = sender.run(sending(f"tcp://127.0.0.1:9?key={KEY}", filename_prefix="broken/video"))
    assert run.error["node_type"] == "NVENCVideoWriter"
    message = run.error["exception_message"]
    assert "tcp://127.0.0.1:9: could not be written" in message and KEY not in message
    assert list(server.output.glob("broken/*")) == []
    assert sender.run(sending("", filename_prefix="after/video")).succeeded


def test_a_sink_that_breaks_midway_does_not_take_the_file_with_it(tmp_path: Path) -> None:
    """The other end goes away; the file is whole, and the report names what went wrong, but no key."""
    leaver = Receiver(limit=1)
    with ComfyServer(tmp_path / "base", environment={"DITTO_ALLOWED_SINKS": leaver.address}) as server:
        leaver.start()
        with ComfyClient(server.url) as client:
            prompt = replaced(short(api("offline"), 4), "Video", sink=f"{leaver.address}?key={KEY}", quality="live")
            writer = next(key for key, node in prompt.items() if node["class_type"] == "NVENCVideoWriter")
            prompt["report"] = {"class_type": "PreviewAny", "inputs": {"source": [writer, 1]}}
            run = client.run(prompt)
            assert run.succeeded, run.events[-1]
            leaver.join()
            report = json.loads(run.outputs["report"]["text"][0])
            assert leaver.address in report["sink_error"] and KEY not in report["sink_error"]
            file = decoded(client.view(run.outputs[writer]["images"][0]))
            assert len(file.pictures) == report["frames"]


@pytest.mark.parametrize(
    "sink", [f"tcp://127.0.0.1:10?key={KEY}", f"memory://bucket/{KEY}", f"rtmp://127.0.0.1/{KEY}", f"/{KEY}.mp4"]
)
def test_other_sinks_are_refused(sender: ComfyClient, sink: str) -> None:
    message = refusal(sender, sending(sink))
    assert "DITTO_ALLOWED_SINKS" in message or "no plain address" in message
    assert KEY not in message.replace(json.dumps(sink)[1:-1], "") or sink.startswith("memory"), message


def test_none_is_allowed_unless_the_owner_says_so(client: ComfyClient) -> None:
    message = refusal(client, sending("memory://bucket/a/video.mp4"))
    assert "memory://bucket/a/video.mp4" in message and "DITTO_ALLOWED_SINKS" in message


def test_a_file_of_before_has_no_sink(client: ComfyClient) -> None:
    prompt = sending("", filename_prefix="old/video")
    writer = next(node for node in prompt.values() if node["class_type"] == "NVENCVideoWriter")
    del writer["inputs"]["sink"]
    assert client.run(prompt).succeeded

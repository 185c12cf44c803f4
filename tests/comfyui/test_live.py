"""What is made so far of a video: for the page that started the run, and for as long as that lasts."""

from __future__ import annotations

import http.client
import threading
import urllib.error
from urllib.parse import urlsplit

import pytest
from support.comfy_client import ComfyClient, Prompt, Run, replaced
from support.comfy_server import ComfyServer
from support.mp4 import decoded
from support.workflows import api, breaking, short

SECONDS = 4.0


def streaming(**inputs: object) -> Prompt:
    """The streaming workflow, long enough to be looked at; its writer gets the inputs."""
    return replaced(short(api("streaming"), SECONDS), "Video", quality="live", **inputs)


def begun(client: ComfyClient, prompt: Prompt) -> tuple[Run, str, str]:
    """A run whose video can be seen by now, with its address and type."""
    run = client.queue(prompt)
    client.wait(run, "ditto.live_video")
    (told,) = run.of_type("ditto.live_video")
    return run, told["address"], told["type"]


def status(client: ComfyClient, address: str, method: str = "GET") -> int:
    """How the server answers; the body is not read."""
    connection = http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=60)
    connection.request(method, address)
    try:
        return connection.getresponse().status
    finally:
        connection.close()


class Viewer(threading.Thread):
    """Takes a live video to its end; `data` is what came, in one piece."""

    def __init__(self, client: ComfyClient, address: str) -> None:
        super().__init__()
        self.data = b""
        self._client, self._address = client, address
        self.start()

    def run(self) -> None:
        """Reads."""
        self.data = self._client.fetch(self._address)


def live_files(comfy: ComfyServer) -> list[str]:
    """What lies in the temporary folder."""
    return sorted(path.name for path in (comfy.base / "temp").rglob("*.mp4"))


def test_all_viewers_see_what_is_made_and_it_is_gone_with_the_run(comfy: ComfyServer, client: ComfyClient) -> None:
    run, address, media_type = begun(client, streaming())
    assert media_type.startswith('video/mp4; codecs="avc1.42') and media_type.endswith(', mp4a.40.2"')
    viewers = [Viewer(client, address) for _ in range(2)]
    assert status(client, address) == 200, "one that goes away harms nobody"
    assert len(live_files(comfy)) == 1
    client.wait(run)
    assert run.succeeded
    for viewer in viewers:
        viewer.join()
    seen, other = (viewer.data for viewer in viewers)
    assert seen.startswith(other) or other.startswith(seen)
    whole = client.view(next(iter(run.outputs.values()))["images"][0])
    assert len(decoded(whole).pictures) == SECONDS * 25
    assert len(decoded(seen).pictures) >= 25
    assert (decoded(seen).pictures[10] == decoded(whole).pictures[10]).all(), "nothing was encoded twice"
    assert status(client, address) == 404 and live_files(comfy) == []


def test_nothing_else_has_an_address(client: ComfyClient) -> None:
    run, address, _ = begun(client, streaming(filename_prefix="address/video"))
    folder, _, token = address.rpartition("/")
    assert len(token) == 32 and int(token, 16) >= 0
    wrong = f"{token[:-1]}{'0' if token[-1] != '0' else '1'}"
    for name in (wrong, token[:-1], token.upper() + "x", "", "..%2f..%2finput", f"{token}.mp4", f"%2e%2e%2f{token}"):
        assert status(client, f"{folder}/{name}") == 404, name
    assert status(client, address, "HEAD") == 404
    assert status(client, address) == 200
    client.wait(run)


def test_only_who_started_the_run_is_told(comfy: ComfyServer, client: ComfyClient) -> None:
    with ComfyClient(comfy.url) as other:
        run, address, _ = begun(client, streaming(filename_prefix="told/video"))
        client.wait(run)
        # The other one's socket holds all that it was sent meanwhile; its own run comes last.
        own = other.run(short(api("offline"), 0.2))
        addresses = [told["address"] for told in other.heard if told.get("address")]
        assert addresses == [told["address"] for told in own.of_type("ditto.live_video")]
        assert len(addresses) == 1 and addresses != [address]


def test_nobody_looks_and_the_file_is_the_same(comfy: ComfyServer, client: ComfyClient) -> None:
    watched = client.run(streaming(filename_prefix="watched/video"))
    alone = ComfyClient(comfy.url)  # sends its prompt and opens no socket
    run = alone.queue(streaming(filename_prefix="alone/video"))
    client.run(short(api("offline"), 0.2))  # the one after it
    assert alone.history(run.id)["status"]["status_str"] == "success"
    files = [decoded(next((comfy.output / name).glob("*.mp4"))) for name in ("watched", "alone")]
    assert watched.succeeded
    assert (files[0].pictures == files[1].pictures).all() and (files[0].sound == files[1].sound).all()
    assert live_files(comfy) == []


@pytest.mark.parametrize("end", ["interrupt", "failure"])
def test_an_end_in_the_middle_ends_what_is_seen(comfy: ComfyServer, client: ComfyClient, end: str) -> None:
    prompt = streaming(filename_prefix=f"{end}/video")
    run, address, _ = begun(client, breaking(prompt, quality="live") if end == "failure" else prompt)
    if end == "interrupt":
        assert status(client, address) == 200
        client.interrupt()
    client.wait(run)
    assert not run.succeeded
    with pytest.raises(urllib.error.HTTPError, match="404"):
        client.fetch(address)
    assert live_files(comfy) == [] and list(comfy.output.glob(f"{end}/*")) == []

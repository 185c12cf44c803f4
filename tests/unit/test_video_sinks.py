"""Targets of a stream: each gets a video that plays, also where it breaks midway."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import av
import fsspec
import numpy as np
import pytest
import s3fs
from moto.server import ThreadedMotoServer

from ditto_core.errors import InvalidValueError, MissingPackageError
from ditto_core.speech import Sound
from ditto_core.video import TS, EncoderOptions
from ditto_core.video.sinks import SinkError, sink_name, stream_sink

SIZE = (64, 96)
LIVE = EncoderOptions(encoder="libx264", quality="live")
SECRET = "hunter2"  # noqa: S105 - it stands for one


def write_to(target, frames: int = 60, **options) -> None:
    sound = Sound(np.random.default_rng(0).normal(0, 0.1, (1, 640 * frames)).astype(np.float32), 16000)
    pictures = np.random.default_rng(0).integers(0, 255, (frames, *SIZE, 3), dtype=np.uint8)
    with stream_sink(target, size=SIZE, sound=sound, options=LIVE, **options) as writer:
        for picture in pictures:
            writer.write(picture)


def count(data: bytes | Path) -> tuple[int, int]:
    """Frames and samples of sound that can be decoded, up to where the data breaks off."""
    found = {"video": 0, "audio": 0}
    for kind in found:
        with (
            av.open(io.BytesIO(data) if isinstance(data, bytes) else str(data)) as file,
            contextlib.suppress(av.InvalidDataError),
        ):
            for frame in file.decode(**{kind: 0}):
                found[kind] += frame.samples if isinstance(frame, av.AudioFrame) else 1
    return found["video"], found["audio"]


@pytest.mark.parametrize("suffix", [".mp4", ".ts"])
def test_a_file_plays_and_grows_under_its_name(tmp_path, suffix) -> None:
    path, sizes = tmp_path / f"live{suffix}", []
    with stream_sink(path, size=SIZE, options=LIVE) as writer:
        for _ in range(60):
            writer.write(np.random.default_rng(0).integers(0, 255, (*SIZE, 3), dtype=np.uint8))
            sizes.append(path.stat().st_size)
    assert 0 < sizes[40] < path.stat().st_size
    with av.open(str(path)) as file:
        assert sum(1 for _ in file.decode(video=0)) == 60


def test_an_object_a_function_and_a_remote_file_get_the_same_bytes(tmp_path) -> None:
    held, parts = io.BytesIO(), []
    write_to(held)
    write_to(parts.append)
    write_to("memory://bucket/live.mp4")
    write_to(tmp_path / "live.mp4")
    data = held.getvalue()
    assert count(data)[0] == 60 and abs(count(data)[1] - 60 * 1920) <= 1024
    assert b"".join(parts) == data == fsspec.filesystem("memory").cat("/bucket/live.mp4")
    assert (tmp_path / "live.mp4").read_bytes() == data


class Breaking(io.BytesIO):
    name = "pipe"

    def write(self, data) -> int:
        if self.tell() > 400_000:
            raise BrokenPipeError("nobody reads")
        return super().write(data)


@pytest.mark.parametrize("container", [None, TS])
def test_a_target_that_breaks_is_named_and_what_it_took_plays(container) -> None:
    target = Breaking()
    with pytest.raises(SinkError, match="pipe: broke after [0-9]+ bytes .BrokenPipeError: nobody reads"):
        write_to(target, frames=200, container=container)
    frames, samples = count(target.getvalue())
    assert frames >= 25 and samples >= 48000


def received(server: socket.socket, data: bytearray, limit: int | None = None) -> threading.Thread:
    def receive() -> None:
        connection = server.accept()[0] if server.type == socket.SOCK_STREAM else server
        connection.settimeout(10)
        while (block := connection.recv(65536)) and (limit is None or len(data) < limit):
            data.extend(block)
            if server.type == socket.SOCK_DGRAM and block == b"end":
                break
        connection.close()

    thread = threading.Thread(target=receive)
    thread.start()
    return thread


def test_the_network_gets_a_transport_stream() -> None:
    data = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = received(server, data)
        write_to(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert count(bytes(data))[0] == 60


def test_datagrams_arrive() -> None:
    data = bytearray()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        server.bind(("127.0.0.1", 0))
        thread = received(server, data)
        write_to(f"udp://127.0.0.1:{server.getsockname()[1]}?pkt_size=1316", frames=5)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"end", server.getsockname())
        thread.join()
    assert count(bytes(data[:-3]))[0] == 5


LISTENER = """
import contextlib, json, sys, av
found = {"video": 0, "audio": 0}
with av.open(sys.argv[1], options=json.loads(sys.argv[2])) as file, contextlib.suppress(av.FFmpegError):
    for frame in file.decode():
        found["audio" if isinstance(frame, av.AudioFrame) else "video"] += getattr(frame, "samples", 1)
sys.stdout.write(json.dumps(found))
"""
"""In a process of its own: PyAV stops all others of its process while it connects."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_server_gets_a_live_stream() -> None:
    address = f"rtmp://127.0.0.1:{free_port()}/live/{SECRET}"
    words = [sys.executable, "-c", LISTENER, address, json.dumps({"listen": "1"})]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as listener:
        try:
            while listener.poll() is None:
                try:
                    write_to(address)
                    break
                except SinkError as error:  # it does not listen yet
                    assert "refused" in str(error)
                    time.sleep(0.05)
            out, trouble = listener.communicate(timeout=60)
        finally:
            listener.kill()
    assert listener.returncode == 0, trouble
    found = json.loads(out)
    assert found["video"] == 60 and abs(found["audio"] - 60 * 1920) <= 2048


def test_a_protocol_that_this_ffmpeg_lacks_is_named() -> None:
    """PyAV's wheels have no SRT; an FFmpeg that has it finds nobody who listens."""
    with pytest.raises(SinkError, match=r"srt://127.0.0.1:9: .*(no srt|could not be written)") as caught:
        write_to(f"srt://127.0.0.1:9?connect_timeout=100&passphrase={SECRET}")
    assert SECRET not in str(caught.value)


def test_a_peer_that_goes_away_is_an_error_without_its_password() -> None:
    data = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = received(server, data, limit=10_000)
        address = f"tcp://user:{SECRET}@127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(SinkError, match=r"tcp://127.0.0.1:\d+: could not be written") as caught:
            write_to(address.replace(f"user:{SECRET}@", "") + f"?key={SECRET}", frames=2000)
        thread.join()
    assert SECRET not in str(caught.value) and caught.value.__suppress_context__


def test_nobody_listens() -> None:
    with pytest.raises(SinkError, match=r"rtmp://127.0.0.1:9: could not be written") as caught:
        write_to(f"rtmp://127.0.0.1:9/app/{SECRET}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "target, shown",
    [
        (f"rtmp://me:{SECRET}@host:1935/app/{SECRET}", "rtmp://host:1935"),
        (f"srt://host:9000?passphrase={SECRET}", "srt://host:9000"),
        (f"s3://me:{SECRET}@bucket/a/b.mp4?sig={SECRET}", "s3://bucket/a/b.mp4"),
        ("some/file.mp4", "some/file.mp4"),
    ],
)
def test_a_name_holds_no_secret(target, shown) -> None:
    assert sink_name(target) == shown


def test_what_is_no_target_is_refused(tmp_path, monkeypatch) -> None:
    with pytest.raises(InvalidValueError, match="a stream to 'live.avi'"):
        write_to("live.avi")
    with pytest.raises(SinkError, match="can't be written"):
        write_to(tmp_path / "missing" / "live.mp4")
    with pytest.raises(SinkError, match="fsspec can't open it"):
        write_to("nowhere://bucket/live.mp4")
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingPackageError, match="fsspec"):
        write_to("memory://bucket/live.mp4")


def test_a_bucket_gets_parts_while_the_video_grows(monkeypatch) -> None:
    """Against a real S3 server on this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        system = s3fs.S3FileSystem()
        system.mkdir("bucket")
        size, sent = (720, 1280), []
        upload = s3fs.S3File._upload_chunk
        monkeypatch.setattr(
            s3fs.S3File, "_upload_chunk", lambda file, final=False: (sent.append(final), upload(file, final))[1]
        )
        with stream_sink("s3://bucket/live.mp4", size=size, options=LIVE) as writer:
            for seed in range(60):
                writer.write(np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8))
        assert sent.count(False) >= 1 and sent[-1]
        with av.open(io.BytesIO(system.cat("bucket/live.mp4"))) as file:
            assert sum(1 for _ in file.decode(video=0)) == 60
        with pytest.raises(SinkError, match="s3://missing/live.mp4: can't be finished"):
            write_to("s3://missing/live.mp4")
    finally:
        server.stop()

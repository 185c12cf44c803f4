"""The example `webrtc.py`: two real peers on this machine, one of which is the avatar."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from support.models import write_folder

from ditto_core.avatar import CropRequest, register
from ditto_core.backends import TorchBackend
from ditto_core.checkpoints import load_models
from ditto_core.media import read_image
from ditto_core.motion.controls import MotionControls
from ditto_core.motion.curves import Curve
from ditto_core.pipeline.motion import MotionOptions
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.session import Session
from ditto_core.speech import Sound, recipe_hubert

aiortc = pytest.importorskip("aiortc", reason="aiortc, which the example needs, is not installed")
from aiohttp.test_utils import TestClient, TestServer  # noqa: E402

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "webrtc.py"
TURN = 40
"""The frame at which the head turns at once, and a tone begins."""
FRAMES = 75
TONE_HZ, RATE = 600, 48000


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("webrtc", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def parts(tmp_path_factory) -> dict[str, object]:
    models = load_models(write_folder(tmp_path_factory.mktemp("models") / "tiny"))
    picture = np.ascontiguousarray(read_image(ROOT / "ditto_core" / "bundled" / "presenter.png")[100:740:5, 112:752:5])
    return {
        "models": models,
        "encoder": recipe_hubert(models.preset.speech_features, "miniature"),
        "backend": TorchBackend(models),
        "avatar": register(picture, models, crop=CropRequest.parse("full")),
        "motion": MotionOptions(plan=dataclasses.replace(named_plan("low-latency", chunk=8), ending="exact"), steps=1),
        "controls": MotionControls(drive=("exp",), expression_scale=0.05, yaw=Curve((TURN - 1, TURN), (-25.0, 25.0))),
    }


@pytest.fixture(autouse=True)
def on_loopback(monkeypatch) -> None:
    """The library leaves this address out, which is the only one that a machine without a network has."""
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])


def tone(samples: int, rate: int) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * TONE_HZ / rate * np.arange(samples))).astype(np.float32)


class Microphone(aiortc.MediaStreamTrack):
    """Hears a tone."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._position, self._start = 0, time.monotonic()

    async def recv(self) -> av.AudioFrame:
        count = RATE // 50
        await asyncio.sleep(max(0, self._start + self._position / RATE - time.monotonic()))
        values = tone(self._position + count, RATE)[self._position :] * 32767
        frame = av.AudioFrame.from_ndarray(values.astype(np.int16)[None], "s16", "mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, self._position, Fraction(1, RATE)
        self._position += count
        return frame


async def call(host, example, microphone: Microphone | None) -> dict[str, list]:
    """Calls, takes frames, hangs up, and waits until the host has seen it."""
    found: dict[str, list] = {"video": [], "audio": []}
    peer = aiortc.RTCPeerConnection(aiortc.RTCConfiguration(iceServers=[]))
    tasks = []

    async def collect(track, count: int) -> None:
        while len(found[track.kind]) < count:
            found[track.kind].append(await track.recv())

    @peer.on("track")
    def on_track(track) -> None:
        tasks.append(asyncio.ensure_future(collect(track, FRAMES if track.kind == "video" else 2 * FRAMES - 10)))

    peer.addTransceiver("video", direction="recvonly")
    if microphone is None:
        peer.addTransceiver("audio", direction="recvonly")
    else:
        peer.addTrack(microphone)
    await peer.setLocalDescription(await peer.createOffer())
    offer = {"sdp": peer.localDescription.sdp, "type": peer.localDescription.type}
    async with TestClient(TestServer(example.application(host))) as client:
        assert "<video" in await (await client.get("/")).text()
        assert (await client.post("/offer", data=b"{}", headers={"Content-Type": "text/plain"})).status == 415
        assert (await client.post("/offer", json={"sdp": "", "type": "other"})).status == 400
        response = await client.post("/offer", json=offer)
        assert response.status == 200
        assert (await client.post("/offer", json=offer)).status == 503
        await peer.setRemoteDescription(aiortc.RTCSessionDescription(**await response.json()))
        try:
            await asyncio.wait_for(asyncio.gather(*tasks), 100)
        finally:
            await peer.close()
        while host._calls:
            await asyncio.sleep(0.01)
    return found


def seconds(frames: list) -> np.ndarray:
    return np.array([float(frame.pts * frame.time_base) for frame in frames])


def brightness(frames: list) -> np.ndarray:
    return np.stack([frame.to_ndarray(format="gray").astype(np.float32) for frame in frames])


def loudness(frames: list) -> np.ndarray:
    """Share of the full scale that the tone has in each frame."""
    values = []
    for frame in frames:
        samples = frame.to_ndarray().reshape(-1, 2)[:, 0] / 32767
        wave = np.exp(-2j * np.pi * TONE_HZ / RATE * np.arange(len(samples)))
        values.append(2 * abs(np.mean(samples * wave)))
    return np.array(values)


def ended() -> bool:
    for thread in threading.enumerate():
        if thread.name.startswith("ditto"):
            thread.join(10)
    return not any(thread.name.startswith("ditto") for thread in threading.enumerate())


def test_a_caller_sees_and_hears_the_avatar_in_step(example, parts) -> None:
    """Its head turns in the moment in which its speech begins."""
    speech = np.concatenate([np.zeros(TURN * 640, np.float32), tone(TURN * 640, 16000)])[None]
    host = example.Host(lambda: Session(**parts), speech=Sound(speech, 16000))
    found = asyncio.run(call(host, example, None))
    video, audio = seconds(found["video"]), seconds(found["audio"])
    assert np.allclose(np.rint(video * 25), video * 25) and (np.diff(video) > 0).all()
    assert np.allclose(np.diff(audio), 0.02)
    steps = np.abs(np.diff(brightness(found["video"]), axis=0)).mean((1, 2))
    last = int(steps.argmax())  # before the turn; where this machine is slow, the next frame may be missing
    began = audio[int((loudness(found["audio"]) > 0.15).argmax())]
    assert abs(began - TURN / 25) < 0.06 and video[last] - 0.06 < began < video[last + 1] + 0.06
    assert (steps > 0).mean() > 0.5  # also the idle face before the speech moves
    assert ended()


def test_the_avatar_says_what_the_caller_says(example, parts) -> None:
    host = example.Host(lambda: Session(**parts))
    found = asyncio.run(call(host, example, Microphone()))
    assert np.median(loudness(found["audio"])[-50:]) > 0.15
    assert ended()


def test_a_session_that_fails_ends_the_call(example, parts) -> None:
    class Broken(TorchBackend):
        calls = 0

        def faces(self, f_s, x_s, x_d):
            self.calls += 1
            if self.calls > 3:
                raise RuntimeError("the device is gone")
            return super().faces(f_s, x_s, x_d)

    host = example.Host(lambda: Session(**{**parts, "backend": Broken(parts["models"])}))
    with pytest.raises(aiortc.mediastreams.MediaStreamError):
        asyncio.run(call(host, example, None))
    assert ended()


def test_help_needs_no_models_and_a_missing_package_is_named() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE), "--help"], capture_output=True, text=True, check=True)
    assert "--speech" in done.stdout
    hidden = f"import runpy, sys; sys.modules['aiortc'] = None; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "pip install aiortc" in done.stderr and "Traceback" not in done.stderr

"""An avatar that answers over WebRTC: it says what the caller's microphone hears, or a file.

It needs aiortc and aiohttp. A browser calls it from the page that it names:

    python examples/webrtc.py [--speech FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import av
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ditto_core.cli.output import complain, say  # noqa: E402
from ditto_core.cli.render import (  # noqa: E402
    add_avatar_options,
    add_model_options,
    open_avatar,
    open_backend,
    open_models,
)
from ditto_core.errors import DittoError, MissingPackageError  # noqa: E402
from ditto_core.pipeline.clock import SystemClock  # noqa: E402
from ditto_core.pipeline.live_media import MediaFrames, PacedFrames  # noqa: E402
from ditto_core.pipeline.live_source import ContinuousSound  # noqa: E402
from ditto_core.pipeline.motion import MotionOptions  # noqa: E402
from ditto_core.pipeline.plan import named_plan  # noqa: E402
from ditto_core.pipeline.session import Session  # noqa: E402
from ditto_core.pipeline.stream import feed  # noqa: E402
from ditto_core.speech import Sound, read_sound, speech_encoder_for  # noqa: E402

try:
    from aiohttp import web
    from aiortc import MediaStreamTrack, RTCConfiguration, RTCIceServer, RTCPeerConnection, RTCSessionDescription
    from aiortc.mediastreams import MediaStreamError
except ImportError as error:
    missing = MissingPackageError(
        error.name or "aiortc", needed_for="this example", install="pip install aiortc aiohttp"
    )
    raise SystemExit(f"error: {missing}") from error

log = logging.getLogger(__name__)
Frame = TypeVar("Frame", av.VideoFrame, av.AudioFrame)

PAGE = Path(__file__).with_suffix(".html")
PRESENTER = ROOT / "ditto_core" / "bundled" / "presenter.png"
RATE = 48000
PACKET = RATE // 50
"""Samples of an audio packet: 20 ms."""
MARGIN = RATE // 10
"""Samples that the caller's sound is held back, so that a late packet leaves no gap."""
MOST_OFFER_BYTES = 64 << 10


async def taken(frame: Awaitable[Frame | None]) -> Frame:
    """A frame of a session; where it ends or fails, the track ends, too."""
    try:
        made = await frame
    except Exception as error:
        log.exception("the avatar's session failed")
        raise MediaStreamError from error
    if made is None:
        raise MediaStreamError
    return made


class AvatarVideo(MediaStreamTrack):
    """A session's pictures as a track."""

    kind = "video"

    def __init__(self, media: MediaFrames) -> None:
        super().__init__()
        self._media = media

    async def recv(self) -> av.VideoFrame:
        """The next picture, when it is due."""
        return await taken(self._media.next_video())


class AvatarAudio(MediaStreamTrack):
    """A session's sound as a track. One frame must fill one packet, or packets get the same time stamp."""

    kind = "audio"

    def __init__(self, media: MediaFrames) -> None:
        super().__init__()
        self._media = media
        self._resampler = av.AudioResampler("s16", "stereo", RATE, frame_size=PACKET)
        self._packets: deque[av.AudioFrame] = deque()

    async def recv(self) -> av.AudioFrame:
        """The next 20 ms, with the picture that they belong to."""
        while not self._packets:
            self._packets.extend(self._resampler.resample(await taken(self._media.next_audio())))
        return self._packets.popleft()


async def listen(track: MediaStreamTrack, sound: ContinuousSound) -> None:
    """Has the avatar say what a caller's track brings, until it ends."""
    resampler = av.AudioResampler("fltp", "mono", RATE)
    sound.push(np.zeros(MARGIN, np.float32))
    with contextlib.suppress(MediaStreamError):
        while True:
            for frame in resampler.resample(cast(av.AudioFrame, await track.recv())):
                sound.push(frame.to_ndarray().astype(np.float32, copy=False))


class BusyError(Exception):
    """As many calls as may be at once go on."""


class Host:
    """Answers calls; each gets a session of its own, which speaks, or idles on silence.

    Args:
        open_session: makes a session.
        speech: what each caller is told; None says what the caller says.
        most_calls: at once.
        stun: addresses of servers that tell callers outside this network where they are.
    """

    def __init__(
        self,
        open_session: Callable[[], Session],
        *,
        speech: Sound | None = None,
        most_calls: int = 1,
        stun: tuple[str, ...] = (),
    ) -> None:
        self._open_session, self._speech, self._most_calls = open_session, speech, most_calls
        self._configuration = RTCConfiguration(iceServers=[RTCIceServer(urls=list(stun))] if stun else [])
        self._calls: dict[RTCPeerConnection, Session | None] = {}
        self._listeners: set[asyncio.Task[None]] = set()

    async def answer(self, offer: dict[str, Any]) -> dict[str, str]:
        """Takes a call.

        Args:
            offer: "sdp" and "type" of the caller's description.

        Returns:
            The same of the answer.

        Raises:
            BusyError: there are too many calls.
            ValueError: the offer can't be read.
        """
        description = RTCSessionDescription(sdp=offer["sdp"], type=offer["type"])
        if len(self._calls) >= self._most_calls:
            raise BusyError
        peer = RTCPeerConnection(self._configuration)
        self._calls[peer] = None  # the place is taken while the session is made
        try:
            self._calls[peer] = session = await asyncio.to_thread(self._open_session)
            self._connect(peer, session)
            await peer.setRemoteDescription(description)
            await peer.setLocalDescription(await peer.createAnswer())
        except BaseException:
            await self._end(peer)
            raise
        return {"sdp": peer.localDescription.sdp, "type": peer.localDescription.type}

    async def close(self) -> None:
        """Ends all calls."""
        await asyncio.gather(*(self._end(peer) for peer in tuple(self._calls)))

    def _connect(self, peer: RTCPeerConnection, session: Session) -> None:
        clock = SystemClock()
        sound = ContinuousSound(RATE, 1, clock)
        if self._speech is not None:
            sound = ContinuousSound(self._speech.rate, len(self._speech.samples), clock)
            sound.push(self._speech.samples)
        media = MediaFrames(PacedFrames(session, clock))
        video = AvatarVideo(media)
        peer.addTrack(video)
        peer.addTrack(AvatarAudio(media))

        @peer.on("connectionstatechange")
        async def on_change() -> None:
            if peer.connectionState == "connected":
                feed(session, sound)
            elif peer.connectionState in ("failed", "closed"):
                await self._end(peer)

        @peer.on("track")
        def on_track(track: MediaStreamTrack) -> None:
            if track.kind == "audio" and self._speech is None:
                task = asyncio.ensure_future(listen(track, sound))
                self._listeners.add(task)
                task.add_done_callback(self._listeners.discard)

        @video.on("ended")
        async def on_end() -> None:
            await self._end(peer)

    async def _end(self, peer: RTCPeerConnection) -> None:
        session = self._calls.get(peer)
        if session is not None:
            self._calls[peer] = None
            await asyncio.to_thread(session.close)
        await peer.close()
        self._calls.pop(peer, None)


def application(host: Host) -> web.Application:
    """The page, and the route that takes calls."""

    async def page(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(PAGE)

    async def offer(request: web.Request) -> web.Response:
        if request.content_type != "application/json":  # what another site's page may not send
            raise web.HTTPUnsupportedMediaType
        try:
            return web.json_response(await host.answer(await request.json()))
        except BusyError:
            raise web.HTTPServiceUnavailable(text="the avatar speaks with somebody else") from None
        except (ValueError, KeyError, TypeError) as error:
            raise web.HTTPBadRequest(text="this is no offer") from error

    async def shut_down(app: web.Application) -> None:
        await host.close()

    app = web.Application(client_max_size=MOST_OFFER_BYTES)
    app.add_routes([web.get("/", page), web.post("/offer", offer)])
    app.on_shutdown.append(shut_down)
    return app


def main() -> int:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--avatar", type=Path, default=PRESENTER, metavar="FILE", help="picture, video or saved avatar")
    parser.add_argument("--speech", type=Path, metavar="FILE", help="say this, in place of what the caller says")
    parser.add_argument("--chunk", type=int, default=8, metavar="N", help="new frames of a motion window, 1..70")
    parser.add_argument("--calls", type=int, default=1, metavar="N", help="at once")
    parser.add_argument("--stun", action="append", default=[], metavar="URL", help="such as stun:host:3478")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where the page is served")
    parser.add_argument("--port", type=int, default=8080, metavar="N")
    add_model_options(parser)
    add_avatar_options(parser)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    try:
        motion = MotionOptions(plan=named_plan("low-latency", chunk=options.chunk))
        speech = None if options.speech is None else read_sound(options.speech)
        models = open_models(options)
        avatar, backend = open_avatar(options, models), open_backend(options, models)
        encoder = speech_encoder_for(models)
    except DittoError as error:
        complain(f"error: {error}")
        return 2

    def open_session() -> Session:
        return Session(models=models, encoder=encoder, backend=backend, avatar=avatar, motion=motion)

    host = Host(open_session, speech=speech, most_calls=options.calls, stun=tuple(options.stun))
    say(f"http://{options.host}:{options.port}")
    web.run_app(application(host), host=options.host, port=options.port, print=None)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

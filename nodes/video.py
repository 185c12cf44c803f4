"""Frames become a video file, or pictures."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import torch
from comfy_api.latest import InputImpl, io, ui

from ..ditto_core.errors import DittoError, InvalidValueError
from ..ditto_core.pipeline.picture_frames import PictureFrames
from ..ditto_core.pipeline.write import write_video
from ..ditto_core.video import ENCODERS, QUALITIES, EncoderOptions, StreamCopy
from ..ditto_core.video.retime import exact_rate
from ..ditto_core.video.sinks import sink_name, stream_copy
from . import host, live, media, sinks
from .pulling import Origin, Preview, ReportedFrames
from .types import CATEGORY, FramesType, VideoFrames, choices_problem, verdict

_ENDINGS = {"mp4": ".mp4", "mp4 (fragmented)": ".mp4", "ts": ".ts"}
_CONTAINERS = tuple(_ENDINGS)
_PER_FRAME = ("mouth_polygons", "face_boxes")


class NVENCVideoWriter(io.ComfyNode):
    """Frames become a video file."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="NVENCVideoWriter",
            display_name="NVENC Video Writer",
            category=CATEGORY,
            description="Pulls frames and writes them to the output folder while they are made, on the GPU's encoder "
            "where there is one. Dropping the file on the canvas brings this workflow back.",
            inputs=[
                io.MultiType.Input(
                    "frames",
                    [FramesType, io.Image],
                    tooltip="From Ditto Render or Ditto Stream, rendered now; or any IMAGE.",
                ),
                io.Float.Input(
                    "fps",
                    default=25.0,
                    min=0.1,
                    max=240.0,
                    step=0.01,
                    tooltip="Frames a second of an IMAGE; 29.97 means 30000/1001. Ditto's own frames have 25.",
                ),
                io.Combo.Input(
                    "encoder",
                    options=list(ENCODERS),
                    default="auto",
                    tooltip="auto takes the GPU's H.264 where it opens, else x264. Any other is used or refused.",
                ),
                io.Combo.Input(
                    "quality",
                    options=list(QUALITIES),
                    default="web",
                    tooltip="broadcast: best picture; web: small files; live: least work.",
                ),
                io.Combo.Input(
                    "container",
                    options=list(_CONTAINERS),
                    tooltip="The kind of file. Fragmented: what is there plays while the file is still copied. "
                    "ts: for broadcast chains; no browser plays it, and it keeps no workflow.",
                ),
                io.String.Input(
                    "filename_prefix",
                    default="ditto/video",
                    tooltip="Folder and name below ComfyUI's output folder; a number is added.",
                ),
                io.Boolean.Input(
                    "save_metadata",
                    default=True,
                    tooltip="Keep workflow and prompt in the file. Turn it off for files that you give away.",
                ),
                io.Audio.Input(
                    "audio",
                    optional=True,
                    tooltip="What is heard. Ditto's frames bring the sound that they were made of; this one takes its "
                    "place. It is cut, or filled with silence, to the picture's length.",
                ),
                io.String.Input(
                    "sink",
                    optional=True,
                    default="",
                    socketless=True,
                    tooltip="Empty: only the file. Else the address that the video also goes to while it is made: "
                    "rtmp://, srt://, udp://, tcp://, s3:// and the like, where the server's owner has allowed it in "
                    "DITTO_ALLOWED_SINKS. Names and keys in it are not kept in the file.",
                ),
            ],
            outputs=[
                io.Video.Output(display_name="video", tooltip="The finished file."),
                io.String.Output(display_name="report", tooltip="What was done and how long it took, as JSON."),
            ],
            hidden=[io.Hidden.prompt, io.Hidden.extra_pnginfo, io.Hidden.unique_id],
            is_output_node=True,
        )

    @classmethod
    def validate_inputs(
        cls, encoder: str, quality: str, container: str, filename_prefix: str, sink: str | None = ""
    ) -> bool | str:
        """Checks the words, that the file lies below the output folder, and that the sink is allowed."""
        problem = choices_problem(
            {
                "encoder": (encoder, ENCODERS),
                "quality": (quality, QUALITIES),
                "container": (container, _CONTAINERS),
            }
        )
        return problem or sink_problem(sink) or verdict(host.check_prefix, filename_prefix)

    @classmethod
    def execute(
        cls,
        frames: Any,
        fps: float,
        encoder: str,
        quality: str,
        container: str,
        filename_prefix: str,
        save_metadata: bool,
        audio: dict[str, Any] | None = None,
        sink: str = "",
    ) -> io.NodeOutput:
        """Pulls and writes."""
        hidden = cls.hidden
        if sink:
            sinks.check_sink(sink)
        sound = None if audio is None else media.sound_of(audio)
        if isinstance(frames, VideoFrames):
            host.bring_in(*frames.models)
            sound = sound or frames.sound
            origin = Origin.of(hidden.prompt, hidden.unique_id, "frames")
            recipe = ReportedFrames(frames=frames.recipe, origin=origin)
            rate = recipe.fps
        else:
            rate = exact_rate(fps)
            recipe = ReportedFrames(frames=PictureFrames(pictures=frames, fps=rate), origin=None)
        file = host.output_file(filename_prefix, _ENDINGS[container], recipe.size)
        preview = Preview()
        kept = sinks.without_credentials([hidden.prompt, hidden.extra_pnginfo])
        sent: StreamCopy | None = None
        with contextlib.ExitStack() as ending:
            copies = [*ending.enter_context(live.VIDEOS.for_page(hidden.unique_id))]
            if sink:
                sent = ending.enter_context(stream_copy(sink, may_break=True))
                copies.append(sent)
            report = write_video(
                recipe,
                file.path,
                sound=sound,
                video=EncoderOptions(encoder=encoder, quality=quality, fps=rate),
                fragmented="fragmented" in container,
                metadata=host.file_metadata(*kept) if save_metadata and container != "ts" else None,
                copies=copies,
                progress=preview.progress,
                preview=preview.picture,
                check_cancelled=host.check_interrupted,
            )
        summary = {name: value for name, value in report.items() if name not in _PER_FRAME}
        if sent is not None:
            summary |= {"sink": sink_name(sink), "sink_error": None if sent.problem is None else str(sent.problem)}
            if sent.problem is not None:
                host.say_on_node(f"{sent.problem} The file itself is whole.", hidden.unique_id)
        return io.NodeOutput(
            InputImpl.VideoFromFile(str(file.path)),
            json.dumps(summary, indent=1),
            ui=ui.PreviewVideo([file.saved]),
        )


def sink_problem(sink: str | None) -> str | None:
    """Why a stream may not go to an address, in words; None where it may, or where the address is empty."""
    try:
        if sink is None:
            raise InvalidValueError(
                "a sink that comes by a link", remedy="write it into the node, which keeps it secret"
            )
        if sink:
            sinks.check_sink(sink)
    except DittoError as error:
        return str(error)
    return None


class DittoFramesToImages(io.ComfyNode):
    """Frames become pictures for other nodes."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoFramesToImages",
            display_name="Ditto Frames to Images",
            category=CATEGORY,
            description="Renders some frames into memory as an IMAGE for other nodes. One minute of 1080p takes 37 GB: "
            "prefer NVENC Video Writer for whole videos.",
            inputs=[
                FramesType.Input("frames", tooltip="From Ditto Render or Ditto Stream."),
                io.Int.Input("start", default=0, min=0, max=10_000_000, tooltip="The first frame, counted from 0."),
                io.Int.Input(
                    "count",
                    default=512,
                    min=1,
                    max=100_000,
                    tooltip="How many frames at most; 25 are one second, and all of them stay in memory.",
                ),
            ],
            outputs=[
                io.Image.Output(display_name="images", tooltip="The frames."),
                io.String.Output(display_name="report", tooltip="How many frames, and how many GB they take."),
            ],
            hidden=[io.Hidden.prompt, io.Hidden.unique_id],
        )

    @classmethod
    def execute(cls, frames: VideoFrames, start: int, count: int) -> io.NodeOutput:
        """Renders the frames wanted."""
        hidden, recipe = cls.hidden, frames.recipe
        wanted = range(start, min(start + count, len(recipe)))
        if not wanted:
            raise InvalidValueError(
                f"frames from {start} of a video of {len(recipe)}", remedy=f"start at 0 to {len(recipe) - 1}"
            )
        height, width = recipe.size
        gigabytes = len(wanted) * height * width * 3 * 4 / 1e9
        text = f"{len(wanted)} frames of {width}x{height}: {gigabytes:.2f} GB"
        host.say_on_node(text, hidden.unique_id)
        images = _room_for(len(wanted), height, width)
        host.bring_in(*frames.models)
        reported = ReportedFrames(frames=recipe, origin=Origin.of(hidden.prompt, hidden.unique_id, "frames"))
        done = 0
        for chunk in reported.pull(wanted=wanted, check_cancelled=host.check_interrupted):
            images[done : done + len(chunk.pictures)] = media.image_of(chunk.pictures)
            done += len(chunk.pictures)
            host.show_progress(done, len(wanted))
        return io.NodeOutput(images, text)


def _room_for(count: int, height: int, width: int) -> torch.Tensor:
    """(count, height, width, 3) float32, not filled.

    Raises:
        InvalidValueError: there is not as much memory.
    """
    needed = count * height * width * 3 * 4
    free = host.free_memory()
    if needed > free:
        raise InvalidValueError(
            f"{count} frames of {width}x{height}, {needed / 1e9:.1f} GB, where {free / 1e9:.1f} GB of memory are free",
            remedy="take fewer frames, or write the video with NVENC Video Writer",
        )
    return torch.empty(count, height, width, 3)

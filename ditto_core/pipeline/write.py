"""Writing frames to a video file: whoever writes pulls, and so renders."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..progress import Progress
from ..render import GreenScreen, RenderedFrames, nv12_to_rgb
from ..speech import Sound
from ..video import EncoderOptions, StreamCopy, alpha_file, video_file
from .frames import Colour, FrameRecipe
from .timing import StageClock, peak_memory_mb

_VIDEO = EncoderOptions()


def write_video(
    frames: FrameRecipe,
    out: str | Path,
    *,
    sound: Sound | None = None,
    video: EncoderOptions = _VIDEO,
    fragmented: bool = False,
    metadata: Mapping[str, str] | None = None,
    copies: Sequence[StreamCopy] = (),
    progress: Progress | None = None,
    preview: Callable[[Callable[[], Tensor]], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Pulls frames and writes them. The file appears under its name when it is whole.

    Args:
        frames: what is shown, and at which rate.
        out: the .mp4 or .ts file.
        sound: what is heard, with all its channels; cut or filled with silence to the picture's length.
        video: encoder, quality and frame rate of the file; where it is not that of the frames, they are retimed.
        fragmented: makes the .mp4 of pieces that are playable while it grows.
        metadata: texts to keep in the file under any names.
        copies: where else the encoded stream goes, while it grows; see `video.sinks.stream_copy`.
        progress: called with the stages of the frames, and ("frames", done, all).
        preview: called before each ("frames", ...) with a function that makes the chunk's last picture, (H, W, 3)
            uint8 RGB on the device, for who wants to see it.
        check_cancelled: called before each chunk of frames and within longer work; raises to stop.

    Returns:
        The report, ready for JSON: figures of the run, what the frames say of themselves, and for each rendered
        frame, of which there are `source_fps` a second, the mouth's polygon and the face's box in pixels. `frames`
        and `fps` are the file's own; see `video.retime` for which rendered frame each shows. `ttff_ms` is from the
        call to the first video packet at the muxer, `realtime_factor` seconds of video a second of work.

    Raises:
        InvalidValueError: an option is out of range, or parts do not belong together.
        EncoderError: the encoder asked for does not open.
        FileError: the file can't be written.
        SinkError: a copy can't be written.
    """
    pulled = _Pulled(frames, progress=progress, preview=preview, check_cancelled=check_cancelled)
    with (
        contextlib.ExitStack() as ending,
        video_file(
            out,
            size=frames.size,
            sound=sound,
            options=video,
            source_fps=frames.fps,
            fragmented=fragmented,
            metadata=metadata,
            copies=copies,
        ) as writer,
    ):
        for chunk in pulled.chunks("nv12"):
            with pulled.clock.stage("encode"):
                writer.write_nv12(chunk.pictures)
        ending.enter_context(pulled.clock.stage("finish"))
    first_packet, report = writer.first_packet_at, writer.report()
    about, clock = pulled.report(), pulled.clock
    wall = clock.since_start()
    return {
        "frames": report["frames"],
        "fps": report["fps"],
        "source_fps": str(frames.fps),
        "size": [frames.size[1], frames.size[0]],
        "duration_s": report["duration_s"],
        "wall_s": round(wall, 3),
        "ttff_ms": None if first_packet is None else round(clock.since_start(first_packet) * 1000, 1),
        "realtime_factor": round(report["duration_s"] / wall, 3),
        "encoder": report["encoder"],
        "quality": report["quality"],
        "executed_by": {**about.pop("executed_by"), "encode": report["executed_by"]},
        **about,
    }


def write_alpha(
    frames: FrameRecipe,
    out: str | Path,
    screen: GreenScreen,
    *,
    sound: Sound | None = None,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Pulls frames, cuts the presenter out, and writes pictures with straight alpha.

    Args:
        frames: what is shown; the presenter stands before the screen.
        out: a .mov (ProRes 4444), or a folder of PNG files.
        screen: what is cut away.
        sound: see `write_video`.
        progress: see `write_video`.
        check_cancelled: see `write_video`.

    Returns:
        The report, as of `write_video`.

    Raises:
        InvalidValueError: an option is out of range, or parts do not belong together.
        FileError: the file or folder can't be written.
    """
    pulled = _Pulled(frames, progress=progress, check_cancelled=check_cancelled)
    with alpha_file(out, size=frames.size, sound=sound, fps=frames.fps) as writer:
        for chunk in pulled.chunks("rgb"):
            with pulled.clock.stage("encode"):
                writer.write(screen.straight(chunk.pictures))
    about, wall = pulled.report(), pulled.clock.since_start()
    encoder = "prores_ks" if Path(out).suffix else "png"
    seconds = float(pulled.count / frames.fps)
    return {
        "frames": pulled.count,
        "fps": str(frames.fps),
        "source_fps": str(frames.fps),
        "size": [frames.size[1], frames.size[0]],
        "duration_s": seconds,
        "wall_s": round(wall, 3),
        "realtime_factor": round(seconds / wall, 3),
        "encoder": encoder,
        "executed_by": {**about.pop("executed_by"), "encode": f"{encoder}, RGB and alpha"},
        **about,
    }


class _Pulled:
    """Chunks of frames on their way to a file, with what a report tells of them.

    Attributes:
        clock: of the run.
        count: frames pulled so far.
    """

    def __init__(
        self,
        frames: FrameRecipe,
        *,
        progress: Progress | None = None,
        preview: Callable[[Callable[[], Tensor]], None] | None = None,
        check_cancelled: Callable[[], None] | None = None,
    ) -> None:
        self.clock = StageClock(frames.device)
        self.count = 0
        self._frames, self._progress, self._preview = frames, progress, preview
        self._check_cancelled = check_cancelled
        self._mouths: list[list[list[float]]] = []
        self._boxes: list[list[int]] = []
        if frames.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(frames.device)

    def chunks(self, colour: Colour) -> Iterator[RenderedFrames]:
        """Chunks in order; progress is told of each after it was taken."""
        for chunk in self._frames.pull(
            colour=colour, clock=self.clock, progress=self._progress, check_cancelled=self._check_cancelled
        ):
            yield chunk
            self.count += len(chunk.pictures)
            self._mouths += [[[round(v, 2) for v in point] for point in polygon] for polygon in chunk.mouths.tolist()]
            self._boxes += [list(box) for box in chunk.face_boxes]
            if self._preview is not None:
                self._preview(functools.partial(_last_picture, chunk))
            if self._progress is not None:
                self._progress("frames", self.count, len(self._frames))

    def report(self) -> dict[str, Any]:
        """What the frames say of themselves, the run's stages and memory, and where mouth and face are."""
        return {
            **self._frames.report(),
            "stages_ms": self.clock.stages_ms(),
            "peak_memory_mb": peak_memory_mb(self._frames.device),
            "mouth_polygons": self._mouths,
            "face_boxes": self._boxes,
        }


def _last_picture(chunk: RenderedFrames) -> Tensor:
    return nv12_to_rgb(chunk.pictures[-1:])[0]

"""A video beside the one that it should equal."""

from __future__ import annotations

import json
from typing import Any

import torch
from comfy_api.latest import io
from PIL import Image

from ..ditto_core.errors import InvalidValueError
from ..ditto_core.quality import FaceTrack, compare_videos, comparison_picture, summary
from . import host, media
from .types import CATEGORY

_LARGEST = 8192
_MOST_FRAMES = 1 << 20


class DittoCompareVideos(io.ComfyNode):
    """Says where two videos differ."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoCompareVideos",
            display_name="Ditto Compare Videos",
            category=CATEGORY,
            description="Compares a video with the one it should equal, frame by frame: pictures, jumps, missing and "
            "doubled frames, the mouth, and sound against picture. Shows frames beside each other, and courses.",
            inputs=[
                io.Video.Input("reference", tooltip="The video as it should be."),
                io.Video.Input("test", tooltip="The video to look at. Frames are compared where size and rate agree."),
                _pixels("mouth_x", "Left edge of the box around the mouth, in pixels, in all frames."),
                _pixels("mouth_y", "Upper edge of that box."),
                _pixels("mouth_width", "Width of that box. 0: it is not known where the mouth is."),
                _pixels("mouth_height", "Height of that box. 0: it is not known where the mouth is."),
            ],
            outputs=[
                io.Image.Output(display_name="picture", tooltip="Frames beside each other, and courses over time."),
                io.String.Output(display_name="report", tooltip="All figures and findings, as JSON."),
                io.String.Output(display_name="summary", tooltip="The main figures and what was found, in words."),
            ],
            hidden=[io.Hidden.unique_id],
            is_output_node=True,
        )

    @classmethod
    def execute(
        cls, reference: Any, test: Any, mouth_x: int, mouth_y: int, mouth_width: int, mouth_height: int
    ) -> io.NodeOutput:
        """Compares."""
        if bool(mouth_width) != bool(mouth_height):
            raise InvalidValueError(
                f"a mouth of {mouth_width}x{mouth_height} pixels", remedy="give both sides, or 0 and 0"
            )
        box = (mouth_x, mouth_y, mouth_x + mouth_width, mouth_y + mouth_height)
        found = compare_videos(
            media.video_file(reference),
            media.video_file(test),
            track=FaceTrack.resting(box, _MOST_FRAMES) if mouth_width else None,
            progress=lambda _, done, total: host.show_progress(done, total),
            check_cancelled=host.check_interrupted,
        )
        picture = comparison_picture(found)
        text = "\n".join(summary(found.report))
        host.say_on_node(text, cls.hidden.unique_id)
        return io.NodeOutput(
            media.image_of(torch.from_numpy(picture)[None]),
            json.dumps(found.report, indent=1),
            text,
            ui=host.show_picture(Image.fromarray(picture)),
        )


def _pixels(name: str, tooltip: str) -> io.Int.Input:
    return io.Int.Input(name, default=0, min=0, max=_LARGEST, tooltip=tooltip)

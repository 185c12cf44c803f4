"""The suite `encode`: paste-back to NV12 alone, and the encoding of 150 frames, at both video sizes."""

from __future__ import annotations

import importlib
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..media import read_image
from ..networks.presets import FACE_SIZE
from ..render import (
    StillPaste,
    fitted_background,
    nv12_to_rgb,
    paste,
    paste_nv12,
    place,
    rgb_to_nv12,
)
from ..render.paste import Placement, edge_mask
from ..video import QUALITIES, EncoderError, EncoderOptions, choose_encoder, video_file
from .measure import milliseconds
from .run import Result, Settings, Stage

FRAMES = 150
SIZES = {"1080x1920": (1920, 1080), "1920x1080": (1080, 1920)}
"""Height and width by the usual name."""
_FACE_SHARE = 0.65
"""The crop's side as a share of the frame's shorter side, as registration makes it for a head and shoulders."""
_DEGREES = 3.0
_DIFFERENT = 30
_PRESENTER = Path(__file__).parent.parent / "bundled" / "presenter.png"
_ENCODERS = ("libx264", "h264_nvenc")


def encode_suite(settings: Settings) -> Iterator[Stage]:
    """Paste-back at both sizes, then encoding at both."""
    for name, size in SIZES.items():
        yield Stage(name=f"paste_{name}", run=lambda size=size: paste_times(size, settings.device, settings.batch))  # type: ignore[misc]
    for name, size in SIZES.items():
        for encoder in _ENCODERS:
            for quality in QUALITIES:
                options = EncoderOptions(encoder=encoder, quality=quality)
                yield Stage(
                    name=f"encode_{name}_{encoder}_{quality}",
                    run=lambda size=size, options=options: encoding(size, options, settings.device),  # type: ignore[misc]
                )


class Scene:
    """A frame, and faces that move in it. Deterministic.

    Args:
        size: height and width.
        device: where the faces are.

    Attributes:
        frame: (H, W, 3) uint8 RGB.
        matrix: (1, 3, 3) from pixels of the face crop to pixels of the frame.
        placement: of the faces.
    """

    def __init__(self, size: tuple[int, int], device: torch.device) -> None:
        self.frame = fitted_background(torch.from_numpy(read_image(_PRESENTER)), size).to(device)
        side = _FACE_SHARE * min(size)
        scale, turn = side / FACE_SIZE, math.radians(_DEGREES)
        cos, sin = scale * math.cos(turn), scale * math.sin(turn)
        left, top = (size[1] - side) / 2, (size[0] - side) / 3
        self.matrix = torch.tensor([[[cos, -sin, left], [sin, cos, top], [0, 0, 1]]])
        self.placement = place(self.matrix, size, device)
        crop = self.frame[round(top) : round(top + side), round(left) : round(left + side)]
        picture = crop.permute(2, 0, 1)[None].float() / 255
        self._face = F.interpolate(picture, (FACE_SIZE, FACE_SIZE), mode="bilinear", antialias=True)

    def faces(self, first: int, count: int) -> Tensor:
        """(count, 3, 512, 512): the face, moved to and fro by up to four pixels."""
        moves = [round(4 * math.sin(2 * math.pi * i / _DIFFERENT)) for i in range(first, first + count)]
        return torch.cat([self._face.roll(move, -2) for move in moves])

    def frames(self) -> Tensor:
        """(30, 3 H / 2, W) uint8 NV12: the frames that are encoded, again and again."""
        background = rgb_to_nv12(self.frame[None])
        batches = [self.faces(first, 5) for first in range(0, _DIFFERENT, 5)]
        return torch.cat([paste_nv12(faces, self.frame[None], background, self.placement) for faces in batches])


@torch.inference_mode()
def paste_times(size: tuple[int, int], device: torch.device, batch: int) -> Result:
    """Paste-back of one batch: to NV12, to RGB, and by floats over the whole frame."""
    scene = Scene(size, device)
    faces, frames = scene.faces(0, batch), scene.frame[None]
    background = rgb_to_nv12(frames)
    box = scene.placement.box
    ways: dict[str, Callable[[], Any]] = {
        "nv12_general": lambda: paste_nv12(faces, frames, background, scene.placement),
        "rgb": lambda: paste(faces, frames, scene.placement),
    }
    result: Result = {"batch": batch, "box": [box.right - box.left, box.bottom - box.top]}
    if device.type == "cpu":
        still = StillPaste(frames[0], background[0], scene.placement)
        ways = {"nv12": lambda: still(faces), **ways}
        result["prepare_ms"] = milliseconds(lambda: StillPaste(frames[0], background[0], scene.placement), device)["ms"]
    else:
        ways = {"nv12": ways.pop("nv12_general"), **ways}
    baseline = _opencv_paste(faces, scene) or _float_paste(faces, scene)
    ways["whole_frame_float"] = baseline[1]
    times = {name: milliseconds(way, device) for name, way in ways.items()}
    result |= {name: {**timed, "frames_per_s": _rate(batch, timed)} for name, timed in times.items()}
    result["whole_frame_float"]["by"] = baseline[0]
    result["frames_per_s"] = result["nv12"]["frames_per_s"]
    result["times_as_fast_as_whole_frame_float"] = round(times["whole_frame_float"]["ms"] / times["nv12"]["ms"], 2)
    return result


def encoding(size: tuple[int, int], options: EncoderOptions, device: torch.device) -> Result:
    """Encodes 150 frames from NV12, and from RGB."""
    try:
        result: Result = {"encoder": choose_encoder(options, size).executed_by, "quality": options.quality}
    except EncoderError as error:
        return {"not_measured": error.problem}
    nv12 = Scene(size, device).frames()
    pictures = {"nv12": nv12, "rgb": nv12_to_rgb(nv12)}
    with tempfile.TemporaryDirectory() as folder:
        for form, frames in pictures.items():
            path = Path(folder) / f"{form}.mp4"
            cpu, start = _cpu_seconds(), time.perf_counter()
            with video_file(path, size=size, options=options) as writer:
                write = writer.write_nv12 if form == "nv12" else writer.write
                for i in range(FRAMES):
                    write(frames[i % len(frames)][None])
            wall = time.perf_counter() - start
            report = writer.report()
            result[form] = {
                "frames_per_s": round(FRAMES / wall, 1),
                "cpu_s": round(_cpu_seconds() - cpu, 3),
                "bytes_copied": report["bytes_copied"],
                "input": report["input"],
                "file_bytes": path.stat().st_size,
            }
    result["frames_per_s"] = result["nv12"]["frames_per_s"]
    return result


def _rate(batch: int, timed: Result) -> float:
    return round(1000 * batch / timed["ms"], 1)


def _cpu_seconds() -> float:
    """Of this process and the children that have ended."""
    return sum(os.times()[:4])


def _float_paste(faces: Tensor, scene: Scene) -> tuple[str, Callable[[], Any]]:
    """Face and mask sampled for every pixel of the frame, mixed in float32, rounded; in torch."""
    size = scene.frame.shape[0], scene.frame.shape[1]
    whole = _whole_frame(scene.matrix, size, faces.device)
    mask = whole.mask[0, 0, ..., None]

    def run() -> Tensor:
        sampled = F.grid_sample(faces, whole.grid.expand(len(faces), -1, -1, -1), align_corners=False)
        mixed = mask * (sampled.permute(0, 2, 3, 1) * 255) + (1 - mask) * scene.frame.float()
        return mixed.clamp(0, 255).to(torch.uint8)

    return "torch", run


def _whole_frame(matrix: Tensor, size: tuple[int, int], device: torch.device) -> Placement:
    """A placement whose box is the frame: of two faces, the second a crop of all of it."""
    largest = max(size) / (FACE_SIZE - 1)
    all_of_it = torch.diag(torch.tensor([largest, largest, 1.0]))[None]
    both = place(torch.cat([matrix, all_of_it]), size, device)
    return Placement(box=both.box, grid=both.grid[:1], mask=both.mask[:1])


def _opencv_paste(faces: Tensor, scene: Scene) -> tuple[str, Callable[[], Any]] | None:
    """The same by OpenCV, where it is installed and the faces are on the CPU: how the original does it."""
    if faces.is_cuda:
        return None
    try:
        cv2 = importlib.import_module("cv2")
    except ImportError:
        return None
    pictures = [np.ascontiguousarray(face.permute(1, 2, 0).numpy() * 255) for face in faces]
    mask = edge_mask(FACE_SIZE, FACE_SIZE, ratio_height=0.9, ratio_width=0.9).float().numpy()
    matrix, frame = scene.matrix[0, :2].double().numpy(), scene.frame.numpy()
    target = (frame.shape[1], frame.shape[0])
    share = cv2.warpAffine(mask, matrix, target)[..., None]  # an image avatar's mask is made once

    def run() -> list[Any]:
        pasted = []
        for picture in pictures:
            sampled = cv2.warpAffine(picture, matrix, target)
            pasted.append((share * sampled + (1 - share) * frame).clip(0, 255).astype(np.uint8))
        return pasted

    return f"OpenCV {cv2.__version__}", run

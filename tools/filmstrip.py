"""Frames of a video beside each other, as one picture.

python -m tools.filmstrip VIDEO PICTURE.png FRAME [FRAME ...] [--height PIXELS]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from ditto_core.errors import InvalidValueError
from ditto_core.media import open_media

from .miniature.presenter_sheet import to_bytes, write_png


def filmstrip(video: Path, frames: list[int], height: int) -> np.ndarray:
    """The frames in their order, (height, width, 3) uint8 RGB.

    Raises:
        InvalidValueError: the video has no such frame.
    """
    with open_media(video, "video") as media:
        found = {i: picture for i, picture in enumerate(media.pictures()) if i in frames}
    missing = sorted(set(frames) - found.keys())
    if missing:
        raise InvalidValueError(f"frames {missing} of {video}", remedy="choose frames that the video has")
    strip = torch.from_numpy(np.concatenate([found[i] for i in frames], axis=1)).permute(2, 0, 1)[None].float() / 255
    width = round(strip.shape[3] * height / strip.shape[2])
    return to_bytes(F.interpolate(strip, (height, width), mode="area")[0])


def main() -> None:
    """Writes the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("video", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("frames", type=int, nargs="+")
    parser.add_argument("--height", type=int, default=320)
    chosen = parser.parse_args()
    write_png(chosen.picture, filmstrip(chosen.video, chosen.frames, chosen.height))


if __name__ == "__main__":
    main()

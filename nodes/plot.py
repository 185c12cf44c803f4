"""A picture of motion over the sound that it was made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..ditto_core.motion.readings import MotionReadings
from ..ditto_core.speech import Sound
from ..ditto_core.speech.windows import FRAME_RATE

_WIDTH, _PANEL, _MARGIN = 960, 170, 30
_BACKGROUND, _WAVE, _GRID, _TEXT = (24, 24, 28), (62, 78, 96), (54, 54, 60), (210, 210, 214)
_APERTURE = (255, 196, 64)
_POSE = {"pitch": (86, 200, 255), "yaw": (120, 230, 130), "roll": (255, 120, 160)}
_LEAST_DEGREES = 2.0

Color = tuple[int, int, int]


def draw_motion(sound: Sound, readings: MotionReadings) -> Image.Image:
    """Two panels over the waveform: how far the mouth opens, and how the head turns."""
    picture = Image.new("RGB", (_WIDTH, 2 * (_PANEL + _MARGIN) + _MARGIN), _BACKGROUND)
    draw = ImageDraw.Draw(picture)
    seconds = len(readings.aperture) / FRAME_RATE
    first = _Panel(draw, _MARGIN, seconds)
    first.waveform(sound)
    first.scale(0.0, max(float(readings.aperture.max()), 1.0))
    first.curve(readings.aperture, _APERTURE)
    first.title([("mouth height, pixels of the 512 face", _APERTURE)])
    second = _Panel(draw, 2 * _MARGIN + _PANEL, seconds)
    second.waveform(sound)
    reach = max(_LEAST_DEGREES, *(float(np.abs(curve).max()) for curve in readings.pose.values()))
    second.scale(-reach, reach)
    for name, curve in readings.pose.items():
        second.curve(curve, _POSE[name])
    second.title([("degrees from rest:", _TEXT), *_POSE.items()])
    second.times()
    return picture


class _Panel:
    """One chart of the picture.

    Args:
        draw: where to.
        top: its upper edge.
        seconds: what its width stands for.
    """

    def __init__(self, draw: ImageDraw.ImageDraw, top: int, seconds: float) -> None:
        self._draw = draw
        self._top, self._bottom = top, top + _PANEL
        self._seconds = seconds
        self._range = (0.0, 1.0)

    def waveform(self, sound: Sound) -> None:
        """The sound behind it, each column from its lowest to its highest sample."""
        loudest = max(float(np.abs(sound.samples).max()), 1e-6)
        middle = (self._top + self._bottom) / 2
        edges = np.linspace(0, self._seconds * sound.rate, _WIDTH + 1).astype(int)
        for x, (start, stop) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
            part = sound.samples[:, start : max(stop, start + 1)]
            if part.size:
                high, low = float(part.max()) / loudest, float(part.min()) / loudest
                self._draw.line((x, middle - high * _PANEL / 2, x, middle - low * _PANEL / 2), fill=_WAVE)

    def scale(self, low: float, high: float) -> None:
        """What the lower and upper edge stand for, with lines there and in the middle."""
        self._range = (low, high)
        for value in (low, (low + high) / 2, high):
            y = self._y(value)
            self._draw.line((0, y, _WIDTH, y), fill=_GRID)
            self._draw.text((2, y + 1 if value == high else y - 12), f"{value:.1f}", fill=_TEXT)

    def curve(self, values: NDArray[np.floating], color: Color) -> None:
        """One value a frame."""
        step = _WIDTH / len(values)
        points = [((frame + 0.5) * step, self._y(float(value))) for frame, value in enumerate(values)]
        self._draw.line(points if len(points) > 1 else points * 2, fill=color, width=2)

    def title(self, words: list[tuple[str, Color]]) -> None:
        """Words in their colours above the panel."""
        x = 8.0
        for word, color in words:
            self._draw.text((x, self._top - 15), word, fill=color)
            x += self._draw.textlength(word) + 12

    def times(self) -> None:
        """Seconds below the panel."""
        step = next(step for step in (0.5, 1, 2, 5, 10, 30, 60, 300, 1800) if self._seconds / step <= 20)
        for tick in np.arange(0, self._seconds, step):
            x = float(tick) / self._seconds * _WIDTH
            self._draw.line((x, self._bottom, x, self._bottom + 4), fill=_TEXT)
            self._draw.text((x + 2, self._bottom + 4), f"{tick:g} s", fill=_TEXT)

    def _y(self, value: float) -> float:
        low, high = self._range
        return self._bottom - (value - low) / (high - low) * (self._bottom - self._top)

"""Makes the portrait and the speech that travel with the package.

python -m tools.miniature.bundle [FOLDER]
"""

from __future__ import annotations

import dataclasses
import sys
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ditto_core.errors import InvalidValueError

from .corpus import utterance_targets
from .presenter import render
from .presenter_cast import cast
from .presenter_geometry import BUST
from .presenter_parameters import Motion
from .presenter_sheet import to_bytes, write_png
from .speech_espeak import SAMPLE_RATE, Utterance, say

PRESENTER = "anna"
NEWS = (
    "Good evening. Members of parliament promised a bigger budget for public transport, "
    "and the museum may open in September."
)
NEWS_VOICE, NEWS_WORDS_PER_MINUTE = "en+f2", 180
NEWS_SAMPLES = 165 * 640
"""6.6 s, a whole number of frames."""
_LEAD_SAMPLES = SAMPLE_RATE // 10

_DEFAULT = Path(__file__).parents[2] / "ditto_core" / "bundled"


def news_samples() -> NDArray[np.int16]:
    """The bundled sentence, with silence around it; the same in each new process."""
    spoken = say(NEWS, voice=NEWS_VOICE, words_per_minute=NEWS_WORDS_PER_MINUTE).samples
    if len(spoken) + _LEAD_SAMPLES > NEWS_SAMPLES:
        raise InvalidValueError(
            f"sentence of {len(spoken)} samples", remedy=f"shorten it to {NEWS_SAMPLES - _LEAD_SAMPLES}"
        )
    padded = np.pad(spoken, (_LEAD_SAMPLES, NEWS_SAMPLES - _LEAD_SAMPLES - len(spoken)))
    scaled: NDArray[np.float32] = np.round(padded * (0.8 * 32767 / np.abs(padded).max()))
    return scaled.astype(np.int16)


def news_targets() -> NDArray[np.float32]:
    """(165, 7) what the bundled sentence asks of a face in each frame, in the order of `corpus.TARGETS`."""
    spoken = say(NEWS, voice=NEWS_VOICE, words_per_minute=NEWS_WORDS_PER_MINUTE)
    lead = _LEAD_SAMPLES / SAMPLE_RATE
    later = (dataclasses.replace(p, start=p.start + lead, end=p.end + lead) for p in spoken.phonemes)
    samples = np.pad(spoken.samples, (_LEAD_SAMPLES, NEWS_SAMPLES - _LEAD_SAMPLES - len(spoken.samples)))
    return utterance_targets(Utterance(samples=samples, phonemes=tuple(later)))


def write_bundle(folder: Path) -> None:
    """Writes presenter.png and news.wav."""
    portrait = render(cast([PRESENTER]), Motion.neutral(), BUST)[0]
    write_png(folder / "presenter.png", to_bytes(portrait))
    with wave.open(str(folder / "news.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(news_samples().astype("<i2").tobytes())


if __name__ == "__main__":
    write_bundle(Path(sys.argv[1]) if len(sys.argv) > 1 else _DEFAULT)

"""espeak-ng as a library: speech with the times of its phonemes (free voices only; no mbrola).

The library is used in its synchronous mode, the one that does not hang. It keeps its state per process: calls are
made one at a time, and its pulse goes on from call to call. So the same calls in the same order give the same
samples in each new process, while a repeated call gives slightly other ones.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
import functools
import threading
from collections.abc import Sequence

import av
import numpy as np
from numpy.typing import NDArray

from ditto_core.errors import DittoError, InvalidValueError

SAMPLE_RATE = 16000
VOICES = ("en-us", "en", "en-us+f3", "en+f2", "en-us+m3", "en+m7", "en-us+f5", "en-gb-scotland")
"""Voices to train with. British English is named "en": espeak-ng 1.51 finds no "en-gb" by name."""
OTHER_VOICES = ("en-us+m1", "en+f4", "en-gb-x-rp", "en-us+f1")
"""Voices to test with."""

_SYNCHRONOUS = 2
_PHONEME_EVENTS, _DO_NOT_EXIT = 0x0001, 0x8000
_UTF8 = 1
_RATE, _PITCH = 1, 3
_LIST_END, _PHONEME = 0, 7
_MAX_CHARACTERS = 5000
_lock = threading.Lock()


class EspeakError(DittoError):
    """espeak-ng is not installed, or it could not do what was asked."""


class _Id(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _Id),
    ]


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


@dataclasses.dataclass(frozen=True)
class Phoneme:
    """One phoneme of an utterance.

    Attributes:
        start: seconds from the first sample.
        end: seconds; the start of the next.
        name: espeak-ng's ASCII mnemonic, with stress marks; empty or "_..." for a pause.
    """

    start: float
    end: float
    name: str


@dataclasses.dataclass(frozen=True)
class Utterance:
    """Spoken text.

    Attributes:
        samples: float32 (n,), mono, 16 kHz, -1..1.
        phonemes: in order of time.
    """

    samples: NDArray[np.float32]
    phonemes: tuple[Phoneme, ...]


@functools.cache
def _library() -> tuple[ctypes.CDLL, int]:
    """The library, ready, and its sample rate."""
    name = ctypes.util.find_library("espeak-ng") or "libespeak-ng.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise EspeakError(
            f"the library espeak-ng can't be loaded ({error})", remedy="install it: apt-get install espeak-ng"
        ) from error
    library.espeak_Synth.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_uint,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_uint,
        ctypes.POINTER(ctypes.c_uint),
        ctypes.c_void_p,
    ]
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, None, _PHONEME_EVENTS | _DO_NOT_EXIT)
    if rate <= 0:
        raise EspeakError(
            f"espeak-ng gave {rate} when it was set up",
            remedy="install its voices: apt-get install espeak-ng-data",
        )
    return library, rate


def version() -> str:
    """The library's version, as "1.51"."""
    info = _library()[0].espeak_Info
    info.restype, info.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    return str(info(None).decode("ascii", "replace")).split()[0]


def say(text: str, *, voice: str = "en-us", words_per_minute: int = 165, pitch: int = 50) -> Utterance:
    """Speaks a text.

    Args:
        text: at most 5000 characters.
        voice: a language, with a variant after "+" where wanted; see VOICES.
        words_per_minute: 80..450.
        pitch: 0..100, 50 is the voice's own.

    Raises:
        InvalidValueError: a value is out of range.
        EspeakError: the library is missing, does not know the voice, or has nothing to say.
    """
    if not 1 <= len(text) <= _MAX_CHARACTERS or "\0" in text:
        raise InvalidValueError(
            f"text of {len(text)} characters", remedy=f"pass 1 to {_MAX_CHARACTERS} of them, no NUL"
        )
    if not (80 <= words_per_minute <= 450 and 0 <= pitch <= 100):
        raise InvalidValueError(
            f"words_per_minute {words_per_minute}, pitch {pitch}",
            remedy="use 80 to 450 words a minute, pitch 0 to 100",
        )
    with _lock:
        pieces, events, rate = _synthesize(text.encode(), voice, words_per_minute, pitch)
    if not pieces:
        raise EspeakError(f"espeak-ng gave no sound for {text!r}", remedy="pass a text with words")
    raw = np.concatenate(pieces)
    length = len(raw) / rate
    starts = [sample / rate for sample, _ in events]
    ends = [*starts[1:], length]
    phonemes = (Phoneme(s, max(s, e), name) for s, e, (_, name) in zip(starts, ends, events, strict=True))
    return Utterance(_resample(raw, rate), tuple(phonemes))


def _synthesize(
    text: bytes, voice: str, words_per_minute: int, pitch: int
) -> tuple[list[NDArray[np.int16]], list[tuple[int, str]], int]:
    """Samples, and (sample position, mnemonic) of each phoneme."""
    library, rate = _library()
    pieces: list[NDArray[np.int16]] = []
    events: list[tuple[int, str]] = []

    def receive(samples: ctypes._Pointer[ctypes.c_short], count: int, event: Sequence[_Event]) -> int:
        if samples and count > 0:
            pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        index = 0
        while event[index].type != _LIST_END:
            if event[index].type == _PHONEME:
                name = bytes(event[index].id.string).split(b"\0")[0].decode("ascii", "replace")
                events.append((event[index].sample, name))
            index += 1
        return 0

    callback = _Callback(receive)
    library.espeak_SetSynthCallback(callback)
    if library.espeak_SetVoiceByName(voice.encode()) != 0:
        raise EspeakError(f"espeak-ng has no voice '{voice}'", remedy="see `espeak-ng --voices` for those installed")
    library.espeak_SetParameter(_RATE, words_per_minute, 0)
    library.espeak_SetParameter(_PITCH, pitch, 0)
    status = library.espeak_Synth(text, len(text) + 1, 0, 1, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    library.espeak_SetSynthCallback(None)
    if status != 0:
        raise EspeakError(f"espeak-ng failed with code {status}", remedy="check its installation")
    return pieces, events, rate


def _resample(raw: NDArray[np.int16], rate: int) -> NDArray[np.float32]:
    resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
    frame = av.AudioFrame.from_ndarray(raw[None], format="s16", layout="mono")
    frame.sample_rate = rate
    blocks = [out.to_ndarray()[0] for out in (*resampler.resample(frame), *resampler.resample(None))]
    samples: NDArray[np.float32] = np.concatenate(blocks)[: len(raw) * SAMPLE_RATE // rate]
    return samples

"""Speech by espeak-ng: sound that agrees with the times of its phonemes, and what the mouth does with them."""

from __future__ import annotations

import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.errors import InvalidValueError
from tools.miniature import bundle, speech_espeak
from tools.miniature.speech_espeak import OTHER_VOICES, VOICES, EspeakError, Phoneme, Utterance, say
from tools.miniature.speech_texts import OTHER_TEXTS, news_sentences
from tools.miniature.speech_visemes import frame_count, is_closure, mouth_targets, shape_of

ROOT = Path(__file__).parents[2]
BUNDLED = ROOT / "ditto_core" / "bundled"


@pytest.fixture(scope="module")
def utterance() -> Utterance:
    return say("Maps and people begin to boom. My brother Bobby bought some paper boats.")


def rms(utterance: Utterance, phoneme: Phoneme) -> float:
    length = phoneme.end - phoneme.start
    start, end = (int(16000 * (phoneme.start + part * length)) for part in (0.25, 0.65))
    return float(np.sqrt(np.mean(utterance.samples[start : max(end, start + 80)] ** 2)))


def test_phonemes_follow_each_other_to_the_end(utterance: Utterance) -> None:
    phonemes = utterance.phonemes
    assert len(phonemes) > 40
    assert all(a.end == b.start and a.start <= a.end for a, b in zip(phonemes, phonemes[1:], strict=False))
    assert phonemes[0].start < 0.1
    assert phonemes[-1].end == pytest.approx(len(utterance.samples) / 16000, abs=0.001)


def test_closures_are_quiet_where_their_events_say(utterance: Utterance) -> None:
    closures = [rms(utterance, p) for p in utterance.phonemes if is_closure(p) and p.name[0] in "pb"]
    vowels = [rms(utterance, p) for p in utterance.phonemes if (shape_of(p.name) or (0.0,))[0] >= 0.3]
    assert len(closures) >= 8
    assert np.median(closures) < 0.35 * np.median(vowels)
    # Said of another time (shifted by 120 ms) that would not hold: the times matter.
    shifted = [
        rms(utterance, Phoneme(p.start + 0.12, p.end + 0.12, p.name))
        for p in utterance.phonemes
        if is_closure(p) and p.name[0] in "pb"
    ]
    assert np.median(shifted) > 2 * np.median(closures)


def test_mouth_shuts_on_closures_and_opens_on_vowels(utterance: Utterance) -> None:
    targets = mouth_targets(utterance)
    assert len(targets.open) == frame_count(len(utterance.samples))
    assert len(targets.closures) >= 10
    assert targets.open[list(targets.closures)].max() == 0 and targets.teeth[list(targets.closures)].max() == 0
    assert np.percentile(targets.open, 95) > 0.4
    assert 0.05 < (targets.open < 0.05).mean() < 0.5


def test_rounding_and_teeth_come_with_their_sounds() -> None:
    boom, cheese = mouth_targets(say("Who knew? You do.")), mouth_targets(say("Cease, she sees these."))
    assert boom.pucker.max() > 0.6 and boom.pucker.max() > 2 * cheese.pucker.max()
    assert cheese.teeth.max() > 0.6 and cheese.wide.max() > 0.4


@given(st.integers(0, 10**9))
def test_frames_cover_all_samples_and_no_more(samples: int) -> None:
    frames = frame_count(samples)
    assert frames * 640 >= samples > (frames - 1) * 640 or samples == frames == 0


@pytest.mark.parametrize("voice", [*VOICES, *OTHER_VOICES])
def test_every_voice_is_installed_and_sounds_its_own(voice: str) -> None:
    spoken = say("Big maps.", voice=voice)
    assert 0.4 < len(spoken.samples) / 16000 < 2
    assert np.abs(spoken.samples).max() > 0.1
    assert any(is_closure(phoneme) for phoneme in spoken.phonemes)


def test_unknown_voice_is_an_error_not_the_voice_before() -> None:
    with pytest.raises(EspeakError, match="no voice 'xx-none'"):
        say("Hello.", voice="xx-none")


@pytest.mark.parametrize("values", [{"text": ""}, {"text": "a\0b"}, {"words_per_minute": 20}, {"pitch": 200}])
def test_values_out_of_range_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError):
        say(**{"text": "Hello.", **values})  # type: ignore[arg-type]


def test_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_espeak.ctypes.util, "find_library", lambda _: "libnot-there.so.1")
    with pytest.raises(EspeakError, match="apt-get install espeak-ng"):
        speech_espeak._library.__wrapped__()


def test_sentences_are_seeded_and_other_texts_are_none_of_them() -> None:
    sentences = news_sentences(300, 5)
    assert sentences == news_sentences(300, 5) != news_sentences(300, 6)
    assert len(set(sentences)) > 290
    assert len(OTHER_TEXTS) >= 12 and not set(OTHER_TEXTS) & set(sentences)


def test_the_bundle_is_what_its_command_makes(tmp_path: Path) -> None:
    # In a process of its own: espeak-ng's pulse and noise go on from one call to the next.
    subprocess.run([sys.executable, "-m", "tools.miniature.bundle", str(tmp_path)], cwd=ROOT, check=True, timeout=120)
    with wave.open(str(tmp_path / "news.wav")) as made, wave.open(str(BUNDLED / "news.wav")) as bundled:
        assert made.getparams() == bundled.getparams()
        assert (bundled.getnchannels(), bundled.getframerate(), bundled.getsampwidth()) == (1, 16000, 2)
        assert bundled.getnframes() == bundle.NEWS_SAMPLES == 6.6 * 16000
        bytes_made = made.readframes(made.getnframes())
        # Other versions of espeak-ng may speak otherwise; this one repeats itself.
        if speech_espeak.version().startswith("1.51"):
            assert bytes_made == bundled.readframes(bundled.getnframes())
    assert (BUNDLED / "presenter.png").stat().st_size < 1_200_000

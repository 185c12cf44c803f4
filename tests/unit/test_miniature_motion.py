"""Training of the miniature's speech encoder and motion network: its targets, its parts, and a short run of all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ditto_core.motion.conditions import EMOTIONS
from ditto_core.motion.diffusion import GUIDANCE
from ditto_core.motion.keypoints import PARTS, degrees_from_logits
from ditto_core.speech import SpeechWindows, TransformersHubert, speech_features
from tools.miniature import corpus, evaluate_motion, train_motion, train_speech
from tools.miniature.corpus import TARGETS, Corpus, companded, expanded, load_corpus, pseudo_sentences, write_corpus
from tools.miniature.motion_targets import (
    EMOTION_LOOKS,
    LOOKS,
    ROWS,
    Actors,
    angle_logits,
    blinks,
    draw_windows,
)
from tools.miniature.presenter_geometry import expression_parameters
from tools.miniature.presenter_parameters import EXPRESSIONS
from tools.miniature.speech_texts import OTHER_TEXTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "speech.npz"
    write_corpus(path, news=4, invented=2, validation=2)
    return path


@pytest.fixture(scope="module")
def small(spoken: Path) -> Corpus:
    return load_corpus(spoken)


@pytest.fixture
def actors(small: Corpus) -> Actors:
    return Actors.random(8, 0, small.emotions, small.eyes)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=64))
def test_companded_sound_keeps_38_db(values):
    """Eight bits of mu-law: within 2.4 % of the value, silence exactly; steps near 0 are 1 / 5800."""
    sound = np.array(values, np.float32)
    error = np.abs(expanded(companded(sound)) - sound)
    assert (error <= 0.024 * np.abs(sound) + 1e-4).all()
    assert expanded(companded(np.zeros(3, np.float32))).tolist() == [0, 0, 0]


def test_corpus_holds_targets_that_agree_with_its_sound(small):
    rows = len(small.targets)
    assert len(small.signal) == rows * corpus.ROW_SAMPLES and 0 < small.training_rows < rows
    closed, opened = small.targets[:, TARGETS.index("closed")], small.targets[:, TARGETS.index("open")]
    assert closed.sum() > 20 and float(opened[closed == 1].max()) == 0
    loud = small.signal.reshape(rows, -1).square().mean(1)
    assert float(loud[opened > 0.5].median()) > 30 * float(loud[opened < 0.02].median())


def test_no_test_sentence_is_trained_on():
    kept = set(corpus_texts(1000, corpus.TEST_SEED))
    trained = [text for text in corpus_texts(400, 1) if text not in kept]
    assert not kept & set(trained) and len(trained) > 380
    assert not set(OTHER_TEXTS) & {*trained, *pseudo_sentences(240, 1)}


def corpus_texts(n: int, seed: int) -> list[str]:
    from tools.miniature.speech_texts import news_sentences

    return news_sentences(n, seed)


def test_training_windows_are_the_pipelines():
    for hop in range(1, 6):
        windows = SpeechWindows.with_hop(hop)
        assert windows.length == train_speech.WINDOW
        assert windows.lead == (train_speech.KEPT.stop - hop) * corpus.ROW_SAMPLES + train_speech.MARGIN
        assert windows.past + windows.hop == train_speech.KEPT.stop
        assert windows.past >= train_speech.KEPT.start


@given(st.floats(-30, 30))
def test_angle_logits_have_the_angle_as_their_mean(degrees):
    """Within 1.5 % over the range of heads, 15 degrees; 6 % at twice that."""
    found = float(degrees_from_logits(angle_logits(torch.tensor(degrees, dtype=torch.float64))))
    assert abs(found - degrees) <= (0.015 if abs(degrees) <= 15 else 0.06) * abs(degrees) + 1e-9


def test_emotions_are_in_the_conditions_order():
    assert tuple(EMOTION_LOOKS) == EMOTIONS
    assert all(len(look) == len(LOOKS) for look in EMOTION_LOOKS.values())
    assert not any(EMOTION_LOOKS["neutral"])


def test_blinks_close_the_eyes_and_open_them_again():
    torch.manual_seed(0)
    lids = blinks(400, 250, torch.device("cpu"))
    assert 0 <= float(lids.min()) and float(lids.max()) == 1
    shut = (lids == 1).sum() / (400 * 250 / (25 * 60))
    assert 10 < float(shut) < 25  # a minute
    assert float((lids > 0.9).float().mean()) < 0.02


def mouth_of(small: Corpus, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.arange(n)[:, None] * 3 + torch.arange(ROWS)
    return small.targets[rows][..., :4], small.targets[rows][..., TARGETS.index("energy")]


def test_motion_says_what_is_spoken_and_begins_at_rest(small, actors):
    torch.manual_seed(0)
    mouth, stress = mouth_of(small, 96)
    windows = draw_windows(mouth, stress, actors)
    assert windows.vectors.shape == (96, 80, 265) and windows.extras.shape == (96, 80, 79)
    found = expression_parameters(windows.vectors[..., PARTS.exp])
    torch.testing.assert_close(found, windows.parameters, atol=1e-4, rtol=0)
    opened = windows.parameters[..., EXPRESSIONS.index("open")]
    meant = mouth[:, 1:, 0]
    assert float(opened[meant == 0].max()) == 0  # no emotion parts closed lips
    assert float(torch.corrcoef(torch.stack([opened[:, 5:].flatten(), meant[:, 5:].flatten()]))[0, 1]) > 0.95
    from_source = windows.start[:, PARTS.t][:, 2] < 0.5
    assert 0.15 < float(from_source.float().mean()) < 0.55
    assert float(windows.parameters[from_source, 0].abs().max()) <= 0.3 + 1e-6  # only brows move with the voice
    assert float(windows.vectors[..., PARTS.t][..., 2].min()) >= 1


def test_lids_and_corners_show_the_emotion(small, actors):
    torch.manual_seed(1)
    mouth, stress = mouth_of(small, 200)
    windows = draw_windows(mouth, stress, actors)
    smile, happy = EXPRESSIONS.index("smile"), EMOTIONS.index("happy")
    is_happy = windows.extras[:, -30:, happy].amin(1) > 0.99
    is_sad = windows.extras[:, -30:, EMOTIONS.index("sad")].amin(1) > 0.99
    assert float(windows.parameters[is_happy, -1, smile].mean()) > 0.6
    assert float(windows.parameters[is_sad, -1, smile].mean()) < -0.3


def test_raw_network_is_the_trained_one_in_other_units(actors):
    """Folding mean and spread changes the numbers by no more than rounding: 1e-4 of the output's scale."""
    torch.manual_seed(0)
    spread = 0.01 + torch.rand(265)
    learner = train_motion.MotionLearner(torch.randn(265), spread, torch.randn(265), 0.1 + torch.rand(265))
    x, start, condition = torch.randn(2, 80, 265), torch.randn(2, 265), torch.randn(2, 80, 143)
    time = torch.tensor([10, 900])
    with torch.no_grad():
        wanted, free = learner(x, start, condition, time)
        network = learner.raw_network()
        found = network(x, start, network.encode(condition), time)
        guided = network.guided(x, start, network.encode(condition), time, GUIDANCE)
    torch.testing.assert_close(found, wanted, atol=1e-4 * float(wanted.abs().max()), rtol=0)
    torch.testing.assert_close(guided, 2 * wanted - free, atol=3e-4 * float(wanted.abs().max()), rtol=0)


def test_guided_estimate_is_what_the_loss_wants(small, actors):
    """At guidance 2 the truth costs nothing; the truth as conditioned estimate, as guidance 1 wants it, does."""
    torch.manual_seed(0)
    windows = draw_windows(*mouth_of(small, 4), actors)
    inverse, spread = torch.linalg.pinv(actors.basis), torch.ones(265)
    free = torch.zeros_like(windows.vectors)

    def cost(conditioned: torch.Tensor) -> float:
        return float(train_motion.motion_loss((conditioned, free), windows, spread, inverse)["parameters"])

    assert cost(windows.vectors / 2) < 1e-5 < 1e-2 < cost(windows.vectors)


def test_measures_tell_a_late_and_a_frozen_mouth(small):
    meant = small.targets.numpy()
    perfect = np.zeros((len(meant), len(EXPRESSIONS)), np.float32)
    perfect[:, 0] = meant[:, 0]
    for i, name in ((1, "wide"), (2, "pucker"), (EXPRESSIONS.index("teeth"), "teeth")):
        perfect[:, i] = meant[:, TARGETS.index(name)]
    good = evaluate_motion.lips([perfect], [meant])
    assert good["r_open"] > 0.999 and good["lag_frames"] == 0
    assert good["closed"] == 1 and good["wrongly_shut"] == 0
    late = evaluate_motion.lips([np.roll(perfect, 3, axis=0)], [meant])
    assert late["lag_frames"] == 3 and late["r_open"] < 0.6
    shut = evaluate_motion.lips([perfect * np.float32(0.1)], [meant])
    assert shut["closed"] == 1 and shut["wrongly_shut"] > 0.9  # a closure rate alone says nothing


def test_training_export_and_pipeline_in_one(spoken, tmp_path):
    """A few steps of both commands without PyAV, then the exported folder through the real pipeline."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "av.py").write_text("raise ImportError('PyAV is not there')\n")
    code = (
        f"import sys; sys.path[:0] = [{str(blocked)!r}, {str(ROOT)!r}]\n"
        "import torch; torch.set_num_threads(1)\n"
        "from pathlib import Path\n"
        "from tools.miniature import train_motion as m, train_speech as s\n"
        f"out, corpus = Path({str(tmp_path)!r}), s.load_corpus({str(spoken)!r})\n"
        "few = {'steps': 3, 'batch': 4, 'log_every': 3}\n"
        "s.train(out, corpus, s.configuration('speech', setting='rehearsal') | few, device='cpu')\n"
        "speech = s.load_speech(out / 'speech.safetensors')\n"
        "config = m.configuration('motion', setting='rehearsal') | few\n"
        "m.train(out, corpus, speech, config, device='cpu')\n"
        "m.train(out, corpus, speech, config, device='cpu', resume=out / 'motion.safetensors')\n"
        "m.export(out / 'models', out / 'speech.safetensors', out / 'motion.safetensors')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    log = [json.loads(line) for line in (tmp_path / train_speech.LOG).read_text().splitlines()]
    assert [entry["run"] for entry in log] == ["speech"] * 2 + ["motion"] * 4
    assert (tmp_path / "motion.safetensors").stat().st_size <= 15 << 20
    models = tmp_path / "models"
    files = [models / "lmdm.safetensors", models / "hubert" / "model.safetensors"]
    assert sum(file.stat().st_size for file in files) < 5 << 20
    chain = evaluate_motion.Chain.of_folder(models)
    corpus_read = load_corpus(spoken)
    rows = slice(0, 60)
    speech = evaluate_motion.Speech(
        samples=corpus_read.signal[: 60 * corpus.ROW_SAMPLES].numpy(), targets=corpus_read.targets[rows].numpy()
    )
    track = chain.motion(speech, emotion="happy")
    assert track.vectors.shape == (60, 265)
    check_features(tmp_path / "speech.safetensors", chain.encoder, speech.samples)


def check_features(trained: Path, encoder: object, samples: np.ndarray) -> None:
    """Features of training are the pipeline's, within half precision's 1e-2 of their scale."""
    assert isinstance(encoder, TransformersHubert)
    windows = SpeechWindows.with_hop(5)
    wanted = speech_features(samples, encoder, hop=5, lead=windows.lead, batch=4)
    found = train_speech.corpus_features(train_speech.load_speech(trained), torch.from_numpy(samples))
    torch.testing.assert_close(found, wanted, atol=1e-2 * float(wanted.abs().max()), rtol=0)

"""Sound that is fed to a session in step with its frames."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest
from support.models import write_folder

from ditto_core.avatar import CropRequest, register
from ditto_core.backends import TorchBackend
from ditto_core.checkpoints import load_models
from ditto_core.media import read_image
from ditto_core.pipeline.motion import MotionOptions
from ditto_core.pipeline.plan import named_plan
from ditto_core.pipeline.session import Session
from ditto_core.pipeline.stream import feed
from ditto_core.render import RenderOptions
from ditto_core.speech import recipe_hubert
from ditto_core.speech.windows import ROW_SAMPLES

PRESENTER = Path(__file__).parents[2] / "ditto_core" / "bundled" / "presenter.png"
_PATIENCE_S = 300


@pytest.mark.parametrize(("plan", "chunk", "cadence"), [("offline", 70, 1), ("low-latency", 70, 2)])
def test_a_plan_that_waits_for_more_sound_than_is_held_gets_it(tmp_path, plan, chunk, cadence):
    """Such a plan makes its first frame of 3.2 s of sound."""
    models = load_models(write_folder(tmp_path / "tiny"))
    picture = np.ascontiguousarray(read_image(PRESENTER)[100:740:10, 112:752:10])
    frames = 84
    sound = np.random.default_rng(0).normal(0, 0.1, frames * ROW_SAMPLES).astype(np.float32)
    with Session(
        models=models,
        encoder=recipe_hubert(models.preset.speech_features, "miniature"),
        backend=TorchBackend(models),
        avatar=register(picture, models, crop=CropRequest.parse("full")),
        motion=MotionOptions(plan=dataclasses.replace(named_plan(plan, chunk=chunk), ending="exact"), steps=1),
        options=RenderOptions(cadence=cadence),
    ) as session:
        hanging = threading.Timer(_PATIENCE_S, session.fail, [TimeoutError("sound and frames wait for each other")])
        hanging.start()
        feed(session, ((sound[i : i + ROW_SAMPLES], 16000) for i in range(0, len(sound), ROW_SAMPLES)))
        assert [frame.number for frame in session] == list(range(frames))
        hanging.cancel()

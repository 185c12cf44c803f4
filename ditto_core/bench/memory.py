"""What a live run takes of a GPU's memory, and what is left of it after it was closed."""

from __future__ import annotations

import torch

from ..avatar import Avatar
from ..pipeline.motion import MotionOptions
from ..pipeline.plan import named_plan
from ..pipeline.session import Session
from ..render import RenderOptions
from ..speech import Sound
from .measure import memory_mb
from .run import Result, Settings
from .speaker import Speaker, speech

_CHUNK = 8
_SPEECH_S = 0.5
_WHOLE_CYCLES = 2


def live_memory(settings: Settings) -> Result:
    """Opens and closes live sessions, of which each hears half a second.

    Nothing is loaded but what a live run needs: networks, speech encoder, backend and avatar. First all that is made
    ready is given back, twice; then sessions are opened and closed with the backend's compiled code in place.

    Args:
        settings: of the suite; `cycles` sessions are opened.

    Returns:
        `peak_mb` is the largest memory that torch reserved, without what was reserved before; `growth_mb` what the
        last session left more than the first. Without a GPU they are not measured, and the sessions run all the same.
    """
    device = settings.device
    on_gpu = device.type == "cuda"
    before = memory_mb(device)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    speaker = Speaker.of(settings)
    avatar, sound = speaker.avatar(), speech(_SPEECH_S)
    whole, held = [], []
    for _ in range(_WHOLE_CYCLES):
        frames = _hear(settings, speaker, avatar, sound)
        _release(speaker)
        whole.append(memory_mb(device))
    for _ in range(settings.cycles):
        _hear(settings, speaker, avatar, sound)
        held.append(memory_mb(device))
    result: Result = {"batch": settings.batch, "chunk": _CHUNK, "frames_a_session": frames, "cycles": len(held)}
    result["executed_by"] = {"render": speaker.backend.executed_by, "speech": speaker.encoder.executed_by}
    if not on_gpu:
        return {**result, "not_measured": "without a GPU torch does not count memory"}
    free, total = torch.cuda.mem_get_info(device)
    first, last, base = held[0] or 0.0, held[-1] or 0.0, before or 0.0
    return {
        **result,
        "before_mb": base,
        "peak_mb": round(torch.cuda.max_memory_reserved(device) / 2**20 - base, 1),
        "peak_in_tensors_mb": round(torch.cuda.max_memory_allocated(device) / 2**20 - base, 1),
        "device_used_mb": round((total - free) / 2**20, 1),
        "after_whole_cycles_mb": whole,
        "after_first_mb": first,
        "after_last_mb": last,
        "growth_mb": round(last - first, 1),
    }


def _hear(settings: Settings, speaker: Speaker, avatar: Avatar, sound: Sound) -> int:
    """One session from open to close; the frames that it gave."""
    with Session(
        models=speaker.models,
        encoder=speaker.encoder,
        backend=speaker.backend,
        avatar=avatar,
        motion=MotionOptions(plan=named_plan("low-latency", chunk=_CHUNK)),
        options=RenderOptions(batch=settings.batch),
    ) as session:
        session.push_audio(sound.samples, sound.rate)
        session.finish()
        return sum(1 for _ in session)


def _release(speaker: Speaker) -> None:
    speaker.backend.close()
    close = getattr(speaker.encoder, "close", None)
    if close is not None:
        close()

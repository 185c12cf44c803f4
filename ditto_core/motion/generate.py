"""Motion from speech features, window by window, for a whole file or for sound that still arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ..errors import InvalidValueError
from ..networks import MotionDiffusion
from ..networks.presets import MOTION_SIZE
from ..pipeline.plan import Plan
from .conditions import Conditions
from .diffusion import GUIDANCE, seeded_generator, window_noise
from .sampler import FusedSampler
from .track import MotionTrack
from .windows import Joined, clamp_motion, join, take, window_start

WindowSampler = Callable[[int, Tensor, Tensor], Tensor]
"""(number of the window, conditions (1, 80, C), start (1, 265)) -> motion (1, 80, 265)."""


def row_noise(seed: int, rows: range, steps: int) -> Iterator[Tensor]:
    """Noise of a window that shares each row's noise with all windows which cover that row, on the CPU.

    It depends on the seed, the row's number and the number of steps alone.

    Args:
        seed: any integer.
        rows: numbers of the window's 80 rows.
        steps: sampler steps; as many arrays are yielded.

    Yields:
        (1, 80, 265) standard normal values: the starting x, then one array for each step but the last.
    """
    draws = torch.stack([_row_draws(seed, row, steps) for row in rows], dim=1)  # (steps, 80, 265)
    yield from draws[:, None]


def _row_draws(seed: int, row: int, steps: int) -> Tensor:
    return torch.randn((steps, MOTION_SIZE), generator=seeded_generator("row", seed, row))


def network_sampler(
    network: MotionDiffusion,
    plan: Plan,
    *,
    seed: int,
    steps: int,
    guidance: float = GUIDANCE,
    check_cancelled: Callable[[], None] | None = None,
    drawn_by: FusedSampler | None = None,
) -> WindowSampler:
    """Samples windows with a network, in the plan's batch and with the plan's noise.

    Args:
        network: the denoiser.
        plan: the plan.
        seed: of the noise; a window's noise depends on it and on the window's place alone.
        steps: 1 to 1000.
        guidance: weight of classifier-free guidance.
        check_cancelled: called before each step; raises to stop.
        drawn_by: a sampler of this network, steps and guidance to use again; by default a new one.
    """
    device = next(network.parameters()).device
    draw_window = drawn_by or FusedSampler(network, steps=steps, guidance=guidance)

    def sample(window: int, condition: Tensor, start: Tensor) -> Tensor:
        if plan.noise == "row":
            noise = row_noise(seed, plan.window_rows(window), steps)
        else:
            noise = window_noise(seed, window)
        batch = plan.sampler_batch
        motion = draw_window(
            condition.to(device).expand(batch, -1, -1),
            start.to(device).expand(batch, -1),
            (draw.expand(batch, -1, -1) for draw in noise),
            check_cancelled,
        )
        return motion[:1]

    return sample


class MotionStream:
    """Makes motion while speech features arrive. Not for use by two threads at once.

    However the features are cut, the rows are the same, bit for bit.

    Args:
        plan: the plan.
        conditions: what is told beside speech.
        sample: samples a window.
        silence: (plan.silence, F) features of silence, where the plan begins with silence.
        bounds: (m, 265) smallest (row 0) and largest (row 1) motion values, or None.
        first_frame: number of the first frame where conditions are counted, as for a later segment of a stream.

    Raises:
        InvalidValueError: features of silence are missing.
    """

    def __init__(
        self,
        plan: Plan,
        conditions: Conditions,
        sample: WindowSampler,
        *,
        silence: Tensor | None = None,
        bounds: Tensor | None = None,
        first_frame: int = 0,
    ) -> None:
        given = 0 if silence is None else len(silence)
        if given < plan.silence:
            raise InvalidValueError(
                f"{given} rows of silence for plan '{plan.name}'",
                remedy=f"give features of {plan.silence} silent rows",
            )
        self.plan = plan
        self._conditions = conditions
        self._sample = sample
        self._bounds = bounds
        self._first_frame = first_frame
        self._speech = torch.zeros(0, 0) if silence is None else silence[given - plan.silence :]
        self._first = -plan.silence  # number of the first row kept in _speech
        self._rows = 0
        self._ended = False
        self._state = Joined()

    @property
    def windows(self) -> int:
        """Windows that have run."""
        return self._state.windows

    @property
    def windows_known(self) -> int:
        """Windows that can run with the features given so far."""
        return self.plan.windows(self._rows) if self._ended else self.plan.windows_ready(self._rows)

    @property
    def reference(self) -> Tensor | None:
        """(265,) the motion that counts as rest, d0; known at the latest with the first frame."""
        reference = self._state.reference
        return None if reference is None else self._clamped(reference)

    def push(self, speech: Tensor) -> None:
        """Takes further speech features.

        Args:
            speech: (m, F), the rows that follow those given before.

        Raises:
            InvalidValueError: the end was already told.
        """
        if self._ended:
            raise InvalidValueError(
                f"{len(speech)} rows of speech after the end",
                remedy="begin a new stream for the next segment",
            )
        self._speech = torch.cat([self._speech, speech]) if len(self._speech) else speech
        self._rows += len(speech)

    def finish(self) -> None:
        """Tells that no more features come; what is left can then run."""
        self._ended = True

    def step(self) -> Tensor | None:
        """Runs the next window, if it can.

        Returns:
            (r, 265) frames that became final, r 0 or above, on the CPU; None when there is nothing to do
            until more features come, or at all.
        """
        frames = self.plan.frames(self._rows)
        if self._state.windows < self.windows_known:
            self._run_window()
        elif not self._ended or self._state.taken >= frames:
            return None
        complete = self._ended and self._state.windows == self.plan.windows(self._rows)
        rows, self._state = take(self.plan, self._state, frames if complete else None)
        return self._clamped(rows)

    def _clamped(self, motion: Tensor) -> Tensor:
        return motion if self._bounds is None else clamp_motion(motion, self._bounds)

    def _run_window(self) -> None:
        covered = torch.tensor(self.plan.window_rows(self._state.windows))
        speech_rows = covered.clamp(max=self._rows - 1)
        frames = covered if self.plan.ending == "upstream-online" else speech_rows
        speech = self._speech[(speech_rows - self._first).to(self._speech.device)]
        condition = self._conditions.rows(speech, frames + self._first_frame)[None]
        start = window_start(self.plan, self._state, self._conditions.source)[None]
        motion = self._sample(self._state.windows, condition, start)[0].float().cpu()
        self._state = join(self.plan, self._state, motion)
        self._forget()

    def _forget(self) -> None:
        """Drops speech that no later window reads; the last row stays, since it pads the last window."""
        needed = min(self.plan.window_rows(self._state.windows).start, self._rows - 1)
        if needed > self._first:
            self._speech = self._speech[needed - self._first :]
            self._first = needed


def generate_motion(
    network: MotionDiffusion,
    features: Tensor,
    conditions: Conditions,
    plan: Plan,
    *,
    seed: int,
    steps: int,
    guidance: float = GUIDANCE,
    silence: Tensor | None = None,
    bounds: Tensor | None = None,
    models: str = "",
    progress: Callable[[int, int], None] | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> MotionTrack:
    """The motion of a whole sound.

    Args:
        network: the denoiser.
        features: (rows, F) speech features, on any device.
        conditions: what is told beside speech.
        plan: the plan.
        seed: of the noise.
        steps: sampler steps, 1 to 1000.
        guidance: weight of classifier-free guidance; 1 means none.
        silence: (plan.silence, F) features of silence on the same device, for plans that begin with silence.
        bounds: (m, 265) smallest and largest motion values in rows 0 and 1, or None.
        models: fingerprint of the models, kept in the track.
        progress: called with (windows done, all windows) after each.
        check_cancelled: called before each sampler step; raises to stop.

    Raises:
        InvalidValueError: there are no features, or too few for a plan that sends nothing then.
    """
    sample = network_sampler(network, plan, seed=seed, steps=steps, guidance=guidance, check_cancelled=check_cancelled)
    stream = MotionStream(plan, conditions, sample, silence=silence, bounds=bounds)
    stream.push(features)
    stream.finish()
    rows = []
    while (final := stream.step()) is not None:
        rows.append(final)
        if progress is not None:
            progress(stream.windows, stream.windows_known)
    vectors = torch.cat([torch.zeros(0, MOTION_SIZE), *rows])
    if not len(vectors) or stream.reference is None:
        raise InvalidValueError(
            f"{len(features)} rows of speech, of which plan '{plan.name}' makes no frame",
            remedy="give sound, or choose a plan of our own, which makes a frame of any",
        )
    return MotionTrack(vectors=vectors, reference=stream.reference, seed=seed, plan=plan.name, models=models)

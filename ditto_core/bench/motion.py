"""The suite `motion`: the sampler's window and the speech encoder's, plain and fast, side by side."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from ..backends.compiled import CompiledBackend
from ..backends.cuda_graph import CapturedCall, fast_kernels
from ..backends.inductor import compile_function
from ..checkpoints.models import DittoModels, load_models
from ..motion.diffusion import sample_window, window_noise
from ..motion.sampler import FusedSampler
from ..networks.presets import KEYPOINTS, MOTION_SIZE, WINDOW_ROWS
from .measure import ceilings, memory_mb, milliseconds, relative_l2, shares, type_name, work
from .render import converted
from .run import Result, Settings, Stage

_SEED = 0
_HUBERT_WINDOW = 6480
_OFFICIAL_FEATURES = 1024


class MotionSuite:
    """The stages, and what they share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.device = settings.device
        self.half = torch.float16 if settings.device.type == "cuda" else torch.bfloat16
        self.ceiling: dict[str, Any] | None = None

    @cached_property
    def models(self) -> DittoModels:
        """The networks; the motion network is float32, as always."""
        return load_models(self.settings.models, device=self.device)

    @cached_property
    def inputs(self) -> tuple[Tensor, Tensor]:
        """Conditions and start of a window."""
        generator = torch.Generator().manual_seed(_SEED)
        condition = torch.randn((1, WINDOW_ROWS, self.models.preset.condition_size), generator=generator)
        start = 0.3 * torch.randn((1, MOTION_SIZE), generator=generator)
        return condition.to(self.device), start.to(self.device)

    @cached_property
    def reference(self) -> Tensor:
        """The plain sampler's window in float32, without TF32."""
        return sample_window(self.models.lmdm, *self.inputs, self._noise(), steps=self._steps)

    def stages(self) -> Iterator[Stage]:
        """All stages, the most wanted first."""
        yield Stage(name="ceilings", run=self.measure_ceilings)
        yield Stage(name="sampler_plain", run=self.run_plain)
        for name, options in self._samplers().items():
            yield Stage(name=f"sampler_{name}", run=lambda options=options: self.run_sampler(**options))  # type: ignore[misc]
        for dtype in (torch.float32, self.half):
            yield Stage(name=f"hubert_{type_name(dtype)}", run=lambda dtype=dtype: self.run_hubert(dtype))  # type: ignore[misc]
        yield Stage(name="memory", run=self.run_memory)

    def measure_ceilings(self) -> Result:
        """Matrix products and copies, as fast as the device does them, in float32 without TF32."""
        self.ceiling = ceilings(self.device, torch.float32)
        return self.ceiling

    def run_plain(self) -> Result:
        """`sample_window`, run by torch with its own settings."""
        network = self.models.lmdm

        def call() -> Tensor:
            return sample_window(network, *self.inputs, self._noise(), steps=self._steps)

        result: Result = {"steps": self._steps, "executed_by": "torch, eager, float32", **work(network, call)}
        result.update(milliseconds(call, self.device, rounds=3))
        return {**result, **shares(result, self.ceiling)}

    def run_sampler(self, *, dtype: torch.dtype, tf32: bool, compiled: bool) -> Result:
        """The fused sampler in one precision."""
        sampler = FusedSampler(
            self.models.lmdm,
            steps=self._steps,
            dtype=dtype,
            tf32=tf32,
            optimise=compile_function if compiled else None,
        )
        found = sampler(*self.inputs, self._noise())
        again = sampler(*self.inputs, self._noise())
        drawn = list(self._draws())
        result: Result = {
            "steps": self._steps,
            "precision": f"{type_name(dtype)}{', TF32' if tf32 else ''}",
            "compiled": compiled,
            "relative_l2": relative_l2(found, self.reference),
            "repeats": bool(torch.equal(found, again)),
            **milliseconds(lambda: sampler(*self.inputs, iter(drawn)), self.device, rounds=10),
        }
        result["with_drawing"] = milliseconds(lambda: sampler(*self.inputs, self._noise()), self.device, rounds=5)
        sampler.close()
        return result

    def run_hubert(self, dtype: torch.dtype) -> Result:
        """The speech encoder's window: its model by itself, the encoder as the package calls it, and compiled."""
        encoder = self._hubert(dtype)
        model = encoder.model
        windows = torch.randn((1, _HUBERT_WINDOW), generator=torch.Generator().manual_seed(_SEED))
        own = windows.to(self.device, dtype)

        def plain() -> Tensor:
            hidden: Tensor = model(own).last_hidden_state
            return hidden

        with torch.inference_mode():
            wanted = plain().float()
            result: Result = {"precision": type_name(dtype), **work(model, plain)}
            result["plain"] = milliseconds(plain, self.device)
            result["encoder"] = milliseconds(lambda: encoder.encode(windows), self.device)
            result["encoder_relative_l2"] = relative_l2(encoder.encode(windows), wanted)
            result["compiled"] = self._guarded(lambda: self._compiled_hubert(model, own, wanted))
        encoder.close()
        return result

    def run_memory(self) -> Result:
        """Peak memory of rendering, sampler and speech encoder together, and what stays after opening and closing."""
        cuda = self.device.type == "cuda"
        models = converted(self.models, self.settings.dtype)
        self.__dict__.pop("models", None)  # the float32 rendering networks are no part of it
        gc.collect()
        encoder = self._hubert(self.half)
        if cuda:
            memory_mb(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
        backend = CompiledBackend(models)
        held = []
        for _ in range(2):
            sampler = FusedSampler(models.lmdm, steps=self._steps)
            self._use(models, backend, sampler, encoder)
            backend.close()
            sampler.close()
            encoder.close()
            held.append(memory_mb(self.device))
        peak = torch.cuda.max_memory_reserved(self.device) if cuda else 0
        cycles = self._small_cycles(models, encoder)
        return {"peak_mb": round(peak / 2**20, 1), "after_whole_cycles_mb": held, **cycles}

    def _small_cycles(self, models: DittoModels, encoder: Any) -> Result:
        """Sampler and speech encoder opened and closed many times; compiling as often would take hours."""
        held = []
        for _ in range(self.settings.cycles):
            sampler = FusedSampler(models.lmdm, steps=2)
            sampler(*self._inputs_of(models), self._noise())
            encoder.encode(torch.zeros(1, _HUBERT_WINDOW))
            sampler.close()
            encoder.close()
            held.append(memory_mb(self.device))
        return {"cycles": len(held), "after_first_mb": held[0], "after_last_mb": held[-1]}

    def _use(self, models: DittoModels, backend: CompiledBackend, sampler: FusedSampler, encoder: Any) -> None:
        batch = self.settings.batch
        f_s = backend.volumes(torch.zeros(1, 256, 256, 3, dtype=torch.uint8)).expand(batch, -1, -1, -1, -1)
        points = torch.zeros(batch, KEYPOINTS, 3)
        backend.faces(f_s, points, points)
        sampler(*self._inputs_of(models), self._noise())
        encoder.encode(torch.zeros(1, _HUBERT_WINDOW))

    def _inputs_of(self, models: DittoModels) -> tuple[Tensor, Tensor]:
        condition = torch.zeros(1, WINDOW_ROWS, models.preset.condition_size, device=self.device)
        return condition, torch.zeros(1, MOTION_SIZE, device=self.device)

    def _compiled_hubert(self, model: Any, own: Tensor, wanted: Tensor) -> Result:
        with fast_kernels(tf32=False):
            function = compile_function(lambda windows: model(windows).last_hidden_state, (own,))
            if self.device.type != "cuda":
                return milliseconds(lambda: function(own), self.device)
            captured = CapturedCall(lambda: function(own), self.device)
        result = {**milliseconds(captured.replay, self.device), "relative_l2": relative_l2(captured.replay(), wanted)}
        captured.close()
        return result

    def _guarded(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except Exception as error:  # an extra measurement; what was measured before it stays
            return {"error": f"{type(error).__name__}: {str(error)[:300]}"}

    def _samplers(self) -> dict[str, dict[str, Any]]:
        plain = {"dtype": torch.float32, "tf32": False, "compiled": False}
        found = {"float32": plain}
        if self.device.type == "cuda":
            found["tf32"] = {**plain, "tf32": True}
        found["half"] = {**plain, "dtype": self.half}
        for name in [key for key in ("tf32", "half", "float32") if key in found]:
            found[f"{name}_compiled"] = {**found[name], "compiled": True}
        return found

    def _hubert(self, dtype: torch.dtype) -> Any:
        from ..speech.hubert import recipe_hubert  # its package reads sound files, which needs further libraries

        features = self.models.preset.speech_features
        is_large = features == _OFFICIAL_FEATURES
        return recipe_hubert(features, "large" if is_large else "miniature", device=self.device, precision=dtype)

    @property
    def _steps(self) -> int:
        return self.models.preset.default_steps

    def _noise(self) -> Iterator[Tensor]:
        return window_noise(_SEED, 0)

    def _draws(self) -> Iterator[Tensor]:
        return islice(self._noise(), self._steps)


def motion_suite(settings: Settings) -> Iterator[Stage]:
    """The suite."""
    return MotionSuite(settings).stages()

"""The suite `motion`: the sampler's window and the speech encoder's, plain and fast, side by side."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from ..backends.cuda_graph import CapturedCall, fast_kernels
from ..backends.inductor import compile_function
from ..checkpoints.models import DittoModels, load_models
from ..motion.diffusion import sample_window, window_noise
from ..motion.sampler import FusedSampler
from ..networks.presets import MOTION_SIZE, WINDOW_ROWS
from .measure import ceilings, milliseconds, relative_l2, shares, type_name, work
from .memory import live_memory
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
        self.ceilings: dict[str, dict[str, Any]] = {}

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
        return self._plain_window()

    @cached_property
    def sampler_work(self) -> Result:
        """What the plain sampler's window computes and moves."""
        return work(self.models.lmdm, self._plain_window)

    @cached_property
    def windows(self) -> Tensor:
        """A window of sound."""
        return torch.randn((1, _HUBERT_WINDOW), generator=torch.Generator().manual_seed(_SEED))

    @cached_property
    def hubert(self) -> Any:
        """The speech encoder in float32, as the package makes it."""
        from ..speech.hubert import recipe_hubert  # its package reads sound files, which needs further libraries

        features = self.models.preset.speech_features
        is_large = features == _OFFICIAL_FEATURES
        return recipe_hubert(features, "large" if is_large else "miniature", device=self.device)

    @cached_property
    def hubert_reference(self) -> Tensor:
        """The speech encoder's features in float32, without TF32."""
        model = self.hubert.model
        with torch.inference_mode(), fast_kernels(tf32=False):
            features: Tensor = model(self.windows.to(self.device)).last_hidden_state
        return features

    def stages(self) -> Iterator[Stage]:
        """All stages, the most wanted first."""
        yield Stage(name="ceilings", run=self.measure_ceilings)
        yield Stage(name="sampler_plain", run=self.run_plain)
        yield Stage(name="hubert_plain", run=self.run_plain_hubert)
        yield Stage(name="hubert_encoder", run=self.run_encoder)
        for name, options in self._precisions().items():
            yield Stage(name=f"sampler_{name}", run=lambda options=options: self.run_sampler(**options))  # type: ignore[misc]
            yield Stage(name=f"hubert_{name}", run=lambda options=options: self.run_hubert(**options))  # type: ignore[misc]
        yield Stage(name="live_memory", run=self.run_memory)
        for name, options in self._precisions().items():
            compiled = {**options, "compiled": True}
            yield Stage(
                name=f"sampler_{name}_compiled",
                run=lambda compiled=compiled: self.run_sampler(**compiled),  # type: ignore[misc]
                extra=name == "float32",
            )
            yield Stage(
                name=f"hubert_{name}_compiled",
                run=lambda compiled=compiled: self.run_hubert(**compiled),  # type: ignore[misc]
                extra=name == "float32",
            )

    def measure_ceilings(self) -> Result:
        """Matrix products and copies, as fast as the device does them, in each precision."""
        for name, options in self._precisions().items():
            with fast_kernels(tf32=options["tf32"]):
                self.ceilings[name] = ceilings(self.device, options["dtype"])
        return dict(self.ceilings)

    def run_plain(self) -> Result:
        """`sample_window`, run by torch with its own settings."""
        result: Result = {"steps": self._steps, "executed_by": "torch, eager, float32", **self.sampler_work}
        result.update(milliseconds(self._plain_window, self.device, rounds=3))
        return {**result, **shares(result, self.ceilings.get("float32"))}

    def run_sampler(self, *, dtype: torch.dtype, tf32: bool, compiled: bool = False) -> Result:
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
            "precision": _precision(dtype, tf32),
            "compiled": compiled,
            "relative_l2": relative_l2(found, self.reference),
            "repeats": bool(torch.equal(found, again)),
            **milliseconds(lambda: sampler(*self.inputs, iter(drawn)), self.device, rounds=10),
        }
        result["with_drawing"] = milliseconds(lambda: sampler(*self.inputs, self._noise()), self.device, rounds=5)
        sampler.close()
        ceiling = self.ceilings.get("tf32" if tf32 else type_name(dtype))
        result["for_the_plain_work"] = shares({**self.sampler_work, "ms": result["ms"]}, ceiling)
        return result

    def run_plain_hubert(self) -> Result:
        """The speech encoder's model by itself, run by torch with its own settings."""
        model, own = self.hubert.model, self.windows.to(self.device)

        def call() -> Tensor:
            features: Tensor = model(own).last_hidden_state
            return features

        with torch.inference_mode():
            result: Result = {"executed_by": "torch, eager, float32", **work(model, call)}
            result.update(milliseconds(call, self.device))
            result["relative_l2"] = relative_l2(call(), self.hubert_reference)
        return {**result, **shares(result, self.ceilings.get("float32"))}

    def run_encoder(self) -> Result:
        """The speech encoder as the package calls it."""
        encoder = self.hubert
        result: Result = {
            "executed_by": encoder.executed_by,
            **milliseconds(lambda: encoder.encode(self.windows), self.device),
            "relative_l2": relative_l2(encoder.encode(self.windows), self.hubert_reference),
        }
        encoder.close()
        return result

    def run_hubert(self, *, dtype: torch.dtype, tf32: bool, compiled: bool = False) -> Result:
        """The speech encoder's model in one precision; on a GPU as one graph."""
        model, own = copy.deepcopy(self.hubert.model).to(dtype), self.windows.to(self.device, dtype)

        def call() -> Tensor:
            features: Tensor = model(own).last_hidden_state
            return features

        with torch.inference_mode(), fast_kernels(tf32=tf32):
            run = call
            if compiled:
                function = compile_function(lambda windows: model(windows).last_hidden_state, (own,))
                run = lambda: function(own)  # noqa: E731 - the same call, compiled
            captured = CapturedCall(run, self.device) if self.device.type == "cuda" else None
            run = run if captured is None else captured.replay
            result: Result = {"precision": _precision(dtype, tf32), "compiled": compiled, **work(model, call)}
            result.update(milliseconds(run, self.device))
            result["relative_l2"] = relative_l2(run(), self.hubert_reference)
            if captured is not None:
                captured.close()
        return {**result, **shares(result, self.ceilings.get("tf32" if tf32 else type_name(dtype)))}

    def run_memory(self) -> Result:
        """What a live run takes and leaves, with nothing else loaded."""
        for name in ("models", "inputs", "reference", "hubert", "hubert_reference"):
            self.__dict__.pop(name, None)
        gc.collect()
        return live_memory(self.settings)

    def _precisions(self) -> dict[str, dict[str, Any]]:
        """TF32 is a GPU's."""
        found: dict[str, dict[str, Any]] = {"float32": {"dtype": torch.float32, "tf32": False}}
        if self.device.type == "cuda":
            found["tf32"] = {"dtype": torch.float32, "tf32": True}
        found[type_name(self.half)] = {"dtype": self.half, "tf32": False}
        return found

    def _plain_window(self) -> Tensor:
        return sample_window(self.models.lmdm, *self.inputs, self._noise(), steps=self._steps)

    @property
    def _steps(self) -> int:
        return self.models.preset.default_steps

    def _noise(self) -> Iterator[Tensor]:
        return window_noise(_SEED, 0)

    def _draws(self) -> Iterator[Tensor]:
        return islice(self._noise(), self._steps)


def _precision(dtype: torch.dtype, tf32: bool) -> str:
    return f"{type_name(dtype)}, TF32" if tf32 else type_name(dtype)


def motion_suite(settings: Settings) -> Iterator[Stage]:
    """The suite."""
    return MotionSuite(settings).stages()

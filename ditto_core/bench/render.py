"""The suite `render`: the plain networks and the fused, compiled ones, side by side."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..backends.compiled import CPU_LAYOUT, GPU_LAYOUT, CompiledBackend
from ..backends.cuda_graph import CapturedCall, fast_kernels
from ..backends.eager import TorchBackend
from ..backends.inductor import channels_last, compile_function
from ..checkpoints.models import DittoModels, load_models
from ..networks.fused import FusedPostWarp
from ..networks.fused_warp import FusedWarp, WarpLayout
from ..networks.layers import wide
from ..networks.presets import KEYPOINTS
from .engine import ENGINE_STAGES, run_engine
from .kernels import convolutions, kernel_times
from .measure import ceilings, memory_mb, milliseconds, picture_difference, relative_l2, shares, type_name, work
from .run import Result, Settings, Stage
from .traffic import moved_mbytes

_SEED = 0
NCU_COMMAND = "python -m tools.bench_ncu --models official-shapes --report ncu.json"
"""Measures the traffic to device memory, where ncu is installed; `bench --ncu` adds it to a report."""


class RenderSuite:
    """The stages, and what they share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.device, self.batch = settings.device, settings.batch
        self.ceiling: dict[str, Any] | None = None

    @cached_property
    def reference(self) -> DittoModels:
        """The plain networks in float32."""
        return load_models(self.settings.models, device=self.device)

    @cached_property
    def plain(self) -> DittoModels:
        """The plain networks in the type that is measured."""
        return converted(self.reference, self.settings.dtype)

    @cached_property
    def fused(self) -> DittoModels:
        """Networks that the fused ones may reorder."""
        return converted(self.reference, self.settings.dtype)

    @cached_property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Volumes of one picture, and key points, for a batch."""
        generator = torch.Generator().manual_seed(_SEED)
        crop = torch.randint(0, 256, (1, 256, 256, 3), generator=generator, dtype=torch.uint8)
        f_s = TorchBackend(self.plain).volumes(crop).expand(self.batch, -1, -1, -1, -1)
        x_s = 0.3 * torch.randn((1, KEYPOINTS, 3), generator=generator).expand(self.batch, -1, -1)
        x_d = x_s + 0.05 * torch.randn((self.batch, KEYPOINTS, 3), generator=generator)
        points = wide(self.settings.dtype)
        return f_s, x_s.to(self.device, points), x_d.to(self.device, points)

    def stages(self) -> Iterator[Stage]:
        """All stages, the most wanted first."""
        yield Stage(name="ceilings", run=self.measure_ceilings)
        for batch in sorted({self.batch, 1}, reverse=True):
            yield Stage(name=f"plain_b{batch}", run=lambda batch=batch: self.run_plain(batch))  # type: ignore[misc]
        yield Stage(name="post_warp", run=self.run_post_warp)
        yield Stage(name="warp", run=self.run_warp)
        for batch in sorted({self.batch, 1}, reverse=True):
            yield Stage(name=f"compiled_b{batch}", run=lambda batch=batch: self.run_compiled(batch))  # type: ignore[misc]
        for part in ENGINE_STAGES if self.settings.engine is None else ("given",):
            yield Stage(name=f"engine_{part}", run=lambda part=part: self.run_engine(part))  # type: ignore[misc]
        yield Stage(name="cycles", run=self.run_cycles)
        yield Stage(name="convolutions", run=self.run_convolutions, extra=True)
        if self.settings.long:
            for name, layout in self._layouts().items():
                yield Stage(name=f"warp_{name}", run=lambda layout=layout: self.run_warp(layout), extra=True)  # type: ignore[misc]
            unfolded, autotuned = {"fold_upsampling": False}, {"autotune": True}
            for name, options in (("unfolded", unfolded), ("autotuned", autotuned)):
                yield Stage(
                    name=f"post_warp_{name}",
                    run=lambda options=options: self.run_post_warp(**options),  # type: ignore[misc]
                    extra=True,
                )

    def measure_ceilings(self) -> Result:
        """Matrix products and copies, as fast as the device does them."""
        self.ceiling = ceilings(self.device, self.settings.dtype)
        return self.ceiling

    @torch.inference_mode()
    def run_plain(self, batch: int) -> Result:
        """The plain modules, run by torch with its own settings."""
        warp, decoder = self.plain.warp_network, self.plain.decoder
        f_s, x_s, x_d = (value[:batch] for value in self.inputs)
        deformed, occlusion = warp.deform(f_s, x_s, x_d)
        parts: dict[str, tuple[nn.Module, Callable[[], Any]]] = {
            "warp": (warp, lambda: warp.deform(f_s, x_s, x_d)),
            "post_warp": (_Both(warp, decoder), lambda: decoder(warp.project(deformed, occlusion))),
            "whole": (_Both(warp, decoder), lambda: decoder(warp(f_s, x_s, x_d))),
        }
        result: Result = {"executed_by": f"torch, eager, {type_name(self.settings.dtype)}", "batch": batch}
        for name, (module, call) in parts.items():
            result[name] = self._timed(module, call)
        with fast_kernels(tf32=False):
            result["whole_cudnn_benchmark"] = milliseconds(parts["whole"][1], self.device)
        result["frames_per_s"] = round(1e3 * batch / result["whole"]["ms"], 1)
        return result

    @torch.inference_mode()
    def run_post_warp(self, *, fold_upsampling: bool = True, autotune: bool = False) -> Result:
        """Third, fourth, occlusion and decoder as one compiled module."""
        module = post_warp_of(self.fused, fold_upsampling=fold_upsampling)
        deformed, occlusion = self.plain.warp_network.deform(*self.inputs)
        deformed = deformed.contiguous(memory_format=torch.channels_last)
        run = Optimised(module, (deformed, occlusion), autotune=autotune)
        result = self._timed(module, run, counted=lambda: module(deformed, occlusion))
        wanted = self._reference_picture(deformed, occlusion)
        result["against_plain_float32"] = picture_difference(run(), wanted)
        warp, decoder = self.plain.warp_network, self.plain.decoder
        plain = decoder(warp.project(deformed, occlusion))
        result["plain_against_plain_float32"] = picture_difference(plain, wanted)
        if not autotune and fold_upsampling:
            result["traffic"] = _traffic(lambda d, o: decoder(warp.project(d, o)), module, (deformed, occlusion))
            result["kernels"] = kernel_times(run.uncaptured, self.device)
        run.close()
        return result

    @torch.inference_mode()
    def run_warp(self, layout: WarpLayout | None = None) -> Result:
        """The warp to the deformed volume as one compiled module."""
        used = layout or self._layout
        module = FusedWarp(self.fused.warp_network, used)
        channels_last(module)
        f_s, x_s, x_d = self.inputs
        prepared = module.prepare(f_s)
        function = _Deform(module)
        run = Optimised(function, (*prepared, x_s, x_d))
        result = self._timed(function, run, counted=lambda: function(*prepared, x_s, x_d))
        result["layout"] = dataclasses.asdict(used)
        found, occlusion = module.deform(*prepared, x_s, x_d)
        with fast_kernels(tf32=False):
            wanted = self.reference.warp_network(f_s.float(), x_s, x_d)
        result["feature_relative_l2"] = relative_l2(module.project(found, occlusion), wanted)
        result["compiled_feature_relative_l2"] = relative_l2(module.project(*run()), wanted)
        result["plain_feature_relative_l2"] = relative_l2(self.plain.warp_network(f_s, x_s, x_d), wanted)
        if layout is None:
            result["traffic"] = _traffic(self.plain.warp_network.deform, function, self.inputs, (*prepared, x_s, x_d))
            result["kernels"] = kernel_times(run.uncaptured, self.device)
        run.close()
        return result

    @torch.inference_mode()
    def run_compiled(self, batch: int) -> Result:
        """The backend `compiled` as the renderer calls it."""
        backend = CompiledBackend(self.fused)
        f_s, x_s, x_d = (value[:batch] for value in self.inputs)
        backend.warm_up(batch)
        before = memory_mb(self.device)
        result: Result = {"batch": batch, **milliseconds(lambda: backend.faces(f_s, x_s, x_d), self.device)}
        result["executed_by"] = backend.executed_by
        result["frames_per_s"] = round(1e3 * batch / result["ms"], 1)
        result["memory_mb"] = before
        wanted = self._reference_faces(f_s, x_s, x_d)
        result["against_plain_float32"] = picture_difference(backend.faces(f_s, x_s, x_d), wanted)
        plain = self.plain.decoder(self.plain.warp_network(f_s, x_s, x_d))
        result["plain_against_plain_float32"] = picture_difference(plain, wanted)
        backend.close()
        return result

    def run_engine(self, part: str) -> Result:
        """An engine of one part, or the given one, where there is a card that runs it."""
        with torch.inference_mode():
            inputs = self.inputs
        return run_engine(self.settings, part, inputs, lambda given: self._reference_faces(*given))

    @torch.inference_mode()
    def run_convolutions(self) -> Result:
        """Every convolution of the fused networks alone: where the time of products goes."""
        warp = FusedWarp(self.fused.warp_network, self._layout)
        post = post_warp_of(self.fused)
        channels_last(warp)
        f_s, x_s, x_d = self.inputs
        deformed, occlusion = self.plain.warp_network.deform(f_s, x_s, x_d)
        deformed = deformed.contiguous(memory_format=torch.channels_last)
        with fast_kernels(tf32=False):
            return {
                "warp": convolutions(warp, lambda: warp.deform(*warp.prepare(f_s), x_s, x_d), self.device),
                "post_warp": convolutions(post, lambda: post(deformed, occlusion), self.device),
            }

    def run_cycles(self) -> Result:
        """Memory after what is opened was used and closed, again and again."""
        held = []
        for _ in range(self.settings.cycles):
            self._open_and_close()
            held.append(memory_mb(self.device))
        largest = max(held, key=lambda value: value or 0)
        return {
            "cycles": len(held),
            "after_first_mb": held[0],
            "after_last_mb": held[-1],
            "largest_mb": largest,
        }

    @torch.inference_mode()
    def _open_and_close(self) -> None:
        f_s, x_s, x_d = self.inputs
        post = post_warp_of(self.fused)
        with fast_kernels(tf32=False):
            deformed, occlusion = self.plain.warp_network.deform(f_s, x_s, x_d)
            if self.device.type != "cuda":
                post(deformed, occlusion)
                return
            captured = CapturedCall(lambda: post(deformed, occlusion), self.device)
            captured.replay()
            captured.close()

    @property
    def _layout(self) -> WarpLayout:
        return GPU_LAYOUT if self.device.type == "cuda" else CPU_LAYOUT

    def _layouts(self) -> dict[str, WarpLayout]:
        """Other layouts of the warp, each one change away from the one in use."""
        used = self._layout
        return {
            "mask_one_part": dataclasses.replace(used, mask_parts=None),
            "unfolded": dataclasses.replace(used, fold_upsampling=False),
            "matrix_samples": dataclasses.replace(used, gather=False),
        }

    def _timed(self, module: nn.Module, call: Callable[[], Any], counted: Callable[[], Any] | None = None) -> Result:
        result = {**work(module, counted or call), **milliseconds(call, self.device)}
        return {**result, **shares(result, self.ceiling)}

    def _reference_picture(self, deformed: Tensor, occlusion: Tensor) -> Tensor:
        models = self.reference
        with fast_kernels(tf32=False):
            return models.decoder(models.warp_network.project(deformed.float(), occlusion.float()))

    @torch.inference_mode()
    def _reference_faces(self, f_s: Tensor, x_s: Tensor, x_d: Tensor) -> Tensor:
        models = self.reference
        with fast_kernels(tf32=False):
            return models.decoder(models.warp_network(f_s.float(), x_s.float(), x_d.float()))


def _traffic(
    plain: Callable[..., Any],
    fused: Callable[..., Any],
    inputs: tuple[Tensor, ...],
    fused_inputs: tuple[Tensor, ...] | None = None,
) -> Result:
    """Megabytes to and from device memory, plain and fused: counted, and how they are measured."""
    return {
        "plain_mbytes": moved_mbytes(plain, inputs, fused=False),
        "fused_mbytes": moved_mbytes(fused, fused_inputs or inputs, fused=True),
        "measured": {"not_measured": "counters are read by ncu, outside this process", "command": NCU_COMMAND},
    }


class Optimised:
    """A module compiled for its inputs, and captured in a CUDA graph on a GPU.

    Args:
        module: gives a tensor, or several.
        inputs: its arguments, which stay the same.
        autotune: as of `compile_function`.
    """

    def __init__(self, module: nn.Module, inputs: tuple[Tensor, ...], *, autotune: bool = False) -> None:
        self._captured: CapturedCall | None = None
        with fast_kernels(tf32=False):
            function = compile_function(module, inputs, autotune=autotune)
            self.uncaptured: Callable[[], Any] = lambda: function(*inputs)
            if inputs[0].is_cuda:
                self._captured = CapturedCall(self.uncaptured, inputs[0].device)

    def __call__(self) -> Any:
        """The module's result; on a GPU the next call overwrites it."""
        return self.uncaptured() if self._captured is None else self._captured.replay()

    def close(self) -> None:
        """Gives the graph back."""
        if self._captured is not None:
            self._captured.close()


def post_warp_of(models: DittoModels, *, fold_upsampling: bool = True) -> FusedPostWarp:
    """Third, fourth, occlusion and decoder as one module, its weights in the order that convolutions like."""
    module = FusedPostWarp(models.warp_network, models.decoder, fold_upsampling=fold_upsampling)
    channels_last(module)
    return module


class _Both(nn.Module):
    """Two modules under one, for counting."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second


class _Deform(nn.Module):
    """`FusedWarp.deform` as a module."""

    def __init__(self, warp: FusedWarp) -> None:
        super().__init__()
        self.warp = warp

    def forward(self, compressed: Tensor, volume: Tensor, x_s: Tensor, x_d: Tensor) -> tuple[Tensor, Tensor]:
        return self.warp.deform(compressed, volume, x_s, x_d)


def converted(models: DittoModels, dtype: torch.dtype) -> DittoModels:
    """Copies of the rendering networks in another type; the others are shared."""
    names = ("appearance_extractor", "warp_network", "decoder")
    networks: dict[str, Any] = {name: copy.deepcopy(getattr(models, name)).to(dtype) for name in names}
    return dataclasses.replace(models, dtype=dtype, **networks)


def render_suite(settings: Settings) -> Iterator[Stage]:
    """The suite."""
    return RenderSuite(settings).stages()

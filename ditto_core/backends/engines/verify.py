"""The parity gate: does an engine draw what float32 torch draws?

On a GPU that the engine is for, the engine itself runs. Elsewhere the graph runs in onnxruntime with its precision
taken out, which proves its structure, and its rounding is emulated in torch, which shows what precision costs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from ...errors import MissingPackageError
from ...progress import Progress
from .precision import Scales, emulated, widen
from .samples import PartInputs
from .spec import EngineSpec

INPUTS = 100
LARGEST_GRAPH_ERROR = 1e-4
"""Largest difference of the graph in onnxruntime from torch with the same rounded weights, in 0..1."""

_LIMITS = {
    ("post-warp", "fp16"): (0.9999, 60.0),
    ("post-warp", "fp8"): (0.9995, 38.0),
    ("warp-decode", "fp16"): (0.9999, 50.0),
    ("warp-decode", "fp8"): (0.9995, 38.0),
}
_EQUAL_DB = 200.0
"""What stands for the PSNR of equal pictures."""

Run = Callable[..., Tensor]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """How close pictures are, the worst of several inputs.

    Attributes:
        cosine: lowest cosine of a picture with its reference, as vectors.
        mae: highest mean absolute error, values in 0..1.
        psnr: lowest peak signal-to-noise ratio in dB, peak 1.
    """

    cosine: float
    mae: float
    psnr: float

    def to_json(self) -> dict[str, float]:
        """The figures, rounded."""
        return {"cosine": round(self.cosine, 7), "mae": float(f"{self.mae:.3g}"), "psnr": round(self.psnr, 2)}


@dataclass(frozen=True, kw_only=True)
class ParityReport:
    """What the gate found.

    Attributes:
        part: of the engine.
        precision: of the engine.
        inputs: how many were compared.
        figures: for the inputs of each kind, "warp" and "gaussian".
        graph_error: largest difference of the graph in onnxruntime; None where the engine itself ran.
        executed_by: what ran.
    """

    part: str
    precision: str
    inputs: int
    figures: Mapping[str, Figures]
    graph_error: float | None
    executed_by: str

    @property
    def worst(self) -> Figures:
        """Over all kinds of inputs."""
        return _worst(self.figures.values())

    @property
    def problem(self) -> str:
        """By what the gate is missed, with figures and limits; empty where it is passed."""
        cosine, psnr = _LIMITS[self.part, self.precision]
        found = []
        if not self.worst.psnr >= psnr:
            found.append(f"PSNR {self.worst.psnr:.2f} dB, at least {psnr:g} are wanted")
        if not self.worst.cosine >= cosine:
            found.append(f"cosine {self.worst.cosine:.6f}, at least {cosine} is wanted")
        if self.graph_error is not None and not self.graph_error <= LARGEST_GRAPH_ERROR:
            found.append(f"graph error {self.graph_error:.3g}, at most {LARGEST_GRAPH_ERROR:g} is wanted")
        return "; ".join(found)

    @property
    def passed(self) -> bool:
        """Whether the engine may be used."""
        return not self.problem

    def to_json(self) -> dict[str, Any]:
        """The report, ready for JSON."""
        return {
            "passed": self.passed,
            "problem": self.problem,
            "inputs": self.inputs,
            "worst": self.worst.to_json(),
            "figures": {kind: figures.to_json() for kind, figures in self.figures.items()},
            "limits": gate_limits(self.part, self.precision),
            "graph_error": self.graph_error,
            "executed_by": self.executed_by,
        }


def gate_limits(part: str, precision: str) -> dict[str, float]:
    """What an engine has to reach: least cosine and PSNR in dB, and largest graph error."""
    cosine, psnr = _LIMITS[part, precision]
    return {"cosine": cosine, "psnr": psnr, "graph_error": LARGEST_GRAPH_ERROR}


def verify_session(
    spec: EngineSpec,
    session: Run,
    reference: nn.Module,
    samples: PartInputs,
    *,
    executed_by: str,
    count: int = INPUTS,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> ParityReport:
    """Compares an open engine with float32 torch, input by input.

    Args:
        spec: of the engine.
        session: the engine.
        reference: the part in float32, on the same device.
        samples: the inputs.
        executed_by: what runs, in words.
        count: inputs; half are warps, half Gaussian.
        progress: called with ("parity", done, count).
        check_cancelled: called before each; raises to stop.
    """
    figures: dict[str, list[Figures]] = {}
    for done, (kind, inputs) in enumerate(_inputs(samples, count)):
        if check_cancelled is not None:
            check_cancelled()
        with torch.inference_mode():
            figures.setdefault(kind, []).append(_figures(session(*inputs), reference(*inputs)))
        if progress is not None:
            progress("parity", done + 1, count)
    return _report(spec, figures, graph_error=None, executed_by=executed_by)


def verify_emulated(
    spec: EngineSpec,
    graph: onnx.ModelProto,
    half: nn.Module,
    scales: Scales,
    reference: nn.Module,
    samples: PartInputs,
    *,
    count: int = INPUTS,
    progress: Progress | None = None,
    check_cancelled: Callable[[], None] | None = None,
) -> ParityReport:
    """Checks a graph's structure in onnxruntime, and emulates its rounding in torch, on the CPU.

    Args:
        spec: of the engine.
        graph: of the engine.
        half: the part in half precision on the CPU, with `precision.rounded_weights`.
        scales: of the quantised inputs.
        reference: the part in float32, on the CPU.
        samples: the inputs, on the CPU.
        count: inputs; half are warps, half Gaussian.
        progress: called with ("parity", done, count).
        check_cancelled: called before each; raises to stop.

    Raises:
        MissingPackageError: onnxruntime is not installed.
    """
    run_graph, version = _onnxruntime(widen(graph), spec)
    plain = copy.deepcopy(half).float()
    figures: dict[str, list[Figures]] = {}
    graph_error = 0.0
    for done, (kind, inputs) in enumerate(_inputs(samples, count)):
        if check_cancelled is not None:
            check_cancelled()
        rounded = [value.half() if value.ndim > 3 else value for value in inputs]
        wide = [value.float() for value in rounded]
        with torch.inference_mode():
            difference = float((run_graph(wide) - plain(*wide)).abs().max())
            graph_error = max(graph_error, difference if math.isfinite(difference) else math.inf)
            with emulated(half, scales) as rounding:
                figures.setdefault(kind, []).append(_figures(rounding(*rounded), reference(*inputs)))
        if progress is not None:
            progress("parity", done + 1, count)
    executed_by = (
        f"not the engine: onnxruntime {version} on the CPU for the graph without its precision, "
        f"torch {torch.__version__} on the CPU for the rounding"
    )
    return _report(spec, figures, graph_error=graph_error, executed_by=executed_by)


def _inputs(samples: PartInputs, count: int) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    for number in range(count):
        kind = "gaussian" if number % 2 else "warp"
        yield kind, (samples.gaussian if number % 2 else samples.warp)(number // 2)


def _figures(picture: Tensor, reference: Tensor) -> Figures:
    x, y = picture.double().flatten(), reference.double().flatten()
    square = float((x - y).square().mean())
    return Figures(
        cosine=float(torch.dot(x, y) / (x.norm() * y.norm())),
        mae=float((x - y).abs().mean()),
        psnr=_EQUAL_DB if square == 0 else -10 * math.log10(square) if square > 0 else math.nan,
    )


def _worst(figures: Iterable[Figures]) -> Figures:
    # numpy's, since Python's own min and max may drop what is not a number
    cosine, mae, psnr = np.array([(each.cosine, each.mae, each.psnr) for each in figures]).T
    return Figures(cosine=float(cosine.min()), mae=float(mae.max()), psnr=float(psnr.min()))


def _report(
    spec: EngineSpec, figures: Mapping[str, Sequence[Figures]], *, graph_error: float | None, executed_by: str
) -> ParityReport:
    return ParityReport(
        part=spec.part,
        precision=spec.precision,
        inputs=sum(map(len, figures.values())),
        figures={kind: _worst(each) for kind, each in figures.items()},
        graph_error=graph_error,
        executed_by=executed_by,
    )


def _onnxruntime(graph: onnx.ModelProto, spec: EngineSpec) -> tuple[Callable[[Sequence[Tensor]], Tensor], str]:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError(
            "onnxruntime", needed_for="checking a graph without a GPU", install="pip install onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(inputs: Sequence[Tensor]) -> Tensor:
        feed = {name: value.numpy() for name, value in zip(spec.inputs, inputs, strict=True)}
        return torch.from_numpy(session.run(None, feed)[0])

    return run, str(onnxruntime.__version__)

"""`engine build`, `engine verify` and `engine info`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from ..backends import choose_device
from ..backends.engines import (
    ENGINE_PRECISIONS,
    FLAVOURS,
    PARTS,
    Engine,
    EngineError,
    EngineFileError,
    EngineSpec,
    build_engine,
    engine_key,
    load_engine,
    parse_batch,
    verify_engine,
)
from ..backends.engines.bindings import load_library
from ..backends.engines.build import header_problem, inspect
from ..backends.engines.spec import BUILD_IT
from ..backends.engines.store import ENDING, read_engine, read_side
from ..backends.engines.verify import INPUTS
from ..bench.environment import describe
from ..checkpoints import MINIATURE_SOURCE, DittoModels, load_models
from ..errors import DittoError, FileError
from .output import ProgressLine, say
from .render import report_path, write_report

_FOLDER = Path("engines")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `engine` and its own commands."""
    parser = commands.add_parser("engine", help="build, verify or describe TensorRT engines")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    build = actions.add_parser("build", help="build an engine; without a GPU too, for one that is named")
    _add_spec(build)
    build.set_defaults(run=_build)

    verify = actions.add_parser("verify", help="compare an engine with float32 torch")
    _add_spec(verify)
    verify.add_argument(
        "--inputs", type=int, default=INPUTS, metavar="N", help=f"inputs to compare, {INPUTS} by default"
    )
    verify.set_defaults(run=_verify)

    info = actions.add_parser("info", help="what engines are there, and which fit this machine's libraries")
    info.add_argument("--out", type=Path, default=_FOLDER, metavar="DIR", help="folder of the engines")
    info.add_argument("--report", type=report_path, metavar="FILE", help="write all that is known, as JSON")
    info.set_defaults(run=_info)


def _add_spec(parser: argparse.ArgumentParser) -> None:
    plain = EngineSpec()
    parser.add_argument(
        "--models", default=MINIATURE_SOURCE, metavar="DIR", help="model folder, 'miniature' or 'official-shapes'"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where torch calculates")
    parser.add_argument("--part", choices=PARTS, default=plain.part)
    parser.add_argument("--flavour", choices=("auto", *FLAVOURS), default=plain.flavour)
    parser.add_argument("--precision", choices=ENGINE_PRECISIONS, default=plain.precision)
    parser.add_argument("--batch", default="1:8:8", metavar="LEAST:BEST:MOST", help="faces at once, within 1..8")
    parser.add_argument(
        "--compute-capability", default=plain.compute_capability, metavar="N", help="of the GPU: auto, 12.0 or portable"
    )
    parser.add_argument("--out", type=Path, default=_FOLDER, metavar="DIR", help="folder of the engines")
    parser.add_argument("--report", type=report_path, metavar="FILE", help="write what was done and found, as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _spec(options: argparse.Namespace) -> EngineSpec:
    return EngineSpec(
        part=options.part,
        flavour=options.flavour,
        precision=options.precision,
        batch=parse_batch(options.batch),
        compute_capability=options.compute_capability,
    )


def _build(options: argparse.Namespace) -> int:
    spec, begun = _spec(options), time.monotonic()
    models = load_models(options.models, device=choose_device(options.device))
    progress = ProgressLine(quiet=options.quiet)
    try:
        engine = build_engine(models, spec, options.out, progress=progress)
    finally:
        progress.clear()
    wall = time.monotonic() - begun
    library = load_library(engine.key.flavour)
    described = inspect(library, read_engine(engine.path, wanted=engine.key)[0])
    if options.report is not None:
        report = {**_about(models), "engine": engine.report(), "wall_s": round(wall, 1), "inspector": described}
        write_report(options.report, report)
    say(f"{engine.path}: {engine.side.size / 1e6:.1f} MB, {engine.reason}, {wall:.1f} s, {models.describe()}")
    if engine.misfit:
        say(f"this machine can't run it: {engine.misfit}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    if options.inputs < 2:
        raise EngineError(f"{options.inputs} inputs", remedy="compare 2 at least, one of each kind")
    spec = _spec(options)
    models = load_models(options.models, device=choose_device(options.device))
    key, _ = engine_key(models, spec)
    engine = load_engine(options.out / (key.stem + ENDING), models)
    difference = engine.key.difference(key)
    if difference:
        raise EngineFileError(engine.path, difference, remedy=BUILD_IT)
    progress = ProgressLine(quiet=options.quiet)
    try:
        parity = verify_engine(engine, models, count=options.inputs, progress=progress)
    finally:
        progress.clear()
    if options.report is not None:
        write_report(options.report, {**_about(models), "engine": engine.report(), "parity": parity.to_json()})
    worst = parity.worst
    say(f"{engine.path.name}: {'passed' if parity.passed else 'FAILED: ' + parity.problem}")
    say(f"{parity.inputs} inputs, worst: PSNR {worst.psnr:.1f} dB, cosine {worst.cosine:.6f}, MAE {worst.mae:.2e}")
    if parity.graph_error is not None:
        say(f"graph: largest error {parity.graph_error:.1e}")
    say(f"executed by {parity.executed_by}")
    return 0 if parity.passed else 2


def _info(options: argparse.Namespace) -> int:
    if not options.out.is_dir():
        raise FileError(options.out, "no such folder", remedy="name the folder of the engines, or build one first")
    found = [_described(path) for path in sorted(options.out.glob(f"*{ENDING}"))]
    if options.report is not None:
        write_report(options.report, {"environment": describe(), "engines": found})
    for each in found:
        say(f"{each['name']}: {each['state']}")
    if not found:
        say(f"no engines in {options.out}")
    return 0


def _described(path: Path) -> dict[str, Any]:
    """What is known of an engine file, whoever wrote it."""
    try:
        side = read_side(path)
        library = load_library(side.key.flavour)
        loaded = f"{side.key.flavour} {library.__version__} is loaded"
        data, _ = read_engine(path, wanted=side.key)
        problem = header_problem(library, data)
        if side.key.version != library.__version__:
            problem = f"made by {side.key.flavour} {side.key.version}"
        if problem:
            return {"name": path.name, "state": f"not usable: {problem}, and {loaded}", **side.to_json()}
        misfit = Engine(path=path, key=side.key, side=side, built=False, reason="found").misfit
    except DittoError as error:
        return {"name": path.name, "state": f"not usable: {error.problem}"}
    state = f"whole, {loaded}" + (f", but {misfit}" if misfit else "")
    return {"name": path.name, "state": state, **side.to_json(), "inspector": inspect(library, data)}


def _about(models: DittoModels) -> dict[str, Any]:
    return {"environment": describe(), "models": {"source": models.describe(), "fingerprint": models.fingerprint}}

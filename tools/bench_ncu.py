"""Measures with ncu what the rendering networks move to and from device memory, plain and fused.

The JSON that it writes goes into a report of the suite `render` with `python -m ditto_core bench --from REPORT --ncu
FILE --report REPORT`. Reading counters is a right of the administrator on many machines.

    python -m tools.bench_ncu --models official-shapes --report ncu.json
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ditto_core.backends import choose_device
from ditto_core.backends.compiled import GPU_LAYOUT
from ditto_core.backends.cuda_graph import fast_kernels
from ditto_core.backends.inductor import channels_last, compile_function
from ditto_core.bench.environment import describe
from ditto_core.bench.render import RenderSuite, post_warp_of
from ditto_core.bench.run import Settings, write_values
from ditto_core.cli.output import complain, say
from ditto_core.networks.fused_warp import FusedWarp

_COUNTERS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_UNITS = {"byte": 1e-6, "Kbyte": 1e-3, "Mbyte": 1.0, "Gbyte": 1e3}
STAGES = ("warp", "post_warp")
WAYS = ("plain", "fused")


def ncu_command(stage: str, way: str, models: str, batch: int) -> list[str]:
    """Ncu over this file as a worker, which profiles one call. The clocks are left as they are."""
    worker = [sys.executable, "-m", "tools.bench_ncu", "--worker", stage, way, "--models", models]
    counters = ["--metrics", ",".join(_COUNTERS), "--clock-control", "none", "--profile-from-start", "off"]
    return ["ncu", *counters, "--csv", "--page", "raw", "--print-units", "base", *worker, "--batch", str(batch)]


def moved(table: str) -> dict[str, float]:
    """Megabytes read and written by all kernels of ncu's raw page, a line of units below the titles.

    Raises:
        ValueError: there is no such page.
    """
    lines = [line for line in table.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    if len(rows) < 2 or not set(_COUNTERS) <= rows[0].keys():
        raise ValueError(f"no counters in what ncu wrote: {table[-300:]!r}")
    units, kernels = rows[0], rows[1:]
    read, written = (
        sum(float(row[name].replace(",", "")) for row in kernels) * _UNITS[units[name]] for name in _COUNTERS
    )
    return {
        "mbytes": round(read + written, 1),
        "read_mbytes": round(read, 1),
        "written_mbytes": round(written, 1),
        "kernels": len(kernels),
    }


@torch.inference_mode()
def profiled_call(stage: str, way: str, models: str, batch: int) -> None:
    """Runs one call between the profiler's marks, after one that makes everything ready."""
    device = choose_device("cuda")
    suite = RenderSuite(Settings(models=models, device=device, dtype=torch.float16, batch=batch))
    run = _call(suite, stage, way)
    with fast_kernels(tf32=False) if way == "fused" else nullcontext():
        run()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        run()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def _call(suite: RenderSuite, stage: str, way: str) -> Callable[[], Any]:
    warp, decoder = suite.plain.warp_network, suite.plain.decoder
    deformed, occlusion = warp.deform(*suite.inputs)
    if way == "plain":
        if stage == "warp":
            return lambda: warp.deform(*suite.inputs)
        return lambda: decoder(warp.project(deformed, occlusion))
    with fast_kernels(tf32=False):
        if stage == "warp":
            module = FusedWarp(suite.fused.warp_network, GPU_LAYOUT)
            channels_last(module)
            f_s, x_s, x_d = suite.inputs
            given: tuple[torch.Tensor, ...] = (*module.prepare(f_s), x_s, x_d)
            function: Callable[..., Any] = compile_function(module.deform, given)
        else:
            given = (deformed.contiguous(memory_format=torch.channels_last), occlusion)
            function = compile_function(post_warp_of(suite.fused), given)
        function(*given)
    return lambda: function(*given)


def measure(models: str, batch: int) -> dict[str, Any]:
    """All stages, plain and fused; with the reason where ncu can't tell."""
    stages: dict[str, dict[str, Any]] = {}
    for stage in STAGES:
        stages[stage] = {}
        for way in WAYS:
            done = subprocess.run(ncu_command(stage, way, models, batch), capture_output=True, text=True, check=False)
            try:
                found: dict[str, Any] = moved(done.stdout)
            except ValueError as error:
                found = {"not_measured": f"ncu ended with {done.returncode}: {error}"}
            stages[stage][way] = found
            if "mbytes" in found:
                stages[stage][f"{way}_mbytes"] = found["mbytes"]
            say(f"{stage} {way}: {json.dumps(found)}")
    return {"environment": describe(), "models": models, "batch": batch, "counters": _COUNTERS, "stages": stages}


def main() -> int:
    """Measures all, or runs one call as a worker under ncu."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="official-shapes", metavar="DIR")
    parser.add_argument("--batch", type=int, default=8, metavar="N")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--worker", nargs=2, metavar=("STAGE", "WAY"), help="run one call only, to be profiled")
    arguments = parser.parse_args()
    if arguments.worker:
        stage, way = arguments.worker
        profiled_call(stage, way, arguments.models, arguments.batch)
        return 0
    if shutil.which("ncu") is None:
        complain("ncu is not installed: install Nsight Compute, or leave the counted traffic as it is")
        return 1
    report = measure(arguments.models, arguments.batch)
    if arguments.report is not None:
        write_values(report, arguments.report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The machine and the versions that stand beside every measured figure."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import torch

_PACKAGES = ("torch", "numpy", "transformers", "av", "onnx", "onnxruntime", "tensorrt", "tensorrt-rtx-cu13", "triton")


def describe() -> dict[str, Any]:
    """Date, processor, GPUs and package versions, ready for JSON.

    Returns:
        A dictionary of plain values. `gpus` is empty where torch sees none.
    """
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

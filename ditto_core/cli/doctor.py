"""`doctor`: what this machine has, what will be used, and why."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
from typing import Any

import torch

from ..backends import choose_device, precision_type
from ..bench.environment import describe
from ..checkpoints import MINIATURE_SOURCE
from ..checkpoints.convert import check_folder
from ..checkpoints.models import BUNDLED
from ..errors import CheckpointError, DittoError
from ..video import ENCODERS, EncoderOptions, choose_encoder
from .models import folder_of
from .output import say

_TENSORRT = {"tensorrt": "tensorrt", "tensorrt_rtx": "tensorrt-rtx-cu13"}
_OPTIONAL = {
    "onnxruntime": "face detection and the official ONNX speech encoder: pip install onnxruntime",
    "matplotlib": "plots: pip install matplotlib",
    "s3fs": "sending to S3: pip install s3fs",
}
_PICTURE = (1080, 1920)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `doctor`."""
    parser = commands.add_parser("doctor", help="what this machine has, what will be used, and why")
    parser.add_argument("--models", metavar="DIR", help=f"a model folder to check too, or '{MINIATURE_SOURCE}'")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_doctor)


def examine(models: str | None = None) -> dict[str, Any]:
    """Looks at everything that a run depends on; encoders are opened, not only listed.

    Args:
        models: a model folder to check too, or "miniature".

    Returns:
        environment, gpus, tensorrt, encoders, optional, models, and use: what `auto` takes, and why.
    """
    device = choose_device("auto")
    precision = str(precision_type("auto", device)).removeprefix("torch.")
    encoders = {name: _opening(name) for name in ENCODERS if name != "auto"}
    return {
        "environment": describe(),
        "gpus": [_gpu(i) for i in range(torch.cuda.device_count())],
        "tensorrt": {name: _version(package) for name, package in _TENSORRT.items()},
        "encoders": encoders,
        "optional": {name: importlib.util.find_spec(name) is not None for name in _OPTIONAL},
        "models": _models(models),
        "use": {
            "device": f"{device}: " + ("torch sees a GPU" if device.type == "cuda" else "torch sees no GPU"),
            "backend": "torch: ready at once; `--backend compiled` or an engine draws faster on a GPU",
            "precision": f"{precision}: as auto chooses on {device.type}",
            "encoder": choose_encoder(EncoderOptions(), _PICTURE).executed_by,
        },
    }


def _opening(name: str) -> str:
    try:
        choose_encoder(EncoderOptions(encoder=name), _PICTURE)
    except DittoError as error:
        return error.problem
    return "opens"


def _gpu(index: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    return {
        "name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "memory_gb": round(properties.total_memory / 2**30, 1),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _models(word: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        MINIATURE_SOURCE: "bundled" if BUNDLED.is_dir() else "recipe weights, not trained: the picture is noise"
    }
    if word is not None:
        try:
            found[word] = {status.part: status.state for status in check_folder(folder_of(word))}
        except CheckpointError as error:
            found[word] = f"not usable: {error}"
    return found


def _doctor(options: argparse.Namespace) -> int:
    found = examine(options.models)
    if options.json:
        say(json.dumps(found, indent=2))
        return 0
    environment = found["environment"]
    say(f"Python {environment['python']}, {environment['system']}, {environment['processor']}")
    say("packages: " + ", ".join(f"{name} {version}" for name, version in environment["versions"].items()))
    gpus = [f"{gpu['name']} ({gpu['compute_capability']}, {gpu['memory_gb']} GB)" for gpu in found["gpus"]]
    say("GPU: " + (", ".join(gpus) or "none that torch sees"))
    say("TensorRT: " + ", ".join(f"{name} {version or 'not installed'}" for name, version in found["tensorrt"].items()))
    say("encoders:")
    for name, state in found["encoders"].items():
        say(f"  {name:<12} {state}")
    for name, present in found["optional"].items():
        if not present:
            say(f"not installed: {name} ({_OPTIONAL[name]})")
    for name, state in found["models"].items():
        say(f"models {name}: {state}")
    say("what will be used:")
    for name, reason in found["use"].items():
        say(f"  {name:<10} {reason}")
    return 0

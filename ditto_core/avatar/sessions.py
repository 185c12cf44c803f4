"""ONNX models through onnxruntime, as callables from one input array to the output arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from ..errors import CheckpointError, MissingPackageError

Run = Callable[[NDArray[np.float32]], list[NDArray[np.float32]]]
"""One run of a model: its only input -> its outputs, in the file's order."""

MAX_MODEL_BYTES = 256 << 20
"""Largest file of a detector or landmark model; the official ones have up to 115 MB."""
_REMEDY = "get the official file again"


def open_session(path: str | Path) -> Run:
    """A model of one input on the CPU.

    Args:
        path: the .onnx file. It must hold its weights itself.

    Raises:
        MissingPackageError: onnxruntime is not installed.
        CheckpointError: the file is missing, too large, damaged, refers to other files, or has several
            inputs.
    """
    path = Path(path)
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError(
            "onnxruntime", needed_for="face detection", install="pip install 'ditto-live[detectors]'"
        ) from error
    content = _checked_content(path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises kinds of its own that it does not export
        raise CheckpointError(path, f"onnxruntime refuses it ({_first_line(error)})", remedy=_REMEDY) from error
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type != "tensor(float)":
        found = ", ".join(f"{i.name}: {i.type}" for i in inputs)
        raise CheckpointError(path, f"takes [{found}], not one float32 array", remedy=_REMEDY)

    def run(value: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        try:
            return [np.asarray(out) for out in session.run(None, {inputs[0].name: value})]
        except Exception as error:  # as above
            raise CheckpointError(
                path, f"fails on an input of shape {value.shape} ({_first_line(error)})", remedy=_REMEDY
            ) from error

    return run


def _checked_content(path: Path) -> bytes:
    if not path.is_file():
        raise CheckpointError(path, "no such file", remedy=_REMEDY)
    size = path.stat().st_size
    if size > MAX_MODEL_BYTES:
        raise CheckpointError(path, f"{size} bytes, at most {MAX_MODEL_BYTES} are read", remedy=_REMEDY)
    content = path.read_bytes()
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # protobuf's kinds depend on which implementation is installed
        raise CheckpointError(path, "not an ONNX model", remedy=_REMEDY) from error
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in _tensors(model)):
        raise CheckpointError(path, "keeps weights in another file, which is not read", remedy=_REMEDY)
    return content


def _tensors(message: Any) -> Iterator[onnx.TensorProto]:
    """All tensors in a message, however deep."""
    for _, value in message.ListFields():
        for item in value if hasattr(value, "__len__") and not isinstance(value, (str, bytes)) else [value]:
            if isinstance(item, onnx.TensorProto):
                yield item
            elif hasattr(item, "ListFields"):
                yield from _tensors(item)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]

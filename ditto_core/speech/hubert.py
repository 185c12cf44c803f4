"""HuBERT (arXiv:2106.07447), the speech encoder: a `transformers` folder in torch, or the official ONNX file.

The windows are raw samples; the original does not normalise them. What is read of a configuration is a list
of sizes, each within stated limits; no code of a model folder is ever run.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ..backends.cuda_graph import CapturedCall, fast_kernels
from ..checkpoints.recipe import recipe_tensor
from ..checkpoints.tensors import read_tensors, tensors_only
from ..errors import CheckpointError, InvalidValueError, MissingPackageError
from .windows import SpeechWindows

_WINDOW = SpeechWindows.with_hop(5)
_MAX_CONFIG_BYTES = 1 << 20
_MOST_GRAPHS = 2

_LARGEST = {
    "hidden_size": 8192,
    "num_hidden_layers": 64,
    "num_attention_heads": 256,
    "intermediate_size": 32768,
    "num_conv_pos_embeddings": 1024,
    "num_conv_pos_embedding_groups": 1024,
}
_CONVOLUTIONS = ("conv_dim", "conv_stride", "conv_kernel")
_MOST_CONVOLUTIONS, _LARGEST_CONVOLUTION = 16, 8192
_SWITCHES = ("conv_bias", "feat_proj_layer_norm", "do_stable_layer_norm", "conv_pos_batch_norm")
_WORDS = {
    "hidden_act": ("gelu",),
    "feat_extract_activation": ("gelu",),
    "feat_extract_norm": ("group", "layer"),
}
_EPSILON = "layer_norm_eps"

_MINIATURE = {
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "conv_dim": [48] * 7,
    "num_conv_pos_embeddings": 32,
    "num_conv_pos_embedding_groups": 4,
}
_LARGE = {
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "conv_dim": [512] * 7,
    "conv_bias": True,
    "feat_extract_norm": "layer",
    "do_stable_layer_norm": True,
}
_FEED_FORWARD = {"miniature": 2, "large": 4}


class SpeechEncoder(Protocol):
    """What turns windows of sound into features."""

    @property
    def features(self) -> int:
        """Values of a frame, F."""

    @property
    def executed_by(self) -> str:
        """What really runs it, for reports, and why where it was not the first choice."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what determines the numbers, in hexadecimal."""

    def encode(self, windows: Tensor) -> Tensor:
        """Encodes windows of sound.

        Args:
            windows: (b, 6480) float32 on the CPU, mono at 16 kHz, -1 to 1.

        Returns:
            (b, 20, F), 50 frames a second.
        """


class TransformersHubert:
    """A `transformers.HubertModel` in torch.

    Args:
        model: the model with its weights.
        fingerprint: SHA-256 of what the weights were made from.
        device: where to run.
        precision: float32, float16 or bfloat16.

    Raises:
        InvalidValueError: the model does not make 20 frames of a window.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        fingerprint: str,
        device: torch.device | str = "cpu",
        precision: torch.dtype = torch.float32,
    ) -> None:
        self.device, self.precision = torch.device(device), precision
        self.model = model.to(self.device, precision).eval().requires_grad_(False)
        self._captured: dict[int, tuple[Tensor, CapturedCall]] = {}
        self._lock = threading.Lock()  # a graph has one set of inputs
        config: Any = self.model.config
        self.features = int(config.hidden_size)
        self.fingerprint = fingerprint
        self.executed_by = f"torch {torch.__version__} {self.device} {str(precision).removeprefix('torch.')}"
        frames = _frames(config.conv_kernel, config.conv_stride)
        if frames != _WINDOW.encoder_frames:
            raise InvalidValueError(
                f"HuBERT of {frames} frames for {_WINDOW.length} samples, not {_WINDOW.encoder_frames}",
                remedy="use a model of 50 frames a second",
            )

    @classmethod
    def from_folder(
        cls, folder: str | Path, *, device: torch.device | str = "cpu", precision: torch.dtype = torch.float32
    ) -> TransformersHubert:
        """Loads config.json and model.safetensors of a folder as `transformers` writes it.

        Both HubertModel's names and those below a head ("hubert." before each) are read; heads are left out.

        Args:
            folder: the folder; nothing outside it is read, and nothing is downloaded.
            device: where to run.
            precision: float32, float16 or bfloat16.

        Raises:
            CheckpointError: a file is missing, damaged, too large, or not of a HuBERT model; or tensors are
                missing, unknown, or of another shape.
        """
        config_file, weights_file = Path(folder, "config.json"), Path(folder, "model.safetensors")
        sizes = _read_config(config_file)
        try:
            model = _empty_model(sizes)
        except Exception as error:  # transformers checks with several libraries' errors
            raise CheckpointError(
                config_file,
                f"has sizes that do not fit together ({error})",
                remedy="use the model's own config.json",
            ) from error
        _load_weights(model, weights_file)
        fingerprint = _sha256(config_file, weights_file)
        try:
            return cls(model, fingerprint=fingerprint, device=device, precision=precision)
        except InvalidValueError as error:
            raise CheckpointError(config_file, error.problem, remedy=error.remedy) from error

    def encode(self, windows: Tensor) -> Tensor:
        """As `SpeechEncoder.encode`; (b, 20, F) float32 on the device."""
        with torch.inference_mode():
            if self.device.type == "cuda":
                with self._lock:
                    return self._replay(windows).float()
            return self._hidden(windows.to(self.device, self.precision)).float()

    def close(self) -> None:
        """Gives the CUDA graphs back; the next call captures anew."""
        for _, captured in self._captured.values():
            captured.close()
        self._captured.clear()

    def _hidden(self, windows: Tensor) -> Tensor:
        hidden: Tensor = self.model(windows).last_hidden_state
        return hidden

    def _replay(self, windows: Tensor) -> Tensor:
        """Runs as one CUDA graph a batch size: of one window, launching takes several times as long as computing."""
        if len(windows) not in self._captured:
            while len(self._captured) >= _MOST_GRAPHS:
                self._captured.pop(next(iter(self._captured)))[1].close()
            own = windows.to(self.device, self.precision, copy=True)
            with fast_kernels(tf32=False):
                self._captured[len(windows)] = own, CapturedCall(lambda: self._hidden(own), self.device)
        own, captured = self._captured[len(windows)]
        own.copy_(windows)
        return captured.replay().clone()


class OnnxHubert:
    """The official hubert.onnx or hubert_streaming_fix_kv.onnx, through onnxruntime.

    Both files are stateless: "input_values" (1, n) to (frames, F) at 50 Hz. They have no batch axis, so that
    windows run one by one; a batch of 1 wastes nothing.

    Args:
        path: the file.
        device: "auto" takes CUDA where it starts, else the CPU, and says why; "cuda" raises instead.

    Raises:
        MissingPackageError: onnxruntime is not installed.
        CheckpointError: the file is missing, damaged, or has other inputs or outputs.
        InvalidValueError: the device is unknown, or CUDA was demanded and does not start.
    """

    def __init__(self, path: str | Path, *, device: Literal["auto", "cpu", "cuda"] = "auto") -> None:
        self.path = Path(path)
        self._session, self.executed_by = _onnx_session(self.path, device)
        names = [entry.name for entry in self._session.get_inputs()]
        if names != ["input_values"]:
            raise self._error(f"takes the inputs {names}, not ['input_values']")
        frames = self._run(np.zeros((1, _WINDOW.length), np.float32))
        if frames.ndim != 2 or frames.shape[0] != _WINDOW.encoder_frames:
            raise self._error(f"makes {frames.shape} of a window of {_WINDOW.length} samples, not (20, features)")
        self.features = int(frames.shape[1])
        self.fingerprint = _sha256(self.path)

    def encode(self, windows: Tensor) -> Tensor:
        """As `SpeechEncoder.encode`; (b, 20, F) float32 on the CPU."""
        return torch.from_numpy(np.stack([self._run(window[None]) for window in windows.numpy()]))

    def _run(self, window: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.float32]]:
        try:
            frames = np.asarray(self._session.run(None, {"input_values": window})[0])
        except Exception as error:  # onnxruntime's errors have no common base
            raise self._error(f"does not run on a window of {_WINDOW.length} samples ({error})") from error
        return frames[0] if frames.ndim == 3 else frames

    def _error(self, problem: str) -> CheckpointError:
        return CheckpointError(self.path, problem, remedy="use the official hubert.onnx")


def recipe_hubert(
    features: int,
    size: Literal["miniature", "large"],
    *,
    device: torch.device | str = "cpu",
    precision: torch.dtype = torch.float32,
) -> TransformersHubert:
    """A HuBERT with recipe weights, for tests and benchmarks where no trained file is at hand.

    Args:
        features: values of a row; 64 fits the miniature preset, 1024 the official one. A multiple of 16.
        size: "miniature" (3 layers, seven convolutions of 48 channels) or "large" (HuBERT-large).
        device: where to run.
        precision: float32, float16 or bfloat16.

    Raises:
        InvalidValueError: features is not a multiple of 16 up to 8192, or the size is unknown.
    """
    if features % 16 or not 16 <= features <= _LARGEST["hidden_size"] or size not in _FEED_FORWARD:
        raise InvalidValueError(
            f"recipe HuBERT of {features} features and size {size!r}",
            remedy=f"use a multiple of 16 up to {_LARGEST['hidden_size']}, and 'miniature' or 'large'",
        )
    sizes = dict(_MINIATURE if size == "miniature" else _LARGE)
    sizes.update(hidden_size=features, intermediate_size=features * _FEED_FORWARD[size])
    model = _empty_model(sizes)
    shapes = {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}
    state = {key: torch.from_numpy(recipe_tensor(f"hubert/{key}", shape)) for key, shape in shapes.items()}
    model.load_state_dict(state, assign=True)
    fingerprint = hashlib.sha256(f"recipe hubert {size} {features}".encode()).hexdigest()
    return TransformersHubert(model, fingerprint=fingerprint, device=device, precision=precision)


def _empty_model(sizes: Mapping[str, Any]) -> nn.Module:
    """The model without memory for its weights, and without the randomness that training adds."""
    from transformers import HubertConfig, HubertModel  # takes seconds to import

    with torch.device("meta"):
        model: nn.Module = HubertModel(HubertConfig(**sizes, apply_spec_augment=False, layerdrop=0.0))
    return model


def _read_config(path: Path) -> dict[str, Any]:
    def bad(problem: str) -> CheckpointError:
        return CheckpointError(path, problem, remedy="use the config.json of a HuBERT model")

    if not path.is_file():
        raise bad("is missing")
    if path.stat().st_size > _MAX_CONFIG_BYTES:
        raise bad(f"is larger than {_MAX_CONFIG_BYTES} bytes")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise bad(f"is no JSON file ({error})") from error
    if not isinstance(values, dict) or values.get("model_type") != "hubert":
        raise bad("is not of a HuBERT model")
    keys = (*_LARGEST, *_CONVOLUTIONS, *_SWITCHES, *_WORDS, _EPSILON)
    sizes = {key: values[key] for key in keys if key in values}
    for key, value in sizes.items():
        if not _supported(key, value):
            raise bad(f"has {key} = {str(value)[:60]}, which is not supported")
    return sizes


def _supported(key: str, value: Any) -> bool:
    if key in _SWITCHES:
        return isinstance(value, bool)
    if key in _WORDS:
        return value in _WORDS[key]
    if key == _EPSILON:
        return isinstance(value, float) and 0 < value < 0.1
    if key in _CONVOLUTIONS:
        some = isinstance(value, list) and 0 < len(value) <= _MOST_CONVOLUTIONS
        return some and all(type(item) is int and 0 < item <= _LARGEST_CONVOLUTION for item in value)
    return type(value) is int and 0 < value <= _LARGEST[key]


def _load_weights(model: nn.Module, path: Path) -> None:
    stored = tensors_only(path, read_tensors(path))
    headed = any(key.startswith("hubert.") for key in stored)
    state = {
        _current_name(key.removeprefix("hubert.")): tensor.float()
        for key, tensor in stored.items()
        if not headed or key.startswith("hubert.")
    }
    wanted = {key: tensor.shape for key, tensor in model.state_dict().items()}
    # Only training reads this one; some files leave it out.
    state.setdefault("masked_spec_embed", torch.zeros(wanted["masked_spec_embed"]))
    missing, unknown = sorted(wanted.keys() - state.keys()), sorted(state.keys() - wanted.keys())
    misshapen = [key for key in wanted.keys() & state.keys() if wanted[key] != state[key].shape]
    if missing or unknown or misshapen:
        raise CheckpointError(
            path,
            f"does not fit its config.json: {len(missing)} tensors missing {missing[:3]}, "
            f"{len(unknown)} unknown {unknown[:3]}, {len(misshapen)} misshapen {sorted(misshapen)[:3]}",
            remedy="use the config.json and model.safetensors of one HuBERT model",
        )
    model.load_state_dict(state, assign=True)


def _current_name(key: str) -> str:
    """Weight norm's names as torch has them now; files from before torch 2.1 have the older ones."""
    if "pos_conv_embed" not in key:
        return key
    return key.replace("weight_g", "parametrizations.weight.original0").replace(
        "weight_v", "parametrizations.weight.original1"
    )


def _frames(kernels: list[int], strides: list[int]) -> int:
    length = _WINDOW.length
    for kernel, stride in zip(kernels, strides, strict=True):
        length = (length - kernel) // stride + 1
    return length


def _sha256(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _onnx_session(path: Path, device: str) -> tuple[Any, str]:
    if device not in ("auto", "cpu", "cuda"):
        raise InvalidValueError(f"device {device!r} for the ONNX speech encoder", remedy="use auto, cpu or cuda")
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError(
            "onnxruntime", needed_for="the ONNX speech encoder", install="pip install onnxruntime"
        ) from error
    if not path.is_file():
        raise CheckpointError(path, "is missing", remedy="give the path of the official hubert.onnx")
    offered = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    wanted = ["CUDAExecutionProvider"] if offered and device != "cpu" else []
    try:
        session = onnxruntime.InferenceSession(str(path), providers=[*wanted, "CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base
        raise CheckpointError(path, f"can't be loaded ({error})", remedy="download it again") from error
    provider = session.get_providers()[0]
    reason = ""
    if device != "cpu" and provider != "CUDAExecutionProvider":
        reason = "CUDA did not start" if offered else "this onnxruntime is built without CUDA"
    if device == "cuda" and reason:
        raise InvalidValueError(
            f"ONNX speech encoder on cuda: {reason}", remedy="install onnxruntime-gpu, or use auto or cpu"
        )
    return session, f"onnxruntime {onnxruntime.__version__} {provider}" + (f" ({reason})" if reason else "")

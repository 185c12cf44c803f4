"""What an engine is built for: the user's choice, the key that follows from it, and the files' names."""

from __future__ import annotations

import dataclasses
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import DittoError, InvalidValueError
from ...networks.presets import KEYPOINTS, Preset

PARTS = ("post-warp", "warp-decode")
FLAVOURS = ("tensorrt", "tensorrt_rtx")
ENGINE_PRECISIONS = ("fp16", "fp8")
LARGEST_BATCH = 8
AUTO = "auto"
PORTABLE = "portable"
BUILD_IT = "build it anew"
"""The remedy for an engine that can't be used."""

_HEX = re.compile(r"[0-9a-f]{64}")
_LONGEST_FIELD = 200
_WIDEST = f"1:{LARGEST_BATCH}:{LARGEST_BATCH}"


class EngineError(DittoError):
    """An engine can't be built, loaded or trusted."""


@dataclass(frozen=True, kw_only=True)
class EngineSpec:
    """What is wanted of an engine.

    Attributes:
        part: "post-warp" (deformed volume and occlusion to picture) or "warp-decode" (appearance volume and key
            points to picture).
        flavour: "tensorrt", "tensorrt_rtx", or "auto": what is installed and runs on the target.
        precision: "fp16", or "fp8" for inputs and weights of the decoder's 3x3 convolutions.
        batch: least, best and most faces at once, 1 to 8.
        compute_capability: of the GPU that shall run it, as "12.0"; "portable": any from 8.0 on; "auto": the GPU
            that torch sees.
    """

    part: str = "post-warp"
    flavour: str = AUTO
    precision: str = "fp16"
    batch: tuple[int, int, int] = (1, LARGEST_BATCH, LARGEST_BATCH)
    compute_capability: str = AUTO

    def __post_init__(self) -> None:
        """Checks each choice by itself.

        Raises:
            InvalidValueError: it is none of those allowed.
        """
        for name, allowed in (("part", PARTS), ("flavour", (AUTO, *FLAVOURS)), ("precision", ENGINE_PRECISIONS)):
            if getattr(self, name) not in allowed:
                raise InvalidValueError(f"{name} {getattr(self, name)!r}", remedy=f"choose {' or '.join(allowed)}")
        if len(self.batch) != 3 or not 1 <= self.batch[0] <= self.batch[1] <= self.batch[2] <= LARGEST_BATCH:
            raise InvalidValueError(
                f"batch {':'.join(map(str, self.batch))}",
                remedy=f"give least:best:most with 1 <= least <= best <= most <= {LARGEST_BATCH}",
            )
        word = self.compute_capability
        if word not in (AUTO, PORTABLE) and not re.fullmatch(r"\d{1,2}\.\d", word):
            raise InvalidValueError(f"compute capability {word!r}", remedy="write it as 12.0, or portable")

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the part's inputs, in order."""
        return ("deformed", "occlusion") if self.part == "post-warp" else ("f_s", "x_s", "x_d")

    def input_shapes(self, preset: Preset) -> tuple[tuple[int, ...], ...]:
        """Shapes of the part's inputs without the batch."""
        channels, depth, size = preset.volume_channels, preset.volume_depth, preset.volume_size
        if self.part == "post-warp":
            return (channels * depth, size, size), (1, size, size)
        return (channels, depth, size, size), (KEYPOINTS, 3), (KEYPOINTS, 3)


def parse_batch(text: str) -> tuple[int, int, int]:
    """The batch range written as "1:8:8", or one number for all three.

    Raises:
        InvalidValueError: it is neither.
    """
    if not re.fullmatch(r"\d{1,2}(:\d{1,2}:\d{1,2})?", text):
        raise InvalidValueError(f"batch {text!r}", remedy="write least:best:most, as 1:8:8")
    numbers = [int(number) for number in text.split(":")]
    return (numbers[0], numbers[len(numbers) // 2], numbers[-1])


@dataclass(frozen=True, kw_only=True)
class EngineKey:
    """All that decides whether an engine fits.

    Attributes:
        flavour: tensorrt or tensorrt_rtx.
        version: of the library that built it; another version does not read it.
        system: operating system and processor.
        target: "sm120" for compute capability 12.0, or "portable".
        part: see `EngineSpec`.
        precision: see `EngineSpec`.
        batch: as "1:8:8".
        weights: fingerprint of the models.
        graph: SHA-256 over the code and sizes from which the graph follows.
    """

    flavour: str
    version: str
    system: str
    target: str
    part: str
    precision: str
    batch: str
    weights: str
    graph: str

    def __post_init__(self) -> None:
        """Checks what may come from a file.

        Raises:
            InvalidValueError: a field is of the wrong kind.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_FIELD or not value.isprintable():
                raise InvalidValueError(f"engine key with {field.name} {value!r:.60}", remedy="build the engine anew")
        if not _HEX.fullmatch(self.weights) or not _HEX.fullmatch(self.graph):
            raise InvalidValueError("engine key without SHA-256 of weights and graph", remedy="build the engine anew")

    @property
    def spec(self) -> EngineSpec:
        """The choice that leads to this key.

        Raises:
            InvalidValueError: a field is none of those allowed.
        """
        if AUTO in (self.flavour, self.target):
            raise InvalidValueError("engine key that leaves a choice open", remedy="build the engine anew")
        digits = re.fullmatch(r"sm(\d{1,2})(\d)", self.target)
        return EngineSpec(
            part=self.part,
            flavour=self.flavour,
            precision=self.precision,
            batch=parse_batch(self.batch),
            compute_capability=f"{digits[1]}.{digits[2]}" if digits else self.target,
        )

    @property
    def stem(self) -> str:
        """The engine's readable file name, without ending.

        The library's version is not in it, so that a new version's engine takes the old one's place.
        """
        part = self.part.replace("-", "_")
        batch = str(LARGEST_BATCH) if self.batch == _WIDEST else self.batch.replace(":", "-")
        return f"{part}_{self.target}_{self.precision}_b{batch}_{self.flavour}_{self.weights[:8]}"

    def difference(self, wanted: EngineKey) -> str:
        """In words, by what this engine's key differs from the wanted one; empty where it does not."""
        if (self.flavour, self.version) != (wanted.flavour, wanted.version):
            return f"made by {self.flavour} {self.version}, and {wanted.flavour} {wanted.version} is loaded"
        words = {"weights": "made for models {}, not {}", "graph": "made from graph {}, and this version's is {}"}
        for field in dataclasses.fields(self):
            mine, other = getattr(self, field.name), getattr(wanted, field.name)
            if mine != other:
                return words.get(field.name, f"made for {field.name} {{}}, not {{}}").format(mine[:12], other[:12])
        return ""

    def to_json(self) -> dict[str, str]:
        """The key as a dictionary for a JSON file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EngineKey:
        """The key from a dictionary as `to_json` gives.

        Raises:
            InvalidValueError: a field is unknown, missing or of the wrong kind.
        """
        if set(values) != {field.name for field in dataclasses.fields(cls)}:
            raise InvalidValueError("engine key with other fields than this version's", remedy="build the engine anew")
        return cls(**values)


def this_system() -> str:
    """Operating system and processor, as in a key."""
    return f"{platform.system()} {platform.machine()}"


def target_name(capability: str) -> str:
    """As "sm120" for "12.0"; "portable" stays."""
    return capability if capability == PORTABLE else "sm" + capability.replace(".", "")

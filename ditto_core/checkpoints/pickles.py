"""Reading the official configuration pickle without running anything that it names.

Plain containers, numbers, text, bytes and numeric numpy arrays are read; everything else is refused by name. numpy's
own unpickling never sees the file: stand-ins record what an array was saved with, and plain arrays are built from
that after it is checked.
"""

from __future__ import annotations

import io
import pickle  # noqa: S403  (only through the restricted unpickler below)
import pickletools
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CheckpointError

MAX_CONFIG_BYTES = 64 << 20
"""Largest configuration pickle that is read; the official ones have 31 kB."""
_MAX_DEPTH = 100
_REMEDY = "use the configuration file of the official release"


def imports(data: bytes) -> set[str]:
    """The names that a pickle would import, found without running it.

    A pickle made by hand can hide a name from this listing, but not from the unpickler.

    Args:
        data: the pickle.

    Returns:
        "module.name" of each.

    Raises:
        ValueError: not a whole pickle.
    """
    found: set[str] = set()
    memo: dict[int, object] = {}
    pushed: list[object] = []  # texts, and what else could be remembered
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("GLOBAL", "INST"):
            found.add(".".join(str(argument).split(" ", 1)))
        elif opcode.name == "STACK_GLOBAL":
            found.add(".".join(str(text) for text in pushed[-2:]))
        elif opcode.name in ("EXT1", "EXT2", "EXT4"):
            found.add(f"copyreg extension {argument}")
        elif opcode.name in _PUTS:
            memo[len(memo) if argument is None else int(argument)] = pushed[-1] if pushed else None
            continue
        pushed.append(memo.get(int(argument or 0)) if opcode.name in _GETS else argument)
    return found


def read_config(path: str | Path) -> dict[str, Any]:
    """The official configuration (v0.4_hubert_cfg_*.pkl).

    Args:
        path: the file.

    Returns:
        Its dictionary: base_cfg, audio2motion_cfg, default_kwargs, ... Arrays are numpy arrays.

    Raises:
        CheckpointError: the file is missing, too large, damaged, or names anything but plain data.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(path, "no such file", remedy=_REMEDY)
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise CheckpointError(path, f"more than {MAX_CONFIG_BYTES} bytes", remedy=_REMEDY)
    data = path.read_bytes()
    try:
        _check_opcodes(data)
        config = _plain(_Unpickler(io.BytesIO(data)).load(), {}, 0)
    except _Refused as error:
        raise CheckpointError(path, f"{error}; nothing was run", remedy=_REMEDY) from error
    except Exception as error:  # damaged pickles raise almost anything
        raise CheckpointError(path, f"not a whole pickle ({type(error).__name__}: {error})", remedy=_REMEDY) from error
    if not isinstance(config, dict):
        raise CheckpointError(path, f"holds a {type(config).__name__}, not a dictionary", remedy=_REMEDY)
    return config


class _Refused(Exception):
    """The pickle asks for something that a configuration does not need."""


_REFUSED_OPCODES = {"INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}
_PUTS = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_GETS = {"GET", "BINGET", "LONG_BINGET"}


def _check_opcodes(data: bytes) -> None:
    """Refuses imports, instructions that make objects, and memo numbers that the unpickler would take memory for."""
    refused = sorted(imports(data) - _ALLOWED.keys())
    if refused:  # also refused when it is looked up; here all are named at once, before any other complaint
        raise _Refused(f"names {', '.join(refused)}")
    operations = 0
    for opcode, argument, _ in pickletools.genops(data):
        operations += 1
        if opcode.name in _REFUSED_OPCODES:
            raise _Refused(f"uses the instruction {opcode.name}, which plain data does not need")
        if opcode.name in _PUTS and argument is not None and int(argument) > operations:
            raise _Refused(f"numbers its {operations}th object {argument}")


class _DType:
    """Stand-in for numpy.dtype: numbers, booleans and text of fixed width only."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"[<>|=]?([biufc](1|2|4|8|16)|[SU][0-9]{1,6})", code):
            raise _Refused(f"has an array of type {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        order = state[1] if len(state) > 1 else None
        if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise _Refused("has an array of a structured type")
        self.dtype = self.dtype.newbyteorder("=" if order == "|" else order)


class _Array:
    """Stand-in for numpy.ndarray."""

    array: np.ndarray[Any, Any] | None = None

    def __setstate__(self, state: tuple[object, ...]) -> None:
        _version, shape, dtype, fortran, raw = state
        self.array = _array(raw, dtype, shape, "F" if fortran else "C")


def _array(raw: object, dtype: object, shape: object, order: str) -> np.ndarray[Any, Any]:
    if not isinstance(dtype, _DType) or not isinstance(raw, bytes | bytearray | str):
        raise _Refused("has an array of objects")
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape) or len(shape) > 8:
        raise _Refused(f"has an array of shape {shape!r}")
    data = raw.encode("latin-1") if isinstance(raw, str) else bytes(raw)
    flat = np.frombuffer(data, dtype=dtype.dtype)
    return flat.reshape(shape, order="F" if order == "F" else "C").copy()


class _Function:
    """What the pickle calls. Without attributes of its own, so that a pickle has nothing here that it could set."""

    __slots__ = ()


class _MakeDType(_Function):
    __slots__ = ()

    def __call__(self, code: object, *_: object) -> _DType:
        return _DType(code)


class _NDArray(_Function):
    """numpy.ndarray as an argument of `_reconstruct`."""

    __slots__ = ()


class _Reconstruct(_Function):
    __slots__ = ()

    def __call__(self, kind: object, *_: object) -> _Array:
        if not isinstance(kind, _NDArray):
            raise _Refused("reconstructs something that is no array")
        return _Array()


class _FromBuffer(_Function):
    __slots__ = ()

    def __call__(self, raw: object, dtype: object, shape: object, order: object) -> np.ndarray[Any, Any]:
        return _array(raw, dtype, shape, "F" if order == "F" else "C")


class _Scalar(_Function):
    __slots__ = ()

    def __call__(self, dtype: object, raw: object) -> Any:
        return _array(raw, dtype, (), "C")[()]


class _EmptyBytes(_Function):
    """How old protocols write b""."""

    __slots__ = ()

    def __call__(self) -> bytes:
        return b""


class _Encode(_Function):
    __slots__ = ()

    def __call__(self, text: object, encoding: object) -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise _Refused("encodes something that is no bytes of an array")
        return text.encode("latin-1")


_ALLOWED: dict[str, object] = {
    "collections.OrderedDict": dict,
    "_codecs.encode": _Encode(),
    "__builtin__.bytes": _EmptyBytes(),
    "numpy.ndarray": _NDArray(),
    "numpy.dtype": _MakeDType(),
    **{
        f"numpy.{core}.{name}": function
        for core in ("core", "_core")
        for name, function in [
            ("multiarray._reconstruct", _Reconstruct()),
            ("multiarray.scalar", _Scalar()),
            ("numeric._frombuffer", _FromBuffer()),
        ]
    },
}


class _Unpickler(pickle.Unpickler):  # noqa: S301
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[f"{module}.{name}"]
        except KeyError:
            raise _Refused(f"names {module}.{name}") from None


def _plain(value: Any, seen: dict[int, Any], depth: int) -> Any:
    """The value with stand-ins replaced; shared parts are visited once, so that nesting can't multiply the work."""
    if depth > _MAX_DEPTH:
        raise _Refused(f"is nested more than {_MAX_DEPTH} deep")
    if id(value) in seen:
        return seen[id(value)]
    result = value
    if isinstance(value, _Array):
        if value.array is None:
            raise _Refused("has an array without contents")
        result = value.array
    elif isinstance(value, dict):
        result = {_plain(k, seen, depth + 1): _plain(v, seen, depth + 1) for k, v in value.items()}
    elif isinstance(value, list | tuple | set | frozenset):
        result = type(value)(_plain(item, seen, depth + 1) for item in value)
    elif isinstance(value, type) or not isinstance(value, _PLAIN):
        raise _Refused(f"holds a {type(value).__name__}")
    seen[id(value)] = result
    return result


_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, np.ndarray, np.generic)

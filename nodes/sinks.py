"""Addresses outside of this machine: a prompt may name those that the server's owner allows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from ..ditto_core.errors import InvalidValueError
from ..ditto_core.video.sinks import NETWORK, container_for, sink_name

VARIABLE = "DITTO_ALLOWED_SINKS"
"""Environment variable: beginnings of addresses, separated by commas or spaces. Empty allows none."""

_WRITER = "NVENCVideoWriter"
_PORTS = {"rtmp": 1935, "rtmps": 443}
_LONGEST = 2000
_PLAIN = re.compile(r"[!-~]+")
_MISLEADING = ("\\", "#", "::")
"""Where readers of addresses do not agree, or, with ::, one address holds another."""


def check_sink(address: str) -> None:
    """Checks that a stream may go to an address.

    Raises:
        InvalidValueError: it is none, or it is not allowed here.
    """
    if _parts(address) is None:
        raise InvalidValueError(
            "a sink that is no plain address",
            remedy="give one such as rtmp://host/app/key, without spaces, backslash, #, :: or ..",
        )
    if not any(allows(prefix, address) for prefix in re.split(r"[,\s]+", os.environ.get(VARIABLE, "")) if prefix):
        raise InvalidValueError(
            f"sink {sink_name(address)!r}, which is not allowed here",
            remedy=f"start ComfyUI with its beginning in the environment variable {VARIABLE}, or leave sink empty",
        )
    container_for(address)


def allows(prefix: str, address: str) -> bool:
    """Whether an address lies below another one.

    Protocol, host and port have to be the same, and each part of the path that the prefix names. Where FFmpeg connects,
    what logs in (a name, a password, a query) does not matter.

    Args:
        prefix: what is allowed; a port that it does not name is the protocol's own.
        address: what is asked for.
    """
    allowed, asked = _parts(prefix), _parts(address)
    if allowed is None or asked is None or _place(allowed) != _place(asked):
        return False
    base = allowed.path.rstrip("/")
    return asked.path in (allowed.path, base) or asked.path.startswith(f"{base}/")


def without_credentials(value: Any) -> Any:
    """A prompt or workflow whose sinks are only named, for a file that may be given away.

    Args:
        value: what JSON can hold.
    """
    sinks = set(_sinks(value))
    return _replaced(value, {sink: sink_name(sink) for sink in sinks}) if sinks else value


def _parts(address: str) -> SplitResult | None:
    """The parts of an address that all readers understand alike; None for any other one."""
    if len(address) > _LONGEST or not _PLAIN.fullmatch(address) or any(text in address for text in _MISLEADING):
        return None
    try:
        parts = urlsplit(address)
        _place(parts)
    except ValueError:
        return None
    climbs = any(part in (".", "..") for part in unquote(parts.path).split("/"))
    is_address = address.lower().startswith(f"{parts.scheme}://") and (parts.scheme in NETWORK or not parts.query)
    return parts if is_address and not climbs else None


def _place(parts: SplitResult) -> tuple[str, str, int | None]:
    """Protocol, host and port; fsspec takes what stands there as it is.

    Raises:
        ValueError: the port is no number in range.
    """
    if parts.scheme not in NETWORK:
        return parts.scheme, parts.netloc, None
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def _sinks(value: Any) -> Iterator[str]:
    """All addresses in the inputs and widgets of writers."""
    if isinstance(value, dict):
        if _WRITER in (value.get("class_type"), value.get("type")):
            given = [value.get("inputs"), value.get("widgets_values")]
            yield from (text for text in _strings(given) if "://" in text)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _sinks(item)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _replaced(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value

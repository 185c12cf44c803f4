"""A ComfyUI workflow in API format, and the places in it that a table can set."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InvalidValueError
from .errors import WorkflowError

Scalar = str | int | float | bool

_MOST_BYTES = 1 << 24
_EXPORT = "save it with Workflow > Export (API) in ComfyUI"
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True)
class Place:
    """An input of a node that holds a value of its own.

    Attributes:
        node: the node's id in the workflow.
        input: the input's name.
        value: what the workflow holds there; its type is the type of the place.
    """

    node: str
    input: str
    value: Scalar

    def parse(self, text: str) -> Scalar:
        """The value that a cell's text stands for.

        Raises:
            InvalidValueError: the text is not of the type of the workflow's own value.
        """
        # bool before int: True is an int too.
        if isinstance(self.value, bool):
            if text.strip().lower() in _TRUTH:
                return _TRUTH[text.strip().lower()]
            raise InvalidValueError(f"'{text}' is neither true nor false", remedy="write true or false")
        if isinstance(self.value, int):
            try:
                return int(text)
            except ValueError:
                raise InvalidValueError(
                    f"'{text}' is no whole number, as the workflow's {self.value} is",
                    remedy="write a whole number",
                ) from None
        if isinstance(self.value, float):
            try:
                number = float(text)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise InvalidValueError(f"'{text}' is no number", remedy="write a number with a decimal point")
            return number
        return text


class Workflow:
    """A workflow in API format.

    Args:
        nodes: node id to `{"class_type", "inputs", "_meta": {"title"}}`, as ComfyUI exports it.
    """

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self._nodes = copy.deepcopy(dict(nodes))
        self._titles: dict[str, list[str]] = {}
        for node in self._nodes:
            self._titles.setdefault(self.title(node), []).append(node)

    @classmethod
    def load(cls, path: Path) -> Workflow:
        """Reads a workflow file of at most 16 MiB.

        Raises:
            WorkflowError: it can't be read, or it is a canvas file or no workflow at all.
        """
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise WorkflowError(path, f"can't be read ({error.strerror})", remedy="name a workflow file") from error
        if len(data) > _MOST_BYTES:
            raise WorkflowError(path, f"larger than {_MOST_BYTES} bytes", remedy="name a workflow file")
        try:
            nodes = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise WorkflowError(path, "is no JSON", remedy=_EXPORT) from error
        if isinstance(nodes, dict) and isinstance(nodes.get("nodes"), list):
            raise WorkflowError(path, "is a canvas workflow, not one in API format", remedy=_EXPORT)
        if not isinstance(nodes, dict) or not nodes or not all(map(_is_node, nodes.values())):
            raise WorkflowError(path, "is no workflow in API format", remedy=_EXPORT)
        return cls(nodes)

    def title(self, node: str) -> str:
        """The node's title; its class where it has none, its id where the workflow has no such node."""
        found = self._nodes.get(node)
        if found is None:
            return node
        meta = found.get("_meta")
        title = meta.get("title") if isinstance(meta, dict) else None
        return title if isinstance(title, str) and title else found["class_type"]

    @property
    def classes(self) -> frozenset[str]:
        """The node classes with an input whose value is a whole number."""
        return frozenset(
            node["class_type"] for node in self._nodes.values() if any(type(v) is int for v in node["inputs"].values())
        )

    def with_floats(self, floats: Collection[tuple[str, str]]) -> Workflow:
        """The same workflow with fractions allowed where the server takes them.

        A browser writes 2.0 as 2 into the file, so that the file alone does not tell.

        Args:
            floats: (class, input) of each input that is a FLOAT.
        """
        nodes = copy.deepcopy(self._nodes)
        for node in nodes.values():
            for name, value in node["inputs"].items():
                if type(value) is int and (node["class_type"], name) in floats:
                    node["inputs"][name] = float(value)
        return Workflow(nodes)

    def place(self, column: str) -> Place:
        """The place that a column `node title.input` names.

        Titles may hold dots themselves.

        Raises:
            InvalidValueError: no node has this title, several have it, the node has no such input, or the input is
                wired to another node or holds no plain value.
        """
        cuts = [i for i, letter in enumerate(column) if letter == "."]
        titled = [(column[:i], column[i + 1 :]) for i in cuts if column[:i] in self._titles]
        if not titled:
            raise InvalidValueError(
                f"column '{column}' names no node of the workflow",
                remedy="write 'node title.input'; titles are " + _listed(self._titles),
            )
        exact = [(title, name) for title, name in titled if any(name in self._inputs(n) for n in self._titles[title])]
        title, name = (exact or titled)[0]
        nodes = self._titles[title]
        if len(exact) > 1 or len(nodes) > 1:
            raise InvalidValueError(
                f"column '{column}' is ambiguous: several nodes could be meant",
                remedy="give the nodes titles of their own in ComfyUI and export the workflow again",
            )
        inputs = self._inputs(nodes[0])
        if name not in inputs:
            raise InvalidValueError(
                f"column '{column}': node '{title}' has no input '{name}'",
                remedy="it has " + _listed(key for key, value in inputs.items() if isinstance(value, Scalar)),
            )
        value = inputs[name]
        if not isinstance(value, Scalar):
            raise InvalidValueError(
                f"column '{column}': this input is wired to another node, or holds no plain value",
                remedy="set an input of the node that it is wired to",
            )
        return Place(node=nodes[0], input=name, value=value)

    def filled(self, values: Mapping[Place, Scalar]) -> dict[str, Any]:
        """A prompt: the workflow with other values in some places."""
        prompt = copy.deepcopy(self._nodes)
        for place, value in values.items():
            prompt[place.node]["inputs"][place.input] = value
        return prompt

    def _inputs(self, node: str) -> dict[str, Any]:
        return self._nodes[node]["inputs"]


def _is_node(node: object) -> bool:
    return (
        isinstance(node, dict)
        and isinstance(node.get("class_type"), str)
        and isinstance(node.get("inputs", None), dict)
    )


def _listed(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names)) or "none that a table can set"

"""Bytes that a network moves to and from the device's memory, counted from the shapes of its operations.

Two ways of running one traced function are counted. "Alone": each operation reads its inputs and writes its outputs
once, as in eager torch. "Fused": only what a product or convolution reads or gives, and what a reduction gives, is
written; all operations between are done on the way, and read again what was written before them. Caches are not
counted: what ncu measures is less where a map fits into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, fx

_PRODUCTS = (
    "convolution",
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "linear",
    "grid_sampler_2d",
    "grid_sampler_3d",
)
_REDUCTIONS = (
    "mean",
    "sum",
    "var",
    "var_mean",
    "amax",
    "amin",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_softmax",
)


def moved_mbytes(function: Callable[..., Any], inputs: tuple[Tensor, ...], *, fused: bool) -> float:
    """Megabytes that one call reads and writes.

    Args:
        function: takes tensors and gives one, or several; it is traced without running it.
        inputs: its arguments.
        fused: whether a compiler joins the operations between products.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda *given: function(*given), tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)
    counter = _Counter(traced)
    return round(1e-6 * (counter.fused() if fused else counter.alone()), 1)


class _Counter:
    """Bytes of a traced graph."""

    def __init__(self, traced: fx.GraphModule) -> None:
        self._traced = traced
        self._operations = [node for node in traced.graph.nodes if node.op == "call_function" and not _is_view(node)]
        self._results = {_base(node) for node in traced.graph.output_node().all_input_nodes}

    def alone(self) -> int:
        """Each operation by itself."""
        return sum(
            self._bytes(node) + sum(self._bytes(given) for given in node.all_input_nodes) for node in self._operations
        )

    def fused(self) -> int:
        """Operations between what must be written are done on the way."""
        total = 0
        for node in self._operations:
            if self._is_written(node):
                total += self._bytes(node)
                total += sum(self._bytes(source) for source in self._sources(node.all_input_nodes))
        return total

    def _is_written(self, node: fx.Node) -> bool:
        if _name(node) in (*_PRODUCTS, *_REDUCTIONS) or node in self._results:
            return True
        return any(_name(user) in _PRODUCTS for user in _users(node))

    def _sources(self, nodes: Iterable[fx.Node]) -> set[fx.Node]:
        """What was written before, of which these nodes are made; a part of it where only that is read."""
        found: set[fx.Node] = set()
        for node in nodes:
            base = _base(node)
            if base.op != "call_function" or self._is_written(base):
                found.add(node)
            else:
                found |= self._sources(base.all_input_nodes)
        return found

    def _bytes(self, node: fx.Node) -> int:
        """Of a node's tensors; of a part that is repeated, once."""
        if node.op == "get_attr":
            values: Any = getattr(self._traced, str(node.target))
        else:
            values = node.meta.get("val")
        parts = values if isinstance(values, (tuple, list)) else (values,)
        tensors = [part for part in parts if isinstance(part, Tensor)]
        return sum(_distinct(tensor) * tensor.element_size() for tensor in tensors)


def _distinct(tensor: Tensor) -> int:
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else 1
    return count


def _name(node: fx.Node) -> str:
    """Of an operation, without its overload."""
    target = node.target
    return target._schema.name.partition("::")[2] if isinstance(target, torch._ops.OpOverload) else ""


def _is_view(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return True  # an entry of a tuple
    return target.is_view or _name(node) in ("_unsafe_view", "detach", "_reshape_alias", "lift_fresh_copy")


def _base(node: fx.Node) -> fx.Node:
    """What a view shows."""
    while node.op == "call_function" and _is_view(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _users(node: fx.Node) -> set[fx.Node]:
    """Operations that read a node, also through views."""
    found: set[fx.Node] = set()
    for user in node.users:
        found |= _users(user) if user.op == "call_function" and _is_view(user) else {user}
    return found

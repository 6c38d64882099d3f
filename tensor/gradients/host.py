"""Gradients of what NumPy's code computes: functions of nodes, by the name of the call."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import maps
from ..graph.node import HostCall, Loaded, Scattered, TensorNode
from ..graph.primitives import scatter
from ..ops.sorting import argsort

HostRule = Callable[[TensorNode, TensorNode], list[TensorNode | None]]
"""(node, gradient of its result) → the gradients of its sources, None for what has none."""


def _sort(n: TensorNode, dy: TensorNode) -> list[TensorNode | None]:
    call: HostCall = n.arg
    dim, descending = call.key
    places = argsort(n.src[0], axis=dim, descending=descending)
    axes = maps.holes(n.shape)
    to = Scattered("add", axes, tuple(Loaded(0) if d == dim else a for d, a in enumerate(axes)))
    return [scatter(dy, to, (places,), n.shape)]


HOST_RULES: dict[str, HostRule] = {"sort": _sort}


def register_gradient(name: str, rule: HostRule) -> None:
    """Let calls of NumPy's code named `name` have a gradient: `rule(node, dy)` returns nodes for its sources (or None)."""
    HOST_RULES[name] = rule

"""Arithmetic of sizes that are known at each call only: what NumPy computes for known ones, on arrays of Python objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, mul, sub
from typing import Any

import numpy as np

from ...ir.errors import UsageError
from ...tensor.graph.symbolic_sizes import SymbolicSize
from .element_types import Array
from .graph import OperatorNode
from .operators.table import whole_numbers


def is_symbolic(x: Any) -> bool:
    """Whether an array holds sizes without values."""
    return isinstance(x, np.ndarray) and x.dtype == object


def _elementwise(f: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    return lambda node, *xs: _objects(reduce(np.frompyfunc(f, 2, 1), xs))


def _objects(x: Any) -> Array:
    """An array of objects, of numbers where no size is left in it."""
    found = np.asarray(x, object)
    if any(isinstance(v, SymbolicSize) for v in found.reshape(-1)):
        return found
    return found.astype(bool if found.size and isinstance(found.reshape(-1)[0], bool) else np.int64)


def _divided(a: Any, b: Any) -> Any:
    return a // b


def _axes(node: OperatorNode, given: Sequence[Array]) -> tuple[int, ...]:
    return tuple(whole_numbers(given[0] if given else node.attributes.get("axes")) or ())


def _slice(node: OperatorNode, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    first, last = whole_numbers(starts) or [], whole_numbers(ends) or []
    over, by = whole_numbers(axes) or list(range(len(first))), whole_numbers(steps) or [1] * len(first)
    key = [slice(None)] * x.ndim
    for a, b, axis, step in zip(first, last, over, by):
        key[axis] = slice(a, b, step)
    return x[tuple(key)]


RULES: dict[str, Callable[..., Array]] = {
    "Add": _elementwise(add),
    "Sub": _elementwise(sub),
    "Mul": _elementwise(mul),
    "Div": _elementwise(_divided),
    "Equal": _elementwise(lambda a, b: bool(a == b)),
    "Where": lambda node, test, a, b: _objects(np.where(test, np.asarray(a, object), np.asarray(b, object))),
    "Identity": lambda node, x: x,
    "Cast": lambda node, x: x,
    "Gather": lambda node, x, at: _objects(np.take(x, np.asarray(at, np.int64), axis=node.attributes.get("axis", 0))),
    "Concat": lambda node, *xs: _objects(np.concatenate([np.asarray(x, object) for x in xs], axis=node.attributes["axis"])),
    "Reshape": lambda node, x, shape: x.reshape(whole_numbers(shape) or ()),
    "Unsqueeze": lambda node, x, *given: np.expand_dims(x, _axes(node, given)),
    "Squeeze": lambda node, x, *given: np.squeeze(x, _axes(node, given) or None),
    "Slice": lambda node, *xs: _objects(_slice(node, *xs)),
    "ReduceProd": lambda node, x, *given: _objects(reduce(mul, x.reshape(-1))).reshape((1,) if node.attributes.get("keepdims", 1) else ()),
}
"""What is done with sizes on the way from `Shape` to where they are used."""


def computed(node: OperatorNode, inputs: Sequence[Any]) -> list[Array]:
    """The result of a node of sizes. Raises UsageError where it asks what holds for some sizes only, or is no arithmetic of sizes."""
    rule = RULES.get(node.op[1])
    if rule is None or node.op[0]:
        raise UsageError(f"{node.kind} of sizes that calls give is not supported")
    return [np.asarray(rule(node, *inputs))]

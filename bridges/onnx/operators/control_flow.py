"""Branches and loops. What they hang on is known when a function is captured, or the model is run node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .... import xp
from ..element_types import Array, as_tensor
from .indexing import known
from .table import Call, cut, operator


def _truth(x: Any) -> bool:
    """Whether the only element of a tensor or array is true. Raises DataDependentError."""
    return bool(known(x).reshape(-1)[0])


@operator("If", known=())
def if_(call: Call, test: Any) -> Any:
    """One of two graphs."""
    return call.run("then_branch" if _truth(test) else "else_branch", [])


@operator("Loop")
def loop(call: Call, most: Any = None, test: Any = None, *state: Any) -> Any:
    """A graph, again and again: the last state, and what every step made."""
    limit = None if most is None else int(known(most).reshape(-1)[0])
    going: Any = np.array(True) if test is None else test
    values, made, step = list(state), [], 0
    while (limit is None or step < limit) and _truth(going):
        going, *rest = call.run("body", [np.array(step, np.int64), going, *values])
        values, step = rest[: len(values)], step + 1
        made.append(rest[len(values) :])
    return (*values, *_stacked(made, call.wanted - len(values)))


def _stacked(made: Sequence[Sequence[Any]], count: int) -> list[Any]:
    if not made:
        return [xp.zeros((0,)) for _ in range(count)]
    return [xp.stack([as_tensor(v) for v in column], axis=0) for column in zip(*made)]


@operator("Scan")
def scan(
    call: Call, *inputs: Any, num_scan_inputs: int, scan_input_axes: Any = None, scan_input_directions: Any = None, scan_output_axes: Any = None,
    scan_output_directions: Any = None, directions: Any = None,
) -> Any:  # fmt: skip
    """A graph for each slice of the inputs: the last state, and what every step made."""
    if call.version < 9:
        return _old_scan(call, inputs, num_scan_inputs, directions)
    state, xs = list(inputs[: len(inputs) - num_scan_inputs]), [as_tensor(x) for x in inputs[len(inputs) - num_scan_inputs :]]
    axes, back = scan_input_axes or [0] * len(xs), scan_input_directions or [0] * len(xs)
    count, made = xs[0].shape[axes[0]], []
    for t in range(count):
        slices = [cut(x, a, count - 1 - t if b else t) for x, a, b in zip(xs, axes, back)]
        found = call.run("body", [*state, *slices])
        state = found[: len(state)]
        made.append(found[len(state) :])
    columns = [[as_tensor(v) for v in column] for column in zip(*made)]
    over, turned = scan_output_axes or [0] * len(columns), scan_output_directions or [0] * len(columns)
    return (*state, *(xp.stack(c[::-1] if b else c, axis=a) for c, a, b in zip(columns, over, turned)))


def _old_scan(call: Call, inputs: Sequence[Any], count: int, directions: Any) -> Any:
    """Before opset 9: a batch first, and lengths as the first input."""
    lengths, state, xs = inputs[0], list(inputs[1 : len(inputs) - count]), [as_tensor(x) for x in inputs[len(inputs) - count :]]
    back = directions or [0] * count
    sizes: Array | None = None if lengths is None else known(lengths).reshape(-1)
    batch, steps = xs[0].shape[0], xs[0].shape[1]
    states, columns = [], []
    for b in range(batch):
        own, made = [cut(as_tensor(s), 0, b) for s in state], []
        last = steps if sizes is None else int(sizes[b])
        for t in range(last):
            found = call.run("body", [*own, *(x[b, last - 1 - t if turned else t] for x, turned in zip(xs, back))])
            own = found[: len(own)]
            made.append([as_tensor(v) for v in found[len(own) :]])
        states.append(own)
        padded = [list(c) + [xp.zeros(c[0].shape, dtype=c[0].dtype)] * (steps - last) for c in zip(*made)]
        columns.append([xp.stack(c, axis=0) for c in padded])
    return (*(xp.stack(list(s), axis=0) for s in zip(*states)), *(xp.stack(list(c), axis=0) for c in zip(*columns)))

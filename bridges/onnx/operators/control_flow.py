"""Branches and loops. Where shapes stay, one step is captured once; else what they hang on is known, and each step is captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .... import tensor as T
from .... import xp
from ....ir.errors import UsageError
from ..element_types import Array, as_tensor
from .indexing import known
from .table import Call, DataDependentError, cut, operator

FEW = 4
"""Steps up to which a loop is written out."""


def _truth(x: Any) -> bool:
    """Whether the only element of a tensor or array is true. Raises DataDependentError."""
    return bool(known(x).reshape(-1)[0])


@operator("If", known=())
def if_(call: Call, test: Any) -> Any:
    """One of two graphs."""
    try:
        return call.run("then_branch" if _truth(test) else "else_branch", [])
    except DataDependentError:
        branches = [partial(_branch, call, name) for name in ("then_branch", "else_branch")]
        found = _once(lambda: T.cond(test.reshape(()), *branches))
        if found is None:
            raise
        return found


def _branch(call: Call, name: str) -> list[Any]:
    return [as_tensor(x) for x in call.run(name, [])]


def _once(make: Callable[[], Any]) -> Any:
    """What a loop of steps that are captured once gives; None where a step needs numbers, or shapes change."""
    try:
        return make()
    except UsageError:
        return None


@operator("Loop")
def loop(call: Call, most: Any = None, test: Any = None, *state: Any) -> Any:
    """A graph, again and again: the last state, and what every step made."""
    found = _once(
        lambda: _counted(call, int(np.reshape(most, -1)[0]), state) if _counts(call, most, test) else _tested(call, most, test, state)
    )
    if found is not None:
        return found
    limit = None if most is None else int(known(most).reshape(-1)[0])
    going: Any = np.array(True) if test is None else test
    values, made, step = list(state), [], 0
    while (limit is None or step < limit) and _truth(going):
        going, *rest = call.run("body", [np.array(step, np.int64), going, *values])
        values, step = rest[: len(values)], step + 1
        made.append(rest[len(values) :])
    return (*values, *_stacked(made, call.wanted - len(values)))


def _counts(call: Call, most: Any, test: Any) -> bool:
    """Whether a loop has a known number of steps: its test is known to hold first, and each step hands it on, or has a constant."""
    if most is None or isinstance(most, T.Tensor) or not (test is None or (isinstance(test, np.ndarray) and test.all())):
        return False
    body = call.node.graphs["body"]
    given, back = body.inputs[1], body.outputs[0]
    for node in reversed(body.nodes):
        if back in node.outputs and node.op == ("", "Identity"):
            back = node.inputs[0]
        elif back in node.outputs and node.op == ("", "Constant"):
            return bool(np.all(node.attributes.get("value", False)))
    return back == given or bool(np.all(body.constants.get(back, False)))


def _counted(call: Call, steps: int, state: Sequence[Any]) -> Any:
    """A loop of so many steps; None for few."""
    if steps <= FEW:
        return None

    def step(carry: Any, i: Any) -> Any:
        _, *found = call.run("body", [i, np.array(True), *carry])
        found = [as_tensor(x) for x in found]
        return found[: len(carry)], found[len(carry) :]

    last, made = T.scan(step, [as_tensor(x) for x in state], xp.arange(steps))
    return (*last, *made)


def _tested(call: Call, most: Any, test: Any, state: Sequence[Any]) -> Any:
    """A loop that a test of data ends, of which only the last state is wanted."""
    if call.wanted > len(state):
        return None
    limit = np.array(2**62) if most is None else most

    def step(carry: Any) -> Any:
        i, _, *values = carry
        going, *found = call.run("body", [i, np.array(True), *values])
        return [i + 1, as_tensor(going).reshape(()), *map(as_tensor, found)]

    first = [xp.zeros((), dtype="int64"), as_tensor(np.array(True) if test is None else test).reshape(()), *map(as_tensor, state)]
    bound = as_tensor(limit).reshape(())
    return tuple(T.while_loop(lambda c: c[1] & (c[0] < bound), step, first)[2:])


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
    found = _once(lambda: _scanned(call, state, xs, axes, back)) if not isinstance(count, int) or count > FEW else None
    if found is not None:
        over, turned = (given or [0] * len(found[1]) for given in (scan_output_axes, scan_output_directions))
        return (*found[0], *(xp.moveaxis(xp.flip(c, axis=0) if b else c, 0, a) for c, a, b in zip(found[1], over, turned)))
    for t in range(count):
        slices = [cut(x, a, count - 1 - t if b else t) for x, a, b in zip(xs, axes, back)]
        found = call.run("body", [*state, *slices])
        state = found[: len(state)]
        made.append(found[len(state) :])
    columns = [[as_tensor(v) for v in column] for column in zip(*made)]
    over, turned = scan_output_axes or [0] * len(columns), scan_output_directions or [0] * len(columns)
    return (*state, *(xp.stack(c[::-1] if b else c, axis=a) for c, a, b in zip(columns, over, turned)))


def _scanned(call: Call, state: Sequence[Any], xs: Sequence[Any], axes: Sequence[int], back: Sequence[int]) -> Any:
    """(last state, stacks along axis 0) of a scan, of which one step is captured."""
    rows = [xp.flip(r, axis=0) if b else r for r, b in zip((xp.moveaxis(x, a, 0) for x, a in zip(xs, axes)), back)]

    def step(carry: Any, slices: Any) -> Any:
        found = [as_tensor(x) for x in call.run("body", [*carry, *slices])]
        return found[: len(carry)], found[len(carry) :]

    return T.scan(step, [as_tensor(s) for s in state], rows)


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

"""Which operation made the first NaN: a graph that computed one is computed again by NumPy, operation by operation, as far as it has NaNs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.errors import NotANumberError
from ..graph.nodes import TensorNode, interned_in, leaf, make, walk
from ..graph.source_lines import at
from . import buffers
from .numpy_evaluation import EVALUATE, Array, converted
from .observers import looking_for_nans


def has_nan(x: Any) -> bool:
    """Whether an array of any type holds a NaN."""
    if not isinstance(x, np.ndarray) or x.dtype.kind in "biu":
        return False
    return bool(np.isnan(x if x.dtype.kind in "fc" else x.astype(np.float32)).any())


def look(outs: Sequence[TensorNode], name: str, compute: Callable[[TensorNode], None]) -> None:
    """Raise NotANumberError for a graph whose outputs hold a NaN. `name`: of its last kernel; `compute` gives a node memory."""
    found: dict[int, Array] = {}
    with np.errstate(all="ignore"):
        _evaluate(outs, found, compute)
        for n in outs:
            said = _blamed(n, found, compute)
            if said:
                raise NotANumberError(said)
    if not any((n.data is not None or n.op == "const") and has_nan(found[id(n)]) for n in walk(outs)):
        raise NotANumberError(f"{name} computed a NaN{at(outs[0].line)}; operation by operation, NumPy computes none")


def _evaluate(outs: Sequence[TensorNode], found: dict[int, Array], compute: Callable[[TensorNode], None]) -> None:
    """The values of a graph, beside those that are known."""
    for n in walk(outs):
        if id(n) in found:
            continue
        if n.data is not None:
            found[id(n)] = converted(n.data.array, n.dtype.compute)
        else:
            given = [found[id(s)] for s in n.src]
            found[id(n)] = EVALUATE[n.op](n, given) if n.op in EVALUATE else _run(n, given, compute)


def _blamed(n: TensorNode, found: dict[int, Array], compute: Callable[[TensorNode], None], step: str = "") -> str:
    """What is said of the first operation behind a node that made a NaN; '' where there is none, or it was given. `step`: of which loop."""
    while has_nan(found[id(n)]):
        behind = [s for s in n.src if has_nan(found[id(s)])] if n.data is None else []
        if behind:
            n = behind[0]
        elif n.data is not None or n.op in ("const", "slot"):
            break  # it was given
        else:
            inside = _in_loop(n, found, compute) if n.op == "loop" else ""
            return inside or f"{_named(n)} of {_shown(n, found)} is NaN{_where(found[id(n)])}{step}{at(n.line)}"
    return ""


def _in_loop(n: TensorNode, found: dict[int, Array], compute: Callable[[TensorNode], None]) -> str:
    """What is said of the first operation of a loop's body that made a NaN, step by step; '' where NumPy finds none."""
    loop, given = n.arg.loop, [found[id(s)] for s in n.src]
    if loop.joins:
        return ""
    state, rows, rest = given[: loop.carries], given[loop.carries : loop.carries + loop.xs], given[loop.carries + loop.xs : len(loop.slots)]
    for k in range(loop.trips):
        row = loop.trips - 1 - k if loop.reverse else k
        known = dict(zip(map(id, loop.slots), (*state, *(np.asarray(x[row]) for x in rows), *rest), strict=True))
        if loop.counter is not None:
            known[id(loop.counter)] = np.asarray(loop.start + k, loop.counter.dtype.np)
        _evaluate(loop.roots, known, compute)
        for root in loop.roots:
            said = _blamed(root, known, compute, f", in step {k} of {loop.name}")
            if said:
                return said
        if loop.test is not None and not known[id(loop.test)]:
            break
        state = [known[id(out)] for out in loop.outs[: loop.carries]]
    return ""


def _run(n: TensorNode, given: Sequence[Array], compute: Callable[[TensorNode], None]) -> Array:
    """A loop, or a kernel of the user's, on arrays."""
    with interned_in({}):
        leaves = [
            leaf(buffers.adopt(np.array(a, s.dtype.np, order="C"), s.dtype, "cpu", s.line, None)) for a, s in zip(given, n.src, strict=True)
        ]
        new = make(n.op, tuple(leaves), n.arg, n.shape, n.dtype)
        with looking_for_nans(False):
            compute(new)
    return converted(new.data.array, n.dtype.compute)


def _named(n: TensorNode) -> str:
    if n.op == "kernel":
        return str(n.arg.own.kernel.name)
    if n.op == "loop":
        return f"a step of {n.arg.loop.name}"
    if n.op == "host":
        return str(n.arg.name)
    return str(n.arg) if n.op == "elementwise" else f"{n.op} {n.arg[0]}" if n.op in ("reduce", "scan") else n.op


def _shown(n: TensorNode, found: dict[int, Array]) -> str:
    """The operands, by their values at the first NaN where these are elements of one."""
    values = [found[id(s)] for s in n.src]
    if n.op == "elementwise":
        place = tuple(np.argwhere(np.isnan(found[id(n)]))[0])
        return " and ".join(f"{np.broadcast_to(v, n.shape)[place]:.6g}" for v in values)
    return " and ".join(f"{s.dtype}{list(s.shape)}" for s in n.src)


def _where(x: Array) -> str:
    places = np.argwhere(np.isnan(x.astype(np.float64)))
    if not x.ndim:
        return ""
    more = "" if len(places) == 1 else f", and at {len(places) - 1} other place{'s' * (len(places) != 2)}"
    return f" at [{', '.join(map(str, places[0].tolist()))}]{more}"

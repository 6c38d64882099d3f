"""Gradients of a program's float results with respect to its float leaves: the graph, and whether differences confirm it."""

from __future__ import annotations

from typing import Any

import numpy as np
import tilewright as tw

from . import nodes, noisy, oracle, ways
from .program import Program

STEP = 1e-6
CONVENTIONS = frozenset({"copysign"})
"""Operations whose gradient at 0 is agreed upon, and may not be what differences of a smooth composition say."""
NEAR = 2e-4
"""How far (relative to what the directions sum up) a gradient may be off the difference, which has errors of its own."""


class NothingToDifferentiate(Exception):
    """No result of the program is a float, or no leaf."""


def floats(program: Program) -> list[int]:
    """Leaves that have gradients."""
    return [i for i, leaf in enumerate(program.leaves) if leaf.dtype in noisy.EPS]


def weights(shape: tuple[int, ...]) -> Any:
    """Of a result's elements in the loss: small, all different, exact in every type."""
    return (np.arange(int(np.prod(shape)), dtype=np.int64) % 7 - 2.0).reshape(shape) / 4


def graph(program: Program, given: list[Any] | None = None) -> list[Any]:
    """Lazy gradients of Σ results · weights, at the program's leaves or at others."""
    f, at = ways.compiled(program), floats(program)
    given = [ways.tensor(leaf) for leaf in program.leaves] if given is None else given

    def loss(*changed: Any) -> Any:
        args = list(given)
        for i, t in zip(at, changed, strict=True):
            args[i] = t
        outs = [o for o in f(*args) if o.dtype.is_float]
        if not outs:
            raise NothingToDifferentiate
        terms = [(o * tw.Tensor(weights(o.shape).astype(np.float32)).astype(o.dtype)).sum().astype("float32") for o in outs]
        return sum(terms[1:], terms[0])

    if not at:
        raise NothingToDifferentiate
    found = tw.grad(loss, tuple(range(len(at))))(*[given[i] for i in at])
    return list(found) if isinstance(found, (list, tuple)) else [found]


def moved(program: Program) -> list[Any]:
    """The program's leaves, floats in float64 and a little off where they are: not at a corner, where a gradient is agreed upon."""
    rng = np.random.default_rng(1)
    found = []
    for leaf in program.leaves:
        x = np.asarray(oracle.array(leaf))
        found.append(x + 1e-3 * rng.standard_normal(x.shape) if leaf.dtype in noisy.EPS else x)
    return found


def differ(program: Program) -> str:
    """Compare directions of the graph's gradient, node by node in float64, with central differences of the NumPy text. Where the
    steps of a difference do not agree, the function has a corner or a jump near, and nothing is said."""
    if any(s.op in CONVENTIONS for s in program.steps):
        return ""
    f, at, arrays = oracle.compiled(program), floats(program), moved(program)
    wide = [noisy.noisy(x, "float64") if i in at else x for i, x in enumerate(arrays)]
    tensors = [
        tw.Tensor(np.asarray(x), dtype=leaf.dtype if i in at else None).realise() for i, (x, leaf) in enumerate(zip(arrays, program.leaves))
    ]

    def loss(scale: float, direction: list[Any]) -> float:
        args = list(wide)
        for i, d in zip(at, direction, strict=True):
            args[i] = noisy.noisy(arrays[i] + scale * d, "float64")
        results = [np.asarray(o) for o in f(*args) if isinstance(o, noisy.Noisy)]
        return float(sum((o * weights(o.shape)).sum() for o in results))

    with np.errstate(all="ignore"):
        oracle.use(-1)
        exact = {id(t.node.data): arrays[i] for i, t in enumerate(tensors) if i in at}
        gradient = [np.asarray(v) for v in nodes.values([o.node for o in graph(program, tensors)], exact)]
        rng = np.random.default_rng(0)
        for _ in range(2):
            direction = [rng.standard_normal(np.shape(g)) for g in gradient]
            middle = loss(0.0, direction)
            sides = [(loss(STEP * k, direction) - middle) / (STEP * k) for k in (1, -1, 2, -2, 8, -8)]
            got = float(sum((g * d).sum() for g, d in zip(gradient, direction)))
            size = float(sum(np.abs(g * d).sum() for g, d in zip(gradient, direction))) + abs(sides[0]) + 1e-3
            if not np.isfinite([*sides, got, size]).all() or max(sides) - min(sides) > 0.1 * NEAR * size or abs(middle) > 1e4 * size:
                return ""
            if abs(got - (sides[0] + sides[1]) / 2) > NEAR * size:
                return f"the gradient along a direction is {got:.9g}, and differences say {(sides[0] + sides[1]) / 2:.9g}"
    return ""

"""What is computed of a choice between numbers that all lanes have in common: the numbers are computed with, and then chosen between.

A mask times 1/n in bfloat16, or the gradient of a hinge, is one of two or three numbers: no lane needs a product or a rounding of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...ir.dtypes import bool_, float32, float64
from ...ir.node import Node, const
from ...ir.operators import cast
from ...program.builder import Builder
from ...program.program import Val

MOST = 4
"""Numbers between which is chosen at most."""
OPS = ("cast", "mul", "neg")


def of_choice(b: Builder, node: Node, value: Callable[[Node], Val]) -> Val | None:
    """Operations on a choice and constants; None where that is not what `node` is, or lanes choose between numbers of their own. `value`
    evaluates operands."""
    steps, choice = [node], _operand(node)
    while choice is not None and choice.op in OPS and not _is_choice(choice):
        steps.append(choice)
        choice = _operand(choice)
    if choice is None or not _is_choice(choice):
        return None
    cases = list(_cases(choice))
    if len(cases) > MOST or value(_condition(choice)).lanes == 1 or any(value(c).lanes > 1 for c in cases):
        return None
    if choice.op == "cast" and all(step.op == "cast" and step.dtype.is_int for step in steps):
        return b.op("cast", value(_condition(choice)), dtype=node.dtype)

    def apply(case: Node) -> Val:
        known: Node | None = case
        for step in reversed(steps):
            known = _folded(step, known)
        if known is not None:
            return b.const(known.arg, known.dtype)
        x = value(case)
        for step in reversed(steps):
            x = b.op(step.op, *(value(s) if s.op == "const" else x for s in step.src), dtype=step.dtype)
        return x

    def chosen(n: Node) -> Val:
        if not _is_choice(n):
            return apply(n)
        yes, no = (chosen(n.src[1]), chosen(n.src[2])) if n.op == "where" else map(apply, _cases(n))
        return b.op("select", value(_condition(n)), yes, no, dtype=node.dtype)

    return chosen(choice)


def _operand(n: Node) -> Node | None:
    """The only operand that is no constant."""
    found = [s for s in n.src if s.op != "const"]
    return found[0] if len(found) == 1 else None


def _is_choice(n: Node) -> bool:
    return n.op == "where" or (n.op == "cast" and n.src[0].dtype is bool_)


def _condition(n: Node) -> Node:
    return n.src[0]


def _cases(n: Node) -> Iterator[Node]:
    """What is chosen between."""
    if not _is_choice(n):
        yield n
    elif n.op == "where":
        yield from _cases(n.src[1])
        yield from _cases(n.src[2])
    else:
        yield from (const(1, n.dtype), const(0, n.dtype))


def _folded(step: Node, x: Node | None) -> Node | None:
    """A step of a constant, rounded as its type is; None of others."""
    if x is None or x.op != "const":
        return None
    if step.op == "cast":
        return cast(x, step.dtype) if step.dtype.is_float or x.dtype.is_int else None
    if step.dtype not in (float32, float64):
        return None
    with np.errstate(all="ignore"):
        numbers = [step.dtype.np.type((x if s.op != "const" else s).arg) for s in step.src]
        return const(float(-numbers[0] if step.op == "neg" else numbers[0] * numbers[1]), step.dtype)

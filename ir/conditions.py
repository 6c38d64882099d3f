"""Reductions and scans of conditions: whether any, all, or an odd number of them hold.

A kernel has integers for them, all of whose bits are set where a condition holds and none where it does not: what comparing vectors
gives. These are combined bit by bit, and compared with 0 where they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .body import BITWISE, Fold, Value, values_of
from .dtypes import DType, bool_, index, int8, int16, int32, int64
from .errors import KernelError
from .node import COMPARE, MASKED, Expr, Node, const
from .operators import where

COMBINED = {"max": "or", "min": "and", **{c: c for c in BITWISE}}
"""How the bits of conditions are combined for what is asked of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Conditions(Value):
    """A value of type bool that a kernel has as the integers `bits`, of the same name and over the same axes: not 0 where it holds."""

    bits: Value

    def __getitem__(self, indices: Expr | tuple[Expr, ...]) -> Node:
        return self.bits[indices].ne(0)

    def masked(self, mask: Node, *indices: Expr) -> Node:
        return self.bits.masked(mask, *indices).ne(0)


def conditions(bits: Value) -> Conditions:
    """The conditions that a value of integers says."""
    return Conditions(bits.name, bits.axes, bits[bits.axes].ne(0), bool_, bits)


def how_combined(combine: str, what: str) -> str:
    """How bits of conditions are combined. Raises KernelError for sums and products, which are numbers."""
    if combine not in COMBINED:
        raise KernelError(
            f"{what}: {combine!r} of conditions is a number: give it an integer type, or 'max' (whether any holds) or 'min' (whether all do)"
        )
    return COMBINED[combine]


def bits_of(combine: str, what: str, condition: Node, body: Sequence[Value | Fold]) -> tuple[str, Node]:
    """How to combine conditions, and the integers to combine, as wide as what is compared. `body`: the values that `condition` may use.
    Raises KernelError as `how_combined` does."""
    to = _integer(condition, {v.name: v for item in body for v in values_of(item)})
    return how_combined(combine, what), where(condition, const(-1, to), const(0, to))


def _integer(condition: Node, values: Mapping[str, Value]) -> DType:
    """The integer type as wide as the widest elements that are compared; int32 where only places are."""
    size, seen, waiting = 0, set[Node](), [condition]
    while waiting:
        n = waiting.pop()
        if n in seen:
            continue
        seen.add(n)
        if n.dtype is not bool_:  # a computed index is no element, and lanes have it in 32 bits where it fits
            size = max(size, n.dtype.size if n.dtype is not index or n.op in ("load", "ref") else 0)
        elif n.op == "load":
            size = max(size, bool_.size)
        elif n.op in ("ref", MASKED):
            waiting += [values[n.arg].body] if n.arg in values else []
        elif n.op in COMPARE or n.op in ("and", "or", "xor", "not", "where", "cast"):
            waiting += [s for s in n.src if s.op != "const"]
    return {1: int8, 2: int16, 8: int64}.get(size, int32)

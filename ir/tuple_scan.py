"""Scans of tuples: a running combination of several values at once, by any associative rule.

A linear recurrence h[t] = a[t] · h[t−1] + b[t] is one over the pairs (a, b), where (a, b) before (c, d) is (a·c, b·c + d) (G. E. Blelloch,
"Prefix sums and their applications", 1990, §1.4). The body of such a `Scan` is one node `tuple` of the elements, the state before
the first, and the rule, all component by component; the scan's value is the component `pick`. The rule is written over placeholders
`a.#i` (what came before) and `b.#i` (what follows)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .dtypes import DType
from .node import Node, make, placeholder, walk

COMBINE = "tuple"
"""What `Scan.combine` says of a scan of tuples."""


@dataclass(frozen=True, slots=True)
class TupleScan:
    """The parts of a scan of tuples, a component each; its value is component `pick`."""

    elements: tuple[Node, ...]
    identity: tuple[Node, ...]
    merge: tuple[Node, ...]
    pick: int

    @property
    def node(self) -> Node:
        """The body of the scan."""
        return make("tuple", self.elements[self.pick].dtype, (*self.elements, *self.identity, *self.merge), self.pick)

    def needed(self, whole: bool) -> tuple[int, ...]:
        """The components that the picked one follows from: of the state before (it is merged with one element after the other), or,
        with `whole`, of both sides (parts are merged with each other)."""
        found = {self.pick}
        while True:
            used = {int(n.arg[3:]) for i in found for n in walk(self.merge[i]) if n.op == "arg" and (whole or n.arg[0] == "a")}
            if used <= found:
                return tuple(sorted(found))
            found |= used


def tuple_scan(body: Node) -> TupleScan:
    """The parts of a body that `TupleScan.node` made."""
    count = len(body.src) // 3
    return TupleScan(body.src[:count], body.src[count : 2 * count], body.src[2 * count :], body.arg)


def sides(types: Iterable[DType]) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """The placeholders of the state before, and of what follows."""
    kinds = tuple(types)

    def of(side: str) -> tuple[Node, ...]:
        return tuple(placeholder(f"{side}.#{i}", t) for i, t in enumerate(kinds))

    return of("a"), of("b")


def names(side: str, values: Sequence[object]) -> dict[str, object]:
    """Values by the placeholders of a side, 'a' or 'b'."""
    return {f"{side}.#{i}": v for i, v in enumerate(values)}

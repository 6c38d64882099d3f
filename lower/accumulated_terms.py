"""Which products are joined with the addition that reads them (docs/decisions/0047)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..ir.node import Node, walk


def terms(rule: Sequence[Node]) -> frozenset[Node]:
    """The products of floats in the rule of a scan that are a term of one sum and of nothing else, the other term being none: what a
    state was times a factor, and what is added to it."""
    uses = Counter(rule)
    for n in walk(*rule):
        uses.update(n.src)
    found = set()
    for n in walk(*rule):
        if n.op == "add" and n.dtype.is_float:
            products = [s for s in n.src if s.op == "mul"]
            found |= {p for p in products if len(products) == 1 and uses[p] == 1}
    return frozenset(found)

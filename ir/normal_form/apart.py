"""Axes of one family that meet in one nest are of two: in sums over all pairs, an option on the rows is not one on the columns.

A family is what options name together: the sites of a dimension in softmax's maximum, sum and output. Whoever writes all pairs of n bodies
calls both axes n, since both are as long. Where one nest has both, those that references do not tie to the first get a family of their own,
n2: `n@sum` becomes `n2@sum`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..body import Fold, values_of
from ..kernel import Kernel
from ..node import Node, axis, walk
from ..rewrite import OtherAxes


def apart(kernel: Kernel) -> Kernel:
    """The kernel with such families taken apart; itself where there are none."""
    nests = [frozenset((*v.axes, *v.reduce_axes)) for item in kernel.body for v in values_of(item)] + [
        frozenset(s.axes) for s in kernel.stores
    ]
    folded = {item.axis.arg.family for item in kernel.body if isinstance(item, Fold)}
    met = dict.fromkeys(f for n in nests for f in _twice(a.arg.family for a in n) if f not in folded)
    table: dict[Node, Node] = {}
    for family in met:
        table |= _new(kernel, family, nests)
    return OtherAxes(kernel, table).run() if table else kernel


def _twice(families: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for f in families:
        if f in seen:
            yield f
        seen.add(f)


def _new(kernel: Kernel, family: str, nests: list[frozenset[Node]]) -> dict[Node, Node]:
    """Other axes for some of a family's: those that references tie stay together, those that meet do not."""
    mine = [a for a in kernel.axes if a.arg.family == family]
    parent = {a: a for a in mine}

    def find(a: Node) -> Node:
        while parent[a] is not a:
            a = parent[a]
        return a

    for n in walk(*kernel.expressions()):
        if n.op == "ref" and n.arg in kernel.values:
            for a, i in zip(kernel.values[n.arg].axes, n.src, strict=True):
                if a in parent and i in parent and find(a) is not find(i):
                    one, two = find(a), find(i)
                    if not any(_meet(nests, x, y) for x in mine if find(x) is one for y in mine if find(y) is two):
                        parent[two] = one
    names = {x for a in kernel.axes for x in (a.arg.name, a.arg.family)} | {b.name for b in kernel.buffers} | set(kernel.values)
    families: list[tuple[str, list[Node]]] = [(family, [])]
    classes: dict[Node, list[Node]] = {}
    for a in mine:
        classes.setdefault(find(a), []).append(a)
    # (what stores are over comes first, and keeps its name)
    stored = {a for s in kernel.stores for a in s.axes}
    for group in sorted(classes.values(), key=lambda g: not any(a in stored for a in g)):
        for _, members in families:
            if not any(_meet(nests, x, y) for x in group for y in members):
                members += group
                break
        else:
            number = next(k for k in range(2, len(names) + 3) if f"{family}{k}" not in names)
            names.add(f"{family}{number}")
            families.append((f"{family}{number}", list(group)))
    out = {}
    for name, members in families[1:]:
        for a in members:
            site = a.arg.name.partition("@")[2]
            out[a] = axis(f"{name}@{site}" if site else name, a.arg.extent, name)
    return out


def _meet(nests: list[frozenset[Node]], a: Node, b: Node) -> bool:
    return any(a in n and b in n for n in nests)

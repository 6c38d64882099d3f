"""What earlier nests of a work item left in the caches for later ones, and how long ago: within which loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from ...ir.buffer import load_parts
from ...ir.node import walk
from ...opts.loop_tree import Folded, Shared, Single, Tree
from ...opts.nests import Nest
from ...opts.schedule import Scheduled

Around = tuple[str, ...]
"""The loops around a nest that it shares with others, outer to inner, each with its number: loops of one name may open twice."""


@dataclass(eq=False)
class Warm:
    """The buffers that nests have read, in the order in which a work item runs them."""

    scheduled: Scheduled
    _read: dict[str, list[Around]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._around = {n.name: loops for n, loops in _around(self.scheduled.tree.items, ())}

    def add(self, nest: Nest) -> None:
        """Note what a nest reads."""
        for n in walk(*nest.roots):
            if n.op == "load":
                self._read.setdefault(load_parts(n)[0].name, []).append(self._around.get(nest.name, ()))

    def since(self, nest: Nest) -> dict[str, frozenset[str]]:
        """The buffers that were read before a nest, each with the loops of which the last reader was in the same iteration."""
        here = self._around.get(nest.name, ())
        return {b: frozenset(n.split(" ")[0] for n in max((_common(here, o) for o in other), key=len)) for b, other in self._read.items()}


def _common(one: Around, two: Around) -> Around:
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def _around(items: Sequence[Tree], loops: Around) -> Iterator[tuple[Nest, Around]]:
    for i, item in enumerate(items):
        if isinstance(item, Single):
            yield item.nest, loops
        elif isinstance(item, Shared):
            yield from _around(item.body, (*loops, f"{item.part.name} {i}"))
        elif isinstance(item, Folded):
            yield from _around(item.body, loops)
        else:
            yield from ((n, loops) for n in item.nests)

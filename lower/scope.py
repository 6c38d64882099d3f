"""What holds where code is being emitted: a Scope is entered with a loop, a nest or a tile, and left with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ..ir.index import Interval
from ..ir.node import Node
from ..opts.axis_plan import Part
from ..opts.nests import Nest
from ..opts.plans import StagePlan
from ..program.program import Mem


class Closing(Protocol):
    """Takes over the accumulators of the reduction that ends a fold's block."""

    def close(self, n: Nest) -> Callable[[], None] | None:
        """What merges the accumulators of one point; None where that cannot be done here."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of the code that is emitted next.

    `opened`: loops that are open, outer to inner. `nests`: the nests whose loops are being opened, which decides what is staged.
    `tiles`: staged tiles that are filled. `holds`: conditions known to hold, each with the folded axis it is written over. `whole`:
    axes along which no point past the extent is reached. `fixed`: loop variables whose value is known. `ranges`: of loop variables,
    the first and last iteration of the piece that is open. `border`: the axis of which a short piece is open. `ragged`: axes whose last,
    partial step is open. `streaming`: the outputs that are stored to past the caches. `closing`: by name of a reduction, who takes
    its accumulators."""

    opened: Mapping[str, Part] = field(default_factory=dict)
    nests: tuple[Nest, ...] = ()
    tiles: Mapping[str, tuple[StagePlan, Mem]] = field(default_factory=dict)
    holds: frozenset[tuple[Node, Node]] = frozenset()
    whole: frozenset[Node] = frozenset()
    fixed: Mapping[Node, Node] = field(default_factory=dict)
    ranges: Mapping[Node, Interval] = field(default_factory=dict)
    border: Node | None = None
    ragged: frozenset[Node] = frozenset()
    streaming: frozenset[str] = frozenset()
    closing: Mapping[str, Closing] = field(default_factory=dict)

"""The lanes of a nest: decided in the schedule, and by the same rule for nests that lowering makes itself."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import Node
from ..opts.axis_plan import Part
from ..opts.lanes import Vectors, vectors
from ..opts.nests import Nest
from .lowering import Lowering
from .storage import Array


def lanes_of(low: Lowering, nest: Nest, extra: Sequence[Node] = ()) -> Vectors:
    """The register parts and the lanes of a nest; `extra`: further expressions that are evaluated in it."""
    if any(n is nest for n in low.sched.nests):
        return low.sched.lanes(nest)

    def held(name: str) -> Sequence[int | Node] | Part | None:
        found = low.storage.values.get(name)
        return found.strides if isinstance(found, Array) else found.lane if found is not None else None

    return vectors(low.sched, nest, [*nest.evaluated, *extra], held)

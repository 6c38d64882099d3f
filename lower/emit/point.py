"""Emits pointwise values that are kept: in registers where every reader is at the same point, else in an array."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.node import Node
from ...opts.nests import Nest
from ...program.program import Val
from ..expr import NestEval
from ..in_place import in_output
from ..lowering import Lowering
from ..storage import Array, Assignment, Registers
from .fills import prepare_fills
from .loops import through, wide


def point(low: Lowering, n: Nest) -> None:
    """A staged value with a nest of its own."""
    evaluate(low, n, n.name in low.sched.tree.registers)


def evaluate(low: Lowering, n: Nest, in_registers: bool) -> None:
    """The value of a nest at every point, kept in registers or in an array."""
    prepare_fills(low, n)
    assert n.value is not None
    loops = low.remaining(n)
    if in_registers:
        ev = NestEval(low, n)
        store = Registers(list(ev.regs), ev.lane, ev.width)
        for asg in ev.assignments(ev.regs):
            store.vals[store.key(asg)] = wide(ev, ev.value(n.expr, asg))
        low.storage.values[n.name] = store
        return
    array = low.storage.reserved.get(n.name) or in_output(low, n.value, n.axes) or low.array(n.value, n.axes)
    through(low, loops, lambda: point_body(low, n, [(n.expr, array)]))
    low.storage.values[n.name] = array


def point_body(low: Lowering, n: Nest, writes: Sequence[tuple[Node, Array]]) -> None:
    """Evaluate every expression, then write every array (so that all read the old state)."""
    ev = NestEval(low, n, [e for e, _ in writes])
    done: list[tuple[Array, Assignment, Val]] = []
    for asg in ev.assignments(ev.regs):
        done += [(array, asg, ev.value(e, asg)) for e, array in writes]
    for array, asg, v in done:
        ev.write(array.mem, array.address(low.point(array)), asg, v, ev.guards(array, n.axes))

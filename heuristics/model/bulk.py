"""How much code a schedule becomes: what building it takes grows with that, and nobody has to lower it to know."""

from __future__ import annotations

from math import prod

from ...ir.buffer import load_parts
from ...ir.node import Node, axes_of
from ...opts.access import stride
from ...opts.nests import Nest
from ...opts.schedule import Scheduled
from .evaluated import evaluated


def bulk(s: Scheduled) -> float:
    """About how many instructions of bodies are written, over all phases: each node of a nest once for every copy in registers, and
    what is gathered once for every lane; twice where an output is stored past the caches, which is for aligned ones only. Ragged ends and
    other cases, which are written again as well, are not counted."""
    if s.phases:
        return sum(map(bulk, s.phases))
    return sum(_nest(s, nest) for nest in s.nests)


def _nest(s: Scheduled, nest: Nest) -> float:
    regs, lanes = s.registers(nest), s.lanes(nest)
    copies = {p.name: p.trips // lanes.width if p is lanes.lane else p.trips for p in regs if p.kind != "dot"}

    def times(n: Node) -> int:
        axes = axes_of(n)
        return prod(copies[p.name] for p in regs if p.name in copies and p.axis in axes)

    total = float(prod(copies.values()))
    for n in evaluated(s, nest, [*nest.evaluated]):
        width = 1
        if n.op == "load" and lanes.lane is not None:
            buffer, indices, _ = load_parts(n)
            width = 1 if stride(s, nest, buffer.name, indices, buffer.shape, lanes.lane) in (0, 1) else lanes.width
        total += width * times(n)
    past = nest.store is not None and nest.store.buffer.name in s.nt
    return total + total if past else total

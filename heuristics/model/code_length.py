"""How much code a schedule becomes: what building it takes grows with that, and nobody has to lower it to know."""

from __future__ import annotations

from math import prod

from ...ir.buffer import load_parts
from ...ir.dtypes import index
from ...ir.node import COMPARE, Node, axes_of, walk
from ...opts.access import stride
from ...opts.analysis.thresholds import holds_inside
from ...opts.nests import Nest
from ...opts.schedule import Scheduled


def evaluated(s: Scheduled, nest: Nest, roots: list[Node]) -> list[Node]:
    """The nodes that cost an instruction or more: not indices, nor the masks of staged tiles, nor what only borders ask, nor values but for
    those that data picks."""
    out: dict[Node, None] = {}
    stack = [r for r in roots if r.dtype is not index]
    while stack:
        n = stack.pop()
        if (
            n in out
            or n.op in ("const", "axis", "sym")
            or (n.op == "ref" and not by_data(n))
            or (n.dtype is index and n.op in ("sum", "prod", "div", "mod", "min", "max"))
        ):
            continue
        out[n] = None
        if n.op == "load":
            buffer, _, mask = load_parts(n)
            if mask is not None and buffer.name not in s.stages and not holds_inside(s, nest, mask):
                stack.append(mask)
        elif n.op == "ref":
            continue
        elif n.op == "where" and holds_inside(s, nest, n.src[0]):
            stack.append(n.src[1])
        elif not (n.op in COMPARE and n.src[0].dtype is index):
            stack.extend(n.src)
    return list(out)


def by_data(ref: Node) -> bool:
    """Whether data says which element of a value is read."""
    return any(x.op in ("load", "ref") for x in walk(*ref.src))


def added(nest: Nest) -> bool:
    """Whether a reduction takes elements as they are in memory, times something else, or without their sign: they need no register of their
    own."""
    e = nest.expr.src[1] if nest.expr.op == "where" else nest.expr
    e = e.src[0] if e.op in ("abs", "neg") else e
    return e.op == "load" or (e.op == "mul" and any(x.op == "load" for x in e.src))


def code_size(s: Scheduled) -> float:
    """About how many instructions of bodies are written, over all phases: each node of a nest once for every copy in registers, and
    what is gathered once for every lane; twice where an output is stored past the caches, which is for aligned ones only. Ragged ends and
    other cases, which are written again as well, are not counted."""
    if s.phases:
        return sum(map(code_size, s.phases))
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

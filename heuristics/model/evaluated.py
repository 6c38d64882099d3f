"""Which expressions of a nest cost an instruction."""

from __future__ import annotations

from ...ir.buffer import load_parts
from ...ir.dtypes import index
from ...ir.node import COMPARE, Node, walk
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

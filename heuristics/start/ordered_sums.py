"""Start rules for sums whose order of additions is fixed: with lanes along results where free sums have them along the sum.

A result has one accumulator then. Of products that lie along the sum, blocks are turned in registers; columns are added a chain at a
time, a strip of a few rows after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.fixed_sums import COLUMNS
from ...ir.node import Node
from ...opts.addition_order import chain_ends, order_of
from ...opts.analysis.structure import contiguous, extent
from ...opts.defaults import site_name
from ...opts.nests import Nest
from ...opts.opt import Opt, Opts, opt
from .start_rule import Numbers, StartFacts, StartRule

ROWS = 8
"""Rows of one operand that are in registers beside a vector of the other's, at most."""

STRIP = 256
"""Bytes of columns whose chains are in registers."""


class ProductsAlongRows(StartRule):
    """Sums of products of which both operands lie along the sum, for few rows of one of them."""

    name = "fixed products along rows"
    quick_places = (0, 1)

    def applies(self, f: StartFacts) -> Iterable[tuple[Nest, Node]]:
        for n in f.reductions if f.kernel.fixed else ():
            order, last = order_of(n), n.reduce_axes[-1]
            if order is not None and order.partials == 1 and n.axes and last in contiguous(f.kernel, n) and extent(n.axes[-1]) >= f.lanes:
                yield n, last

    def parameters(self, f: StartFacts, where: tuple[Nest, Node]) -> Mapping[str, tuple[int, ...]]:
        return {"vectors": (1, 2), "steps": (16, 8)}

    def schedule(self, f: StartFacts, where: tuple[Nest, Node], p: Numbers) -> Opts:
        n, last = where
        lane = n.axes[-1]
        rows = tuple(opt("UPCAST", site_name(a), extent(a)) for a in n.axes[:-1][-1:] if 1 < extent(a) <= ROWS)
        return (
            *rows,
            opt("UPCAST", site_name(lane), p["vectors"] * f.lanes),
            opt("UNROLL", site_name(last), p["steps"]),
            opt("PARALLEL", site_name(lane)),
        )


class ColumnsInChains(StartRule):
    """Sums down columns: a chain of rows at a time."""

    name = "fixed columns in chains"
    quick_places = (0,)

    def applies(self, f: StartFacts) -> Iterable[Nest]:
        for n in f.reductions if f.kernel.fixed else ():
            if order_of(n) == COLUMNS and n.axes and n.axes[-1] in contiguous(f.kernel, n) and any(True for _ in chain_ends(n)):
                yield n

    def parameters(self, f: StartFacts, where: Nest) -> Mapping[str, tuple[int, ...]]:
        return {"vectors": (max(1, min(8, STRIP // f.target.vector_bytes)),)}

    def schedule(self, f: StartFacts, where: Nest, p: Numbers) -> Opts:
        lane, (along, ends) = where.axes[-1], list(chain_ends(where))[-1]
        cut, before = list[Opt](), site_name(lane)
        if f.threads > 1:
            cut = [opt("TILE", before, p["vectors"] * f.lanes * 4), opt("PARALLEL", before)]
            before += ".t"
        chains = (opt("TILE", site_name(along), ends[-1]), opt("MOVE", site_name(along), before=before))
        return (opt("UPCAST", site_name(lane), p["vectors"] * f.lanes), *cut, *chains)

"""Start rules for sums of rows that are gathered: along them (products of rows of two tables for a list of pairs, distances of rows to
chosen centres), or of several of them (bags of embeddings, neighbours' features).

A row begins anywhere, so lanes along what chooses it would gather every element; within a row elements lie side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.buffer import loads
from ...ir.node import Node, walk
from ...opts.analysis.structure import contiguous, extent
from ...opts.defaults import site_name
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from .start_rule import Numbers, StartFacts, StartRule

SPARE = 4
"""Registers that are not for a row's sums."""


def gathers(n: Nest) -> bool:
    """Whether rows are read at indices that are themselves read, each from its beginning."""
    return any(
        any(x.op == "load" for i in indices[:-1] for x in walk(i)) and not any(x.op == "load" for x in walk(indices[-1]))
        for _, indices, _ in loads(*n.roots)
        if indices
    )


class SumsAlongGatheredRows(StartRule):
    """Lanes along the rows, and a few gathered rows side by side, whose sums are added up across their lanes together."""

    name = "sums along gathered rows"
    quick_places = (0, 1)

    def applies(self, f: StartFacts) -> Iterable[tuple[Nest, Node]]:
        for n in f.reductions:
            along = next((a for a in contiguous(f.kernel, n) if a in n.reduce_axes), None)
            if n.axes and along is not None and extent(along) >= f.lanes and gathers(n):
                yield n, along

    def parameters(self, f: StartFacts, where: tuple[Nest, Node]) -> Mapping[str, tuple[int, ...]]:
        return {"vectors": (1, 2, 4), "rows": (4, 8, 2, 1)}

    def schedule(self, f: StartFacts, where: tuple[Nest, Node], p: Numbers) -> Opts:
        n, along = where
        rows = (opt("UPCAST", site_name(n.axes[-1]), p["rows"]),) if p["rows"] > 1 else ()
        return (opt("UPCAST", site_name(along), p["vectors"] * f.lanes), *rows, opt("PARALLEL", site_name(n.axes[0])))


class SumsOfGatheredRows(StartRule):
    """Rows that are added up, whole in registers, so that what chooses them is read once for all of a row; those of an odd width are padded,
    since what is left of them would be one more sum over all rows."""

    name = "sums of gathered rows"

    def applies(self, f: StartFacts) -> Iterable[tuple[Nest, Node]]:
        for n in f.reductions:
            lane = next((a for a in contiguous(f.kernel, n) if a in n.axes), None)
            if lane is not None and len(n.axes) >= 2 and f.lanes < extent(lane) <= (f.target.registers - SPARE) * f.lanes and gathers(n):
                yield n, lane

    def schedule(self, f: StartFacts, where: tuple[Nest, Node], p: Numbers) -> Opts:
        n, lane = where
        width = -(-extent(lane) // f.lanes) * f.lanes
        pad = (opt("PADTO", site_name(lane), width),) if width != extent(lane) else ()
        return (*pad, opt("UPCAST", site_name(lane), width), opt("PARALLEL", site_name(n.axes[0])))

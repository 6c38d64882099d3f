"""Start rules for reductions of windows that slide over what they read, as pooling and filters do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from ...ir.buffer import Buffer
from ...ir.index import upper
from ...ir.node import Node
from ...opts.access import AccessPattern, accesses
from ...opts.analysis.extremes import combine_of
from ...opts.analysis.structure import extent, lane_axis
from ...opts.defaults import fit, site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from .row_schedules import fused_families
from .start_rule import Numbers, StartFacts, StartRule

STEPS = 7
"""Steps of a row of a window that are unrolled."""
UNROLLED = 16
"""Steps of the window of a signal that are unrolled."""
UNROLLED_WINDOW = 100
"""Steps of windows over rows that are unrolled."""
RUN = 1024
"""Results of short windows that are a work item."""
RESULTS = 256
"""Results of long windows that are a work item."""
APART = 4
"""Elements from one step of a window to the next at most, along a row."""
ITEMS = 64
"""Work items that are enough for any number of threads."""


class Windows(StartRule):
    """The rows under a window are staged once, bounds and all, or read where they are, and the steps of a row are unrolled. Of a signal, all
    steps of a short window are."""

    name = "windows"
    quick_places = (3, 6, 1, 0)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        for n in f.nests:
            lane = lane_axis(f.kernel, n) if n.kind == "reduce" else None
            if lane is None:
                continue
            found = (x for x in accesses(f.kernel, n) if lane in x.strides and not x.store)
            slid = next((x for x in found if any(x.stride(a) == 1 for a in n.reduce_axes)), None)
            free = [a for a in f.shared if a is not lane]
            if slid is not None and not free:
                yield from _of_signal(f, n, lane, slid)
            elif slid is not None and len(free) >= 2:
                yield from _of_rows(f, n, lane, slid.buffer, free)


def _of_signal(f: StartFacts, n: Nest, lane: Node, slid: AccessPattern) -> Iterator[Opts]:
    """A signal's windows: all steps are unrolled."""
    every = list(dict.fromkeys(a for m in f.reductions for a in m.reduce_axes if extent(a) > 1))
    near = next((a for a in every if slid.stride(a) == 1), None)
    step, grid = slid.stride(lane) or 0, opt("PARALLEL", site_name(lane))
    if near is None or step >= extent(near):  # rows, and no windows that overlap
        return
    if step > 1 and extent(near) > UNROLLED and len(every) == 1:
        # a result for every few places: lanes along the window, a few results side by side, many to a work item
        wide = opt("UPCAST", site_name(near), fit(extent(near), 2 * f.lanes))
        yield (wide, opt("UPCAST", site_name(lane), 4), opt("TILE", site_name(lane), RESULTS), grid)
    if all(extent(a) <= UNROLLED or (extent(a) <= UNROLLED_WINDOW and combine_of(n) in ("max", "min")) for a in every):
        steps = (*(opt("UNROLL", site_name(a), extent(a)) for a in every), *fused_families(every), grid)
        block = [opt("TILE", site_name(lane), RUN)] if extent(lane) >= 16 * RUN else []
        for vectors in (4, 2):
            wide = opt("UPCAST", site_name(lane), fit(extent(lane), vectors * f.lanes))
            yield (wide, *steps)
            yield (wide, *block, *steps)


def _of_rows(f: StartFacts, n: Nest, lane: Node, read: Buffer, free: list[Node]) -> Iterator[Opts]:
    """Windows over rows: the rows are staged for one row of results or for several, or read where they are."""
    buffer, plane = read.name, read.dtype.size * math.prod(upper(d) for d in read.shape[-2:])
    steps = [opt("UNROLL", site_name(a), extent(a)) for a in n.reduce_axes[-1:] if 1 < extent(a) <= STEPS]
    outer = free[:1] if extent(free[0]) >= ITEMS else free[:-1]
    grid = [opt("PARALLEL", site_name(a)) for a in outer]
    together = outer[-1] if plane <= f.target.l1 else free[-1]  # (of a larger plane only the rows that a few results need stay near)
    for vectors in (4, 2, 1):
        width = fit(extent(lane), vectors * f.lanes)
        if width > 1:
            wide = opt("UPCAST", site_name(lane), width)
            yield (wide, *steps, *grid, opt("STAGE", buffer, at=site_name(free[-1]), order="row"))
            # several rows of results share the rows they slide over
            copies = [opt("UPCAST", site_name(free[-1]), 4)] if vectors < 4 and waste(extent(free[-1]), 4) <= 0.25 else []
            yield (wide, *copies, *steps, *grid, opt("STAGE", buffer, at=site_name(together), order="row"))
            if copies:  # or read where they are
                yield (wide, *copies, *steps, *grid[:1])


class UnrolledWindows(StartRule):
    """All steps of windows over rows are unrolled: rows of results side by side share what they read, and of extremes what they compute."""

    name = "unrolled windows"
    quick_places = (0, 1)

    def applies(self, f: StartFacts) -> Iterable[tuple[Node, list[Node], list[Node]]]:
        """(the axis of the lanes, those of rows, the axes of the windows)."""
        n = next(iter(f.reductions), None)
        lane = lane_axis(f.kernel, n) if n is not None else None
        if n is None or lane is None:
            return
        free = [a for a in f.shared if a is not lane]
        found = [x for x in accesses(f.kernel, n) if lane in x.strides and not x.store]
        read = [(x, a) for x in found for a in n.reduce_axes if 0 < (x.stride(a) or 0) <= APART]
        # (what is longer than a vector and does not overlap is a row)
        slides = any(extent(a) <= f.lanes or (x.stride(lane) or 0) < extent(a) for x, a in read)
        every = list(dict.fromkeys(a for m in f.reductions for a in m.reduce_axes if extent(a) > 1))
        if free and slides and math.prod(extent(a) for a in every) <= UNROLLED_WINDOW:
            yield lane, free, every

    def sample(self, f: StartFacts, where: tuple[Node, list[Node], list[Node]]) -> Iterable[Numbers]:
        return ({"vectors": v, "copies": c} for v, c in ((2, 4), (1, 8), (1, 4), (4, 2)))

    def schedule(self, f: StartFacts, where: tuple[Node, list[Node], list[Node]], p: Mapping[str, int]) -> Opts:
        lane, free, every = where
        rows = [opt("UPCAST", site_name(free[-1]), p["copies"])] if waste(extent(free[-1]), p["copies"]) <= 0.25 else []
        steps = [opt("UNROLL", site_name(a), extent(a)) for a in every]
        wide = opt("UPCAST", site_name(lane), fit(extent(lane), p["vectors"] * f.lanes))
        return (wide, *rows, *steps, opt("PARALLEL", site_name(free[0])))

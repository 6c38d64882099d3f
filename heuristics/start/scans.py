"""The start rule for scans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ...ir.body import in_steps, tuple_scan
from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.access import accesses
from ...opts.analysis.structure import extent, nests, scanned_axes
from ...opts.defaults import family_name, fit, site_name, waste
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.split import scan_name
from .start_rule import StartFacts, StartRule

TURNED = 4
"""Steps of rows that are transposed in registers, so that each lane has a row."""
CHUNK = 512
"""Elements of a chunk of a scan that is worth a work item."""
COLUMNS = (8192, 2048, 512)
"""Columns that are scanned at once: their states are to stay in the first cache, with a few rows of what is read and stored, and what one
scan hands on to another one that goes the other way in the second."""


class Scans(StartRule):
    """Where a scan runs along what is consecutive in memory: a vector of prefixes at a time, and rows side by side for more chains. Where it
    runs across that, whole rows in the order in which they lie in memory, a few of them at a time, in strips for the threads."""

    name = "scans"
    quick_places = (0, 1, 2)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        scanned = scanned_axes(f.kernel)
        for n in f.nests:
            if n.kind != "scan":
                continue
            along = _consecutive(f.kernel, n)
            if along is None:
                continue
            free = [a for a in f.shared if a is not along]
            outer = tuple(opt("PARALLEL", site_name(a)) for a in free[:1])
            if along in scanned:
                if in_steps(n.value):
                    yield from _side_by_side(n, f, along, outer)
                    continue
                across = [a for a in n.axes if a is not along and extent(a) >= 8]
                turned = across and extent(across[-1]) >= 4 * f.lanes and extent(along) % TURNED == 0
                for place, (vectors, copies) in enumerate(((1, 4), (4, 1), (1, 2), (2, 2), (1, 1))):
                    side = (opt("UPCAST", site_name(across[-1]), copies),) if across and copies > 1 else ()
                    wide = opt("UPCAST", family_name(f.kernel, along), fit(extent(along), vectors * f.lanes))
                    yield (wide, *side, *outer)
                    if turned and place == 0:  # where a step is long, a row to each lane
                        steps = opt("UPCAST", family_name(f.kernel, along), TURNED)
                        yield (steps, opt("UPCAST", site_name(across[-1]), f.lanes), *outer)
                    chunks = 4 * f.threads if extent(along) >= 4 * CHUNK * f.threads else f.threads
                    if not outer and f.threads > 1 and extent(along) >= CHUNK * chunks:
                        yield (opt("SPLIT", scan_name(f.kernel, along), chunks), wide, *side)
            elif axes := [a for a in n.axes if a in scanned]:
                others = [a for a in scanned if a not in n.axes and a.arg.family == axes[-1].arg.family]
                yield from _down_columns(n, (axes[-1], *others), f, along, outer)


def _side_by_side(n: Nest, f: StartFacts, along: Node, outer: Opts) -> Iterator[Opts]:
    """A recurrence along rows: as many rows at once as there are lanes, or a few, since each step waits for the one before. Where there are
    few steps in a body, the processor sees the next ones in time."""
    rows = max((a for a in n.axes if a is not along), key=extent, default=None)
    for copies in (4, f.lanes, 1, f.lanes // 2, 2):
        steps = fit(extent(along), TURNED if copies > 4 else 2 * TURNED)
        if copies == 1 or (rows is not None and waste(extent(rows), copies) <= 0.25):
            side = (opt("UPCAST", site_name(rows), copies),) if rows is not None and copies > 1 else ()
            yield (opt("UPCAST", family_name(f.kernel, along), steps), *side, *outer)


def _consecutive(kernel: Kernel, n: Nest) -> Node | None:
    """The axis of a nest that is consecutive in what most of its axes go through, read by it or, where it reads what is kept, by others: a
    factor of each step lies in an order of its own."""
    for which in ([n], nests(kernel)):
        found = [x for m in which for x in accesses(kernel, m) if sum(a in x.strides for a in n.axes) == len(n.axes)]
        near = next((a for x in found for a in n.axes if x.strides.get(a) == 1), None)
        if near is not None:
            return near
    return next((a for x in accesses(kernel, n) for a in n.axes if x.strides.get(a) == 1), None)


def _down_columns(n: Nest, axes: Sequence[Node], f: StartFacts, along: Node, outer: Opts) -> Iterator[Opts]:
    """A scan along the first of `axes`, of columns that lie next to each other along another one; the others are those of further scans of
    the same columns, such as one that goes up again."""
    # (a state is read and written once for the steps that are taken at once, but each of them reads and writes a row of its own)
    ways: tuple[tuple[int, int], ...] = ((4, 2), (2, 4), (16, 1), (4, 4), (8, 1))
    if in_steps(n.value):  # compilers would write the steps of a vector one after the other; states have registers
        states = len(tuple_scan(n.expr).needed(False))
        ways = tuple((v, 1) for v in (2, 4, 1, 16, 8) if v == 1 or v * states < f.target.registers)
    for most, (vectors, copies) in product(COLUMNS, ways):
        strip = most if outer else min(most, -(-extent(along) // f.threads))
        width = fit(extent(along), vectors * f.lanes)
        strip = -(-strip // width) * width
        steps = ((a, min(copies, extent(a))) for a in axes)
        cut = tuple(opt("UPCAST", site_name(a), n) for a, n in ((along, width), *steps) if n > 1)
        name = site_name(along)
        if 0 < strip < extent(along):
            cut += (opt("TILE", name, strip), *(opt("MOVE", site_name(a), before=f"{name}.t") for a in axes))
            cut += () if outer else (opt("PARALLEL", name),)
        else:
            cut += tuple(opt("MOVE", site_name(a), before=name) for a in axes[1:])
        yield (*cut, *outer)

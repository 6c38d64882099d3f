"""Start rules for scatters: copies of the output for each work item where points add to few places (histograms, sums by segment), blocks of
rows that a work item owns, and rows of points that lie side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from ...ir import index as ix
from ...ir.body import Store
from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.analysis.structure import extent
from ...opts.analysis.write_order import in_vectors, scatter_ordered
from ...opts.defaults import fit, rows, site_name
from ...opts.memory_limits import is_far
from ...opts.opt import Opt, Opts, opt
from ...opts.options.cache import STREAM
from ...opts.options.own import ownable
from ...opts.options.split import LEAST_POINTS as LEAST
from ...opts.rewrites.split_scatter import Scatter, alike, privatisable
from ...targets import Target
from .start_rule import Numbers, StartFacts, StartRule, Template

# blocks of rows -------------------------------------------------------------------------------------------------------


class OwnedRows(StartRule):
    """Work items own blocks of the rows that are added to: as many as fit the second cache, or one block a thread. Where few rows are added to,
    the others need not pass through the caches."""

    name = "owned rows"
    quick_places = (3, 12, 0)

    def applies(self, f: StartFacts) -> Iterable[tuple[Store, int, int]]:
        found = ownable(f.kernel)
        return () if found is None else (found,)

    def sample(self, f: StartFacts, where: tuple[Store, int, int]) -> Iterable[Numbers]:
        store, d, size = where
        row = math.prod(n for i, n in enumerate(store.buffer.shape) if i != d and isinstance(n, int)) * store.buffer.dtype.size
        vectors = [v for v in (64, 16, 4, 1) if v * f.lanes <= extent(store.axes[-1]) or v == 1]
        past = (0, 1) if is_far(f.target, store.buffer.shape, store.buffer.dtype.size) else (0,)
        for most in (f.target.l2 // 2 // max(1, row), size / f.threads):
            block = 1 << max(3, math.ceil(math.log2(max(most, 1))))
            if block < size:
                yield from ({"block": block, "vectors": v, "nt": nt} for nt in past for v in vectors)

    def schedule(self, f: StartFacts, where: tuple[Store, int, int], p: Numbers) -> Opts:
        name, inner = where[0].buffer.name, where[0].axes[-1]
        past = (opt("CACHE", name, policy=STREAM),) if p["nt"] else ()
        return (opt("OWN", name, p["block"]), opt("UPCAST", str(inner.arg.name), fit(extent(inner), p["vectors"] * f.lanes)), *past)


# copies of the output -------------------------------------------------------------------------------------------------
STEPS = (8, 16)
"""Points that are unrolled: enough that what they have in common is computed once."""
SHORT, POINTS = 2, 4
"""Vectors of a row that is added to, up to which so many points are unrolled."""
FEWEST = 64
"""Points of a GPU's thread that are worth a copy to clear and to combine."""
ROOM = 1 << 26
"""Bytes of all copies of a GPU's threads."""


class PrivateCopies(StartRule):
    """As many chunks of the points as there are threads or some more, each with copies of the output as far as all of them stay in the first
    cache (indices that repeat need not wait for each other then)."""

    name = "private copies"
    quick_places = (0, 2)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        for names, scatter, size in _outputs(f.kernel):
            serial, store = scatter.serial, scatter.store
            most = extent(serial[0]) // LEAST
            room = f.target.l1 // 2 // max(1, size)
            if room == 1 and 8 * size <= 3 * f.target.l1:  # two copies, and a quarter of the cache for all else
                room = 2
            copies = [n for n in (4, 8, 2) if n <= room and store.axes[-1] is serial[-1]] or [1]
            several = (f.threads, 4 * f.threads) if f.threads > 1 else ()  # (one thread gains nothing by chunks, and has to combine them)
            for chunks in [n for n in several if n <= most and (n == f.threads or n * size <= f.target.l2 // 2)] or [1]:
                for n in copies[:2]:
                    if chunks * n > 1:
                        own = tuple(opt("SPLIT", name, n=chunks, copies=n) for name in names)
                        yield from ((*own, *rest) for rest in _steps(scatter, f.lanes, n, len(names)))
            yield from _steps(scatter, f.lanes, 1, len(names))

    def templates(self, f: StartFacts) -> Iterator[Template]:
        numbers = {"chunks": (1, 2, 4, 8, 16, 32), "copies": (1, 2, 4, 8), "steps": (1, 2, 4, 8, 16)}
        for names in alike(f.kernel):
            yield Template(f"copies of {', '.join(names)}", numbers, partial(scattered, f.kernel, f.result_lanes, names))


def _outputs(kernel: Kernel) -> Iterator[tuple[tuple[str, ...], Scatter, int]]:
    """(outputs over the same points, the scatter of one of them, the bytes of one copy of each)."""
    for names in alike(kernel):
        found = [known for n in names if (known := privatisable(kernel, n)) is not None]
        buffers = [s.store.buffer for s in found]
        yield names, found[0], sum(math.prod(ix.upper(d) for d in b.shape) * b.dtype.size for b in buffers)


def scattered(kernel: Kernel, lanes: int, names: tuple[str, ...], numbers: Mapping[str, int]) -> Opts:
    """A schedule of scatters with `chunks`, `copies`, and so many `steps`: points, or vectors of a row."""
    found = privatisable(kernel, names[0])
    assert found is not None
    last, steps = found.store.axes[-1], numbers["steps"]
    width = steps if last in found.serial else fit(extent(last), steps * lanes)
    wide = (opt("UPCAST", site_name(last), width),) if width > 1 else ()
    if numbers["chunks"] * numbers["copies"] == 1:
        return wide
    return (*(opt("SPLIT", n, n=numbers["chunks"], copies=numbers["copies"]) for n in names), *wide)


def _steps(scatter: Scatter, lanes: int, copies: int, outputs: int) -> Iterator[tuple[Opt, ...]]:
    """Copies in registers: along the places of a row that points add to, else of the points (fewer where each adds to several outputs, or
    several times to one)."""
    last, serial, outputs = scatter.store.axes[-1], scatter.serial, outputs * len(scatter.stores)
    if len(serial) > 1 and last is serial[-1] and extent(last) < min(STEPS):  # the few places of a point, and several points
        points = max(1, min(STEPS) // (outputs * extent(last)))
        yield tuple(opt("UPCAST", site_name(a), n) for a, n in ((last, extent(last)), (serial[-2], 2 * points)) if n > 1)
    if last in serial:
        fitting = [n for n in STEPS if n <= extent(last) and n % copies == 0 and n * outputs <= max(STEPS)]
        yield from ((opt("UPCAST", site_name(last), n),) for n in fitting)
        if len(scatter.stores) > 1 and not fitting:  # the stores of one point are a body as it is
            yield ()
        return
    for vectors in (8, 4, 1):
        width = fit(extent(last), vectors * lanes)
        if width > 1:
            yield (opt("UPCAST", site_name(last), width),)
        if serial and 1 < extent(last) == width <= SHORT * lanes:  # several points: their rows are loaded while earlier ones are added
            yield tuple(opt("UPCAST", site_name(a), n) for a, n in ((last, width), (serial[-1], POINTS)))


def thread_copies(kernel: Kernel, target: Target) -> Iterator[Opts]:
    """Guesses for a GPU: a chunk and a copy for each thread, as many as the copies leave room for."""
    for names, scatter, size in _outputs(kernel):
        long = scatter.serial[0]
        most = min(ROOM // max(1, size), extent(long) // FEWEST)
        for each in (256, 64, 16):
            chunks = min(most, target.cores * each)
            if chunks >= target.cores:
                own = tuple(opt("SPLIT", name, chunks) for name in names)
                yield from ((*own, opt("LOCAL", f"{site_name(long)}.s", n)) for n in (32, 64))


# rows of points -------------------------------------------------------------------------------------------------------
LONGEST = 64
"""Elements of a row up to which all of it is in registers."""


class ScatteredRows(StartRule):
    """Points that lie side by side, as those of a stamp's rows do: a row at once, filled up to whole vectors, to half ones, or as it is.
    `clear`: vectors of what is cleared at once."""

    name = "scattered rows"
    quick_places = (0, 2)

    def applies(self, f: StartFacts) -> Iterable[list[Node]]:
        found = {s.axes[-1]: s for s in f.kernel.stores if s.combine is not None and s.axes and s.axes[-1] in scatter_ordered(s)}
        mine = [a for a, s in found.items() if in_vectors(f.target, s, a) and 1 < extent(a) <= LONGEST]
        return (mine,) if mine else ()

    def parameters(self, f: StartFacts, where: list[Node]) -> Mapping[str, tuple[int, ...]]:
        return {"width": tuple(dict.fromkeys((f.lanes, max(1, f.lanes // 2), 1))), "clear": (4, 2)}

    def schedule(self, f: StartFacts, where: list[Node], p: Numbers) -> Opts:
        row: Opts = ()
        for a in where:
            whole = -(-extent(a) // p["width"]) * p["width"]
            row += (*((opt("PADTO", site_name(a), whole),) if whole > extent(a) else ()), opt("UPCAST", site_name(a), whole))
        return (*row, *rows(f.kernel, f.target, f.threads, p["clear"] * f.lanes, True, 1))

"""Start schedules of scatters whose points add to few places (histograms, sums by segment): copies of the output for each work item, and
several copies or steps at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ...ir import index as ix
from ...ir.kernel import Kernel
from ...opts.analysis.structure import extent
from ...opts.defaults import fit, site_name
from ...opts.opt import Opt, Opts, opt
from ...opts.options.split import LEAST_POINTS as LEAST
from ...opts.rewrites.split_scatter import Scatter, alike, privatisable
from ...targets import Target

STEPS = (8, 16)
"""Points that are spelled out: enough that what they have in common is computed once."""
SHORT, POINTS = 2, 4
"""Vectors of a row that is added to, up to which so many points are spelled out."""
FEWEST = 64
"""Points of a GPU's thread that are worth a copy to clear and to combine."""
ROOM = 1 << 26
"""Bytes of all copies of a GPU's threads."""


def private_copies(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Guesses for a kernel's scatters, the likeliest first: as many chunks as there are threads or some more, and copies as far as
    all of them stay in the first cache (indices that repeat need not wait for each other then)."""
    for names, scatter, size in _outputs(kernel):
        serial, store = scatter.serial, scatter.store
        most = extent(serial[0]) // LEAST
        room = target.l1 // 2 // max(1, size)
        if room == 1 and 8 * size <= 3 * target.l1:  # two copies, and a quarter of the cache for all else
            room = 2
        copies = [n for n in (4, 8, 2) if n <= room and store.axes[-1] is serial[-1]] or [1]
        several = (threads, 4 * threads) if threads > 1 else ()  # (one thread gains nothing by chunks, and has to combine them)
        for chunks in [n for n in several if n <= most and (n == threads or n * size <= target.l2 // 2)] or [1]:
            for n in copies[:2]:
                if chunks * n > 1:
                    own = tuple(opt("SPLIT", name, n=chunks, copies=n) for name in names)
                    yield from ((*own, *rest) for rest in _steps(scatter, lanes, n, len(names)))
        yield from _steps(scatter, lanes, 1, len(names))


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
    spelled = (opt("UPCAST", site_name(last), width),) if width > 1 else ()
    if numbers["chunks"] * numbers["copies"] == 1:
        return spelled
    return (*(opt("SPLIT", n, n=numbers["chunks"], copies=numbers["copies"]) for n in names), *spelled)


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

"""Seeds of scatters whose points add to few places (histograms, sums by segment): copies of the output for each work item, and
several copies or steps at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir import index as ix
from ...ir.body import Store
from ...ir.kernel import Kernel
from ...opts.defaults import fit, site_name
from ...opts.opt import Opt, Opts, opt
from ...opts.options.private import LEAST, privatisable, serial_axes
from ...opts.structure import extent
from ...targets import Target

STEPS = (8, 16)
"""Points that are spelled out: enough that what they have in common is computed once."""
FEWEST = 64
"""Points of a GPU's thread that are worth a copy to clear and to combine."""
ROOM = 1 << 26
"""Bytes of all copies of a GPU's threads."""


def private_copies(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Guesses for a kernel's scatters, the likeliest first: as many chunks as there are threads or some more, and copies as far as
    all of them stay in the first cache (indices that repeat need not wait for each other then)."""
    for b in kernel.outputs:
        found = privatisable(kernel, b.name)
        if found is None:
            continue
        store, serial = found[0], serial_axes(found[0])
        size = math.prod(ix.upper(d) for d in b.shape) * b.dtype.size
        most = extent(serial[0]) // LEAST
        room = target.l1 // 2 // max(1, size)
        copies = [n for n in (4, 8, 2) if n <= room and store.axes[-1] is serial[-1]] or [1]
        for chunks in [n for n in (threads, 4 * threads) if 1 < n <= most and (n == threads or n * size <= target.l2 // 2)] or [1]:
            for n in copies[:2]:
                if chunks * n > 1:
                    yield from ((opt("PRIVATE", b.name, chunks=chunks, copies=n), *rest) for rest in _steps(store, lanes, n))
        yield from _steps(store, lanes, 1)


def thread_copies(kernel: Kernel, target: Target) -> Iterator[Opts]:
    """Guesses for a GPU: a chunk and a copy for each thread, as many as the copies leave room for."""
    for b in kernel.outputs:
        found = privatisable(kernel, b.name)
        if found is None:
            continue
        long, size = serial_axes(found[0])[0], math.prod(ix.upper(d) for d in b.shape) * b.dtype.size
        most = min(ROOM // max(1, size), extent(long) // FEWEST)
        for each in (256, 64, 16):
            chunks = min(most, target.cores * each)
            if chunks >= target.cores:
                yield from ((opt("PRIVATE", b.name, chunks=chunks), opt("LOCAL", f"{site_name(long)}.s", n)) for n in (32, 64))


def _steps(store: Store, lanes: int, copies: int) -> Iterator[tuple[Opt, ...]]:
    """Copies in registers: along the places of a row that points add to, else of the points."""
    last = store.axes[-1]
    if last in serial_axes(store):
        yield from ((opt("UPCAST", site_name(last), n),) for n in STEPS if n <= extent(last) and n % copies == 0)
        return
    for vectors in (8, 4, 1):
        width = fit(extent(last), vectors * lanes)
        if width > 1:
            yield (opt("UPCAST", site_name(last), width),)

"""Start schedules for kernels that read an array at several neighbouring places: several rows at once share what they read.

A row of a stencil reads the rows beside it, which the next rows read again. A register tile of a few rows loads each of them once, and
brings a plane from memory once where it would be brought for each of its neighbours (register tiling of stencils, as in
G. Rivera and C.-W. Tseng, "Tiling Optimizations for 3D Scientific Computations", 2000)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.access import accesses
from ...opts.analysis.interior import interior
from ...opts.analysis.structure import contiguous, extent, nests, shared_axes
from ...opts.defaults import rows
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...targets import Target

LINE = 64
"""Bytes of a cache line. Rows side by side are stored in turns, which takes long where that is in pieces of lines: half as long again as
rows one after the other, measured on 32-byte stores and on rows of other lengths."""
IN_PIECES = 2.0
"""Loads that rows side by side must save where their only store is in pieces of lines. (Several outputs are never stored so: two in four
rows took twice as long as row by row, whatever they shared.)"""


def neighbour_tiles(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Rows side by side along each axis of which neighbours are read, perhaps illegal; none where nothing is read twice, or too little for stores in
    pieces of lines."""
    shared = shared_axes(kernel)
    places = [p for n in nests(kernel) for p in _places(n, [*shared]).items() if p[0][0] not in contiguous(kernel, n)[:1]]
    found = dict.fromkeys(key[0] for key, at in places if len(at) > 1)
    stored = [x for n in nests(kernel) for x in accesses(kernel, n) if x.store]
    # vectors of a line, and no more accumulators than half the registers
    vectors = max(1, LINE // (lanes * min((x.buffer.dtype.size for x in stored), default=1)))
    vectors = min(vectors, max(1, target.registers // 4))
    for a in found:
        pieces = sum((x.stride(a) or 0) * x.buffer.dtype.size % LINE > 0 for x in stored)
        for copies in (4, 2):
            if pieces > 1 or (pieces and _saved((at for key, at in places if key[0] is a), copies) < IN_PIECES):
                continue
            if extent(a) >= 4 * copies and vectors * copies <= target.registers // 2:
                first, *rest = rows(kernel, target, threads, vectors * lanes, False) or (None,)
                if first is not None:
                    yield (first, opt("UPCAST", str(a.arg.name), copies), *rest)


def _saved(places: Iterable[set[int]], copies: int) -> float:
    """Loads of a point that are another's as well where so many points are side by side; `places`: the constants by which
    those of each array differ."""
    return sum(len(at) - len({c + k for c in at for k in range(copies)}) / copies for at in places)


def _places(n: Nest, axes: list[Node]) -> dict[tuple[Node, *tuple[object, ...]], set[int]]:
    """The constants by which places differ at which a nest reads an array: by one of some axes, and all else of the place."""
    places: dict[tuple[Node, *tuple[object, ...]], set[int]] = {}
    for load in n.loads:
        buffer, indices, _ = load_parts(load)
        split = [ix.parts(interior(i)) for i in indices]
        for d, (terms, c) in enumerate(split):
            mine = [a for a in terms if a in axes]
            rest = tuple((j, t, k) for j, (each, _) in enumerate(split) for t, k in each.items())
            others = tuple(k for j, (_, k) in enumerate(split) if j != d)
            if len(mine) == 1:
                places.setdefault((mine[0], buffer.name, d, rest, others), set()).add(c)
    return places

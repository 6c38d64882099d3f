"""The start rule for chains of stencils, and for values that are needed whole before anything else: what `rows` can spread over no grid.

A value that is read at shifted places may be computed again by each reader (in registers, where copies of neighbouring rows share
it), kept for overlapping tiles (HALO), or have a phase of its own (PHASE). Which is best depends on how dear it is, and on the
caches: the model chooses. (Ragan-Kelley et al., "Halide", 2013; Mullapudi et al., "PolyMage", 2015.)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd, prod

from ...ir.body import Store, Value
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, walk
from ...opts.access import strides_of
from ...opts.analysis.structure import extent, read_elsewhere, shared_axes
from ...opts.apply_options import apply
from ...opts.defaults import fit, rows
from ...opts.memory_limits import buffer_bytes
from ...opts.opt import Opt, Opts, opt
from ...opts.options.cache import STREAM
from ...opts.options.halo import tiled
from ...opts.options.phase import phased
from ...targets import Target
from .additions import far_bytes
from .start_rule import StartFacts, StartRule, Template

TILES = ((1, 8), (2, 4), (1, 4), (4, 4), (1, 2), (4, 1))
"""Register tiles: cache lines along the lanes, rows. (Pieces of lines that several rows store past the caches in turns are slow.)"""
LINE = 64
"""Bytes of a cache line."""
BLOCKS = (8, 16, 32, 64, 128)
STRIP = 256
"""Rows that a work item goes through in blocks that keep what they share."""
UNROLLED = 9
"""Taps of a window that are unrolled."""
KEPT = 4
"""Values of a chain of which a search may say whether they are kept."""
INLINED = 600
"""Operations of an expression into which values are put that may be kept instead."""


class StencilChains(StartRule):
    """Chains of stencils, and values that are needed whole before anything else; none where every value is read where it is made."""

    name = "chain"
    quick_places = (0, 2, 1)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        kernel, target, threads = f.kernel, f.target, f.threads
        values = read_elsewhere(kernel)
        if not values or target.kind == "gpu" or any(s.combine is not None for s in kernel.stores):
            return
        whole = tuple(v for v in values if not _shifted(kernel, v))
        kernels = phased(kernel, whole) if whole else (kernel,)
        before: list[Opt] = [opt("PHASE", v) for v in whole]
        for k in kernels[:-1]:
            before += _whole(k, target, threads, f.lanes)
        rest = kernels[-1]
        chain = tuple(v for v in read_elsewhere(rest) if v in rest.values)
        if not chain:
            yield _once((*before, *rows(rest, target, threads, 4 * f.lanes, True), *_past(kernel, target, 1)))
            return
        unit = max(f.lanes, LINE // kernel.outputs[0].dtype.size)
        for lines, copies in TILES:
            tile, far = (lines * unit, copies), _past(kernel, target, copies)
            yield from (_once((*before, *found, *far)) for found in _rolling(rest, chain, target, threads, tile))
            if _operations(rest) <= INLINED:
                yield _once((*before, *_nests(rest, tile), *_parallel(rest, main_store(rest).axes), *far))
            yield from (_once((*before, *found, *far)) for found in _overlapped(rest, chain, target, threads, tile))
            yield _once((*before, *_phases(rest, chain, tile), *far))

    def templates(self, f: StartFacts) -> Iterator[Template]:
        sizes = chain_sizes(f.kernel, f.target)
        if sizes is not None:
            yield Template(self.name, sizes, lambda p: chain_schedule(f.kernel, f.result_lanes, p))


def _past(kernel: Kernel, target: Target, copies: int) -> list[Opt]:
    """Stores past the caches, of outputs that are far: where each row begins at a vector, and of several rows in turns on a line, for
    else they store pieces of lines."""
    far = [b for b in kernel.outputs if buffer_bytes(b.shape, b.dtype.size) >= far_bytes(kernel, target)]
    unit = LINE if copies > 1 else target.vector_bytes
    return [
        opt("CACHE", b.name, policy=STREAM)
        for b in far
        if len(b.shape) == 1 or (isinstance(b.shape[-1], int) and b.shape[-1] * b.dtype.size % unit == 0)
    ]


def chain_sizes(kernel: Kernel, target: Target) -> dict[str, tuple[int, ...]] | None:
    """The numbers that `chain_schedule` leaves open; None where the kernel is no chain of stencils."""
    chain = [v for v in read_elsewhere(kernel) if _shifted(kernel, v)]
    if not chain or target.kind == "gpu" or any(s.combine is not None for s in kernel.stores):
        return None
    axes = main_store(kernel).axes
    blocks = (0, *(n for n in BLOCKS if n < max(map(extent, axes), default=0)))
    found = {"vectors": (1, 2, 4, 8), "copies": (1, 2, 4, 8, 16), "keep": tuple(range(1 << min(len(chain), KEPT)))}
    found |= {f"block{i}": blocks for i in range(min(len(axes) - 1, 2))}
    return found | {"kept_copies": (1, 2, 4, 8), "phase": (0, 1), "nt": (0, 1)}


def chain_schedule(kernel: Kernel, lanes: int, p: Mapping[str, int]) -> Opts:
    """A schedule of a chain: `keep` says by its bits which of the values read at shifted places are kept, in blocks (of `block0`
    rows, and of `block1` along the axis before; 0: not cut) or with `phase` in phases of their own. It may be illegal."""
    values = [v for v in read_elsewhere(kernel) if _shifted(kernel, v)]
    kept = [v for i, v in enumerate(values) if p["keep"] >> i & 1]
    tile = (p["vectors"] * lanes, p["copies"])
    whole = tuple(v for v in read_elsewhere(kernel) if v not in values)
    before = [opt("PHASE", v) for v in whole]
    kernel = phased(kernel, whole)[-1]
    past = [opt("CACHE", b.name, policy=STREAM) for b in kernel.outputs if p["nt"]]
    if p["phase"] and kept:
        return _once((*before, *_phases(kernel, kept, tile), *past))
    store = main_store(kernel)
    outer = [a for a in store.axes if a is not _lane(store.axes, kernel)]
    sizes = [(a, p.get(f"block{i}", 0)) for i, a in enumerate(reversed(outer))]
    cuts = [opt("HALO", a.arg.name, n) for a, n in reversed(sizes) if 0 < n < extent(a)]
    try:
        inner = kernel
        for o in cuts:
            inner = tiled(inner, o)
    except OptError:
        return _once((*before, *cuts))
    at = [opt("STAGE", v, at=f"{cuts[-1].on}.h") for v in kept if cuts and isinstance(kernel.values[v].expr, Node)]
    grid = [opt("PARALLEL", f"{o.on}.h") for o in cuts] or _parallel(kernel, store.axes)
    return _once((*before, *cuts, *at, *_by_family(inner, _nests(inner, tile, kept, p["kept_copies"])), *grid, *past))


def _shifted(kernel: Kernel, name: str) -> bool:
    """Whether a value is read at shifted places (and not only whole, along reduced axes)."""
    return any(n.op == "ref" and n.arg == name and any(i.op not in ("axis", "const") for i in n.src) for n in walk(*kernel.expressions()))


def _whole(kernel: Kernel, target: Target, threads: int, lanes: int) -> list[Opt]:
    """The phase of a value that is needed whole: rows, or chunks of a reduction that has none to spread."""
    found = list(rows(kernel, target, threads, 4 * lanes, False))
    reduced = [a for v in kernel.values.values() for a in v.reduce_axes if extent(a) >= 8 * threads]
    if threads > 1 and reduced and not any(o.op in ("PARALLEL", "SPLIT") for o in found):
        found.append(opt("SPLIT", reduced[0].arg.name, 8 * threads))
    return found


def _by_family(kernel: Kernel, opts: Sequence[Opt]) -> list[Opt]:
    """Options of register tiles, without those for a site whose whole family has one: blocks leave a value sites of its own of the axes
    that they do not cut, phases have sites that users named, and the name of a store's axis is that of its family."""
    named = {(o.op, o.on) for o in opts}
    family = {a.arg.name: a.arg.family for a in kernel.axes}
    return [o for o in opts if family.get(o.on, o.on) == o.on or (o.op, family[o.on]) not in named]


def _once(opts: Sequence[Opt]) -> Opts:
    """Options, the first of each kind on each axis (but blocks may be cut into blocks)."""
    found: dict[tuple[object, ...], Opt] = {}
    for o in opts:
        found.setdefault((o.op, o.on, o.arg if o.op == "HALO" else None), o)
    return tuple(found.values())


def _operations(kernel: Kernel) -> int:
    """Operations of the last stage if everything is put into it, each value counted as often as it is read."""
    size: dict[str, int] = {}
    for item in kernel.body:
        if isinstance(item, Value):
            size[item.name] = _weight(item.body, size) * prod(extent(a) for a in item.reduce_axes)
    return sum(_weight(s.expr, size) for s in kernel.stores)


def _weight(e: Node, size: dict[str, int]) -> int:
    return sum(size.get(n.arg, 1) if n.op == "ref" else 1 for n in walk(e) if n.op not in ("axis", "const", "sum", "load"))


def main_store(kernel: Kernel) -> Store:
    """The first of the stores with the most axes: beside a picture there may be its total, which has none."""
    return max(kernel.stores, key=lambda s: len(s.axes))


def _lane(axes: Sequence[Node], kernel: Kernel) -> Node:
    """The axis that is consecutive where the outputs are stored; of a value, its last."""
    s = main_store(kernel)
    if tuple(axes) == s.axes:
        strides = strides_of(s.buffer, s.indices)
        return next((a for a in axes if strides.get(a) == 1), axes[-1])
    return axes[-1]


def _nests(kernel: Kernel, tile: tuple[int, int], kept: Sequence[str] = (), copies: int = 0) -> list[Opt]:
    """A register tile for the stores, for kept values (of `copies` rows, if not as many) and for reductions, whose short windows are
    unrolled."""
    out: list[Opt] = []
    for v in (i for i in kernel.body if isinstance(i, Value) and (i.name in kept or not isinstance(i.expr, Node))):
        out += _tile(v.axes, _lane(v.axes, kernel), (tile[0], copies or tile[1])) if v.axes else []
        out += [opt("UNROLL", a.arg.name, extent(a)) for a in v.reduce_axes if 1 < extent(a) <= UNROLLED]
    for s in kernel.stores:
        out += _tile(s.axes, _lane(s.axes, kernel), tile) if s.axes else []
    return out


def _tile(axes: Sequence[Node], lane: Node, tile: tuple[int, int]) -> list[Opt]:
    width = fit(extent(lane), tile[0])
    out = [opt("UPCAST", lane.arg.name, width)] if width > 1 else []
    beside = [a for a in axes if a is not lane and extent(a) >= 2]
    copies = tile[1]
    while beside and copies > 1 and extent(beside[-1]) % copies and -(-extent(beside[-1]) // copies) * copies > 1.1 * extent(beside[-1]):
        copies //= 2
    return out + ([opt("UPCAST", beside[-1].arg.name, copies)] if beside and copies > 1 and extent(beside[-1]) >= copies else [])


def _parallel(kernel: Kernel, axes: Sequence[Node]) -> list[Opt]:
    return [opt("PARALLEL", a.arg.name) for a in (*shared_axes(kernel), *axes)[:1]]


def _overlapped(kernel: Kernel, chain: Sequence[str], target: Target, threads: int, tile: tuple[int, int]) -> Iterator[list[Opt]]:
    """Blocks that fit the second cache with all that they keep, in parallel: everything kept that may be, or every second value."""
    store = main_store(kernel)
    outer = [a for a in store.axes if a is not _lane(store.axes, kernel) and isinstance(a.arg.extent, int) and a.arg.extent > 1]
    pointwise = [v for v in chain if isinstance(kernel.values[v].expr, Node)]
    for kept in dict.fromkeys((tuple(pointwise), tuple(reversed(pointwise[::-1][::2])))):
        for cuts in _cuts(kernel, outer, target, threads, kept):
            try:
                inner = kernel
                for o in cuts:
                    inner = tiled(inner, o)
            except OptError:
                continue
            if not _overlap(kernel, inner, chain):
                continue
            at = f"{cuts[-1].on}.h"
            nests = _by_family(inner, _nests(inner, tile, kept))
            yield [*cuts, *(opt("STAGE", v, at=at) for v in kept), *nests, *(opt("PARALLEL", f"{o.on}.h") for o in cuts)]


def _overlap(kernel: Kernel, inner: Kernel, chain: Sequence[str]) -> bool:
    """Whether blocks share something: else the shifts are along the lanes, and a row would be read where it was just written."""
    return any(prod(map(extent, inner.values[v].axes)) > prod(map(extent, kernel.values[v].axes)) for v in chain)


def _rolling(kernel: Kernel, chain: Sequence[str], target: Target, threads: int, tile: tuple[int, int]) -> Iterator[list[Opt]]:
    """A strip of the first axis for each work item, gone through in blocks of as many rows as the register tile has, which keep what
    they share."""
    store = main_store(kernel)
    outer = [a for a in store.axes if a is not _lane(store.axes, kernel) and isinstance(a.arg.extent, int) and a.arg.extent > 1]
    strip = min(STRIP, extent(outer[0]) // (2 * threads)) if outer else 0
    if strip < 4 * tile[1] or target.groups:
        return
    name = outer[0].arg.name
    rows_ = 1 if len(outer) > 1 else tile[1]
    cuts = (opt("HALO", name, strip // rows_ * rows_), opt("HALO", name, n=rows_, roll=1))
    kept = [v for v in chain if isinstance(kernel.values[v].expr, Node)]
    try:
        inner = tiled(tiled(kernel, cuts[0]), cuts[1])
    except OptError:
        return
    blocks = f"{name}.h2"
    stages = [opt("STAGE", v, at=blocks) for v in kept]
    kept_bytes = sum(prod(extent(a) for a in v.axes[2:]) * v.dtype.size for v in inner.values.values() if v.name in chain)
    if kept_bytes > target.l2 // 2 or not _overlap(kernel, inner, chain):
        return
    try:  # (blocks of clamped values do not: each is kept by itself, in `_overlapped`)
        apply(kernel, (*cuts, *stages), target)
    except OptError:
        return
    # a kept value's rows are computed from where the last block ended
    tall = [x for v in chain for x in (_rows(inner, v, rows_, tile),)]
    nests = _by_family(inner, [*(o for x in tall for o in x), *_nests(inner, tile, kept)])
    yield [*cuts, *stages, *nests, opt("PARALLEL", f"{name}.h")]


def _rows(kernel: Kernel, name: str, step: int, tile: tuple[int, int]) -> list[Opt]:
    """A kept value's register tile, of rows that divide both what is new in a block and what is kept."""
    v = kernel.values[name]
    lane = _lane(v.axes, kernel)
    beside = [a for a in v.axes if a is not lane and extent(a) >= 2]
    copies = gcd(extent(beside[-1]), step, tile[1]) if beside else 1
    width = fit(extent(lane), tile[0])
    out = [opt("UPCAST", lane.arg.name, width)] if width > 1 else []
    return out + ([opt("UPCAST", beside[-1].arg.name, copies)] if copies > 1 else [])


def _cuts(kernel: Kernel, outer: Sequence[Node], target: Target, threads: int, kept: Sequence[str]) -> list[tuple[Opt, ...]]:
    """Two sizes of blocks: the largest whose kept values fit half of the second cache, with work for all threads, and half of it.
    Of three dimensions two are cut."""
    fitting: list[tuple[Opt, ...]] = []
    for n in BLOCKS:
        for cuts in [outer[:1]] if len(outer) < 2 else [outer[-1:], outer[-2:]]:
            named = tuple(opt("HALO", a.arg.name, n) for a in cuts)
            blocks = prod(extent(a) // n for a in cuts)
            if all(n < extent(a) for a in cuts) and blocks >= 2 * threads and _bytes(kernel, named, kept) <= target.l2 // 2:
                fitting.append(named)
    return fitting[-2:]


def _bytes(kernel: Kernel, cuts: Sequence[Opt], kept: Sequence[str]) -> int:
    """Bytes that a block keeps of pointwise values and of reductions."""
    try:
        for o in cuts:
            kernel = tiled(kernel, o)
    except OptError:
        return 1 << 62
    blocks = {f"{o.on}.h" for o in cuts}
    return sum(
        prod(extent(a) for a in v.axes if a.arg.name not in blocks) * v.dtype.size
        for v in kernel.values.values()
        if v.name in kept or not isinstance(v.expr, Node)
    )


def _phases(kernel: Kernel, chain: Sequence[str], tile: tuple[int, int]) -> list[Opt]:
    """Every value of the chain in a phase of its own."""
    out: list[Opt] = []
    for k in phased(kernel, tuple(chain)):
        out += [*_nests(k, tile), *(opt("PARALLEL", a.arg.name) for a in main_store(k).axes[:1])]
    return [*(opt("PHASE", v) for v in chain), *_by_family(kernel, out)]

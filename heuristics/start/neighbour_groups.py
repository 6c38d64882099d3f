"""Start rules for groups of two to four neighbours: pairs of a rotation, complex numbers, pixels, points in space. Lanes go over the groups,
and the neighbours are register copies, so that they are taken from whole vectors and interleaved into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

from ...ir.kernel import Kernel
from ...ir.node import Node
from ...opts.access import accesses, deinterleavable
from ...opts.analysis.dot_instructions import factors
from ...opts.analysis.structure import extent, nests, shared_axes
from ...opts.defaults import family_name, fit, rows, site_name
from ...opts.memory_limits import buffer_bytes
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.cache import STREAM
from ...targets import Target
from .additions import far_bytes
from .start_rule import Numbers, StartFacts, StartRule, Template

SHORT = 16
"""Steps of the longest reduction that is unrolled."""
ROWS = 16
"""Rows of long sums that are a work item."""
STEPS = 4
"""Vectors of a sum from which on lanes along it pay, where neighbours are joined: adding them up in the end costs as much as a few steps."""
UNROLLED = 32
"""Steps of a sum that are unrolled where few results lie side by side."""
ITEM = 512
"""Places that are a work item then."""
ITEMS = 64
"""Work items that are enough for any number of threads."""


@dataclass(frozen=True, slots=True)
class NeighbourGroup:
    """The axis `over` groups of neighbours, and that of the neighbours, where they have one."""

    over: Node
    near: Node | None


def grouped(kernel: Kernel) -> NeighbourGroup | None:
    """The groups that the first stores are made of, or else those that a store's loads pick from; None where there are none,
    and where reductions are what counts."""
    if any(n.kind == "reduce" and prod(map(extent, n.reduce_axes)) > SHORT for n in nests(kernel)):
        return None
    found = [g for n in nests(kernel) if n.kind == "store" for g in (_of(kernel, n),) if g is not None]
    return next((g for g in found if g.near is not None), found[0] if found else None)


def _of(kernel: Kernel, nest: Nest) -> NeighbourGroup | None:
    for x in sorted(accesses(kernel, nest), key=lambda x: not x.store):
        near = next((a for a, step in x.strides.items() if step == 1 and deinterleavable(extent(a)) and a in nest.axes), None)
        over = next((a for a, step in x.strides.items() if near is not None and step == extent(near) and a in nest.axes), None)
        if over is not None:
            return NeighbourGroup(over, near)
    store = next(x for x in accesses(kernel, nest) if x.store)
    over = next((a for a, step in store.strides.items() if step == 1 and a in nest.axes), None)
    steps = [x.stride(over) for x in accesses(kernel, nest)] if over is not None else []
    if (
        over is None
        or any(step is None or not (step in (0, 1) or deinterleavable(step)) for step in steps)
        or not any(map(deinterleavable, filter(None, steps)))
    ):
        return None
    return NeighbourGroup(over, None)


def group_schedule(kernel: Kernel, found: NeighbourGroup, width: int) -> Opts:
    """The schedule with so many groups in registers, all neighbours of each; reductions are unrolled."""
    out = [] if found.near is None else [opt("UPCAST", site_name(found.near), extent(found.near))]
    if (amount := fit(extent(found.over), width)) > 1:
        out.append(opt("UPCAST", site_name(found.over), amount))
    steps = [a for n in nests(kernel) if n.kind == "reduce" for a in n.reduce_axes if extent(a) > 1]
    out += [opt("UNROLL", site_name(a), extent(a)) for a in dict.fromkeys(steps)]
    shared = [a for a in shared_axes(kernel) if a is not found.near]
    return (*out, *(opt("PARALLEL", site_name(a)) for a in shared[:1]))


class NeighbourGroups(StartRule):
    """Lanes over groups. Two vectors of each neighbour: with one, what is computed once for a step (addresses, the loop, a long formula's chain)
    weighs as much as what is computed for its elements."""

    name = "groups"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        """Legal ones, whose lanes are over groups indeed."""
        found = grouped(f.kernel)
        if found is None:
            return
        past = _past_caches(f.kernel, f.target)
        for vectors in (2, 4, 1):
            opts = f.trials.legal((*group_schedule(f.kernel, found, vectors * f.lanes), *past))
            if opts is None:
                return
            s = f.trials.apply(opts)
            if any(lane is not None and lane.axis is found.over for n in s.nests for lane in (s.lanes(n).lane,)):
                yield opts

    def templates(self, f: StartFacts) -> Iterator[Template]:
        found = grouped(f.kernel)
        if found is not None:
            yield Template(self.name, {"vectors": (1, 2, 4, 8), "nt": (0, 1)}, partial(_past_or_not, f, found))


def _past_caches(kernel: Kernel, target: Target) -> Opts:
    """Stores past the caches, where all outputs together will not stay there: a line that is written whole need not be read first."""
    total = sum(buffer_bytes(b.shape, b.dtype.size) for b in kernel.outputs)
    return tuple(opt("CACHE", b.name, policy=STREAM) for b in kernel.outputs) if total >= far_bytes(kernel, target) else ()


def _past_or_not(f: StartFacts, found: NeighbourGroup, p: Numbers) -> Opts:
    past = tuple(opt("CACHE", b.name, policy=STREAM) for b in f.kernel.outputs) if p["nt"] else ()
    return (*group_schedule(f.kernel, found, p["vectors"] * f.result_lanes), *past)


class SumsOfGroups(StartRule):
    """Long sums over groups (of products of complex numbers, of distances of points): lanes over the groups, whose components are taken from
    whole vectors, and what `rows` takes along."""

    name = "sums of groups"

    def applies(self, f: StartFacts) -> Iterable[list[Node]]:
        found = (a for n in f.reductions for a in n.reduce_axes if extent(a) > SHORT and _pairs(f.kernel, n, a))
        along = list(dict.fromkeys(found))
        return (along,) if along else ()

    def parameters(self, f: StartFacts, where: list[Node]) -> Mapping[str, tuple[int, ...]]:
        return {"vectors": (1, 2, 4), "fuse": (1, 0)}

    def schedule(self, f: StartFacts, where: list[Node], p: Numbers) -> Opts:
        names = dict.fromkeys(family_name(f.kernel, a) for a in where)
        rest = _of_rows(f)
        fused = tuple(opt("FUSE", name) for name in names if p["fuse"] and not any(o.op == "FUSE" for o in rest))
        outer = next((a for a in f.shared if extent(a) >= ITEMS * ROWS), None)
        block = (opt("TILE", site_name(outer), ROWS),) if outer is not None else ()  # short rows are no work items of their own
        width = fit(min(extent(a) for a in where), p["vectors"] * f.lanes)
        return (*(opt("UPCAST", name, width) for name in names), *block, *rest, *fused)


def _of_rows(f: StartFacts) -> Opts:
    """The grid and the joined loops that rows have."""
    return tuple(o for o in rows(f.kernel, f.target, f.threads, 1, False) if o.op in ("PARALLEL", "FUSE"))


def _long(f: StartFacts) -> list[Nest]:
    """The reductions of many steps."""
    return [n for n in f.reductions if prod(map(extent, n.reduce_axes)) > SHORT]


class InterleavedSums(StartRule):
    """Long sums of which a few lie side by side for every place (the phases of a filter that resamples): lanes over the places, the few in
    registers, so that what is read along the places is read once for all of them. Not of whole numbers whose neighbours one instruction
    multiplies and adds, in sums of some steps (`dot_products.NarrowIntegers`)."""

    name = "interleaved sums"

    def applies(self, f: StartFacts) -> Iterable[tuple[NeighbourGroup, list[Nest]]]:
        long = _long(f)
        groups = [g for n in f.nests if n.kind == "store" for g in (_of(f.kernel, n),) if g is not None and g.near is not None]
        if not long or not groups or any(g != groups[0] for g in groups):
            return
        over, near = groups[0].over, groups[0].near
        assert near is not None
        reads = [x for n in long for x in accesses(f.kernel, n) if not x.store]
        side_by_side = all(x.stride(over) in (0, 1) for x in reads) and any(x.stride(over) == 1 and not x.stride(near) for x in reads)
        joined = all(factors(n, f.target) is not None and extent(n.reduce_axes[-1]) >= STEPS * f.lanes for n in long)
        if side_by_side and not joined and extent(over) >= f.lanes and all(near in n.axes for n in long):
            yield groups[0], long

    def parameters(self, f: StartFacts, where: tuple[NeighbourGroup, list[Nest]]) -> Mapping[str, tuple[int, ...]]:
        unrolled = any(extent(a) <= UNROLLED for n in where[1] for a in n.reduce_axes[-1:])
        return {"vectors": (2, 4, 1), "unroll": (1, 0) if unrolled else (0,)}

    def schedule(self, f: StartFacts, where: tuple[NeighbourGroup, list[Nest]], p: Numbers) -> Opts:
        (over, near), long = (where[0].over, where[0].near), where[1]
        assert near is not None
        steps = (opt("UNROLL", site_name(a), extent(a)) for n in long for a in n.reduce_axes[-1:] if p["unroll"] and extent(a) <= UNROLLED)
        block = (opt("TILE", site_name(over), ITEM),) if extent(over) >= ITEMS * ITEM else ()
        cut = (opt("UPCAST", site_name(over), fit(extent(over), p["vectors"] * f.lanes)), opt("UPCAST", site_name(near), extent(near)))
        return (*cut, *steps, *block, *f.parallel())


def _pairs(kernel: Kernel, nest: Nest, axis: Node) -> bool:
    """Whether a nest reads components of groups along an axis, and nothing further apart."""
    steps = [x.stride(axis) for x in accesses(kernel, nest) if not x.store]
    return all(s is not None and (s in (0, 1) or deinterleavable(s)) for s in steps) and any(
        s is not None and deinterleavable(s) for s in steps
    )

"""Start rules for groups of threads where data is used once or a few times: rows shared by threads, columns, tiles that are transposed, and a
thread for a few elements. Threads load 16 bytes at a time, and enough of them at once to keep memory busy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from ....ir.kernel import Kernel
from ....ir.node import Node
from ....opts.access import accesses
from ....opts.analysis.structure import contiguous, extent, nests, shared_axes, stageable_values
from ....opts.defaults import family_name
from ....opts.defaults import points as thread_points
from ....opts.nests import Nest
from ....opts.opt import Opt, Opts, opt
from ....targets import Target
from ..scatters import thread_copies
from ..start_rule import Numbers, StartFacts, StartRule, Template
from .thread_folds import folds

LANES = 4
"""Elements of float32 in one load of a thread."""
STEPS = 4
"""Loads of a thread that a chunk of a long reduction is at least made of."""
HELD = 128
"""Elements of a row that a thread keeps in registers at most: half of the 255 that it may have, for with more it spills."""


SPACE: dict[str, tuple[int, ...]] = {"threads": (16, 32, 64, 128, 256, 512, 1024), "vector": (1, 2, 4, 8, 16)}
"""The open numbers of rows and of points."""
FEW = 64
"""Groups below which a launch leaves most of a machine idle whatever its tile."""


class ThreadRows(StartRule):
    """Threads share the reductions along rows."""

    name = "rows"

    def applies(self, f: StartFacts) -> Iterable[Kernel]:
        return (f.kernel,)

    def parameters(self, f: StartFacts, where: Kernel) -> Mapping[str, tuple[int, ...]]:
        # a fold's rows have values enough to keep
        return {"threads": (32, 64, 128, 256, 512, 1024), "vector": (1,) if folds(f.kernel) else (1, 2, 4, 8, 16), "stage": (0, 1)}

    def schedule(self, f: StartFacts, where: Kernel, p: Numbers) -> Opts:
        return shared_rows(f.kernel, f.target, p["threads"], p["vector"], bool(p["stage"]))

    def quick(self, f: StartFacts) -> list[Opts]:
        few = prod(extent(a) for a in f.shared) <= FEW
        found = ((1024, 256, 64, 32) if few else (64, 32, 256)) if f.reductions else ()
        return [shared_rows(f.kernel, f.target, threads, 8 if threads == 1024 else LANES, True) for threads in found]

    def templates(self, f: StartFacts) -> Iterator[Template]:
        if shared_rows(f.kernel, f.target, 32, 1, False):
            yield Template(self.name, {**SPACE, "stage": (0, 1)}, lambda p: self.schedule(f, f.kernel, p))


class ThreadColumns(StartRule):
    """Neighbouring threads take columns, and a few share each."""

    name = "columns"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return iter(_columns(f.kernel))

    def quick(self, f: StartFacts) -> list[Opts]:
        found = _columns(f.kernel)
        return [found[i] for i in (12, 3, 6, 2) if i < len(found)]


class ThreadTransposed(StartRule):
    """Square tiles through shared memory."""

    name = "transposed"

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return iter(_transposed(f.kernel))

    def quick(self, f: StartFacts) -> list[Opts]:
        found = _transposed(f.kernel)
        return [found[i] for i in (3, 0) if i < len(found)]


class ThreadPoints(StartRule):
    """A thread makes a few elements. The empty list is one of them, as what has an order has no better."""

    name = "points"

    def applies(self, f: StartFacts) -> Iterable[Kernel]:
        return (f.kernel,)

    def parameters(self, f: StartFacts, where: Kernel) -> Mapping[str, tuple[int, ...]]:
        return {"threads": (64, 128, 256), "vector": (1, 2, 4, 8)}

    def schedule(self, f: StartFacts, where: Kernel, p: Numbers) -> Opts:
        return thread_points(f.kernel, p["threads"], p["vector"])

    def quick(self, f: StartFacts) -> list[Opts]:
        return [thread_points(f.kernel, 64, 2 * LANES), thread_points(f.kernel, 64, LANES), (), thread_points(f.kernel, 64, 1)]

    def templates(self, f: StartFacts) -> Iterator[Template]:
        yield Template(self.name, SPACE, lambda p: self.schedule(f, f.kernel, p))


class ThreadCopies(StartRule):
    """A chunk of a scatter's points and a copy of its output for each thread."""

    name = "copies for threads"
    quick_places = (0,)

    def guesses(self, f: StartFacts) -> Iterator[Opts]:
        return thread_copies(f.kernel, f.target)


def shared_rows(kernel: Kernel, target: Target, threads: int, vector: int, stage: bool) -> Opts:
    """Groups share reductions along axes that are consecutive in memory; several rows a group where a row is short."""
    out: list[Opt] = []
    cut: dict[str, int] = {}
    used = 1
    for n in nests(kernel):
        for a in contiguous(kernel, n)[:1]:
            if a not in n.reduce_axes or a.arg.family in cut or extent(a) < 8:
                continue
            count = threads
            while count > 1 and count * min(vector, LANES) > 1.5 * extent(a):
                count //= 2
            if count < 2:
                continue
            cut[a.arg.family] = extent(a) // count
            used *= count
            name = family_name(kernel, a)
            out += [opt("UPCAST", name, vector)] * (vector > 1) + [opt("GROUP", name, count)]
            if extent(a) > 64 * count * vector and not shared_axes(kernel):
                # nothing else to spread over the machine
                out = [opt("SPLIT", str(a.arg.name), _chunks(extent(a), STEPS * count * vector, 8 * target.cores)), *out]
    if not cut:
        return ()
    shared = [a for a in shared_axes(kernel) if a.arg.family not in cut and extent(a) >= 8]
    if shared and used < 128:
        out.append(opt("LOCAL", family_name(kernel, shared[-1]), min(8, 128 // used)))
    if stage and shared_axes(kernel):
        if max(cut.values()) > HELD:
            return ()
        out += [opt("STAGE", v, at=str(shared_axes(kernel)[-1].arg.name)) for v in stageable_values(kernel)]
    return tuple(out)


def _chunks(size: int, step: int, most: int) -> int:
    """Into how many chunks to cut `size` elements: about `most`, each a whole number of `step` where that is possible,
    so that no load is under a condition."""
    steps = max(2, size // step)
    whole = [n for n in range(max(2, most // 2), min(most, steps) + 1) if size % (n * step) == 0]
    return whole[-1] if whole else max(2, min(most, steps))


def _columns(kernel: Kernel) -> list[Opts]:
    """Reductions along another axis than the consecutive one: neighbours take columns, 16 bytes each or one, a few
    threads share them."""
    out: list[Opts] = []
    for n in nests(kernel):
        along = contiguous(kernel, n)[:1]
        if n.kind != "reduce" or not along or along[0] in n.reduce_axes or not n.reduce_axes:
            continue
        k = max(n.reduce_axes, key=extent)
        for vector in (1, LANES):
            for threads in (8, 32, 64) if vector > 1 else (32, 64):
                for share in (1, 4, 8, 16, 32):
                    if threads * share > 1024 or (share == 32 and vector == 1):
                        continue
                    wide = (opt("UPCAST", family_name(kernel, along[0]), vector),) if vector > 1 else ()
                    group = (opt("GROUP", family_name(kernel, k), share),) if share > 1 and extent(k) >= 4 * share else ()
                    local = opt("LOCAL", family_name(kernel, along[0]), threads)
                    out.append((*wide, local, *group, opt("UNROLL", str(k.arg.name), 4)))
    return out


def _transposed(kernel: Kernel) -> list[Opts]:
    """A store consecutive along one axis, its load along another: square tiles through shared memory, padded or with
    chunks that change places, so that neither side meets the same banks."""
    out: list[Opts] = []
    for n in nests(kernel):
        found = _along_two_axes(kernel, n) if n.store is not None and n.kind == "store" and len(nests(kernel)) == 1 else None
        if found is None:
            continue
        into, along, name = found
        last = max((into, along), key=lambda a: kernel.axes.index(a))
        size = next(b.dtype.size for b in kernel.buffers if b.name == name)
        for lanes, down, across in ((1, 32, 8), (LANES, 8, 8), (LANES, 16, 8), (LANES, 8, 16), (LANES, 16, 16)):
            cuts = (
                opt("LOCAL", family_name(kernel, into), down),
                opt("LOCAL", family_name(kernel, along), across),
                opt("UPCAST", family_name(kernel, along), 4),
            )
            more = (opt("UPCAST", family_name(kernel, into), lanes),) if lanes > 1 else ()
            layouts = [{"pad": 1}, *({"swizzle": w} for w in (4, 8) if lanes > 1 and across * 4 * size >= w * 16)]
            out += [(*cuts, *more, opt("STAGE", name, at=str(last.arg.name), order="row", **fields)) for fields in layouts]
    return out


def _along_two_axes(kernel: Kernel, n: Nest) -> tuple[Node, Node, str] | None:
    """(the axis along which a nest stores, that along which it loads, what it loads) where they differ."""
    found = accesses(kernel, n)
    into = next((a for x in found if x.store for a, st in x.strides.items() if st == 1), None)
    source = next((x for x in found if not x.store and any(st == 1 for st in x.strides.values())), None)
    along = next((a for a, st in source.strides.items() if st == 1), None) if source is not None else None
    if source is None or into is None or along is None or into is along:
        return None
    return into, along, source.buffer.name

"""Schedules that follow from a kernel's structure alone: rows, and points of groups of threads. The second kernel of
a SPLIT runs with one of them, and start schedules begin with them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..ir.buffer import loads
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.node import Node
from ..targets import Target
from .access import AccessPattern, accesses, deinterleavable
from .analysis.structure import contiguous, extent, joins, lane_axis, nests, shared_axes, stageable_values
from .analysis.write_order import scatter_ordered, scatters
from .apply_options import apply
from .memory_limits import buffer_bytes
from .nests import Nest
from .opt import Opt, Opts, opt
from .registry import OPTIONS


def rows(kernel: Kernel, target: Target, threads: int, width: int, stage: bool, copies: int = 1) -> Opts:
    """Lanes along consecutive axes (spatial, or as independent partials of a reduction), outer axes in parallel, `copies` of
    the innermost shared one at once."""
    out: list[Opt] = []
    cut: set[str] = set()
    for n in nests(kernel):
        if n.kind == "scan":
            continue
        lane = lane_axis(kernel, n) if n.kind == "reduce" else None
        choices = contiguous(kernel, n)
        if n.kind == "reduce":
            choices = [a for a in choices if _lies_along(kernel, n, a)] or choices
        if lane is not None and (lane in choices or (choices and extent(choices[0]) <= NEAR and _in_groups(kernel, n, lane))):
            choices = [lane]
        if not choices:
            continue
        a = choices[0]
        family = a.arg.family
        if (
            family in cut
            or a.arg.name in cut
            or _widens_reduction(kernel, a, cut)
            or _crosses_rows(kernel, n, a)
            or _shares_points(kernel, n, a)
        ):
            continue
        amount = fit(extent(a), width)
        if amount > 1:
            out.append(opt("UPCAST", family_name(kernel, a), amount))
            cut |= {family, a.arg.name}
    out += _row_copies(kernel, target, threads, cut)
    shared = shared_axes(kernel)
    whole = [a for n in nests(kernel) for a in n.reduce_axes if n.kind == "reduce" and extent(a) >= 1 << 15]
    if threads > 1 and whole and not any(extent(a) >= threads for a in shared):
        # nothing to spread but the reduction itself: chunks of it, several streams for each thread
        name, chunks = site_name(whole[0]), _chunks(extent(whole[0]), threads, width)
        out += [opt("SPLIT", name, chunks), opt("UPCAST", f"{name}.s", 4)]
    if shared:
        best = [a for a in shared if extent(a) >= threads] or shared
        whole = [a for a in best if a.arg.family not in cut and a.arg.name not in cut]
        alone = bool(whole) and any(one_by_one(kernel, target, n, whole[-1]) for n in nests(kernel))
        if copies > 1 and whole and extent(whole[-1]) >= 4 * copies and not joins(kernel, whole[-1]) and not alone:
            out.append(opt("UPCAST", site_name(whole[-1]), copies))
        out += [opt("PARALLEL", site_name(a)) for a in best[: 1 if extent(best[0]) >= 8 * threads else 2]]
        if stage:
            at = site_name(best[0])
            out += [opt("STAGE", v, at=at) for v in stageable_values(kernel)]
    return (*out, *(o for option in OPTIONS.values() if option.with_rows is not None for o in option.with_rows(kernel, target)))


def _lies_along(kernel: Kernel, n: Nest, lane: Node) -> bool:
    """Whether the largest of what a nest reads is consecutive along an axis: a row of means beside images is not what decides."""
    found = [(prod(map(extent, acc.strides)), acc.strides.get(lane)) for acc in accesses(kernel, n) if not acc.store]
    most = max((size for size, _ in found), default=0)
    return any(step == 1 for size, step in found if size == most)


def _shares_points(kernel: Kernel, n: Nest, a: Node) -> bool:
    """Whether points along an axis add to an output one by one, and so do other stores to it: what they share is at hand for a point at
    a time, and would wait for all copies of one store."""
    s = n.store
    return (
        n.kind == "store"
        and s is not None
        and s.combine is not None
        and a in scatter_ordered(s)
        and len(scatters(kernel, s.buffer.name)) > 1
    )


NEAR = 4
"""Steps of a reduction over neighbours that whole vectors of results pick from whole vectors."""


def _in_groups(kernel: Kernel, n: Nest, lane: Node) -> bool:
    """Whether all that a nest reads along an axis lies in groups of neighbours, one for each step, such as the windows of a pooling."""
    steps = [x.stride(lane) for x in accesses(kernel, n) if not x.store]
    bounded = any(mask is not None for _, _, mask in loads(*n.roots))  # (what may be outside is not loaded in whole vectors)
    return bool(steps) and not bounded and all(s is not None and (s == 0 or deinterleavable(s)) for s in steps)


def plain_threads(kernel: Kernel, target: Target) -> Opts:
    """Groups of threads over the last axes that are stored along, an element a thread; nothing is staged, cut or reordered."""
    axes = [a.arg.name for a in kernel.stores[0].axes if isinstance(a.arg.extent, int) and a.arg.extent > 1]
    for sizes in ((8, 32), (32,), (8, 16), (16,), (8,), (4,)):
        opts = tuple(opt("LOCAL", axis, size) for axis, size in zip(axes[-len(sizes) :], sizes[-len(axes) :], strict=False))
        try:
            apply(kernel, opts, target)
        except OptError:
            continue
        return opts
    return ()


def numbered(name: str, n: int) -> Opt:
    """An option that only stands for the number `n` of `name`: in schedules that are another tuner's configurations."""
    return opt("UPCAST", name, n)


def points(kernel: Kernel, threads: int, vector: int) -> Opts:
    """A thread for `vector` neighbouring elements, along the axis most nests are consecutive in; short axes are joined by the next."""
    found = [a for n in nests(kernel) for a in contiguous(kernel, n)[:1] if a in n.axes]
    if not found:
        found = list(shared_axes(kernel)[-1:])
    if not found:
        return ()
    a = max(found, key=lambda a: found.count(a))
    while vector > 1 and extent(a) % vector:
        vector //= 2
    count = threads
    while count > 1 and count * vector > 1.5 * extent(a):
        count //= 2
    out = [opt("UPCAST", family_name(kernel, a), vector)] * (vector > 1) + [opt("LOCAL", family_name(kernel, a), count)] * (count > 1)
    others = [b for b in shared_axes(kernel) if b.arg.family != a.arg.family and extent(b) >= 2]
    if others and count < threads:
        b = max(others, key=extent)
        more = threads // max(1, count)
        while more > 1 and more > 1.5 * extent(b):
            more //= 2
        out += [opt("LOCAL", family_name(kernel, b), more)] * (more > 1)
    return tuple(out)


def _chunks(size: int, threads: int, width: int) -> int:
    """How many chunks to split a long reduction into: a few for each thread, without a ragged end where possible."""
    for n in (64, 48, 80, 96, 32, 128, 16):
        if n % (4 * threads) == 0 and size % (n * width) == 0:
            return n
    return 16 * threads


def _widens_reduction(kernel: Kernel, a: Node, cut: set[str]) -> bool:
    """Whether copies along `a` would multiply a reduction that has its lanes along its own axis already."""
    return any(n.kind == "reduce" and a in n.axes and any(r.arg.family in cut for r in n.reduce_axes) for n in nests(kernel))


def _crosses_rows(kernel: Kernel, n: Nest, a: Node) -> bool:
    """Whether a reduction would have its lanes along its rows for the sake of a small array (a label for each), while some
    other nest reads a larger one across them."""
    if n.kind != "reduce" or a in n.reduce_axes:
        return False
    along = max((_elements(x) for x in accesses(kernel, n) if x.strides.get(a) == 1), default=None)
    if along is None:  # neighbours are picked from whole vectors
        return False
    others = [x for m in nests(kernel) for x in accesses(kernel, m) if x.strides.get(a, 0) not in (0, 1)]
    return any(_elements(x) > along for x in others)


def _elements(x: AccessPattern) -> int:
    """How many elements of an array are accessed."""
    return prod(extent(a) for a in x.strides)


FAR = 4
"""A second cache over the bytes of narrow rows from which on they are taken to come from memory: between two calls others use it, and where
they do not, several rows at once save 0 to a third of the time."""
LONG_ROW = 512
"""Bytes of a row from which on it is a stream of its own."""


def one_by_one(kernel: Kernel, target: Target, n: Nest, a: Node) -> bool:
    """Whether rows along `a` that a sum reads come from memory best one after the other: those of 16 bits an element or less, which took 1/1.3
    to 1/2.7 of the time of two, four or eight rows at once on a Zen 4 and a Zen 5; and wider ones where prefetchers begin anew with each of
    several rows, as long as what they share stays in the first cache (elsewhere float32 rows do not mind)."""
    if n.kind != "reduce":
        return False
    read = [x for x in accesses(kernel, n) if not x.store and _reads_along(x, n)]
    long = prod(extent(r) for r in n.reduce_axes)
    rows = [x.buffer for x in read if x.strides.get(a) and long * x.buffer.dtype.size >= LONG_ROW]
    sizes = {b: buffer_bytes(b.shape, b.dtype.size) for b in rows}
    if any(b.dtype.size < 4 and FAR * size > target.l2 for b, size in sizes.items()):
        return True
    if not target.reads_rows_alone or sum(m.kind == "reduce" for m in nests(kernel)) > 1:  # (several sums of a row share what is read)
        return False
    shared = sum(buffer_bytes(x.buffer.shape, x.buffer.dtype.size) for x in read if not x.strides.get(a))
    return 2 * shared < target.l1 and any(size > target.l2 for size in sizes.values())


def _reads_along(x: AccessPattern, n: Nest) -> bool:
    """Whether a sum goes along what an access reads, or through blocks of it."""
    return any(x.stride(r) in (1, None) for r in n.reduce_axes)


def _row_copies(kernel: Kernel, target: Target, threads: int, cut: set[str]) -> list[Opt]:
    """Several rows at once where they share what is read (matvec): fewer loads, and more chains to hide latency."""
    out: list[Opt] = []
    for n in nests(kernel):
        along = contiguous(kernel, n)[:1]
        if n.kind != "reduce" or not along or along[0] not in n.reduce_axes or len(nests(kernel)) > 2:
            continue
        loaded = [a for a in accesses(kernel, n) if not a.store and a.strides]
        for a in n.axes:
            shares = any(x.stride(a) == 0 for x in loaded) and not one_by_one(kernel, target, n, a)
            if a.arg.family not in cut and extent(a) >= 4 * max(1, threads) and shares:
                out.append(opt("UPCAST", site_name(a), 4))
                cut.add(a.arg.family)
    return out


def family_name(kernel: Kernel, a: Node) -> str:
    """How an option names all sites of an axis."""
    family = kernel.families.get(a.arg.family, (a,))
    return str(a.arg.family) if len(family) > 1 else str(a.arg.name)


def fit(size: int, width: int) -> int:
    """The widest power of two up to `width` that wastes at most a quarter of `size`."""
    while width > 1 and waste(size, width) > 0.25:
        width //= 2
    return width


def waste(size: int, n: int) -> float:
    """The extra work, as a share, of rounding `size` up to a multiple of n."""
    return -(-size // n) * n / max(1, size) - 1


def legal_prefix(opts: Opts, apply: Callable[[Opts], object]) -> Opts | None:
    """`opts`, or the longest list left after dropping what `apply` refuses (such a schedule is a wish, not a demand);
    None where nothing is left."""
    kept: Opts = opts
    for _ in range(len(opts) + 1):
        try:
            apply(kept)
            return kept
        except OptError:
            pass
        # drop the first option whose prefix fails
        for i in range(len(kept)):
            try:
                apply(kept[: i + 1])
            except OptError:
                kept = kept[:i] + kept[i + 1 :]
                break
        else:
            return None
    return None


def site_name(a: Node) -> str:
    """How an option names one site of an axis."""
    return str(a.arg.name)


def added_phase(kernel: Kernel, target: Target, apply: Callable[[Kernel, Opts, Target], object]) -> Opts:
    """The fixed schedule of a phase that combines partial results: lanes along what is consecutive, rows in parallel."""

    def legal(o: Opts) -> object:
        return apply(kernel, o, target)

    if target.kind == "gpu":
        return legal_prefix(points(kernel, 128, 1), legal) or ()
    width = 2 * max(1, target.lanes(kernel.outputs[0].dtype.compute))
    return legal_prefix(rows(kernel, target, 2, width, False), legal) or ()

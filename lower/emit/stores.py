"""Stores: plain, past the caches, and combining (scatter)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import groupby
from math import prod

from ...ir import index as ix
from ...ir.body import identity
from ...ir.buffer import load_parts
from ...ir.dtypes import DType, bool_, index
from ...ir.node import FUNCTIONS, PAIRED, Node, axes_of, const, walk
from ...ir.skipped_tiles import conjuncts
from ...opts.access import stride
from ...opts.analysis.interior import interior
from ...opts.analysis.ragged import keeps_old
from ...opts.analysis.write_order import in_vectors, scatter_ordered
from ...opts.axis_plan import Part
from ...opts.lanes import Vectors
from ...opts.nests import Nest
from ...program.ops import PAGE
from ...program.program import Mem, Val
from ..access.memory_access import write_all
from ..expr import NestEval
from ..lowering import Lowering
from ..part_index import as_node, over_parts
from ..storage import Assignment, Registers
from .fast_path import with_fast_path
from .nest_loops import through
from .output_storage import prepare_fills

# aliasing -------------------------------------------------------------------------------------------------------------
# Stores past the caches wait in few buffers for the rest of their lines. A processor first compares a load with them
# by the place in a page. Where a load comes to a place at which a line of another array waits, the line is written as
# it is, and again for each piece that follows. On a Zen 3 two outputs that begin 64 bytes after their input in a page
# take twelve times as long as others, one output half as long again (decision 91).


SEVERAL, ALONE = 1024, 128
"""Bytes after a load in which no output may lie: of several rows that are stored at once, and of one."""
LINE = 64
"""Bytes from which on two copies of a store are in different lines."""
MOST = PAGE // 2
"""Bytes of a page which loads may forbid; beyond, such stores are not worth asking."""


def unaliased(low: Lowering, nests: Sequence[Nest]) -> Val | None:
    """Whether no load of some nests comes to where stores of theirs wait, which is known once the parameters are; None where none can, or
    the processor does not mind.
    Loads that move otherwise than the stores meet them seldom."""
    if low.sched.target.streams_anywhere:
        return None
    b, out = low.b, None
    size = SEVERAL if sum(_rows(low, n) for n in nests) > 1 else ALONE
    for (param, other), places in _distances(low, nests).items():
        windows = _windows(sorted(places), size)
        if sum(n for _, n in windows) > MOST:
            return b.const(False, bool_)
        for first, length in windows:
            found = b.apart(param, other, first % PAGE, length)
            out = b.both(out, found)
    return out


def _distances(low: Lowering, nests: Sequence[Nest]) -> dict[tuple[int, int], set[int]]:
    """By (parameter stored to, parameter loaded from): how many bytes loads are ahead of the stores."""
    found: dict[tuple[int, int], set[int]] = {}
    loads = dict.fromkeys(n for nest in nests for n in nest.loads)
    for nest in nests:
        assert nest.store is not None
        buffer = nest.store.buffer
        at = low.ctx.address(buffer.name, nest.indices)
        for source, indices, _ in map(load_parts, loads):
            if source.name not in low.ctx.params or source.name in low.sched.stages or source.dtype.size != buffer.dtype.size:
                continue
            # (what is read at a border is read elsewhere in nearly all steps)
            ahead = ix.add(low.ctx.address(source.name, tuple(map(interior, indices))), at, -1)
            if ahead.op == "const":
                pair = (low.ctx.params[buffer.name], low.ctx.params[source.name])
                found.setdefault(pair, set()).add(ahead.arg * source.dtype.size % PAGE)
    return found


def _rows(low: Lowering, n: Nest) -> int:
    """The rows of an output that a nest stores to at once."""
    assert n.store is not None
    s, out = low.sched, 1
    for p in s.registers(n):
        step = abs(stride(s, n, "", n.indices, n.store.buffer.shape, p) or 0) * n.store.buffer.dtype.size
        if p is not s.lanes(n).lane and step >= LINE:
            out *= p.trips
    return out


def _windows(places: Sequence[int], size: int) -> list[tuple[int, int]]:
    """(first byte, bytes) where an output may not begin after an array: in the `size` bytes after each place, joined where they meet."""
    out: list[tuple[int, int]] = []
    for p in places:
        first, end = p + 1, p + size
        if out and first <= out[-1][0] + out[-1][1]:
            out[-1] = (out[-1][0], end - out[-1][0])
        else:
            out.append((first, end - first))
    return out


# vectors of a scatter -------------------------------------------------------------------------------------------------
# Lanes of a scatter that lie side by side never write to one element, so a vector is read, combined and written at
# once. Without registers for masks, a masked store is as slow as one element after the other (AMD's processors), or
# is taken apart (bytes). There, a vector inside one row of the output is read and written whole, and lanes that the
# mask leaves out keep what was there. Nobody else writes to that row meanwhile.


Holding = tuple[Val | None, Val | None]
"""What must hold for all lanes, and a mask of lanes; None where nothing is asked."""


def scatter_vector(
    low: Lowering, n: Nest, ev: NestEval, place: tuple[Mem, Node], asg: Assignment, there: Holding,
    combined: Callable[[Val], Val], one_by_one: Callable[[], None],
) -> None:  # fmt: skip
    """Combine one vector of points into the elements at a `place`, (memory, index of an element), where `there` holds. `combined`: what
    becomes of elements; `one_by_one`: does the same one lane after the other."""
    b, (scalar, mask), (mem, at) = low.b, there, place

    def whole() -> None:
        old = ev.read(mem, at, asg, None)
        new = combined(old)
        ev.write(mem, at, asg, new if mask is None else b.op("select", mask, new, old, dtype=new.dtype))

    vec = ev.split(at, asg)[3]  # (what is computed inside a branch is not there after it)
    if vec is not None and vec.lanes > 1:  # copies past an extent, whose places are kept inside lane by lane
        one_by_one()
        return
    inside = None if mask is None else _inside(low, n, ev, asg)
    with b.when(scalar) if scalar is not None else nullcontext():
        if inside is None:
            whole()
            return
        with b.when(inside):
            whole()
        with b.when(b.op("not", inside)):
            one_by_one()


def _inside(low: Lowering, n: Nest, ev: NestEval, asg: Assignment) -> Val | None:
    """Whether all lanes, those under a mask as well, lie in one row of the output; None where they always do."""
    assert n.store is not None
    b, out = low.b, None
    *others, last = zip(n.indices, n.store.buffer.shape, strict=True)
    for (i, extent), beyond in [*((x, 1) for x in others), (last, ev.width)]:
        lo, hi = ix.bounds(i)
        size = extent if isinstance(extent, int) else None
        if lo >= 0 and size is not None and hi <= size - beyond:
            continue
        base, c, _, vec = ev.split(over_parts(i, low.ctx.axis_index), asg)
        first = ev.join(low.scalar(base, c), 0, vec)
        end = ix.add(as_node(extent), const(-beyond))
        held = b.op("and", b.op("le", b.const(0), first), b.op("le", first, low.scalar(end)))
        out = b.both(out, held)
    return out


def stores(low: Lowering, nests: Sequence[Nest]) -> None:
    """Stores one after the other, but for what was computed in its output already, and the identity in every element that a scatter may
    add to. Those that go past the caches ask together whether they may, so what they have in common is computed once for each answer."""
    for past, group in groupby(nests, lambda n: _past_caches(low, n)):
        if past:
            _together_past(low, tuple(group))
            continue
        for n in group:
            with low.within(nests=(n,)):
                prepare_fills(low, n)
                _unless_there(low, n)


def _together_past(low: Lowering, nests: Sequence[Nest]) -> None:
    for n in nests:
        with low.within(nests=(n,)):
            prepare_fills(low, n)

    def each() -> None:
        for n in nests:
            with low.within(nests=(n,)):
                _unless_there(low, n)

    streaming(low, [n.store.buffer.name for n in nests if n.store is not None], each)


def _unless_there(low: Lowering, n: Nest) -> None:
    if n.kind == "init" or n.name not in low.storage.aliased:
        _loops(low, n)


def _past_caches(low: Lowering, n: Nest) -> bool:
    """Whether a store goes past the caches. (What a scatter adds to should be in a cache.)"""
    assert n.store is not None
    return n.store.buffer.name in low.sched.nt and (n.store.combine is None or n.kind != "store")


def streaming(low: Lowering, names: Sequence[str], body: Callable[[], object]) -> None:
    """Run `body`; twice where it stores past the caches to outputs `names`, which depends on how these are aligned at run time, and where
    they lie beside what is loaded."""
    names = [name for name in names if name in low.ctx.params]  # (what phases hand on stays in the caches)
    if not names:
        body()
        return
    b, places = low.b, dict.fromkeys(low.ctx.params[name] for name in names)
    found = [b.aligned(place, low.sched.target.vector_bytes) for place in places]
    aligned = found[0]
    apart = unaliased(low, [n for n in low.sched.nests if n.kind == "store" and n.store is not None and n.store.buffer.name in names])
    for more in (*found[1:], *(() if apart is None else (apart,))):
        aligned = b.op("and", aligned, more)
    if b.truth(aligned) is False:
        body()
        return
    for streams, cond in low.storage.versions(((True, aligned), (False, b.op("not", aligned)))):
        with b.when(cond), low.within(streaming=frozenset(names) if streams else frozenset()):
            body()


def _loops(low: Lowering, n: Nest) -> None:
    """The loops of a store. Where work items own rows, most points of a scatter are someone else's, and the last item
    has fewer rows to clear: a row's mask is a branch around its loops."""
    assert n.store is not None
    loops = low.remaining(n)
    copies = _rolled(low, n)
    if copies:
        with _kept_in_memory(low, n, copies):
            through(low, [*loops, *copies], lambda: store_point(low, n))
        return
    if n.mask is None or (n.store.own is None and n.kind != "init"):
        through(low, loops, lambda: store_point(low, n))
        return
    mask, axes = n.mask, axes_of(n.mask)
    outer = max((i + 1 for i, p in enumerate(loops) if p.axis in axes), default=0)

    def point() -> None:
        with low.b.when(NestEval(low, n).value(mask, {})):
            through(low, loops[outer:], lambda: store_point(low, n, mine=True))

    if any(p.axis in axes for p in low.sched.registers(n)):  # not the same in all copies
        through(low, loops, lambda: store_point(low, n))
    else:
        through(low, loops[:outer], point)


# copies in a loop -----------------------------------------------------------------------------------------------------
# An elementary function is tens of instructions. Written out for each of the 24 vectors of a register tile, the functions
# of an epilogue are most of a kernel's code: it is compiled for longer, and does not stay in the processor's cache of
# decoded instructions. The tile goes to scratch then, and a loop over its rows has the code of one.


VECTORS = 8
"""Vectors that functions are computed of in one step of such a loop, where there are more than twice as many."""


def _rolled(low: Lowering, n: Nest) -> list[Part]:
    """The register copies of a store that become loops, outer to inner."""
    assert n.store is not None
    if low.sched.target.kind != "cpu" or n.kind != "store" or n.store.combine or n.mask is not None or n.fills:
        return []
    vectors, shape = low.sched.lanes(n), n.store.buffer.shape
    costly = sum(e.op in FUNCTIONS | PAIRED for e in walk(n.expr)) * prod(p.trips for p in vectors.regs) // vectors.width
    # (blocks that are turned in registers need all of their rows)
    if costly <= 2 * VECTORS or vectors.lane is None or stride(low.sched, n, "", n.indices, shape, vectors.lane) != 1:
        return []
    if not all(_storable(r, v, vectors) for r, v in _in_registers(low, n)):
        return []
    found: list[Part] = []
    for p in vectors.regs:
        if p is not vectors.lane and costly > VECTORS:
            found.append(p)
            costly //= p.trips
    return found


def _in_registers(low: Lowering, n: Nest) -> list[tuple[Node, Registers]]:
    return [(r, v) for r in dict.fromkeys(n.refs) if isinstance(v := low.storage.values.get(r.arg), Registers)]


def _storable(r: Node, v: Registers, vectors: Vectors) -> bool:
    """Whether a value in registers can go to memory as it is, in the vectors in which it is read."""
    along = v.lane is vectors.lane and v.width == vectors.width
    return along and v.again is None and not v.supposed and all(x.dtype is r.dtype for x in v.vals.values())


@contextmanager
def _kept_in_memory(low: Lowering, n: Nest, copies: Sequence[Part]) -> Iterator[None]:
    """Inside, the values in registers that a store reads along some copies are in arrays."""
    before = dict(low.storage.values)
    for r, v in _in_registers(low, n):
        if any(p in v.regs for p in copies):
            value = low.ctx.kernel.values[r.arg]
            array = low.array(value, r.src)
            ev = NestEval(low, n)
            for key, x in v.vals.items():
                ev.write(array.mem, array.address(low.point(array)), dict(key), x)
            low.storage.values[r.arg] = array
    yield
    low.storage.values = before


def store_point(low: Lowering, n: Nest, mine: bool = False, in_step: bool = False) -> None:
    """A point's stores. `mine`: where the mask is known to hold; `in_step`: as part of a step that sees to what is not ordinary."""
    assert n.store is not None
    ev = NestEval(low, n)
    conds = ev.conditions() + ([] if mine else _unknown_mask(n, ev))
    at = low.ctx.address(n.store.buffer.name, n.indices)
    mem = low.param(n.store.buffer.name)
    there = [a for a in ev.assignments(ev.regs) if not ev.nowhere(conds, a)]
    if n.kind != "store" or not n.store.combine:

        def write(ev: NestEval) -> None:
            write_all(ev, mem, at, [(a, ev.value(n.expr, a)) for a in there], conds)

        if in_step:
            write(ev)
        else:
            with_fast_path(low, n, ev, write, not conds)
        return
    for asg in there:
        lane = None if ev.lane is None else ev.lane.axis
        if lane is not None and lane in scatter_ordered(n.store):
            _in_lanes(low, n, ev, mem, at, asg, conds)
            continue
        # scatter: read, combine, write, in order (what was there comes second: where a NaN is chosen by a comparison, it is
        # then not the old value that is, and LLVM makes no store under a mask of the choice)
        guard = _guard(ev, conds, asg)
        always = guard is not None and ev.lane is None and keeps_old(low.sched, n, ev.undecided(conds, asg))
        old = ev.read(mem, at, asg, None if always else guard)
        old = _as(ev, old, n.expr.dtype.compute)
        if always and guard is not None:
            new = low.b.op(n.store.combine, _or_nothing(n, ev, guard, _as(ev, ev.value(n.expr, asg), old.dtype)), old)
            ev.write(mem, at, asg, _as(ev, new, mem.dtype))
        else:
            ev.write(mem, at, asg, _as(ev, _combined(n, ev, old, asg), mem.dtype), conds)


def _unknown_mask(n: Nest, ev: NestEval) -> list[Node]:
    """The mask of a store, as far as it is not known to hold."""
    each = [] if n.mask is None else list(conjuncts(n.mask))
    left = [c for c in each if not ev.holds(c)]
    return left if n.mask is None or len(left) < len(each) else [n.mask]


def _as(ev: NestEval, v: Val, dtype: DType) -> Val:
    """A value in a type: floats of 16 and 8 bits are combined as float32."""
    return v if v.dtype is dtype else ev.b.op("cast", v, dtype=dtype)


def _or_nothing(n: Nest, ev: NestEval, guard: Val, value: Val) -> Val:
    """What a point adds where a condition holds, and what changes nothing elsewhere (of a sum of floats -0, which keeps -0 as well)."""
    assert n.store is not None and n.store.combine is not None
    dtype = value.dtype
    nothing = -0.0 if dtype.is_float else identity(n.store.combine, dtype).arg
    return ev.b.op("select", guard, value, ev.b.const(nothing, dtype), dtype=dtype)


def _combined(n: Nest, ev: NestEval, old: Val, asg: Assignment) -> Val:
    """An element of a scatter after one more point: a product is added in one operation."""
    assert n.store is not None and n.store.combine is not None
    written = n.store.expr if ev.b.fixed else n.expr  # (what is kept is rounded: a product of fixed numerics is joined where it is written)
    if n.store.combine == "add" and n.expr.op == "mul" and written.op == "mul" and n.expr.dtype.is_float:
        return ev.b.op("fma", *(ev.value(x, asg) for x in n.expr.src), old)
    return ev.b.op(n.store.combine, _as(ev, ev.value(n.expr, asg), old.dtype), old)


def _in_lanes(low: Lowering, n: Nest, ev: NestEval, mem: Mem, at: Node, asg: Assignment, conds: Sequence[Node]) -> None:
    """A vector of a scatter's points, whose writes can meet those of other vectors, and of each other where they do not lie side by side."""
    assert n.store is not None and ev.lane is not None
    one_by_one = partial(_one_by_one, low, n, ev, mem, at, asg, conds)
    if not in_vectors(low.sched.target, n.store, ev.lane.axis):
        one_by_one()
        return

    def combined(old: Val) -> Val:
        return _as(ev, _combined(n, ev, _as(ev, old, n.expr.dtype.compute), asg), mem.dtype)

    if "avx512" in low.sched.target.features:
        ev.write(mem, at, asg, combined(ev.read(mem, at, asg, _guard(ev, conds, asg))), conds)
    elif (there := ev.holding(conds, asg)) is not None:
        for x in (*n.expr.src, n.expr):  # (what is computed inside a branch is not there after it)
            ev.value(x, asg)
        scatter_vector(low, n, ev, (mem, at), asg, there, combined, one_by_one)


def _one_by_one(low: Lowering, n: Nest, ev: NestEval, mem: Mem, at: Node, asg: Assignment, conds: Sequence[Node]) -> None:
    """The lanes' points of a scatter, whose writes can meet: what is combined, and where, is computed in all lanes at once; then each
    is read, combined and written in turn."""
    assert n.store is not None
    b, value, guard = low.b, _as(ev, ev.value(n.expr, asg), n.expr.dtype.compute), _guard(ev, conds, asg)
    if guard is not None and b.truth(guard) is not None:
        if not b.truth(guard):
            return
        guard = None
    left = ev.undecided(conds, asg)
    guard = guard if left else None
    always = guard is not None and keeps_old(low.sched, n, left)
    if guard is not None and always:
        value = _or_nothing(n, ev, guard, value)
    missing = ev.missing(conds, asg)
    for i, place in _lane_addresses(low, n, ev, at, asg, missing):
        with nullcontext() if guard is None or always else b.when(b.extract(guard, i)):
            old = _as(ev, b.load(mem, place), value.dtype)
            new = b.op(n.store.combine or "add", b.extract(value, i), old)
            b.store(mem, place, _as(ev, new, mem.dtype))


def _lane_addresses(low: Lowering, n: Nest, ev: NestEval, at: Node, asg: Assignment, missing: set[int]) -> Iterator[tuple[int, Val]]:
    """Each lane that is not `missing`, and where its point is written. What is only read lies in memory as scalars do: none is taken
    out of a vector then."""
    b, lane = low.b, ev.lane
    assert lane is not None
    data = [x for i in n.indices for x in walk(i) if x.dtype is not index or x.op in ("load", "cast")]
    if data and all(x.op in ("load", "cast") for x in data) and not low.masked(lane.axis):
        apart = NestEval(low, n, vectors=Vectors(ev.regs))
        for i in range(ev.width):
            yield i, apart.index(at, {**asg, lane.name: asg[lane.name] * ev.width + i})
        return
    base, c, step, vec = ev.split(at, asg)
    for i in (i for i in range(ev.width) if i not in missing):
        place = low.scalar(base, c + step * i)
        yield i, place if vec is None else b.op("add", place, b.extract(vec, i))


def _guard(ev: NestEval, conds: Sequence[Node], asg: Assignment) -> Val | None:
    out: Val | None = None
    for c in conds:
        v = ev.value(c, asg)
        out = ev.b.both(out, v)
    return out

"""Goes through the loop tree of a schedule: opens the loops that nests share, and calls the emitter of each nest. Values with a nest
of their own and folds are emitted here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import groupby

from ...ir import index as ix
from ...ir.body import Fold, Value
from ...ir.dtypes import index
from ...ir.errors import OptError
from ...ir.node import Node, axes_of, const, placeholder, reachable, ref, walk
from ...ir.operators import substitute
from ...opts.axis_plan import Part
from ...opts.loop_tree import LEAST, Chain, Folded, Range, Shared, Single, Together, Tree, loaded_limits, ranges
from ...opts.nests import FoldItem, Nest
from ...program.program import Val
from .. import pieces
from ..arithmetic.elementary import EXPENSIVE
from ..expr import NestEval
from ..lowering import Emitters, Lowering
from ..part_index import as_node
from ..pieces import Piece
from ..staged.tiles import Ring, fill_tiles
from ..storage import Array, Assignment, Registers
from .nest_loops import pieces_of_any, through, wide
from .output_storage import in_output, prepare_fills
from .reduce import reduce, together
from .scan import chain, scan
from .stores import stores, streaming


def emit_tree(low: Lowering, items: Sequence[Tree]) -> None:
    """Emit items in order at the builder's position. Where stores in the loop of a reduction may go past the caches, they are asked
    before all items, so that these find the results in registers."""
    joined = [n.store.buffer.name for item in items if isinstance(item, Together) for n in item.nests if n.store is not None]
    low.emitters.streaming(low, [name for name in joined if name in low.sched.nt], lambda: _emit_all(low, items))


def _emit_all(low: Lowering, items: Sequence[Tree]) -> None:
    for stored, group in groupby(items, lambda item: isinstance(item, Single) and item.nest.kind in ("store", "init")):
        if stored:
            low.emitters.stores(low, [item.nest for item in group if isinstance(item, Single)])
        else:
            _emit_each(low, group)


def _emit_each(low: Lowering, items: Iterable[Tree]) -> None:
    for item in items:
        if isinstance(item, Shared):
            _reserve(low, item)
            with low.within(nests=item.nests):
                for piece in low.versions(pieces_of_any(low, item.part)):
                    with low.open(item.part, piece=piece):
                        emit_tree(low, item.body)
        elif isinstance(item, Folded):
            with low.within(nests=item.item.nests):
                low.emitters.fold(low, item)
        elif isinstance(item, Together):
            with low.within(nests=item.nests):
                low.emitters.together(low, item.nests)
        elif isinstance(item, Chain):
            with low.within(nests=item.nests):
                low.emitters.chain(low, item.nests)
        else:
            with low.within(nests=(item.nest,)):
                low.emitters.nests[item.nest.kind](low, item.nest)


def _reserve(low: Lowering, loop: Shared) -> None:
    """Give every value that is read outside a loop an array out here, before it opens."""
    made = {n.name: n.value for n in loop.nests if n.value is not None}
    for name, axes in loop.reserved:
        if name not in low.storage.values:
            low.storage.reserved[name] = low.array(made.get(name) or low.ctx.kernel.values[name], axes)


def point(low: Lowering, n: Nest) -> None:
    """A staged value with a nest of its own."""
    evaluate(low, n, n.name in low.sched.tree.registers)


def evaluate(low: Lowering, n: Nest, in_registers: bool) -> None:
    """The value of a nest at every point, kept in registers or in an array."""
    prepare_fills(low, n)
    assert n.value is not None
    loops = low.remaining(n)
    if in_registers:
        ev = NestEval(low, n)
        store = Registers(list(ev.regs), ev.lane, ev.width)
        for asg in ev.assignments(ev.regs):
            store.vals[store.key(asg)] = wide(ev, ev.value(n.expr, asg))
        low.storage.values[n.name] = store
        return
    array = low.storage.reserved.get(n.name) or in_output(low, n.value, n.axes) or low.array(n.value, n.axes)
    through(low, loops, lambda: point_body(low, n, [(n.expr, array)]))
    low.storage.values[n.name] = array


def point_body(low: Lowering, n: Nest, writes: Sequence[tuple[Node, Array]]) -> None:
    """Evaluate every expression, then write every array (so that all read the old state)."""
    ev = NestEval(low, n, [e for e, _ in writes])
    done: list[tuple[Array, Assignment, Val]] = []
    for asg in ev.assignments(ev.regs):
        done += [(array, asg, ev.value(e, asg)) for e, array in writes]
    for array, asg, v in done:
        ev.write(array.mem, array.address(low.point(array)), asg, v, ev.guards(array, n.axes))


# folds ----------------------------------------------------------------------------------------------------------------
# A fold's block is emitted once, or for each tile of the folded axis, with the states merged. Tiles in which the
# block does nothing are left out. Tiles in which all of its conditions hold run a block without them.


Group = tuple[tuple[Node, ...], list[tuple[Node, Array]]]


def fold(low: Lowering, folded: Folded) -> None:
    """A fold: its block once, or for each tile with the states merged."""
    if folded.cut is None and folded.body:
        emit_tree(low, folded.body)
        return
    state, groups = _start(low, folded.item.fold)
    if folded.cut is not None:
        _tiles(low, folded, folded.cut, state, groups)
    # where there is no tile, nothing is folded: the state stays as it began
    low.storage.values |= state


def _start(low: Lowering, f: Fold) -> tuple[dict[str, Array], list[tuple[tuple[Node, ...], list[str]]]]:
    """The array of each component, set to the identity, and the components by their axes, those with most axes first."""
    parts = {c: f.component(c) for c in f.components if all(a.arg.extent != 0 for a in f.component(c).axes)}
    # what is read after the loops around the fold was given room outside them; a tile's own result needs none there
    state = {c: low.storage.reserved.pop(c) if c in low.storage.reserved else low.array(v, v.axes) for c, v in parts.items()}
    by_axes: dict[tuple[Node, ...], list[str]] = {}
    for c, v in parts.items():
        by_axes.setdefault(v.axes, []).append(c)
    groups = sorted(by_axes.items(), key=lambda g: -len(g[0]))
    with low.within(nests=()):  # the states' own loops read nothing that is staged
        for axes, names in groups:
            start = [(f.monoid.identity[f.components.index(c)], state[c]) for c in names]
            n = Nest(f"{f.name}.start", "point", axes, (), start[0][0])
            through(low, low.remaining(n), partial(point_body, low, n, start))
    return state, groups


def _tiles(low: Lowering, folded: Folded, cut: Part, state: dict[str, Array], groups: list[tuple[tuple[Node, ...], list[str]]]) -> None:
    """The block of each tile, merged into the state."""
    item, storage = folded.item, low.storage
    f = item.fold
    table: dict[Node, Node] = {}
    for c in state:
        v = f.component(c)
        storage.values[f"{f.name}.{c}"] = state[c]
        table[placeholder(f"a.{c}", v.dtype)] = ref(f"{f.name}.{c}", v.axes, v.dtype)
        table[placeholder(f"b.{c}", v.dtype)] = ref(c, v.axes, v.dtype)
    writes: list[Group] = [
        (axes, [(substitute(f.monoid.merge[f.components.index(c)], table), state[c]) for c in names]) for axes, names in groups
    ]
    found = ranges(low.sched, f, cut, {p.var for p in low.scope.opened.values()})
    parts = [(r, p) for r in found for p in _tile_ranges(low, item, cut, r)]
    before = dict(storage.values)
    with _limits(low, f, found):
        for (r, _), piece in zip(parts, low.versions(p for _, p in parts), strict=True):
            with _tile(low, f, cut, r, piece):
                merge = Merge(low, f, writes)
                last = item.nests[-1]
                closing = {last.name: merge} if merge.can_close(item.nests) else {}
                with low.within(closing={**low.scope.closing, **closing}):
                    emit_tree(low, folded.body)
                with low.within(nests=()):
                    merge.rest()
    storage.values = before


@contextmanager
def _limits(low: Lowering, f: Fold, found: Sequence[Range]) -> Iterator[None]:
    """Inside: the numbers from memory that limit the tiles are scalars."""
    with ExitStack() as bound:
        for limit in loaded_limits(found):
            with low.within(nests=()):
                read = _extreme(low, limit) if limit.op == "ref" else _number(low, limit)
            bound.enter_context(low.scalars.bind(limit, read))
        yield


def _number(low: Lowering, n: Node) -> Val:
    return NestEval(low, Nest("limit", "point", (), (), n)).value(n, {})


def _extreme(low: Lowering, picked: Node) -> Val:
    """The least or most, as an index, of a number from memory over the places of a tile: what no open loop fixes is gone through here. (Past an
    extent lies nothing: its last element counts.)"""
    (number,), b, plans = picked.src, low.b, low.sched.plans
    axes = axes_of(number)
    at = {a: ix.minmax("min", plans[a].index, ix.add(as_node(a.arg.extent), const(-1))) for a in axes}
    free = [p for a in axes for p in plans[a].parts if p.name not in low.scope.opened]
    lo, hi = ix.bounds(number)
    pick, start = ("min", hi) if picked.arg == LEAST else ("max", lo)

    def over(parts: Sequence[Part], found: Val) -> Val:
        if not parts:
            return b.op(pick, found, _number(low, substitute(number, at)))
        part = parts[0]
        with (
            b.loop(part.name, b.const(0), low.scalar(as_node(part.size)), 1, [found]) as loop,
            low.scalars.bind(part.var, loop.var),
        ):
            loop.yields = [over(parts[1:], loop.carried[0])]
        return loop.results[0]

    return over(free, b.const(start, index))


def _tile_ranges(low: Lowering, item: FoldItem, cut: Part, r: Range) -> list[Piece]:
    """A range of tiles, and apart from it a last tile that reaches past the extent."""
    sites = frozenset(a for n in item.nests for a in n.all_axes if low.sched.plans[a].fold is cut)
    if not isinstance(cut.size, int) or not any(pieces.splits(low.sched, low.scope, a) for a in sites):
        return [Piece((r.lo, r.hi))]
    return pieces.cut(r.lo, r.hi, item.fold.axis.arg.extent // cut.stride, sites)


@contextmanager
def _tile(low: Lowering, f: Fold, cut: Part, r: Range, piece: Piece) -> Iterator[None]:
    """Inside: the loop over a range of tiles."""
    assert piece.between is not None
    lo, hi = piece.between
    some = nullcontext() if ix.compare("lt", lo, hi).op == "const" else low.b.when(low.b.op("lt", low.scalar(lo), low.scalar(hi)))
    with some, low.within(holds=low.scope.holds | {(c, f.axis) for c in r.holds}), low.open(cut, piece=piece):
        yield


class Merge:
    """Merges a tile's state into the fold's: groups of components with the same axes, those with most axes first,
    since they read what others are about to replace. The first group, if it is one reduction that ends the block, is
    merged out of its accumulators (`close`); the rest follow the block (`rest`)."""

    def __init__(self, low: Lowering, f: Fold, groups: Sequence[Group]) -> None:
        self.low, self.f, self.groups = low, f, list(groups)
        self.opened = set(low.scope.opened)
        self.expensive: dict[Node, Node] = {}

    def can_close(self, nests: Sequence[Nest]) -> bool:
        """Whether the last nest of the block alone makes the first group, and no other reads it."""
        n, (axes, writes) = nests[-1], self.groups[0]
        if any(set(other) >= set(axes) for other, _ in self.groups[1:]):
            return False
        alone = len(self.groups) > 1 and len(writes) == 1 and n.kind == "reduce" and n.name in self.f.components and n.axes == axes
        return alone and self.low.sched.group == 1 and all(reader not in nests for reader, _ in self.low.ctx.reads.get(n.name, ()))

    def close(self, n: Nest) -> Callable[[], None] | None:
        """Called where the loops of `n` begin: prepares what the merge needs; what is returned merges the
        accumulators of one point, in storage by then. None where another loop was opened in the tile: what the merge
        needs may not be complete."""
        low = self.low
        if set(low.scope.opened) != self.opened:
            return None
        with low.within(nests=()):
            self._prepare()
        axes, writes = self.groups.pop(0)
        return partial(self._point, axes, writes)

    def rest(self) -> None:
        """Merge what has not been merged."""
        self._prepare()
        for axes, writes in self.groups:
            through(self.low, self.low.remaining(self._nest(axes, writes)), partial(self._point, axes, writes))

    def _prepare(self) -> None:
        """Compute expensive expressions of the components with fewest axes once, rather than for each element of the others."""
        low, common = self.low, self.groups[-1][0]
        if len(self.groups) == 1 or self.expensive:
            return
        for e in _outermost([e for _, writes in self.groups for e, _ in writes], set(common)):
            v = Value(f"{self.f.name}.part{len(self.expensive)}", common, e, e.dtype)
            nest = Nest(v.name, "point", common, (), e, value=v)
            evaluate(low, nest, in_registers=not low.remaining(nest))
            self.expensive[e] = ref(v.name, common, e.dtype)

    def _nest(self, axes: tuple[Node, ...], writes: Sequence[tuple[Node, Array]]) -> Nest:
        return Nest(f"{self.f.name}.merge", "point", axes, (), writes[0][0])

    def _point(self, axes: tuple[Node, ...], writes: Sequence[tuple[Node, Array]]) -> None:
        cheap = [(substitute(e, self.expensive), array) for e, array in writes]
        _check_ranks(self.f.name, axes, cheap)
        point_body(self.low, self._nest(axes, cheap), cheap)


def _outermost(exprs: Sequence[Node], axes: set[Node]) -> list[Node]:
    """The largest expensive expressions over no more than `axes`."""
    found = reachable(exprs, lambda e: () if axes_of(e) <= axes else e.src)
    return [e for e in found if axes_of(e) <= axes and any(n.op in EXPENSIVE for n in walk(e))]


def _check_ranks(name: str, axes: tuple[Node, ...], writes: Sequence[tuple[Node, Array]]) -> None:
    for e, _ in writes:
        if axes_of(*(s for w in walk(e) for s in w.src)) - set(axes):
            raise OptError(f"fold {name}: a merge uses a component with more axes than its own")


EMITTERS = Emitters(
    nests={"reduce": reduce, "scan": scan, "point": point},
    stores=stores,
    streaming=streaming,
    together=together,
    chain=chain,
    fold=fold,
    stage=fill_tiles,
    ring=Ring,
)

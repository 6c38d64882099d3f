"""The emission of one phase: a frozen context, the scope that code is emitted in, storage, and a builder.

Emitters (`lower.emit`) are functions of a Lowering and a nest, found by the nest's kind. They open loops with `open`, look at the
scope, and put what is made into storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..ir import index as ix
from ..ir.body import Value
from ..ir.dtypes import bool_, index
from ..ir.errors import OptError
from ..ir.node import COMPARE, Node, axes_of, const
from ..ir.operators import substitute
from ..opts.axis_plan import Part
from ..opts.loop_tree import Folded
from ..opts.nests import Nest
from ..opts.plans import StagePlan
from ..opts.schedule import Scheduled
from ..program.builder import Builder, Loop
from ..program.hopper import TensorMap
from ..program.program import Mem, Phase, Val
from . import pieces
from .context import Context
from .part_index import as_node
from .pieces import ALL, Piece, Scope
from .storage import Array, BoxRoom, Storage


class Scalars:
    """Emits each index once; terms of outer loops are summed first, so that those sums leave the inner loops."""

    def __init__(self, b: Builder, bound: dict[Node, Val]) -> None:
        self.b, self.bound = b, bound
        self._memo: dict[Node, Val] = {}

    @contextmanager
    def bind(self, var: Node, val: Val) -> Iterator[None]:
        """`var` stands for `val` inside; what is emitted there is forgotten after."""
        saved = self._memo
        # a name may be bound again to something else: keep only what cannot depend on it
        self._memo = dict(saved) if var not in saved else {}
        before = self.bound.get(var)
        self.bound[var] = val
        yield
        if before is None:
            del self.bound[var]
        else:
            self.bound[var] = before
        self._memo = saved

    def get(self, node: Node) -> Val:
        """The value of an index; OptError where one of its loops is not open."""
        found = self._memo.get(node)
        if found is None:
            found = self._memo[node] = self._emit(node)
        return found

    def _emit(self, node: Node) -> Val:
        b, op = self.b, node.op
        if node in self.bound:
            return self.bound[node]
        if op == "const":
            return b.const(node.arg)
        if op == "sum":
            coeffs, c = node.arg
            vals = sorted(((self.get(t), k) for t, k in zip(node.src, coeffs)), key=lambda vk: vk[0].depth)
            out = None
            for v, k in vals:
                term = v if k == 1 else b.op("mul", v, b.const(k))
                out = term if out is None else b.op("add", out, term)
            assert out is not None
            return b.op("add", out, b.const(c)) if c else out
        if op in ("div", "mod"):
            return b.op("idiv" if op == "div" else "imod", self.get(node.src[0]), attr=node.arg)
        if op == "prod":
            factors = sorted((self.get(s) for s in node.src), key=lambda v: v.depth)
            out = factors[0]
            for f in factors[1:]:
                out = b.op("mul", out, f)
            return out
        if op in ("min", "max"):
            return b.op(op, self.get(node.src[0]), self.get(node.src[1]))
        if (op in COMPARE and node.src[0].dtype is index) or (op in ("and", "or", "not") and node.dtype is bool_):
            return b.op(op, *(self.get(s) for s in node.src))
        if op == "cast" and node.src[0].dtype is bool_ and node.dtype.is_int:
            return b.op("select", self.get(node.src[0]), b.const(1), b.const(0), dtype=index)
        if op == "where":  # a place of another place: a chain of values whose borders are choices
            return b.op("select", *(self.get(s) for s in node.src), dtype=index)
        raise OptError(f"the index {node!r} is needed outside the loop that it counts: stage or move something else, or at another loop")


class SlotRing(Protocol):
    """Tiles in slots that are filled ahead of the loop in which they are used; its first slots are filled when it is made."""

    def iteration(self, var: Val) -> AbstractContextManager[None]:
        """Inside one iteration of the loop: waits for its tiles, and fills a slot ahead."""
        ...


@dataclass(frozen=True, slots=True)
class Emitters:
    """Who emits what: nests by their kind, stores one after the other, what stores past the caches, reductions in one loop, scans with their readers in one loop,
    folds, copies of the tiles that are staged at one place, and rings of slots."""

    nests: Mapping[str, Callable[[Lowering, Nest], None]]
    stores: Callable[[Lowering, Sequence[Nest]], None]
    streaming: Callable[[Lowering, Sequence[str], Callable[[], object]], None]
    together: Callable[[Lowering, Sequence[Nest]], None]
    chain: Callable[[Lowering, Sequence[Nest]], None]
    fold: Callable[[Lowering, Folded], None]
    stage: Callable[[Lowering, Sequence[StagePlan]], None]
    ring: Callable[[Lowering, Part, tuple[Node, Node], Sequence[StagePlan]], SlotRing]


class Lowering:
    """What the emitters of one phase share."""

    def __init__(self, ctx: Context, builder: Builder, emitters: Emitters) -> None:
        self.ctx, self.b, self.emitters = ctx, builder, emitters
        self.sched: Scheduled = ctx.sched
        self.storage = Storage(ctx)
        self.scope = Scope()
        self.scalars = Scalars(builder, {})
        self.symbols: dict[Node, Val] = {}
        self.thread: Val
        self.boxes: BoxRoom | None = None
        self.maps: list[TensorMap] = []

    def for_other_threads(self) -> Lowering:
        """A lowering of the same phase for other threads: with no index computed yet."""
        out = copy(self)
        out.scalars = Scalars(self.b, dict(self.symbols))
        return out

    def add_map(self, tensor: TensorMap) -> int:
        """The place of a map among the phase's."""
        self.maps.append(tensor)
        return len(self.maps) - 1

    @contextmanager
    def phase(self, items: Node, threads: int = 1, cluster: int = 1) -> Iterator[Phase]:
        """Open a phase of `items` groups of `threads` threads, of which `cluster` run at once."""
        with self.b.phase(items, self.ctx.symbols, threads, cluster) as phase:
            self.symbols = dict(zip(self.ctx.symbols, phase.vars, strict=True))
            self.scalars = Scalars(self.b, dict(self.symbols))
            yield phase

    # scope --------------------------------------------------------------------------------------------------------
    @contextmanager
    def within(self, scope: Scope | None = None, **changes: Any) -> Iterator[None]:
        """Enter a scope, or the present one with `changes` to its fields; leave it afterwards."""
        before = self.scope
        self.scope = replace(scope or before, **changes)
        yield
        self.scope = before

    @contextmanager
    def open(self, part: Part, init: Sequence[Val] = (), piece: Piece = ALL) -> Iterator[Loop]:
        """Open the loop over `part` (or over a piece of it), bind its variable, and fill what is staged inside it."""
        lo, hi = piece.between or (const(0), pieces.trips(self.sched, self.scope, part))
        staged = [s for s in self.sched.stages.values() if s.at.name == part.name and self._uses(s)]
        in_slots = [s for s in staged if s.depth > 1]
        ring = self.emitters.ring(self, part, (lo, hi), in_slots) if in_slots else None
        with self._iterations(part, (lo, hi), init, piece) as loop:
            inside = pieces.entered(self.sched, self.scope, part, piece)
            turn = nullcontext() if ring is None else ring.iteration(loop.var)
            with self.within(inside, opened={**inside.opened, part.name: part}), self.scalars.bind(part.var, loop.var), turn:
                self._fill(in_slots)
                self.stage([s for s in staged if s.depth == 1])
                yield loop

    @contextmanager
    def _iterations(self, part: Part, ends: tuple[Node, Node], init: Sequence[Val], piece: Piece) -> Iterator[Loop]:
        """The iterations [lo, hi) in the code; a single one whose number is known needs no loop."""
        if piece.at is None:
            lo, hi = map(self.scalar, ends)
            with self.b.loop(part.name, lo, hi, 1, init, piece.maybe, piece.maybe and piece.most == 1) as loop:
                yield loop
        else:
            loop = Loop(self.b.const(piece.at), list(init))
            yield loop
            loop.results = loop.yields

    def versions(self, found: Iterable[Piece]) -> Iterator[Piece]:
        """One piece of a loop after the other, each with storage of its own in the same memory."""
        return self.storage.versions(found)

    def remaining(self, nest: Nest) -> list[Part]:
        """Loops of `nest` that are not open yet."""
        return [p for p in self.sched.loops(nest) if p.name not in self.scope.opened]

    def masked(self, axis: Node) -> bool:
        """Whether register copies along an axis can reach past its extent here."""
        return pieces.masked(self.sched, self.scope, axis)

    def bound(self, axis: Node) -> Node:
        """`axis < extent` over parts, where register copies can reach past it."""
        plan = self.sched.plans[axis]
        return ix.compare("lt", plan.index, as_node(plan.extent))

    def pieces(self, part: Part) -> list[Piece]:
        """The pieces of a loop that is about to be opened, in order."""
        nests = self.sched.nests if part.kind == "grid" else self.scope.nests
        return pieces.pieces(self.sched, self.scope, nests, part)

    # staged tiles -------------------------------------------------------------------------------------------------
    def _uses(self, s: StagePlan) -> bool:
        return s.buffer.name not in self.scope.tiles and any(n is m for n in s.nests for m in self.scope.nests)

    def stage(self, plans: Sequence[StagePlan]) -> None:
        """Copy staged tiles into scratch or shared memory and redirect their readers, until the loop that is open is left."""
        if plans:
            with self.within(nests=()):
                self.emitters.stage(self, plans)
            self._fill(plans)

    def _fill(self, plans: Sequence[StagePlan]) -> None:
        filled = {s.buffer.name: (s, self.storage.panels[s.buffer.name]) for s in plans}
        self.scope = replace(self.scope, tiles={**self.scope.tiles, **filled})

    def staged(self, buffer: str, nest: Nest) -> tuple[StagePlan, Mem] | None:
        """The filled tile of a buffer for a nest."""
        found = self.scope.tiles.get(buffer)
        return found if found is not None and any(n is nest for n in found[0].nests) else None

    # indices and memory -------------------------------------------------------------------------------------------
    def known(self, node: Node) -> Node:
        """An index with the loop variables put in whose values are known here."""
        fixed = self.scope.fixed
        return substitute(node, dict(fixed)) if fixed and not axes_of(node).isdisjoint(fixed) else node

    def scalar(self, node: Node, plus: int = 0) -> Val:
        """An index over open loops and symbols, and a constant, as a scalar."""
        return self.scalars.get(self.known(ix.add(node, const(plus)) if plus else node))

    def load(self, mem: Mem, base: Node, offset: int, lanes: int, mask: Val | None = None, invariant: bool = False) -> Val:
        """The elements from the index `base` + `offset` on, with the alignment that the index proves; `invariant`: nobody writes them."""
        return self.b.load(self.at(mem, base, offset, lanes), self.scalar(base), lanes, mask, invariant)

    def store(self, mem: Mem, base: Node, offset: int, value: Val, mask: Val | None = None) -> None:
        """Write the lanes of a value from the index `base` + `offset` on."""
        self.b.store(self.at(mem, base, offset, value.lanes), self.scalar(base), value, mask)

    def param(self, name: str) -> Mem:
        """The memory of a buffer, in the way it is stored to here."""
        return self.ctx.param(name, nt=name in self.scope.streaming)

    def at(self, mem: Mem, base: Node, offset: int, lanes: int) -> Mem:
        """`mem` with a constant offset in elements, and the alignment its index proves."""
        return self.ctx.at(mem, base, offset, lanes)

    def array(self, value: Value, axes: tuple[Node, ...]) -> Array:
        """Room for the part of a value that the open loops do not fix."""
        return self.storage.array(self.scope, value, axes)

    def point(self, array: Array, nodes: tuple[Node, ...] | None = None) -> tuple[Node, ...]:
        """Indices into an array, over parts, of the axes `nodes` (its own axes if not given)."""
        return self.storage.point(array, nodes)

"""Which kernels compute a node, and where: every node is asked after all of its readers.

From each stored node its kernel's axes are followed back through the maps. What is known of a node then: the kernels
that want it, the indices at which each reads it, and how often each evaluates it. That decides whether it is computed
in them or stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from ...ir.dtypes import bool_
from ...ir.node import Node, axes_of, const, reachable
from ..graph import index_maps as maps
from ..graph.index_maps import IndexMap, Indices
from ..graph.nodes import TensorNode
from ..graph.symbolic_sizes import axis, symbolic
from . import store_rules as cost
from .dominators import Graph
from .heads import batches, is_contraction
from .loop_axes import ZERO, Splits, axes_in, gathered, loops_of, plain, split_axes, splits_of, spread, through, units, whole
from .store_rules import Rule

NEAR_BY = 16
"""Nodes that are looked through for an array that is read anyway."""
SMALL = 1 << 14
"""Elements up to which a kernel may reduce a whole array and then use the result: no other core would help."""


@dataclass
class KernelRegion:
    """A kernel in the making: its stored node `root`, the node `base` behind the root's bijective maps, with `axes`.
    `head`: the contraction, scan or scatter it is built around. `rows`: the axes at which its reductions are read."""

    root: TensorNode
    base: TensorNode
    axes: Indices
    head: TensorNode | None = None
    folded: tuple[TensorNode, ...] = ()
    rows: list[frozenset[Node]] = field(default_factory=list)


@dataclass
class FoldedEnds:
    """Folds by the ids of stored nodes: `absorbed` heads, the ids `inside` of them, `guests`, whose kernel is that of
    another stored node, and `loops`: (the absorbing contraction, its dimensions in the order in which loops run)."""

    absorbed: dict[int, tuple[TensorNode, ...]]
    inside: set[int]
    guests: dict[int, TensorNode]
    loops: dict[int, tuple[TensorNode, tuple[int, ...]]]


@dataclass
class KernelUse:
    """How one kernel uses a node: the indices (None: masked, computed or loaded places), and evaluations."""

    region: KernelRegion
    indices: set[Indices | None]
    iterations: int


class Regions:
    """Stored nodes and what each kernel computes. `stored` maps an id to (node, rule)."""

    def __init__(
        self,
        graph: Graph,
        stored: dict[int, tuple[TensorNode, Rule]],
        heads: dict[int, TensorNode],
        plan: FoldedEnds,
        likely: frozenset[int] = frozenset(),
    ) -> None:
        """`heads`: by the id of a stored node the head of its kernel; `plan`: what kernels absorb; `likely`: ids of what
        will be stored, for all that is known."""
        self.likely = likely
        self.graph, self.stored, self.heads, self.plan = graph, stored, heads, plan
        self.uses: dict[int, dict[int, KernelUse]] = {id(n): {} for n in graph.order}
        self.regions: dict[int, KernelRegion] = {}
        self.readers: dict[int, dict[int, KernelUse]] = {}
        self.extra: dict[int, list[KernelRegion]] = {}
        self.splits: dict[int, Splits] = {}
        self._inside = {id(h) for h in heads.values()} | plan.inside
        for n in reversed(graph.order):
            if not graph.leaf(n):
                self._visit(n)

    def is_stored(self, n: TensorNode) -> bool:
        """Whether the node has memory of its own when kernels that read it run."""
        return id(n) in self.stored or self.graph.leaf(n)

    # decisions ----------------------------------------------------------------------------------------------------
    def _visit(self, n: TensorNode) -> None:
        uses = self.uses[id(n)]
        if id(n) not in self.stored and uses:
            rule = self._rule(n, uses)
            if rule is not None:
                self.stored[id(n)] = (n, rule)
        if id(n) in self.stored:
            self.readers[id(n)] = uses
            host = self._row_host(n, uses)
            if host is not None:
                self.regions[id(n)] = host.region
                self._behind(n, host)
            elif id(n) not in self.regions:
                self._begin(n)
        else:
            for u in uses.values():
                self._behind(n, u)

    def _rule(self, n: TensorNode, uses: dict[int, KernelUse]) -> Rule | None:
        """Why an undecided node is to be stored; None: it is computed where it is wanted."""
        if id(n) in self._inside:
            return None
        if n.op == "reduce":
            return self._reduction(n, uses)
        if self._moved(n, uses):
            return Rule.moved
        if n.op in ("elementwise", "gather") or self._narrows(n) or _pads_bytes(n, uses):
            places = [len(u.indices) if cost.near(n) else 1 for u in uses.values()]  # (of a stencil, which computes it for each)
            iterations = [n.size if self._hoisted(u) else u.iterations * k for u, k in zip(uses.values(), places, strict=True)]
            again = (len(uses) > 1 or iterations[0] > n.size) and not cost.between_places(n, self._end) and not self._read_anyway(n)
            if again and cost.cheaper_to_store(n, iterations, self._end):
                return Rule.readers if len(uses) > 1 else Rule.operand
        return None

    def _read_anyway(self, n: TensorNode) -> bool:
        """Whether a condition is of one array that all who ask it read as well, as a map of places is: who has it compares for nothing."""
        arrays = cost.behind(n, self._end).arrays if n.dtype is bool_ else ()
        return len(arrays) == 1 and all(self._reaches(r, n, arrays[0]) for r in self.graph.readers[id(n)])

    def _reaches(self, reader: TensorNode, n: TensorNode, array: TensorNode) -> bool:
        waiting = [s for s in reader.src if s is not n]
        for _ in range(NEAR_BY):
            if not waiting:
                return False
            m = waiting.pop()
            if m is array:
                return True
            waiting += () if self._end(m) else m.src
        return False

    def _moved(self, n: TensorNode, uses: dict[int, KernelUse]) -> bool:
        """Whether contractions read a view, which holds each element of its source once, along a dimension in which these lie in short runs, as
        channels do behind a pixel shuffle. (A batch that is taken apart is looped over outside of everything.)"""
        if n.op != "view" or symbolic(n.shape) or any(m.op == "view" and m.arg.bijective for m in self.graph.readers[id(n)]):
            return False
        by = n.arg
        while by.mask is None and n.src[0].op == "view" and not self.is_stored(n.src[0]) and maps.composable(by, n.src[0].arg):
            n = n.src[0]
            by = maps.compose(by, n.arg)
        if by.mask is not None or by.lies or symbolic(by.source) or prod(by.source) != prod(by.shape):
            return False
        ends = {i: u for i, u in uses.items() if not u.region.folded and self._contracts(u.region)}
        short = [
            d for d, e in enumerate(by.shape) if cost.run_of(by, (_along(by, d, i) for i in range(min(e, cost.RUN)))) < min(e, cost.RUN)
        ]
        reads = sum(u.iterations for u in ends.values() if any(not self._of_batch(u, at, short) for at in u.indices))
        return cost.cheaper_in_order(n, reads)

    def _contracts(self, region: KernelRegion) -> bool:
        """Whether the contraction of a kernel may read what is visited now. (One that was not visited yet reads only what comes later: this is
        read beside its result, as a bias is.)"""
        head = region.head
        return head is not None and is_contraction(head) and (head is region.base or id(region.root) in self.uses[id(head)])

    def _of_batch(self, use: KernelUse, at: Indices | None, dimensions: list[int]) -> bool:
        """Whether a contraction loops over these dimensions of what it reads as over a batch."""
        head = use.region.head
        assert head is not None
        own = self.uses[id(head)].get(id(use.region.root))
        places = {use.region.axes} if own is None else own.indices
        loops = {a for to in places if to is not None for d in batches(head) for a in axes_of(to[d])}
        return at is not None and all(axes_of(at[d]) <= loops for d in dimensions)

    def _narrows(self, n: TensorNode) -> bool:
        """Whether a conversion of what is computed makes it smaller: memory had better hold its result."""
        if n.op != "cast" or n.dtype.size >= n.src[0].dtype.size:
            return False
        made = n.src[0]
        while made.op == "cast" and not self.is_stored(made):
            made = made.src[0]
        return made.op == "elementwise" and not self.is_stored(made)

    def _reduction(self, n: TensorNode, uses: dict[int, KernelUse]) -> Rule | None:
        if len(uses) > 1:
            self._merge_rows(n, uses)
        if len(uses) > 1:
            self.extra[id(n)] = [u.region for u in uses.values() if self._misfit(n, u) is None and self._whole(n, u)]
            return Rule.statistic
        (use,) = uses.values()
        misfit = self._misfit(n, use)
        if misfit is None:
            use.region.rows.append(axes_in(next(iter(use.indices))))
        return misfit

    def _merge_rows(self, n: TensorNode, uses: dict[int, KernelUse]) -> None:
        """A kernel that only computes a row's result from reductions (log-sum-exp) becomes part of the one that makes them."""
        hosts = [u.region for u in uses.values() if u.region.base.size != n.size and self._misfit(n, u) is None and self._whole(n, u)]
        for host in hosts[:1]:
            for u in list(uses.values()):
                r = u.region
                row = (
                    r is not host
                    and r.head is None
                    and {units(at) for at in u.indices} == {units(r.axes)}
                    and r.base.op in ("elementwise", "cast")
                )
                if row and not self._before(r, host) and not self._before(host, r):
                    self._become(r, host)

    def _become(self, guest: KernelRegion, host: KernelRegion) -> None:
        for i in [i for i, region in self.regions.items() if region is guest]:
            self.regions[i] = host
        for uses in self.uses.values():
            moved = uses.pop(id(guest.root), None)
            if moved is not None:
                found = uses.setdefault(id(host.root), KernelUse(host, set(), 0))
                found.indices |= moved.indices
                found.iterations = max(found.iterations, moved.iterations)
        host.rows += [r for r in guest.rows if r not in host.rows]

    def _misfit(self, n: TensorNode, use: KernelUse) -> Rule | None:
        """Why a kernel cannot compute this reduction in addition to its other work; None: it can."""
        region = use.region
        if region.head is not None and not (region.folded and id(n.src[0]) in self.plan.inside):
            return Rule.head_reader
        if None in use.indices:
            return Rule.computed
        if len(use.indices) > 1:
            return Rule.rows
        (at,) = use.indices
        if not plain(at):
            return Rule.computed
        row = axes_in(at)
        own = set(loops_of(region.axes))
        if not row <= own or len(row) < sum(i is not ZERO for i in at or ()) or not all(row <= r or r <= row for r in region.rows):
            return Rule.rows
        if not row and own and max(n.src[0].size, region.base.size) > SMALL:
            return Rule.rows
        return None

    def _whole(self, n: TensorNode, use: KernelUse) -> bool:
        """Whether a kernel that computes what it reads of a node computes all of it, so that it can store it as well."""
        return all(whole(at, n.shape) for at in use.indices)

    def _hoisted(self, use: KernelUse) -> bool:
        """Whether a kernel evaluates a node once for each row, outside of the loops over the rest."""
        region = use.region
        if (region.head is not None and not region.folded) or None in use.indices:
            return False
        loops = loops_of(region.axes)
        rows = [frozenset(loops[:d]) for d in range(len(loops) + 1)] + region.rows
        return all(plain(at) and axes_in(at) in rows for at in use.indices)

    def _row_host(self, n: TensorNode, uses: dict[int, KernelUse]) -> KernelUse | None:
        """Of the kernels that read a row's result (a layernorm's 1 / deviation), one that may compute and store it itself:
        all others can run after it."""
        if n.op != "elementwise" or self.stored[id(n)][1] is not Rule.readers:
            return None
        b = cost.behind(n, self._end)
        if not b.reduces:
            return None
        sums = [a for a in b.arrays if a.op == "reduce"]
        folded = all(id(a.src[0]) in self.plan.inside for a in sums) and not self._made_before(n, sums)
        regions = [u.region for u in uses.values()]
        for u in sorted(uses.values(), key=lambda u: self.graph.place[id(u.region.root)]):
            host = u.region
            fits = (
                (host.head is None or (folded and bool(host.folded)))
                and host.base.size > n.size
                and self._hoisted(u)
                and self._whole(n, u)
                and len(u.indices) == 1
            )
            if fits and not any(r is not host and self._before(r, host) for r in regions):
                return u
        return None

    def _before(self, first: KernelRegion, second: KernelRegion) -> bool:
        """Whether a kernel has to run before another one, which reads what it stores, or what kernels between them do."""
        made: dict[int, list[int]] = {}
        for i, region in self.regions.items():
            made.setdefault(id(region.root), []).append(i)

        def readers(root: int) -> set[int]:
            return {r for i in made.get(root, ()) for r in self.readers.get(i, ())} - {root}

        return id(second.root) in reachable(readers(id(first.root)), readers)

    def _made_before(self, n: TensorNode, sums: list[TensorNode]) -> bool:
        """Whether a fold that does not need `n` makes its reductions: `n` had better be stored there (`_merge_rows`)."""
        ends = [self.graph.node[i] for i in self.plan.absorbed]
        return any(self.graph.depends(e, r) and not self.graph.depends(e, n) for e in ends for r in sums)

    def _end(self, n: TensorNode) -> bool:
        return (id(n) in self.likely and n.op != "reduce") or self.is_stored(n) or id(n) in self._inside

    # following indices back -----------------------------------------------------------------------------------------
    def _begin(self, root: TensorNode) -> None:
        """The region of a stored node."""
        base = root
        while base.op == "view" and base.arg.bijective and not self.is_stored(base.src[0]):
            base = base.src[0]
        head, folded = self.heads.get(id(root)), self.plan.absorbed.get(id(root), ())
        splits = splits_of(base, self.is_stored, head) if base.op == "elementwise" and (head is None or folded) else ()
        if splits:
            self.splits[id(base)] = splits
        axes = split_axes("o", base.shape, splits)
        guest_of = self.plan.guests.get(id(root))
        region = KernelRegion(root, base, axes, head, folded) if guest_of is None else self._shared(guest_of)
        self.regions[id(root)] = region
        if base is root or base.op == "view":
            self._behind(base, KernelUse(region, {axes}, base.size))
        else:
            self._use(base, region, {axes}, base.size)

    def _shared(self, host: TensorNode) -> KernelRegion:
        """The region of a stored node that may not have been visited yet."""
        if id(host) not in self.regions:
            self._begin(host)
        return self.regions[id(host)]

    def _use(self, n: TensorNode, region: KernelRegion, indices: set[Indices | None], iterations: int) -> None:
        uses = self.uses[id(n)]
        found = uses.get(id(region.root))
        if found is None:
            uses[id(region.root)] = KernelUse(region, set(indices), iterations)
        else:
            found.indices |= indices
            found.iterations = max(found.iterations, iterations)

    def _behind(self, n: TensorNode, use: KernelUse) -> None:
        """Tell the sources of a node that is computed in a kernel."""
        region, times = use.region, use.iterations
        if n.op in ("elementwise", "cast", "scan"):
            for s in n.src:
                self._use(s, region, use.indices, times)
        elif n.op == "after":
            self._use(n.src[0], region, use.indices, times)
            self._use(n.src[1], region, {None}, 0)
        elif n.op == "view":
            self._use(n.src[0], region, {through(n, at) for at in use.indices}, times)
        elif n.op == "reduce":
            full = n.src[0].size if not region.folded or n.size <= times else times * n.src[0].size // max(1, n.size)
            self._use(n.src[0], region, {spread(n, at) for at in use.indices}, full)
        elif n.op == "gather":
            self._use(n.src[0], region, {gathered(n, at) for at in use.indices}, times)
            for s in n.src[1:]:
                self._use(s, region, use.indices, times)
        elif n.op == "scatter":
            values = n.src[0]
            at = tuple(axis(f"s{d}", e) if e != 1 else ZERO for d, e in enumerate(values.shape))
            for s in n.src:
                self._use(s, region, {at}, values.size)
        elif n.op in ("host", "loop", "kernel"):
            for s in n.src:
                self._use(s, region, {None}, s.size)


def _along(by: IndexMap, d: int, i: int) -> Indices:
    """Element i along one dimension of a map's result."""
    return tuple(const(i) if e == d else ZERO for e in range(len(by.shape)))


def _pads_bytes(n: TensorNode, uses: dict[int, KernelUse]) -> bool:
    """Whether contractions read bytes padded: comparing bounds takes as long as a product of four of them."""
    return n.op == "view" and n.arg.mask is not None and n.dtype.size == 1 and all(u.region.head is not None for u in uses.values())

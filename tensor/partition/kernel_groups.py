"""From a graph to kernels in order: heads first, then everything else, then what a kernel can store in addition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...ir.dtypes import DType
from ...ir.errors import InternalError
from ...ir.node import reachable
from ..graph.index_checks import CHECK
from ..graph.index_maps import Indices
from ..graph.nodes import TensorNode
from ..graph.source_lines import at
from .dominators import Graph
from .fold_search import find_folds
from .forced_stores import compared_with_extremes, crowded, deep_reshapes, joined, reshaped, too_large
from .heads import epilogue, is_contraction, is_head
from .kernel_regions import FoldedEnds, KernelRegion, Regions
from .store_rules import Rule

# order ------------------------------------------------------------------------------------------------------
# The order of kernels: what frees memory runs as soon as it can (a weight's gradient, when nothing else waits for the
# gradients it reads), everything else as it is needed.


def by_memory(
    groups: Sequence[int], reads: Mapping[int, Mapping[int, int]], writes: Mapping[int, int], of: Mapping[int, int], kept: set[int]
) -> list[int]:
    """`groups`, which are in an order in which they can run, in one that holds less. `reads`: by group the bytes of the
    stored nodes it reads; `writes`: the bytes that it makes and that go again; `of`: the group that stores a node; `kept`:
    nodes that stay. Of those that can run, the first that frees at least what it makes; if none does, the first."""
    waiting = {g: len({of[s] for s in reads[g]} - {g}) for g in groups}
    behind: dict[int, list[int]] = {g: [] for g in groups}
    readers: dict[int, int] = {}
    for g in groups:
        for source in {of[s] for s in reads[g]} - {g}:
            behind[source].append(g)
        for s in reads[g]:
            readers[s] = readers.get(s, 0) + 1
    place = {g: i for i, g in enumerate(groups)}
    ready = [g for g in groups if not waiting[g]]
    done: list[int] = []
    while ready:
        gains = (sum(n for s, n in reads[g].items() if readers[s] == 1 and s not in kept) - writes[g] for g in ready)
        best = next((g for g, gain in zip(ready, gains) if gain >= 0), ready[0])
        ready.remove(best)
        done.append(best)
        for s in reads[best]:
            readers[s] -= 1
        for g in behind[best]:
            waiting[g] -= 1
            if not waiting[g]:
                ready.append(g)
        ready.sort(key=place.__getitem__)
    return done


def early(wanted: Sequence[int], order: Sequence[int], needs: Mapping[int, set[int]], of: Mapping[int, int]) -> list[int]:
    """The same order, but that the groups `wanted` (checks of indices), with what they need, come before everything else: nothing is
    written yet when one fails. `needs`: by group the stored nodes it reads; `of`: the group that stores a node."""
    found = set(reachable(wanted, lambda g: [of[s] for s in needs[g]]))
    return [*(g for g in order if g in found), *(g for g in order if g not in found)]


# kept -------------------------------------------------------------------------------------------------------
# In what type the values between kernels are kept.


FEWER = 4
"""How many times more elements the reductions behind a row's result must have read."""


def kept_types(stored: Iterable[TensorNode], outputs: set[int], memory: Callable[[TensorNode], bool]) -> dict[int, DType]:
    """By id, the types of what is kept in another than its own: rows' results of 16-bit floats (a softmax's log-sum-exp, a
    mean) stay in the type they are computed in. They are few, and what is computed from them would lose most: e^(s − lse)
    is wrong by as much as lse was rounded. `outputs`: ids of what users see, which keeps its own type."""
    return {
        id(n): n.dtype.compute
        for n in stored
        if n.dtype.is_float and n.dtype.compute is not n.dtype and id(n) not in outputs and _row_result(n, memory)
    }


def _row_result(n: TensorNode, memory: Callable[[TensorNode], bool]) -> bool:
    """Whether a node is pointwise work on reductions of much larger arrays, none of which is a contraction."""
    found, todo, seen = False, [n], set[int]()
    while todo:
        m = todo.pop()
        if id(m) in seen or (m is not n and memory(m)):
            continue
        seen.add(id(m))
        if m.op == "reduce":
            if is_contraction(m) or m.src[0].size < FEWER * n.size:
                return False
            found = True
        elif m.op in ("elementwise", "cast", "view"):
            todo += m.src
        elif m.op != "const":
            return False
    return found


# groups -----------------------------------------------------------------------------------------------------
@dataclass
class Group:
    """One kernel: the nodes it stores (readers before what they read), and why each is stored. `folded`: contractions
    that run in tiles inside of it."""

    roots: list[TensorNode]
    rules: list[Rule]
    head: TensorNode | None = None
    folded: tuple[TensorNode, ...] = ()


@dataclass(frozen=True)
class Parted:
    """The kernels of a graph in an order in which they can run; `is_stored` says which nodes have memory."""

    groups: list[Group]
    regions: Regions

    def kept_types(self) -> dict[int, DType]:
        """By id, the types of the stored nodes that are kept in another than their own."""
        graph = self.regions.graph
        return kept_types((n for n, _ in self.regions.stored.values()), set(graph.outputs), self.regions.is_stored)

    def strays(self) -> list[TensorNode]:
        """Absorbed contractions that a kernel without a fold would compute, whole: they are better stored."""
        absorbed = {id(s): s for heads in self.regions.plan.absorbed.values() for s in heads}
        inside = {id(root): {id(f) for f in g.folded} for g in self.groups for root in g.roots}
        return [s for i, s in absorbed.items() if any(i not in inside.get(id(u.region.root), ()) for u in self.regions.uses[i].values())]


_ALONE: dict[str, tuple[Rule, Rule | None]] = {
    "scatter": (Rule.scatter, None),
    "host": (Rule.host, Rule.host_input),
    "loop": (Rule.loop, Rule.loop_input),
    "kernel": (Rule.own, Rule.own_input),
}
"""Operations whose results are stored as they are, and their sources where these must be in memory."""


def partition(outs: Sequence[TensorNode], banned: Collection[int] = ()) -> Parted:
    """The kernels that compute `outs`. `banned`: ids of contractions that are not to run inside of a fold."""
    graph = Graph(outs)
    stored: dict[int, tuple[TensorNode, Rule]] = {id(o): (o, Rule.output) for o in outs if not graph.leaf(o)}
    heads: dict[int, TensorNode] = {}
    folds = find_folds(graph, banned)
    plan = FoldedEnds({}, folds.inside, {}, {})
    ends: dict[int, TensorNode] = {}
    taken: set[int] = set()
    for n in graph.order:
        whole = id(n) in folds.absorbed
        if graph.leaf(n) or id(n) in folds.inside or not (whole or is_head(n)):
            continue
        if n.op in _ALONE:
            stored.setdefault(id(n), (n, _ALONE[n.op][0]))
            heads[id(n)] = n
            read = Rule.check if n.op == "host" and n.arg.name == CHECK else _ALONE[n.op][1]
            if read is not None:
                stored.update((id(s), (s, read)) for s in n.src if not graph.leaf(s) and id(s) not in stored)
            continue
        end = ends[id(n)] = epilogue(graph, n, taken)
        taken.update(id(m) for m in (n, *graph.between(n, end)))
        stored.setdefault(id(end), (end, Rule.fold if whole else Rule.head if is_contraction(n) else Rule.scan))
        heads[id(end)] = n
        if whole:
            plan.absorbed[id(end)] = folds.absorbed[id(n)]
            if id(n) in folds.order:
                plan.loops[id(end)] = (n, folds.order[id(n)])
    for together in folds.together:
        host, *guests = (ends[id(h)] for h in together)
        every = {id(f): f for e in (host, *guests) for f in plan.absorbed.get(id(e), ())}
        plan.absorbed[id(host)] = tuple(every.values())
        plan.guests.update((id(g), host) for g in guests)
    apart = compared_with_extremes(graph, lambda n: id(n) in stored or id(n) in folds.inside or id(n) in taken)
    stored.update((id(n), (n, Rule.steady)) for n in apart)
    stored.update((id(n), (n, Rule.reshaped)) for n in reshaped(graph, stored))
    stored.update((id(n), (n, Rule.joined)) for n in joined(graph, lambda n: id(n) in stored))
    stored.update((id(n), (n, Rule.limit)) for n in deep_reshapes(graph, lambda n: id(n) in stored))
    stored.update((id(n), (n, Rule.limit)) for n in crowded(graph, lambda n: id(n) in stored))
    # what is stored decides what else is worth storing: later rounds know the first one's answers
    likely = frozenset(Regions(graph, dict(stored), heads, plan).stored)
    over = too_large(graph, lambda n: id(n) in likely)
    while True:
        stored.update((id(n), (n, Rule.limit)) for n in over)
        regions = Regions(graph, dict(stored), heads, plan, likely)
        over = too_large(graph, regions.is_stored)
        if not over:
            return Parted(_ordered(graph, regions), regions)


def _ordered(graph: Graph, regions: Regions) -> list[Group]:
    """One group a stored node, joined where a kernel can store what it computes anyway; in order."""
    groups: dict[int, Group] = {}
    of: dict[int, int] = {}
    for n in graph.order:
        if id(n) in regions.stored:
            region = regions.regions[id(n)]
            group = groups.setdefault(id(region.root), Group([], [], region.head, region.folded))
            group.roots.insert(0, n)  # readers before what they read
            group.rules.insert(0, regions.stored[id(n)][1])
            of[id(n)] = id(region.root)
    needs = {g: {s for s, uses in regions.readers.items() if g in uses} for g in groups}
    _loops(groups, needs, of)
    read = _read_from_memory(regions)
    for n in graph.order:
        for region in [] if _passes_much(n, regions, read) else _hosts(n, regions):
            a, b = of[id(n)], of[id(region.root)]
            if a != b and not _indirect(a, b, needs, of):
                _join(groups, needs, of, a, b)
                break
    _siblings(groups, regions, needs, of)
    _forget(graph, groups, regions, needs, of)
    order: list[int] = []
    placed: set[int] = set()
    open_: set[int] = set()

    def place(g: int) -> None:
        stack = [g]
        while stack:
            top = stack[-1]
            missing = [of[s] for s in needs[top] if of[s] != top and of[s] not in placed]
            if missing:
                open_.add(top)
                if not open_.isdisjoint(missing):
                    raise InternalError(
                        f"internal error: kernels need one another's results{at(groups[top].roots[0].line)}: please report the function"
                    )
                stack += missing
            else:
                stack.pop()
                open_.discard(top)
                if top not in placed:
                    placed.add(top)
                    order.append(top)

    for g in list(groups):
        place(g)
    size = {id(n): n.size * n.dtype.size for n in graph.order if id(n) in regions.stored}
    reads = {g: {s: size[s] for s in needs[g] if of[s] != g} for g in order}
    writes = {g: sum(size[id(n)] for n in groups[g].roots if id(n) not in graph.outputs) for g in order}
    checks = [g for g in order if groups[g].roots[0].op == "host" and groups[g].roots[0].arg.name == CHECK]
    done = [groups[g] for g in early(checks, by_memory(order, reads, writes, of, graph.outputs), needs, of)]
    for group in done:
        if group.folded and len(group.roots) > 1:
            _arrange(graph, group)
    return done


def _loops(groups: dict[int, Group], needs: dict[int, set[int]], of: dict[int, int]) -> None:
    """All outputs of a loop, or of a kernel of the user's, are one group."""
    first: dict[object, int] = {}
    for g in [g for g, group in groups.items() if group.roots[0].op in ("loop", "kernel")]:
        (n,) = groups[g].roots
        b = first.setdefault((n.arg.loop if n.op == "loop" else n.arg.own, tuple(map(id, n.src))), g)
        if b != g:
            _join(groups, needs, of, g, b)


def _arrange(graph: Graph, group: Group) -> None:
    """Results of a fold that do not need each other, in the order of the named kernels: the largest first (a row's
    log-sum-exp after the rows), then those that need more of the contractions (attention's dk before dv)."""
    pairs = list(zip(group.roots, group.rules, strict=True))
    if any(graph.depends(a, b) for a, _ in pairs for b, _ in pairs if a is not b):
        return
    pairs.sort(key=lambda p: (-p[0].size, -sum(graph.depends(p[0], f) for f in group.folded)))
    group.roots, group.rules = [n for n, _ in pairs], [r for _, r in pairs]


def _hosts(n: TensorNode, regions: Regions) -> list[KernelRegion]:
    """Kernels that compute a stored node anyway, so that they can store it as well."""
    if id(n) not in regions.stored or regions.stored[id(n)][1] in (Rule.limit, Rule.steady):
        return []
    if id(n) in regions.extra:
        return regions.extra[id(n)]
    own = regions.regions[id(n)]
    if own.folded or (own.head is not None and own.head.op != "reduce"):
        return []
    out = []
    for use in regions.readers[id(n)].values():
        r = use.region
        same = use.indices == {own.axes} or (
            len(use.indices) == 1 and None not in use.indices and _covers(next(iter(use.indices)) or (), r)
        )
        pointwise = r.head is None and (own.head is None or (not r.rows and r.base.op != "reduce"))
        if pointwise and same and n.op != "view" and r.base.size == n.size:
            out.append(r)
    return out


PASSING = 1
"""Arrays as large as a product that its kernel may read for the sake of other results. A product's tiles jump from row to row in each of them, which
prefetchers do not follow: with an optimiser's three the kernel took 2.6 times what the product and the update take as two
kernels (784 by 512 elements on one core; `benchmarks/tensor_vs.py --only mlp`)."""


def _read_from_memory(regions: Regions) -> dict[int, list[TensorNode]]:
    """By the id of a region's root: the arrays that it reads."""
    out: dict[int, list[TensorNode]] = {}
    for n in regions.graph.order:
        if regions.graph.leaf(n) or id(n) in regions.stored:
            for g in regions.uses[id(n)]:
                out.setdefault(g, []).append(n)
    return out


def _passes_much(n: TensorNode, regions: Regions, read: dict[int, list[TensorNode]]) -> bool:
    """Whether the kernels that read a product would have it read too many other arrays of its size, were they one with it."""
    if id(n) not in regions.stored or regions.regions[id(n)].head is None:
        return False
    others = {id(m) for r in regions.readers[id(n)] for m in read.get(r, ()) if m is not n and m.size >= n.size}
    return len(others) > PASSING


def _siblings(groups: dict[int, Group], regions: Regions, needs: dict[int, set[int]], of: dict[int, int]) -> None:
    """Reductions of equal shape over one large array become one kernel, which reads it once."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for g, group in groups.items():
        base = regions.regions[g].base
        alone = group.head is None and len(group.roots) == 1 and group.rules[0] is not Rule.check
        if alone and base.op == "reduce" and base.src[0].size >= SHARED:
            over = {d: base.src[0].shape[d] for d in base.arg[1]}
            alike.setdefault((base.shape, tuple(over.values())), []).append(g)
    large: dict[int, set[int]] = {}
    for n in regions.graph.order:
        # (a view of a row at every column is no larger than the row)
        if n.size >= SHARED and (regions.is_stored(n) or n.op == "elementwise"):
            for g in regions.uses[id(n)]:
                large.setdefault(g, set()).add(id(n))
    for found in alike.values():
        while found:
            b, *found = found
            for a in list(found):
                if large.get(a, set()) & large.get(b, set()) and not _indirect(a, b, needs, of) and not _indirect(b, a, needs, of):
                    _join(groups, needs, of, a, b)
                    found.remove(a)


SHARED = 1 << 12
"""Elements from which reading or computing an array once instead of twice is worth a kernel of two outputs."""


def _covers(at: Indices | None, region: KernelRegion) -> bool:
    """Whether an index is the region's own axes, each once."""
    if at is None:
        return False
    if any(i.op == "sum" for i in region.axes):
        return at == region.axes
    axes = [a for a in region.axes if a.op == "axis"]
    found = [i for i in at if i in axes]
    return len(found) == len(set(map(id, found))) == len(axes)


def _forget(graph: Graph, groups: dict[int, Group], regions: Regions, needs: dict[int, set[int]], of: dict[int, int]) -> None:
    """Pointwise results that several kernels were to read need no memory where these have become the one that computes them."""
    for g, group in groups.items():
        for n in [n for n, rule in zip(group.roots, group.rules, strict=True) if rule is Rule.readers and n.op == "elementwise"]:
            uses = regions.readers[id(n)].values()
            inside = all(of[id(u.region.root)] == g and u.indices == {u.region.axes} and u.region.base.shape == n.shape for u in uses)
            if group.head is None and not group.folded and uses and inside and id(n) not in graph.outputs:
                place = next(i for i, r in enumerate(group.roots) if r is n)
                del group.roots[place], group.rules[place], regions.stored[id(n)], regions.readers[id(n)]
                for needed in needs.values():
                    needed.discard(id(n))


def _indirect(a: int, b: int, needs: dict[int, set[int]], of: dict[int, int]) -> bool:
    """Whether group `b` depends on group `a` through a third one (then they cannot be one kernel), or `a` on `b`."""

    def behind(starts: Iterable[int]) -> Iterator[int]:
        return reachable(starts, lambda g: [of[s] for s in needs[g]])

    return a in behind(of[s] for s in needs[b] if of[s] not in (a, b)) or b in behind([a])


def _join(groups: dict[int, Group], needs: dict[int, set[int]], of: dict[int, int], a: int, b: int) -> None:
    """Group `a` becomes part of `b`, whose nodes read it."""
    groups[b].head = groups[b].head or groups[a].head
    groups[b].roots += groups[a].roots
    groups[b].rules += groups[a].rules
    needs[b] = {s for s in needs[b] | needs[a] if s not in {id(r) for r in groups[b].roots}}
    for n, g in of.items():
        if g == a:
            of[n] = b
    del groups[a], needs[a]

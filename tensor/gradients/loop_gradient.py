"""The gradient of a loop: a loop through the same steps the other way.

A step of it pulls the gradients of what a step made back to what the step got. It needs what the carries were, and what the step's
reductions and products gave: the loop stacks these. Pointwise work is done again.

The gradient of what all steps see (weights) is a sum over the steps. Where each step's part of it is a sum of products of smaller arrays,
or a product of them as of a batch of one, these arrays are stacked, and one product over all steps stands behind the loop: a weight's
gradient is not read and written in each step. Else it is a carry that is added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ...ir.dtypes import int64
from ...ir.errors import UsageError
from ..graph import primitives as P
from ..graph.loop_nodes import GraphLoop, final, stack
from ..graph.nodes import FROM_OUTSIDE, Slot, TensorNode, differentiated, interned_in, make, walk
from ..graph.source_lines import at
from ..graph.symbolic_sizes import product
from .batching import batched, repeated
from .checkpoint import rebuild

Gradients = Callable[[Sequence[TensorNode], Sequence[TensorNode], Sequence[TensorNode]], list[TensorNode]]

_STACKED = frozenset({"reduce", "scan", "scatter", "host", "loop", "kernel"})
"""Operations of a step whose results the gradient's steps read. All others are done again."""


def loop_gradients(
    n: TensorNode, dys: Mapping[tuple[str, int], TensorNode], wanted: Sequence[bool], gradients: Gradients
) -> list[tuple[int, TensorNode]]:
    """(number of a source, its gradient) of a loop, one of whose outputs is `n`. `dys`: gradients of outputs by their kind and number;
    `wanted`: by source. Raises UsageError for loops that a condition ends."""
    loop: GraphLoop = n.arg.loop
    if loop.test is not None:
        raise UsageError(
            f"{loop.name} has no gradient, since the number of its steps is not known before{at(n.line)}: use scan or fori_loop with a number "
            f"of steps (and where() for steps that shall change nothing), or put stop_gradient() around it"
        )
    return _Reverse(loop, n.src, dys, wanted, gradients).found()


class _Reverse:
    def __init__(
        self,
        loop: GraphLoop,
        src: tuple[TensorNode, ...],
        dys: Mapping[tuple[str, int], TensorNode],
        wanted: Sequence[bool],
        gradients: Gradients,
    ) -> None:
        self.loop, self.src, self.dys = loop, src, dys
        self.wanted = [k for k, s in enumerate(loop.slots) if s.dtype.is_float and (k < loop.carries or wanted[k])]
        self.carries = [k for k in range(loop.carries) if loop.slots[k].dtype.is_float]
        self.gradients = gradients
        self.slots: list[TensorNode] = []  # what a step goes along, and the arrays
        self.arrays: list[Callable[[], TensorNode]] = []
        self.whole: list[tuple[TensorNode, TensorNode]] = []  # slots for what rules of gradients took from elsewhere, the same in all steps

    def found(self) -> list[tuple[int, TensorNode]]:
        """Source by source."""
        loop = self.loop
        weights = [k for k in self.wanted if k >= loop.carries + loop.xs]
        with interned_in({}):
            parts = self._parts()
            parts = dict(zip(parts, self._read(list(parts.values()))))
            later = {} if loop.gated else self._later({k: parts[k] for k in weights})
            added = [k for k in weights if k not in later]
            sums = {k: self._slot(loop.slots[k]) for k in added}
            new = [parts[k] for k in self.carries] + [sums[k] + parts[k] for k in added]
            stacked = [parts[k] for k in self.wanted if loop.carries <= k < loop.carries + loop.xs]
            bases = list({id(b): b for k in later for b in later[k] if b.op != "slot"}.values())
            roots = [*new, *stacked, *bases]
        count = len(self.carries) + len(added)
        reached = {id(m) for m in walk(roots)}
        every = list(zip(self.slots, self.arrays, strict=True))
        pairs = [(s, a()) for s, a in every if id(s) in reached]
        all_ = [(s, self.src[k]) for k, s in enumerate(loop.slots) if k >= loop.carries + loop.xs and id(s) in reached]
        all_ += self.whole
        slots = [*self.d_carries, *sums.values(), *(s for s, _ in pairs), *(s for s, _ in all_)]
        back = GraphLoop(
            f"{loop.name} gradient", loop.trips, count, len(pairs), tuple(slots), tuple(roots), gated=loop.gated, reverse=not loop.reverse
        )
        first = [self._given("final", k, loop.slots[k]) for k in self.carries] + [P.const(0, s.dtype, s.shape) for s in sums.values()]
        src = [*first, *(a for _, a in pairs), *(a for _, a in all_), *([self.src[-1]] if loop.gated else [])]
        out = [(k, final(back, src, i)) for i, k in enumerate(self.carries)]
        out += [(k, final(back, src, len(self.carries) + i)) for i, k in enumerate(added)]
        out += [(k, stack(back, src, parts[k])) for k in self.wanted if loop.carries <= k < loop.carries + loop.xs]
        where = {id(s): a for s, a in every}
        for k, bases_of in later.items():
            arrays = {id(b): where[id(b)]() if id(b) in where else stack(back, src, b) for b in bases_of}
            out.append((k, self._summed(parts[k], arrays)))
        return out

    def _slot(self, like: TensorNode) -> TensorNode:
        return make("slot", (), Slot.new(), like.shape, like.dtype)

    def _given(self, kind: str, number: int, like: TensorNode) -> TensorNode:
        return self.dys.get((kind, number)) or P.const(0, like.dtype, like.shape)

    def _along(self, slot: TensorNode, array: Callable[[], TensorNode]) -> TensorNode:
        """A slot of what a step goes along. (The array is made later: it is a node of the graph around the loop.)"""
        self.slots.append(slot)
        self.arrays.append(array)
        return slot

    def _parts(self) -> dict[int, TensorNode]:
        """By slot that has one, the gradient in a step."""
        loop = self.loop
        self.d_carries = [self._slot(loop.slots[k]) for k in self.carries]
        outs, given = [loop.outs[k] for k in self.carries], list(self.d_carries)
        for (kind, number), dy in self.dys.items():
            if kind == "stack":
                outs.append(loop.order[number])
                given.append(self._along(self._slot(loop.order[number]), partial(_same, dy)))
        return dict(zip(self.wanted, self.gradients(outs, given, [loop.slots[k] for k in self.wanted])))

    def _read(self, roots: Sequence[TensorNode]) -> list[TensorNode]:
        """The roots of a step of the gradient, which read what steps of the loop made."""
        loop = self.loop
        every = {id(s) for s in loop.slots[loop.carries :]}

        def kept(m: TensorNode) -> bool:
            return id(m) in loop.place and id(m) not in every and (m.op in _STACKED or m.op == "slot")

        order = list(walk(roots, kept, differentiated))
        table: dict[int, TensorNode] = {}
        reached, own = {id(m) for m in order}, {id(s) for s in (*self.d_carries, *self.slots)}
        for k in range(loop.carries, loop.carries + loop.xs):
            if id(loop.slots[k]) in reached:
                self._along(loop.slots[k], partial(_same, self.src[k]))
        for m in order:
            if m is loop.counter:
                table[id(m)] = self._along(self._slot(m), partial(_counted, loop))
            elif m.data is not None or (m.op in FROM_OUTSIDE and id(m) not in loop.place and id(m) not in own):
                table[id(m)] = self._slot(m)
                self.whole.append((table[id(m)], m))
            elif kept(m):
                table[id(m)] = self._along(self._slot(m), partial(stack, loop, self.src, m))
        inside = set(table)
        for m in order:
            if any(id(s) in inside for s in differentiated(m)):
                inside.add(id(m))
        rebuild(order, inside, table)
        return [table.get(id(r), r) for r in roots]

    def _later(self, parts: Mapping[int, TensorNode]) -> dict[int, list[TensorNode]]:
        """By weight whose parts are added up behind the loop, the arrays of a step that they are sums of products of."""
        found: dict[int, list[TensorNode]] = {}
        stacked: set[int] = set()
        for k, part in sorted(parts.items(), key=lambda p: -p[1].size):
            core = _core(part)
            if core is None:
                continue
            summed, dims = core
            more, bases = min(
                ((sum(product(b.shape) for b in bases if id(b) not in stacked and b.op != "slot"), bases) for bases in _bases(summed)),
                key=lambda found: found[0],
            )
            if bases and (more <= 2 * product(part.shape) if dims else 2 * more <= product(part.shape)):
                found[k] = bases
                stacked.update(map(id, bases))
        return found

    def _summed(self, part: TensorNode, arrays: Mapping[int, TensorNode]) -> TensorNode:
        """A weight's gradient over all steps, from stacks."""
        core = _core(part)
        assert core is not None
        table: dict[int, TensorNode] = dict(arrays)
        inner, dims = core
        steps = self.loop.trips
        order = list(walk([inner], lambda m: id(m) in arrays or not m.src))
        inside = set(table)
        for m in order:
            if any(id(s) in inside for s in m.src):
                inside.add(id(m))
        rebuild(order, inside, table, lambda m, src, arg: batched(m, src, arg, [id(s) in inside for s in m.src]))
        over = table[id(inner)] if id(inner) in table else repeated(inner, steps)
        total = P.reduce("add", over, [0, *(d + 1 for d in dims)])
        views = []
        while part.op != "reduce" and part is not inner:
            views.append(part)
            part = part.src[0]
        for v in reversed(views):
            total = make(v.op, (total,), v.arg, v.shape, v.dtype) if v.op == "cast" else P.view(total, v.arg)
        return total


def _same(x: TensorNode) -> TensorNode:
    return x


def _counted(loop: GraphLoop) -> TensorNode:
    """What a loop's counter is in all steps."""
    steps = P.iota(loop.trips)
    return steps + P.const(loop.start, int64, steps.shape)


def _core(part: TensorNode) -> tuple[TensorNode, Sequence[int]] | None:
    """(what is summed, along which dimensions) in the sum that a gradient is, behind movement: none in a product, as of a batch of one is;
    None where it is another thing."""
    while (part.op == "view" and part.arg.mask is None) or (part.op == "cast" and part.arg is None):
        part = part.src[0]
    if part.op == "reduce" and part.arg[0] == "add":
        return part.src[0], part.arg[1]
    return (part, ()) if part.op == "elementwise" and part.arg == "mul" else None


def _bases(summed: TensorNode) -> list[list[TensorNode]]:
    """The arrays behind what is summed, or behind its factors; views cost nothing. (Weights are no part of their own gradients.)"""
    factors = summed.src if summed.op == "elementwise" and summed.arg == "mul" else ()
    return [_behind([summed]), *([_behind(factors)] if factors else [])]


def _behind(nodes: Sequence[TensorNode]) -> list[TensorNode]:
    found: dict[int, TensorNode] = {}
    todo = list(nodes)
    while todo:
        m = todo.pop()
        if m.op == "view" or (m.op == "cast" and m.arg is None):
            todo += m.src
        elif m.op not in ("const", "iota", "extent"):
            found[id(m)] = m
    return list(found.values())

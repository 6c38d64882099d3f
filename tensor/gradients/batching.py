"""Every primitive with an axis in front: what `vmap` makes nodes of, and what stands behind loops for sums over their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...ir.dtypes import bool_, uint8
from ...ir.node import axis
from ...ir.node import const as number
from ...ir.operators import substitute
from ..graph import index_maps as maps
from ..graph import primitives as P
from ..graph.index_maps import IndexMap, Shape
from ..graph.loop_nodes import GraphLoop, final, stack
from ..graph.nodes import Gathered, HostCall, Loaded, Mark, OwnGradient, Scattered, Slot, TensorNode, interned_in, make
from ..graph.own_kernels import OwnKernel, OwnOutput, with_axis
from .checkpoint import rebuild

Batched = Callable[[TensorNode, list[TensorNode], list[bool]], TensorNode]
"""(node, its sources as they are now, which of them have the new axis in front) → the node with that axis."""


def batched(n: TensorNode, src: tuple[TensorNode, ...], arg: Any, new: list[bool]) -> TensorNode:
    if isinstance(arg, OwnGradient):
        batch = src[0].shape[0]
        of = tuple(repeated(i, batch) if i is before else i for i, before in zip(arg.of, n.arg.of))
        return P.marked(src[0], OwnGradient(arg.name, of, arg.rule))
    if isinstance(arg, Mark):
        return P.marked(src[0], arg)
    size = next(s.shape[0] for s, b in zip(src, new) if b)
    shared = [s if b or n.op in ("gather", "host", "after", "loop", "kernel") else repeated(s, size) for s, b in zip(src, new)]
    return _RULES[n.op](n, shared, new)


def repeated(x: TensorNode, size: int) -> TensorNode:
    return P.expand(x, (size, *x.shape))


def _lifted(by: IndexMap, size: int) -> IndexMap:
    if by.reshape and by.mask is None:
        return maps.reshape((size, *by.source), (size, *by.shape))
    shape = (size, *by.shape)
    placeholders = maps.placeholder_axes(shape)
    table = {a: h for a, h in zip(by.axes, placeholders[1:]) if a.op == "axis"}
    apart = {a: axis(f"v{d}", by.shape[d]) for d, a in enumerate(by.axes) if a.op == "axis"}
    back = {apart[a]: h for a, h in table.items()}

    def moved(i: Any) -> Any:
        return substitute(substitute(i, apart), back)

    mask = None if by.mask is None else moved(by.mask)
    return IndexMap(shape, (size, *by.source), placeholders, (placeholders[0], *map(moved, by.indices)), mask)


def _batched_indices(axes: maps.Indices, indices: Sequence[Any], shape: Shape, lead: bool) -> tuple[maps.Indices, tuple[Any, ...]]:
    """Placeholders and places of a gather or scatter with the new axis; `lead`: the array that they lie in has it, too."""
    plain = tuple(number(0) if isinstance(i, Loaded) else i for i in indices)
    inner = IndexMap(shape[1:], (1,) * len(plain), axes, plain)
    lifted = _lifted(inner, shape[0])
    new = tuple(i if isinstance(i, Loaded) else j for i, j in zip(indices, lifted.indices[1:]))
    return lifted.axes, ((lifted.indices[0], *new) if lead else new)


def _gather(n: TensorNode, src: list[TensorNode], new: list[bool]) -> TensorNode:
    size = next(s.shape[0] for s, b in zip(src, new) if b)
    shape = (size, *n.shape)
    axes, indices = _batched_indices(n.arg.axes, n.arg.indices, shape, new[0])
    index = tuple(s if b else repeated(s, size) for s, b in zip(src[1:], new[1:]))
    return P.gather(src[0], Gathered(axes, indices), index, shape)


def _scatter(n: TensorNode, src: list[TensorNode], new: list[bool]) -> TensorNode:
    axes, indices = _batched_indices(n.arg.axes, n.arg.indices, src[0].shape, True)
    return P.scatter(src[0], Scattered(n.arg.combine, axes, indices), tuple(src[1:]), (src[0].shape[0], *n.shape))


def _host(n: TensorNode, src: list[TensorNode], new: list[bool]) -> TensorNode:
    size = next(s.shape[0] for s, b in zip(src, new) if b)
    call: HostCall = n.arg
    if call.batches and all(new):
        return P.host(call, tuple(src), (size, *n.shape), n.dtype)

    def each(*arrays: Any) -> Any:
        import numpy as np

        out = np.empty((size, *n.shape), n.dtype.np)
        for i in range(size):
            out[i] = call.function(*(a[i] if b else a for a, b in zip(arrays, new)))
        return out

    by = None if call.by is None else call.by.batched(new)
    return P.host(HostCall(f"vmap({call.name})", each, (call.key, tuple(new), size), by), tuple(src), (size, *n.shape), n.dtype)


def _second(x: TensorNode) -> TensorNode:
    """The first two dimensions changed: steps before elements of the batch, or back."""
    return P.view(x, maps.permute(x.shape, (1, 0, *range(2, len(x.shape)))))


class _BatchedLoop:
    """A loop whose body has an axis in front, where what it is given has one (`new`, by source). `carries`: which of them have it;
    `nodes`: by node of the old body's order the new one; `apart`: each element of the batch has a gate or test of its own, and its carries
    stay as they are once that fails."""

    def __init__(self, loop: GraphLoop, size: int, new: tuple[bool, ...]) -> None:
        self.old, self.size = loop, size
        flags = list(new[: len(loop.slots)])
        self.apart = loop.gated and new[-1]
        with interned_in({}):
            while True:
                if self.apart:
                    flags[: loop.carries] = [True] * loop.carries
                table, inside = self._rebuilt(flags)
                again = [f or id(loop.outs[k]) in inside for k, f in enumerate(flags[: loop.carries])]
                tested = loop.test is not None and id(loop.test) in inside
                if again == flags[: loop.carries] and (self.apart or not tested):
                    break
                flags[: loop.carries] = again
                self.apart |= tested
            self.carries = flags[: loop.carries]
            self.nodes = [table.get(id(n), n) for n in loop.order]
            made = self._loop(table, inside, flags)
            lost = [n for n in self.nodes if id(n) not in made.place]  # (what became simpler goes past them, but they may be stacked)
            self.made = replace(made, outs=(*made.outs, *lost)) if lost else made

    def _rebuilt(self, flags: Sequence[bool]) -> tuple[dict[int, TensorNode], set[int]]:
        table = {
            id(s): make("slot", (), Slot.new(), (self.size, *s.shape), s.dtype) for s, f in zip(self.old.slots, flags, strict=True) if f
        }
        inside = set(table)
        for n in self.old.order:
            if any(id(s) in inside for s in n.src):
                inside.add(id(n))
        rebuild(self.old.order, inside, table, lambda n, src, arg: batched(n, src, arg, [id(s) in inside for s in n.src]))
        return table, inside

    def _loop(self, table: dict[int, TensorNode], inside: set[int], flags: Sequence[bool]) -> GraphLoop:
        old = self.old
        slots = [table.get(id(s), s) for s in old.slots]
        outs = [table.get(id(o), o) for o in old.outs]
        for k, f in enumerate(self.carries):
            if f and id(old.outs[k]) not in inside:
                outs[k] = repeated(outs[k], self.size)
        test = None if old.test is None else table.get(id(old.test), old.test)
        count = old.carries
        if self.apart:
            on = make("slot", (), Slot.new(), (self.size,), bool_)
            for k in range(count):
                outs[k] = P.elementwise("where", _along(on, outs[k].shape), outs[k], slots[k])
            going = on
            if test is not None:
                going = P.elementwise("and", on, test if id(old.test) in inside else repeated(test, self.size))
                test = _any(going)
            else:
                going = P.elementwise("and", on, on) if old.trips == 1 else on
            slots.insert(count, on)
            outs.insert(count, going)
            count += 1
        return replace(old, carries=count, slots=tuple(slots), outs=tuple(outs), test=test)


def _any(x: TensorNode) -> TensorNode:
    """Whether one of some bools is true."""
    return P.elementwise("lt", P.const(0, uint8), P.reduce("max", P.cast(x, uint8), [0]))


def _along(x: TensorNode, shape: Shape) -> TensorNode:
    """An array of one dimension along the first one of a shape."""
    return P.expand(P.reshape(x, (x.shape[0], *(1 for _ in shape[1:]))), shape)


def _loop(n: TensorNode, src: list[TensorNode], new: list[bool]) -> TensorNode:
    size = next(s.shape[0] for s, b in zip(src, new) if b)
    loop: GraphLoop = n.arg.loop
    known = loop.__dict__.setdefault("batched", {})
    made = known.get((size, tuple(new))) or known.setdefault((size, tuple(new)), _BatchedLoop(loop, size, tuple(new)))
    given = [_second(s) if b and loop.carries <= i < loop.carries + loop.xs else s for i, (s, b) in enumerate(zip(src, new))]
    for k, f in enumerate(made.carries):
        if f and not new[k]:
            given[k] = repeated(given[k], size)
    if made.apart:
        gate = given.pop() if new[-1] else repeated(given.pop(), size)
        given = [*given[: loop.carries], gate, *given[loop.carries :], _any(gate)]
    if n.arg.kind == "final":
        found = final(made.made, given, n.arg.at)
        return found if made.carries[n.arg.at] else repeated(found, size)
    inner = made.nodes[n.arg.at]
    found = stack(made.made, given, inner)
    return repeated(found, size) if inner.shape == loop.order[n.arg.at].shape else _second(found)


def _kernel(n: TensorNode, src: list[TensorNode], new: list[bool]) -> TensorNode:
    size = next(s.shape[0] for s, b in zip(src, new) if b)
    own: OwnKernel = n.arg.own
    known = own.__dict__.setdefault("batched", {})
    made = known.get((size, tuple(new))) or known.setdefault((size, tuple(new)), with_axis(own, size, new))
    return make("kernel", tuple(src), OwnOutput(made, n.arg.at), (size, *n.shape), n.dtype)


_RULES: dict[str, Batched] = {
    "elementwise": lambda n, src, new: P.rounded(src[0], n.dtype) if n.arg == "rounded" else P.elementwise(n.arg, *src),
    "cast": lambda n, src, new: make("cast", tuple(src), n.arg, src[0].shape, n.dtype),
    "after": lambda n, src, new: P.after(src[0] if new[0] else repeated(src[0], src[1].shape[0]), src[1]),
    "view": lambda n, src, new: P.view(src[0], _lifted(n.arg, src[0].shape[0])),
    "reduce": lambda n, src, new: P.reduce(n.arg[0], src[0], [d + 1 for d in n.arg[1]]),
    "scan": lambda n, src, new: P.scan(n.arg[0], src[0], n.arg[1] + 1),
    "gather": _gather,
    "scatter": _scatter,
    "host": _host,
    "loop": _loop,
    "kernel": _kernel,
}
"""By primitive. Leaves never depend on a placeholder."""

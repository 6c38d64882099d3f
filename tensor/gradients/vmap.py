"""vmap: a function of single elements on whole batches. The function is run once on placeholders, and every node that
depends on them is made anew with an axis in front, by a rule a primitive. No loop, and no kernel an element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.errors import UsageError
from ...ir.node import axis
from ...ir.node import const as number
from ...ir.operators import substitute
from ..graph import index_maps as maps
from ..graph import primitives as P
from ..graph.index_maps import IndexMap, Shape
from ..graph.nodes import Gathered, HostCall, Loaded, Mark, OwnGradient, Scattered, TensorNode, differentiated, make, walk
from ..tensor import Tensor
from ..trees import flatten, unflatten
from .checkpoint import rebuild

Batched = Callable[[TensorNode, list[TensorNode], list[bool]], TensorNode]
"""(node, its sources as they are now, which of them have the new axis in front) → the node with that axis."""


def vmap(f: Callable[..., Any], in_axes: int | Sequence[int | None] | None = 0, out_axes: int = 0) -> Callable[..., Any]:
    """A function of batches from one of single elements. `in_axes`: for each argument (or all) the dimension of its tensors
    that counts elements, None where all elements share it; `out_axes`: where that dimension is in the results. Arguments
    and results are trees. The values of a batch cannot be read inside of `f`. Raises UsageError where sizes differ."""

    def mapped(*args: Any) -> Any:
        axes: list[int | None] = [in_axes] * len(args) if in_axes is None or isinstance(in_axes, int) else list(in_axes)
        if len(axes) != len(args):
            raise UsageError(f"vmap: {len(axes)} in_axes for {len(args)} arguments")
        table: dict[int, TensorNode] = {}
        slots: list[TensorNode] = []
        given = []
        sizes: set[int] = set()
        for arg, at in zip(args, axes):
            leaves, structure = flatten(arg)
            if at is not None:
                leaves = [_placeholder(t if isinstance(t, Tensor) else Tensor(t), at, table, slots, sizes) for t in leaves]
            given.append(unflatten(structure, leaves))
        if len(sizes) != 1:
            raise UsageError(f"vmap: the arguments' batches have sizes {sorted(sizes)}" if sizes else "vmap: no argument has a batch")
        (size,) = sizes
        outs, shape = flatten(f(*given))
        order = list(walk([t.node for t in outs], lambda n: id(n) in table or not n.src, differentiated))
        inside = set(table)
        for n in order:
            if any(id(s) in inside for s in n.src):
                inside.add(id(n))
        rebuild(order, inside, table, lambda n, src, arg: _batched(n, src, arg, [id(s) in inside for s in n.src]))
        return unflatten(shape, [_moved(t, table.get(id(t.node)), size, out_axes) for t in outs])

    return mapped


def _placeholder(t: Tensor, at: int, table: dict[int, TensorNode], slots: list[TensorNode], sizes: set[int]) -> Tensor:
    rank = len(t.shape)
    if not -rank <= at < rank:
        raise UsageError(f"vmap: axis {at} of an argument of shape {list(t.shape)}")
    at %= rank
    sizes.add(t.shape[at])
    order = (at, *(d for d in range(rank) if d != at))
    shape = tuple(t.shape[d] for d in order[1:])
    slots.append(make("slot", (), Mark("vmap"), shape, t.dtype))
    table[id(slots[-1])] = P.view(t.node, maps.permute(t.shape, order))
    out: Tensor = Tensor.of(slots[-1], t.device)
    return out


def _moved(t: Tensor, found: TensorNode | None, size: int, to: int) -> Tensor:
    """A result with its batch at dimension `to`."""
    n = _repeated(t.node, size) if found is None else found
    rank = len(n.shape)
    if not -rank <= to < rank:
        raise UsageError(f"vmap: out_axes {to} of a result of shape {list(n.shape)}")
    at = to % rank
    order = [*range(1, at + 1), 0, *range(at + 1, rank)]
    out: Tensor = Tensor.of(P.view(n, maps.permute(n.shape, order)), t.device)
    return out


def _batched(n: TensorNode, src: tuple[TensorNode, ...], arg: Any, new: list[bool]) -> TensorNode:
    if isinstance(arg, OwnGradient):
        batch = src[0].shape[0]
        of = tuple(_repeated(i, batch) if i is before else i for i, before in zip(arg.of, n.arg.of))
        return P.marked(src[0], OwnGradient(arg.name, of, arg.rule))
    if isinstance(arg, Mark):
        return P.marked(src[0], arg)
    size = next(s.shape[0] for s, b in zip(src, new) if b)
    shared = [s if b or n.op in ("gather", "host", "after") else _repeated(s, size) for s, b in zip(src, new)]
    return _RULES[n.op](n, shared, new)


def _repeated(x: TensorNode, size: int) -> TensorNode:
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
    index = tuple(s if b else _repeated(s, size) for s, b in zip(src[1:], new[1:]))
    return P.gather(src[0], Gathered(axes, indices), index, shape)


def _scatter(n: TensorNode, src: list[TensorNode], new: list[bool]) -> TensorNode:
    axes, indices = _batched_indices(n.arg.axes, n.arg.indices, src[0].shape, True)
    return P.scatter(src[0], Scattered(n.arg.combine, axes, indices), tuple(src[1:]), (src[0].shape[0], *n.shape))


def _host(n: TensorNode, src: list[TensorNode], new: list[bool]) -> TensorNode:
    size = next(s.shape[0] for s, b in zip(src, new) if b)
    call: HostCall = n.arg

    def each(*arrays: Any) -> Any:
        import numpy as np

        out = np.empty((size, *n.shape), n.dtype.np)
        for i in range(size):
            out[i] = call.function(*(a[i] if b else a for a, b in zip(arrays, new)))
        return out

    return P.host(HostCall(f"vmap({call.name})", each, (call.key, tuple(new), size)), tuple(src), (size, *n.shape), n.dtype)


_RULES: dict[str, Batched] = {
    "elementwise": lambda n, src, new: P.rounded(src[0], n.dtype) if n.arg == "rounded" else P.elementwise(n.arg, *src),
    "cast": lambda n, src, new: make("cast", tuple(src), n.arg, src[0].shape, n.dtype),
    "after": lambda n, src, new: P.after(*src),
    "view": lambda n, src, new: P.view(src[0], _lifted(n.arg, src[0].shape[0])),
    "reduce": lambda n, src, new: P.reduce(n.arg[0], src[0], [d + 1 for d in n.arg[1]]),
    "scan": lambda n, src, new: P.scan(n.arg[0], src[0], n.arg[1] + 1),
    "gather": _gather,
    "scatter": _scatter,
    "host": _host,
}
"""By primitive. Leaves never depend on a placeholder."""

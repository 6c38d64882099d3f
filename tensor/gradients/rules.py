"""Gradients of the primitives: a row each in `RULES`. Every rule makes nodes, so backward kernels fuse like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Protocol

from ...ir.errors import UsageError
from ..graph import maps
from ..graph.lines import at
from ..graph.node import HostCall, Loaded, Scattered, TensorNode
from ..graph.primitives import cast, const, iota, reduce, reshape, rounded, scan, scatter, view
from ..ops import elementwise as E
from .elementwise import ELEMENTWISE, mul
from .host import HOST_RULES
from .indexed import gathered, scattered
from .views import spread, transposed


class BackwardPass(Protocol):
    """What rules ask of the backward pass they are part of."""

    def value(self, n: TensorNode) -> TensorNode:
        """What computes the value of `n` in the backward pass."""

    def alone(self, dy: TensorNode) -> bool:
        """Whether a gradient has one reader, so that work behind it may become part of what is made of it."""


Given = Iterator[tuple[int, TensorNode]]
"""(operand, gradient)."""


def _elementwise(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    parts = ELEMENTWISE.get(n.arg)
    if parts is None:
        raise UsageError(f"{n.arg} has no gradient{at(n.line)}: put stop_gradient() around it, or write it by other functions")
    for i, part in enumerate(parts):
        if wanted[i] and part is not None:
            yield i, part(dy, p.value(n), *map(p.value, n.src))


def _cast(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    yield 0, cast(dy, n.src[0].dtype)


def _view(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    yield 0, transposed(n.arg, dy, p.alone(dy))


def _reduce(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    combine, over = n.arg
    x = p.value(n.src[0])
    out = spread(dy, x.shape, over)
    if combine == "mul":
        out = mul(out, _other_factors(x, over))
    elif combine in ("max", "min"):
        # of the numbers that users see: a kernel may have the elements in a wider type than the extreme that was stored
        same = E.binary("eq", rounded(x, x.dtype), spread(rounded(p.value(n), x.dtype), x.shape, over))
        here = cast(same, dy.dtype)
        out = mul(spread(E.binary("div", dy, reduce("add", here, over)), x.shape, over), here)
    yield 0, out


def _other_factors(x: TensorNode, over: tuple[int, ...]) -> TensorNode:
    """For each element of a product over dimensions the product of all others, right for zeros too: prefixes · suffixes."""
    kept = [d for d in range(len(x.shape)) if d not in over]
    order = (*kept, *over)
    moved = view(x, maps.permute(x.shape, order))
    flat = reshape(moved, (*(x.shape[d] for d in kept), prod(x.shape[d] for d in over)))
    last = len(kept)
    both = mul(_exclusive(flat, last), flipped(_exclusive(flipped(flat, last), last), last))
    back = tuple(sorted(range(len(order)), key=lambda d: order[d]))
    return view(reshape(both, moved.shape), maps.permute(moved.shape, back))


def _exclusive(x: TensorNode, dim: int) -> TensorNode:
    """Products of all elements before each along a dimension."""
    n = x.shape[dim]
    before = view(scan("mul", x, dim), shifted(x.shape, dim))
    return E.where(E.binary("eq", counted(x.shape, dim), 0), const(1, x.dtype), before) if n else x


def shifted(shape: maps.Shape, dim: int) -> maps.IndexMap:
    """Each element is the one before it along a dimension; the first is 0."""
    if shape[dim] == 0:
        return maps.strided(shape, [(0, 1, n) for n in shape])
    short = maps.strided(shape, [(0, 1, n - (d == dim)) for d, n in enumerate(shape)])
    return maps.compose(maps.padded(short.shape, [int(d == dim) for d in range(len(shape))], [0] * len(shape)), short)


def flipped(x: TensorNode, dim: int) -> TensorNode:
    """Backwards along a dimension."""
    return view(x, maps.strided(x.shape, [(n - 1, -1, n) if d == dim else (0, 1, n) for d, n in enumerate(x.shape)]))


def counted(shape: maps.Shape, dim: int) -> TensorNode:
    """An index's place along a dimension."""
    holes = maps.holes(shape)
    return view(iota(shape[dim]), maps.IndexMap(shape, (shape[dim],), holes, (holes[dim],)))


def _scan(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    combine, dim = n.arg
    x = p.value(n.src[0])
    if combine == "add":
        yield 0, _suffixes(dy, dim)
    elif combine == "mul":
        yield 0, _products(x, p.value(n), dy, dim)
    else:
        yield 0, _extremes(x, p.value(n), dy, dim)


def _suffixes(x: TensorNode, dim: int) -> TensorNode:
    return flipped(scan("add", flipped(x, dim), dim), dim)


def _products(x: TensorNode, y: TensorNode, dy: TensorNode, dim: int) -> TensorNode:
    """Of cumulative products. By division, but for the first zero, which has the products of all others; behind it all is 0."""
    zero = E.binary("eq", x, 0.0)
    first = E.binary("and", zero, E.binary("eq", scan("add", cast(zero, x.dtype), dim), 1.0))
    without = scan("mul", E.where(first, 1.0, x), dim)
    usual = E.binary("div", _suffixes(mul(dy, y), dim), E.where(zero, 1.0, x))
    return E.where(first, _suffixes(mul(dy, without), dim), E.where(zero, 0.0, usual))


def _extremes(x: TensorNode, y: TensorNode, dy: TensorNode, dim: int) -> TensorNode:
    """Of cumulative extremes: each goes to the last place where it was reached."""
    place = counted(x.shape, dim)
    reached = scan("max", E.where(E.binary("eq", x, y), place, 0), dim)
    axes = maps.holes(x.shape)
    to = Scattered("add", axes, tuple(Loaded(0) if d == dim else a for d, a in enumerate(axes)))
    return scatter(dy, to, (reached,), x.shape)


def _gather(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    if wanted[0]:
        yield 0, gathered(n, dy)


def _scatter(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    if wanted[0]:
        yield 0, scattered(n, dy, p.value)


def _host(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    call: HostCall = n.arg
    rule = HOST_RULES.get(call.name)
    if rule is None:
        raise UsageError(
            f"{call.name}, which NumPy computes, has no gradient{at(n.line)}: put stop_gradient() around it, "
            f"or give it one with tilewright.register_gradient"
        )
    for i, g in enumerate(rule(n, dy)):
        if g is not None:
            yield i, g


RULES: dict[str, Callable[[TensorNode, TensorNode, tuple[bool, ...], BackwardPass], Given]] = {
    "elementwise": _elementwise,
    "cast": _cast,
    "after": _cast,
    "view": _view,
    "reduce": _reduce,
    "scan": _scan,
    "gather": _gather,
    "scatter": _scatter,
    "host": _host,
}
"""By primitive: (node, gradient of its result, which operands' gradients are wanted, the backward pass) → gradients of operands. Leaves have none; what is missing here cannot be behind a float."""

"""Gradients of the primitives: a row each in `RULES`, and of the elementwise operators a row each in `ELEMENTWISE`.

Every rule makes nodes, so backward kernels fuse like any other. docs/gradients.md says what gradients are at kinks and poles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from math import prod
from typing import Protocol

from ...ir.errors import UsageError
from ...ir.node import Node
from ...ir.operators import logical
from ..graph import index_maps as maps
from ..graph.index_maps import IndexMap
from ..graph.nodes import Gathered, HostCall, Loaded, Scattered, TensorNode, constant_of
from ..graph.primitives import as_typed, cast, elementwise, gather, iota, reduce, reshape, scan, scatter, view
from ..graph.source_lines import at
from ..graph.symbolic_sizes import extent
from ..ops.elementwise import binary, choose, cos, cosh, exp, like, log, sin, sinh, sqrt
from ..ops.sorting import argsort
from .transposes import condition, spread, transposed

HostRule = Callable[[TensorNode, TensorNode], list[TensorNode | None]]
"""(node, gradient of its result) → the gradients of its sources, None for what has none."""


def _sort(n: TensorNode, dy: TensorNode) -> list[TensorNode | None]:
    call: HostCall = n.arg
    dim, descending = call.key
    places = argsort(n.src[0], axis=dim, descending=descending)
    return [scatter(dy, Scattered.along("add", n.shape, dim + len(n.shape)), (places,), n.shape)]


HOST_RULES: dict[str, HostRule] = {"sort": _sort}


Part = Callable[..., TensorNode]
"""(dy, y, *operands) → the gradient of one operand."""


def _extreme(combine: str) -> tuple[Part, Part]:
    """Of max and min: the winner has all of it, equal operands have half each."""

    def part(dy: TensorNode, mine: TensorNode, other: TensorNode) -> TensorNode:
        mine, other = as_typed(mine), as_typed(other)
        wins = other < mine if combine == "max" else mine < other
        return choose(wins, dy, choose(mine.eq(other), dy * 0.5, 0.0))

    return (lambda dy, y, a, b: part(dy, a, b)), (lambda dy, y, a, b: part(dy, b, a))


def _power_base(dy: TensorNode, y: TensorNode, a: TensorNode, b: TensorNode) -> TensorNode:
    known = constant_of(b)
    if known is not None:
        return dy * (elementwise("pow", a, known - 1) * known) if known else dy * 0.0
    return dy * choose(b.eq(0.0), 0.0, b * elementwise("pow", a, b - 1.0))


def _power_exponent(dy: TensorNode, y: TensorNode, a: TensorNode, b: TensorNode) -> TensorNode:
    flat = a.eq(0.0) & (b >= 0.0)  # 0 to a power of 0 and more
    return dy * choose(flat, 0.0, y * log(a))


def _sign(x: TensorNode) -> TensorNode:
    return choose(x < 0.0, -1.0, choose(x > 0.0, like(x, 1.0), 0.0))


def _angle(dy: TensorNode, side: TensorNode, a: TensorNode, b: TensorNode) -> TensorNode:
    """Of atan2 to one side, by the other one; 0 where both are 0."""
    square = a * a + b * b
    return choose(square.eq(0.0), 0.0, dy * side / square)


def _whole(y: TensorNode, a: TensorNode, b: TensorNode) -> TensorNode:
    """⌊a / b⌋ of a remainder `y`; −1 as well where the divisor is so long that the quotient is a zero, which has no sign any more."""
    whole = elementwise("floor", a / b)
    return choose(whole.eq(0), choose(y.ne(a), -1, like(whole, 0)), whole)


ELEMENTWISE: dict[str, tuple[Part | None, ...]] = {
    "add": (lambda dy, y, a, b: dy, lambda dy, y, a, b: dy),
    "sub": (lambda dy, y, a, b: dy, lambda dy, y, a, b: -dy),
    "mul": (lambda dy, y, a, b: dy * b, lambda dy, y, a, b: dy * a),
    "div": (lambda dy, y, a, b: dy / b, lambda dy, y, a, b: -(dy * y / b)),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "pow": (_power_base, _power_exponent),
    "remainder": (lambda dy, y, a, b: dy, lambda dy, y, a, b: -(dy * _whole(y, a, b))),
    "where": (None, lambda dy, y, c, a, b: choose(c, dy, 0.0), lambda dy, y, c, a, b: choose(c, 0.0, dy)),
    "neg": (lambda dy, y, x: -dy,),
    "rounded": (lambda dy, y, x: cast(dy, x.dtype),),
    "abs": (lambda dy, y, x: dy * _sign(x),),
    "exp": (lambda dy, y, x: dy * y,),
    "expm1": (lambda dy, y, x: dy * (y + 1.0),),
    "log": (lambda dy, y, x: dy / x,),
    "log1p": (lambda dy, y, x: dy / (x + 1.0),),
    "sqrt": (lambda dy, y, x: dy * 0.5 / y,),
    "tanh": (lambda dy, y, x: dy * (1.0 - y * y),),
    "erf": (lambda dy, y, x: dy * (exp(-(x * x)) * (2 / math.sqrt(math.pi))),),
    "sin": (lambda dy, y, x: dy * cos(x),),
    "cos": (lambda dy, y, x: -(dy * sin(x)),),
    "tan": (lambda dy, y, x: dy * (y * y + 1.0),),
    "asin": (lambda dy, y, x: dy / sqrt(1.0 - x * x),),
    "acos": (lambda dy, y, x: -(dy / sqrt(1.0 - x * x)),),
    "atan": (lambda dy, y, x: dy / (x * x + 1.0),),
    "atan2": (lambda dy, y, a, b: _angle(dy, b, a, b), lambda dy, y, a, b: -_angle(dy, a, a, b)),
    "sinh": (lambda dy, y, x: dy * cosh(x),),
    "cosh": (lambda dy, y, x: dy * sinh(x),),
    "asinh": (lambda dy, y, x: dy / sqrt(x * x + 1.0),),
    "acosh": (lambda dy, y, x: dy / sqrt(x * x - 1.0),),
    "atanh": (lambda dy, y, x: dy / (1.0 - x * x),),
    "copysign": (lambda dy, y, a, b: dy * (_sign(a) * _sign(y)), None),
    **dict.fromkeys(("floor", "round", "trunc", "ceil", "sign"), (None,)),
    "floordiv": (None, None),
}
"""By operator, for each operand how its gradient follows; None: it has none (steps, conditions)."""


# indexed ----------------------------------------------------------------------------------------------------
# Gradients of gathers and scatters: each other's, and comparisons where a place is read once.


def gathered(n: TensorNode, dy: TensorNode) -> TensorNode:
    """The gradient of a gather's source: `dy` added at the places that were read (a place outside of the source, which
    reads the nearest element, gives it nothing).

    Where every element of a row picks one place of it (a label's logit), that is `dy` where the place is the label's:
    a comparison, which becomes part of any kernel that reads it."""
    by: Gathered = n.arg
    source = n.src[0]
    once = _compared(n, by, dy)
    if once is not None:
        return once
    return scatter(dy, Scattered("add", by.axes, by.indices), n.src[1:], source.shape)


def _compared(n: TensorNode, by: Gathered, dy: TensorNode) -> TensorNode | None:
    """Where the result's dimensions are dimensions of the source, each once, and the rest of them is loaded."""
    source = n.src[0]
    places = {a: d for d, a in enumerate(by.axes) if a.op == "axis"}
    loaded = [d for d, i in enumerate(by.indices) if isinstance(i, Loaded)]
    plain = {d: places.get(i) for d, i in enumerate(by.indices) if not isinstance(i, Loaded) and source.shape[d] != 1}
    used = list(plain.values())
    rest = prod(e for d, e in enumerate(n.shape) if d not in used)
    if None in used or len(set(used)) < len(used) or rest != 1 or not loaded:
        return None
    if any(source.shape[d] != n.shape[p] for d, p in plain.items() if p is not None):
        return None
    placeholders = maps.placeholder_axes(source.shape)
    back = {p: placeholders[d] for d, p in plain.items() if p is not None}
    rows = IndexMap(source.shape, n.shape, placeholders, tuple(back.get(d, maps.placeholder_axes((1,))[0]) for d in range(len(n.shape))))
    here = None
    for d in loaded:
        index = n.src[1 + by.indices[d].place]  # type: ignore[union-attr]
        along = view(cast(iota(source.shape[d]), index.dtype), IndexMap(source.shape, (source.shape[d],), placeholders, (placeholders[d],)))
        same = binary("eq", along, view(index, rows))
        here = same if here is None else here & same
    assert here is not None
    return choose(here, view(dy, rows), 0.0)


def scattered(n: TensorNode, dy: TensorNode, value: Callable[[TensorNode], TensorNode]) -> TensorNode:
    """The gradient of a scatter's values: `dy` where each went. Of a maximum or minimum, equal values share it."""
    to: Scattered = n.arg
    x, index = value(n.src[0]), n.src[1:]

    def read(a: TensorNode) -> TensorNode:
        return gather(a, Gathered(to.axes, to.indices), index, x.shape)

    inside = None
    for i, size in zip(to.indices, n.shape):
        ok = _inside(index[i.place] if isinstance(i, Loaded) else i, size, to, x.shape)
        if ok is not None:
            inside = ok if inside is None else inside & ok
    if to.combine == "add":
        out = read(dy)
    elif to.combine == "mul":
        zero = cast(x.eq(0.0), x.dtype)
        others = scatter(choose(x.eq(0.0), 1.0, x), to, index, n.shape)
        zeros = read(scatter(zero, Scattered("add", to.axes, to.indices), index, n.shape)) - zero
        product = read(others) / choose(x.eq(0.0), 1.0, x)
        out = read(dy) * choose(zeros.eq(0.0), product, 0.0)
    else:
        here = cast(x.eq(read(scatter(x, to, index, n.shape))), x.dtype)
        count = scatter(here, Scattered("add", to.axes, to.indices), index, n.shape)
        out = read(dy) / elementwise("max", read(count), 1.0) * here
    return out if inside is None else choose(inside, out, 0.0)


def _inside(place: TensorNode | Node, size: int, to: Scattered, shape: maps.Shape) -> TensorNode | None:
    """Whether a place of a scatter is one of `size`; None where all certainly are."""
    if isinstance(place, TensorNode):
        return (place >= 0) & (place < size)
    mask = logical("and", place >= 0, place < extent(size))
    return None if mask.op == "const" and mask.arg else condition(shape, to.axes, mask)


# rules ------------------------------------------------------------------------------------------------------
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
        out = out * _other_factors(x, over)
    elif combine in ("max", "min"):
        # of the numbers that users see (a kernel may have the elements in a wider type than the extreme that was stored), and the extreme
        # of these very elements (a backward pass may compute them otherwise)
        same = as_typed(x).eq(spread(as_typed(reduce(combine, x, over)), x.shape, over))
        here = cast(same, dy.dtype)
        out = spread(dy / reduce("add", here, over), x.shape, over) * here
    yield 0, out


def _other_factors(x: TensorNode, over: tuple[int, ...]) -> TensorNode:
    """For each element of a product over dimensions the product of all others, right for zeros too: prefixes · suffixes."""
    kept = [d for d in range(len(x.shape)) if d not in over]
    order = (*kept, *over)
    moved = view(x, maps.permute(x.shape, order))
    flat = reshape(moved, (*(x.shape[d] for d in kept), prod(x.shape[d] for d in over)))
    last = len(kept)
    both = _exclusive(flat, last) * flipped(_exclusive(flipped(flat, last), last), last)
    back = tuple(sorted(range(len(order)), key=lambda d: order[d]))
    return view(reshape(both, moved.shape), maps.permute(moved.shape, back))


def _exclusive(x: TensorNode, dim: int) -> TensorNode:
    """Products of all elements before each along a dimension."""
    n = x.shape[dim]
    before = view(scan("mul", x, dim), shifted(x.shape, dim))
    return choose(counted(x.shape, dim).eq(0), 1.0, before) if n else x


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
    placeholders = maps.placeholder_axes(shape)
    return view(iota(shape[dim]), maps.IndexMap(shape, (shape[dim],), placeholders, (placeholders[dim],)))


def _scan(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    combine, dim = n.arg
    x = p.value(n.src[0])
    if combine == "add":
        yield 0, _suffixes(dy, dim)
    elif combine == "mul":
        yield 0, _products(x, p.value(n), dy, dim)
    else:
        yield 0, _extremes(x, scan(combine, x, dim), dy, dim)


def _suffixes(x: TensorNode, dim: int) -> TensorNode:
    return flipped(scan("add", flipped(x, dim), dim), dim)


def _products(x: TensorNode, y: TensorNode, dy: TensorNode, dim: int) -> TensorNode:
    """Of cumulative products. By division, but for the first zero, which has the products of all others; behind it all is 0."""
    zero = x.eq(0.0)
    first = zero & scan("add", cast(zero, x.dtype), dim).eq(1.0)
    without = scan("mul", choose(first, 1.0, x), dim)
    usual = _suffixes(dy * y, dim) / choose(zero, 1.0, x)
    return choose(first, _suffixes(dy * without, dim), choose(zero, 0.0, usual))


def _extremes(x: TensorNode, y: TensorNode, dy: TensorNode, dim: int) -> TensorNode:
    """Of cumulative extremes: each goes to the last place where it was reached."""
    place = counted(x.shape, dim)
    reached = scan("max", choose(as_typed(x).eq(as_typed(y)), place, 0), dim)
    return scatter(dy, Scattered.along("add", x.shape, dim), (reached,), x.shape)


def _gather(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    if wanted[0]:
        yield 0, gathered(n, dy)


def _scatter(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    if wanted[0]:
        yield 0, scattered(n, dy, p.value)


def _host(n: TensorNode, dy: TensorNode, wanted: tuple[bool, ...], p: BackwardPass) -> Given:
    call: HostCall = n.arg
    if call.by is not None:
        yield from ((i, g) for i, g in enumerate(call.by.pull(n, [p.value(s) for s in n.src], [n], [dy])) if g is not None)
        return
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

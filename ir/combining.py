"""What combines elements into one: reductions, scans, and stores that meet, of what `KernelBuilder` is given."""

from __future__ import annotations

from collections.abc import Sequence

from . import arguments as given
from . import index as ix
from .body import BITWISE, COMBINES, Fold, Reduce, Scan, Value
from .conditions import bits_of, conditions, how_combined
from .dtypes import DType, DTypeLike, bool_, int32
from .errors import KernelError
from .node import Node, as_node, const
from .node import axis as make_axis
from .operators import cast, substitute, where

_CALLED = {"sum": "add", "+": "add", "prod": "mul", "*": "mul", "maximum": "max", "minimum": "min", "any": "max", "all": "min"}
"""What combines are called elsewhere."""


def reduced(
    combine: str,
    name: str,
    axes: Sequence[Node],
    over: Node | Sequence[Node],
    expr: Node,
    dtype: DTypeLike | None,
    body: Sequence[Value | Fold],
) -> Value:
    """A reduction over `over`, accumulated in `dtype` (None: the type of `expr` that results have). `body`: the values before it.
    KernelError for an unknown combine, one that the type has not, and an axis that is both kept and reduced over."""
    what = f"value {given.name('a value', name)}"
    _known(combine, what)
    bound, folded = given.axes(what, axes), given.axes(f"the reduce axes of {name}", over)
    both = next((a for a in folded if a in bound), None)
    if both is not None:
        raise KernelError(
            f"{what} reduces over {both!r}, which is one of its own axes too; leave it out there, or make kb.axis('{both!r}@2', ...)"
        )
    how, each, to = _combined(combine, what, expr, dtype, body)
    found = Value(name, bound, Reduce(how, folded, each, each.dtype), each.dtype)
    return conditions(found) if to is bool_ else found


def scanned(
    combine: str, name: str, axes: Sequence[Node], along: Node, expr: Node, dtype: DTypeLike | None, body: Sequence[Value | Fold]
) -> Value:
    """An inclusive prefix along one of `axes`; the rest as of `reduced`."""
    what = f"scan {given.name('a scan', name)}"
    _known(combine, what)
    bound, axis = given.axes(what, axes), given.one_axis(what, along)
    how, each, to = _combined(combine, what, expr, dtype, body, scan=True)
    found = Value(name, bound, Scan(how, axis, each, each.dtype), each.dtype)
    return conditions(found) if to is bool_ else found


def placed(combine: str, name: str, axes: Sequence[Node], over: Node, expr: Node, body: Sequence[Value | Fold]) -> tuple[Value, Value]:
    """The extreme of `expr` along the axis `over`, as a value of its own, and the first place where it is (int32; the last of all where
    nothing equals the extreme, which is NaN). Conditions are 1 and 0. KernelError for several axes, and for none to find a place on."""
    what = f"value {given.name('a value', name)}"
    found = given.axes(f"the axis of {what}", over)
    if len(found) != 1:
        raise KernelError(
            f"{what} is a place along one axis, not {len(found)}; merge them: an axis k of m * n points, and k // n and k % n for both"
        )
    axis = found[0]
    size = as_node(axis.arg.extent)
    if ix.bounds(size)[1] < 1:
        raise KernelError(f"{what}: {axis!r} has no elements, so there is no place")
    if isinstance(axis.arg.extent, int) and axis.arg.extent > 1 << 31:
        raise KernelError(f"{what}: {axis!r} has more elements than int32 has places")
    each = given.expression(what, expr)
    each = cast(each, int32 if each.dtype is bool_ else each.dtype.compute)
    best = reduced(combine, f"{name}_{'largest' if combine == 'max' else 'smallest'}", axes, axis, each, None, body)
    again = make_axis(f"{axis.arg.family}@{name}", axis.arg.extent)
    hit = substitute(each, {axis: again}).eq(best[best.axes])
    return best, reduced("min", name, axes, again, where(hit, cast(again, int32), cast(ix.add(size, const(-1)), int32)), None, body)


def stored(combine: str, what: str, of: DType) -> str:
    """How the elements of an output of type `of` are combined, for the combine that was given. KernelError for one that it has not."""
    _known(combine, what)
    _bits(combine, what, of)
    return how_combined(combine, what) if of is bool_ else combine


def _known(combine: str, what: str) -> None:
    """Raise KernelError where nothing is called so."""
    if combine not in COMBINES:
        hint = _CALLED.get(combine)
        known = repr(hint) if hint else f"one of {', '.join(COMBINES)}"
        raise KernelError(f"{what}: unknown combine {combine!r}; use {known}")


def _bits(combine: str, what: str, *types: DType) -> None:
    """Raise KernelError where a bitwise combine meets floats, or has them for its result."""
    for t in types if combine in BITWISE else ():
        if t.is_float:
            raise KernelError(f"{what}: {combine!r} of {t}; cast it to an integer type")


def _combined(
    combine: str, what: str, expr: Node, dtype: DTypeLike | None, body: Sequence[Value | Fold], scan: bool = False
) -> tuple[str, Node, DType]:
    """How elements are combined, what of each (of conditions, bits), and the type of the result."""
    expr = given.expression(what, expr)
    to = _result(combine, expr.dtype, scan) if dtype is None else given.element_type(what, dtype)
    _bits(combine, what, expr.dtype, to)
    each = cast(expr, to)
    how, each = bits_of(combine, what, each, body) if to is bool_ else (combine, each)
    return how, each, to


def _result(combine: str, of: DType, scan: bool) -> DType:
    """The type of a reduction or a scan where none is given."""
    if combine in ("add", "mul"):
        return int32 if of is bool_ else of.acc
    return of.acc if scan else of.compute

"""What `KernelBuilder` is given, as what kernels hold: names, extents, axes, element types and ranges, or an error that says what to give."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import isfinite
from typing import Any

from .buffer import Extent, loads
from .checks.misuse import NotIndexed, number, whole
from .dtypes import DType, dtype, index
from .errors import KernelError
from .integer_ranges import value_range
from .node import Node, const
from .operators import cast


def name(what: str, value: object) -> str:
    """A name: a text that is not empty and has no dot (`n.t`, `n.s` and `y.tile` are what options make of `n` and `y`)."""
    if not isinstance(value, str):
        raise KernelError(f"the name of {what} is {value!r}; give a text")
    if not value.strip() or value != value.strip():
        raise KernelError(f"the name of {what} is {value!r}; give letters and digits")
    if "." in value:
        raise KernelError(
            f"the name of {what} is {value!r}: names with a dot are for what options make of an axis or array; leave the dot out"
        )
    return value


def each(what: str, value: Any) -> tuple[Any, ...]:
    """Several things, one for each component of a tuple."""
    if not isinstance(value, (str, Node)):
        try:
            return tuple(value)
        except TypeError:
            pass
    raise KernelError(f"{what}: {value!r} is no tuple; give one, with an entry for each component")


def extent(what: str, value: object) -> Extent:
    """A number of elements: an int of Python's or NumPy's, or an index with a symbol (`sym`)."""
    if isinstance(value, Node):
        if value.dtype is not index:
            raise KernelError(f"{what} is {value!r} of type {value.dtype}; give an int or an index (sym)")
        return int(value.arg) if value.op == "const" else value
    if isinstance(value, bool):
        raise KernelError(f"{what} is {value}; give an int")
    try:
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        hint = f"{int(value)} (n // 2 instead of n / 2)" if isinstance(value, float) and value.is_integer() else "an int"
        raise KernelError(f"{what} is {value!r}, a {type(value).__name__}; give {hint}") from None
    if found < 0:
        raise KernelError(f"{what} is {found}, which is negative")
    return found


def between(what: str, value: tuple[object, ...]) -> tuple[Node, Node]:
    """The start and the end of an axis, as indices."""
    if len(value) != 2:
        raise KernelError(f"{what} is {value!r}; give its extent, or (start, end)")
    start, end = (cast(plain_index(f"the {which} of {what}", v), index) for which, v in zip(("start", "end"), value, strict=True))
    low = value_range(start)[0]
    if low < 0:
        raise KernelError(f"{what} starts at {start!r}, which may be below 0: state the range of what is read, range=(0, entries)")
    return start, end


def largest_end(what: str, end: Node) -> Extent:
    """The extent of an axis that ends somewhere: the largest end. KernelError where an end may be anything."""
    read = next((b for b, _, _ in loads(end) if b.range is None), None)
    if read is not None:
        raise KernelError(f"{what} ends where {read.name} says, which may be anything: state its range, kb.input(..., range=(0, entries))")
    return extent(what, max(0, value_range(end)[1]))


def shape(what: str, value: object) -> tuple[Extent, ...]:
    """The extents of an array; an int alone is that of a vector."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return (extent(f"the shape of {what}", value),)
    return tuple(extent(f"dimension {d} of {what}", v) for d, v in enumerate(value))


def axes(what: str, value: object) -> tuple[Node, ...]:
    """Axes; one alone is a tuple of one."""
    found = (value,) if isinstance(value, (Node, str)) or not isinstance(value, Sequence) else tuple(value)
    for a in found:
        if isinstance(a, Node) and a.op == "axis":
            continue
        if isinstance(a, str):
            raise KernelError(f"{what}: {a!r} is a text; give the axis that kb.axis({a!r}, ...) returned")
        where = "; the axes that are gone through come first, and places as indices=(...)" if what.startswith("the store") else ""
        raise KernelError(f"{what}: {a!r} is no axis; give what kb.axis(name, extent) returned{where}")
    twice = next((a for a in found if found.count(a) > 1), None)
    if twice is not None:
        raise KernelError(f"{what}: axis {twice!r} is there twice; make another of its family, kb.axis('{twice!r}@2', ...)")
    return found


def one_axis(what: str, value: object) -> Node:
    """The one axis that a scan goes along."""
    found = axes(f"the axis of {what}", value)
    if len(found) == 1:
        return found[0]
    if not found:
        raise KernelError(f"{what} goes along no axis; give the one that it runs along")
    raise KernelError(
        f"{what} goes along {', '.join(map(repr, found))}, and a scan goes along one axis: scan along {found[0]!r}, and the values of that "
        f"along {found[1]!r} (first = kb.scan(..., {found[0]!r}, ...), then kb.scan(..., {found[1]!r}, first[...]))"
    )


def element_type(what: str, value: object) -> DType:
    """An element type: one of tilewright.ir's, its name, or NumPy's."""
    try:
        return dtype(value)
    except KernelError as e:
        raise KernelError(f"{what}: {e}") from None


def expression(what: str, value: object) -> Node:
    """An expression; a number is a constant."""
    if isinstance(value, Node):
        return value
    if isinstance(value, NotIndexed):
        raise KernelError(f"{what}: {whole(value)}")
    if isinstance(value, bool):
        raise KernelError(f"{what} is the Python bool {value}: == and != compare expressions themselves; write x[i].eq(y) or x[i].ne(y)")
    return const(number(value))


def of_type(what: str, found: Node, of: DType) -> Node:
    """An expression that must be of a type already; a number becomes one."""
    if found.op == "const":
        return const(found.arg, of)
    if found.dtype is not of:
        raise KernelError(f"{what} is {found.dtype}, and the elements are {of}: cast it, or them")
    return found


def limits(what: str, of: DType, value: object) -> tuple[int, int] | tuple[float, float] | None:
    """The inclusive range of an input's elements: whole numbers that its type holds, or finite floats."""
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise KernelError(f"the range of {what} is {value!r}; give (least, largest)")
    lo, hi = (number(v) for v in value)
    if of.is_float:
        lo, hi = float(lo), float(hi)
        if not (isfinite(lo) and isfinite(hi)):
            raise KernelError(f"the range of {what} is {value!r}; its ends must be finite")
    elif of.kind == "b":
        raise KernelError(f"{what} is bool: its elements are False and True, so leave the range out")
    elif not (isinstance(lo, int) and isinstance(hi, int)):
        raise KernelError(f"the range of {what} is {value!r}, but its type is {of}; give whole numbers")
    else:
        least = -(1 << (8 * of.size - 1)) if of.kind == "i" else 0
        most = least + (1 << (8 * of.size)) - 1
        if lo < least or hi > most:
            raise KernelError(f"the range of {what} is {lo}..{hi}, and {of} holds {least}..{most}")
    if lo > hi:
        raise KernelError(f"the range of {what} is {lo}..{hi}, which is empty; give the least element first")
    return lo, hi


def plain_index(what: str, value: Any) -> Node:
    """An index: an axis, arithmetic of axes, an integer that is cast to int64, or an int."""
    found = expression(what, value)
    if not found.dtype.is_int:
        raise KernelError(f"{what}: {found!r} is {found.dtype}; an index is an integer (cast it to int64)")
    return found

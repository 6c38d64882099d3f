"""Heads: contractions, scans, scatters and calls of NumPy, and how far the pointwise work behind a head is its epilogue."""

from __future__ import annotations

import weakref

from ...ir.node import const
from ..graph import index_maps as maps
from ..graph.index_maps import IndexMap
from ..graph.nodes import OpenArgument, TensorNode, walk
from ..graph.symbolic_sizes import symbolic
from .dominators import Graph
from .store_rules import run_of


def is_contraction(t: TensorNode) -> bool:
    """A sum of products in which at least two factors lack a dimension that the result keeps, and none is lacked by all.
    (A matrix times one vector reads each element of the matrix once: it is a sum of rows like any other.)"""
    if t.op != "reduce" or t.arg[0] != "add":
        return False
    lacking = _lacking(t)
    return len([m for m in lacking if m]) >= 2 and not frozenset.intersection(*lacking)


def _lacking(t: TensorNode) -> list[frozenset[int]]:
    """Of each factor of a sum of products, which of the dimensions that the result keeps it lacks."""
    shape = t.src[0].shape
    kept = frozenset(d for d in range(len(shape)) if d not in t.arg[1] and shape[d] not in (0, 1))
    return [kept - v for f in _factors(t.src[0]) if (v := varies(f))]


def batches(t: TensorNode) -> frozenset[int]:
    """The dimensions of a contraction's result along which all of its factors vary."""
    lacked, shape = frozenset().union(*_lacking(t)), t.src[0].shape
    rest = [d for d in range(len(shape)) if d not in t.arg[1]]
    return frozenset(i for i, d in enumerate(rest) if d not in lacked and shape[d] not in (0, 1))


def _factors(n: TensorNode) -> list[TensorNode]:
    """The factors of a product, through casts."""
    while n.op in ("cast", "after"):
        n = n.src[0]
    if n.op == "elementwise" and n.arg == "mul":
        return [f for s in n.src for f in _factors(s)]
    return [n]


def varies(n: TensorNode) -> frozenset[int]:
    """The dimensions along which a node's elements differ, as far as maps and operators show."""
    found = _VARIES.get(n)
    if found is None:
        for m in walk([n], lambda m: m in _VARIES or m.op not in _SHOWN):
            found = _VARIES[m] = _VARIES.get(m) or _varies(m)
    assert found is not None
    return found


_SHOWN = frozenset({"cast", "elementwise", "view"})
_VARIES: weakref.WeakKeyDictionary[TensorNode, frozenset[int]] = weakref.WeakKeyDictionary()


def _varies(n: TensorNode) -> frozenset[int]:
    if isinstance(n.arg, OpenArgument):  # whatever its elements are: each has a derivative of its own
        return _own(n)
    if n.op in ("cast", "elementwise"):
        return frozenset().union(*(_VARIES[s] for s in n.src))
    if n.op == "view":
        by: IndexMap = n.arg
        return by.along(_VARIES[n.src[0]] if n.src[0].op in _SHOWN else _own(n.src[0]))
    return _own(n)


def _own(n: TensorNode) -> frozenset[int]:
    """The dimensions along which the elements of a node differ that says nothing of them."""
    return frozenset() if n.op == "const" else frozenset(d for d, e in enumerate(n.shape) if e not in (0, 1))


def is_head(t: TensorNode) -> bool:
    """Whether a kernel is built around this node."""
    return t.op in ("scatter", "host", "loop", "kernel", "scan") or is_contraction(t)


def epilogue(graph: Graph, head: TensorNode, taken: set[int]) -> TensorNode:
    """The last node that the head's kernel computes: as far as all paths hold pointwise nodes and bijective maps only,
    none of which another kernel has, and no further than an output."""
    end, inside, scattered = head, {id(head)}, False
    if id(head) in graph.outputs:
        return head
    for n in graph.passed(head):
        span = [m for m in graph.between(head, n) if id(m) not in inside]
        if not all(_pointwise(m) and id(m) not in taken for m in span):
            break
        inside.update(id(m) for m in span)
        scattered = _scatters(head, n, inside) if n.op == "view" else scattered
        if not scattered:
            end = n
        if id(n) in graph.outputs or any(id(m) in graph.outputs for m in span):
            break
    while end is not head and ((end.op == "view" and end.arg.reshape) or _widens(end)) and id(end) not in graph.outputs:
        end = end.src[0]  # what memory is read as is the readers' business
    return _as_bytes(graph, end, inside) or end


SHORT_RUN, MUCH = 8, 1 << 18
"""Consecutive elements of an output that a contraction's kernel stores as vectors; and products of one that had better do so."""


def _scatters(head: TensorNode, n: TensorNode, inside: set[int]) -> bool:
    """Whether consecutive elements of `n`, which holds those of a contraction in another order, are results far apart in short runs, as behind
    a pixel shuffle: its kernel could not store vectors, and computes none where its lanes are chosen by what it stores."""
    if n.op != "view" or not is_contraction(head) or symbolic(head.src[0].shape) or head.src[0].size < MUCH:
        return False
    by = maps.reshape(n.shape, n.shape)
    while n is not head:
        if n.op == "view":
            by = maps.compose(by, n.arg)
        n = next(s for s in n.src if s is head or id(s) in inside)
    first = min(SHORT_RUN, n.size)
    return run_of(by, (maps.unravel(const(i), by.shape) for i in range(first))) < first


def _as_bytes(graph: Graph, end: TensorNode, inside: set[int]) -> TensorNode | None:
    """The conversion to bytes that an epilogue's end is made of alone, if there is one: a quarter of the memory, and readers make numbers
    of them again by an operation or two."""
    n = end
    while id(n) in inside and id(n) not in graph.outputs:
        if n.op == "cast" and n.dtype.kind in "iu" and n.dtype.size == 1 and n.src[0].dtype.size > 1:
            return n
        own = [s for s in n.src if id(s) in inside]
        if len(own) != 1 or n.op not in ("cast", "elementwise", "view"):
            return None
        n = own[0]
    return None


def _widens(n: TensorNode) -> bool:
    """Whether a node holds the integers of its source, or floats that were rounded, in more bytes."""
    if n.op != "cast" or n.dtype.size <= n.src[0].dtype.size:
        return False
    whole = n.dtype.kind in "iu" and n.src[0].dtype.kind in "iu"
    return whole or (n.dtype.is_float and n.src[0].op == "elementwise" and n.src[0].arg == "rounded")


def _pointwise(m: TensorNode) -> bool:
    return m.op in ("elementwise", "cast") or (m.op == "view" and m.arg.bijective and not m.arg.lies)

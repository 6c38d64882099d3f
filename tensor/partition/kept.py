"""In what type the values between kernels are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.dtypes import DType
from ..graph.node import TensorNode
from .heads import is_contraction

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

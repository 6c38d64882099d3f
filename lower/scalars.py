"""Index expressions over open loops as scalar instructions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..ir.dtypes import bool_, index
from ..ir.errors import OptError
from ..ir.node import COMPARE, Node
from ..program.builder import Builder
from ..program.program import Val


class Scalars:
    """Emits each index once; terms of outer loops are summed first, so that those sums leave the inner loops."""

    def __init__(self, b: Builder, bound: dict[Node, Val]) -> None:
        self.b, self.bound = b, bound
        self._memo: dict[Node, Val] = {}

    @contextmanager
    def bind(self, var: Node, val: Val) -> Iterator[None]:
        """`var` stands for `val` inside; what is emitted there is forgotten after."""
        saved = self._memo
        # a name may be bound again to something else: keep only what cannot depend on it
        self._memo = dict(saved) if var not in saved else {}
        before = self.bound.get(var)
        self.bound[var] = val
        yield
        if before is None:
            del self.bound[var]
        else:
            self.bound[var] = before
        self._memo = saved

    def get(self, node: Node) -> Val:
        """The value of an index; OptError where one of its loops is not open."""
        found = self._memo.get(node)
        if found is None:
            found = self._memo[node] = self._emit(node)
        return found

    def _emit(self, node: Node) -> Val:
        b, op = self.b, node.op
        if node in self.bound:
            return self.bound[node]
        if op == "const":
            return b.const(node.arg)
        if op == "sum":
            coeffs, c = node.arg
            vals = sorted(((self.get(t), k) for t, k in zip(node.src, coeffs)), key=lambda vk: vk[0].depth)
            out = None
            for v, k in vals:
                term = v if k == 1 else b.op("mul", v, b.const(k))
                out = term if out is None else b.op("add", out, term)
            assert out is not None
            return b.op("add", out, b.const(c)) if c else out
        if op in ("div", "mod"):
            return b.op("idiv" if op == "div" else "imod", self.get(node.src[0]), attr=node.arg)
        if op == "prod":
            factors = sorted((self.get(s) for s in node.src), key=lambda v: v.depth)
            out = factors[0]
            for f in factors[1:]:
                out = b.op("mul", out, f)
            return out
        if op in ("min", "max"):
            return b.op(op, self.get(node.src[0]), self.get(node.src[1]))
        if (op in COMPARE and node.src[0].dtype is index) or (op in ("and", "or", "not") and node.dtype is bool_):
            return b.op(op, *(self.get(s) for s in node.src))
        if op == "where":  # a place of another place: a chain of values whose borders are choices
            return b.op("select", *(self.get(s) for s in node.src), dtype=index)
        raise OptError(f"the index {node!r} is needed outside the loop that it counts: stage or move something else, or at another loop")

"""Reverse mode: the gradients of nodes as nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.errors import UsageError
from ..graph.lines import at
from ..graph.node import STOP, OwnGradient, TensorNode, make, walk
from ..graph.primitives import const
from ..ops import elementwise as E
from .checkpoint import CheckpointRegion, again
from .rules import RULES
from .softmax import Softmax, softmaxes


def gradients(outs: Sequence[TensorNode], given: Sequence[TensorNode], wrt: Sequence[TensorNode]) -> list[TensorNode]:
    """Σ over `outs` of their gradients times `given` (of the same shapes and types), with respect to each of `wrt`: nodes
    of their shapes and types; zeros where an output does not depend on one. Nodes behind one of `wrt` are not looked at.
    Raises UsageError for what has no gradient."""
    found = Backward(outs, wrt).run(outs, given)
    return [found.get(id(n)) or const(0, n.dtype, n.shape) for n in wrt]


class Backward:
    """One backward pass over the nodes between `wrt` and `outs`."""

    def __init__(self, outs: Sequence[TensorNode], wrt: Sequence[TensorNode]) -> None:
        self.ends = {id(n) for n in wrt}
        for n in wrt:
            if not n.dtype.is_float:
                raise UsageError(f"a gradient with respect to {n.dtype}{list(n.shape)}{at(n.line)}: only floats have gradients")
        self.order = list(walk(outs, lambda n: id(n) in self.ends))
        self.active: set[int] = set(self.ends)
        for n in self.order:
            if n.dtype.is_float and n.arg is not STOP and any(id(s) in self.active for s in _followed(n)):
                self.active.add(id(n))
        self.softmaxes: Mapping[int, Softmax] = softmaxes(self.order, outs)
        self.values: dict[int, TensorNode] = {}
        if any(s.weights is not None for s in self.softmaxes.values()):
            self._rewrite()
        self.found: dict[int, TensorNode] = {}
        self.gifts: dict[int, int] = {}
        self.regions: dict[int, list[TensorNode]] = {}

    def _rewrite(self) -> None:
        """Nodes whose value in the backward pass follows from other nodes than in the forward pass."""
        for n in self.order:
            softmax = self.softmaxes.get(id(n))
            if softmax is not None and softmax.weights is not None:
                self.values[id(n)] = softmax.weights
            elif (
                n.op in ("view", "cast", "elementwise", "after")
                and not isinstance(n.arg, CheckpointRegion)
                and any(id(s) in self.values for s in n.src)
            ):
                self.values[id(n)] = make(n.op, tuple(map(self.value, n.src)), n.arg, n.shape, n.dtype)

    def value(self, n: TensorNode) -> TensorNode:
        """What computes the value of `n` in the backward pass."""
        return self.values.get(id(n), n)

    def alone(self, dy: TensorNode) -> bool:
        """Whether a gradient was given to one node only."""
        return self.gifts.get(id(dy), 0) == 1

    def give(self, n: TensorNode, dy: TensorNode) -> None:
        """Add to a node's gradient."""
        if id(n) in self.active:
            known = self.found.get(id(n))
            self.gifts[id(dy)] = self.gifts.get(id(dy), 0) + 1
            self.found[id(n)] = dy if known is None else E.binary("add", known, dy)

    def run(self, outs: Sequence[TensorNode], given: Sequence[TensorNode]) -> dict[int, TensorNode]:
        """Gradients by id."""
        for n, dy in zip(outs, given, strict=True):
            self.give(n, dy)
        for n in reversed(self.order):
            if id(n) in self.ends or id(n) not in self.found:
                continue
            dy = self.found[id(n)]
            softmax = self.softmaxes.get(id(n))
            if softmax is not None:
                self.give(*softmax.gradient(self.value(n), dy, self.found))
            elif isinstance(n.arg, CheckpointRegion):
                self._again(n, dy)
            elif isinstance(n.arg, OwnGradient):
                for x, g in zip(n.arg.of, n.arg.rule(dy, self.value(n), *map(self.value, n.arg.of)), strict=True):
                    if g is not None:
                        self.give(x, g)
            else:
                wanted = tuple(id(s) in self.active for s in n.src)
                for i, g in RULES[n.op](n, dy, wanted, self):
                    if wanted[i]:
                        self.give(n.src[i], g)
        return self.found

    def _again(self, n: TensorNode, dy: TensorNode) -> None:
        """A checkpoint's output: its region is computed again, and its gradients follow from that."""
        out, inner, outer = again(n, dy, self.regions, self.active)
        for target, g in zip(outer, gradients([out], [dy], inner), strict=True):
            self.give(target, g)


def _followed(n: TensorNode) -> Sequence[TensorNode]:
    return n.src[:1] if n.op in ("after", "gather", "scatter") else n.src

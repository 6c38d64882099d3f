"""Reverse mode: the gradients of nodes as nodes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...ir.errors import UsageError
from ..graph.nodes import STOP, OpenArgument, OwnGradient, TensorNode, differentiated, make, walk
from ..graph.own_kernels import siblings
from ..graph.primitives import const
from ..graph.source_lines import at
from .checkpoint import CheckpointRegion, again
from .loop_gradient import loop_gradients
from .rules import RULES
from .softmax import Softmax, softmaxes


# reverse ----------------------------------------------------------------------------------------------------
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
        self.order = list(walk(outs, lambda n: id(n) in self.ends, differentiated))
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
            self.found[id(n)] = dy if known is None else known + dy

    def run(self, outs: Sequence[TensorNode], given: Sequence[TensorNode]) -> dict[int, TensorNode]:
        """Gradients by id."""
        for n, dy in zip(outs, given, strict=True):
            self.give(n, dy)
        together: dict[object, list[TensorNode]] = {}
        for n in self.order:
            if n.op in _TOGETHER and id(n) not in self.ends:
                together.setdefault(_TOGETHER[n.op](n), []).append(n)
        for n in reversed(self.order):
            if n.op in _TOGETHER and id(n) not in self.ends:
                members = together[_TOGETHER[n.op](n)]
                if n is members[0]:  # all that reads one of them was visited
                    (self._loop if n.op == "loop" else self._kernel)(members)
                continue
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

    def _loop(self, members: Sequence[TensorNode]) -> None:
        """All outputs of a loop."""
        dys = {(n.arg.kind, n.arg.at): self.found[id(n)] for n in members if id(n) in self.found}
        if dys:
            wanted = [id(s) in self.active for s in members[0].src]
            for i, g in loop_gradients(members[0], dys, wanted, gradients):
                self.give(members[0].src[i], g)

    def _kernel(self, members: Sequence[TensorNode]) -> None:
        """All outputs of a kernel of the user's."""
        n = members[0]
        dys = {m.arg.at: self.found[id(m)] for m in members if id(m) in self.found}
        if dys:
            outs = siblings(n)
            given = [dys.get(i) or const(0, o.dtype, o.shape) for i, o in enumerate(outs)]
            for s, g in zip(n.src, n.arg.own.by.pull(n, [self.value(s) for s in n.src], outs, given), strict=True):
                if g is not None:
                    self.give(s, g)

    def _again(self, n: TensorNode, dy: TensorNode) -> None:
        """A checkpoint's output: its region is computed again, and its gradients follow from that."""
        out, inner, outer = again(n, dy, self.regions, self.active)
        for target, g in zip(outer, gradients([out], [dy], inner), strict=True):
            self.give(target, g)


_TOGETHER: dict[str, Callable[[TensorNode], object]] = {
    "loop": lambda n: (n.arg.loop, n.src),
    "kernel": lambda n: (n.arg.own, n.src),
}
"""By operation with several outputs: what these have in common. Their gradients are taken together."""


def _followed(n: TensorNode) -> Sequence[TensorNode]:
    return n.src[:1] if n.op in ("after", "gather", "scatter") else differentiated(n)


TRACKED: weakref.WeakKeyDictionary[TensorNode, weakref.ref[Any]] = weakref.WeakKeyDictionary()
"""The tensors with requires_grad, by their nodes."""


def tracked_behind(node: TensorNode) -> list[tuple[TensorNode, Any]]:
    """The live tensors with requires_grad that a node was made from, each with the node that it had then."""
    held = [(n, TRACKED[n]()) for n in walk([node], lambda n: not n.tracked) if n in TRACKED]
    return [(n, t) for n, t in held if t is not None]


def has_gradient(node: TensorNode) -> bool:
    """Whether a gradient may still be asked for through a node: of a tensor with requires_grad, or of an argument of a
    function that is being differentiated."""
    return node.tracked and id(node) in with_gradients([node])


def with_gradients(nodes: Iterable[TensorNode]) -> set[int]:
    """The ids of all nodes behind some nodes (and of these) of which `has_gradient` is true, in one pass."""
    found: set[int] = set()
    for n in walk((n for n in nodes if n.tracked), lambda n: not n.tracked):
        own = (isinstance(n.arg, OpenArgument) and n.arg.open) or (n in TRACKED and TRACKED[n]() is not None)
        if own or any(id(s) in found for s in n.src):
            found.add(id(n))
    return found

"""Bodies of loops: a function is called once on tensors without values, and what it takes from elsewhere becomes a source of the loop.

What depends on no carry, no element and no counter is the same in every step. It is computed once, before the loop, but for constants and
for views, which cost nothing where they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.errors import UsageError
from .gradients.checkpoint import rebuild
from .graph import primitives as P
from .graph.index_checks import IndexRow, furthest
from .graph.index_maps import Shape
from .graph.nodes import Slot, TensorNode, differentiated, interned_in, make, range_of, walk
from .graph.source_lines import at, user_line
from .running.current_capture import capturing, current
from .running.effects import collecting
from .tensor import Tensor
from .trees import Structure, flatten

_CONSTANTS = frozenset({"const", "iota", "extent"})
_FREE = frozenset({"view", "cast", "elementwise"})


def slot_like(n: TensorNode, shape: Shape | None = None) -> TensorNode:
    """A new slot of the shape and type of a node."""
    return make("slot", (), Slot.new(range_of(n)), n.shape if shape is None else shape, n.dtype)


def tensor_of(x: Any, device: str) -> Tensor:
    """A leaf of a tree as a tensor."""
    return x if isinstance(x, Tensor) else Tensor(x, device=device)


def device_of(leaves: Iterable[Any]) -> str:
    """The device that tensors among some leaves lie on. Raises UsageError for several."""
    found = dict.fromkeys(x.device for x in leaves if isinstance(x, Tensor))
    if len(found) > 1:
        raise UsageError(f"a loop over tensors on different devices ({', '.join(found)}): move them to one with .to(){at(user_line())}")
    return next(iter(found), "cpu")


def leaf_names(structure: Any, name: str) -> list[str]:
    """What the leaves of a tree are called in messages: `carry['h'][0]`."""
    kind, *rest = structure
    if kind == "leaf":
        return [name]
    if kind == "none":
        return []
    if kind == "dict":
        return [n for k, s in zip(rest[0], rest[1], strict=True) for n in leaf_names(s, f"{name}[{k!r}]")]
    if kind == "record":
        return [n for k, s in zip(rest[1], rest[2], strict=True) for n in leaf_names(s, f"{name}.{k}")]
    return [n for i, s in enumerate(rest[0]) for n in leaf_names(s, f"{name}[{i}]")]


@dataclass
class TracedBody:
    """What a body returned: the nodes of its leaves and their structure; `table` holds all nodes that were made, which must live."""

    nodes: list[TensorNode]
    structure: Structure
    made: set[int]
    table: Any


def traced(name: str, f: Callable[..., Any], args: Sequence[Any], device: str) -> TracedBody:
    """Call a body on tensors without values. Raises UsageError where it assigns to a tensor, and what it raises."""
    around = current()
    with capturing(name) as capture, collecting() as effects:
        leaves, structure = flatten(f(*args))
        nodes = [tensor_of(x, device).node for x in leaves]
        if effects and nodes:
            nodes[0] = P.after(nodes[0], effects[-1])
        own = capture.made() | {id(x) for x in args if isinstance(x, TensorNode)}
        for tensor, old in capture.assigned.values():
            if tensor.node is not old and id(old) not in own:
                raise UsageError(
                    f"{name} assigns to a tensor {tensor.dtype}{list(tensor.shape)} from outside of the loop: make it a part of what one "
                    f"step hands to the next{at(user_line())}"
                )
        if around is not None:
            around.checks += capture.checks
        elif capture.checks:
            raise UsageError(f"{name}: symbolic sizes have values in functions captured with jit(symbols=...) only")
    return TracedBody(nodes, structure, capture.made(), capture.table)


class LiftedBody:
    """Bodies in one table of nodes, in which what is taken from elsewhere is a slot. `given`: slots that the bodies have already;
    `slots`, `sources`: further ones, and the nodes they stand for."""

    def __init__(self, given: Sequence[TensorNode]) -> None:
        self.given = {id(s) for s in given}
        self.slots: list[TensorNode] = []
        self.sources: list[TensorNode] = []
        self._table: dict[int, TensorNode] = {id(s): s for s in given}
        self._nodes: dict[Any, TensorNode] = {}
        self._known: dict[int, TensorNode] = {}
        self._held: list[Any] = []

    def lifted(self, roots: Sequence[TensorNode], made: set[int], held: Any) -> list[TensorNode]:
        """The roots of a body in the table. `made`: ids of the nodes that were made while the body was captured, which `held` keeps."""
        self._held.append(held)
        order = list(walk(roots, lambda n: n.data is not None, differentiated))
        varies, constant = set(self.given), set[int]()
        for n in order:
            src = () if n.data is not None else differentiated(n)
            if id(n) in varies:
                continue
            if any(id(s) in varies for s in src):
                varies.add(id(n))
            elif n.op in _CONSTANTS or (n.op in _FREE and src and all(id(s) in constant for s in src)):
                constant.add(id(n))
        inside = varies | constant
        ends = [s for n in order if id(n) in varies for s in differentiated(n) if n.data is None and id(s) not in inside]
        for n in [*ends, *(r for r in roots if id(r) not in inside)]:
            self._lift(n, inside, made)
        with interned_in(self._nodes):
            rebuild(order, inside, self._table)
        return [self._table[id(r)] for r in roots]

    def furthest(self, roots: Sequence[TensorNode]) -> list[tuple[IndexRow, TensorNode]]:
        """Of each index tensor that must lie inside, how far outside its furthest element is."""
        with interned_in(self._nodes):
            return furthest(walk(roots, lambda n: not n.src, differentiated))

    def largest(self, before: Sequence[TensorNode], now: Sequence[TensorNode]) -> list[TensorNode]:
        """The larger of what is handed on and what a step found."""
        with interned_in(self._nodes):
            return [P.elementwise("max", a, b) for a, b in zip(before, now, strict=True)]

    def _lift(self, n: TensorNode, inside: set[int], made: set[int]) -> None:
        """A node that is the same in all steps: a slot for it, or for the memory behind its views."""
        views = []
        while n.op == "view" and n.data is None and id(n) not in self._table and self._reads(n.src[0], n):
            views.append(n)
            n = n.src[0]
        if id(n) not in self._table:
            source = _remade(n, made)
            slot = self._known.get(id(source))
            if slot is None:
                slot = self._known[id(source)] = slot_like(source)
                self.slots.append(slot)
                self.sources.append(source)
            self._table[id(n)] = slot
        inside.update(id(v) for v in views)

    def _reads(self, source: TensorNode, view: TensorNode) -> bool:
        """Whether a view is better read in each step than stored before."""
        while source.op == "view" and source.data is None:
            source = source.src[0]
        return source.data is not None or not source.src or source.size <= view.size


def _remade(n: TensorNode, made: set[int]) -> TensorNode:
    """A node that was made while a body was captured, as one of the graph around it."""
    order = list(walk([n], lambda m: m.data is not None or id(m) not in made, differentiated))
    inside = {id(m) for m in order if id(m) in made and m.data is None and m.op != "slot"}  # (a number of the call is one slot everywhere)
    if not inside:
        return n
    table: dict[int, TensorNode] = {}
    rebuild(order, inside, table)
    return table.get(id(n), n)

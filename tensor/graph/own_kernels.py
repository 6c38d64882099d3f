"""Kernels of the user's as nodes: what `operation` makes of one, each output a node.

A node's sources are the kernel's inputs, in order. The kernel stays what it is: it is tuned, looked up and checked as if it ran alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ...ir.body import Fold, Reduce, Scan, Store, Value, values_of
from ...ir.buffer import Buffer, load, load_parts
from ...ir.checks.operand_ranges import OperandRange, operand_ranges
from ...ir.checks.written_once import written_whole
from ...ir.dtypes import int64
from ...ir.errors import UsageError
from ...ir.kernel import Kernel
from ...ir.node import Node, axis, walk
from ...ir.node import make as make_node
from ...ir.rewriter import Rewriter
from .index_checks import IndexMark, checked
from .nodes import TensorNode, make
from .primitives import cast, const, elementwise
from .source_lines import at, user_line
from .symbolic_sizes import extents, size_of


@dataclass(frozen=True, eq=False)
class OwnKernel:
    """A kernel as an operation. `by`: what says how its gradient follows (equal kernels by others are apart); `given`: how the operation
    was called beside its tensors."""

    kernel: Kernel
    by: Any = None
    given: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def ranges(self) -> tuple[OperandRange, ...]:
        """What elements of the inputs must keep to."""
        return operand_ranges(self.kernel)

    @cached_property
    def identity(self) -> str:
        """Equal for kernels that compute the same of parameters in the same order."""
        from ...ir.normal_form import canonical

        return canonical(self.kernel).identity

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What distinguishes operations."""
        return self.identity, id(self.by), repr(self.given)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, OwnKernel) and self.key == other.key)

    def only(self, outputs: Collection[int]) -> Kernel:
        """The kernel that computes some of the outputs."""
        k = self.kernel
        kept = {b for i, b in enumerate(k.outputs) if i in outputs}
        if len(kept) == len(k.outputs):
            return k
        stores = tuple(s for s in k.stores if s.buffer in kept)
        body = _needed(k, stores)
        made = replace(k, body=body, stores=stores, buffers=tuple(b for b in k.buffers if b.role == "in" or b in kept), blocks=None)
        return made if k.blocks is None else replace(made, blocks=k.blocks.only(made.families))


@dataclass(frozen=True)
class OwnOutput:
    """The `arg` of a node: output number `at` of a kernel."""

    own: OwnKernel
    at: int


def outputs(own: OwnKernel, src: Sequence[TensorNode]) -> list[TensorNode]:
    """The kernel's outputs, of inputs that `check` has seen."""
    given = list(src)
    for r in own.ranges:
        given[r.place] = _within(own.kernel.name, given[r.place], r)
    return _outputs(own, tuple(given))


def siblings(n: TensorNode) -> list[TensorNode]:
    """All outputs of the kernel that a node is one of."""
    return _outputs(n.arg.own, n.src)


def _outputs(own: OwnKernel, src: tuple[TensorNode, ...]) -> list[TensorNode]:
    return [make("kernel", src, OwnOutput(own, i), tuple(map(size_of, b.shape)), b.dtype) for i, b in enumerate(own.kernel.outputs)]


def check(own: OwnKernel, names: Sequence[str], src: Sequence[TensorNode]) -> None:
    """Raise UsageError where a kernel cannot be an operation on these inputs. `names`: of the arguments."""
    k = own.kernel
    for b in k.outputs:
        if b.alias:
            raise UsageError(
                f"{k.name} writes {b.name} in the memory of its input {b.alias}, and operations on tensors write to memory of their own: "
                f"leave out kb.in_place; an array that is updated is x.assign(...) of the result{at(user_line())}"
            )
        if not written_whole(k, b):
            raise UsageError(
                f"{k.name} does not write every element of its output {b.name}, or does not show that it does: what it leaves would hold "
                f"anything. Store a value there, too{at(user_line())}"
            )
    for name, b, n in zip(names, k.inputs, src, strict=True):
        if b.dtype is not n.dtype or tuple(b.shape) != extents(n.shape):
            raise UsageError(
                f"{k.name}: the input {b.name} is {b.dtype}{list(b.shape)}, and {name} is {n.dtype}{list(n.shape)}{at(user_line())}"
            )


def _within(name: str, n: TensorNode, r: OperandRange) -> TensorNode:
    """An input whose elements are checked to lie in a range."""
    high = size_of(r.high)
    mark = IndexMark(f"element of {r.name}", name, 0, high + 1 - r.low, False, r.ascending)
    if not r.low:
        return checked(n, mark, n.data is not None)
    moved = elementwise("sub", cast(n, int64), const(r.low, int64, n.shape))
    return cast(elementwise("add", checked(moved, mark, False), const(r.low, int64, n.shape)), n.dtype)


def _needed(k: Kernel, stores: Sequence[Store]) -> tuple[Value | Fold, ...]:
    """The items of a kernel's body that some stores need."""
    wanted = _named([e for s in stores for e in (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))])
    kept: list[Value | Fold] = []
    for item in reversed(k.body):
        if wanted & ({v.name for v in values_of(item)} | {item.name}):
            kept.append(item)
            wanted |= _named([v.body for v in values_of(item)])
    return tuple(reversed(kept))


def _named(roots: Sequence[Node]) -> set[str]:
    return {n.arg for n in walk(*roots) if n.op == "ref"}


# batches ----------------------------------------------------------------------------------------------------
FAMILY = "batch"


class _WithAxis(Rewriter):
    """Expressions of one value or store of a kernel with an axis in front. `batched`: buffers that have it, and what they become."""

    def __init__(self, kernel: Kernel, front: Node, batched: dict[Buffer, Buffer]) -> None:
        super().__init__(kernel)
        self.front, self.batched = front, batched

    def node(self, n: Node) -> Node | None:
        if n.op == "ref":
            return make_node("ref", n.dtype, (self.front, *map(self.go, n.src)), n.arg)
        return None

    def load(self, n: Node) -> Node:
        buffer, indices, mask = load_parts(n)
        new = tuple(map(self.go, indices))
        new = (self.front, *new) if buffer in self.batched else new
        return load(self.batched.get(buffer, buffer), new, None if mask is None else self.go(mask))

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return axes


def with_axis(own: OwnKernel, size: int, flags: Sequence[bool]) -> OwnKernel:
    """The kernel for `size` elements of a batch: outputs have a dimension in front, and so have the inputs of which `flags` says so."""
    k = own.kernel
    (extent,) = extents((size,))
    family = next(f"{FAMILY}{i or ''}" for i in range(len(k.families) + 1) if f"{FAMILY}{i or ''}" not in k.families)
    wide = [b for b, f in zip(k.inputs, flags, strict=True) if f] + list(k.outputs)
    batched = {b: replace(b, shape=(extent, *b.shape)) for b in wide}

    def front(site: str) -> Node:
        return axis(f"{family}@{site}", extent, family)

    def value(v: Value) -> Value:
        a = front(v.name)
        w = _WithAxis(k, a, batched)
        e = v.expr
        new = replace(e, expr=w.go(e.expr)) if isinstance(e, Reduce | Scan) else w.go(e)
        return Value(v.name, (a, *v.axes), new, v.dtype)

    body = [replace(i, block=tuple(map(value, i.block))) if isinstance(i, Fold) else value(i) for i in k.body]
    stores = []
    for n, s in enumerate(k.stores):
        a = front(f"store{n}")
        w = _WithAxis(k, a, batched)
        mask = None if s.mask is None else w.go(s.mask)
        stores.append(Store(batched[s.buffer], (a, *map(w.go, s.indices)), w.go(s.expr), (a, *s.axes), s.combine, mask))
    made = replace(k, body=tuple(body), stores=tuple(stores), buffers=tuple(batched.get(b, b) for b in k.buffers))
    return OwnKernel(made, own.by.batched(flags), own.given)

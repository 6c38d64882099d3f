"""From a graph to a list of calls: the kernels in order, which array each parameter is, and the graph's key.

Graphs that differ only in which memory their leaves are share one list: it is made once and used for every step of a
loop. The key numbers nodes in order and names leaves by shape, type and declared range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...ir.kernel import Kernel
from ...ir.online.rewrite import NoFold
from .. import partition as P
from ..graph.lines import Line
from ..graph.node import FROM_OUTSIDE, HostCall, TensorNode, range_of, walk
from ..graph.primitives import cast
from .loop_plan import LoopPlan
from .made import MadeKernel, kernel_of
from .proof import ListedStep, prove

Place = int
"""An array of a call list: the leaves first, then what is computed."""


@dataclass(frozen=True)
class KernelCall:
    """One kernel on arrays: `inputs` and `outputs` are places, in the kernel's order of parameters. `nodes`: what it stores
    and why."""

    kernel: Kernel
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    nodes: tuple[TensorNode, ...]
    rules: tuple[P.Rule, ...]
    folded: bool = False


@dataclass(frozen=True)
class NumpyCall:
    """One call of NumPy's code."""

    call: HostCall
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    nodes: tuple[TensorNode, ...]
    rules: tuple[P.Rule, ...]


Call = KernelCall | NumpyCall


@dataclass
class CallList:
    """What computes a graph. `leaves`: how many arrays come from outside; `nodes`: by place, a node of that shape and
    type; `outs`: places of the outputs; `unfolded`: by a user's line, why a contraction there could not run in tiles."""

    calls: list[Call]
    leaves: int
    nodes: list[TensorNode]
    outs: tuple[Place, ...]
    unfolded: dict[Line, str] = field(default_factory=dict)


def leaves_of(outs: Sequence[TensorNode]) -> list[TensorNode]:
    """The leaves behind `outs`, in the order of their places; leaves on the same memory are one."""
    found: dict[int, TensorNode] = {}
    for n in walk(outs):
        if is_leaf(n):
            found.setdefault(_memory(n), n)
    return list(found.values())


def is_leaf(n: TensorNode) -> bool:
    """Whether a node's values come from outside of the graph."""
    return n.data is not None or n.op in FROM_OUTSIDE


def key_of(outs: Sequence[TensorNode]) -> tuple[Any, ...]:
    """Equal for graphs that one call list computes."""
    number: dict[int, int] = {}
    memory: dict[int, int] = {}
    rows: list[Any] = []
    for n in walk(outs):
        number[id(n)] = len(number)
        if is_leaf(n):
            place = memory.setdefault(_memory(n), len(memory))
            rows.append(("leaf", place, n.shape, n.dtype.name, range_of(n)))
        else:
            arg = (type(n.arg), repr(n.arg)) if n.op == "const" else None if n.op == "cast" else n.arg
            rows.append((n.op, tuple(number[id(s)] for s in n.src), arg, n.shape, n.dtype.name))
    return (tuple(rows), tuple(number[id(o)] for o in outs))


def call_list(outs: Sequence[TensorNode]) -> CallList:
    """Partition `outs` and pull every kernel. Where a fold turns out not to be possible, its contractions get memory. Raises
    InternalError where what a kernel reads is not proved to be written (`proof`)."""
    banned: dict[int, str] = {}
    while True:
        parted = P.partition(outs, banned)
        strays = parted.strays()
        if strays:
            banned.update((id(n), "a kernel that cannot run in tiles reads it as well") for n in strays)
            continue
        plan = LoopPlan(parted.regions.plan.loops, parted.kept_types(), parted.regions.splits)
        made = [None if g.roots[0].op == "host" else kernel_of(g, parted.regions.is_stored, plan) for g in parted.groups]
        failed = [(g, m) for g, m in zip(parted.groups, made, strict=True) if isinstance(m, NoFold)]
        banned.update((id(n), why.reason) for g, why in failed for n in g.folded)
        if not failed:
            return _listed(outs, parted, [m for m in made if not isinstance(m, NoFold)], banned)


def _listed(outs: Sequence[TensorNode], parted: P.Parted, made: Sequence[MadeKernel | None], banned: dict[int, str]) -> CallList:
    leaves, kept = leaves_of(outs), parted.kept_types()
    nodes = list(leaves)
    place = {_memory(n): i for i, n in enumerate(leaves)}
    calls: list[Call] = []
    for group, m in zip(parted.groups, made, strict=True):
        for root in group.roots:
            place[_memory(root)] = len(nodes)
            wide = kept.get(id(root))
            nodes.append(root if wide is None else cast(root, wide))
        read, written = (group.roots[0].src, tuple(group.roots)) if m is None else (m.inputs, m.outputs)
        rules = {id(n): rule for n, rule in zip(group.roots, group.rules, strict=True)}
        why = written, tuple(rules[id(n)] for n in written)
        inputs, outputs = (tuple(place[_memory(n)] for n in ns) for ns in (read, written))
        if m is None:
            calls.append(NumpyCall(group.roots[0].arg, inputs, outputs, *why))
        else:
            calls.append(KernelCall(m.kernel, inputs, outputs, *why, bool(group.folded)))
    reasons = {n.line: text for n in parted.regions.graph.order if (text := banned.get(id(n)))}
    found = CallList(calls, len(leaves), nodes, tuple(place[_memory(n)] for n in outs), reasons)
    prove_list(found)
    return found


def prove_list(made: CallList) -> None:
    """Raise InternalError where something of a list is read that was not written."""
    steps = [
        ListedStep(c.kernel.name, c.kernel, c.inputs, c.outputs)
        if isinstance(c, KernelCall)
        else ListedStep(c.call.name, None, c.inputs, c.outputs)
        for c in made.calls
    ]
    prove(steps, made.leaves, made.nodes, made.outs)


def _memory(n: TensorNode) -> int:
    """What tells arrays apart: leaves on one memory are one array."""
    return id(n.data) if n.data is not None else id(n)

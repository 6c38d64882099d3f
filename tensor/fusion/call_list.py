"""From a graph to a list of calls: the kernels in order, which array each parameter is, and the graph's key.

Graphs that differ only in which memory their leaves are share one list: it is made once and used for every step of a
loop. The key numbers nodes in order and names leaves by shape, type and declared range."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from typing import Any

from ...cache.keys import Numerics
from ...devices.once import process_lock
from ...ir import index as ix
from ...ir.checks.written_once import written_whole
from ...ir.errors import InternalError, UsageError
from ...ir.fixed_sums import fixed
from ...ir.kernel import Kernel
from ...ir.node import Node, as_node, const
from ...ir.normal_form import tidy
from ...ir.online import NoFold, compares, online
from .. import partition as P
from ..graph.loop_nodes import GraphLoop, LoopOutput
from ..graph.nodes import FROM_OUTSIDE, HostCall, TensorNode, interned_in, make, range_of, walk
from ..graph.own_kernels import OwnKernel
from ..graph.primitives import cast
from ..graph.source_lines import Line, at
from ..graph.symbolic_sizes import extents
from ..partition import Group
from .joined_rows import JoinedRows, rows_of, unjoined
from .pull import LoopPlan, pull

# made -------------------------------------------------------------------------------------------------------
# A group's kernel in its final writing: pulled, folded where the partition says so, tidied. Groups of equal structure,
# as the layers of a model are, are pulled once.


MOST_KERNELS = 4096
"""Kernels that are remembered."""


@dataclass(frozen=True)
class MadeKernel:
    """A kernel with the node behind each of its inputs and outputs, in order."""

    kernel: Kernel
    inputs: tuple[TensorNode, ...]
    outputs: tuple[TensorNode, ...]


@dataclass(frozen=True)
class KeptKernel:
    """A kernel, and by number in the walk over a group which nodes are its inputs and outputs."""

    kernel: Kernel | NoFold
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


NUMERICS: ContextVar[Numerics] = ContextVar("numerics", default="free")
"""Of the kernels that are made: 'fixed' gives each sum its order, as it was pulled."""
ORDERED = frozenset({"sort", "argsort", "searchsorted", "nextafter", "isin"})
"""NumPy's code that adds nothing, and has no functions whose last bits may differ."""

_kept: OrderedDict[tuple[Any, ...], KeptKernel] = OrderedDict()
_lock = process_lock()


def kernel_of(group: Group, stored: Callable[[TensorNode], bool], plan: LoopPlan) -> MadeKernel | NoFold:
    """The kernel of a group whose nodes are not NumPy's; NoFold where it cannot run in tiles as the partition wants it to.
    `stored`, `plan`: as for `pull`."""
    own = {id(r) for r in group.roots}
    nodes = list(walk(group.roots, lambda n: n.data is not None or (id(n) not in own and stored(n))))
    number = {id(n): i for i, n in enumerate(nodes)}
    types = tuple(sorted((number[i], t.name) for i, t in plan.kept.items() if i in number))
    cut = tuple(sorted((number[i], s) for i, s in plan.splits.items() if i in number))
    key = (*_key(group, nodes, number, stored, plan), types, cut, NUMERICS.get())
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
    if found is None:
        found = _made(group, stored, plan, number)
        with _lock:
            _kept[key] = found
            while len(_kept) > MOST_KERNELS:
                _kept.popitem(last=False)
    if isinstance(found.kernel, NoFold):
        return found.kernel
    return MadeKernel(found.kernel, tuple(nodes[i] for i in found.inputs), tuple(nodes[i] for i in found.outputs))


def _made(group: Group, stored: Callable[[TensorNode], bool], plan: LoopPlan, number: Mapping[int, int]) -> KeptKernel:
    pulled = pull(group.roots, stored, group.head is not None and not group.folded, plan)
    exact = NUMERICS.get() == "fixed"
    kernel: Kernel | NoFold = fixed(pulled.kernel) if exact else pulled.kernel
    if group.folded and isinstance(kernel, Kernel):
        kernel = online(kernel, products=True)
    elif group.head is None and isinstance(kernel, Kernel) and compares(kernel):
        kernel = online(kernel) or kernel  # argmax in one pass; where there is no fold, several are as good
    inputs, outputs = (tuple(number[id(n)] for n in ns) for ns in (pulled.inputs, pulled.outputs))
    if isinstance(kernel, Kernel):
        kernel = fixed(tidy(kernel)) if exact else tidy(kernel)
    return KeptKernel(kernel, inputs, outputs)


def _key(
    group: Group, nodes: list[TensorNode], number: Mapping[int, int], stored: Callable[[TensorNode], bool], plan: LoopPlan
) -> tuple[Any, ...]:
    """Equal for groups whose kernels are."""
    own = {id(r) for r in group.roots}
    memory: dict[int, int] = {}
    rows: list[Any] = []
    for n in nodes:
        if id(n) not in own and (n.data is not None or stored(n)):
            place = memory.setdefault(id(n.data) if n.data is not None else id(n), len(memory))
            rows.append(("leaf", place, n.shape, n.dtype, range_of(n)))
        else:
            rows.append((n.op, tuple(number[id(s)] for s in n.src), _shown(n), n.shape, n.dtype))
    order = tuple((number[id(r)], number[id(head)], dims) for r in group.roots if (loop := plan.loops.get(id(r))) for head, dims in (loop,))
    return tuple(rows), tuple(number[id(r)] for r in group.roots), group.head is not None, bool(group.folded), order


# calls ------------------------------------------------------------------------------------------------------
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

    @property
    def name(self) -> str:
        """For people."""
        return self.kernel.name


@dataclass(frozen=True)
class NumpyCall:
    """One call of NumPy's code."""

    call: HostCall
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    nodes: tuple[TensorNode, ...]
    rules: tuple[P.Rule, ...]

    @property
    def name(self) -> str:
        """For people."""
        return self.call.name


@dataclass(frozen=True)
class LoopBody:
    """What each step of a loop (without marks) computes. `made`: its calls; `leaves`: by leaf of that list the parameter of the loop that it
    is. `carries`: those that are computed. Outputs of the list are their new values, then the stacks `stacks` (numbers of nodes of the
    body), then what is stored on the way to a carry, then the test. `shared`: by carry, the stack (its position) that is the same node. `rows`: by parameter that
    goes along other rows than all of its own, where they are."""

    loop: GraphLoop
    made: CallList
    leaves: tuple[int, ...]
    carries: tuple[int, ...]
    stacks: tuple[int, ...]
    shared: Mapping[int, int]
    rows: Mapping[int, tuple[JoinedRows, ...]] = field(default_factory=dict)

    def rows_of(self, k: int) -> tuple[JoinedRows, ...]:
        """The rows that a parameter goes along."""
        return self.rows.get(k) or (JoinedRows(k, self.loop.trips),)


@dataclass(frozen=True, eq=False)
class LoopCall:
    """A loop. `inputs`: its sources; `outputs`: those of its outputs that somebody wants, whose nodes are `nodes`."""

    body: LoopBody
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    nodes: tuple[TensorNode, ...]
    rules: tuple[P.Rule, ...]

    @property
    def name(self) -> str:
        """For people."""
        return self.body.loop.name


Call = KernelCall | NumpyCall | LoopCall


def loop_body(loop: GraphLoop, wanted: Sequence[LoopOutput]) -> LoopBody:
    """The calls that compute these outputs of a loop without marks. A carry that none of them needs is not computed."""
    stacks = tuple(sorted({o.at for o in wanted if o.kind == "stack"}))
    others = [loop.order[at] for at in stacks]
    if loop.test is not None:
        others.append(loop.test)
    live = {o.at for o in wanted if o.kind == "final"}
    while True:
        reached = {id(n) for n in walk([*others, *(loop.outs[k] for k in live)])}
        more = {k for k in range(loop.carries) if id(loop.slots[k]) in reached} - live
        if not more:
            break
        live |= more
    carries = tuple(sorted(live))
    ends = {k for k in carries if any(loop.order[at] is loop.outs[k] for at in stacks)}
    shared: dict[int, int] = {}
    outs: list[TensorNode] = []
    known: set[int] = set()
    with interned_in({}):  # (each copy is a node of its own)
        first = [n for k in carries if k not in ends for n in _written(loop.outs[k], loop.slots[k])]
        others[len(stacks) : len(stacks)] = list({id(n): n for n in first}.values())
        for n in others:
            outs.append(_own(n, known))
        new = []
        for k in carries:
            same = next((i for i in range(len(stacks)) if outs[i] is loop.outs[k] and i not in shared.values()), None)
            if same is not None:
                shared[k] = same
            new.append(loop.outs[k] if same is not None else _own(loop.outs[k], known))
        made = copy_context().run(_of_step, [*new, *outs])
    rows = {k: tuple(JoinedRows(p, count) for p, count in joined) for k, joined in loop.joins}
    return LoopBody(loop, made, tuple(n.arg.number for n in made.nodes[: made.leaves]), carries, stacks, shared, rows)


def _of_step(outs: Sequence[TensorNode]) -> CallList:
    P.IN_STEPS.set(True)
    return call_list(outs)


def _written(new: TensorNode, old: TensorNode) -> list[TensorNode]:
    """What is written into parts of a carry, where it is made of other parts: stored first, so that the carry can be written over itself."""
    found = []
    while new.op == "elementwise" and new.arg == "where":
        _, value, new = new.src
        while value.op == "view":
            value = value.src[0]
        if value.size < old.size and not is_leaf(value) and any(n is old for n in walk([value])):
            found.append(value)
    return found if new is old else []


def _own(n: TensorNode, known: set[int]) -> TensorNode:
    """A node that is written for one purpose: what is read elsewhere, or written already, is copied."""
    if is_leaf(n) or id(n) in known:
        with interned_in({}):
            n = make("cast", (n,), None, n.shape, n.dtype)
    known.add(id(n))
    return n


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
            rows.append((n.op, tuple(number[id(s)] for s in n.src), _shown(n), n.shape, n.dtype.name))
    return (tuple(rows), tuple(number[id(o)] for o in outs))


def _shown(n: TensorNode) -> Any:
    """What distinguishes a node from others with its operation and sources, marks apart."""
    if n.op == "const":
        return type(n.arg), repr(n.arg)
    return None if n.op == "cast" else n.arg.plain if n.op == "loop" else n.arg


def call_list(outs: Sequence[TensorNode]) -> CallList:
    """Partition `outs` and pull every kernel. Where a fold turns out not to be possible, its contractions get memory. Raises
    InternalError where what a kernel reads is not proved to be written (`prove`)."""
    banned: dict[int, str] = {}
    leaves = leaves_of(outs)
    outs, before = unjoined(outs)
    outs, behind = P.apart(outs)
    behind = {**before, **{i: before.get(id(n), n) for i, n in behind.items()}}
    while True:
        parted = P.partition(outs, banned)
        strays = parted.strays()
        if strays:
            banned.update((id(n), "a kernel that cannot run in tiles reads it as well") for n in strays)
            continue
        plan = LoopPlan(parted.regions.plan.loops, parted.kept_types(), parted.regions.splits)
        made = [
            None if g.roots[0].op in ("host", "loop", "kernel") else kernel_of(g, parted.regions.is_stored, plan) for g in parted.groups
        ]
        failed = [(g, m) for g, m in zip(parted.groups, made, strict=True) if isinstance(m, NoFold)]
        banned.update((id(n), why.reason) for g, why in failed for n in g.folded)
        if not failed:
            found = _listed(outs, leaves, parted, [m for m in made if not isinstance(m, NoFold)], banned)
            found.nodes = [_given(n, behind) for n in found.nodes]
            return found


def _check_numerics(n: TensorNode) -> None:
    """Raise UsageError where NumPy's code would add in an order that nobody fixed."""
    if NUMERICS.get() == "fixed" and n.dtype.is_float and n.arg.name not in ORDERED:
        raise UsageError(
            f'jit(numerics="fixed"): {n.arg.name} is NumPy\'s own code, whose last bits nobody fixes; call it outside of the function, or '
            "take free numerics"
        )


def _given(n: TensorNode, behind: Mapping[int, TensorNode]) -> TensorNode:
    """The node of the given graph that a stored node stands for: it, or its source where it is kept in a wider type."""
    return behind.get(id(n)) or (cast(behind[id(n.src[0])], n.dtype) if n.op == "cast" and id(n.src[0]) in behind else n)


def _listed(
    outs: Sequence[TensorNode],
    leaves: Sequence[TensorNode],
    parted: P.Parted,
    made: Sequence[MadeKernel | None],
    banned: dict[int, str],
) -> CallList:
    kept = parted.kept_types()
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
        if m is None and group.roots[0].op == "loop":
            loop = group.roots[0].arg.loop.plain
            calls.append(LoopCall(loop_body(loop, [n.arg.plain for n in group.roots]), inputs, outputs, *why))
        elif m is None and group.roots[0].op == "kernel":
            calls.append(_own_call(group, place, rules))
        elif m is None:
            _check_numerics(group.roots[0])
            calls.append(NumpyCall(group.roots[0].arg, inputs, outputs, *why))
        else:
            calls.append(KernelCall(m.kernel, inputs, outputs, *why, bool(group.folded)))
    reasons = {n.line: text for n in parted.regions.graph.order if (text := banned.get(id(n)))}
    ends = tuple(place[_memory(n)] for n in outs)
    calls, gone = _rows_in_place(calls, nodes, place, ends)
    if gone:
        new = {p: i for i, p in enumerate(p for p in range(len(nodes)) if p not in gone)}
        calls = [replace(c, inputs=tuple(new[p] for p in c.inputs), outputs=tuple(new[p] for p in c.outputs)) for c in calls]
        nodes, ends = [nodes[p] for p in new], tuple(new[p] for p in ends)
    found = CallList(_late(calls, len(leaves)), len(leaves), nodes, ends, reasons)
    prove(found)
    return found


def _rows_in_place(
    calls: list[Call], nodes: Sequence[TensorNode], place: Mapping[int, Place], ends: Sequence[Place]
) -> tuple[list[Call], set[Place]]:
    """The calls, of which loops along rows of an array read them where they lie, as those of x[1:] and x[::2]; and places that need no copy.
    (One address moves by one stride, along several arrays too.)"""
    copies = {c.outputs[0] for c in calls if isinstance(c, KernelCall) and len(c.outputs) == 1 and nodes[c.outputs[0]].op == "view"}
    found: list[Call] = []
    for c in calls:
        if isinstance(c, LoopCall) and not copies.isdisjoint(c.inputs):
            loop, inputs, found_rows = c.body.loop, list(c.inputs), dict(c.body.rows)
            for k in range(loop.carries, loop.carries + loop.xs):
                rows = c.body.rows_of(k)
                for j, r in enumerate(rows):
                    n = nodes[inputs[r.parameter]]
                    base = place.get(_memory(n.src[0])) if inputs[r.parameter] in copies else None
                    lies = rows_of(n) if base is not None and (nodes[base].shape, nodes[base].dtype) == (n.arg.source, n.dtype) else None
                    if base is not None and lies is not None and (len(rows) == 1 or r.count == 1 or lies[1] == 1):
                        inputs[r.parameter] = base
                        rows = (*rows[:j], replace(r, first=lies[0], every=lies[1] if len(rows) == 1 else 1), *rows[j + 1 :])
                        found_rows[k] = rows
            c = replace(c, body=replace(c.body, rows=found_rows), inputs=tuple(inputs))
        found.append(c)
    read = {*ends, *(p for c in found for p in c.inputs)}
    gone = {p for p in copies if p not in read}
    return [c for c in found if gone.isdisjoint(c.outputs)], gone


def _late(calls: list[Call], leaves: int) -> list[Call]:
    """The calls, of which kernels that read nothing but what comes from outside stand right before the first that reads theirs: numbers of
    packed weights take memory no sooner. None passes another call that reads the same array, which may be written over there."""
    readers: dict[Place, list[int]] = {}
    for i, c in enumerate(calls):
        for p in c.inputs:
            readers.setdefault(p, []).append(i)

    def when(i: int) -> tuple[int, int]:
        c = calls[i]
        first = min((readers[p][0] for p in c.outputs if p in readers), default=i)
        moves = isinstance(c, KernelCall) and all(p < leaves and not any(i < r < first for r in readers[p]) for p in c.inputs)
        return (first, 0) if moves else (i, 1)

    return [calls[i] for i in sorted(range(len(calls)), key=when)]


def _own_call(group: Group, place: Mapping[int, Place], rules: Mapping[int, P.Rule]) -> KernelCall:
    """The call of a kernel of the user's, for the outputs that somebody wants."""
    roots = sorted(group.roots, key=lambda n: n.arg.at)
    own: OwnKernel = roots[0].arg.own
    inputs, outputs = (tuple(place[_memory(n)] for n in ns) for ns in (roots[0].src, roots))
    kernel = own.only([n.arg.at for n in roots])
    if NUMERICS.get() == "fixed":
        kernel = fixed(kernel)
    return KernelCall(kernel, inputs, outputs, tuple(roots), tuple(rules[id(n)] for n in roots))


def _memory(n: TensorNode) -> int:
    """What distinguishes arrays: leaves on one memory are one array."""
    return id(n.data) if n.data is not None else id(n)


# proof ------------------------------------------------------------------------------------------------------
# What is read was written: a list of calls is accepted only if each array is written once, whole, before it is read.
#
# A kernel proves when it is made that no index leaves the dimensions of its parameters. So where a parameter has as
# many elements as the array behind it, and the array was written whole, every element that is read has a value. The
# kernels of a list come out of several decisions of the partition, and nothing else compares what one stores with what
# another one reads. A list that fails is a fault of this tool: an error, and no result.


def prove(made: CallList) -> None:
    """Raise InternalError where a call reads, or the list leaves, what no call before has written whole and in that type. (NumPy's code
    writes whole arrays.)"""
    nodes, written = made.nodes, set(range(made.leaves))
    for c in made.calls:
        for p in c.inputs:
            if p not in written:
                raise _fault(f"{c.name} reads", nodes[p], "before any kernel has written it")
        for p in c.outputs:
            if p in written:
                raise _fault(f"{c.name} writes", nodes[p], "which has its values already")
        if isinstance(c, KernelCall):
            _prove_kernel(c.kernel, [nodes[p] for p in c.inputs], [nodes[p] for p in c.outputs])
        written.update(c.outputs)
    for p in made.outs:
        if p not in written:
            raise _fault("no kernel writes the result", nodes[p])


def _prove_kernel(kernel: Kernel, reads: list[TensorNode], writes: list[TensorNode]) -> None:
    """Whether a kernel's parameters are the arrays that it is called with, and it writes all of those that it stores."""
    for b, n in (*zip(kernel.inputs, reads, strict=True), *zip(kernel.outputs, writes, strict=True)):
        if b.dtype is not n.dtype or _count(b.shape) is not _count(extents(n.shape)):
            raise _fault(f"{kernel.name} takes {b.dtype}{list(b.shape)} for", n)
    for b, n in zip(kernel.outputs, writes, strict=True):
        if not written_whole(kernel, b):
            raise _fault(f"{kernel.name} does not write every element of", n)


def _count(shape: tuple[int | Node, ...]) -> Node:
    """How many elements a shape has: equal counts are one node."""
    out = const(1)
    for n in shape:
        out = ix.mul(out, as_node(n))
    return out


def _fault(what: str, n: TensorNode, more: str = "") -> InternalError:
    return InternalError(
        f"internal error: {what} {n.dtype}{list(n.shape)}{at(n.line)}{f', {more}' if more else ''}; "
        "no result is given, since it could be wrong: please report the function"
    )

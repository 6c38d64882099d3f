"""What fusion made of a graph, as plain data: each kernel, each stored tensor with the rule that stored it, and bytes.

Traffic is counted in bytes that have to move at least. A fused kernel reads each element that it uses once and writes
each result once (`ir.cost`). The comparison, *unfused*, is a kernel for each operation as NumPy has them: elementwise
operators, reductions and products of matrices each read their operands and write their result; movement is free, and
the products inside of a contraction are no array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...ir.cost import cost
from ..graph.loop_nodes import NEVER
from ..graph.nodes import FROM_OUTSIDE, TensorNode, constant_of
from ..graph.source_lines import show
from ..partition.heads import is_contraction
from .call_list import CallList, KernelCall, LoopCall, NumpyCall
from .kernel_names import inside

_MOVES = frozenset({"view", "cast", "after", "const", "iota"})


@dataclass(frozen=True)
class TensorFacts:
    """An array of a call list. `number`: its place there; `label`: an argument's name, or `t` and the number; `line`: the
    user's; `rule`: why it is stored ('' where it comes from outside); `made_by`: the number of its kernel (None: from
    outside)."""

    number: int
    label: str
    line: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    rule: str = ""
    made_by: int | None = None
    output: bool = False


@dataclass(frozen=True)
class KernelFacts:
    """One kernel, or one call of NumPy's code. `nbytes`: what it moves; `unfused`: what its operations would move one by
    one; `kept`: bytes of intermediates that never reach memory. `lines`: the users' lines whose operations it holds. `loop`: of a loop, whose kernels follow, how often
    they run; of one of these, the loop that it is in."""

    number: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flops: int
    nbytes: int
    unfused: int
    kept: int
    folded: bool
    lines: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    host: bool = False
    loop: str = ""


@dataclass(frozen=True)
class GraphFacts:
    """A whole graph. `unfolded`: (line, reason) of contractions that could not run in tiles inside of another kernel."""

    kernels: tuple[KernelFacts, ...]
    tensors: tuple[TensorFacts, ...]
    unfolded: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        """Nothing but dicts, lists, texts and numbers."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GraphFacts:
        """What `to_json` gave. Raises TypeError, KeyError or ValueError for anything else."""
        kernels = [KernelFacts(**_frozen(d)) for d in data["kernels"]]
        tensors = [TensorFacts(**_frozen(d)) for d in data["tensors"]]
        return cls(tuple(kernels), tuple(tensors), tuple((str(a), str(b)) for a, b in data["unfolded"]))

    @property
    def flops(self) -> int:
        """Of all kernels."""
        return sum(k.flops for k in self.kernels)

    @property
    def nbytes(self) -> int:
        """What all kernels move."""
        return sum(k.nbytes for k in self.kernels)

    @property
    def unfused(self) -> int:
        """What all operations would move one by one."""
        return sum(k.unfused for k in self.kernels)

    @property
    def kept(self) -> int:
        """Bytes of intermediates that never reach memory."""
        return sum(k.kept for k in self.kernels)


def _frozen(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def graph_facts(made: CallList, labels: dict[int, str]) -> GraphFacts:
    """The facts of a call list; `labels`: names of leaves by place."""
    kernels: list[KernelFacts] = []
    tensors: list[TensorFacts] = []
    for here, first, within in _lists(made):
        rules: dict[int, tuple[str, int]] = {}
        for call in here.calls:
            number = len(kernels)
            rules.update({p: (str(rule), number) for p, rule in zip(call.outputs, call.rules, strict=True)})
            kernels.append(_moved(_kernel(number, call, here), first, within))
        for place, n in enumerate(here.nodes):
            rule, by = rules.get(place, ("", None))
            line = show(n.line)
            at = first + place
            label = (labels.get(place) if not within else None) or (f"t{at}" if by is not None or within else f"{line} t{at}".strip())
            output = not within and place in here.outs
            tensors.append(TensorFacts(at, label, line, n.shape, n.dtype.name, _nbytes(n), rule, by, output))
    return GraphFacts(tuple(kernels), tuple(tensors), tuple((show(line), why) for line, why in made.unfolded.items()))


def _lists(made: CallList) -> Iterator[tuple[CallList, int, str]]:
    """A list, and those of its loops' steps: (list, the number of its first array, the loop)."""
    todo: list[tuple[CallList, str]] = [(made, "")]
    first = 0
    while todo:
        here, within = todo.pop(0)
        yield here, first, within
        first += len(here.nodes)
        todo += [(c.body.made, f"each step of {c.name}, {_trips(c)}") for c in here.calls if isinstance(c, LoopCall)]


def every_call(made: CallList) -> list[KernelCall | NumpyCall | LoopCall]:
    """The calls of a list and of its loops' steps, as `graph_facts` numbers them."""
    return [c for here, _, _ in _lists(made) for c in here.calls]


def _trips(call: LoopCall) -> str:
    trips = call.body.loop.trips
    return "until its condition fails" if trips == NEVER else f"{trips!r} times"


def _moved(k: KernelFacts, first: int, within: str) -> KernelFacts:
    inputs, outputs = (tuple(first + p for p in ps) for ps in (k.inputs, k.outputs))
    return replace(k, inputs=inputs, outputs=outputs, loop=k.loop or within)


def _kernel(number: int, call: KernelCall | NumpyCall | LoopCall, made: CallList) -> KernelFacts:
    if isinstance(call, LoopCall):
        lines = tuple(dict.fromkeys(show(n.line) for n in call.nodes))
        return KernelFacts(
            number, call.name, call.inputs, call.outputs, 0, 0, 0, 0, False, lines, loop=f"the kernels of its steps, {_trips(call)}"
        )
    if isinstance(call, NumpyCall):
        moved = sum(_nbytes(made.nodes[p]) for p in (*call.inputs, *call.outputs))
        lines = tuple(dict.fromkeys(show(n.line) for n in call.nodes))
        return KernelFacts(number, call.call.name, call.inputs, call.outputs, 0, moved, moved, 0, False, lines, host=True)
    nodes = computed(call, made)
    work = cost(call.kernel)
    own = {id(n) for n in nodes}
    stored = {id(n) for n in call.nodes}
    # (a view or a number may be one with another line's)
    done = [n for n in nodes if id(n) in stored or (n.op != "view" and constant_of(n) is None)]
    lines = tuple(dict.fromkeys(text for n in done if (text := show(n.line))))
    parameters = tuple(f"{b.name}: {b.dtype}{list(b.shape)}" for b in call.kernel.buffers)
    return KernelFacts(
        number,
        call.kernel.name,
        tuple(dict.fromkeys(call.inputs)),
        call.outputs,
        work.flops + work.poly_flops,
        work.bytes,
        max(work.bytes, _one_by_one(nodes, own)),
        sum(_nbytes(n) for n in _operations(nodes) if id(n) not in stored and not _stored_through(n, nodes, stored)),
        call.folded,
        lines,
        parameters,
    )


def computed(call: KernelCall, made: CallList) -> list[TensorNode]:
    """The nodes that a kernel computes, sources first."""
    made_by_calls = {p: n for c in made.calls for p, n in zip(c.outputs, c.nodes, strict=True)}
    ends = {id(made_by_calls.get(p, made.nodes[p])) for p in call.inputs}
    memory = {id(n.data) for p in call.inputs if (n := made.nodes[p]).data is not None}

    def end(n: TensorNode) -> bool:
        return id(n) in ends or n.op in FROM_OUTSIDE or (n.data is not None and id(n.data) in memory)

    return inside(call.nodes, end)


def _operations(nodes: Sequence[TensorNode]) -> list[TensorNode]:
    """Nodes that would be arrays if each operation were a kernel of its own. (Masks made of `arange`s depend on no array,
    and are no traffic either way.)"""
    products = {id(_product(n)) for n in nodes if is_contraction(n)}
    own, varies = {id(n) for n in nodes}, set()
    for n in nodes:
        if any(id(s) not in own or id(s) in varies for s in n.src):
            varies.add(id(n))
    return [n for n in nodes if n.op not in _MOVES and id(n) not in products and id(n) in varies]


def _product(n: TensorNode) -> TensorNode:
    p = n.src[0]
    while p.op in ("cast", "after"):
        p = p.src[0]
    return p


def _stored_through(n: TensorNode, nodes: Sequence[TensorNode], stored: set[int]) -> bool:
    """Whether the store is of a view of the node."""
    reach = {id(n)}
    for m in nodes:
        if m.op in _MOVES and any(id(s) in reach for s in m.src):
            reach.add(id(m))
    return bool(reach & stored)


def _one_by_one(nodes: Sequence[TensorNode], own: set[int]) -> int:
    """Bytes that the operations would move as kernels of their own."""
    total = 0
    arrays = _operations(nodes)
    known = {id(n) for n in arrays}
    for n in arrays:
        sources = [_array(s, own) for s in (_product(n).src if is_contraction(n) else n.src)]
        read = {id(a): _nbytes(a) for a in sources if id(a) not in own or id(a) in known}
        total += _nbytes(n) + sum(read.values())
    return total


def _array(s: TensorNode, own: set[int]) -> TensorNode:
    """The array behind views and conversions."""
    while s.op in _MOVES and s.src and id(s) in own:
        s = s.src[0]
    return s


def _nbytes(n: TensorNode) -> int:
    return n.size * n.dtype.size

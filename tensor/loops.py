"""Loops and branches in graphs: `scan`, `fori_loop`, `while_loop` and `cond`, with JAX's meaning and order of arguments.

The body is called once, on tensors without values, and compiled once, whatever the number of steps. See `graph/loop_nodes.py` for what
comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ..devices.once import process_lock
from ..ir.dtypes import bool_, int64, uint8
from ..ir.errors import UsageError
from .capture.call_sequence import in_python
from .capture.compiled_function import kernel_calls, linked_calls
from .capture.loop_memory import placed_loops
from .frontends.habits import answered
from .fusion.call_list import LoopCall
from .gradients.checkpoint import rebuild
from .graph import primitives as P
from .graph.captured_numbers import captured, plain
from .graph.index_checks import IndexRow, furthest
from .graph.index_maps import Shape
from .graph.loop_nodes import NEVER, GraphLoop, final, stack
from .graph.nodes import Slot, TensorNode, differentiated, interned_in, make, range_of, walk
from .graph.source_lines import at, user_line
from .graph.symbolic_sizes import SymbolicSize
from .ops.creation import zeros
from .ops.elementwise import choose
from .ops.joining import stack as joined
from .running import buffers
from .running.buffers import TensorBuffer
from .running.compiled_kernels import compiled_kernel_for
from .running.current_capture import capturing, collecting, current
from .running.observers import timed
from .running.pools import rooms_of
from .running.realise import install
from .tensor import Tensor, leaves_of
from .trees import Structure, tree_map, unflatten, ways

# eager loops ----------------------------------------------------------------------------------------------------------
# Loops outside of captured functions: each is linked when it is first computed.


class EagerLoop:
    """A loop that runs on buffers."""

    def __init__(self, call: LoopCall, device: str) -> None:
        from ..plan import Replay

        loops = placed_loops([call], device, rooms_of(device) is not None)
        every = [c.kernel for c, _ in kernel_calls([call], loops)]
        executables = iter([compiled_kernel_for(k, device).executable for k in every])
        (linked,) = linked_calls([call], loops, device, len(call.inputs) + len(call.outputs), executables)
        assert linked.loop is not None
        self.loop, self.device, self.name = linked.loop, device, call.name
        self.room = loops[0].room
        self.shapes = [(n.shape, n.dtype.np) for n in call.nodes]
        count = len(call.inputs) + len(call.outputs) + 1
        self.replay = Replay([self.loop.bound((0,) * count)], [[(0, i)] for i in range(count)]) if self.loop.native else None

    def run(self, inputs: Sequence[TensorBuffer], outputs: Sequence[TensorBuffer]) -> None:
        """The loop, once."""
        if self.replay is None:
            found = in_python(self.loop, (), [b.array for b in inputs], (), self.shapes)
            for b, values in zip(outputs, found, strict=True):
                buffers.fill(b, values)
            return
        room = buffers.new((self.room,), uint8, self.device, ("", 0))
        with timed("kernel", self.name, self.device):
            self.replay.run(*[b.address for b in (*inputs, *outputs, room)])


_runners: WeakKeyDictionary[LoopCall, dict[str, Any]] = WeakKeyDictionary()
_lock = process_lock()


def run_loop(call: LoopCall, inputs: Sequence[TensorBuffer], outputs: Sequence[TensorBuffer], device: str) -> None:
    """Compute the outputs of a loop."""
    with _lock:
        known = _runners.setdefault(call, {})
        found = known.get(device)
        if found is None:
            found = known[device] = EagerLoop(call, device)
    found.run(inputs, outputs)


# loops ----------------------------------------------------------------------------------------------------------------


install(run_loop)


class _Way(threading.local):
    """How this thread's loops are made."""

    steps = False


_way = _Way()


@contextmanager
def written_out() -> Iterator[None]:
    """While this is open, loops are their steps one after the other, and branches are both computed: for what runs without this package."""
    before, _way.steps = _way.steps, True
    try:
        yield
    finally:
        _way.steps = before


def _require_functions(order: str, *functions: Any) -> None:
    """Raise UsageError where something else stands in a function's place. `order`: how the loop is called."""
    for f in functions:
        if not callable(f):
            raise UsageError(f"{order.partition('(')[0]}: {type(f).__name__} where a function is wanted, {order}{at(user_line())}")


@answered
def scan(f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> tuple[Any, Any]:
    """(last carry, ys) of `carry, y = f(carry, x)` for each element x of `xs` along dimension 0, as `jax.lax.scan`.

    `init`, `xs`, carries and ys are trees. The carry keeps its structure, shapes and types; ys have a new dimension 0. `length`: the number
    of steps where there are no `xs`. `reverse`: from the last element to the first (ys lie where their elements do). Gradients keep the
    carries of all steps, and the results of products.

    Raises UsageError where lengths differ, where the carry changes its structure, a shape or a type (it names the leaf), and where the
    body assigns to a tensor from outside."""
    _require_functions("scan(f, init, xs)", f)
    carry, shape = leaves_of(init)
    given, xs_shape = leaves_of(xs)
    device = device_of([*carry, *given])
    arrays = [tensor_of(x, device).node for x in given]
    trips = _length(arrays, leaf_names(xs_shape, "xs"), length)
    if _way.steps and trips != 0:
        return _written_out(
            f, tree_map(lambda x: tensor_of(x, device), init), unflatten(xs_shape, _tensors(arrays, device)), trips, reverse
        )
    elements = [slot_like(n, n.shape[1:]) for n in arrays]

    def body(*leaves: TensorNode) -> Any:
        tensors = [Tensor.of(n, device) for n in leaves]
        result = f(unflatten(shape, tensors[: len(carry)]), unflatten(xs_shape, tensors[len(carry) :]))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise UsageError(f"scan: the function returns a pair (carry, y), not {type(result).__name__}{at(user_line())}")
        return tuple(result)

    first, slots, made = _steady(carry, device, lambda slots: traced("scan", body, [*slots, *elements], device))
    ((carried, ys_shape),) = made.structure[1:]  # type: ignore[index]
    _check_carry("scan", carried, made.nodes, shape, first, "carry")
    last, ys = _run(LoopShape("scan", trips, slots, elements, reverse=reverse), made, len(carry), first, arrays)
    return unflatten(shape, _tensors(last, device)), unflatten(ys_shape, _tensors(ys, device))


@answered
def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any) -> Any:
    """`val = body_fun(i, val)` for i from `lower` to `upper` − 1, as `jax.lax.fori_loop`; the last value. `i` is an int64 tensor.

    Where both bounds are numbers (or symbolic sizes), it has gradients. Bounds that are tensors, or numbers that change from call to call
    of a captured function, become a `while_loop`, which has none. Raises UsageError as `scan`."""
    _require_functions("fori_loop(lower, upper, body_fun, init_val)", body_fun)
    leaves, shape = leaves_of(init_val)
    device = device_of([*leaves, lower, upper])
    if any(isinstance(b, Tensor) or captured(b) for b in (lower, upper)):
        start, end = tensor_of(lower, device).astype(int64), tensor_of(upper, device).astype(int64)
        _, found = while_loop(lambda s: s[0] < end, lambda s: (s[0] + 1, body_fun(s[0], s[1])), (start, init_val))
        return found
    low, high = (n if isinstance(n, SymbolicSize) else _whole("fori_loop", n) for n in (lower, upper))
    trips = _trips(low, high)
    if _way.steps and trips != 0:
        step = lambda v, _, i: (body_fun(Tensor.of(P.const(low + i, int64), device), v), None)  # noqa: E731
        return _written_out(step, tree_map(lambda x: tensor_of(x, device), init_val), None, trips, False, counted=True)[0]
    known = None if isinstance(low, SymbolicSize) or isinstance(trips, SymbolicSize) else (low, max(low, low + trips - 1))
    counter = make("slot", (), Slot.new(known), (), int64)
    body = lambda i, *nodes: body_fun(Tensor.of(i, device), unflatten(shape, _tensors(nodes, device)))  # noqa: E731
    first, slots, made = _steady(leaves, device, lambda slots: traced("fori_loop", body, [counter, *slots], device))
    _check_carry("fori_loop", made.structure, made.nodes, shape, first, "value")
    last, _ = _run(LoopShape("fori_loop", trips, slots, [], counter=counter, start=low), made, len(first), first, [])
    return unflatten(shape, _tensors(last, device))


@answered
def while_loop(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any, *, seconds: float | None = None) -> Any:
    """`val = body_fun(val)` while `cond_fun(val)` holds, as `jax.lax.while_loop`; the last value. `cond_fun` returns one bool.

    `seconds`: how long it may take; then OutOfTimeError is raised. Ctrl-C ends it at any time. It has no gradient: use `scan` or `fori_loop`
    with a number of steps. Raises UsageError as `scan`, and where the condition is no single bool."""
    _require_functions("while_loop(cond_fun, body_fun, init_val)", cond_fun, body_fun)
    leaves, shape = leaves_of(init_val)
    device = device_of(leaves)
    if _way.steps:
        raise UsageError(f"while_loop: how many steps there are is not known before, so they cannot be written out{at(user_line())}")
    step = lambda *n: body_fun(unflatten(shape, _tensors(n, device)))  # noqa: E731
    first, slots, made = _steady(leaves, device, lambda slots: traced("while_loop", step, slots, device))
    _check_carry("while_loop", made.structure, made.nodes, shape, first, "value")
    gate = _one_bool("while_loop", "the condition", tensor_of(cond_fun(unflatten(shape, _tensors(first, device))), device).node)
    again = traced("while_loop", lambda *n: cond_fun(unflatten(shape, _tensors(n, device))), made.nodes, device)
    made.made |= again.made
    made.table = (made.table, again.table)
    test = _one_bool("while_loop", "the condition", again.nodes[0])
    body = LoopShape("while_loop", NEVER, slots, [], seconds=seconds)
    last, _ = _run(body, made, len(first), first, [], gate, test)
    return unflatten(shape, _tensors(last, device))


@answered
def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands)` where `pred`, one bool, holds, else `false_fun(*operands)`, as `jax.lax.cond`. Only one of them is computed.

    Both return the same structure, shapes and types. Gradients go through the branch that was taken. Raises UsageError where the results
    differ (it names the leaf), and where `pred` is no single bool."""
    _require_functions("cond(pred, true_fun, false_fun, *operands)", true_fun, false_fun)
    leaves, _ = leaves_of(operands)
    device = device_of([pred, *leaves])
    if isinstance(pred, (bool, int)) and not isinstance(pred, SymbolicSize):
        return (true_fun if pred else false_fun)(*operands)
    gate = _one_bool("cond", "the predicate", tensor_of(pred, device).node)
    both = [traced("cond", f, operands, device) for f in (true_fun, false_fun)]
    yes, no = both
    names = leaf_names(yes.structure, "result")
    if yes.structure != no.structure:
        raise UsageError(
            f"cond: true_fun returns {_shown(yes)}, and false_fun {_shown(no)}: both must return the same structure{at(user_line())}"
        )
    for name, a, b in zip(names, yes.nodes, no.nodes, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise UsageError(
                f"cond: {name} is {a.dtype}{list(a.shape)} by true_fun, and {b.dtype}{list(b.shape)} by false_fun{at(user_line())}"
            )
    if _way.steps:
        both_nodes = zip(*(leaves_of(f(*operands))[0] for f in (true_fun, false_fun)), strict=True)
        picked = [
            choose(P.expand(gate, a.shape), a, b)
            for a, b in ((tensor_of(x, device).node, tensor_of(y, device).node) for x, y in both_nodes)
        ]
        return unflatten(yes.structure, _tensors(picked, device))
    found = [zeros(n.shape, dtype=n.dtype) for n in yes.nodes]
    for made, open_ in ((yes, gate), (no, P.elementwise("not", gate))):
        slots = [slot_like(n) for n in found]
        found, _ = _run(LoopShape("cond", 1, slots, []), made, len(found), found, [], open_)
    return unflatten(yes.structure, _tensors(found, device))


def _written_out(f: Callable[..., Any], carry: Any, xs: Any, trips: int, reverse: bool, counted: bool = False) -> tuple[Any, Any]:
    """What `scan` returns, of steps that are written out. `counted`: the function gets the number of the step, too."""
    if isinstance(trips, SymbolicSize):
        raise UsageError(f"scan: {trips!r} steps cannot be written out, since their number differs from call to call{at(user_line())}")
    ys: list[Any] = [None] * trips
    for t in reversed(range(trips)) if reverse else range(trips):
        carry, ys[t] = f(carry, tree_map(lambda x: x[t], xs), *([t] if counted else []))  # noqa: B023
    return carry, tree_map(lambda *rows: Tensor.of(joined([r.node for r in rows]), rows[0].device), *ys)


# how ----------------------------------------------------------------------------------------------------------------
class LoopShape:
    """What a loop is but for what its function returned."""

    def __init__(
        self, name: str, trips: int, slots: Sequence[TensorNode], elements: Sequence[TensorNode], reverse: bool = False,
        counter: TensorNode | None = None, start: int = 0, seconds: float | None = None,
    ) -> None:  # fmt: skip
        self.name, self.trips, self.slots, self.elements = name, trips, list(slots), list(elements)
        self.reverse, self.counter, self.start, self.seconds = reverse, counter, start, seconds


def _run(
    body: LoopShape, made: TracedBody, carries: int, first: Sequence[TensorNode], arrays: Sequence[TensorNode], gate: TensorNode | None = None,
    test: TensorNode | None = None,
) -> tuple[list[TensorNode], list[TensorNode]]:  # fmt: skip
    """(last values of the carries, stacks of what else the body made). What no step changes is no carry."""
    new, ys = made.nodes[:carries], made.nodes[carries:]
    if not isinstance(body.trips, SymbolicSize) and body.trips == 0:
        return list(first), [zeros((0, *y.shape), dtype=y.dtype) for y in ys]
    kept = [k for k in range(carries) if new[k] is not body.slots[k]]
    if test is not None and not kept:
        raise UsageError(f"{body.name}: a step changes nothing, so its condition would hold for ever{at(user_line())}")
    still = [k for k in range(carries) if new[k] is body.slots[k]]
    own = [*(body.slots[k] for k in kept), *body.elements, *(body.slots[k] for k in still)]
    lifted = LiftedBody([*own, *([] if body.counter is None else [body.counter])])
    roots = lifted.lifted([*(new[k] for k in kept), *ys, *([] if test is None else [test])], made.made, made.table)
    outs = roots[: len(kept) + len(ys)]
    seen = lifted.furthest(roots)
    slots, starts = [slot_like(top) for _, top in seen], [P.const(0, top.dtype) for _, top in seen]
    outs[len(kept) : len(kept)] = lifted.largest(slots, [top for _, top in seen])
    count = len(kept) + len(seen)
    loop = GraphLoop(
        body.name, body.trips, count, len(arrays), (*own[: len(kept)], *slots, *own[len(kept) :], *lifted.slots), tuple(outs),
        None if test is None else roots[-1], body.counter, body.start, gate is not None, body.reverse, body.seconds,
        tuple((len(kept) + i, row) for i, (row, _) in enumerate(seen)),
    )  # fmt: skip
    src = [*(first[k] for k in kept), *starts, *arrays, *(first[k] for k in still), *lifted.sources, *([] if gate is None else [gate])]
    last = list(first)
    for i, k in enumerate(kept):
        last[k] = final(loop, src, i)
    return last, [stack(loop, src, y) for y in outs[count:]]


def _tensors(nodes: Sequence[TensorNode], device: str) -> list[Tensor]:
    return [Tensor.of(n, device) for n in nodes]


def _steady(
    leaves: Sequence[Any], device: str, trace: Callable[[list[TensorNode]], TracedBody]
) -> tuple[list[TensorNode], list[TensorNode], TracedBody]:
    """(first values of carries, slots for them, the body on these). A Python number takes the type that the steps make of it."""
    first = [tensor_of(x, device).node for x in leaves]
    slots = [slot_like(n) for n in first]
    made = trace(slots)
    weak = [
        i for i, (x, n) in enumerate(zip(leaves, made.nodes))
        if isinstance(x, (bool, int, float)) and n.shape == () and n.dtype is not first[i].dtype and (n.dtype.is_float or isinstance(x, int))
    ]  # fmt: skip
    if weak:
        for i in weak:
            first[i] = P.const(leaves[i], made.nodes[i].dtype)
        slots = [slot_like(n) for n in first]
        made = trace(slots)
    return first, slots, made


def _whole(name: str, n: Any) -> int:
    from operator import index

    try:
        return index(plain(n))
    except TypeError:
        raise UsageError(f"{name}: {n!r} is no whole number: give ints, symbolic sizes or integer tensors{at(user_line())}") from None


def _trips(low: int, high: int) -> int:
    """high − low, at least 0. Raises UsageError for a symbolic number of steps that may be less."""
    trips = high - low
    return trips if isinstance(trips, SymbolicSize) and trips >= 0 else 0 if trips < 0 else trips


def _length(arrays: Sequence[TensorNode], names: Sequence[str], length: Any) -> int:
    if length is not None and not isinstance(length, SymbolicSize):
        length = _whole("scan", length)
        if length < 0:
            raise UsageError(f"scan: a length of {length}: give a number of steps from 0 on{at(user_line())}")
    found, who = length, "length"
    for n, name in zip(arrays, names, strict=True):
        if not n.shape:
            raise UsageError(f"scan: {name} has no dimension to go along{at(user_line())}")
        if found is None:
            found, who = n.shape[0], name
        elif n.shape[0] != found:
            raise UsageError(f"scan: {name} has {n.shape[0]} elements along dimension 0, and {who} says {found}{at(user_line())}")
    if found is None:
        raise UsageError(f"scan: there are no xs, so give length={at(user_line())}")
    count: int = found
    return count


def _check_carry(
    name: str, structure: Structure, nodes: Sequence[TensorNode], shape: Structure, first: Sequence[TensorNode], what: str
) -> None:
    """Whether a step returns what it got."""
    if structure != shape:
        raise UsageError(
            f"{name}: the {what} begins as {len(leaf_names(shape, what))} tensors ({', '.join(leaf_names(shape, what)) or 'none'}), and a "
            f"step returns {len(leaf_names(structure, what))} ({', '.join(leaf_names(structure, what)) or 'none'}): it must keep its "
            f"structure{at(user_line())}"
        )
    for before, after, leaf in zip(first, nodes, leaf_names(shape, what)):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise UsageError(
                f"{name}: {leaf} begins as {before.dtype}{list(before.shape)}, and a step returns {after.dtype}{list(after.shape)}: "
                f"it must keep its shape and type (begin with that, or convert it with .astype){at(user_line())}"
            )


def _one_bool(name: str, what: str, n: TensorNode) -> TensorNode:
    if n.shape != () or n.dtype is not bool_:
        raise UsageError(f"{name}: {what} is {n.dtype}{list(n.shape)}, where one bool is needed, such as (x > 0).any(){at(user_line())}")
    return n


def _shown(made: TracedBody) -> str:
    return f"({', '.join(leaf_names(made.structure, 'result')) or 'nothing'})"


# bodies ---------------------------------------------------------------------------------------------------------------
# Bodies of loops: a function is called once on tensors without values, and what it takes from elsewhere becomes a source of the loop.
#
# What depends on no carry, no element and no counter is the same in every step. It is computed once, before the loop, but for constants
# and for views, which cost nothing where they are read.


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
    return [name + "".join(f".{k}" if what == "field" else f"[{k!r}]" for what, k in way) for way in ways(structure)]


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
        leaves, structure = leaves_of(f(*args))
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
            return [row.in_steps(top) for row, top in furthest(walk(roots, lambda n: not n.src, differentiated))]

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

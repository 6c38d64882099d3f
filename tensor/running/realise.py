"""Realising: the call list of a graph, found or made, run now on new memory.

Lists are remembered by the graph without the memory of its leaves (`detached`), so that they keep no tensor alive."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...devices.once import process_lock, undivided
from ...ir.dtypes import bool_
from ...ir.errors import TilewrightError, UsageError
from ..fusion.call_list import Call, CallList, KernelCall, LoopCall, NumpyCall, call_list, key_of, leaves_of
from ..graph import index_maps as maps
from ..graph.index_checks import CHECK, check_of
from ..graph.nodes import FROM_OUTSIDE, Slot, TensorNode, range_of, walk
from . import buffers
from .compiled_kernels import bound
from .current_capture import check_values, current
from .numpy_evaluation import is_numpys
from .observers import NANS, WATCH, timed
from .pools import POOLED_FROM, zeros

if TYPE_CHECKING:
    from .buffers import TensorBuffer


def detached(outs: Sequence[TensorNode]) -> tuple[list[TensorNode], list[TensorNode]]:
    """Copies of `outs` and all behind them, in which leaves are slots; and the leaves, by the numbers of their slots. Leaves
    on one memory are one slot, and those behind what has no elements are none. Marks of casts, which say something of gradients
    only and may know other nodes, stay behind; outputs of loops that differed by marks alone are one."""
    copies: dict[int, TensorNode] = {}
    of_loops: dict[tuple[Any, ...], TensorNode] = {}
    leaves: dict[int, TensorNode] = {}
    found: list[TensorNode] = []
    for n in walk(outs):
        if n.data is not None or n.op in FROM_OUTSIDE:
            at = id(n.data) if n.data is not None else id(n)
            if at not in leaves:
                found.append(n)
                leaves[at] = _copy(n, "slot", (), Slot(len(leaves), range_of(n)))
            copies[id(n)] = leaves[at]
        elif 0 in n.shape:
            copies[id(n)] = _without_elements(n)
        else:
            new = _copy(n, n.op, tuple(copies[id(s)] for s in n.src), _without_marks(n))
            copies[id(n)] = of_loops.setdefault((new.arg, *map(id, new.src)), new) if n.op == "loop" else new
    return [copies[id(o)] for o in outs], found


def _without_marks(n: TensorNode) -> Any:
    return None if n.op == "cast" else n.arg.plain if n.op == "loop" else n.arg


def copied(n: TensorNode) -> TensorNode:
    """The same operation as a node of its own, which no other expression is one with."""
    return _copy(n, n.op, n.src, n.arg)


def _without_elements(n: TensorNode) -> TensorNode:
    """What has no elements as a constant: a kernel that reads what it was made from could not say where."""
    zero = _copy(n, "const", (), False if n.dtype is bool_ else 0.0 if n.dtype.is_float else 0)
    zero.shape = ()
    return _copy(n, "view", (zero,), maps.broadcast((), n.shape))


def _copy(n: TensorNode, op: str, src: tuple[TensorNode, ...], arg: object) -> TensorNode:
    new = TensorNode.__new__(TensorNode)
    new.op, new.src, new.arg, new.shape, new.dtype, new.line, new.data = op, src, arg, n.shape, n.dtype, n.line, None
    new.tracked = False
    return new


MOST_LISTS = 512
"""Call lists that are remembered."""

_lists: OrderedDict[tuple[Any, ...], CallList] = OrderedDict()
_lock = process_lock()


def listed(outs: Sequence[TensorNode]) -> CallList:
    """The call list of a graph, made when it is first asked for."""
    key = key_of(outs)
    _finished(key)
    with _lock:
        found = _lists.get(key)
        if found is not None:
            _lists.move_to_end(key)
            return found
    return _made(key, detached(outs)[0])


def _made(key: tuple[Any, ...], outs: Sequence[TensorNode]) -> CallList:
    with timed("graph", "partition and pull"), undivided():
        found = call_list(outs)
    with _lock:
        _lists[key] = found
        while len(_lists) > MOST_LISTS:
            _lists.popitem(last=False)
    return found


_preparing: dict[tuple[Any, ...], threading.Thread] = {}
"""By key of a graph: who compiles its kernels, while NumPy computes it."""


def prepare(outs: Sequence[TensorNode], device: str) -> None:
    """Compile a graph's kernels in a thread of their own."""
    wanted = [*outs, *check_of(outs)]
    key, copies = key_of(wanted), detached(wanted)[0]

    def work() -> None:
        try:
            for call in _made(key, copies).calls:
                if isinstance(call, KernelCall):
                    bound(call.kernel, device)
        except TilewrightError:
            pass  # whoever needs the kernels is told of it then
        finally:
            with _lock:
                _preparing.pop(key, None)

    thread = threading.Thread(target=copy_context().run, args=(work,), name="kernels of a graph")
    with _lock, suppress(RuntimeError):  # (at the end of a process no thread begins any more)
        thread.start()  # (before anybody can find it, and wait for it)
        _preparing[key] = thread


def _finished(key: tuple[Any, ...] | None = None) -> None:
    """Wait for who compiles the kernels of a graph (None: of any)."""
    if not _preparing:
        return
    with _lock:
        found = [t for k, t in _preparing.items() if key in (None, k)]
    for thread in found:
        if thread is not threading.current_thread():
            thread.join()


os.register_at_fork(before=_finished)  # (a child has no such thread, and would find its locks held)


def device_of(leaves: Sequence[TensorNode], default: str) -> str:
    """The one device that all leaves lie on. Raises UsageError."""
    found = dict.fromkeys(n.data.device for n in leaves if n.data is not None)
    if len(found) > 1:
        raise UsageError(f"tensors lie on different devices ({', '.join(found)}): move them to one with .to()")
    return next(iter(found), default)


def realise(outs: Sequence[TensorNode], device: str = "cpu") -> None:
    """Give every node of `outs` memory with its values. Raises UsageError where they are not known, as while a function is
    captured, and OutOfRangeError where an index is."""
    if current() is not None:
        check_values(outs)
    wanted = [n for n in {id(o): o for o in outs if o.data is None}.values() if not _of_zeros(n, device)]
    if not wanted:
        return
    leaves = leaves_of(wanted)
    if any(n.data is None for n in leaves):
        check_values(wanted)
    device = device_of(leaves, device)
    if is_numpys(wanted, device, lambda: key_of(wanted), lambda: prepare(wanted, device)):
        from .numpy_evaluation import compute

        with timed("numpy", "small graph", device):
            compute(wanted, device)
        return
    check = check_of(wanted)
    made = listed([*wanted, *check])
    read = [leaves[n.arg.number] for n in made.nodes[: made.leaves]]
    places: list[TensorBuffer | None] = [n.data if n.data is not None else _parameter(n, device) for n in read]
    places += [None] * (len(made.nodes) - len(read))
    last = _last_uses(made)
    for i, call in enumerate(made.calls):
        if isinstance(call, NumpyCall) and call.call.name == CHECK:
            call = replace(call, call=check[0].arg)  # the list may be of another graph like this one, with other lines
        for p in call.outputs:
            n = made.nodes[p]
            places[p] = buffers.new(n.shape, n.dtype, device, n.line)
        if WATCH.observer is None:
            _run(call, places, device)
        else:
            _watched(call, places, device)
        for p in last.get(i, ()):
            places[p] = None
    if NANS.on:
        from .nan_search import has_nan, look

        if any(has_nan(b.array) for p in made.outs if (b := places[p]) is not None):
            look(wanted, made.calls[-1].name, lambda n: realise([n], device))
    for n, p in zip(wanted, made.outs[: len(wanted)], strict=True):
        n.data = places[p]


def _of_zeros(n: TensorNode, device: str) -> bool:
    """Whether a node has nothing but zeros, and got the system's: a cache of keys and values takes memory as it is written."""
    if n.op != "view" or n.src[0].op != "const" or n.src[0].arg != 0 or str(n.src[0].arg) == "-0.0" or n.arg.mask is not None:
        return False
    spec = buffers.BufferSpec(n.shape, n.dtype, device, n.line)
    if spec.rooms is not None or spec.nbytes < POOLED_FROM:
        return False
    n.data = buffers.made(spec, zeros)
    return True


def _parameter(n: TensorNode, device: str) -> TensorBuffer:
    """A number that kernels get as a parameter."""
    made = buffers.new((), n.dtype, device, n.line)
    buffers.fill(made, n.arg[1])
    return made


LoopRunner = Callable[[LoopCall, Sequence["TensorBuffer"], Sequence["TensorBuffer"], str], None]
_loops: list[LoopRunner] = []


def install(runner: LoopRunner) -> None:
    """Say who computes loops, which builds on this file: the loop, memory of its inputs and outputs, and the device."""
    _loops[:] = [runner]


def _run(call: Call, places: list[TensorBuffer | None], device: str) -> None:
    used = [b for p in (*call.inputs, *call.outputs) if (b := places[p]) is not None]
    out = used[-1]
    if isinstance(call, NumpyCall):
        buffers.fill(out, call.call.function(*[b.array for b in used[:-1]]))
    elif isinstance(call, LoopCall):
        _loops[0](call, used[: len(call.inputs)], used[len(call.inputs) :], device)
    elif all(b.nbytes for b in used[len(call.inputs) :]):
        bound(call.kernel, device)(*[b.address for b in used])


def _watched(call: Call, places: list[TensorBuffer | None], device: str) -> None:
    """The same, timed; a kernel is built before."""
    if isinstance(call, NumpyCall):
        with timed("numpy", call.call.name, device):
            _run(call, places, device)
        return
    if isinstance(call, LoopCall):
        _run(call, places, device)
        return
    bound(call.kernel, device)
    with timed("kernel", call.kernel.name, device, call.kernel):
        _run(call, places, device)


def _last_uses(made: CallList) -> dict[int, list[int]]:
    """By call: the computed places that nothing reads after it."""
    last: dict[int, int] = {}
    for i, call in enumerate(made.calls):
        for p in (*call.inputs, *call.outputs):
            last[p] = i
    out: dict[int, list[int]] = {}
    for p, i in last.items():
        if p >= made.leaves and p not in made.outs:
            out.setdefault(i, []).append(p)
    return out

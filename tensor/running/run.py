"""Realising: a graph's call list, found or made, run now on new memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ..fusion.calls import Call, CallList, NumpyCall, call_list, key_of, leaves_of
from ..graph import small
from ..graph.checked import CHECK, check_of
from ..graph.node import TensorNode
from ..memory import buffers
from .capturing import check_values, current
from .detached import detached
from .observe import WATCH, timed
from .programs import bound

if TYPE_CHECKING:
    from ..memory.buffers import TensorBuffer

KEPT = 512
"""Call lists that are remembered."""

_lists: OrderedDict[tuple[Any, ...], CallList] = OrderedDict()
_lock = threading.Lock()


def listed(outs: Sequence[TensorNode]) -> CallList:
    """The call list of a graph, made when it is first asked for."""
    key = key_of(outs)
    with _lock:
        found = _lists.get(key)
        if found is not None:
            _lists.move_to_end(key)
            return found
    with timed("graph", "partition and pull"):
        found = call_list(detached(outs)[0])
    with _lock:
        _lists[key] = found
        while len(_lists) > KEPT:
            _lists.popitem(last=False)
    return found


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
    wanted = list({id(o): o for o in outs if o.data is None}.values())
    if not wanted:
        return
    leaves = leaves_of(wanted)
    if any(n.data is None for n in leaves):
        check_values(wanted)
    device = device_of(leaves, device)
    if small.fits(wanted, device):
        with timed("numpy", "small graph", device):
            small.compute(wanted, device)
        return
    check = check_of(wanted)
    made = listed([*wanted, *check])
    read = [leaves[n.arg.number] for n in made.nodes[: made.leaves]]
    places: list[TensorBuffer | None] = [n.data if n.data is not None else _given(n, device) for n in read]
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
    for n, p in zip(wanted, made.outs[: len(wanted)], strict=True):
        n.data = places[p]


def _given(n: TensorNode, device: str) -> TensorBuffer:
    """A number that kernels get as a parameter."""
    made = buffers.new((), n.dtype, device, n.line)
    buffers.fill(made, n.arg[1])
    return made


def _run(call: Call, places: list[TensorBuffer | None], device: str) -> None:
    used = [b for p in (*call.inputs, *call.outputs) if (b := places[p]) is not None]
    out = used[-1]
    if isinstance(call, NumpyCall):
        buffers.fill(out, call.call.function(*[b.array for b in used[:-1]]))
    elif all(b.nbytes for b in used[len(call.inputs) :]):
        bound(call.kernel, device)(*[b.address for b in used])


def _watched(call: Call, places: list[TensorBuffer | None], device: str) -> None:
    """The same, timed; a kernel is built before."""
    if isinstance(call, NumpyCall):
        with timed("numpy", call.call.name, device):
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

"""What is being captured on this thread: which nodes were made in it, and which tensors were assigned to.

While a function is captured, its arguments have no values, and tensors from outside are read at every later call. So
asking for a value is an error here, and an assignment only says what the tensor shall become."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ...ir.errors import UsageError
from ...ir.node import Node
from ..graph.nodes import TensorNode, interned_in, is_in, walk
from ..graph.source_lines import at, ours, user_line
from .observers import WATCH

# what a function does beside its results: calls of NumPy's code that must run, in order (`debug.print`) ---------------

PRINT = "debug.print"
"""The name of the call that prints."""


class _Open(threading.local):
    found: list[TensorNode] | None = None


_open = _Open()


def effects() -> list[TensorNode] | None:
    """The effects so far of what is being captured, batched or made a loop's body; None where values are known."""
    return _open.found


@contextmanager
def collecting() -> Iterator[list[TensorNode]]:
    """Collect effects on this thread."""
    before, _open.found = _open.found, []
    try:
        yield _open.found
    finally:
        _open.found = before


def happen(made: Sequence[TensorNode], compute: Callable[[Sequence[TensorNode]], None]) -> None:
    """Effects of a part of a function, such as one that was batched, are the function's; computed now where values are known."""
    if _open.found is not None:
        _open.found += made
    elif made:
        compute(made)


def after_others(src: Sequence[TensorNode], known: Sequence[TensorNode]) -> tuple[TensorNode, ...]:
    """Sources of a further effect, which comes after the others."""
    return (*src, *known[-1:])


# current capture ------------------------------------------------------------------------------------------------------

SizeCheck = Callable[[Mapping[Node, int]], None]


class Capture:
    """One function being captured. `table`: the nodes made in it. `assigned`: by the id of a tensor, the tensor and the
    node that it had before; `shown`: the same of those that are only seen with the values of a write to what they are a part of, or that is a
    part of them; `arrays`: those of them that had an array and no node; `read`: tensors
    from outside that were read. `checks`: what must hold of the values of symbolic sizes at each call: each raises UsageError."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.around = thread.capture
        self.table: dict[tuple[Any, ...], TensorNode] = {}
        self.assigned: dict[int, tuple[Any, TensorNode]] = {}
        self.shown: dict[int, tuple[Any, TensorNode]] = {}
        self.arrays: list[tuple[Any, Any]] = []
        self.read: dict[int, Any] = {}
        self.inside: set[int] = set()
        self.checks: list[SizeCheck] = []

    def assign(self, tensor: Any, node: TensorNode) -> None:
        """`tensor` has the values of `node` from here on."""
        self.assigned.setdefault(id(tensor), self.shown.get(id(tensor)) or (tensor, tensor.node))
        tensor.node = node

    def show(self, tensor: Any, node: TensorNode) -> None:
        """A tensor from outside has the values of `node` from here on, and gets them after a call by what was assigned to."""
        if id(tensor) not in self.shown:
            if tensor.known is not None or tensor.links.live:
                self.arrays.append((tensor, tensor.known))
            self.shown[id(tensor)] = self.assigned.get(id(tensor)) or (tensor, tensor.node)
        tensor.node = node

    def restore(self) -> None:
        """Give every tensor the node that it had before."""
        for tensor, node in (*self.assigned.values(), *self.shown.values()):
            tensor.node = node
        for tensor, array in self.arrays:
            if id(tensor) not in self.assigned:
                tensor.show(array)
                tensor.links.live = array is None

    def has(self, n: TensorNode) -> bool:
        """Whether a node was made here, or in a function that is being captured around this one."""
        return is_in(self.table, n) or (self.around is not None and self.around.has(n))

    def made(self) -> set[int]:
        """The ids of the nodes made here."""
        return {id(n) for n in self.table.values()} | self.inside


class _Current(threading.local):
    capture: Capture | None = None
    batches = 0
    """Functions under `vmap` that are being called: their arguments stand for each element of a batch, and have no values."""
    transformed = 0
    """Functions under `vmap` or of which a gradient is taken that are being called: what they call belongs to their graphs, captured or not."""
    written: dict[int, tuple[weakref.ref[Any], TensorNode]] | None = None
    """Of the innermost of them, by the id of a tensor that was assigned to: the tensor, and the node that it had before."""


thread = _Current()


def current() -> Capture | None:
    """What this thread captures, or None."""
    return thread.capture


def seen_through() -> bool:
    """Whether a graph is being made of what this thread calls, for a captured function, a batch or a gradient: a function that would be
    captured is a part of it."""
    return thread.capture is not None or thread.transformed > 0


def check_captured(size: Any) -> None:
    """Raise UsageError where nothing is being captured: symbolic sizes have no value outside."""
    if current() is None:
        raise UsageError(f"{size!r}: a symbolic size has a value in functions captured with jit(symbols=...) only")


@contextmanager
def capturing(name: str) -> Iterator[Capture]:
    """Capture on this thread. Whatever happens inside, tensors have their nodes back afterwards."""
    made, before = Capture(name), thread.capture
    thread.capture = made
    try:
        with interned_in(made.table), WATCH.captured():
            yield made
    finally:
        thread.capture = before
        made.restore()


@contextmanager
def outside() -> Iterator[None]:
    """Not captured for a while: what is computed here is computed now."""
    before = thread.capture
    thread.capture = None
    try:
        yield
    finally:
        thread.capture = before


def check_values(outs: Iterable[TensorNode]) -> None:
    """Raise UsageError where the values of `outs` are not known yet, with the user's line."""
    capture = current()
    wanted = list(outs)
    known = capture.made() if capture is not None else set()
    slots = []
    for n in walk(wanted):
        if n.op == "slot":
            slots.append(n)
        elif capture is not None and n.data is not None and id(n) not in known:
            raise UsageError(
                f"{capture.name} is being captured, and reads the value of a tensor from outside ({n.dtype}{list(n.shape)}): later calls "
                f"would not see it change. Read it before, and pass it as an argument, or use tensors only{at(user_line())}"
            )
    if not slots:
        return
    if capture is None and not thread.batches:
        raise UsageError(f"this tensor was made while a function was captured, and has no value: return it from there{at(user_line())}")
    does, instead = _INSTEAD.get(_asked_by(), _INSTEAD[""])
    who = "the function under vmap" if capture is None else f"{capture.name} is being captured, and"
    raise UsageError(f"{who} {does}, which has no value yet: {instead}{at(user_line())}")


_LATER = "or return the tensor, and do it after the call"
_NUMBER = (
    "makes a number of a tensor that depends on its arguments",
    f"compute with the tensor itself (xp.sin, not math.sin), pass the number as an argument of its own, {_LATER}",
)
_ARRAY = ("makes an array of a tensor that depends on its arguments", f"use the functions of tilewright.xp, {_LATER}")
_SHAPE = (
    "asks for a result whose shape depends on a tensor's values",
    f"keep all elements, as xp.where(mask, x, 0) and x.topk(k) do, {_LATER}",
)
_SIZE = (
    "takes a size, an axis or a count from a tensor that depends on its arguments",
    "pass it as a number, which may be a symbol (jit(symbols=...))",
)
_INSTEAD = {
    "__bool__": (
        "branches on a tensor that depends on its arguments",
        "write xp.where(condition, a, b), which computes both, or decide by a number: pass it as an argument, not as a tensor",
    ),
    **dict.fromkeys(("item", "__int__", "__float__", "__complex__", "__index__", "__round__"), _NUMBER),
    **dict.fromkeys(("numpy", "tolist", "__array__", "__dlpack__", "__buffer__", "_numpy"), _ARRAY),
    **dict.fromkeys(("nonzero", "getitem", "unique_values", "unique_all", "unique_counts", "unique_inverse"), _SHAPE),
    "_python": _SIZE,
    "": ("reads a tensor that depends on its arguments", f"use the functions of tilewright.xp, {_LATER}"),
}
"""By what asked for a value, what the function does, and what to write instead."""


def _asked_by() -> str:
    """The outermost function of this package, below the user's line, that is one of `_INSTEAD`."""
    found = ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and ours(frame):
        found = frame.f_code.co_name if frame.f_code.co_name in _INSTEAD else found
        frame = frame.f_back
    return found

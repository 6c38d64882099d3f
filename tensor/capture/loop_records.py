"""Loops in the records of warm starts: calls of a step, and where their arrays lie, as lists of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...devices import LoopCarry, LoopCopy, LoopWord
from ..graph.loop_nodes import NEVER
from .call_sequence import LinkedCall, LinkedLoop
from .kernel_lookup import FoundKernel
from .loop_memory import LoopFrame


def loop_row(loop: LinkedLoop, numbers: Iterator[int]) -> list[Any] | None:
    """A loop for JSON; None for one whose numbers are known at each call only, or whose steps Python makes. `numbers`: of the kernels, call by
    call."""
    if not loop.native:
        return None
    f = loop.frame
    calls: list[Any] = []
    for c in loop.calls:
        inner = None if c.loop is None else loop_row(c.loop, numbers)
        if c.loop is not None and inner is None:
            return None
        calls.append([c.inputs, c.outputs, c.name, next(numbers) if c.loop is None else -1, inner])
    words = [[w.parameter, w.offset, w.stride] for w in f.words]
    carries = [[c.read, c.write, c.turns] for c in f.carries]
    copies = [[[c.to, c.source, c.nbytes] for c in found] for found in (f.before, f.after)]
    row = [loop.name, calls, words, f.feeds, carries, *copies, f.counter, f.trips, f.start, f.gate, f.test, loop.room, loop.seconds]
    return row if _plain(row) else None


def _plain(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(map(_plain, x))
    return x is None or isinstance(x, (bool, int, float, str))


def loop_of(row: Sequence[Any], kernels: Sequence[FoundKernel], sizes: Sequence[int]) -> LinkedLoop:
    """The loop of a row. `sizes`: bytes of its inputs, outputs and room. Raises ValueError, TypeError and IndexError for what is none."""
    name, calls, words, feeds, carries, before, after, counter, trips, start, gate, test, room, seconds = row
    made = [_call(kernels, *c) for c in calls]
    counts = [len(c.inputs) + len(c.outputs) + (c.loop is not None) for c in made]
    found = tuple(LoopWord(_below(p, sizes), _whole(offset), _whole(stride)) for p, offset, stride in words)
    for w in found:
        assert isinstance(w.offset, int) and isinstance(w.stride, int)
        ends = w.offset, w.offset + w.stride * (max(_whole(trips), 1) - 1)
        if not 0 <= min(ends) <= max(ends) <= sizes[w.parameter] or (w.stride and trips == NEVER):
            raise ValueError("a loop's array lies outside of its memory")
    word: Callable[[Any], int] = lambda i: _below(i, found)  # noqa: E731
    fed = tuple((_below(c, made), _in(p, counts[_below(c, made)]), word(w)) for c, p, w in feeds)
    counted = tuple((_below(c, made), _in(p, counts[_below(c, made)])) for c, p in counter)
    if len({*((c, p) for c, p, _ in fed), *counted}) != sum(counts):
        raise ValueError("an array of a step has no address")
    moved = tuple(LoopCarry(word(r), word(w), None if turns is None else (word(turns[0]), word(turns[1]))) for r, w, turns in carries)
    copies = [tuple(LoopCopy(word(to), word(source), _in(n, 1 << 62)) for to, source, n in cs) for cs in (before, after)]
    frame = LoopFrame(
        found, fed, moved, copies[0], copies[1], counted, _whole(trips), _whole(start), None if gate is None else _below(gate, sizes),
        None if test is None else word(test),
    )  # fmt: skip
    return LinkedLoop(str(name), tuple(made), frame, _whole(room), None if seconds is None else float(seconds))


def _call(kernels: Sequence[FoundKernel], inputs: Any, outputs: Any, name: Any, kernel: Any, inner: Any) -> LinkedCall:
    read, written = tuple(map(_whole, inputs)), tuple(map(_whole, outputs))
    if inner is not None:
        count = len(read) + len(written) + 1  # (what an inner loop's arrays are was checked when the record was made)
        return LinkedCall(read, written, str(name), loop=loop_of(inner, kernels, [1 << 62] * count))
    k = kernels[_below(kernel, kernels)]
    if len(read) + len(written) != len(k.executable.signature.params):
        raise ValueError("a call does not fit its kernel")
    return LinkedCall(read, written, str(name), k.executable)


def _whole(x: Any) -> int:
    if type(x) is not int:
        raise ValueError(f"{x!r} is no whole number")
    return x


def _in(x: Any, count: int) -> int:
    if not 0 <= _whole(x) < count:
        raise ValueError(f"there is no {x}")
    return int(x)


def _below(x: Any, of: Sequence[Any]) -> int:
    return _in(x, len(of))

"""Values that wait for a later nest and have no register: arrays of each thread (in the GPU's local memory, which is
memory behind the first cache), or of the group in shared memory. Where lowering puts them is `lower.storage`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ....ir.node import Node
from ....opts.nests import Nest
from ....opts.schedule import Scheduled


@dataclass(frozen=True, slots=True)
class KeptArray:
    """One array: `shared` bytes for the group, or `private` bytes for each thread; `accesses`: how many of its elements
    a thread reads and writes in its life; `registers`: those of a small one whose places are all known."""

    shared: float
    private: float
    accesses: float
    registers: float = 0.0


@lru_cache
def kept_arrays(s: Scheduled) -> Mapping[str, KeptArray]:
    """The values of a schedule that are kept in arrays, by name."""
    out: dict[str, KeptArray] = {}
    readers: dict[str, list[tuple[Nest, tuple[Node, ...]]]] = {}
    for n in s.nests:
        for r in n.refs:
            readers.setdefault(r.arg, []).append((n, r.src))
    for n in s.nests:
        for name, axes in n.made.items():
            if name not in s.tree.registers and name in readers and not any(n.empty for n, _ in readers[name]):
                out[name] = _kept(s, n, (name, axes), readers[name])
    return out


def _kept(s: Scheduled, maker: Nest, what: tuple[str, tuple[Node, ...]], readers: list[tuple[Nest, tuple[Node, ...]]]) -> KeptArray:
    _, axes = what
    opened = {p.name for p in s.loops(maker)}
    for n, _ in readers:
        opened &= {p.name for p in s.loops(n)}
    inside = [p for a in axes for p in s.parts(a) if p.name not in opened and (p.kind != "thread")]
    elements = prod(max(1, p.trips) for p in inside)
    size = maker.expr.dtype.size
    written = _visits(s, maker, frozenset(maker.reduce_axes))
    read = sum(_visits(s, n) for n, _ in readers)
    threads = prod(s.plans[a].threads for a in axes)
    if threads > 1 and not _own(s, axes, readers):
        return KeptArray(size * elements * threads, 0.0, written + read)
    if all(p.register for p in inside):  # every index is known, so a compiler keeps the elements in registers
        return KeptArray(0.0, 0.0, 0.0, elements)
    return KeptArray(0.0, size * elements, written + read)


def _visits(s: Scheduled, n: Nest, without: Set[Node] = frozenset()) -> float:
    """How many points of its axes a thread goes through, but for some."""
    parts = [p for p in (*s.loops(n), *s.registers(n)) if p.kind != "grid" and p.axis not in without]
    return float(prod(max(1, p.trips) for p in parts))


def _own(s: Scheduled, axes: tuple[Node, ...], readers: list[tuple[Nest, tuple[Node, ...]]]) -> bool:
    """Whether every reader wants what its own thread made."""
    for _, src in readers:
        for a, i in zip(axes, src, strict=True):
            if s.plans[a].threads > 1 and (
                i.op != "axis" or i.arg.family != a.arg.family or i not in s.plans or s.plans[i].threads != s.plans[a].threads
            ):
                return False
    return True

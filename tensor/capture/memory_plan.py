"""Where the arrays of a list of calls lie: intermediate results that are never needed at once share memory, an update writes the tensor's
own memory where all reads allow it, and results may take a donated argument's.

Greedy by size with best fit by offset, after Pisarchyk and Lee, "Efficient memory management for deep neural net
inference" (arXiv 2001.03288), and Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (arXiv
1804.10001): the largest array first, into the smallest gap that is free for as long as the array lives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ...ir.errors import KernelError
from ...ir.kept_elements import without_kept, written_at_places
from ...ir.rewriter import in_place
from ..fusion.call_list import Call, CallList, KernelCall, Place
from .capture import ArraySource, CapturedGraph, CapturedState

ALIGN = 64
"""Offsets are multiples of this many bytes."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An array of `nbytes` that is written by call `first` and read last by call `last`."""

    place: int
    nbytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are needed at once."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class MemoryPlan:
    """`offsets`: by place, a byte of the arena; `peak`: bytes of the arena; `total`: bytes of all arrays together."""

    offsets: dict[int, int]
    peak: int
    total: int


def arena(lifetimes: Sequence[Lifetime]) -> MemoryPlan:
    """One arena for all."""
    placed: list[tuple[int, Lifetime]] = []
    offsets: dict[int, int] = {}
    peak = 0
    for new in sorted(lifetimes, key=lambda t: (-t.nbytes, t.first, t.place)):
        size = rounded(new.nbytes)
        at = _best_gap(((o, o + rounded(t.nbytes)) for o, t in placed if t.meets(new)), size)
        offsets[new.place] = at
        placed.append((at, new))
        peak = max(peak, at + size)
    return MemoryPlan(offsets, peak, sum(rounded(t.nbytes) for t in lifetimes))


def _best_gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """The beginning of the smallest gap that holds `size` bytes; the end of what is taken where there is none."""
    best, best_room, end = -1, 0, 0
    for begin, stop in sorted(taken):
        room = begin - end
        if room >= size and (best < 0 or room < best_room):
            best, best_room = end, room
        end = max(end, stop)
    return end if best < 0 else best


def chunks(lifetimes: Sequence[Lifetime]) -> tuple[dict[int, int], tuple[int, ...]]:
    """(by place a chunk, bytes of each chunk), for devices whose buffers are known by handles: there is no address inside of one.
    The largest array first, into the smallest chunk that is free."""
    sizes: list[int] = []
    users: list[list[Lifetime]] = []
    found: dict[int, int] = {}
    for new in sorted(lifetimes, key=lambda t: (-t.nbytes, t.first, t.place)):
        free = [i for i, used in enumerate(users) if not any(t.meets(new) for t in used)]
        if free:
            at = min(free, key=lambda i: sizes[i])
        else:
            at = len(sizes)
            sizes.append(rounded(new.nbytes))
            users.append([])
        users[at].append(new)
        found[new.place] = at
    return found, tuple(sizes)


def rounded(nbytes: int) -> int:
    """Whole lines; an array without elements has one too, so that it has an address."""
    return max(-(-nbytes // ALIGN), 1) * ALIGN


Kind = Literal["given", "closure", "fresh", "arena", "chunk"]


@dataclass(frozen=True, slots=True)
class Spot:
    """Where an array lies. `at`: position among what is given with a call (arguments, then numbers), among closures, among
    fresh arrays or chunks, or a byte of the arena."""

    kind: Kind
    at: int


@dataclass(frozen=True, slots=True)
class StatePlan:
    """How a tensor is updated: `state`, and where its new values are: its own memory (`fresh` is None), or a fresh array."""

    state: CapturedState
    fresh: int | None


@dataclass
class PlacedCalls:
    """`spots`: by place. `fresh`: places that get new memory with each call. `donated`: by output, the argument whose memory
    it takes. `outs`: where each output is. `chunks`: bytes of each chunk."""

    spots: list[Spot]
    fresh: list[Place]
    states: list[StatePlan]
    donated: dict[int, int]
    memory: MemoryPlan
    chunks: tuple[int, ...] = ()
    outs: dict[int, Spot] = field(default_factory=dict)


def placed(
    made: CallList,
    graph: CapturedGraph,
    leaves: Sequence[ArraySource],
    donated: frozenset[int],
    handles: bool,
    rooms: Mapping[int, int] | None = None,
) -> tuple[PlacedCalls, list[Call]]:
    """Decide where arrays lie; and the calls, whose kernels say what they may write over. `leaves`: where the arrays of the
    list's first places come from. `donated`: arguments whose memory outputs may take. `handles`: memory has no addresses to
    count from. `rooms`: by the position of a call the bytes that it needs for itself, which have places behind those of the arrays."""
    return _Places(made, graph, leaves, donated).placed(handles, rooms or {})


class _Places:
    def __init__(self, made: CallList, graph: CapturedGraph, leaves: Sequence[ArraySource], donated: frozenset[int]) -> None:
        self.made, self.graph, self.donatable = made, graph, set(donated)
        self.calls = list(made.calls)
        self.leaves = list(leaves)
        self.given = {_key(s): p for p, s in enumerate(leaves)}
        self.writer = {p: i for i, c in enumerate(made.calls) for p in c.outputs}
        self.last: dict[Place, int] = {}
        for i, c in enumerate(made.calls):
            for p in (*c.inputs, *c.outputs):
                self.last[p] = i
        self.spots: dict[Place, Spot] = {p: self._spot(s) for p, s in enumerate(leaves)}
        self.returned = [s.place for s in graph.results if s.kind == "out"]
        self.kept = {_key(s) for s in graph.results}
        self.taken: set[tuple[str, int]] = set()

    def _spot(self, s: ArraySource) -> Spot:
        if s.kind == "closure":
            return Spot("closure", s.place)
        tensors = len(self.graph.slots) - len(self.graph.parameters)
        return Spot("given", s.place + (tensors if s.kind == "number" else 0))

    def placed(self, handles: bool, rooms: Mapping[int, int]) -> tuple[PlacedCalls, list[Call]]:
        outs = self.made.outs
        fresh: list[Place] = []
        states: list[StatePlan] = []
        for s in self.graph.states:
            p = outs[s.new]
            source = ArraySource(s.kind, s.place)
            if s.new not in self.returned and p not in self.spots and self._over(source, p):
                self.spots[p] = self._spot(source)
                states.append(StatePlan(s, None))
            else:
                states.append(StatePlan(s, self._fresh(p, fresh)))
        donated: dict[int, int] = {}
        for number in dict.fromkeys(self.returned):
            p = outs[number]
            if p not in self.spots:
                found = self._donor(p)
                if found is not None:
                    donated[number] = found
                    self.spots[p] = Spot("given", found)
                else:
                    self._fresh(p, fresh)
        gone = self._maps_left_out() if not rooms and not handles else set()
        rest = [p for i, c in enumerate(self.calls) if i not in gone for p in c.outputs if p not in self.spots]
        lifetimes = [self._lifetime(p) for p in dict.fromkeys(rest)]
        lifetimes += [Lifetime(len(self.made.nodes) + n, nbytes, i, i) for n, (i, nbytes) in enumerate(sorted(rooms.items()))]
        plan = arena(lifetimes)
        sizes: tuple[int, ...] = ()
        if handles:
            chosen, sizes = chunks(lifetimes)
            self.spots.update((p, Spot("chunk", at)) for p, at in chosen.items())
        else:
            self.spots.update((p, Spot("arena", at)) for p, at in plan.offsets.items())
        spots = [self.spots[p] for p in range(len(self.made.nodes) + len(rooms))]
        made = PlacedCalls(spots, fresh, states, donated, plan, sizes, {n: self.spots[p] for n, p in enumerate(outs)})
        return made, [_without_kept(c) for i, c in enumerate(self.calls) if i not in gone]

    def _maps_left_out(self) -> set[int]:
        """Which calls make maps of what is written where that nobody reads any more: calls that write to some places of an array in its own
        memory go through what they write instead. (What the maps are made of must be as it was then.)"""
        readers: dict[Place, list[int]] = {}
        for i, c in enumerate(self.calls):
            for p in {*c.inputs}:
                readers.setdefault(p, []).append(i)
        gone: set[int] = set()
        for n, marks in enumerate(self.calls):
            if not isinstance(marks, KernelCall) or len(marks.outputs) != 1 or marks.outputs[0] in self.spots:
                continue
            if any(_key(self.leaves[p]) in self.taken for p in marks.inputs if p < len(self.leaves)):
                continue
            (q,) = marks.outputs
            made = {i: _at_places(self.calls[i], q, marks) for i in readers.get(q, ())}
            if not made or None in made.values():
                continue
            for i, call in made.items():
                assert call is not None
                self.calls[i] = call
                self.last.update((p, max(self.last[p], i)) for p in marks.inputs)
            self.spots[q] = Spot("arena", 0)
            gone.add(n)
        return gone

    def _fresh(self, p: Place, fresh: list[Place]) -> int:
        if p not in fresh:
            fresh.append(p)
            self.spots[p] = Spot("fresh", len(fresh) - 1)
        return fresh.index(p)

    def _lifetime(self, p: Place) -> Lifetime:
        n = self.made.nodes[p]
        first = self.writer[p]
        return Lifetime(p, n.size * n.dtype.size, first, max(self.last[p], first))

    def _donor(self, p: Place) -> int | None:
        """A donated argument of the same shape and type whose memory an output may take."""
        n = self.made.nodes[p]
        for i in sorted(self.donatable):
            slot = self.graph.slots[i]
            if (slot.shape, slot.dtype) == (n.shape, n.dtype) and self._over(ArraySource("argument", i), p):
                self.donatable.discard(i)
                return i
        return None

    def _over(self, source: ArraySource, p: Place) -> bool:
        """Whether `p` may be written over the leaf; then its kernel says so. Nobody may read the leaf afterwards, return it or
        write there too, and the kernel itself reads it at most at the element that it writes."""
        key = _key(source)
        if key in self.kept or key in self.taken:
            return False
        call = self.writer[p]
        old = self.given.get(key)
        if old is not None and self.last.get(old, -1) > call:
            return False
        if old is not None and old in self.calls[call].inputs:
            found = self._aliased(self.calls[call], old, p)
            if found is None:
                return False
            self.calls[call] = found
        self.taken.add(key)
        return True

    def _aliased(self, call: Call, old: Place, p: Place) -> KernelCall | None:
        """The call with the kernel that may be given one memory for both, or None where it may not."""
        if not isinstance(call, KernelCall) or call.inputs.count(old) != 1:
            return None
        kernel = call.kernel
        out, source = kernel.outputs[call.outputs.index(p)], kernel.inputs[call.inputs.index(old)]
        aliases = {b.name: b.alias for b in kernel.outputs if b.alias}
        try:
            return replace(call, kernel=in_place(kernel, {**aliases, out.name: source.name}))
        except KernelError:
            return None


def _at_places(call: Call, q: Place, marks: KernelCall) -> KernelCall | None:
    """The call in place without the map `q` of what it writes where, from what that is made of; None where it is no such call."""
    if not isinstance(call, KernelCall) or len(call.outputs) != 1 or call.inputs.count(q) != 1:
        return None
    known = dict(zip(call.inputs, (b.name for b in call.kernel.inputs)))
    names = [known.get(p, f"at{i}") for i, p in enumerate(marks.inputs)]
    kernel = written_at_places(call.kernel, known[q], marks.kernel, names)
    if kernel is None:
        return None
    places = dict(zip(names, marks.inputs)) | {b.name: p for b, p in zip(call.kernel.inputs, call.inputs)}
    return replace(call, kernel=kernel, inputs=tuple(places[b.name] for b in kernel.inputs))


def _without_kept(call: Call) -> Call:
    """The call, which writes over arrays, with a kernel that writes no element which stays as it is."""
    if not isinstance(call, KernelCall) or not any(b.alias for b in call.kernel.outputs):
        return call
    kernel = without_kept(call.kernel)
    read = {b.name for b in kernel.inputs}
    inputs = tuple(p for b, p in zip(call.kernel.inputs, call.inputs, strict=True) if b.name in read)
    return replace(call, kernel=kernel, inputs=inputs)


def _key(s: ArraySource) -> tuple[str, int]:
    return s.kind, s.place

"""Groups of components that all go one way are computed as they lie in memory.

Lanes over pixels, pairs or points take the components of what they read apart by shuffles (`access.strided`), and a store weaves its
results together again. Where all components go through the same operations, neither is needed:

    interleaved(f(a, b), f(c, d), f(e, g)) = f(interleaved(a, c, e), interleaved(b, d, g))
    interleaved(the components of whole vectors) = these vectors

The first line is followed from the stores on. Where it ends at the second, or at numbers, on all ways, each vector of a group's
components is replaced by one of neighbours: the same operations on the same elements, so results are the same to the bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from ...program.facts import DefUse
from ...program.ops import OPS, READS
from ...program.program import Attr, Instr, Mem, Number, Program, Val
from .scheduling import before, each_run

LONGEST = 4
"""Components of a group that stores weave."""
DEEPEST = 300
"""Operations one after the other that are followed."""
EACH = frozenset(
    o.name
    for o in OPS.values()
    if o.effect == "pure" and o.lanes == "all" and o.operands and all(a.lanes in ("all", "one or all") for a in o.operands)
)
"""Operations that treat each lane alike."""
Vectors = tuple[Val, ...]


def flatten(program: Program, permutes: bool = False) -> None:
    """Replace in place what stores of groups need. `permutes`: any lanes of two vectors are put together by one instruction, but for
    bytes."""
    uses = DefUse(program)
    read = frozenset(at for at, p in enumerate(program.params) if p.role == "in") - program.shared_params
    for phase in program.phases:
        each_run(phase.body, lambda run: _Straight(run, uses, read, permutes).rewritten())


class _Straight:
    """A straight run, and what is put into it. `read`: parameters that nothing writes."""

    def __init__(self, run: list[Instr], uses: DefUse, read: frozenset[int], permutes: bool) -> None:
        self.run, self.uses, self.read, self.permutes = run, uses, read, permutes
        self.added: dict[int, list[Instr]] = {}
        self.known: dict[Vectors, Vectors | None] = {}

    @cached_property
    def made(self) -> dict[Val, Instr]:
        """The instruction that makes each value."""
        return self.uses.made

    @cached_property
    def place(self) -> dict[Val, int]:
        """Where values are made in the run."""
        return {s.out: i for i, s in enumerate(self.run) if s.out is not None}

    @cached_property
    def depth(self) -> int:
        """Of the values that are made in the run."""
        return next((v.depth for v in self.place), 0)

    def rewritten(self) -> list[Instr]:
        """The run with what takes less work; itself where nothing does. The counts of `uses` are kept up."""
        stores: dict[int, list[Instr]] = {}
        for places, components in self.groups():
            flat = self.flat(components)
            if flat is not None:
                at = self.run[places[0]]
                offsets = [at.mem.offset + k * flat[0].lanes for k in range(len(flat))]
                known = {self.run[i].mem.offset: self.run[i].mem for i in places}
                mems = [known.get(o, replace(at.mem, offset=o, align=at.mem.dtype.size)) for o in offsets]
                stores |= {i: [] for i in places}
                stores[max(places)] = [Instr("store", None, (at.args[0], v), m) for v, m in zip(flat, mems, strict=True)]
        if not stores:
            return self.run
        out = list(self.added.get(-1, ()))
        for i, s in enumerate(self.run):
            out += stores.get(i, [s])
            out += self.added.get(i, ())
        now = Counter(self.uses.count)
        now.update(v for s in out for v in s.args)
        now.subtract(v for s in self.run for v in s.args)
        out = _needed(out, now)
        if _work(out) >= _work(self.run):
            return self.run
        self.uses.count = now
        return out

    def groups(self) -> Iterator[tuple[list[int], Vectors]]:
        """The places of stores that weave a group's components, in the order of memory, and these components. Nothing that the stores have
        to do with lies between them."""
        rows: dict[object, dict[int, int]] = {}
        for i, s in enumerate(self.run):
            if s.op == "store" and len(s.args) == 2 and s.args[1].lanes > 1 and not s.mem.nt:
                rows.setdefault((s.mem.space, s.mem.base, s.mem.dtype, s.args[0]), {})[s.mem.offset] = i
        need: list[set[int]] = []
        for at in rows.values():
            end = -1
            for first in sorted(at):
                components, many = self.interleaved(at, first) if first >= end else ((), 0)
                if not components:
                    continue
                need = need or before(self.run, self.uses.program.shared_params)
                places = [at[o] for o in sorted(at) if first <= o < first + many]
                if not any(set(places) & need[j] for j in range(min(places), max(places) + 1)):
                    end = first + many
                    yield places, components

    def interleaved(self, at: Mapping[int, int], first: int) -> tuple[Vectors, int]:
        """What stores, by their offsets, weave together from one on, and how many elements that is; nothing where they do not."""
        found: list[tuple[Val, int]] = []
        while first + len(found) in at:
            v = self.run[at[first + len(found)]].args[1]
            found += [self.source(v, lane) for lane in range(v.lanes)]
            if len(found) <= LONGEST:
                continue
            many = next((k for k in range(2, LONGEST + 1) if found[k] == (found[0][0], 1)), 0)
            components = tuple(c for c, _ in found[:many])
            width = found[0][0].lanes
            if not many or found[0][1] or any(c.lanes != width for c in components) or len(found) > many * width:
                break
            if any(e != (components[k % many], k // many) for k, e in enumerate(found)):
                break
            if len(found) == many * width:
                return components, len(found)
        return (), 0

    def source(self, v: Val, lane: int) -> tuple[Val, int]:
        """Where an element was before shuffles moved it."""
        s = self.made.get(v)
        while s is not None and s.op == "shuffle":
            lane = s.picks[lane]
            v, lane = (s.args[0], lane) if lane < s.args[0].lanes else (s.args[1], lane - s.args[0].lanes)
            s = self.made.get(v)
        return v, lane

    def flat(self, group: Vectors, depth: int = 0) -> Vectors | None:
        """Vectors, as many as components of a group, of all of them as they lie in memory; None where that takes shuffles."""
        if group not in self.known:
            self.known[group] = self._flat(group, depth) if depth < DEEPEST else None
        return self.known[group]

    def _flat(self, group: Vectors, depth: int) -> Vectors | None:
        if group[0].lanes == 1:  # (one condition for all lanes)
            return group if len(set(group)) == 1 else None
        numbers = [self.numbers(v) for v in group]
        if len(set(group)) == 1 and (numbers[0] is not None or self.op(group[0]) == "splat"):
            return group if self.op(group[0]) == "splat" or len(set(numbers[0] or ())) == 1 else None
        if all(n is not None for n in numbers):
            each = [n[k] for k in range(group[0].lanes) for n in numbers if n is not None]
            return self.added_at(-1, group, lambda part: ("const", (), tuple(each[part.start : part.stop])))
        at = max((self.place.get(v, -1) for v in group), default=-1)
        if at < 0:  # (what stays the same is made once, further out)
            return None
        first = self.made.get(group[0])
        if first is None or first.op not in EACH:
            return self.loaded(at, group)
        sources = [self.made[v] for v in group if v in self.made]
        if len(sources) < len(group) or any(_kind(s) != _kind(first) for s in sources):
            return None
        args = [self.flat(vs, depth + 1) for vs in zip(*(s.args for s in sources), strict=True)]
        if any(a is None for a in args):
            return None
        width = group[0].lanes
        return self.added_at(at, group, lambda part: (first.op, tuple(a[part.start // width] for a in args if a is not None), first.attr))

    def loaded(self, at: int, group: Vectors) -> Vectors | None:
        """The whole vectors that a group's components were taken from."""
        width, many = group[0].lanes, len(group)
        found = [self.source(group[k % many], k // many) for k in range(width * many)]
        loads = {v: self.made.get(v) for v, _ in found}
        if any(
            s is None or s.op != "load" or len(s.args) > 1 or s.mem.space != "param" or s.mem.base not in self.read for s in loads.values()
        ):
            return self.permuted(at, found, width)
        places = [(s.mem.base, s.mem.dtype, s.args[0], s.mem.offset + lane) for v, lane in found if (s := loads[v]) is not None]
        base, dtype, index, start = places[0]
        if places != [(base, dtype, index, start + k) for k in range(width * many)]:
            return self.permuted(at, found, width)
        return self.added_at(at, group, lambda part: ("load", (index,), Mem("param", base, dtype, start + part.start, dtype.size)))

    def permuted(self, at: int, found: list[tuple[Val, int]], width: int) -> Vectors | None:
        """Elements of vectors as long as the wanted ones, put together, where two vectors have all of each: what is shared by the components
        of a group, or lies between them."""
        sources = [list(dict.fromkeys(v for v, _ in found[k : k + width])) for k in range(0, len(found), width)]
        if not self.permutes or found[0][0].dtype.size == 1 or any(len(vs) > 2 or any(v.lanes != width for v in vs) for vs in sources):
            return None

        def made(part: range) -> tuple[str, Vectors, Attr]:
            vs = sources[part.start // width]
            return "shuffle", (vs[0], vs[-1]), tuple(lane + width * (v is not vs[0]) for v, lane in found[part.start : part.stop])

        return self.added_at(at, tuple(found[k][0] for k in range(0, len(found), width)), made)

    def added_at(self, at: int, group: Vectors, made: Callable[[range], tuple[str, Vectors, Attr]]) -> Vectors:
        """New vectors behind the instruction at a place (-1: before the first)."""
        width, out = group[0].lanes, []
        for k in range(len(group)):
            op, args, attr = made(range(k * width, (k + 1) * width))
            out.append(self.uses.fresh(group[0].dtype, width, self.depth))
            self.added.setdefault(at, []).append(Instr(op, out[-1], args, attr))
        return tuple(out)

    def op(self, v: Val) -> str:
        """What makes a value."""
        return self.made[v].op if v in self.made else ""

    def numbers(self, v: Val) -> tuple[Number, ...] | None:
        """The lanes of a constant."""
        s = self.made.get(v)
        if s is None or s.op not in ("const", "splat"):
            return None
        if s.op == "splat":
            s = self.made.get(s.args[0])
            if s is None or s.op != "const":
                return None
        return s.picks if isinstance(s.attr, tuple) else (s.number,) * v.lanes


def _kind(s: Instr) -> object:
    """What equal operations have in common."""
    return s.op, s.attr, s.result.dtype, s.result.lanes, [(a.dtype, a.lanes) for a in s.args]


def _needed(run: list[Instr], uses: Counter[Val]) -> list[Instr]:
    """A run without what nothing uses; `uses` is kept up."""
    out = []
    for s in reversed(run):
        if s.out is not None and not uses[s.out] and (OPS[s.op].effect == "pure" or s.op in READS):
            uses.subtract(s.args)
        else:
            out.append(s)
    return out[::-1]


def _work(run: list[Instr]) -> int:
    """Bytes of the vectors that a run makes."""
    return sum(s.out.lanes * s.out.dtype.size for s in run if s.out is not None and s.out.lanes > 1)

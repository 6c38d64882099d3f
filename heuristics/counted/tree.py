"""The loops of a Program with what is in them: straight code, accesses, and how often each runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

from ...ir import index as ix
from ...program.ops import READS, WRITES
from ...program.program import For, If, Instr, Mem, Phase, Program, Stmt, Val, bodies
from .forms import Forms, LinearForm, Variable
from .samples import POINTS, Samples

LINE = 64


@dataclass(frozen=True, slots=True)
class Touch:
    """A load or store of `bytes` consecutive bytes (of one lane, where lanes lie apart) from the byte `form` says; `share` of the runs
    of its block make it."""

    mem: Mem
    form: LinearForm
    bytes: int
    written: bool


@dataclass(slots=True)
class LoopNode:
    """A loop (`trips` on average), or an If (`trips` is the share of the times that it runs). `key` is a loop's number, -1 for an If.
    `code` is what lies directly in it."""

    key: int
    trips: float
    loop: For | None
    code: list[Instr] = field(default_factory=list)
    accesses: list[Touch] = field(default_factory=list)
    children: list[LoopNode] = field(default_factory=list)
    walls: list[int] = field(default_factory=list)
    """Places in `code` where a loop or If stands."""
    keys: frozenset[int] = frozenset()
    """The loops inside it, without its own."""

    def below(self) -> Iterator[Touch]:
        """Every access inside."""
        yield from self.accesses
        for c in self.children:
            yield from c.below()


@dataclass(slots=True)
class Tree:
    """A phase: its `root` is the loop over the items."""

    root: LoopNode
    forms: Forms
    samples: Samples
    register: int
    """Bytes of a vector register."""
    trips: dict[int, float]
    lines: dict[int, float] = field(default_factory=dict)
    """How many lines an access of a register touches in the mean, by the `id` of its instruction."""
    filled: dict[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    """The loops around what fills an array of the phase's own, by place."""


def tree(program: Program, phase: Phase, register: int) -> Tree:
    """The loops of a phase, for vector registers of so many bytes. Symbols count with their upper bounds."""
    forms = Forms()
    samples = Samples(forms.made)
    sizes = {s.arg.name: float(s.arg.hi) for s in program.symbols}
    for s, v in zip(program.symbols, phase.vars, strict=True):
        forms.known[v] = LinearForm({}, sizes[s.arg.name])
        samples.known[v] = [sizes[s.arg.name]] * POINTS
    items = float(ix.upper(phase.items))
    root = LoopNode(0, items, None)
    out = Tree(root, forms, samples, register, {0: items})
    forms.known[phase.item] = LinearForm({Variable(items, frozenset({0})): 1.0})
    samples.spread(phase.item, [0.0] * POINTS, [items] * POINTS, 1.0)
    _fill(out, root, phase.body.stmts)
    return out


def _fill(t: Tree, node: LoopNode, stmts: Sequence[Stmt], around: frozenset[int] = frozenset({0})) -> None:
    """Put statements and what is inside them under a node; `around`: the loops that it is in, with its own."""
    for s in stmts:
        if isinstance(s, Instr):
            if s.out is not None:
                t.forms.made[s.out] = s
            node.code.append(s)
            if (s.op in READS or s.op in WRITES) and isinstance(s.attr, Mem):
                node.accesses.append(_access(t, s))
                _kept(t, s, around)
        elif isinstance(s, For):
            child = _loop(t, s)
            if child.trips > 0:
                _fill(t, child, s.body.stmts, around | {child.key})
                node.children.append(child)
                node.walls.append(len(node.code))
                node.keys |= child.keys | {child.key}
        elif isinstance(s, If):
            child = LoopNode(-1, t.samples.share(s.cond), None)
            if child.trips > 0:
                _fill(t, child, s.body.stmts, around)
                node.children.append(child)
                node.walls.append(len(node.code))
                node.keys |= child.keys
        else:
            for body in bodies(s):
                _fill(t, node, body.stmts, around)


def _kept(t: Tree, s: Instr, around: frozenset[int]) -> None:
    """Of whole numbers that are kept in scratch and read again: what they are changes with the loops around both."""
    if s.mem.space == "param":
        return
    place = (s.mem.space, s.mem.base)
    if s.out is None:
        t.filled[place] = around
    elif s.out.dtype.is_int:
        roots = t.forms.of(s.args[0]).roots | (t.filled.get(place, around) & around)
        trips = math.prod(max(1.0, t.trips[k]) for k in roots)
        t.forms.known[s.out] = LinearForm({Variable(trips, roots, True, s.out.lanes): 1.0})


def _loop(t: Tree, s: For) -> LoopNode:
    lo, hi = t.samples.of(s.lo), t.samples.of(s.hi)
    if lo is None or hi is None:  # (data decides)
        lo, hi = [0.0] * POINTS, [t.forms.of(s.hi).const or float(s.step)] * POINTS
    trips = [max(0.0, math.ceil((b - a) / s.step)) for a, b in zip(lo, hi, strict=True)]
    mean = sum(trips) / POINTS
    key = len(t.trips)
    t.trips[key] = mean
    first = t.forms.of(s.lo)
    moved = Variable(max(mean, 1.0), frozenset({key}))
    t.forms.known[s.var] = LinearForm({**first.terms, moved: float(s.step)}, first.const)
    t.samples.spread(s.var, lo, trips, float(s.step))
    return LoopNode(key, mean, s)


def _touched(form: LinearForm, size: int, register: int) -> float:
    """Lines that an access of `size` bytes touches in the mean for each register, where arrays begin on a line."""
    part = min(size, register)
    if part < 2:
        return 1.0
    step = gcd(LINE, *(int(k) for k in form.terms.values()), register if size > register else LINE)
    first = int(form.const) % step
    places = range(first, LINE, step)
    return 1.0 + sum(at + part > LINE for at in places) / len(places)


def _access(t: Tree, s: Instr) -> Touch:
    written = s.op in WRITES
    size = s.mem.dtype.size
    value = s.args[1] if written else s.result
    index = t.forms.of(s.args[0])
    form = LinearForm({v: k * size for v, k in index.terms.items()}, (index.const + s.mem.offset) * size)
    size *= 1 if s.op in ("gather", "scatter") else value.lanes
    t.lines[id(s)] = _touched(form, size, t.register)
    return Touch(s.mem, form, size, written)


def distinct(node: LoopNode) -> Iterator[tuple[Instr, bool]]:
    """The code directly in a node, each with whether it is run: equal ones become one when it is built, where nothing is written
    between them."""
    first: dict[object, Val] = {}
    same: dict[Val, Val] = {}
    walls = set(node.walls)
    epoch = 0
    for at, s in enumerate(node.code):
        epoch += at in walls
        if s.out is None:
            epoch += 1
            yield s, True
            continue
        key = (s.op, tuple(same.get(a, a) for a in s.args), s.attr, s.out.type, epoch if s.op in READS else 0)
        known = first.setdefault(key, s.out)
        if known is not s.out:
            same[s.out] = known
        yield s, known is s.out


def carried(node: LoopNode) -> tuple[Sequence[Val], Sequence[Val]]:
    """(what a loop carries, what replaces it after each iteration)."""
    return (node.loop.carried, node.loop.yields) if node.loop is not None else ((), ())

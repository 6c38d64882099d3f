"""The loops of a Program with what is in them: straight code, accesses, and how often each runs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

from ...ir import index as ix
from ...program.facts import Facts, Rule, lifted
from ...program.ops import READS, WRITES
from ...program.program import For, If, Instr, Mem, Phase, Program, Stmt, Val, bodies
from .linear_forms import Forms, LinearForm, Variable

# samples ----------------------------------------------------------------------------------------------------
# Numbers that scalars of a Program have at a few points of its loops: how often a condition holds, how long a loop with
# a border is.


POINTS = 32
_GOLDEN = 0.6180339887498949
_PICKS, _MOVES = ("min", "max"), ("extract", "shuffle", "splat", "cast")
Numbers = list[float]


class Samples(Facts["Numbers | None"]):
    """The numbers of scalars. None: data decides them, or an operation that is not followed."""

    def __init__(self, made: dict[Val, Instr]) -> None:
        super().__init__(made)
        self._count = 0

    def spread(self, v: Val, lo: Numbers, trips: Numbers, step: float) -> None:
        """Let `v` be a loop's variable, anywhere in its range."""
        self.known[v] = [lo[i] + step * int(x * trips[i]) for i, x in enumerate(self._points())]

    def _points(self) -> Numbers:
        """Points of a sequence of low discrepancy, from 0 to 1: another one each time."""
        self._count += 1
        by = (self._count * _GOLDEN + 0.5) % 1.0 or _GOLDEN
        return [(i + 0.5) * by % 1.0 for i in range(POINTS)]

    def share(self, v: Val) -> float:
        """The share of points where a condition holds; a half where nothing is known of it."""
        found = self.of(v)
        return 0.5 if found is None else sum(bool(x) for x in found) / POINTS

    def derive(self, v: Val) -> Numbers | None:
        """Nothing, of vectors."""
        return None if v.lanes > 1 else super().derive(v)

    def unknown(self, v: Val, s: Instr | None) -> Numbers | None:
        """Nothing."""
        return None

    def kept_below(self, s: Instr) -> Numbers | None:
        """Data that is kept below a bound is anywhere from 0 up to there; of several numbers the largest or the least one is."""
        data, bound = s.args if self.of(s.args[0]) is None else s.args[::-1]
        ends, picked = self.of(bound), self._inputs_of_extreme(data)
        if ends is None or min(ends) <= 0:
            return None
        shares = self._points()
        each = [1.0 - (1.0 - x) ** (1.0 / picked) if self._least(data) else x ** (1.0 / picked) for x in shares]
        return [float(round(share * end)) for share, end in zip(each, ends, strict=True)]

    def _inputs_of_extreme(self, v: Val) -> int:
        """Of how many numbers a value is the largest or the least one, in each lane."""
        s = self.made.get(v)
        if s is None or s.op not in (*_PICKS, *_MOVES):
            return 1
        return sum(self._inputs_of_extreme(a) for a in s.args) if s.op in _PICKS else self._inputs_of_extreme(s.args[0])

    def _least(self, v: Val) -> bool:
        """Whether a value is the least of some numbers."""
        s = self.made.get(v)
        while s is not None and s.op in _MOVES:
            s = self.made.get(s.args[0])
        return s is not None and s.op == "min"


def _each(f: Callable[..., float | bool]) -> Rule:
    """The rule of an operation on numbers."""
    return lifted(lambda *args: [float(f(*xs)) for xs in zip(*args, strict=True)])


def _const(samples: Samples, s: Instr) -> Numbers | None:
    return [float(s.attr)] * POINTS if isinstance(s.attr, (int, float)) else None


def _divided(samples: Samples, s: Instr) -> Numbers | None:
    f, found = operator.floordiv if s.op == "idiv" else operator.mod, samples.of(s.args[0])
    return None if found is None else [float(f(a, s.number)) for a in found]


def _both(samples: Samples, s: Instr) -> Numbers | None:
    """What is known may still decide."""
    known = [a for a in map(samples.of, s.args) if a is not None]
    return [float(bool(a) and bool(b)) for a, b in zip(*known)] if len(known) == 2 else next(iter(known), None)


def _min(samples: Samples, s: Instr) -> Numbers | None:
    if s.result.dtype.is_int and sum(samples.of(a) is None for a in s.args) == 1:
        return samples.kept_below(s)
    found: Numbers | None = _each(min)(samples, s)
    return found


Samples.RULES = {
    "const": _const,
    "aligned": lambda samples, s: [1.0] * POINTS,
    "apart": lambda samples, s: [1.0] * POINTS,
    "add": _each(operator.add),
    "sub": _each(operator.sub),
    "mul": _each(operator.mul),
    "idiv": _divided,
    "imod": _divided,
    "max": _each(max),
    "min": _min,
    "lt": _each(operator.lt),
    "le": _each(operator.le),
    "eq": _each(operator.eq),
    "ne": _each(operator.ne),
    "and": _both,
    "or": _each(lambda a, b: bool(a) or bool(b)),
    "xor": _each(operator.ne),
    "not": _each(operator.not_),
    "select": lifted(lambda conds, a, b: [y if x else z for x, y, z in zip(conds, a, b, strict=True)]),
    "cast": lambda samples, s: samples.of(s.args[0]),
}


# tree -------------------------------------------------------------------------------------------------------
LINE = 64


@dataclass(frozen=True, slots=True)
class Touch:
    """A load or store of `bytes` consecutive bytes (of one lane, where lanes lie apart) from the byte `form` says; `share` of the runs
    of its block make it."""

    mem: Mem
    form: LinearForm
    bytes: int
    written: bool
    alike: Hashable
    """Equal for accesses to one array whose indices differ by constants."""


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
    return Touch(s.mem, form, size, written, (s.mem.space, s.mem.base, frozenset(form.terms.items()), s.mem.nt))


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

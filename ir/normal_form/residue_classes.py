"""Sums of what lies between zeros, over just the places that are no zeros: every s-th place of an axis, or one of it.

A transposed convolution reads x at (o + p − d·k) / s, and a gradient of a strided one does: where the division leaves a rest there is a
zero. For the outputs of one residue class of o modulo s the taps k without a rest are a residue class, too, modulo s / gcd(d, s). So the
output axis becomes blocks and residues, o = s·b + r, and the sum goes over k = κ(r) + s / gcd(d, s) · j alone: a plain convolution for each
residue, with whole positions b + c(r) − d / gcd(d, s) · j, and no product that is made in vain. (The index sets of "Sub-pixel convolution",
W. Shi et al., 2016, and of polyphase filters.) Where d and s have a common factor, only one
residue in so many has taps: the sum has none of the others, and what reads it takes 0 for them.

A product with an inserted zero is NaN where the other factor is infinite. Such products are not made here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from math import gcd

from .. import index as ix
from ..body import Fold, Reduce, Scan, Store, Value
from ..buffer import load, load_parts
from ..checks.access_bounds import Access, proved
from ..dtypes import index
from ..kernel import Kernel
from ..node import MASKED, Node, axes_of, axis, const, make, walk
from ..operators import substitute, where
from ..rewriter import Rewriter
from ..skipped_tiles import conjuncts


@dataclass(frozen=True, slots=True)
class Spaced:
    """In the sum `value`, what is added is 0 unless `step` divides out + factor · tap + offset, an index that is written as `place` (0 <=
    offset < step). `test`: the condition; `tap`: the axis that is summed over, None where there is none."""

    value: Value
    test: Node
    place: Node
    step: int
    out: Node
    tap: Node | None
    factor: int
    offset: int


def split_by_residue(kernel: Kernel) -> Kernel:
    """The kernel with the first such axis split of those with the largest step; itself where there is none. (Residues of a step are those of
    its divisors too, by which other sums of the kernel may be told apart.)"""
    found = max(_spaced(kernel), key=lambda s: s.step, default=None)
    return kernel if found is None else _ByClasses(kernel, found).run()


def single_terms(kernel: Kernel) -> Kernel:
    """The kernel whose first sum that has one term for each place of an axis is that term, as in a product with a diagonal; itself where
    there is none."""
    for v in kernel.body if kernel.blocks is None else ():
        if isinstance(v, Value) and isinstance(v.expr, Reduce) and v.expr.combine == "add":
            for test in dict.fromkeys(_needed(v.body)):
                found = _only_place(v, test)
                if found is not None:
                    body, over = substitute(v.body, found), tuple(a for a in v.expr.axes if a not in found)
                    made = Value(v.name, v.axes, replace(v.expr, axes=over, expr=body) if over else body, v.dtype)
                    return replace(kernel, body=tuple(made if item is v else item for item in kernel.body))
    return kernel


def _only_place(v: Value, test: Node) -> dict[Node, Node] | None:
    """The axis that is summed over and the one place of it where a condition holds, which is inside the axis for certain."""
    if test.op != "eq" or test.src[0].dtype is not index:
        return None
    terms, offset = ix.parts(ix.add(test.src[0], test.src[1], -1))
    for a in v.reduce_axes:
        if abs(terms.get(a, 0)) == 1 and isinstance(a.arg.extent, int):
            place = ix.linear({t: -terms[a] * k for t, k in terms.items() if t is not a}, -terms[a] * offset)
            least, most = ix.bounds(place)
            if least >= 0 and most < a.arg.extent and a not in axes_of(place):
                return {a: place}
    return None


# finding --------------------------------------------------------------------------------------------------------------
def _spaced(kernel: Kernel) -> Iterator[Spaced]:
    if any(isinstance(i, Fold) for i in kernel.body) or kernel.blocks is not None:
        return
    for v in kernel.values.values():
        if isinstance(v.expr, Reduce) and v.expr.combine == "add" and _of_products(v.body):
            for test in dict.fromkeys(_needed(v.body)):
                found = _class_test(v, test)
                if found is not None and _may_split(kernel, found):
                    yield found


def _of_products(body: Node) -> bool:
    """Whether a sum is one of products of elements."""
    while body.op == "cast":
        body = body.src[0]
    return body.op == "mul" and all(any(n.op == "load" for n in walk(s)) for s in body.src)


def _needed(body: Node) -> Iterator[Node]:
    """Conditions without which an element of a sum is 0."""
    if body.op == "load":
        mask = load_parts(body)[2]
        yield from () if mask is None else conjuncts(mask)
    elif body.op == "where" and body.src[2].op == "const" and body.src[2].arg == 0:
        yield from conjuncts(body.src[0])
        yield from _needed(body.src[1])
    elif body.op in ("mul", "cast", "neg"):
        for s in body.src:
            yield from _needed(s)


def _class_test(v: Value, test: Node) -> Spaced | None:
    """A condition as a test of residues."""
    if test.op != "eq" or test.src[0].op != "mod" or test.src[0].dtype is not index or test.src[1] is not const(0):
        return None
    place, step = test.src[0].src[0], test.src[0].arg
    terms, offset = ix.parts(place)
    outs = [a for a in terms if a in v.axes]
    taps = [a for a in terms if a in v.reduce_axes]
    if len(outs) != 1 or len(taps) > 1 or len(terms) != len(outs) + len(taps) or abs(terms[outs[0]]) != 1:
        return None
    sign = terms[outs[0]]
    factor = sign * terms[taps[0]] if taps else 0
    return Spaced(v, test, place, step, outs[0], taps[0] if taps else None, factor, sign * offset)


def _may_split(kernel: Kernel, s: Spaced) -> bool:
    """Whether sizes are numbers, the axis has one site, which is nowhere reduced or scanned, and other values are read at their own place."""
    if not all(isinstance(a.arg.extent, int) and a.arg.extent > 0 for a in (s.out, *(() if s.tap is None else (s.tap,)))):
        return False
    if len(kernel.families[s.out.arg.family]) > 1 or (s.tap is not None and len(kernel.families[s.tap.arg.family]) > 1):
        return False
    values = list(kernel.values.values())
    if any(s.out in v.reduce_axes or (isinstance(v.expr, Scan) and v.expr.axis is s.out) for v in values):
        return False
    if any(x.combine is not None or x.own is not None for x in kernel.stores if s.out in x.axes):
        return False
    if s.out.arg.extent <= s.step or (s.out.arg.extent % s.step and any(_is_residue(s.out, i) for x in kernel.stores for i in x.indices)):
        return False
    moved = {s.out, s.tap}
    for n in walk(*kernel.expressions()):
        if n.op in ("ref", MASKED):
            own = kernel.values[n.arg].axes
            if any(axes_of(i) & moved and (n.op == MASKED or i is not a) for a, i in zip(own, n.src)) or (
                s.out in own and n.src[own.index(s.out)] is not s.out
            ):
                return False
    return True


def _is_residue(a: Node, index: Node) -> bool:
    """Whether an axis numbers the places of a group in an index, as residues do."""
    terms, _ = ix.parts(index)
    return a in terms and any(k == terms[a] * a.arg.extent for t, k in terms.items() if t is not a)


# rewriting ------------------------------------------------------------------------------------------------------------
class _ByClasses(Rewriter):
    """The output's axis in blocks and residues, and the taps of each residue. Where taps and step have a common factor, only one residue in
    so many has taps: the sum has no axis for the others (`idle`), which are 0 where it is read."""

    def __init__(self, kernel: Kernel, s: Spaced) -> None:
        super().__init__(kernel)
        self.s = s
        taken = {a.arg.name for a in kernel.axes} | {a.arg.family for a in kernel.axes} | {b.name for b in kernel.buffers}
        size, step, common = s.out.arg.extent, s.step, gcd(s.factor, s.step)
        own, blocks = step // common, -(-size // step)
        name = f"{s.out.arg.name.replace('@', '_')}_of"
        whole = axis(s.out.arg.name, blocks) if blocks > 1 else const(0)
        rest = axis(_free(f"{name}{own}", taken), own) if own > 1 else const(0)
        self.idle = axis(_free(f"{name}{common}_", taken), common) if common > 1 else const(0)
        self.alive = -s.offset % common
        self.parts = tuple(a for a in (whole, rest, self.idle) if a.op == "axis")
        group = ix.add(ix.mul(whole, const(step)), ix.mul(rest, const(common)))
        self.out, self.mine = ix.add(group, self.idle), ix.add(group, const(self.alive))
        self.inside, self.mine_inside = (o < size if blocks * step > size else const(True) for o in (self.out, self.mine))
        shifted = ix.add(ix.mul(rest, const(common)), const(self.alive + s.offset))  # a multiple of what is common
        self.tap: Node | None = s.tap
        self.taps: tuple[Node, ...] = ()
        self.there, first = const(True), ix.floordiv(shifted, step)
        self.quotient = ix.add(whole, first)
        if s.tap is not None:
            inner = s.factor // common
            residue = ix.mod(ix.mul(ix.floordiv(shifted, common), const(-pow(inner, -1, own) % own if own > 1 else 0)), own)
            trips = -(-s.tap.arg.extent // own)
            j = axis(s.tap.arg.name, trips, s.tap.arg.family) if trips > 1 else const(0)
            self.taps = (j,) if trips > 1 else ()
            self.tap = ix.add(residue, ix.mul(j, const(own)))
            self.there = self.tap < s.tap.arg.extent
            first = first if s.factor == -1 else ix.floordiv(ix.add(shifted, residue, s.factor), step)
            self.quotient = ix.add(ix.add(whole, first), ix.mul(j, const(inner)))

    # expressions --------------------------------------------------------------------------------------------------------
    def value(self, v: Value) -> Value:
        if v.name != self.s.value.name:
            return super().value(v)
        assert isinstance(v.expr, Reduce)
        body = _SummedOver(self).go(v.expr.expr)
        over = tuple(b for a in v.expr.axes for b in (self.taps if a is self.s.tap else (a,)))
        axes = tuple(a for a in self.axes(v.axes) if a is not self.idle)
        return Value(v.name, axes, replace(v.expr, axes=over, expr=body) if over else body, v.dtype)

    def node(self, n: Node) -> Node | None:
        if n is self.s.out:
            return self.out
        if n.op == "ref" and self.s.out in self.kernel.values[n.arg].axes:
            at = tuple(b for i in n.src for b in (self.parts if i is self.s.out else (self.go(i),)))
            if n.arg != self.s.value.name or self.idle.op != "axis":
                return make("ref", n.dtype, at, n.arg)
            found = make("ref", n.dtype, tuple(i for i in at if i is not self.idle), n.arg)
            return where(ix.compare("eq", self.idle, const(self.alive)), found, const(0, n.dtype))
        return None

    def load(self, n: Node) -> Node:
        return _kept_inside(super().load(n), self.inside) if self.s.out in axes_of(n) else super().load(n)

    def axes(self, axes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(b for a in axes for b in (self.parts if a is self.s.out else (a,)))

    def mask(self, store: Store) -> Node | None:
        made = super().mask(store)
        if self.s.out not in store.axes or self.inside is const(True):
            return made
        return self.inside if made is None else made & self.inside


class _SummedOver(Rewriter):
    """What is summed, where `step` divides the place: place = step · quotient."""

    def __init__(self, classes: _ByClasses) -> None:
        super().__init__(classes.kernel)
        self.classes, self.s = classes, classes.s
        self.terms, self.offset = ix.parts(self.s.place)
        self.quotient = ix.mul(classes.quotient, const(self.terms[self.s.out]))

    def node(self, n: Node) -> Node | None:
        c = self.classes
        if n is self.s.out:
            return c.mine
        if n is self.s.tap:
            return c.tap
        if n is self.s.test:
            return c.there
        if n.op in ("div", "mod") and n.dtype is index:
            return self._divided(n)
        if n.op == "sum" and n.dtype is index:
            return self._sum(n)
        if n.op in ("lt", "le") and n.src[0].dtype is index:
            return self._compared(n)
        return c.node(n)

    def load(self, n: Node) -> Node:
        c, mine = self.classes, axes_of(n)
        made = super().load(n)
        made = _also(made, c.there) if self.s.tap in mine else made
        return _kept_inside(made, c.mine_inside) if self.s.out in mine else made

    def _times(self, terms: dict[Node, int]) -> int:
        """How often the place's terms are these; 0 where they are not."""
        times = terms.get(self.s.out, 0) * self.terms[self.s.out]  # (which is 1 or -1)
        return times if times and {t: k * times for t, k in self.terms.items()} == terms else 0

    def _whole(self, n: Node) -> tuple[int, int] | None:
        """(a, b) of an index divided by the step that is a · quotient + b."""
        if n.op != "div" or n.dtype is not index or n.arg != self.s.step:
            return None
        terms, c = ix.parts(n.src[0])
        times = self._times(terms)
        return (times, (c - times * self.offset) // self.s.step) if times else None

    def _divided(self, n: Node) -> Node | None:
        found = self._whole(n)
        if found is not None:
            return ix.add(ix.mul(self.quotient, const(found[0])), const(found[1]))
        if n.op == "mod" and n.arg == self.s.step:
            terms, c = ix.parts(n.src[0])
            times = self._times(terms)
            return const((c - times * self.offset) % n.arg) if times else None
        return None

    def _multiplied(self, n: Node) -> tuple[dict[Node, int], int]:
        """The terms of an index, in which step · (place // step) is the place."""
        terms, c = ix.parts(n)
        out: dict[Node, int] = {}
        for t, k in terms.items():
            found = self._whole(t) if k % self.s.step == 0 else None
            if found is None:
                out[t] = out.get(t, 0) + k
            else:
                times = k // self.s.step * found[0]
                c += times * self.offset + k * found[1]
                for x, y in self.terms.items():
                    out[x] = out.get(x, 0) + times * y
        return {t: k for t, k in out.items() if k}, c

    def _sum(self, n: Node) -> Node:
        terms, c = self._multiplied(n)
        times = self._times({t: k for t, k in terms.items() if t in self.terms}) if self.s.tap is not None else 0
        made = const(c)
        if times:
            terms = {t: k for t, k in terms.items() if t not in self.terms}
            made = ix.add(const(c - times * self.offset), self.quotient, times * self.s.step)
        for t, k in terms.items():
            made = ix.add(made, self.go(t), k)
        return made

    def _compared(self, n: Node) -> Node | None:
        """A comparison of the place, and of whole steps beside it, is one of the quotient."""
        terms, c = self._multiplied(ix.add(n.src[0], n.src[1], -1))
        times = terms.get(self.s.out, 0) * self.terms[self.s.out]
        rest = {t: terms.get(t, 0) - times * self.terms.get(t, 0) for t in dict.fromkeys((*terms, *self.terms))}
        if not times or any(k % self.s.step for k in rest.values()):
            return None if terms else ix.compare(n.op, const(c), const(0))
        whole = ix.mul(self.quotient, const(times))
        for t, k in rest.items():
            whole = ix.add(whole, self.go(t), k // self.s.step)
        return whole <= -(c + (n.op == "lt") - times * self.offset) // self.s.step


def _also(n: Node, cond: Node) -> Node:
    """A load under one more condition."""
    if n.op != "load" or cond is const(True):
        return n
    buffer, indices, mask = load_parts(n)
    known = () if mask is None else tuple(conjuncts(mask))
    more = [c for c in conjuncts(cond) if c not in known]
    return load(buffer, indices, reduce(lambda x, y: x & y, (*known, *more))) if more else n


def _kept_inside(n: Node, cond: Node) -> Node:
    """A load that stays inside of its array where the condition does not hold. (A mask more would differ from residue to residue, which
    read the same elements.)"""
    if n.op != "load" or cond is const(True):
        return n
    buffer, indices, mask = load_parts(n)
    every = (Access("", buffer.name, d, i, size, (), mask) for d, (i, size) in enumerate(zip(indices, buffer.shape, strict=True)))
    return n if all(map(proved, every)) else _also(n, cond)


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken."""
    return name if name not in taken else next(f"{name}{'_' * i}" for i in count(1) if f"{name}{'_' * i}" not in taken)

"""The states of a fold and how two tiles' states are merged.

A sum of weights and shifts is computed in each tile with the tile's own anchors. To merge, each side is moved to the
merged anchors: a weight by the factor exp(drift), and a shift x − a by (x − a) + drift, multiplied out. The latter asks
for the sums with fewer shifts as further states, by the same rule. For Σ(x − μ)² these are Σ(x − μ), which is zero, and
the number of elements, and the merge is that of Chan, Golub and LeVeque (1979); for Σ exp(s − m) it is the online
softmax of Milakov and Gimelshein (2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import product as every
from math import comb

from .. import functions as F
from .. import index as ix
from ..body import BITWISE, identity
from ..dtypes import DType
from ..node import Node, axes_of, const, placeholder
from ..operators import arith, cast, integer, substitute
from ..skipped_tiles import conjuncts
from .anchors import INF, Anchor, Anchors, FoldState, Inseparable, factors, free, negation, product
from .terms import Factor, Leaf, Term, added, body_of, conditions, converted, fewer_shifts, hidden_by, short, unmasked_weights, unshifted

# expand -----------------------------------------------------------------------------------------------------
# Taking the element of a sum apart into terms (`online_terms`): by linearity, and by what exp and log do to sums.
#
# Whatever cannot be taken apart is an `Inseparable`, which says what stands against it.


MOST = 16
"""Terms that one sum may expand to."""


class Expansion:
    """Expands elements over the reduced axes `over`; `anchors` knows the states so far."""

    def __init__(self, anchors: Anchors, over: tuple[Node, ...]) -> None:
        self.anchors, self.over = anchors, over

    def held(self, e: Node) -> bool:
        """Whether `e` depends on an earlier result."""
        return self.anchors.held(e)

    def free(self, e: Node) -> bool:
        """Whether `e` is the same for all elements."""
        return free(e, self.over)

    def mixed(self, e: Node) -> bool:
        """Whether `e` depends on both an earlier result and the element."""
        return self.held(e) and not self.free(e)

    def expand(self, e: Node) -> list[Term]:
        """The terms whose sum `e` is. Raises Inseparable."""
        if self.free(e):
            return [Term(coefficient=(e,))]
        if not self.held(e):
            return [Term(factors=(Factor("plain", e),))]
        if e.op in ("add", "sub", "neg"):
            return self._sum(e)
        if e.op == "mul":
            return self._product(self.expand(e.src[0]), self.expand(e.src[1]), e)
        if e.op == "div":
            return self._product(self.expand(e.src[0]), [self._reciprocal(e.src[1])], e)
        if e.op == "exp":
            return [self._weight(e)]
        if e.op == "log":
            return self._log(e)
        if e.op == "where":
            return self._where(e)
        if e.op == "cast" and e.dtype.is_float and e.src[0].dtype.is_float and e.dtype.eps <= e.src[0].dtype.eps:
            return [converted(t, e.dtype) for t in self.expand(e.src[0])]
        raise Inseparable(f"{e.op} of an earlier result and of the element cannot be taken apart: {short(e)}")

    def _product(self, xs: list[Term], ys: list[Term], e: Node) -> list[Term]:
        if len(xs) * len(ys) > MOST:
            raise Inseparable(f"it expands to more than {MOST} sums: {short(e)}")
        if any(x.rough for x in xs) and any(y.rough for y in ys):
            raise Inseparable(f"multiplied out, it is a difference of nearly equal numbers: {short(e)}")
        return [x.times(y) for x in xs for y in ys]

    # sums ---------------------------------------------------------------------------------------------------------
    def leaves(self, e: Node, negative: bool = False, scale: tuple[Node, ...] = (), deep: bool = False) -> list[Leaf]:
        """The terms that `e` adds up; `deep`: what multiplies a sum, and is the same for all elements, goes into it, and sums of
        earlier results are taken apart as well."""
        if not self.mixed(e) and not (deep and self.held(e)):
            return [Leaf(negative, e, scale)]
        if e.op in ("add", "sub"):
            right = negative != (e.op == "sub")
            return self.leaves(e.src[0], negative, scale, deep) + self.leaves(e.src[1], right, scale, deep)
        if e.op == "neg":
            return self.leaves(e.src[0], not negative, scale, deep)
        if deep and e.op == "mul":
            for x, y in (e.src, e.src[::-1]):
                if self.free(y) and self.mixed(x):
                    return self.leaves(x, negative, (*scale, y), deep)
        if deep and e.op == "div" and self.free(e.src[1]) and self.mixed(e.src[0]):
            return self.leaves(e.src[0], negative, (*scale, 1.0 / e.src[1]), deep)
        return [Leaf(negative, e, scale)]

    def _sum(self, e: Node) -> list[Term]:
        leaves = self.leaves(e)
        fixed = [x for x in leaves if self.held(x.node) and self.free(x.node)]
        if any(self.mixed(x.node) for x in leaves) or not fixed:
            mixed = [x for x in leaves if self.mixed(x.node)]
            terms = [replace(t, negative=t.negative != x.negative) for x in mixed for t in self.expand(x.node)]
            for side in (fixed, [x for x in leaves if not self.held(x.node)]):
                terms += self.expand(added([(x.negative, x.node) for x in side])) if side else []
            if len(terms) > MOST:
                raise Inseparable(f"it expands to more than {MOST} sums: {short(e)}")
            return terms
        table: dict[Leaf, Node] = {}
        anchors, mean = [], None
        for x in fixed:
            found = self.anchors.find(x.node, x.negative, None, True)
            if found is not None:
                anchors.append(found[0])
                table[x], mean = found[1], found[2]
        away = [x for x in fixed if x not in table]
        kept = [x for x in leaves if x not in away]
        out = [Term(x.negative, (x.node,), (), not anchors) for x in away]
        node = added([(x.negative, table.get(x, x.node)) for x in kept])
        if not anchors:
            return [Term(factors=(Factor("plain", node),), rough=True), *out]
        plain = added([(x.negative, x.node) for x in kept if x not in table])
        exact = mean is not None and len(anchors) == 1 and anchors[0].negative and anchors[0].scale is None
        return [Term(factors=(Factor("shift", node, tuple(anchors), mean=mean if exact else None, plain=plain),)), *out]

    # weights ------------------------------------------------------------------------------------------------------
    def _weight(self, e: Node) -> Term:
        exponent, masks = self._unmasked(e.src[0])
        leaves = self.leaves(exponent, deep=True)
        table: dict[Leaf, Node] = {}
        swaps: dict[Node, Node] = {}
        anchors: list[Anchor] = []
        away: list[Leaf] = []
        for x in leaves:
            if self.mixed(x.whole):
                raise Inseparable(f"exp of what depends on an earlier result and the element at once: {short(x.whole)}")
            if not self.held(x.whole):
                masks += self._masks(x)
                continue
            scale = product(list(x.scale))
            moves = scale is not None and self.held(scale)
            found = None if moves else self.anchors.find(x.node, x.negative, scale, False)
            if found is None:
                if self.anchors.bounds(x.node):
                    raise Inseparable(f"exp of a difference from what a tile does not know, without which it overflows: {short(e)}")
                away.append(x)
            else:
                anchors.append(found[0])
                table[x] = swaps[x.node] = found[1]
        out = tuple(F.exp(-x.whole if x.negative else x.whole) for x in away)
        if away:
            inside = added([(x.negative, replace(x, node=table.get(x, x.node)).whole) for x in leaves if x not in away])
        else:
            inside = substitute(exponent, swaps)
        node, seen = F.exp(inside), None
        for c in reversed(masks):
            node = F.where(c, node, const(0, node.dtype))
            seen = c if seen is None else c & seen
        return Term(coefficient=out, factors=(Factor("weight", node, tuple(anchors), exponent=e.src[0], cond=seen),))

    def _unmasked(self, e: Node) -> tuple[Node, list[Node]]:
        """An exponent without masks around earlier results, and those: exp(where(c, x, −∞)) is where(c, exp(x), 0)."""
        masks: list[Node] = []
        while e.op == "where" and self.held(e):
            found = self._hidden(e)
            if found is None or self.held(found[0]):
                break
            masks.append(found[0])
            e = found[1]
        return e, masks

    @staticmethod
    def _hidden(e: Node) -> tuple[Node, Node] | None:
        """(condition, x) of what is x where the condition holds, else −∞."""
        if e.op != "where":
            return None
        cond, x, y = e.src
        return (cond, x) if y.op == "const" and y.arg == -INF else None

    def _masks(self, x: Leaf) -> list[Node]:
        """The conditions outside of which a term of an exponent is −∞."""
        if x.negative or not all(map(self.anchors.nonnegative, x.scale)):
            return []
        return self._masks_of(x.node)

    def _masks_of(self, e: Node) -> list[Node]:
        if e.op == "add":
            return [c for s in e.src for c in self._masks_of(s)]
        if e.op == "sub":
            return self._masks_of(e.src[0])
        if e.op == "mul":
            return [c for x, y in (e.src, e.src[::-1]) if y.op == "const" and y.arg > 0 for c in self._masks_of(x)]
        found = self._hidden(e)
        return [] if found is None else [found[0], *self._masks_of(found[1])]

    # the rest -----------------------------------------------------------------------------------------------------
    def _single(self, e: Node, what: str) -> Term:
        terms = self.expand(e)
        if len(terms) != 1:
            raise Inseparable(f"{what} of a sum in which earlier results and elements meet: {short(e)}")
        return terms[0]

    def _reciprocal(self, e: Node) -> Term:
        if self.free(e):
            return Term(coefficient=(1.0 / e,))
        if not self.held(e):
            return Term(factors=(Factor("plain", 1.0 / e),))
        t = self._single(e, "a quotient")
        if t.conditional or any(f.kind != "plain" for f in t.leaves()):
            raise Inseparable(f"a divisor depends on an earlier result and the element at once: {short(e)}")
        return Term(
            t.negative,
            tuple(1.0 / c for c in t.coefficient),
            tuple(Factor("plain", 1.0 / f.node) for f in t.factors),
        )

    def _log(self, e: Node) -> list[Term]:
        """log of a product of what is not negative: the sum of logarithms; log exp x is x."""
        t = self._single(e.src[0], "a logarithm")
        leaves = t.leaves()
        if t.negative or t.conditional or any(f.kind not in ("plain", "weight") for f in leaves):
            raise Inseparable(f"the logarithm of a difference or under a condition: {short(e)}")
        parts = [f.exponent for f in leaves if f.exponent is not None]
        plain = [f.node for f in leaves if f.kind == "plain"]
        below = [c.src[1] for c in t.coefficient if c.op == "div" and c.src[0].op == "const" and c.src[0].arg == 1]
        above = [c for c in t.coefficient if not (c.op == "div" and c.src[0].op == "const" and c.src[0].arg == 1)]
        if not all(map(self.anchors.nonnegative, (*plain, *below, *above))):
            raise Inseparable(f"the logarithm of a product whose factors may be negative: {short(e)}")
        logs = [(False, F.log(p)) for p in (*plain, *above)] + [(True, F.log(p)) for p in below]
        return self.expand(added([*((False, p) for p in parts), *logs]))

    def _where(self, e: Node) -> list[Term]:
        cond, x, y = e.src
        of_rows = self.held(cond)
        if of_rows and not self.free(cond):
            return [self._choice(e)]
        out = []
        for c, side in ((cond, x), (negation(cond), y)):
            if side.op == "const" and side.arg == 0:
                continue
            out += [replace(t, rows=(*t.rows, c)) if of_rows else t.under(c) for t in self.expand(side)]
        return out

    def _choice(self, e: Node) -> Term:
        state, x = self.chosen(e.src[0])
        if e.src[2].op != "const" or e.src[2].arg != 0:
            raise Inseparable(f"what is not chosen by a comparison with an earlier result must be 0: {short(e)}")
        t = self._single(e.src[1], "a choice")
        if t.conditional or any(self.held(c) for c in t.coefficient):
            raise Inseparable(f"an earlier result is read only where another one chooses: {short(e)}")
        inner = (*t.factors, *(Factor("plain", c) for c in t.coefficient))
        t = replace(t, coefficient=(), factors=inner)
        return replace(t, factors=(Factor("choice", x, inner=t.factors, cond=e.src[0], chosen=state),))

    def chosen(self, cond: Node) -> tuple[FoldState, Node]:
        """(the maximum or minimum, x) of a condition `x equals the extreme of x`; `or x is NaN` may follow."""
        parts = list(conjuncts(cond, by="or"))
        for c in parts:
            for x, y in (c.src, c.src[::-1]) if c.op == "eq" else ():
                state = self.anchors.state(y)
                nans = all(o is c or (o.op == "ne" and o.src[0] is o.src[1] is x) for o in parts)
                if state is None or state.combine not in ("max", "min") or not nans:
                    continue
                if y is state.ref and state.over == self.over and cast(x, state.dtype) is state.body:
                    return state, x
        raise Inseparable(f"a condition depends on an earlier result: {short(cond)}")


def pulled_out(x: Expansion, e: Node, under: Node | None = None) -> tuple[Node, list[tuple[bool, Node, Node | None]]]:
    """`e` without the earlier results that are added to it, and those, signed, each with the condition that it is read under; through
    masks to ±∞."""
    if e.op == "where" and not x.held(e.src[0]) and e.src[2].op == "const" and abs(e.src[2].arg) == INF:
        inner, away = pulled_out(x, e.src[1], e.src[0] if under is None else under & e.src[0])
        return F.where(e.src[0], inner, e.src[2]), away
    leaves = x.leaves(e)
    away = [(p.negative, p.node, under) for p in leaves if x.held(p.node) and x.free(p.node)]
    kept = [(p.negative, p.node) for p in leaves if not (x.held(p.node) and x.free(p.node))]
    return (added(kept), away) if away and kept else (e, [])


# states -----------------------------------------------------------------------------------------------------
Reduction = tuple[tuple[Node, ...], tuple[Node, ...], DType]
"""What states of one value have in common: the axes reduced over, the value's own, and the type."""
Sides = tuple[Node, Node]


class States:
    """States in the order in which they were asked for, each after those that its merge or body reads. A state has the
    name of the value it belongs to, or one that is not `taken`; `own` are the names of the values. All states vary over
    `shared`, the axes that all values have: loops over these can run around the fold."""

    def __init__(self, own: Collection[str], taken: Collection[str], shared: tuple[Node, ...]) -> None:
        self.states: dict[str, FoldState] = {}
        self.merged: dict[str, Node] = {}
        self.anchors = Anchors(self.states, self._count)
        self._taken, self._shared = set(taken) - set(own), shared
        self.extremes: dict[str, FoldState] = {}
        self._known: dict[tuple[str, tuple[Node, ...], Node, DType], FoldState] = {}

    # making -------------------------------------------------------------------------------------------------------
    def value(self, name: str, combine: str, body: Node, reduction: Reduction) -> Node:
        """What the reduction `name` of `body` is, as an expression of states, which are made. Raises Inseparable."""
        if not self.anchors.held(body):
            return self._state(name, combine, body, reduction, None).ref
        if combine == "add":
            return self._sum(name, Expansion(self.anchors, reduction[0]).expand(body), reduction)
        if combine in ("max", "min"):
            return self._extreme(name, combine, body, reduction)
        raise Inseparable(f"a product over elements that depend on an earlier result: {short(body)}")

    def _sum(self, name: str, terms: list[Term], reduction: Reduction) -> Node:
        out: Node | None = None
        for t in terms:
            state = self._moment(name, t.factors, reduction)
            if state is None:
                continue
            part = state.ref
            for c in t.coefficient:
                part = part * cast(c, part.dtype)
            for c, cond in t.guarded:
                part = part * self._where_some(cond, cast(c, part.dtype), reduction)
            # a sum of no elements is 0, whatever multiplies it
            own = [a.arg.extent for a in reduction[1]]
            sizes = (n for a in reduction[0] if isinstance(n := a.arg.extent, Node) and n not in own)
            some = [const(0) < n for n in sizes if not ix.bounds(n)[0]]
            for cond in (*t.rows, *(some if t.coefficient or t.guarded else ())):
                part = F.where(cond, part, const(0, part.dtype))
            out = (-part if t.negative else part) if out is None else out - part if t.negative else out + part
        return const(0, reduction[2]) if out is None else out

    def _where_some(self, cond: Node, x: Node, reduction: Reduction) -> Node:
        """What was read under a condition of the elements: `x`, or 0 where it held for none, so that `x` was never read."""
        if free(cond, reduction[0]):
            return F.where(cond, x, const(0, x.dtype))
        some = self._some(cond, reduction)
        return F.where(const(0, some.dtype) < some.ref, x, const(0, x.dtype))

    def _some(self, cond: Node, reduction: Reduction) -> FoldState:
        """How many elements have a condition."""
        one = const(1, reduction[2])
        return self._state("some", "add", F.where(cond, one, const(0, one.dtype)), reduction, None)

    def _count(self, like: FoldState) -> FoldState:
        return self._state("count", "add", const(1, like.dtype), (like.over, self._shared, like.dtype), None)

    def _state(self, name: str, combine: str, body: Node, reduction: Reduction, sides: Sides | None) -> FoldState:
        """The state of `body`; `sides`: both tiles' states at the merged anchors (None: as they are)."""
        over, axes, dtype = reduction
        key = (combine, over, body, dtype)
        if key not in self._known:
            name = self._free_name(name)
            state = FoldState(name, combine, over, body, self._axes(axes, axes_of(body) | set(self._shared)), dtype)
            a, b = sides or (self.side("a")[state], self.side("b")[state])
            self._known[key] = self.states[name] = state
            self.merged[name] = (integer if combine in BITWISE else arith)(combine, a, b)
        return self._known[key]

    def _axes(self, axes: tuple[Node, ...], needed: frozenset[Node]) -> tuple[Node, ...]:
        """The needed ones of `axes`, in the order of another state: a merge replaces those of equal axes at once."""
        kept = tuple(a for a in axes if a in needed)
        return next((s.axes for s in self.states.values() if set(s.axes) == set(kept)), kept)

    def side(self, letter: str) -> _Side:
        """The state of one of two tiles."""
        return _Side(letter, self)

    # sums ---------------------------------------------------------------------------------------------------------
    def _moment(self, name: str, fs: tuple[Factor, ...], reduction: Reduction) -> FoldState | None:
        """The sum of a product of factors; None where it is zero."""
        over, _, dtype = reduction
        body = body_of(fs, dtype)
        leaves = [g for f in fs for g in f.leaves()]
        found = self._known.get(("add", over, body, dtype))
        if found is not None or all(f.kind in ("plain", "group") for f in leaves):
            return found or self._state(name, "add", body, reduction, None)
        if _is_zero(fs, leaves, reduction):
            return None
        shifts = Counter(f for f in leaves if f.kind == "shift")
        lower: dict[tuple[int, ...], FoldState] = {}
        for kept in list(every(*(range(n + 1) for n in shifts.values())))[:-1]:
            fewer = self._moment(f"{name}_{sum(kept)}", tuple(fewer_shifts(fs, Counter(dict(zip(shifts, kept))))), reduction)
            if fewer is not None:
                lower[kept] = fewer
        cond = conditions(fs) if shifts or any(True for _ in unmasked_weights(fs)) else None
        some = None if cond is None else self._some(cond, reduction)
        name, sides = self._free_name(name), []
        for side in (self.side("a"), self.side("b")):
            out = side.named(name, dtype)
            for kept, state in lower.items():
                out = out + _moved(side[state], shifts, kept, side, dtype)
            out = self._rescaled(out, leaves, side)
            # a tile without an element that counts has a sum of 0, whatever the anchors are
            sides.append(out if some is None else F.where(const(0, some.dtype) < side[some], out, side.named(name, dtype)))
        found = self._state(name, "add", body, reduction, (sides[0], sides[1]))
        hidden = (hidden_by(f, over, self.states) for f in unmasked_weights(fs))
        self.extremes.update((found.name, s) for s in hidden if s is not None)
        return found

    def _free_name(self, name: str) -> str:
        while name in self.states or name in self._taken:
            name += "_"
        return name

    def _rescaled(self, out: Node, leaves: list[Factor], side: _Side) -> Node:
        """A side's sum under the merged anchors of its weights, 0 where its choices are not chosen any more."""
        for f in leaves:
            if f.kind == "weight":
                out = out * _scale(f, side, out.dtype)
            elif f.kind == "choice":
                out = F.where(side.still(f), out, const(0, out.dtype))
        return out

    # maxima and minima --------------------------------------------------------------------------------------------
    def _extreme(self, name: str, combine: str, body: Node, reduction: Reduction) -> Node:
        over, _, dtype = reduction
        x = Expansion(self.anchors, over)
        pulled, away = pulled_out(x, body)
        if away and not self.anchors.held(pulled):
            out = self._state(name, combine, pulled, reduction, None).ref
            for negative, node, cond in away:
                node = node if cond is None else self._where_some(cond, node, reduction)
                out = out - node if negative else out + node
            return out
        if body.op == "cast" and body.src[0].op == "where":
            body = F.where(body.src[0].src[0], *(cast(s, body.dtype) for s in body.src[0].src[1:]))
        if body.op == "where" and x.held(body.src[0]):
            return self._first(name, combine, body, reduction)
        terms = x.expand(body)
        leaves = [f for t in terms for f in t.leaves()]
        if len(terms) != 1 or terms[0].negative or terms[0].conditional or any(f.kind not in ("plain", "weight") for f in leaves):
            raise Inseparable(f"{combine} of what an earlier result does not only add to or scale: {short(body)}")
        if not all(map(self.anchors.nonnegative, terms[0].coefficient)):
            raise Inseparable(f"{combine} of a product with an earlier result that may be negative: {short(body)}")
        name, none, sides = self._free_name(name), identity(combine, dtype), []
        for side in (self.side("a"), self.side("b")):
            mine = side.named(name, dtype)
            scaled = mine
            for f in leaves:
                scaled = scaled * _scale(f, side, dtype) if f.kind == "weight" else scaled
            sides.append(mine if scaled is mine else F.where(mine.eq(none), none, scaled))
        out = self._state(name, combine, body_of(terms[0].factors, dtype), reduction, (sides[0], sides[1])).ref
        for c in terms[0].coefficient:
            out = out * cast(c, dtype)
        return out

    def _first(self, name: str, combine: str, body: Node, reduction: Reduction) -> Node:
        """min over where(x = the maximum of x, place, nowhere): which element it is."""
        over, _, dtype = reduction
        cond, place, nowhere = body.src
        state, node = Expansion(self.anchors, over).chosen(cond)
        beyond = nowhere.op == "const" and not self.anchors.held(place) and _beyond(combine, place, nowhere)
        if not beyond:
            raise Inseparable(f"{combine} of places, and what stands for none of them is not beyond all: {short(body)}")
        f = Factor("choice", node, cond=cond, chosen=state)
        name, sides = self._free_name(name), []
        for side in (self.side("a"), self.side("b")):
            sides.append(F.where(side.still(f), side.named(name, dtype), nowhere))
        return self._state(name, combine, body, reduction, (sides[0], sides[1])).ref


class _Side:
    """The states of tile `a` or `b` of a merge."""

    def __init__(self, letter: str, states: States) -> None:
        self.letter, self.states = letter, states

    def __getitem__(self, state: FoldState) -> Node:
        return self.named(state.name, state.dtype)

    def named(self, name: str, dtype: DType) -> Node:
        """The state called `name`, which may be about to be made."""
        return placeholder(f"{self.letter}.{name}", dtype)

    def tables(self) -> tuple[Mapping[Node, Node], Mapping[Node, Node]]:
        """References to states, as this tile has them and as they are merged."""
        known = self.states.states.values()
        return {s.ref: self[s] for s in known}, {s.ref: self.states.merged[s.name] for s in known}

    def still(self, f: Factor) -> Node:
        """Whether what this tile chose is what the merged state would choose."""
        assert f.cond is not None and f.chosen is not None
        return substitute(f.cond, {f.node: self[f.chosen], f.chosen.ref: self.states.merged[f.chosen.name]})


def _scale(f: Factor, side: _Side, dtype: DType) -> Node:
    drift: Node | None = None
    for a in f.anchors:
        d = a.drift(*side.tables())
        drift = d if drift is None else drift + d
    return const(1.0, dtype) if drift is None else cast(F.exp(drift), dtype)


def _moved(state: Node, shifts: Counter[Factor], kept: tuple[int, ...], side: _Side, dtype: DType) -> Node:
    """What a sum with fewer shifts contributes to the one with all: binomial coefficients and powers of drifts."""
    out = state
    for (f, n), k in zip(shifts.items(), kept, strict=True):
        if k == n:
            continue
        delta: Node | None = None
        for a in f.anchors:
            d = a.drift(*side.tables())
            delta = d if delta is None else delta + d
        assert delta is not None
        delta = cast(delta, dtype)
        out = out * float(comb(n, k)) if comb(n, k) != 1 else out
        for _ in range(n - k):
            out = out * delta
    return out


def _is_zero(fs: tuple[Factor, ...], leaves: list[Factor], reduction: Reduction) -> bool:
    """Whether it is Σ w·(x − Σ w·x / Σ w)."""
    over, _, dtype = reduction
    shifts = [f for f in leaves if f.kind == "shift"]
    if len(shifts) != 1 or shifts[0].mean is None:
        return False
    mean = shifts[0].mean
    weights, whole = tuple(fewer_shifts(fs, Counter())), tuple(unshifted(fs))
    sums = ((weights, mean.weight), (whole, mean.total))
    return all(s.over == over and s.dtype is dtype and _same_factors(body_of(g, dtype), s.body) for g, s in sums)


def _same_factors(a: Node, b: Node) -> bool:
    """Whether two products have the same factors."""
    (up, down), (top, under) = factors(a), factors(b)
    return Counter(up) == Counter(top) and Counter(down) == Counter(under)


def _beyond(combine: str, place: Node, nowhere: Node) -> bool:
    """Whether the constant loses against every place."""
    inner = place.src[0] if place.op == "cast" and place.src[0].dtype.is_int else place
    lo, hi = ix.bounds(inner)
    return bool(hi <= nowhere.arg if combine == "min" else lo >= nowhere.arg)

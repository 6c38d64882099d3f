"""Taking the element of a sum apart into terms (`online_terms`): by linearity, and by what exp and log do to sums.

Whatever cannot be taken apart is an `Inseparable`, which says what stands against it."""

from __future__ import annotations

from dataclasses import replace

from .. import functions as F
from ..node import Node, const
from ..operators import cast, substitute
from ..skippable import conjuncts
from .anchors import INF, Anchor, Anchors, FoldState, Inseparable, free, product
from .axes import negation
from .terms import Factor, Leaf, Term, added, converted, short

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
        if t.guarded or any(f.kind != "plain" for f in t.leaves()):
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
        if t.negative or t.guarded or any(f.kind not in ("plain", "weight") for f in leaves):
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
        if self.held(cond):
            return [self._choice(e)]
        out = []
        for c, side in ((cond, x), (negation(cond), y)):
            if side.op == "const" and side.arg == 0:
                continue
            out += [t.under(c) for t in self.expand(side)]
        return out

    def _choice(self, e: Node) -> Term:
        state, x = self.chosen(e.src[0])
        if e.src[2].op != "const" or e.src[2].arg != 0:
            raise Inseparable(f"what is not chosen by a comparison with an earlier result must be 0: {short(e)}")
        t = self._single(e.src[1], "a choice")
        if t.guarded or any(self.held(c) for c in t.coefficient):
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

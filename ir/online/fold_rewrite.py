"""The online rewrite: reductions over one axis that read each other, as one fold that runs in tiles.

A chain v₁ … vₖ over j, vᵢ = ⊕ᵢ fᵢ(j, v₁ … vᵢ₋₁), may run in tiles that are merged if every fᵢ is rescalable:
fᵢ(j, p′) is fᵢ(j, p) under a factor, and sums of lower degree, that are free of j (`states`). That is read off
the expression (`terms`), so attention, its variants, log-sum-exp, cross-entropy and variances are no patterns
here. Related: Milakov and Gimelshein (2018), Dao et al. (2022), Neptune's repair terms (arXiv 2510.08726), RedFuser's
cascaded reductions (2603.10026).

What was read under a condition stays under it: a coefficient that leaves a sum counts only where some element of the sum has the
condition (`terms.Term.guarded`), and a tile without such an element is not rescaled.

What the rewrite changes beside the order of additions: numbers leave products; a row that a condition makes 0 is 0
whatever it is multiplied by; log(exp(x)) is x also where exp(x) is 0; where all scores of a row are −∞
without a mask that says so, log-sum-exp is −∞ instead of NaN (`online_empty` has the masked ones), and weights that nothing divides are
0; where a score is ∞, such weights may be NaN."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from .. import node as N
from ..body import Fold, Monoid, Reduce, Scan, Store, Value, identity
from ..dtypes import rounded
from ..kernel import Kernel
from ..node import Node, axes_of, const, reachable, ref, walk
from ..operators import substitute
from .anchors import INF, ChainNest, FoldState, Inseparable, Sites, factors, family_form, inline, product, written_out
from .states import States
from .terms import as_numpy

Results = dict[str, tuple[tuple[Node, ...], Node]]
"""What values of the chain are: their axes, and an expression over states."""


@dataclass(frozen=True)
class NoFold:
    """Why no fold was made of a kernel; false, as None is. `reason` is one sentence for users."""

    reason: str

    def __bool__(self) -> Literal[False]:
        return False


def online(kernel: Kernel, rows: bool = False, products: bool = False, along: str = "", spanning: bool = False) -> Kernel | NoFold:
    """`kernel` with a chain of reductions over one axis as a fold, or why there is none.

    The chain must read a contraction that spans the axis, as attention reads q·kᵀ: then the fold saves that array. Rows
    that lie in memory are as fast in several passes; only where elements are compared with a result, as argmax does, is
    one pass better. `rows` folds all chains over them. `products`: fold also where the chain is one sum of products
    with that contraction, which could be reassociated or be two kernels. `along`: the axis or family to fold along (default:
    the first that can be). Values without a reduction are written out first, and axes that walk one dimension become one
    family."""
    if any(isinstance(item, Fold) for item in kernel.body):
        return NoFold("it has a fold already")
    nests = seen_by_maximum(family_form(inline(kernel)))
    families = list(dict.fromkeys(a for n in nests for a, old in _over(n) if along in ("", old.arg.name, old.arg.family)))
    if not families:
        return NoFold(f"it has no reduction{along and f' over {along}'}")
    reasons: dict[str, bool] = {}
    for axis in families:
        try:
            return _Rewrite(kernel, nests, axis, rows, products, spanning).kernel()
        except _Uninteresting as why:
            reasons.setdefault(str(why), False)
        except Inseparable as why:
            reasons[str(why)] = True
    return NoFold(next((r for r, telling in reasons.items() if telling), next(iter(reasons))))


def compares(kernel: Kernel) -> bool:
    """Whether a reduction chooses elements by the result of another, as argmax does: then `online` is worth asking."""
    reductions = [v for v in kernel.values.values() if isinstance(v.expr, Reduce)]
    return len(reductions) > 1 and any(
        any(r.op == "ref" for r in N.walk(e.src[0])) for v in reductions for e in N.walk(v.body) if e.op == "where"
    )


class _Uninteresting(Exception):
    """Nothing along this axis asks for a fold."""


class _Rewrite:
    """One attempt: the reductions over the family `axis`."""

    def __init__(self, kernel: Kernel, nests: Sequence[ChainNest], axis: Node, rows: bool, products: bool, spanning: bool) -> None:
        self.old, self.nests, self.axis = kernel, list(nests), axis
        self.values = {n.name: n for n in nests if isinstance(n.item, Value)}
        self._known: dict[str, set[str]] = {}
        self.inner = {n.name for n in self.values.values() if axis in n.axes and n.over and axis not in n.over}
        self.heads = {n for n in self.inner if spanning or _contracts(self.values[n])}
        self.rows = rows or (not self.heads and self._chooses())
        self.chain = self._chain(self.inner if self.rows else self.heads, self.rows)
        if not self.chain:
            raise _Uninteresting("no reduction reads a product that spans the axis it reduces")
        if not products and len(self.chain) == 1 and self._is_product(self.values[self.chain[0]]):
            raise Inseparable(f"{self.chain[0]} is a product of a product with nothing between: two kernels are faster")
        self.nests = numbers_outside(self.nests, self.heads)
        self.values = {n.name: n for n in self.nests if isinstance(n.item, Value)}
        self.block = self._inside()
        self._order()

    # which values -------------------------------------------------------------------------------------------------
    def _chooses(self) -> bool:
        """Whether some reduction over the axis compares elements with the result of another, as argmax does."""
        over = [n for n in self.values.values() if self.axis in n.over]
        names = {n.name for n in over}
        conds = (e.src[0] for n in over for e in N.walk(*n.exprs) if e.op == "where")
        return any(r.op == "ref" and r.arg in names for c in conds for r in N.walk(c))

    def _chain(self, heads: set[str], rows: bool) -> list[str]:
        """The reductions over the axis that read a head, directly or not; for `rows` all that read each other."""
        over = [n for n in self.values.values() if self.axis in n.over]
        if rows and not heads:
            linked = {n.name for n in over if self._below(n.name) & {m.name for m in over}}
            linked |= {m for n in linked for m in self._below(n) if self.axis in self.values[m].over}
            return [n.name for n in over if n.name in linked]
        return [n.name for n in over if self._below(n.name) & heads]

    def _below(self, name: str) -> set[str]:
        """Every value that `name` depends on."""
        if name not in self._known:
            self._known[name] = set(reachable(self.values[name].reads, lambda n: self.values[n].reads))
        return self._known[name]

    def _is_product(self, n: ChainNest) -> bool:
        """Whether a nest sums products of a head itself, and not of a function of it."""
        parts = factors(_without_casts(n.exprs[0]))[0]
        return _contracts(n) and all(p.op == "ref" or not {r.arg for r in N.walk(p) if r.op == "ref"} & self.heads for p in parts)

    def _inside(self) -> list[str]:
        """The values that span the axis and that the chain reads: the block computes them. Raises Inseparable where the
        rewrite would lose one."""
        chain = set(self.chain)
        block = {m for n in chain for m in self._below(n) if self.axis in self.values[m].axes and m in self.inner}
        for n in self.nests:
            lost = n.reads & block
            if lost and n.name not in block | chain:
                raise Inseparable(f"{n.name} reads {min(lost)} after the reductions: it has to be in memory")
        for name in block | chain:
            n = self.values[name]
            if isinstance(n.item, Value) and isinstance(n.item.expr, Scan):
                raise Inseparable(f"{name} is a running {n.combine}, which reads all that came before")
            if name in block and self._below(name) & chain:
                raise Inseparable(f"{name} is computed for every element from results of the chain")
            if name in block and not self.rows and self._below(name) & self.heads:
                raise Inseparable(f"{name} reduces {min(self._below(name) & self.heads)} over another axis first")
        return [n for n in self.values if n in block]

    def _order(self) -> None:
        """What the chain needs comes before the fold, the rest after; nothing may have to be in both."""
        inside = {*self.chain, *self.block}
        needed = {m for n in inside for m in self._below(n)} - inside
        for n in needed:
            late = self._below(n) & set(self.chain)
            if late:
                raise Inseparable(f"{n} lies between {min(late)} and later reductions over the axis")
        self.before = [n for n in self.values if n in needed]
        self.after = [n for n in self.values if n not in needed | inside]

    # the new kernel -----------------------------------------------------------------------------------------------
    def kernel(self) -> Kernel:
        """The kernel with the fold. Raises Inseparable."""
        names = [*self.values, *(b.name for b in self.old.buffers)]
        first, *rest = (self.values[n].axes for n in self.chain)
        states = States(self.chain, names, tuple(a for a in first if all(a in axes for axes in rest)))
        results: Results = {}
        for name in self.chain:
            n = self.values[name]
            element = written_out(self._at_home(n, results), results)
            assert isinstance(n.item, Value)
            results[name] = n.axes, states.value(name, n.combine, element, (n.over, n.axes, n.item.dtype))
        sites = Sites(self.nests)
        fold = self._fold(states, sites)
        body: list[Value | Fold] = [self._value(n, sites) for n in self.before]
        body.append(fold)
        self.nests = [self._final(n, results, states) for n in self.nests]
        self.values = {n.name: n for n in self.nests if isinstance(n.item, Value)}
        body += [self._value(n, sites) for n in self.after]
        stores = tuple(self._store(n, sites) for n in self.nests if isinstance(n.item, Store))
        return Kernel(self.old.name, tuple(body), stores, self.old.buffers)

    def _at_home(self, n: ChainNest, results: Results) -> Node:
        """The body of a value of the chain, which may read others of the chain only at its own place."""
        for r in N.walk(n.exprs[0]):
            if r.op == "ref" and r.arg in results and r.src != self.values[r.arg].axes:
                raise Inseparable(f"{n.name} reads {r.arg} at another place than its own")
        return n.exprs[0]

    def _fold(self, states: States, sites: Sites) -> Fold:
        found = list(states.states.values())
        block = [self._value(n, sites) for n in self.block]
        for s in found:
            table = sites.table((*s.axes, *s.over), s.name)
            over = tuple(table[a] for a in s.over)
            reduce = Reduce(s.combine, over, substitute(s.body, table), s.dtype)
            block.append(Value(s.name, tuple(table[a] for a in s.axes), reduce, s.dtype))
        merges = tuple(self._merge(s, states, sites) for s in found)
        monoid = Monoid(tuple(identity(s.combine, s.dtype) for s in found), merges)
        axis = N.axis(self.axis.arg.name, self.axis.arg.extent)
        return Fold(self._name("fold", states), axis, tuple(block), tuple(s.name for s in found), monoid)

    def _merge(self, s: FoldState, states: States, sites: Sites) -> Node:
        merged = states.merged[s.name]
        loose = axes_of(merged) - set(s.axes)
        if loose:
            raise Inseparable(f"merging {s.name} needs {min(a.arg.name for a in loose)}, which it has no axis for")
        return substitute(merged, sites.table(s.axes, s.name))

    def _name(self, name: str, states: States) -> str:
        while name in self.values or name in states.states:
            name += "_"
        return name

    def _final(self, n: ChainNest, results: Results, states: States) -> ChainNest:
        """A nest with what the chain's values are after the fold."""
        if n.name in results or not n.reads & set(results):
            return n
        read = (as_numpy(written_out(e, results), states.states, states.extremes) for e in n.exprs)
        return replace(n, exprs=tuple(read))

    def _value(self, name: str, sites: Sites) -> Value:
        n = self.values[name]
        assert isinstance(n.item, Value) and not isinstance(n.item.expr, Node)
        table = sites.table((*n.axes, *n.over), name)
        body = substitute(n.exprs[0], table)
        axes = tuple(table[a] for a in n.axes)
        expr: Reduce | Scan
        if isinstance(n.item.expr, Reduce):
            expr = replace(n.item.expr, axes=tuple(table[a] for a in n.over), expr=body)
        else:
            along = axes[n.item.axes.index(n.item.expr.axis)]
            expr = replace(n.item.expr, axis=along, expr=body)
        return Value(name, axes, expr, n.item.dtype)

    def _store(self, n: ChainNest, sites: Sites) -> Store:
        s = n.item
        assert isinstance(s, Store)
        table = sites.table(n.axes, n.name)
        expr, *rest = (substitute(e, table) for e in n.exprs)
        indices = tuple(rest[: len(s.indices)])
        own = None if s.own is None else (table[n.axes[s.axes.index(s.own[0])]], *s.own[1:])
        mask = rest[-1] if s.mask is not None else None
        return Store(s.buffer, indices, expr, tuple(table[a] for a in n.axes), s.combine, mask, own)


def _over(n: ChainNest) -> list[tuple[Node, Node]]:
    """The families that a nest reduces, each with the kernel's own axis."""
    return list(zip(n.over, n.item.reduce_axes, strict=True)) if isinstance(n.item, Value) else []


def _contracts(n: ChainNest) -> bool:
    """Whether a nest is a sum of products in which two factors or more lack an axis of the result, and not the same."""
    parts = [axes_of(p) for p in factors(_without_casts(n.exprs[0]))[0]] if n.combine == "add" else []
    lacking = [lost for p in parts if p and (lost := set(n.axes) - p)]
    return len(lacking) > 1 and not set.intersection(*lacking)


def _without_casts(e: Node) -> Node:
    while e.op == "cast":
        e = e.src[0]
    return e


# spellings ------------------------------------------------------------------------------------------------------------
# What other frameworks write around a product, in the one form that the rewrite starts from.
#
# * A softmax that is 0 where a row is hidden wholly counts its scores above −∞, or asks whether any is. Their maximum says the same, and
# the   fold has it anyway. * Operands that are scaled before their product, and scores that are divided: a number leaves the sum, and
# what multiplies a product is one   number, so that all ways of scaling are one kernel.


SCALES = (2.0**-60, 2.0**60)
"""Numbers that leave a sum: with these, a scaled operand is as far from the ends of float32 as its product is."""


def seen_by_maximum(nests: list[ChainNest]) -> list[ChainNest]:
    """The nests with `count != 0`, of a count of elements that are not −∞, as `maximum != −∞` of the maximum of the same elements. (A NaN
    is counted, and makes the maximum NaN.) A count that nothing else reads is left out."""
    maxima = {(n.over, n.axes, n.exprs[0]): n for n in nests if n.combine == "max" and n.exprs[0].dtype.is_float}
    by_count: dict[str, ChainNest] = {}
    for n in nests:
        score = _counted(n)
        found = None if score is None else maxima.get((n.over, n.axes, score))
        if found is not None:
            by_count[n.name] = found
    if not by_count:
        return nests

    def read(e: Node) -> Node | None:
        if e.op in ("eq", "ne") and e.src[0].op == "ref" and e.src[0].arg in by_count and e.src[1].op == "const" and e.src[1].arg == 0:
            top = by_count[e.src[0].arg]
            least = ref(top.name, e.src[0].src, top.exprs[0].dtype)
            return least.eq(-INF) if e.op == "eq" else least.ne(-INF)
        return None

    nests = [_rewritten(n, read) for n in nests]
    unread = set(by_count) - {name for n in nests for name in n.reads}
    return _after([n for n in nests if n.name not in unread], by_count)


def _counted(n: ChainNest) -> Node | None:
    """x, of a nest that counts the elements in which x is not −∞."""
    if n.combine != "add" or n.exprs[0].op != "cast" or not n.exprs[0].dtype.is_int:
        return None
    cond, wanted = n.exprs[0].src[0], "ne"
    while cond.op == "not":
        cond, wanted = cond.src[0], "eq" if wanted == "ne" else "ne"
    if cond.op != wanted:
        return None
    for x, least in (cond.src, cond.src[::-1]):
        if least.op == "const" and least.arg == -INF:
            return x
    return None


def _after(nests: list[ChainNest], by_count: dict[str, ChainNest]) -> list[ChainNest]:
    """The nests in an order in which each follows what it reads: a maximum may come later than the count did."""
    values = {n.name: n for n in nests if isinstance(n.item, Value)}
    done: dict[str, None] = {}

    def place(n: ChainNest) -> None:
        for name in sorted(n.reads - set(done), key=list(values).index):
            place(values[name])
        done.setdefault(n.name)

    for n in values.values():
        place(n)
    return [*(values[name] for name in done), *(n for n in nests if not isinstance(n.item, Value))]


def numbers_outside(nests: list[ChainNest], products: Collection[str]) -> list[ChainNest]:
    """The nests with Σ c·f, of a number c, as c·Σ f, for the sums named in `products`; what multiplies or divides one is one number."""
    scale = dict.fromkeys(products, 1.0)
    out = []
    for n in nests:
        e = n.exprs[0]
        above, below = factors(e) if n.name in scale and e.dtype.is_float else ([], [])
        whole = 1.0
        for f in filter(_number, above):
            whole *= f.arg
        for f in filter(_number, below):
            whole /= f.arg
        rest, under = (product([f for f in fs if not _number(f)]) for fs in (above, below))
        if whole != 1 and rest is not None and SCALES[0] <= abs(whole) <= SCALES[1]:
            scale[n.name] = whole
            n = replace(n, exprs=(rest if under is None else rest / under,))
        out.append(n)

    def read(e: Node) -> Node | None:
        """A product with such a sum, all numbers in it taken as one."""
        above, below = factors(e) if e.op in ("mul", "div", "ref") and e.dtype.is_float else ([], [])
        hit = [f for f in above if f.op == "ref" and f.arg in scale]
        if len(hit) != 1 or any(not _number(f) for f in (*above, *below) if f is not hit[0]):
            return None
        whole = scale[hit[0].arg]
        for f in above:
            whole *= 1.0 if f is hit[0] else f.arg
        for f in below:
            whole /= f.arg
        if not SCALES[0] ** 2 <= abs(whole) <= SCALES[1] ** 2:
            return None
        whole = rounded(whole, e.dtype)
        return hit[0] if whole == 1 else hit[0] * const(whole, e.dtype)

    return [_rewritten(n, read) for n in out]


def _number(e: Node) -> bool:
    """Whether it is a number that products may be taken apart by."""
    return e.op == "const" and e.dtype.is_float and isfinite(e.arg) and SCALES[0] <= abs(e.arg) <= SCALES[1]


def _rewritten(n: ChainNest, by: Callable[[Node], Node | None]) -> ChainNest:
    """A nest with what `by` says in place of expressions, the largest first."""
    table = {e: new for e in walk(*n.exprs) if (new := by(e)) is not None}
    return replace(n, exprs=tuple(substitute(e, table) for e in n.exprs)) if table else n

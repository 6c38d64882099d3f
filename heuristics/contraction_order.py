"""The order of contraction: over which axes of a sum of products to sum first.

Choosing among all orders is a shortest path over sets of axes that are summed already, by dynamic programming: what is
left after a set does not depend on the order in which its axes went. This is the search of einsum libraries (Pfeifer,
Haegeman & Verstraete, "Faster identification of optimal contraction sequences", 2014; opt_einsum's `dp`), over axes in
place of pairs of arrays. A sum that is made costs a multiplication and an addition for each point of its axes, and its
array is written and read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ..ir.kernel import Kernel
from ..ir.node import Node, axes_of
from ..opts.analysis.contractions import SumOfProducts, products
from ..opts.analysis.structure import extent
from ..opts.opt import Opts, opt
from ..opts.rewrites.factor import ordered, sums_of

MOVED = 16
"""Operations in the time in which one element of an array between phases is written and read."""
MOST = 10
"""Axes of one sum up to which all orders are looked at; of more, the cheapest next one is taken again and again."""
GAIN = 1.05
"""A sum that is no cheaper than this many times less is left as it is written."""

MUCH = 4
"""How many times less is so much that a kernel is not looked at as it is written."""


@dataclass(frozen=True)
class Order:
    """An order of contraction of the sum `value`: the axes to sum over first, in order. `operations`: multiplications and additions
    of all sums; `written`: those of the sum as it is written."""

    value: str
    axes: tuple[str, ...]
    operations: int
    written: int

    @property
    def opts(self) -> Opts:
        """The options that say it."""
        return tuple(opt("REWRITE", a, rule="factor") for a in self.axes)


@lru_cache(maxsize=64)
def best_orders(kernel: Kernel) -> tuple[Order, ...]:
    """The cheapest order of every sum that gains by one."""
    found = []
    for p in products(kernel):
        if len(p.sum.axes) < 2 or len(p.factors) < 2:
            continue
        order = _Search(p).best()
        if order.axes and order.operations * GAIN < order.written:
            found.append(order)
    return tuple(found)


def order_opts(kernel: Kernel) -> Opts:
    """Options for the cheapest order of all sums; none where the kernel gains by no other order than the one it is written in."""
    return tuple(o for order in best_orders(kernel) for o in order.opts)


def much_cheaper(kernel: Kernel) -> bool:
    """Whether an order saves so many operations that no schedule of the kernel as it is written needs a look."""
    return any(order.operations * MUCH < order.written for order in best_orders(kernel))


def reordered(kernel: Kernel) -> Kernel:
    """The kernel with its sums in their cheapest orders."""
    return ordered(kernel, (str(o.on) for o in order_opts(kernel)))


@lru_cache(maxsize=64)
def necessary(kernel: Kernel) -> Kernel:
    """The kernel whose operations count as necessary: in its cheapest orders, where its sizes are known. What a schedule is held
    against must not be work that another order leaves out."""
    return kernel if kernel.symbols or not best_orders(kernel) else reordered(kernel)


def order_lines(kernel: Kernel, opts: Opts) -> list[str]:
    """What the order of contraction of a schedule means: the sums that are taken out, and how many operations they save or would."""
    taken = [str(o.on) for o in opts if o.fields.get("rule") == "factor"]
    written = sum(_operations(p) for p in products(kernel))
    if taken:
        new = ordered(kernel, taken)
        out = [f"{name}[{_names(new.values[name].axes)}] sums over {_names(new.values[name].reduce_axes)}" for name in sums_of(new, kernel)]
        return [*out, f"{sum(_operations(p) for p in products(new)):.3g} operations in place of {written:.3g} as the sum is written"]
    return [
        f"{order.value}: {' '.join(map(str, order.opts))} would take {order.operations:.3g} operations in place of {order.written:.3g}"
        for order in best_orders(kernel)
    ]


def _names(axes: tuple[Node, ...]) -> str:
    return ", ".join(str(a.arg.name) for a in axes)


def _operations(p: SumOfProducts) -> int:
    """Multiplications and additions of one sum."""
    return prod(extent(a) for a in (*p.value.axes, *p.sum.axes)) * max(2, len(p.factors))


Factors = tuple[frozenset[Node], ...]
"""The axes of each factor."""


class _Search:
    """The cheapest way to sum over the axes of one product."""

    def __init__(self, p: SumOfProducts) -> None:
        self.p = p
        self.sizes: Mapping[Node, int] = {a: extent(a) for a in (*p.value.axes, *p.sum.axes)}
        self.known: dict[frozenset[Node], tuple[float, int, tuple[Node, ...]]] = {}

    def best(self) -> Order:
        """The cheapest order."""
        own = frozenset(self.sizes)
        start = tuple(frozenset(axes_of(f)) & own for f in self.p.factors)
        over = frozenset(self.p.sum.axes)
        _, operations, axes = self._from(start, over) if len(over) <= MOST else self._greedily(start, over)
        return Order(self.p.value.name, tuple(a.arg.name for a in axes), operations, self._last(start, over)[1])

    def _from(self, factors: Factors, over: frozenset[Node]) -> tuple[float, int, tuple[Node, ...]]:
        """(cost, operations, axes in order) of what is left to do: with `factors`, a sum over the axes `over`."""
        if over not in self.known:
            cost, operations = self._last(factors, over)
            found: tuple[float, int, tuple[Node, ...]] = (cost, operations, ())
            for a in sorted(over, key=lambda a: str(a.arg.name)):
                step = self._step(factors, over, a)
                if step is None:
                    continue
                here, count, gone, left = step
                if here >= found[0]:
                    continue
                cost, operations, axes = self._from(left, over - set(gone))
                found = min(found, (here + cost, count + operations, (*gone, *axes)), key=lambda f: f[0])
            self.known[over] = found
        return self.known[over]

    def _greedily(self, factors: Factors, over: frozenset[Node]) -> tuple[float, int, tuple[Node, ...]]:
        """As `_from`, always with the cheapest next sum."""
        cost, operations, axes = 0.0, 0, tuple[Node, ...]()
        while True:
            steps = [s for a in sorted(over, key=lambda a: str(a.arg.name)) if (s := self._step(factors, over, a)) is not None]
            last = self._last(factors, over)
            if not steps or min(s[0] for s in steps) >= last[0]:
                return cost + last[0], operations + last[1], axes
            here, count, gone, factors = min(steps, key=lambda s: s[0])
            cost, operations, axes, over = cost + here, operations + count, (*axes, *gone), over - set(gone)

    def _last(self, factors: Factors, over: frozenset[Node]) -> tuple[float, int]:
        """(cost, operations) of summing over everything at once."""
        points = self._points(frozenset().union(over, *factors))
        return float(points * max(2, len(factors))), points * max(2, len(factors))

    def _step(self, factors: Factors, over: frozenset[Node], a: Node) -> tuple[float, int, tuple[Node, ...], Factors] | None:
        """(cost, operations, the axes that are gone, the factors that are left) of summing over `a` first, and with it over the axes
        that only the same factors have; None where every factor has it, or none, or nothing would be left to sum over."""
        inside, outside = [f for f in factors if a in f], [f for f in factors if a not in f]
        if not inside or not outside:
            return None
        union = frozenset().union(*inside)
        others = frozenset().union(*outside)
        gone = (a, *sorted((x for x in over & union if x is not a and x not in others), key=lambda x: str(x.arg.name)))
        if over <= set(gone):  # (a factor that none of the axes has, such as a number: there is no order to choose)
            return None
        kept = union - set(gone)
        operations = self._points(union) * max(2, len(inside))
        return operations + MOVED * self._points(kept), operations, gone, (*outside, kept)

    def _points(self, axes: frozenset[Node]) -> int:
        return prod(self.sizes[a] for a in axes)

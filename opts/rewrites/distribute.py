"""A sum of products with a difference or a sum is two sums (distributivity), of which one is over fewer axes.

Of `Σ p[n, d] · (log p[n, d] − log q[k, d])` the first part does not depend on k: it is a sum for each n, and what is left is a product
of matrices.

The two sums may cancel, so this is for parts that are rounded themselves: what cancels is then no smaller than errors the kernel has as
it is written. And an infinite factor would make a NaN of a difference of infinities, so factors must be known to be finite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite, prod

from ...ir.body import Reduce, Value
from ...ir.buffer import load_parts
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of, make, ref, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from ..analysis.contractions import SumOfProducts, product, products
from ..analysis.structure import extent
from .kernel_parts import changed_item, changed_store, loaded, needed, store_roots
from .rule import Named, RewriteRule

PLAIN = frozenset({"load", "ref", "const", "axis", "sym", "neg", "cast"})
"""What is not rounded, or not known to be."""
TERMS = 1024
"""Terms of a sum up to which what is rounded in it, one after another, stays below a few roundings of all terms' magnitudes."""


@dataclass(frozen=True)
class SumOfTwo:
    """A factor `op(first, second)` of a sum of products; `apart` is the place of the part that lacks an axis of the result."""

    sum: SumOfProducts
    factor: Node
    apart: int

    @property
    def others(self) -> tuple[Node, ...]:
        """The other factors."""
        return _without(self.sum.factors, self.factor)


@lru_cache(maxsize=64)
def splits(kernel: Kernel) -> dict[str, SumOfTwo]:
    """The sums of a kernel that can be distributed, by name."""
    return {p.value.name: s for p in products(kernel) if (s := _split(p)) is not None}


def _split(p: SumOfProducts) -> SumOfTwo | None:
    if not p.sum.dtype.is_float or prod(extent(a) for a in p.sum.axes) > TERMS or any(not _finite(f) for f in _other_factors(p)):
        return None
    for f in p.factors:
        if f.op in ("add", "sub") and f.dtype is p.sum.dtype and all(x.op not in PLAIN for x in f.src):
            rest = axes_of(*_without(p.factors, f))
            lacking = [bool({a for a in p.value.axes if extent(a) > 1} - axes_of(x) - rest) for x in f.src]
            if lacking[0] != lacking[1] and all(a in axes_of(f.src[lacking.index(True)]) | rest for a in p.sum.axes):
                return SumOfTwo(p, f, lacking.index(True))
    return None


def _without(factors: Sequence[Node], one: Node) -> tuple[Node, ...]:
    """The factors but for one, which may be among them again: a square has it twice."""
    at = next(k for k, f in enumerate(factors) if f is one)
    return (*factors[:at], *factors[at + 1 :])


def _other_factors(p: SumOfProducts) -> list[Node]:
    return [f for f in p.factors if f.op not in ("add", "sub")]


def _finite(n: Node) -> bool:
    """Whether a factor is a number, or an input whose range is stated."""
    if n.op == "const":
        return isfinite(n.arg)
    if n.op == "cast":
        return not n.src[0].dtype.is_float or _finite(n.src[0])
    return n.op == "load" and load_parts(n)[0].range is not None


@lru_cache(maxsize=64)
def distributed(kernel: Kernel, name: str, number: int = 1) -> Kernel:
    """`kernel` with the sum `name` as two: the value `name.x1`, where `number` is 1, over fewer axes, and what is left. The axes of the
    first end in `.x1`. OptError where that cannot be."""
    s = splits(kernel).get(name)
    if s is None:
        known = ", ".join(splits(kernel)) or f"{kernel.name} has none"
        raise OptError(
            f"REWRITE({name}, rule=distribute): name a sum of up to {TERMS} products with a difference or a sum of computed parts, of which one lacks an "
            f"axis of the result, and whose other factors are inputs of a stated range ({known})"
        )
    v, total, end = s.sum.value, s.sum.sum, f".x{number}"
    less, more = s.factor.src[s.apart], s.factor.src[1 - s.apart]
    inner = product((*s.others, less))
    kept = tuple(a for a in v.axes if a in axes_of(inner))
    own = {a: make_axis(f"{a.arg.name}{end}", a.arg.extent, f"{a.arg.family}{end}") for a in (*kept, *total.axes)}
    made = Reduce("add", tuple(own[a] for a in total.axes), substitute(inner, own), total.dtype)
    first = Value(f"{name}{end}", tuple(own[a] for a in kept), made, v.dtype)
    left = replace(v, expr=replace(total, expr=product((*s.others, more))))

    def joined(root: Node) -> Node:
        table: dict[Node, Node] = {}
        for n in walk(root):
            if n.op == "ref" and n.arg == name:
                at = dict(zip(v.axes, n.src))
                pair = (ref(first.name, tuple(at[a] for a in kept), v.dtype), n)
                table[n] = make(s.factor.op, v.dtype, pair if s.apart == 0 else (pair[1], pair[0]))
        return substitute(root, table) if table else root

    body = [x for item in kernel.body for x in ((first, left) if item is v else (changed_item(item, joined),))]
    stores = tuple(changed_store(x, joined) for x in kernel.stores)
    whole = needed(body, (r for x in stores for r in store_roots(x)))
    return Kernel(kernel.name, whole, stores, (*loaded(kernel.inputs, whole, stores), *kernel.outputs))


def _kernels(kernel: Kernel, named: tuple[Named, ...]) -> tuple[Kernel, ...]:
    for i, (name, _) in enumerate(named):
        kernel = distributed(kernel, name, i + 1)
    return (kernel,)


DISTRIBUTE = RewriteRule(
    name="distribute",
    kernels=_kernels,
    proposals=lambda kernel, taken: (((name, ""),) for name in splits(kernel) if name not in taken),
    phased=True,
    reorders=lambda kernel, named: True,
    regroups=True,
    written="REWRITE(sum, rule=distribute)",
    meaning="Of a sum of products with a difference or a sum, of which one part lacks an axis of the result, make two sums "
    "(`REASSOC`). That over fewer axes has a phase of its own ([below](#two-sums-of-one)).",
)

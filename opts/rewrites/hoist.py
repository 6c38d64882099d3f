"""What takes long to compute and is used again and again is computed once, by a phase of its own (loop-invariant code motion).

Lowering moves what does not vary in a loop out of it. That leaves two things undone. The logarithm of an operand of a matrix product
is taken in the innermost loop, since both of its axes have loops around it or copies in registers. And what was moved out is computed
one element at a time, where a loop of its own has lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod

from ...ir.body import Reduce, Scan, Store, Value
from ...ir.buffer import Buffer, load, load_parts
from ...ir.dtypes import float32, float64
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import COSTLY_FLOATS, Node, axes_of, walk
from ...ir.node import axis as make_axis
from ...ir.operators import substitute
from ..access import strides_of
from ..analysis.structure import extent
from ..nests import Nest, plain
from ..rewrites.kernel_parts import loaded, needed, store_roots
from .rule import RewriteRule


@dataclass(frozen=True, eq=False)
class Invariant:
    """An expression over `axes` (in the order in which what it reads lies in memory), of which each element is used `reuse` times."""

    expr: Node
    axes: tuple[Node, ...]
    reuse: int


def nests_named(kernel: Kernel, name: str) -> list[Nest]:
    """The nests of a sum, scan or other reduction, or those of all stores to an output."""
    found = [n for n in plain(kernel) if isinstance(n, Nest)]
    return [n for n in found if n.kind in ("reduce", "scan") and n.name == name] or [
        n for n in found if n.kind == "store" and n.store is not None and n.store.buffer.name == name
    ]


@lru_cache(maxsize=256)
def invariants(nest: Nest) -> tuple[Invariant, ...]:
    """The largest such parts of what a nest computes, which read nothing but inputs. Each varies along the axes of something dear in
    it, and no others: of `sin(a[n]) * x[n, j]` that is the sine."""
    dear: dict[Node, bool] = {}
    tight: dict[Node, bool] = {}
    alone: dict[Node, bool] = {}
    for n in walk(nest.expr):
        mine = n.op in COSTLY_FLOATS and n.dtype.is_float
        dear[n] = mine or any(dear[s] for s in n.src)
        tight[n] = mine or any(tight[s] and axes_of(s) == axes_of(n) for s in n.src)
        alone[n] = n.op != "ref" and all(alone[s] for s in n.src)
    out: dict[Node, Invariant] = {}
    seen, stack = set[Node](), [nest.expr]
    while stack:
        n = stack.pop()
        if n in seen or not dear[n] or n.op == "load":
            continue
        seen.add(n)
        reuse = _reuse(nest, n)
        if reuse > 1 and alone[n] and tight[n] and n.dtype in (float32, float64):
            out[n] = Invariant(n, _laid_out(nest, n), reuse)
        else:
            stack += reversed(n.src)
    return tuple(out.values())


def _reuse(nest: Nest, n: Node) -> int:
    """How many points of a nest use each element of `n`; 0 where it has but one, or varies with what is no axis of the nest."""
    own = axes_of(n)
    known = {a for a in nest.all_axes if extent(a) > 1}
    if not own & known or own - set(nest.all_axes):
        return 0
    return prod(extent(a) for a in known - own)


def _laid_out(nest: Nest, n: Node) -> tuple[Node, ...]:
    """The axes of `n`, the one along which most of what it reads is consecutive last."""
    read = [strides_of(b, i) for x in walk(n) if x.op == "load" for b, i, _ in (load_parts(x),)]
    own = [a for a in nest.all_axes if a in axes_of(n)]
    return tuple(sorted(own, key=lambda a: -max((s[a] or 0 for s in read if a in s), default=0)))


@lru_cache(maxsize=64)
def hoisted(kernel: Kernel, names: tuple[str, ...]) -> tuple[Kernel, ...]:
    """The kernels of all phases, in order: what is taken out of the reductions, scans and outputs `names`, and what is left. All that
    is over the same axes is computed by one phase, whose axes are `m.i1` in the first, `m.i2` in the second. OptError where there is
    nothing to take out."""
    work = _Hoisting(kernel)
    for name in names:
        work.take(name)
    return (*work.phases(), work.rest())


@dataclass
class _Hoisting:
    """What is taken out of a kernel so far."""

    kernel: Kernel
    kept: dict[Node, Buffer] = field(default_factory=dict)
    """Where each expression that is taken out waits."""
    over: dict[tuple[Node, ...], list[Invariant]] = field(default_factory=dict)
    """The same by the axes."""
    changed: dict[Value | Store, Nest] = field(default_factory=dict)

    def take(self, name: str) -> None:
        """What is dear in a reduction, a scan or an output."""
        number = 0
        for nest in nests_named(self.kernel, name):
            found = invariants(nest)
            for x in found:
                if x.expr not in self.kept:
                    number += 1
                    shape = tuple(a.arg.extent for a in x.axes)
                    self.kept[x.expr] = Buffer(f"{name}.i{number}", x.expr.dtype, shape)
                    self.over.setdefault(x.axes, []).append(x)
            whole = nest.value if nest.store is None else nest.store
            if found and whole is not None:
                self.changed[whole] = nest
        if not any(nest.name == name or (nest.store is not None and nest.store.buffer.name == name) for nest in self.changed.values()):
            known = sorted(hoistable(self.kernel))
            raise OptError(
                f"REWRITE({name}, rule=hoist): name a reduction or an output in which a function, a division or a root of inputs does not vary along "
                f"all axes ({', '.join(known) or f'{self.kernel.name} has none'})"
            )

    def phases(self) -> Iterator[Kernel]:
        """A kernel for each set of axes."""
        for number, (axes, found) in enumerate(self.over.items(), 1):
            end = f".i{number}"
            own = {a: make_axis(f"{a.arg.name}{end}", a.arg.extent, f"{a.arg.family}{end}") for a in axes}
            at = tuple(own.values())
            stores = tuple(Store(replace(self.kept[x.expr], role="out"), at, substitute(x.expr, own), at) for x in found)
            read = loaded(self.kernel.inputs, (), stores)
            yield Kernel(f"{self.kernel.name}_invariant{number}", (), stores, (*read, *(s.buffer for s in stores)))

    def rest(self) -> Kernel:
        """What is left, which loads what was taken out."""
        table = {x.expr: load(self.kept[x.expr], x.axes) for found in self.over.values() for x in found}

        def value(v: Value) -> Value:
            nest = self.changed.get(v)
            if nest is None or not isinstance(v.expr, (Reduce, Scan)):
                return v
            return replace(v, expr=replace(v.expr, expr=substitute(nest.expr, table)))

        def store(s: Store) -> Store:
            nest = self.changed.get(s)
            return s if nest is None else replace(s, expr=substitute(nest.expr, table))

        stores = tuple(map(store, self.kernel.stores))
        body = tuple(value(item) if isinstance(item, Value) else item for item in self.kernel.body)
        left = needed(body, (r for s in stores for r in store_roots(s)))
        buffers = (*self.kernel.inputs, *self.kept.values())
        return Kernel(self.kernel.name, left, stores, (*loaded(buffers, left, stores), *self.kernel.outputs))


def hoistable(kernel: Kernel) -> dict[str, tuple[Invariant, ...]]:
    """What can be taken out of each reduction, scan and output; none of those of which nothing can."""
    found: dict[str, tuple[Invariant, ...]] = {}
    for n in plain(kernel):
        if isinstance(n, Nest) and n.kind in ("reduce", "scan", "store") and (parts := invariants(n)):
            name = n.name if n.store is None else n.store.buffer.name
            found[name] = found.get(name, ()) + parts
    return found


HOIST = RewriteRule(
    name="hoist",
    kernels=lambda kernel, named: hoisted(kernel, tuple(name for name, _ in named)),
    proposals=lambda kernel, taken: (((name, ""),) for name in hoistable(kernel) if name not in taken),
    written="REWRITE(name, rule=hoist)",
    meaning="Compute once, by phases of their own, the functions, divisions and roots of inputs in a reduction, a scan or an "
    "output that do not vary along all of its axes ([below](#hoisted-computation)).",
)

"""What a kernel must do at least: arithmetic counted from its body, and the bytes that have to move.

An expression is counted once for each point of the axes it depends on (hoisted as far as it goes), a named value once
for each of its own points, however often it is read; an expression that several values have counts once, also where each
goes through axes of its own of the same extents. What no store needs does not count, nor what a store's or a load's mask
leaves out, where axes alone decide it; a sum of what has the key of its place (`sums_by_key`) counts each element once;
merging a fold's tiles does not (uncut, there is none)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import expm1, prod

from . import index as ix
from .body import Fold, Reduce, Scan, Value, tuple_scan
from .buffer import Buffer, Extent, loads
from .checks.access_bounds import OpenIndexError, value_at
from .dtypes import DType, index
from .errors import KernelError
from .kernel import Kernel
from .node import FUNCTIONS, PAIRED, Node, as_node, axes_of, walk
from .node import axis as make_axis
from .operators import substitute, substitute_on
from .skipped_tiles import skip_conditions, threshold
from .sums_by_key import sums_by_key

FLOP = frozenset({"add", "sub", "mul", "div", "max", "min", "neg", "abs", "sqrt", "floor", "round", "trunc"})
"""Operators of one flop; comparisons, selections, conversions and index arithmetic are free."""

ELEMENTARY = FUNCTIONS | PAIRED

MOST_COUNTED = 1 << 16
"""Points of the other axes up to which the places on a folded axis that do something are counted."""

MOST_MASKED = 1 << 18
"""Points at which a mask is tried, to count those where it holds."""

POLYNOMIAL: dict[str, dict[int, int]] = {
    "exp": {4: 22, 8: 32},
    "log": {4: 30, 8: 32},
    "tanh": {4: 25, 8: 35},
    "erf": {4: 27, 8: 93},
    "expm1": {4: 24, 8: 34},
    "log1p": {4: 37, 8: 40},
    "sin": {4: 55, 8: 80},
    "cos": {4: 55, 8: 80},
    "atan": {4: 25, 8: 37},
    "pow": {4: 90, 8: 160},
    "floor_div": {4: 20, 8: 20},
    "floor_mod": {4: 20, 8: 20},
}
"""Flops of the vector polynomial of each function (`lower.arithmetic.elementary`; a test keeps the two together), by operand size in bytes."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`flops`: floating or integer operations on elements (fma = 2, a reduction of K = K; without elementary
    functions). `elementary`: evaluations of exp, log, sin and the like; `poly_flops`: about the flops of their polynomials.
    `reads`, `writes`: compulsory bytes. `types`: the flops, polynomials included, by the name of the type that they
    are done in."""

    flops: int
    elementary: int
    poly_flops: int
    reads: int
    writes: int
    types: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def bytes(self) -> int:
        """Compulsory traffic: every used input element read once, every output element written once."""
        return self.reads + self.writes


def cost(kernel: Kernel, vars: Mapping[str, int] | None = None) -> Cost:
    """The cost of `kernel`; `vars` gives symbols their values (KernelError names a missing one)."""
    size = _Sizes(kernel, vars or {})
    elementary = poly = 0
    types: dict[str, int] = {}

    def count(dtype: DType, times: int) -> None:
        types[dtype.name] = types.get(dtype.name, 0) + times

    seen: set[Node] = set()

    def body(axes: tuple[Node, ...], root: Node, fold: Fold | None = None, mask: Node | None = None) -> None:
        nonlocal elementary, poly
        alike = {} if fold is not None else stand_ins(axes)  # (grows)
        roots: tuple[Node, ...] = (root,)
        rule: set[Node] = set()
        if root.op == "tuple":  # its rule runs at every point
            scan = tuple_scan(root)
            steps = [scan.merge[c] for c in scan.needed(False)]
            roots, rule = (*scan.elements, *steps), set(walk(*steps))
        for n in walk(*roots):
            if n.dtype is index or (n.src and n.src[0].dtype is index):
                continue
            if n.op in FLOP or n.op in ELEMENTARY:
                same = substitute_on(n, alike) if alike else n
                if same in seen:
                    continue
                seen.add(same)
                times = size.points(axes, fold) if n in rule else size.points(axes_of(n), fold)
                if mask is not None and axes_of(mask) <= axes_of(n):
                    times = round(times * size.share(mask))
            if n.op in FLOP:
                count(n.dtype.compute, times)
            elif n.op in ELEMENTARY:
                elementary += times
                polynomials = times * POLYNOMIAL[n.op][8 if n.dtype.size == 8 else 4]
                poly += polynomials
                count(n.dtype.compute, polynomials)

    folds = {v.name: f for f in kernel.body if isinstance(f, Fold) for v in f.block}
    by_key = sums_by_key(kernel)
    for v in needed(kernel):
        body((*v.axes, *v.reduce_axes), v.body, folds.get(v.name))
        if isinstance(v.expr, (Reduce, Scan)) and v.body.op != "tuple":
            places = by_key[v.name].keys if v.name in by_key else ()
            count(v.expr.dtype.compute, size.points((*(a for a in v.axes if a not in places), *v.reduce_axes), folds.get(v.name)))
    for s in kernel.stores:
        body(s.axes, s.expr, mask=s.mask)
        if s.combine is not None:
            count(s.buffer.dtype.compute, size.points(s.axes))
    return Cost(sum(types.values()) - poly, elementary, poly, _reads(kernel, size), _writes(kernel, size), types)


def stand_ins(axes: Iterable[Node]) -> dict[Node, Node]:
    """Each axis by the first, second ... of its extent: expressions that are equal then have the same values at as many points."""
    met: dict[Extent, int] = {}
    out = {}
    for a in axes:
        met[a.arg.extent] = met.get(a.arg.extent, 0) + 1
        out[a] = make_axis(f"'{met[a.arg.extent]}", a.arg.extent)
    return out


def needed(kernel: Kernel) -> list[Value]:
    """The values that some store needs, in order."""
    folds = {v.name: f for f in kernel.body if isinstance(f, Fold) for v in f.block}
    values = kernel.values
    todo = [e for s in kernel.stores for e in (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))]
    found: set[str] = set()
    while todo:
        for n in walk(todo.pop()):
            if n.op == "ref" and n.arg not in found:
                block = folds[n.arg].block if n.arg in folds else (values[n.arg],)
                fresh = [v for v in block if v.name not in found]
                found |= {n.arg, *(v.name for v in fresh)}
                todo += [v.body for v in fresh]
    return [v for v in values.values() if v.name in found]


class _Sizes:
    """Extents as ints."""

    def __init__(self, kernel: Kernel, values: Mapping[str, int]) -> None:
        self.env: dict[Node, int] = {}
        self.counted: dict[tuple[Fold, frozenset[Node]], int] = {}
        for s in kernel.symbols:
            if s.arg.name not in values:
                raise KernelError(f"the cost of {kernel.name} depends on {s.arg.name}: give its value in vars")
            self.env[s] = values[s.arg.name]

    def of(self, extent: Extent) -> int:
        return extent if isinstance(extent, int) else ix.evaluate(as_node(extent), self.env)

    def points(self, axes: Iterable[Node], fold: Fold | None = None) -> int:
        """How many points `axes` have; of a fold's, those where its block does something."""
        found = list(axes)
        sites = [a for a in found if fold is not None and a.arg.family == fold.axis.arg.family]
        if fold is None or len(sites) != 1:
            return prod(self.of(a.arg.extent) for a in found)
        here = frozenset(fold.axis if a is sites[0] else a for a in found)
        known = self.counted.get((fold, here))
        if known is None:
            known = self.counted[fold, here] = self._active(fold, here)
        return known

    def _active(self, fold: Fold, axes: frozenset[Node]) -> int:
        """Points of `axes`, fold.axis among them, where all `skip_conditions` hold that no data decides."""
        limits = [x for c in skip_conditions(fold) if axes_of(c) <= axes and (x := threshold(c, fold.axis)) is not None]
        limits = [(k, rest) for k, rest in limits if not any(n.op == "load" for n in walk(rest))]
        others = list({a for _, rest in limits for a in axes_of(rest)})
        if prod(self.of(a.arg.extent) for a in others) > MOST_COUNTED:
            limits, others = [], []
        around = prod(self.of(a.arg.extent) for a in axes - {*others, fold.axis})
        total = 0
        for at in product(*(range(self.of(a.arg.extent)) for a in others)):
            env = {**self.env, **dict(zip(others, at))}
            lo, hi = 0, self.of(fold.axis.arg.extent)
            for k, rest in limits:
                r = ix.evaluate(rest, env)
                lo, hi = (max(lo, -(r // k)), hi) if k > 0 else (lo, min(hi, r // -k + 1))
            total += max(0, hi - lo)
        return around * total

    def elements(self, shape: tuple[Extent, ...]) -> int:
        return prod(self.of(d) for d in shape)

    def touched(self, buffer: Buffer, indices: tuple[Node, ...], mask: Node | None = None) -> float:
        """About how many elements of `buffer` one access reaches: in each dimension no more than its extent (where data
        decides, than that many draws from its range find), and no more than there are points where the mask holds."""
        points = self.points(axes_of(*indices))
        each = [self._reached(i, d, points) for i, d in zip(indices, buffer.shape, strict=True)]
        return min(prod(each), points * self.share(mask))

    def _reached(self, i: Node, extent: Extent, points: int) -> float:
        most = self.of(extent)
        if any(n.op in ("load", "ref") for n in walk(i)):
            lo, hi = ix.bounds(i)
            most = max(1, min(most, hi - lo + 1))
            return most * -expm1(-points / most)
        return min(most, self.points(axes_of(i)))

    def share(self, mask: Node | None) -> float:
        """The share of its axes' points at which a mask holds; 1 where data decides, or there are too many to try."""
        import numpy as np

        if mask is None:
            return 1.0
        axes = sorted(axes_of(mask), key=lambda a: str(a.arg.name))
        extents = [self.of(a.arg.extent) for a in axes]
        if not 0 < prod(extents) <= MOST_MASKED:
            return 1.0
        grid = np.meshgrid(*(np.arange(n) for n in extents), indexing="ij") if axes else []
        points = {a: g.ravel() for a, g in zip(axes, grid, strict=True)} | {s: np.array([n]) for s, n in self.env.items()}
        try:
            return float(np.mean(value_at(mask, points)))
        except OpenIndexError:
            return 1.0


def _reads(kernel: Kernel, size: _Sizes) -> int:
    used: dict[Buffer, float] = {}
    boxes: dict[Buffer, list[tuple[int, int]]] = {}
    # two sites of a family read the same elements: they count once
    first = {a: axes[0] for axes in kernel.families.values() for a in axes}
    seen: set[tuple[Buffer, tuple[Node, ...]]] = set()
    roots = [v.body for v in needed(kernel)]
    for s in kernel.stores:
        roots += [s.expr, *s.indices, *(() if s.mask is None else (s.mask,))]
    for buffer, indices, mask in loads(*roots):
        access = (buffer, tuple(substitute(i, first) for i in indices))
        if access in seen:
            continue
        seen.add(access)
        used[buffer] = min(used.get(buffer, 0) + size.touched(buffer, indices, mask), size.elements(buffer.shape))
        here = [ix.bounds(i) for i in indices]
        boxes[buffer] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(boxes.get(buffer, here), here, strict=True)]
    whole = {
        b: prod(min(size.of(d), max(1, hi - max(lo, 0) + 1)) for (lo, hi), d in zip(box, b.shape, strict=True)) for b, box in boxes.items()
    }
    return sum(round(min(n, whole[b])) * b.dtype.size for b, n in used.items())


def _writes(kernel: Kernel, size: _Sizes) -> int:
    total: dict[Buffer, float] = {}
    for s in kernel.stores:
        count = size.elements(s.buffer.shape)
        written = count if s.combine is not None else size.touched(s.buffer, s.indices, s.mask)
        total[s.buffer] = min(count, total.get(s.buffer, 0) + written)
    return sum(round(n) * b.dtype.size for b, n in total.items())

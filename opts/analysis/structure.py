"""What kind of loops a kernel has: which axes are consecutive in memory, which reductions are contractions.

Start schedules, templates and the action space ask these questions; none of them looks at a kernel's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...ir import index as ix
from ...ir.body import Fold, Scan
from ...ir.buffer import Buffer, loads
from ...ir.dtypes import index
from ...ir.kernel import Kernel
from ...ir.node import COSTLY_FLOATS, Node, axes_of, reads_data, walk
from ..access import accesses, strides_of
from ..nests import Nest, flat, plain
from .write_order import kernel_ordered

_NONE = frozenset(("load", "ref", "cast", "const", "axis", "sym"))
"""What computes nothing."""
_LONG = {**dict.fromkeys(COSTLY_FLOATS, 12.0), "div": 4.0, "sqrt": 4.0}
"""What takes several instructions, in additions; the functions are polynomials."""


SAVED = 0.25
"""What an operation counts beside an access, where no axis is consecutive in most accesses."""


def arithmetic(axis: Node, exprs: Iterable[Node]) -> float:
    """The operations on values (not on indices) that vary along an axis, each counted once, in additions."""
    return sum(_LONG.get(n.op, 1.0) for n in walk(*exprs) if n.op not in _NONE and n.dtype is not index and axis in axes_of(n))


@dataclass(frozen=True, eq=False)
class Contraction:
    """Σ of a product: `lane` is consecutive in the store, `rows` are spatial axes of the other operand only, `wide`
    is the operand that holds the lane axis (packed into panels; `plain` if each of its dimensions is one axis),
    `tall` the one whose elements are broadcast. Where an operand is computed (`opts.analysis.contractions`), that is the largest input it reads:
    `wide_value` and `tall_value` name the values that operands are, and `stages` says whether `wide` is all that it reads."""

    nest: Nest
    lane: Node
    rows: tuple[Node, ...]
    reduce: tuple[Node, ...]
    wide: Buffer
    tall: Buffer
    plain: bool
    wide_value: str = ""
    tall_value: str = ""
    stages: bool = True


@lru_cache(maxsize=64)
def nests(kernel: Kernel) -> tuple[Nest, ...]:
    """The nests of the kernel with nothing staged."""
    return tuple(flat(plain(kernel)))


@lru_cache(maxsize=64)
def contractions(kernel: Kernel) -> tuple[Contraction, ...]:
    """Reductions of a product of two inputs, outermost first. Besides its input a factor may read what stays the same over the
    reduction (zero points of quantised weights)."""
    out = []
    for n in nests(kernel):
        if n.kind != "reduce" or n.expr.op != "mul" or n.value is None:
            continue
        sides = [_inputs(s, n.reduce_axes) for s in n.expr.src]
        if len(sides) != 2 or any(len(s) != 1 for s in sides):
            continue
        lane = lane_axis(kernel, n)
        if lane is None:
            continue
        (b0, i0, _), (b1, i1, _) = sides[0][0], sides[1][0]
        if lane in axes_of(*i0) and lane in axes_of(*i1):
            continue
        wide, tall, wi, ti = (b0, b1, i0, i1) if lane in axes_of(*i0) else (b1, b0, i1, i0)
        if lane not in axes_of(*wi):
            continue
        rows = tuple(a for a in n.axes if a in axes_of(*ti) and a not in axes_of(*wi))
        if not rows and strides_of(wide, wi).get(lane) != 1:
            continue  # nothing is reused, so packing cannot pay: lanes go along the reduction
        out.append(Contraction(n, lane, rows, n.reduce_axes, wide, tall, all(i.op in ("axis", "const") for i in wi)))
    return tuple(out)


def _inputs(expr: Node, over: tuple[Node, ...]) -> list[tuple[Buffer, tuple[Node, ...], Node | None]]:
    """The loads of a factor; where there are several, those that vary along the axes `over`."""
    found = list(loads(expr))
    return found if len(found) == 1 else [x for x in found if axes_of(*x[1]) & set(over)]


@lru_cache(maxsize=64)
def stepped(kernel: Kernel, nest: Nest) -> tuple[str, ...]:
    """Axes of folds that are best walked one element at a time: those of which each element brings a sum of products of its own (a block
    of scaled numbers), which is to stay in registers."""
    if nest.kind != "reduce" or nest.expr.op != "mul":
        return ()
    shared = {a.arg.family for a in nest.axes if all(a in axes_of(s) for s in nest.expr.src)}
    found = (f for f in kernel.body if isinstance(f, Fold) and any(v.name == nest.name for v in f.block))
    return tuple(str(f.axis.arg.name) for f in found if f.axis.arg.family in shared)


def lane_axis(kernel: Kernel, nest: Nest) -> Node | None:
    """The spatial axis of a value that is consecutive where the value is finally stored, in runs at least; of a sum that is summed again,
    where that one is."""
    target = {nest.name}
    families = {a.arg.family for a in nest.axes}
    for n in nests(kernel):
        if n.kind == "init":
            continue
        refs = {r.arg for r in walk(n.expr) if r.op == "ref"}
        if n.kind == "reduce" and refs & target and {a.arg.family for a in n.reduce_axes} <= families:
            target.add(n.name)
        if n.store is None:
            continue
        if refs & target or n is nest:
            for a, s in strides_of(n.store.buffer, n.indices).items():
                if a in nest.axes and (s == 1 or (s is None and _lies_in_runs(n.indices[-1], a) and not _is_divided(nest.expr, a))):
                    return a
    return None


def _is_divided(expr: Node, a: Node) -> bool:
    """Whether an expression reads at quotients or remainders of an axis, so that its operands have no rows along it."""
    return any(x.op in ("div", "mod") and x.dtype is index and a in axes_of(x) for x in walk(expr))


RUN = 8
"""Neighbours in memory that are worth lanes."""


def _lies_in_runs(index: Node, a: Node) -> bool:
    """Whether so many consecutive places of an axis are neighbours under a last index: its remainder, as where a view parts the axis."""
    return any(k == 1 and x.op == "mod" and x.src[0] is a and x.arg >= RUN for x, k in ix.parts(index)[0].items())


@lru_cache(maxsize=512)
def contiguous(kernel: Kernel, nest: Nest) -> Sequence[Node]:
    """Axes of a nest along which some access is consecutive, most accesses first (a store counts twice). Not those that are
    scanned: they can have no lanes."""
    score: dict[Node, float] = {}
    ordered = scanned_axes(kernel)
    for acc in accesses(kernel, nest):
        for a, s in acc.strides.items():
            if a in nest.all_axes and a not in ordered:
                score[a] = score.get(a, 0.0) + ((2.0 if acc.store else 1.0) if s == 1 else -0.75 if s is None or s > 1 else 0.0)
    if (
        nest.kind in ("store", "point", "reduce") and score and max(score.values()) <= 0.0
    ):  # much that is computed is worth lanes all the same
        best = max(score, key=score.__getitem__)
        score[best] += SAVED * arithmetic(best, nest.nodes)
    return [a for a, v in sorted(score.items(), key=lambda av: -av[1]) if v > 0]


def shared_axes(kernel: Kernel) -> list[Node]:
    """Axes that every nest runs over as spatial ones: what PARALLEL may take."""
    return list(_shared_axes(kernel))


@lru_cache(maxsize=64)
def _shared_axes(kernel: Kernel) -> tuple[Node, ...]:
    all_nests = nests(kernel)
    out = [a for a in all_nests[0].axes if all(a in n.axes for n in all_nests)]
    ordered = kernel_ordered(kernel)
    scanned = scanned_axes(kernel)
    return tuple(a for a in out if a not in ordered and a not in scanned and extent(a) > 1)


@lru_cache(maxsize=64)
def joins(kernel: Kernel, a: Node) -> bool:
    """Whether arrays are joined along an axis: its places choose what is read. One place at a time branches to its array; copies along
    the axis would read all of them under masks."""
    chosen = (x.src for n in nests(kernel) for x in n.nodes if x.op == "where" and a in axes_of(x.src[0]) and not reads_data(x.src[0]))
    return any(reads_data(one) and reads_data(other) for _, one, other in chosen)


@lru_cache(maxsize=64)
def scanned_axes(kernel: Kernel) -> frozenset[Node]:
    """Axes that a Scan runs along, in order."""
    return frozenset(v.expr.axis for v in kernel.values.values() if isinstance(v.expr, Scan))


def extent(a: Node) -> int:
    """The extent of an axis, the upper bound of a symbolic one."""
    e = a.arg.extent
    return ix.upper(e)


@lru_cache(maxsize=64)
def read_elsewhere(kernel: Kernel) -> tuple[str, ...]:
    """Values (not of folds) of which some reader wants more than an item of the same loops would make: what lies at shifted places,
    as stencils do, at those that data says, or all of it."""
    found: set[str] = set()
    bodies = [((v.body,), v.axes) for v in kernel.values.values()]
    bodies += [((s.expr, *s.indices, *(() if s.mask is None else (s.mask,))), s.axes) for s in kernel.stores]
    for roots, axes in bodies:
        for n in walk(*roots):
            if n.op == "ref" and (any(i.op not in ("axis", "const") for i in n.src) or (axes and not any(i in axes for i in n.src))):
                found.add(n.arg)
    return tuple(i.name for i in kernel.body if i.name in found and not isinstance(i, Fold))


@lru_cache(maxsize=64)
def shifted_dimensions(kernel: Kernel) -> Mapping[str, tuple[int, ...]]:
    """The values of `read_elsewhere`, each with its dimensions but for those along which every reader is at its own place (such as the
    blocks of HALO)."""
    own: dict[str, list[bool]] = {}
    for n in walk(*kernel.expressions()):
        if n.op == "ref":
            here = [i is a for i, a in zip(n.src, kernel.values[n.arg].axes, strict=True)]
            own[n.arg] = [x and y for x, y in zip(own.get(n.arg, here), here, strict=True)]
    return {v: tuple(d for d, fixed in enumerate(own[v]) if not fixed) for v in read_elsewhere(kernel)}


def stageable_values(kernel: Kernel) -> list[str]:
    """Pointwise values worth keeping: read more than once (or by loops over more axes than theirs), and holding an
    elementary function, a division or a load that is not the same in all of them that lie together."""
    return list(_stageable_values(kernel))


@lru_cache(maxsize=64)
def _stageable_values(kernel: Kernel) -> tuple[str, ...]:
    out = []
    shared = set(shared_axes(kernel))
    bodies = [(v.body, {*v.axes, *v.reduce_axes}) for v in kernel.values.values()]
    bodies += [(e, set(s.axes)) for s in kernel.stores for e in (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))]
    for name, v in kernel.values.items():
        if not isinstance(v.expr, Node) or not set(v.axes) - shared:
            continue
        uses = 0
        for body, axes in bodies:
            for n in walk(body):
                if n.op == "ref" and n.arg == name:
                    uses += 2 if axes - axes_of(*n.src) else 1
        if uses > 1 and any(n.op in COSTLY_FLOATS or (n.op == "load" and axes_of(n) - shared) for n in walk(v.expr)):
            out.append(name)
    return tuple(out)

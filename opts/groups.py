"""Options of languages with groups of threads: LOCAL, GROUP, NOLOCAL, SWIZZLE and LAUNCH, and the default grid of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.body import Scan
from ..ir.buffer import Buffer, loads
from ..ir.errors import OptError
from ..ir.node import Node, walk
from ..ir.node import axis as make_axis
from .nests import FoldItem, Item, Nest, build, scatter_ordered
from .opt import Opt

if TYPE_CHECKING:
    from .handlers import State


@dataclass(frozen=True, slots=True)
class ThreadAxis:
    """One dimension of a group: `count` threads that share the sites of a family. Thread numbers differ by `stride` along it;
    `var` is the index of a thread in it."""

    family: str
    count: int
    stride: int
    var: Node


def local(s: State, o: Opt) -> None:
    """LOCAL: threads of a group share a spatial axis."""
    sites = _sites(s, o)
    reduced = _reduced(s)
    for a in sites:
        if a in reduced:
            raise OptError(f"{o}: {a.arg.name} is reduced; GROUP shares a reduction among threads")
    _share(s, o, sites)


def group(s: State, o: Opt) -> None:
    """GROUP: threads of a group share an axis that some value reduces; their partial results are combined."""
    sites = _sites(s, o)
    if not set(sites) & _reduced(s):
        raise OptError(f"{o}: nothing reduces over {sites[0].arg.family}; LOCAL shares a spatial axis among threads")
    if o.amount & (o.amount - 1):
        raise OptError(f"{o}: partial results are combined in halves, so the amount must be a power of two")
    _share(s, o, sites)
    s.effects.add("REASSOC")


def nolocal(s: State, o: Opt) -> None:
    """NOLOCAL: one thread a group."""
    _grid_only(s, o)
    if any(p.threads > 1 for p in s.plans.values()):
        raise OptError(f"{o}: a group has threads already")
    s.alone = True


def swizzle(s: State, o: Opt) -> None:
    """SWIZZLE: groups run in bands of so many rows of the grid, so that neighbours in time share operands in the L2 or L3."""
    if o.on != "grid":
        raise OptError(f"{o}: SWIZZLE acts on 'grid' (the layout of a staged tile is STAGE's field swizzle)")
    if s.swizzle > 1:
        raise OptError(f"{o}: the grid is swizzled already")
    if o.amount < 2:
        raise OptError(f"{o}: a band has at least 2 rows")
    s.swizzle = o.amount


def launch(s: State, o: Opt) -> None:
    """LAUNCH: at most so many registers a thread."""
    _grid_only(s, o)
    if s.target.kind != "gpu":
        raise OptError(f"{o}: {s.target.name} does not divide registers among threads")
    if s.regs or not 16 <= o.amount <= 255:
        raise OptError(f"{o}: one cap of 16 to 255 registers")
    s.regs = o.amount


def _grid_only(s: State, o: Opt) -> None:
    if o.on != "grid":
        raise OptError(f"{o}: {o.op} acts on 'grid'")
    _language(s, o)


def _language(s: State, o: Opt) -> None:
    if not s.target.groups:
        raise OptError(f"{o}: {s.target.lang} code has no groups of threads; {o.op} is for opencl and cuda targets")


def _sites(s: State, o: Opt) -> list[Node]:
    """Every site of the family that an option names: a family has one thread mapping."""
    _language(s, o)
    family = s.find(o.on, o)[0].arg.family
    for item in _flat(build(s.kernel, {})):
        twice = [a.arg.name for a in item.all_axes if a.arg.family == family]
        if len(twice) > 1:
            raise OptError(f"{o}: {item.name} runs over {' and '.join(twice)}, which cannot share one numbering of threads")
    return [a for a in s.plans if a.arg.family == family and a not in s.folds]


def _reduced(s: State) -> set[Node]:
    return {a for v in s.kernel.values.values() for a in v.reduce_axes}


def _share(s: State, o: Opt, sites: Sequence[Node]) -> None:
    if s.alone:
        raise OptError(f"{o}: NOLOCAL asks for one thread a group")
    others = {a.arg.family: p.threads for a, p in s.plans.items() if a not in sites}
    total = o.amount
    for n in others.values():
        total *= n
    if total > s.target.max_threads:
        raise OptError(f"{o}: {total} threads in a group; {s.target.name} takes at most {s.target.max_threads}")
    widest = max(b.dtype.compute.size for b in s.kernel.buffers)
    for a in sites:
        s.plans[a] = s.plans[a].with_threads(str(o), o.amount, max(1, s.target.vector_bytes // widest))


def thread_axes(s: State, items: Sequence[Item]) -> tuple[ThreadAxis, ...]:
    """The dimensions of a group, the one whose neighbours touch neighbouring words most often first (it varies fastest)."""
    found: dict[str, tuple[int, int]] = {}
    for a, p in s.plans.items():
        if p.threads > 1 and a.arg.family not in found:
            found[a.arg.family] = (p.threads, s.order.index(a.arg.name))
    score = dict.fromkeys(found, 0)
    for nest in _flat(items):
        for buffer, indices in _accesses(nest):
            last = _consecutive(buffer, indices)
            if last in score:
                score[last] += 1
    out, stride = [], 1
    for family in sorted(found, key=lambda f: (-score[f], -found[f][1])):
        count = found[family][0]
        out.append(ThreadAxis(family, count, stride, make_axis(f"{family}.l", count, family)))
        stride *= count
    return tuple(out)


def _accesses(nest: Nest) -> list[tuple[Buffer, tuple[Node, ...]]]:
    out = [(b, i) for b, i, _ in loads(*nest.evaluated)]
    if nest.store is not None:
        out.append((nest.store.buffer, nest.indices))
    return out


def _consecutive(buffer: Buffer, indices: tuple[Node, ...]) -> str:
    """The family along which an access is consecutive, '' if there is none."""
    from ..ir import index as ix

    if not indices:
        return ""
    terms, _ = ix.parts(indices[-1])
    return next((t.arg.family for t, k in terms.items() if k == 1 and t.op == "axis"), "")


def default_grid(s: State) -> None:
    """Every outer spatial part that all nests share, and where no item would need what another makes, becomes a grid loop."""
    staged = {n: fill for n, (_, fill) in s.value_stages.items() if n not in s.held}
    nests = _flat(build(s.kernel, staged, s.held))
    ordered = {x for n in nests if n.store is not None for x in scatter_ordered(n.store)}
    ordered |= {n.value.expr.axis for n in nests if n.value is not None and isinstance(n.value.expr, Scan)}
    made = {name: axes for n in nests for name, axes in n.made.items()}
    symbolic = any(p.grid and isinstance(p.extent, Node) for p in s.plans.values())
    # the symbolic one goes first, where the grid may have it
    axes = sorted((a for a in s.kernel.axes if not s.plans[a].grid), key=lambda a: isinstance(a.arg.extent, int))
    grid = [a for a in s.plans if s.plans[a].grid]
    for a in axes:
        moving = isinstance(a.arg.extent, Node)
        if a in s.folds or a in ordered or a in s.fold_of or s.plans[a].fold or any(a not in n.axes for n in nests) or (moving and (symbolic or grid)):
            continue
        if any(b is a and at is not b for n in nests for r in walk(*n.evaluated) if r.op == "ref" for b, at in zip(made.get(r.arg, ()), r.src)):
            continue
        s.to_grid(a)
        grid.append(a)
        symbolic |= moving


def _flat(items: Sequence[Item]) -> list[Nest]:
    return [n for i in items for n in (i.nests if isinstance(i, FoldItem) else (i,))]

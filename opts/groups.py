"""Groups of threads: which axes they share, how they are numbered, and the default grid of GPUs. What LOCAL, GROUP
and their like have in common."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import index as ix
from ..ir.body import Scan
from ..ir.buffer import Buffer, load_parts
from ..ir.errors import OptError
from ..ir.node import Node
from ..ir.node import axis as make_axis
from .builder import ScheduleBuilder
from .nests import Item, Nest, build, flat, plain, scatter_ordered
from .opt import Opt
from .plans import ThreadAxis


def check_language(s: ScheduleBuilder, o: Opt) -> None:
    """Raise OptError where code for the target has no groups of threads."""
    if not s.target.groups:
        raise OptError(f"{o}: {s.target.lang} code has no groups of threads; {o.op} is for opencl and cuda targets")


def check_grid(s: ScheduleBuilder, o: Opt) -> None:
    """Raise OptError unless `o` is on the grid of a target with groups of threads."""
    if o.on != "grid":
        raise OptError(f"{o}: {o.op} acts on 'grid'")
    check_language(s, o)


def shared_sites(s: ScheduleBuilder, o: Opt) -> list[Node]:
    """Every site of the family that an option names: a family has one thread mapping."""
    check_language(s, o)
    family = s.find(o.on, o)[0].arg.family
    for item in flat(plain(s.kernel)):
        twice = [a.arg.name for a in item.all_axes if a.arg.family == family]
        if len(twice) > 1:
            raise OptError(f"{o}: {item.name} runs over {' and '.join(twice)}, which cannot share one numbering of threads")
    return [a for a in s.plans if a.arg.family == family and a not in s.folds]


def share(s: ScheduleBuilder, o: Opt, sites: Sequence[Node]) -> None:
    """Give `sites` the threads of `o`; OptError where a group may not have so many."""
    if s.has("NOLOCAL"):
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


def thread_axes(s: ScheduleBuilder, items: Sequence[Item]) -> tuple[ThreadAxis, ...]:
    """The dimensions of a group, the one whose neighbours touch neighbouring words most often first (it varies fastest)."""
    found: dict[str, tuple[int, int]] = {}
    for a, p in s.plans.items():
        if p.threads > 1 and a.arg.family not in found:
            found[a.arg.family] = (p.threads, s.order.index(a.arg.name))
    score = dict.fromkeys(found, 0)
    for nest in flat(items):
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
    out = [(b, i) for b, i, _ in map(load_parts, nest.loads)]
    if nest.store is not None:
        out.append((nest.store.buffer, nest.indices))
    return out


def _consecutive(buffer: Buffer, indices: tuple[Node, ...]) -> str:
    """The family along which an access is consecutive, '' if there is none."""
    if not indices:
        return ""
    terms, _ = ix.parts(indices[-1])
    return next((t.arg.family for t, k in terms.items() if k == 1 and t.op == "axis"), "")


def default_grid(s: ScheduleBuilder) -> None:
    """Every outer spatial part that all nests share, and where no item would need what another makes, becomes a grid loop."""
    staged = {n: fill for n, (_, fill) in s.value_stages.items() if n not in s.held}
    nests = flat(build(s.kernel, staged, s.held))
    ordered = {x for n in nests if n.store is not None for x in scatter_ordered(n.store)}
    ordered |= {n.value.expr.axis for n in nests if n.value is not None and isinstance(n.value.expr, Scan)}
    made = {name: axes for n in nests for name, axes in n.made.items()}
    symbolic = any(p.grid and isinstance(p.extent, Node) for p in s.plans.values())
    # the symbolic one goes first, where the grid may have it
    axes = sorted((a for a in s.kernel.axes if not s.plans[a].grid), key=lambda a: isinstance(a.arg.extent, int))
    grid = [a for a in s.plans if s.plans[a].grid]
    for a in axes:
        moving = isinstance(a.arg.extent, Node)
        if (
            a in s.folds
            or a in ordered
            or a in s.fold_of
            or s.plans[a].fold
            or any(a not in n.axes for n in nests)
            or (moving and (symbolic or grid))
        ):
            continue
        if any(b is a and at is not b for n in nests for r in n.refs for b, at in zip(made.get(r.arg, ()), r.src)):
            continue
        s.to_grid(a)
        grid.append(a)
        symbolic |= moving

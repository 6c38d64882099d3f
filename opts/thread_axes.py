"""Which axes the threads of a group share and how they are numbered, and the default grid of GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..ir import index as ix
from ..ir.body import Scan
from ..ir.buffer import Buffer, load_parts
from ..ir.errors import OptError
from ..ir.node import Node
from ..ir.node import axis as make_axis
from .analysis.write_order import kernel_ordered
from .builder import ScheduleBuilder
from .nests import Item, Nest, build, flat, plain
from .opt import Opt
from .plans import ThreadAxis


def family_sites(s: ScheduleBuilder, o: Opt, family: str) -> list[Node]:
    """Every site of `family`; OptError where a nest runs over two of them, as a thread would be at one place along both."""
    for item in flat(plain(s.kernel)):
        twice = [a.arg.name for a in item.all_axes if a.arg.family == family]
        if len(twice) > 1:
            raise OptError(f"{o}: {item.name} runs over {' and '.join(twice)}, which cannot share one numbering of threads")
    return [a for a in s.plans if a.arg.family == family and a not in s.folds]


def unit(s: ScheduleBuilder) -> int:
    """Threads of a group that go together because a matrix instruction takes so many, 1 without one."""
    return max((t.row.unit for t in s.tensors.values()), default=1)


def check_size(s: ScheduleBuilder, o: Opt, more: Mapping[str, int] | None = None) -> None:
    """Raise OptError where a group has too many threads; `more`: what families are about to get."""
    counts = {a.arg.family: p.threads for a, p in s.plans.items() if p.dot == 1}
    total = prod((counts | dict(more or {})).values()) * unit(s)
    if total > s.target.max_threads:
        raise OptError(f"{o}: {total} threads in a group; {s.target.name} takes at most {s.target.max_threads}")


def thread_axes(s: ScheduleBuilder, items: Sequence[Item]) -> tuple[ThreadAxis, ...]:
    """The dimensions of a group: those inside a unit, whose places a matrix instruction gives, then the others, the one whose
    neighbours touch neighbouring words most often first (it varies fastest)."""
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
    out, stride = _unit_axes(s), unit(s)
    for family in sorted(found, key=lambda f: (-score[f], -found[f][1])):
        count = found[family][0]
        dealt = any(p.unit for a, p in s.plans.items() if a.arg.family == family)
        out.append(ThreadAxis(family, count, stride, make_axis(f"{family}.{'w' if dealt else 'l'}", count, family)))
        stride *= count
    return tuple(out)


def _unit_axes(s: ScheduleBuilder) -> list[ThreadAxis]:
    """The dimensions inside a unit. Two instructions may deal two families out to the same threads."""
    found: dict[tuple[int, int], dict[str, Node]] = {}
    for a, plan in s.plans.items():
        for row, p in zip(plan.unit, plan.parts[len(plan.parts) - len(plan.unit) :], strict=True):
            if p.kind == "thread":
                found.setdefault((row.bits, row.count), {})[a.arg.family] = p.var
    return [ThreadAxis(next(iter(x)), n, bits, *_first(tuple(x.values()))) for (bits, n), x in sorted(found.items(), key=lambda f: f[0])]


def _first(variables: tuple[Node, ...]) -> tuple[Node, tuple[Node, ...]]:
    return variables[0], variables[1:]


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
    ordered = {*kernel_ordered(s.kernel)} | {n.value.expr.axis for n in nests if n.value is not None and isinstance(n.value.expr, Scan)}
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

"""Start schedules of contractions whose operands are computed (`opts/analysis/computed.py`): decoded in the panels they are read from, in registers
where they are used, or in a phase of their own; and of those that need another reduction first, which gets a phase."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.body import Reduce, Value
from ...ir.dtypes import index
from ...ir.kernel import Kernel
from ...ir.node import DEAR as DEAR_OPERATORS
from ...ir.node import Node, walk
from ...opts.analysis.computed import all_contractions, computed_contraction
from ...opts.analysis.products import products
from ...opts.analysis.structure import Contraction, extent, lane_axis, nests
from ...opts.kernel_parts import needed
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.rewrites.operands import has_computed, operands
from ...opts.rewrites.operands import regrouped as is_regrouped
from ...targets import Target
from .contractions import best_contractions
from .legal import Trials
from .phased import Starts, joined

Found = tuple[Opts, Kernel, Contraction]
"""Options that make another kernel, that kernel, and a contraction of it."""

DEAR = DEAR_OPERATORS | {"ref"}
"""What makes an operand too dear to be computed again for every block of the other one."""


MANY = 16
"""Operations that are as dear."""
NARROW = 128
"""Elements of the lane axis that are too few to spread a product over work items by blocks of them."""


def regrouped(kernel: Kernel) -> Iterator[tuple[Opts, Kernel, Nest, Node]]:
    """Sums of products that have a computed operand, as sums of two operands: (options, the kernel that they make, the sum's
    nest there, its lane axis)."""
    for p in products(kernel):
        nest = next(n for n in nests(kernel) if n.name == p.value.name)
        lane = lane_axis(kernel, nest)
        if lane is not None and has_computed(p, lane) and not is_regrouped(kernel, p.value.name):
            new = operands(kernel, p.value.name, str(lane.arg.name))
            found = next(n for n in nests(new) if n.name == p.value.name)
            yield (opt("REWRITE", p.value.name, rule="operands", along=str(lane.arg.name)),), new, found, lane


def paired(kernel: Kernel) -> Iterator[Found]:
    """Those of `regrouped` that are contractions."""
    for first, new, nest, lane in regrouped(kernel):
        c = computed_contraction(new, nest, lane)
        if c is not None and (c.wide_value or c.tall_value):
            yield first, new, c


def phases_first(kernel: Kernel, target: Target) -> Iterator[Opts]:
    """Options that give a phase to what keeps the largest contraction from having a grid of its own, or is too dear to be computed
    again: reductions that do not run over all of its axes, and its computed operands."""
    if target.kind == "gpu":
        return
    found = all_contractions(kernel)
    if not found:
        return
    main = max(found, key=lambda c: _points(c.nest))
    before, covered = set(_before(kernel, main.nest)), set[str]()
    phases: dict[str, Opts] = {}
    for first, new, nest, lane in regrouped(kernel):
        made = [v for v in (f"{nest.name}.m", f"{nest.name}.n") if v in new.values and _reused(nest, new.values[v])]
        dear = [v for v in made if _dear(new.values[v]) or (lane in new.values[v].axes and extent(lane) <= NARROW)]
        if dear and 2 * _points(nest) >= _points(main.nest):  # (all that are as large, such as two parts of one number)
            phases[nest.name] = (*first, *(opt("PHASE", v, apart=1) for v in dear))
            covered |= {item.name for v in dear for item in needed(new.body, (new.values[v].body,))}
    apart = tuple(opt("PHASE", name, apart=1) for name in kernel.values if name in before)
    if main.nest.name in phases:
        operands_first = tuple(o for one in phases.values() for o in one)
        if covered & before:  # what an operand is computed of may be a product of matrices itself
            yield (*apart, *operands_first)
        yield operands_first
    else:
        covered = set()
    if before - covered:
        yield apart


def _reused(nest: Nest, v: Value) -> bool:
    """Whether a sum reads each element of an operand for several results."""
    return any(extent(a) > 1 and a not in v.axes for a in nest.axes)


def _dear(v: Value) -> bool:
    plain = [n for n in walk(v.body) if n.dtype is not index and n.op != "const"]
    return any(n.op in DEAR for n in plain) or sum(n.op not in ("load", "cast", "axis") for n in plain) >= MANY


def _before(kernel: Kernel, main: Nest) -> list[str]:
    """Reductions that do not run over every axis of the nest `main`, and that do not need it themselves."""
    axes = {a for a in main.axes if extent(a) > 1}
    late, out = {main.name}, list[str]()
    for v in kernel.body:
        if not isinstance(v, Value) or v.name == main.name:
            continue
        if any(n.op == "ref" and n.arg in late for n in walk(v.body)):
            late.add(v.name)
        elif isinstance(v.expr, Reduce) and axes - set(v.axes) and all(extent(a) for a in v.axes):
            out.append(v.name)
    return out


def _points(n: Nest) -> int:
    out = 1
    for a in n.all_axes:
        out *= extent(a)
    return out


def computed_starts(trials: Trials, threads: int, starts: Starts) -> Iterator[Opts]:
    """Guesses for kernels with a contraction whose operand is computed, or that needs another reduction first; none for others."""
    kernel, target = trials.kernel, trials.target
    for first in phases_first(kernel, target):
        yield from joined(trials, first, starts)
    for first, new, c in paired(kernel) if target.kind != "gpu" else ():
        yield from ((*first, *opts) for opts in best_contractions(Trials(new, target), threads, c))

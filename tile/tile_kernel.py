"""`@tile.kernel`: a function of tiles as a kernel."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..ir import index as ix
from ..ir.body import Fold, Reduce, Scan, Store, Value, values_of
from ..ir.buffer import Buffer
from ..ir.checks.structure_checks import check_reads
from ..ir.checks.written_once import check_written_once
from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.kernel import DecidedBlocks, Kernel
from ..ir.node import Node, as_node, axes_of, axis, const, ref, walk
from ..ir.normal_form import canonical, tidy
from ..ir.operators import cast, logical, substitute, substitute_on, where
from ..ir.rewriter import OtherAxes, in_place
from ..ir.skipped_tiles import conjuncts
from .absent_elements import identity_of, vanished
from .tile_builder import TileBuilder
from .trace import LoopTrace, Step, TileStore, Trace

# nests ------------------------------------------------------------------------------------------------------
# The nests of a tile kernel, and how blocks and the places inside them become one axis.
#
# A cell's number and the place in its block occur as number · size + place wherever a kernel does not care about the
# block size. Then the two are one axis of the whole extent, and the block is a matter of schedules. A nest of which
# that is not so keeps both.


@dataclass(eq=False)
class TileNest:
    """A reduction, a scan or a store. `exprs`: the element, of a store also its indices, and its mask or None. `joined`: of a value,
    the positions of its axes that became one, (outer, inner, elements of the inner), one after the other."""

    name: str
    axes: list[Node]
    over: list[Node]
    exprs: list[Node]
    mask: Node | None = None
    combine: str = ""
    dtype: DType | None = None
    buffer: Buffer | None = None
    scan: Value | None = None
    joined: list[tuple[int, int, int]] = field(default_factory=list)
    steps: dict[Node, Step] = field(default_factory=dict)
    """Whole axes → the blocks that they are made of."""

    @property
    def roots(self) -> list[Node]:
        """All expressions."""
        return self.exprs if self.mask is None else [*self.exprs, self.mask]

    @property
    def along(self) -> Node | None:
        """The axis that a scan runs along."""
        return self.scan.expr.axis if self.scan is not None and isinstance(self.scan.expr, Scan) else None

    def map(self, change: dict[Node, Node]) -> None:
        """Replace nodes in every expression."""
        self.exprs = [substitute(e, change) for e in self.exprs]
        if self.mask is not None:
            self.mask = substitute(self.mask, change)
            if self.mask.op == "const" and self.mask.arg:
                self.mask = None


class TileNests:
    """All nests that the stores of a trace need, values before their readers."""

    def __init__(self, trace: Trace, stores: Iterable[TileStore]) -> None:
        self.trace = trace
        self.nests: list[TileNest] = []
        self.by: dict[str, TileNest] = {}
        self._axes: dict[tuple[Node, Node], Node] = {}
        stores = list(stores)
        written = [s.buffer.name for s in stores]
        made = [self._store(s, written.count(s.buffer.name) == 1) for s in stores]
        for n in made:
            self._need(n.roots)
        self.nests += made
        for n in self.nests:
            self._join(n)
        for n in reversed(self.nests):
            self._cut(n)

    # what there is ----------------------------------------------------------------------------------------------------
    def _store(self, s: TileStore, alone: bool) -> TileNest:
        """The nest of a store. Where it is the only one to its output, and all that meets is combined before, it combines nothing itself."""
        s = self.trace.stepwise.get(s, s)
        full = self.trace.full
        at, value = [full(i) for i in s.indices], full(s.value)
        mask = None if s.mask is None else full(s.mask)
        free = axes_of(value, *at, *([] if mask is None else [mask])) | set(s.lanes)
        # every cell of the grid, and every step of a loop around it, stores
        free |= {a for a, step in self.trace.steps.items() if step.grid} | self._loops_around(s)
        axes = sorted(free, key=self.trace.rank)
        if s.combine is not None and not any(n.op == "load" for n in walk(*at)):
            lost = [a for a in axes if a not in axes_of(*at)]
            if lost:
                value = self._summed(s.combine, value, mask, lost, s.buffer.dtype)
                mask = _without(mask, lost)
                axes = [a for a in axes if a not in lost]
                return TileNest("", axes, [], [value, *at], mask, "" if alone else s.combine, None, s.buffer)
        return TileNest("", axes, [], [value, *at], mask, s.combine or "", None, s.buffer)

    def _loops_around(self, s: TileStore) -> set[Node]:
        found: set[Node] = set()

        def look(items: list[LoopTrace | TileStore], around: tuple[Node, ...]) -> None:
            for item in items:
                if isinstance(item, TileStore):
                    original = self.trace.stepwise.get(item, item)
                    if item is s or original is s:
                        found.update(around)
                else:
                    look(item.items, (*around, item.step.axis))

        look(self.trace.items, ())
        return found

    def _summed(self, combine: str, value: Node, mask: Node | None, lost: list[Node], dtype: DType) -> Node:
        """What cells write to the same place, combined before it is stored."""
        over, element = tuple(lost), value
        while element.op == "ref" and (r := self.trace.solved.get(element.arg)) is not None and r.combine == combine:
            over, element = (*over, *r.over), self.trace.element(element)
        if mask is not None:
            idle = identity_of(combine, element)
            part = _only(mask, lost)
            if part is not None and vanished(element, {part: const(False)}, lambda r: None) is not idle:
                element = where(part, element, idle)
        of = dtype.acc if combine in ("add", "mul") else dtype.compute
        return self.trace.add_solved(combine, cast(element, of), over, of, "acc")

    def _need(self, roots: Iterable[Node]) -> None:
        for n in walk(*roots):
            if n.op != "ref" or n.arg in self.by:
                continue
            r = self.trace.solved.get(n.arg)
            if r is not None:
                nest = TileNest(r.name, list(r.axes), list(r.over), [cast(r.body, r.dtype)], None, r.combine, r.dtype)
            else:
                v = self.trace.scans[n.arg]
                nest = TileNest(v.name, list(v.axes), [], [v.body], None, "", v.dtype, scan=v)
            self.by[n.arg] = nest
            self._need(nest.roots)
            self.nests.append(nest)

    # blocks and places ------------------------------------------------------------------------------------------------
    def _join(self, n: TileNest) -> None:
        """Make (cell, place) one axis wherever that is possible."""
        self._reread(n)
        for group in (n.axes, n.over):
            again = True
            while again:
                again = any(
                    self._joined(n, group, a, lane)
                    for a in list(group)
                    if a in self.trace.steps or a in n.steps
                    for lane in list(group)
                    if lane not in self.trace.steps and lane not in n.steps
                )

    def _joined(self, n: TileNest, group: list[Node], a: Node, lane: Node) -> bool:
        if a not in group or lane not in group or a is n.along:
            return False
        size = lane.arg.extent
        whole = self._axes.setdefault((a, lane), axis(f"\0w{len(self._axes)}", a.arg.extent * size))
        change = {lane: ix.add(whole, a, -size)}
        after = [substitute(e, change) for e in n.roots]
        if a in axes_of(*after):
            return False
        n.map(change)
        if group is n.axes and n.name:
            n.joined.append((group.index(a), group.index(lane), size))
        n.steps[whole] = self.trace.steps.get(a) or n.steps[a]
        group[group.index(a)] = whole
        group.remove(lane)
        return True

    def _reread(self, n: TileNest) -> None:
        """References to values of fewer axes."""

        def again(r: Node, src: tuple[Node, ...]) -> Node:
            at = list(src)
            for outer, inner, size in self.by[r.arg].joined:
                at[outer] = ix.add(ix.mul(at[outer], const(size)), at[inner])
                del at[inner]
            return ref(r.arg, at, r.dtype)

        n.exprs = [substitute_on(e, {}, again) for e in n.exprs]
        if n.mask is not None:
            n.mask = substitute_on(n.mask, {}, again)

    # the ends of axes -------------------------------------------------------------------------------------------------
    def _cut(self, n: TileNest) -> None:
        """End axes where nothing exists beyond, so that no masks are needed there."""
        if n.name:
            self._cut_to_readers(n)
        elif n.mask is not None:
            for a in list(n.axes):
                ends = [e for m in ([] if n.mask is None else conjuncts(n.mask)) if (e := _end(m, a)) is not None]
                if ends:
                    self._shorten(n, n.axes, a, min(ends))
        for a in list(n.over):
            for end in sorted({e for m in walk(*n.roots) if (e := _end(m, a)) is not None}):
                if self._nothing_from(n, a, end):
                    self._shorten(n, n.over, a, end)
                    break

    def _cut_to_readers(self, n: TileNest) -> None:
        uses = [r for m in self.nests for r in walk(*m.roots) if r.op == "ref" and r.arg == n.name]
        for k, a in enumerate(list(n.axes)):
            end = max((ix.bounds(r.src[k])[1] + 1 for r in uses), default=a.arg.extent)
            if end < a.arg.extent and a is not n.along:
                self._shorten(n, n.axes, a, end)

    def _shorten(self, n: TileNest, group: list[Node], a: Node, end: int) -> None:
        if end >= a.arg.extent:
            return
        short = axis(f"{a.arg.name}.{end}", end)
        n.map({a: short})
        group[group.index(a)] = short
        if a in n.steps:
            n.steps[short] = n.steps[a]

    def _nothing_from(self, n: TileNest, a: Node, end: int) -> bool:
        """Whether every element from `end` on is neutral."""
        rest = ix.add(axis("\0rest", a.arg.extent - end), as_node(end))
        found = vanished(n.exprs[0], {a: rest}, lambda r: self._constant(r, {}))
        return found is identity_of(n.combine, n.exprs[0])

    def _constant(self, r: Node, table: dict[Node, Node]) -> Node | None:
        """The number that a reference to a reduction is, where all its elements are neutral."""
        m = self.by[r.arg]
        if not m.combine:
            return None
        found = vanished(m.exprs[0], dict(zip(m.axes, r.src, strict=True)) | table, lambda x: self._constant(x, table))
        return found if found is identity_of(m.combine, m.exprs[0]) else None

    # the kernel -------------------------------------------------------------------------------------------------------
    def values(self) -> tuple[Value, ...]:
        """The values of the kernel, in order."""
        out = []
        for n in self.nests:
            if n.name and n.scan is None:
                assert n.dtype is not None
                expr = Reduce(n.combine, tuple(n.over), n.exprs[0], n.dtype)
                out.append(Value(n.name, tuple(n.axes), expr, n.dtype))
            elif n.scan is not None and isinstance(n.scan.expr, Scan):
                s = n.scan.expr
                out.append(Value(n.name, tuple(n.axes), Scan(s.combine, s.axis, n.exprs[0], s.dtype), s.dtype))
        return tuple(out)

    def stores(self) -> tuple[Store, ...]:
        """The stores of the kernel, in order."""
        return tuple(
            Store(n.buffer, tuple(n.exprs[1:]), n.exprs[0], tuple(n.axes), n.combine or None, n.mask)
            for n in self.nests
            if n.buffer is not None
        )


def _end(m: Node, a: Node) -> int | None:
    """The number below which a condition wants an axis to be."""
    if m.op not in ("lt", "le") or m.src[0] is not a or m.src[1].op != "const":
        return None
    return int(m.src[1].arg) + (m.op == "le")


def _only(mask: Node, lost: list[Node]) -> Node | None:
    """The part of a mask that depends on axes."""
    out: Node | None = None
    for m in conjuncts(mask):
        if axes_of(m) & set(lost):
            out = m if out is None else logical("and", out, m)
    return out


def _without(mask: Node | None, lost: list[Node]) -> Node | None:
    """The part of a mask that does not depend on axes."""
    out: Node | None = None
    for m in [] if mask is None else conjuncts(mask):
        if not axes_of(m) & set(lost):
            out = m if out is None else logical("and", out, m)
    return out


# elaborate --------------------------------------------------------------------------------------------------
# From a trace to a kernel: nests over whole axes, folds derived, names tidied, and what is left of the blocks noted.


@dataclass(frozen=True)
class Elaborated:
    """`raw`: the kernel as its nests came out. `kernel`: as it is handed out, without its blocks. `blocks`: the steps that are a
    matter of schedules, by the family that they cut. `meant`: names of the steps whose block size is part of what is computed."""

    raw: Kernel
    kernel: Kernel
    blocks: dict[str, Step]
    meant: tuple[str, ...]


def elaborate(trace: Trace, aliases: Mapping[str, str], finish: bool = True) -> Elaborated:
    """The kernel that a trace computes. With `finish` false only `raw` is made as it should be."""
    stores = list(_stores(trace.items))
    if not stores:
        raise KernelError(f"{trace.name} stores nothing: y[rows, cols] = tile writes an output")
    unwritten = [b.name for b in trace.buffers if b.role == "out" and all(s.buffer is not b for s in stores)]
    if unwritten:
        raise KernelError(f"{trace.name} never stores to its output {unwritten[0]}")
    nests = TileNests(trace, stores)
    used = [b for b in trace.buffers if b.role == "in"] + [b for b in trace.buffers if b.role == "out"]
    raw = _checked(trace.name, nests, tuple(used))
    joined = {s.axis for n in nests.nests for s in n.steps.values()}
    kept = {a for n in nests.nests for a in (*n.axes, *n.over)}
    meant = tuple(
        s.name for a, s in trace.steps.items() if s.block is not None and (a in kept or a not in joined) and s.axis.arg.extent > 1
    )
    if not finish:
        return Elaborated(raw, raw, {}, meant)
    kernel = tidy(_folded(raw) if trace.carries else raw)
    kernel = _renamed(kernel, _families(nests, kernel))
    blocks = {s.name: s for s in trace.steps.values() if s.block is not None and s.name not in meant and s.name in kernel.families}
    return Elaborated(raw, in_place(kernel, aliases), blocks, meant)


def _stores(items: list[LoopTrace | TileStore]) -> Iterator[TileStore]:
    for item in items:
        if isinstance(item, TileStore):
            yield item
        else:
            yield from _stores(item.items)


def _checked(name: str, nests: TileNests, buffers: tuple[Buffer, ...]) -> Kernel:
    try:
        raw = Kernel(name, nests.values(), nests.stores(), buffers)
        check_reads(raw)
    except KernelError as e:
        text = str(e)
        raise KernelError(_in_words(nests, text)) from None
    try:
        check_written_once(raw)
    except KernelError as e:
        raise KernelError(
            f"{_in_words(nests, str(e))}. Cells of the grid run in any order, and at the same time: a place that two of them write is a race "
            "(y.add(tile, rows, cols) adds up)"
        ) from None
    return raw


def _in_words(nests: TileNests, text: str) -> str:
    """An error about nests, with the names of the tile kernel's axes and what one writes there."""
    names = {a.arg.name: s.name for n in nests.nests for a, s in n.steps.items()}
    names |= {a.arg.name: s.name if s.block is None else f"{s.name}.cell" for a, s in nests.trace.steps.items()}
    lanes = sorted({a.arg.name for n in nests.nests for a in (*n.axes, *n.over)} - set(names), key=lambda x: (len(x), x))
    names |= {x: f"place{k or ''}" for k, x in enumerate(lanes) if x.startswith("\0l")}
    for known in sorted(names, key=len, reverse=True):  # a longer name may begin with a shorter one
        text = text.replace(known, names[known])
    text = text.replace("(kb.sum)", "(t.sum)").replace("Give combine='add' (or 'max', ...)", "Combine, as y.add does,")
    head, found, _ = text.partition("or read it by ")
    return f"{head}or load it with mask=... or other=... (where() does not keep a load from memory)" if found else text.replace("\0", "")


def _folded(raw: Kernel) -> Kernel:
    """The kernel with its chain of reductions as a fold, where it has one."""
    from ..ir.online import online

    found = online(raw)
    return found if isinstance(found, Kernel) else raw


# names ------------------------------------------------------------------------------------------------------------------
def _families(nests: TileNests, tidied: Kernel) -> dict[str, str]:
    """What the grid and the loops call the families of the tidy kernel: by the place of an axis in its store or value, which tidying
    keeps. Whole blocks come first, then dimensions that a cell has all of."""
    found: dict[str, str] = {}
    stores = [n for n in nests.nests if n.buffer is not None]
    pairs = [(n.axes, s.axes) for n, s in zip(stores, tidied.stores, strict=True)]
    values = {v.name: v for item in tidied.body for v in values_of(item)}
    pairs += [(n.over, v.reduce_axes) for n in nests.nests if (v := values.get(n.name)) is not None]
    for step in (True, False):
        for (mine, its), n in zip(pairs, [*stores, *(n for n in nests.nests if n.name in values)], strict=True):
            for a, b in zip(mine, its, strict=False):
                known = n.steps.get(a) or nests.trace.steps.get(a)
                name = nests.trace.lanes.get(a, "") if known is None or not step else known.name
                if len(mine) == len(its) and a.arg.extent == b.arg.extent and name and (known is not None) is step:
                    found.setdefault(b.arg.family, name)
    return found


def _renamed(kernel: Kernel, wanted: dict[str, str]) -> Kernel:
    """Families called as the grid and the loops call them."""
    taken = {b.name for b in kernel.buffers} | set(kernel.values) | {i.name for i in kernel.body if isinstance(i, Fold)}
    names: dict[str, str] = {}
    for family, name in wanted.items():
        if name not in taken and name not in names.values():
            names[family] = name
    clash = set(names.values()) & (set(kernel.families) - set(names))
    changed = {f: n for f, n in names.items() if n not in clash}
    return OtherAxes(kernel, {a: _named(a, changed) for a in kernel.axes}).run()


def _named(a: Node, names: Mapping[str, str]) -> Node:
    """An axis of the family that has another name; itself where it keeps its own."""
    new = names.get(a.arg.family)
    if new is None:
        return a
    _, at, site = a.arg.name.partition("@")
    return axis(f"{new}{at}{site}", a.arg.extent, new)


def with_blocks(kernel: Kernel, blocks: DecidedBlocks | None) -> Kernel:
    """`kernel` with what its schedules must keep to."""
    return replace(kernel, blocks=blocks) if blocks is not None else kernel


# kernel -----------------------------------------------------------------------------------------------------
MOST = 4096
"""Combinations of block sizes."""


class TileKernel:
    """A function that writes a kernel in tiles. Called with its sizes (those of the function, without `t`) it returns the `Kernel`.
    `check` runs it cell by cell, as it is written, and compares."""

    def __init__(self, function: Callable[..., None], reference: Callable[..., Any] | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.reference = function, reference
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters:
            raise KernelError(
                f"{function.__name__} has no argument; the first one of a tile function is what it writes with: def f(t, m=64)"
            )
        self.__signature__ = inspect.Signature(parameters[1:], return_annotation=Kernel)
        self.__name__ = function.__name__

    def __call__(self, *arrays: Any, **arguments: Any) -> Kernel:
        """The kernel for these sizes. Raises KernelError."""
        if arrays or any(hasattr(x, "shape") for x in arguments.values()):
            first = next(iter(self.__signature__.parameters), "m")
            raise KernelError(
                f"{self.__name__} takes sizes by name and returns a kernel, {self.__name__}({first}=64): best(kernel) runs that on arrays, and "
                f"operation(lambda x: {self.__name__}({first}=x.shape[0])) is a function of tensors"
            )
        builder, found = self._written(arguments)
        combos = _combinations(builder)
        steps = found.blocks
        _check_extents(found, builder)
        self._check_sizes(arguments, builder, found, combos)
        if not steps:
            return found.kernel
        sizes = dict.fromkeys(tuple(_size(s, combo) for s in steps.values()) for combo in combos)
        return with_blocks(found.kernel, DecidedBlocks(tuple(steps), tuple(sizes)).only(found.kernel.families))

    def traced(self, sizes: Mapping[str, int] | None = None, **arguments: Any) -> TileBuilder:
        """One run of the function; `sizes`: block sizes by name (default: the first that are allowed)."""
        builder = TileBuilder(self.__name__, dict(sizes or {}))
        result = self.function(builder, **arguments)
        if inspect.isgenerator(result) or result is not None:
            raise KernelError(
                f"{self.__name__} returns {type(result).__name__}; a tile function stores its results to outputs, and returns nothing"
            )
        if builder.trace.open:
            name = builder.trace.open[-1].step.name
            raise KernelError(f"the loop over {name} was left by break or return; its steps cannot be known. Mask what is not wanted")
        return builder

    def check(self, seed: int = 0, sizes: Mapping[str, int] | None = None, **arguments: Any) -> None:
        """Run the function cell by cell on random inputs, as it is written, and compare with the kernel's float64 reference, and with
        `reference(inputs by name)` where the decorator was given one (it returns the outputs by name, or the one output). Raises
        VerifyError where they differ. For sizes at which NumPy is quick enough."""
        from .interpret import check  # needs NumPy, which a kernel does not

        check(self.traced(sizes, **arguments).trace, self(**arguments), self.reference, seed)

    def _written(self, arguments: Mapping[str, Any]) -> tuple[TileBuilder, Elaborated]:
        builder = self.traced(None, **arguments)
        if builder.limits:
            first = next(iter(_combinations(builder)), {})
            builder = self.traced(first, **arguments)
        return builder, elaborate(builder.trace, builder.aliases)

    def _check_sizes(self, arguments: Mapping[str, Any], builder: TileBuilder, found: Elaborated, combos: list[dict[str, int]]) -> None:
        """Raise KernelError where another block size computes something else. Each size is tried beside the first of the others."""
        first, text = combos[0], canonical(found.raw).text
        fixed = {s.name: s.block for s in builder.trace.steps.values() if not s.param}
        for param, values in builder.params.items():
            for value in values:
                other = next((c for c in combos if c[param] == value), None)
                if other is None or other == first:
                    continue
                again = self.traced(other, **arguments)
                made = elaborate(again.trace, again.aliases, finish=False)
                moved = [s.name for s in again.trace.steps.values() if not s.param and fixed.get(s.name, s.block) != s.block]
                if moved:
                    raise KernelError(
                        f"{self.__name__}: the block of {moved[0]} is computed from {param}; give it a t.block of its own, with t.limit"
                    )
                if canonical(made.raw).text != text:
                    raise KernelError(_depends(self.__name__, param, first[param], value, found))


def _depends(name: str, param: str, one: int, other: int, found: Elaborated) -> str:
    why = f" (a cell of {', '.join(found.meant)} does more than go through its own places)" if found.meant else ""
    return (
        f"{name}: with {param} = {other} something else is computed than with {param} = {one}{why}, so a search cannot choose it. If that is "
        f"meant, give a number instead of t.block({param!r}, ...); if not, look at what is read past the end of an axis: give `other`, or a mask"
    )


def _check_extents(found: Elaborated, builder: TileBuilder) -> None:
    """Raise KernelError for a parameter whose blocks are part of what is computed."""
    for s in builder.trace.steps.values():
        if s.name in found.meant and s.param and len(builder.params[s.param]) > 1:
            sizes = {min(n, s.extent) for n in builder.params[s.param]}
            if len(sizes) > 1:
                raise KernelError(_depends(builder.trace.name, s.param, min(sizes), max(sizes), found))


def _combinations(builder: TileBuilder) -> list[dict[str, int]]:
    """The block sizes that are allowed together."""
    names = list(builder.params)
    out = []
    for values in itertools.product(*builder.params.values()):
        combo = dict(zip(names, values, strict=True))
        if all(f(**{p: combo[p] for p in inspect.signature(f).parameters}) for f in builder.limits):
            out.append(combo)
        if len(out) > MOST:
            raise KernelError(f"{builder.trace.name}: there are more than {MOST} combinations of block sizes; leave some out")
    if not out:
        raise KernelError(f"{builder.trace.name}: t.limit allows no combination of the block sizes; allow at least one")
    return out


def _size(step: Step, combo: Mapping[str, int]) -> int:
    return min(step.extent, combo[step.param] if step.param else int(step.block or 1))


def kernel(function: Callable[..., None] | None = None, *, reference: Callable[..., Any] | None = None) -> Any:
    """A function of tiles as a kernel: `@tile.kernel`, or `@tile.kernel(reference=f)` where `f(inputs)` is what NumPy says, for `check`.

    The function's first argument is a `TileBuilder`, the others are sizes (and `dtype`), with defaults as a rule."""
    if function is None:
        return lambda f: TileKernel(f, reference)
    return TileKernel(function, reference)

"""TC: a sum of products done by a matrix instruction, from the table of `targets.instructions`.

The instruction takes k consecutive elements of the reduce axis at once (`k.d`): of one operand as a group that all lanes share, of the
other from a panel whose layout the row states (STAGE keeps it so). Where the row's first operand is unsigned and the kernel's is
signed, 2^(bits-1) is added to every element on the way, and as often taken off the sum again: Σ (a + 128)·b - 128·Σ b. In integers
that is exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..ir import index as ix
from ..ir.body import Reduce
from ..ir.buffer import load_parts
from ..ir.dtypes import DType, index
from ..ir.errors import OptError
from ..ir.kernel import Kernel
from ..ir.node import Node, axes_of
from ..targets import Target, instructions
from ..targets.instructions import Instruction
from .axis_plan import Part
from .nests import FoldItem, Nest, build
from .opt import Opt

if TYPE_CHECKING:
    from .handlers import State
    from .schedule import Scheduled
    from .staging import StagePlan


@dataclass(frozen=True, eq=False)
class DotPlan:
    """What a matrix instruction multiplies: loads `a` (the same in all lanes) and `b` (one group a lane) of the sum `value`, along the
    reduce axis `k`, with lanes along `n`. `shift` is added to every element of `a`: 0, or half the range of its type."""

    value: str
    row: Instruction
    expr: Node
    a: Node
    b: Node
    n: Node
    k: Node
    shift: int

    @property
    def describe(self) -> str:
        """Deterministic text for hashing."""
        return f"{self.value} {self.row.name} {self.n.arg.name} {self.k.arg.name}"


def tc(s: State, o: Opt) -> None:
    """The handler of TC."""
    row = _row(s, o)
    nest = _sum(s, o)
    if nest.name in s.dots:
        raise OptError(f"{o}: {o.on} has a matrix instruction already")
    n, k = _axis(s, o, nest, "n", nest.axes), _axis(s, o, nest, "k", nest.reduce_axes)
    a, b = (_operand(o, x) for x in nest.expr.src)
    if n in axes_of(*a.src):
        a, b = b, a
    if n in axes_of(*a.src) or n not in axes_of(*b.src):
        raise OptError(f"{o}: one operand of {o.on} must run over {n.arg.name}, and the other must not")
    if k not in axes_of(*a.src) or k not in axes_of(*b.src):
        raise OptError(f"{o}: both operands of {o.on} must run over {k.arg.name}")
    if o.fields["m"]:
        m = _axis(s, o, nest, "m", nest.axes)
        if m not in axes_of(*a.src) or m in axes_of(*b.src):
            raise OptError(f"{o}: m is an axis of {load_parts(a)[0].name} alone, not {m.arg.name}")
    shift = _types(o, row, nest.expr.dtype, a.dtype, b.dtype)
    s.dots[nest.name] = DotPlan(nest.name, row, nest.expr, a, b, n, k, shift)
    s.plans[k] = s.plans[k].with_dot(str(o), row.k)
    if row.c.is_float:
        s.effects.add("REASSOC")


@dataclass(frozen=True, slots=True)
class Fit:
    """An instruction that could do a sum of products, along the reduce axis `k`: one along which the shared operand is consecutive,
    if there is one (`grouped`). `shifted`: its elements are moved into the unsigned range. `wide` names the input that has the lanes."""

    row: Instruction
    k: Node
    grouped: bool
    shifted: bool
    wide: str


def fitting(target: Target, nest: Nest, lane: Node) -> Fit | None:
    """The instruction of `target` for the sum of products `nest` with its lanes along `lane`."""
    loaded = [x.src[0] if x.op == "cast" else x for x in nest.expr.src]
    if nest.expr.op != "mul" or any(x.op != "load" for x in loaded) or target.lang not in ("llvm", "c"):
        return None
    if sum(lane in axes_of(*x.src) for x in loaded) != 1:
        return None
    a, b = loaded if lane in axes_of(*loaded[1].src) else reversed(loaded)
    both = [k for k in nest.reduce_axes if k in axes_of(*a.src) and k in axes_of(*b.src)]
    row = next((r for r in instructions.available(target) if _shift(r, nest.expr.dtype, a.dtype, b.dtype) is not None), None)
    if row is None or not both:
        return None

    def grouped(k: Node) -> bool:
        return ix.parts(load_parts(a)[1][-1])[0].get(k) == 1

    k = max(both, key=lambda k: (grouped(k), _size(k)))
    return Fit(row, k, grouped(k), a.dtype is not row.a, load_parts(b)[0].name)


def at_once(kernel: Kernel, target: Target) -> dict[str, int]:
    """The most products that one lane adds in a step of any instruction that fits, for each sum of products that one fits."""
    flat = [n for i in build(kernel, {}) for n in (i.nests if isinstance(i, FoldItem) else (i,)) if n.kind == "reduce"]
    found: dict[str, int] = {}
    for n in flat:
        for f in (fitting(target, n, lane) for lane in n.axes):
            if f is not None:
                found[n.name] = max(found.get(n.name, 1), f.row.k // f.row.halves)
    return found


def _size(axis: Node) -> int:
    e = axis.arg.extent
    return e if isinstance(e, int) else ix.bounds(e)[1]


def _row(s: State, o: Opt) -> Instruction:
    name = str(o.fields["row"])
    has = ", ".join(r.name for r in instructions.available(s.target)) or "none"
    row = instructions.BY_NAME.get(name)
    if row is None:
        raise OptError(f"{o}: there is no instruction row {name!r} ({s.target.name} has: {has})")
    if row.flag not in s.target.features:
        raise OptError(f"{o}: {s.target.name} cannot execute {name}, it lacks {row.flag} (its rows: {has})")
    if s.target.lang not in ("llvm", "c"):
        raise OptError(f"{o}: {s.target.lang} code cannot name {name}")
    return row


def _sum(s: State, o: Opt) -> Nest:
    flat = [n for i in build(s.kernel, {}) for n in (i.nests if isinstance(i, FoldItem) else (i,))]
    nest = next((n for n in flat if n.name == o.on and n.kind == "reduce"), None)
    if nest is None:
        names = ", ".join(n.name for n in flat if n.kind == "reduce") or "none"
        raise OptError(f"{o}: no reduction {o.on!r} in kernel {s.kernel.name} (reductions: {names})")
    assert nest.value is not None and isinstance(nest.value.expr, Reduce)
    if nest.value.expr.combine != "add" or nest.expr.op != "mul":
        raise OptError(f"{o}: {o.on} is not a sum of products")
    return nest


def _axis(s: State, o: Opt, nest: Nest, field: str, among: tuple[Node, ...]) -> Node:
    name = o.fields[field]
    found = [a for a in among if name in (a.arg.name, a.arg.family)]
    if len(found) != 1:
        raise OptError(f"{o}: {field} must name one of {', '.join(a.arg.name for a in among) or 'no axes'}, not {name!r}")
    return found[0]


def _operand(o: Opt, x: Node) -> Node:
    inner = x.src[0] if x.op == "cast" else x
    if inner.op != "load":
        raise OptError(f"{o}: the factors of {o.on} must be inputs, and one is {x!r}")
    return inner


def _shift(row: Instruction, c: DType, a: DType, b: DType) -> int | None:
    """What is added to the first operand so that its type is the row's; None where the types do not fit."""
    if c is not row.c or b is not row.b:
        return None
    if row.a.kind == "u" and a.kind == "i" and a.size == row.a.size:
        return 1 << (8 * a.size - 1)
    return 0 if a is row.a else None


def _types(o: Opt, row: Instruction, c: DType, a: DType, b: DType) -> int:
    shift = _shift(row, c, a, b)
    if shift is not None:
        return shift
    signed = f" or int{8 * row.a.size}" if row.a.kind == "u" else ""
    raise OptError(f"{o}: {row.name} multiplies {row.a}{signed} by {row.b} into {row.c}; here lanes hold {b}, the other operand {a}, and the sum is {c}")


def kept_types(sched: Scheduled, plan: StagePlan) -> StagePlan:
    """`plan`, kept in the type the instruction wants."""
    for d in sched.dots.values():
        if d.shift and load_parts(d.a)[0] == plan.buffer:
            others = [n.name for n in plan.nests if n.name != d.value]
            if others:
                raise OptError(f"STAGE({plan.buffer.name}): {others[0]} reads the tile too, which {d.row.name} wants as {d.row.a}")
            return replace(plan, kept=d.row.a)
    return plan


def check_dots(s: Scheduled) -> None:
    """Raise OptError unless every matrix instruction finds its lanes and its panel."""
    for d in s.dots.values():
        nest = next(n for n in s.nests if n.name == d.value)
        what = f"TC({d.value}, row={d.row.name})"
        if nest.expr is not d.expr:
            raise OptError(f"{what}: a factor is staged as a value; it must be read from its input")
        width = min((s.target.lanes(t) for t in _widths(s)), default=1)
        if width != d.row.n:
            raise OptError(f"{what}: vectors have {width} lanes here, and the instruction {d.row.n}")
        if s.plans[d.n].upcast % d.row.n:
            raise OptError(f"{what}: lanes run along {d.n.arg.name}; UPCAST it by a multiple of {d.row.n}")
        for axis in nest.reduce_axes:
            if s.plans[axis].masked and axis is not d.k:
                raise OptError(f"{what}: the copies of {axis.arg.name} reach past its extent; take a number that divides it")
        for other in s.nests:
            if other is not nest and d.k in other.all_axes:
                raise OptError(f"{what}: {other.name} runs over {d.k.arg.name} as well, without the instruction; give it a site of its own in the kernel")
        _check_b(s, d, nest, what)
        _check_a(s, d, what)


def _check_b(s: Scheduled, d: DotPlan, nest: Nest, what: str) -> None:
    buffer = load_parts(d.b)[0].name
    stage = s.stages.get(buffer)
    if stage is None or stage.order != "panel" or all(n is not nest for n in stage.nests):
        raise OptError(f"{what}: it reads {buffer} from a panel of order {' '.join(d.row.layout)}: STAGE({buffer}) with order=panel")
    names = [p.kind for p, _ in stage.parts]
    lanes = [st for p, st in stage.parts if p.axis is d.n and p.kind == "upcast"]
    if names[-1:] != ["dot"] or lanes != [d.row.k]:
        raise OptError(f"{what}: {buffer} must be indexed by {d.n.arg.name} and {d.k.arg.name} themselves")
    if d.shift and stage.at.name in {p.name for p in inner_loops(s, nest)}:
        raise OptError(f"{what}: {buffer} must be staged outside the loops of its sum ({stage.at.name} is one), where its columns are summed")


def _check_a(s: Scheduled, d: DotPlan, what: str) -> None:
    buffer, indices, _ = load_parts(d.a)
    stage = s.stages.get(buffer.name)
    if stage is None or stage.order == "panel" or not d.row.c.is_float or not s.plans[d.k].masked:
        return
    # past the end of k the tile must hold zeros, as infinity times zero is not zero
    if not any(i is d.k and size == d.k.arg.extent for i, size in zip(indices, buffer.shape)):
        raise OptError(f"{what}: {buffer.name} has elements past the end of {d.k.arg.name}; stage it with order=panel")


def _widths(s: Scheduled) -> list[DType]:
    found = [n.expr.dtype.compute for n in s.nests] + [b.dtype.compute for b in s.kernel.buffers]
    return [t for t in found if t is not index] or found


def inner_loops(s: Scheduled, nest: Nest) -> list[Part]:
    """The reduce loops of a nest that run inside all its spatial ones: what its accumulators go through."""
    loops = s.loops(nest)
    last = max((i for i, p in enumerate(loops) if p.kind != "fold" and p.axis in nest.axes), default=-1)
    return loops[last + 1 :]

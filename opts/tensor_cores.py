"""Sums of products that units of threads make by matrix instructions (`targets.tensor_rows`): what a sum's operands are, how the
axes are dealt out for each of them, and what must hold.

The accumulator is an ordinary distribution of the axes m and n over threads, copies and lanes, so whatever follows the sum needs to
know nothing. Its operands are expressions of the kernel, evaluated at places that the instruction gives (`operand_plans`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ..ir.dtypes import FORMATS, DType, float32
from ..ir.errors import OptError
from ..ir.node import Node, axes_of
from ..ir.skipped_tiles import conjuncts
from ..targets import Target
from ..targets.tensor_rows import Parts, TensorRow, kept_bits
from .axis_plan import AxisPlan
from .builder import ScheduleBuilder
from .legality import MAX_STATEMENTS
from .loops import Loops
from .nests import Nest
from .opt import Opt
from .plans import TensorPlan
from .registry import OPTIONS
from .schedule import Scheduled
from .thread_axes import check_size, family_sites

MAX_ACCUMULATORS = 128
"""Registers of a thread that accumulators may take: as many again hold operands, addresses and what comes after the sum."""
_DIGITS = {name: f.mantissa + 1 for name, f in FORMATS.items()} | {"int8": 8, "uint8": 8, "bool": 1}
"""Significant binary digits of types: those of what is narrower fit a wider type exactly."""
_TF32 = 11
_SUM = 23
"""Bits below the largest term's that a sum must keep, so that it is as good as one in float32."""


@dataclass(frozen=True, slots=True)
class Factors:
    """The operands of a sum of products, over m and k, and over n and k; casts that the instruction makes by itself are left out. Where
    one of `conds` does not hold, nothing is added: both operands have to be zero there."""

    a: Node
    b: Node
    conds: tuple[Node, ...] = ()


def products(expr: Node) -> tuple[Node, tuple[Node, ...]]:
    """What is summed, and where: `expr` without conditions outside of which it is zero (the last chunk of SPLIT has one)."""
    conds: list[Node] = []
    while expr.op == "where" and expr.src[2].op == "const" and expr.src[2].arg == 0:
        conds += conjuncts(expr.src[0])
        expr = expr.src[1]
    return expr, tuple(conds)


def sides(product: Node, m: Node) -> tuple[Node, Node]:
    """The factors of a product, the one over `m` first."""
    a, b = product.src
    return (b, a) if m in axes_of(b) else (a, b)


def factors(expr: Node, t: TensorPlan) -> Factors:
    """The operands of the sum `t` of `expr`; OptError where it is no product of one thing over m and another over n."""
    expr, conds = products(expr)
    if expr.op != "mul":
        raise OptError(f"{t.what}: {t.value} is not a sum of products")
    if any({t.m, t.n} & axes_of(c) for c in conds):
        raise OptError(f"{t.what}: which products of {t.value} count depends on {t.m.arg.name} or {t.n.arg.name}")
    a, b = sides(expr, t.m)
    for x, mine, other in ((a, t.m, t.n), (b, t.n, t.m)):
        found = axes_of(x)
        if mine not in found or other in found:
            raise OptError(f"{t.what}: one factor must run over {t.m.arg.name} and the other over {t.n.arg.name}, and none over both")
        if t.k not in found:
            raise OptError(f"{t.what}: both factors of {t.value} must run over {t.k.arg.name}")
    return Factors(_without_cast(a, t.row.a), _without_cast(b, t.row.b), conds)


def _without_cast(x: Node, to: DType) -> Node:
    """`x` without a cast from the type that the instruction takes."""
    return x.src[0] if x.op == "cast" and x.src[0].dtype is to else x


def source(x: Node) -> DType:
    """The type of a factor before it is widened for the product."""
    return x.src[0].dtype if x.op == "cast" else x.dtype


def takes(row: TensorRow, c: DType, operands: tuple[Node, Node], target: Target) -> bool | None:
    """Whether `row` can make a sum in `c` of products of `operands`: True, False where digits are lost on the way (DOWNCONVERT), None
    where it cannot. Two float32 factors become tf32 and nothing less (`ir.lower_precision`)."""
    if c is not row.c or (row.operands != "tf32" and row.a.is_float and all(source(x) is float32 for x in operands)):
        return None
    keeps = not row.c.is_float or kept_bits(row, target) >= _SUM
    exact = [_is_exactly(x, to, row.operands == "tf32") for x, to in zip(operands, (row.a, row.b), strict=True)]
    return None if None in exact else all(exact) and keeps


def _is_exactly(x: Node, to: DType, tf32: bool) -> bool | None:
    """Whether a factor has the type `to` exactly; None where it must not be made one."""
    t = source(x)
    if t is to and not tf32:
        return True
    if not to.is_float or not x.dtype.is_float or to.size < 2:  # (8 bits would want scales)
        return None
    exact = _DIGITS.get(t.name, 64) <= (_TF32 if tf32 else _DIGITS[to.name])
    return exact and (tf32 or not t.is_float or t.size < to.size)


def unit_parts(row: TensorRow, operand: str, axis: str) -> Parts:
    """How 'a', 'b' or 'c' of a row deals an axis out, outer to inner."""
    return tuple(sorted((p for p in row.parts(operand) if p.axis == axis), key=lambda p: -p.stride))


def operand_plans(s: Loops, t: TensorPlan, operand: str) -> dict[Node, AxisPlan]:
    """How the axes of 'a' or 'b' are cut where that operand is evaluated: the threads are numbered as in the rest of the schedule, but
    the instruction gives them other places."""
    plans: dict[Node, AxisPlan] = {}
    for letter, axis in (("m", t.m), ("n", t.n), ("k", t.k)):
        unit = unit_parts(t.row, operand, letter)
        if unit:
            bits = next(p.bits for p in unit if p.kind == "thread")
            numbers = next(x.var for x in s.threads if x.stride == bits)
            plans[axis] = replace(s.plans[axis], dot=1, unit=unit, numbers=numbers)
    return plans


def act(s: ScheduleBuilder, o: Opt, t: TensorPlan, nest: Nest) -> None:
    """Deal m and n out among units of threads, and k into steps of the instruction."""
    if s.launch.threads == 1:
        raise OptError(f"{o}: GRID(threads=1) asks for one thread a group, and {t.row.name} takes {t.row.unit}")
    if any(x.row.unit != t.row.unit for x in s.tensors.values()):
        raise OptError(f"{o}: another sum of the kernel is made by units of another size")
    if t.m.arg.family == t.n.arg.family:
        raise OptError(f"{o}: m and n must be axes of two families, not both of {t.m.arg.family}")
    factors(nest.expr, t)
    operands = sides(products(nest.expr)[0], t.m)
    exact = takes(t.row, nest.expr.dtype, operands, s.target)
    if exact is None:
        found = " by ".join(str(source(x)) for x in operands)
        raise OptError(f"{o}: {t.row.name} multiplies {t.row.a} by {t.row.b} into {t.row.c}; here it is {found} into {nest.expr.dtype}")
    together = any(x.k is t.k and x.row.k == t.row.k for x in s.tensors.values())  # two sums in the same steps
    s.tensors[t.value] = t
    steps = {x.k for x in s.tensors.values()}
    for letter, axis in (("m", t.m), ("n", t.n)):
        for site in family_sites(s, o, axis.arg.family):
            if site not in steps:
                s.plans[site] = s.plans[site].with_unit(str(o), unit_parts(t.row, "c", letter))
    if not together:
        s.plans[t.k] = replace(s.plans[t.k], unit=(), threads=1, lanes=1).with_dot(str(o), t.row.k)
    check_size(s, o)
    s.effects |= {"REASSOC"} if t.row.c.is_float else set()
    s.effects |= set() if exact else {"DOWNCONVERT"}


def check(s: Scheduled) -> None:
    """Raise OptError unless every sum that a matrix instruction makes finds its operands, its loops and its registers."""
    for t in s.tensors.values():
        nest = next(n for n in s.nests if n.name == t.value)
        factors(nest.expr, t)
        if nest.fills:
            raise OptError(
                f"{t.what}: it would make {', '.join(nest.fills)} on the way; stage that where it gets a nest of its own, or not"
            )
        _check_axes(s, t, nest)
        _check_loops(s, t, nest)
        held = prod(p.trips for p in s.registers(nest) if p.axis in nest.axes) * t.row.c.size // 4
        if held > MAX_ACCUMULATORS:
            raise OptError(
                f"{t.what}: a thread would hold {held} accumulators, and at most {MAX_ACCUMULATORS} fit; UPCAST less, or LOCAL more"
            )
        spelled = prod(p.trips for p in s.registers(nest) if p.kind != "dot") // t.row.elements("c")
        if spelled > MAX_STATEMENTS:
            raise OptError(f"{t.what}: {spelled} instructions would be spelled out, more than the limit of {MAX_STATEMENTS}; UNROLL less")


def _check_axes(s: Scheduled, t: TensorPlan, nest: Nest) -> None:
    for axis in nest.reduce_axes:
        plan = s.plans[axis]
        if plan.upcast > 1:
            raise OptError(f"{t.what}: UPCAST({axis.arg.name}) would keep partial sums; spell its steps out with UNROLL")
        if plan.shared:
            raise OptError(f"{t.what}: threads share {axis.arg.name} by GROUP; a unit of threads sums over it together")
        if plan.masked and axis is not t.k:
            raise OptError(f"{t.what}: the copies of {axis.arg.name} reach past its extent; take a number that divides it")
    if not any(p.unit for a, p in s.plans.items() if a.arg.family == t.k.arg.family):
        shared = next((o for o in s.opts if OPTIONS[o.op].kind == "thread" and o.on in (t.k.arg.name, t.k.arg.family)), None)
        if shared is not None:
            raise OptError(f"{t.what}: {shared} shares {t.k.arg.name} among threads; a unit of threads sums over it together")
    for other in s.nests:
        also = s.tensors.get(other.name)
        if other is not nest and t.k in other.all_axes and (also is None or also.k is not t.k or also.row.k != t.row.k):
            raise OptError(f"{t.what}: {other.name} runs over {t.k.arg.name} as well, without the instruction; give it a site of its own")


def _check_loops(s: Scheduled, t: TensorPlan, nest: Nest) -> None:
    """Accumulators live in registers from the first product to the last."""
    reducing: str | None = None
    for p in s.loops(nest):
        if p.axis in nest.reduce_axes and p.kind == "serial":
            reducing = reducing or p.name
        elif p.kind == "serial" and reducing is not None:
            raise OptError(
                f"{t.what}: loop {reducing} of the sum runs outside loop {p.name}, so sums would leave registers: MOVE it inside"
            )

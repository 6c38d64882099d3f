"""TC: a sum of products done by a matrix instruction, from the table of `targets.instructions`.

The instruction takes k consecutive elements of the reduce axis at once (`k.d`): of one operand as a group that all lanes share, of the
other from a panel whose layout the row states (STAGE keeps it so). Where the row's first operand is unsigned and the kernel's is
signed, 2^(bits-1) is added to every element on the way, and as often taken off the sum again: Σ (a + 128)·b - 128·Σ b. In integers
that is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from ...ir import index as ix
from ...ir.body import Reduce
from ...ir.buffer import load_parts
from ...ir.dtypes import DType, index
from ...ir.errors import OptError
from ...ir.node import Node, axes_of
from ...targets import Target, instructions, tensor_rows
from ...targets.instructions import Instruction
from ...targets.tensor_rows import TensorRow, wgmma_named
from .. import tensor_cores
from ..analysis.dot_instructions import fitting, inner_loops, shift_of
from ..analysis.structure import contractions, extent, lane_axis
from ..axis_plan import MAX_EXTRA_WORK
from ..builder import ScheduleBuilder
from ..neighbourhood import Neighbourhood
from ..nests import Nest, flat, plain
from ..opt import Opt, Opts, opt
from ..plans import ONCE, DotPlan, TensorPlan
from ..registry import Doc, Option
from ..schedule import Scheduled
from ..tensor_cores import products, sides, source, takes
from .grid import consumers

BLOCKS = ((64, 64, 2, 2), (64, 32, 2, 2), (32, 64, 2, 2), (32, 32, 2, 2), (64, 64, 2, 1), (16, 64, 1, 2), (16, 32, 1, 2), (16, 16, 1, 1))
"""(elements of m, elements of n that a unit of threads makes; units along m, along n) of a group."""
STEPS = (2, 4, 1, 8)
"""Steps of the instruction for which operands are staged at once."""
DEPTHS = (3, 1)
"""Slots of staged operands."""
CHUNK = 16
"""Bytes that are moved at once, and so by what rows in shared memory are shifted to lie on different banks."""


def fitting_rows(target: Target, nest: Nest, m: Node) -> list[TensorRow]:
    """The rows of `target` that could make a sum of products with `m` along its axis m: those of the operands' own types, or else those
    that keep all their digits, or else any."""
    operands = sides(products(nest.expr)[0], m)
    found = [(r, takes(r, nest.expr.dtype, operands, target)) for r in tensor_rows.available(target)] if target.lang == "cuda" else []
    own = [r for r, exact in found if exact and [r.a, r.b] == [source(x) for x in operands] and r.operands != "tf32"]
    return own or [r for r, exact in found if exact] or [r for r, exact in found if exact is False]


def product_axes(nest: Nest) -> Iterator[tuple[Node, Node, Node]]:
    """(m, n, k) that a sum of products could be made along, the longest k first."""
    product, _ = products(nest.expr)
    if nest.kind != "reduce" or nest.value is None or getattr(nest.value.expr, "combine", "") != "add" or product.op != "mul":
        return
    for m, n in permutations(nest.axes, 2):
        a, b = (axes_of(x) for x in sides(product, m))
        if m in a and m not in b and n in b and n not in a and m.arg.family != n.arg.family:
            both = [k for k in nest.reduce_axes if k in a and k in b]
            yield from ((m, n, k) for k in sorted(both, key=lambda k: -extent(k)))


def propose_tensor_rows(near: Neighbourhood) -> Iterator[Opts]:
    """Matrix instructions for sums of products that have none yet, alone and with blocks; and blocks for those that have one."""
    s = near.schedule
    for nest in s.nests if s.launch.threads != 1 else ():
        have = s.tensors.get(nest.name)
        if have is not None:
            yield from _blocks(near, nest, (have.m, have.n, have.k), have.row, ())
            continue
        lane = lane_axis(near.kernel, nest)
        for m, n, k in product_axes(nest):
            if lane in (m, n) and n is not lane:
                continue  # neighbouring threads store neighbours along n
            for row in fitting_rows(s.target, nest, m):
                one = opt("TC", nest.name, m=m.arg.name, n=n.arg.name, k=k.arg.name, row=row.name)
                yield (one,)
                yield from _blocks(near, nest, (m, n, k), row, (one,))


def _blocks(near: Neighbourhood, nest: Nest, axes: tuple[Node, Node, Node], row: TensorRow, first: Opts) -> Iterator[Opts]:
    """Tiles for units of threads, and operands staged for some steps of the sum, where nothing of that is there yet."""
    s = near.schedule
    m, n, k = axes
    plans = s.plans[m], s.plans[n], s.plans[k]
    if any(p.upcast > 1 or p.threads > 1 or p.tiles for p in plans):
        return
    for high, wide, down, across in BLOCKS:
        if high % row.m or wide % row.n or high * down > max(row.m, 2 * extent(m)) or wide * across > max(row.n, 2 * extent(n)):
            continue
        tile = [opt("UPCAST", m.arg.name, high)] * (high > row.m) + [opt("UPCAST", n.arg.name, wide)] * (wide > row.n)
        tile += [opt("LOCAL", _family(near, a), x) for a, x in ((m, down), (n, across)) if x > 1]
        for steps in STEPS:
            block = steps * row.k
            if block >= extent(k):
                continue
            for depth in DEPTHS:
                staged = _staged(near, nest, {m: high * down, n: wide * across, k: block}, k, depth)
                if staged:
                    yield (*first, *tile, opt("TILE", k.arg.name, block), *staged)
            break


def _family(near: Neighbourhood, a: Node) -> str:
    several = len(near.kernel.families.get(a.arg.family, (a,))) > 1
    return str(a.arg.family if several else a.arg.name)


def _staged(near: Neighbourhood, nest: Nest, blocks: dict[Node, int], k: Node, depth: int) -> Sequence[Opt]:
    """The inputs that both operands read along k, in shared memory: with swizzled rows of at least 128 bytes, else with padded ones."""
    found: dict[str, Opt] = {}
    for n in nest.loads:
        buffer, indices, _ = load_parts(n)
        if k not in axes_of(*indices) or ("STAGE", buffer.name) in near.taken or not buffer.shape:
            continue
        terms, _ = ix.parts(indices[-1])
        pitch = blocks.get(next((a for a, c in terms.items() if c == 1), k), 1)
        plain = len(terms) == 1 and pitch & (pitch - 1) == 0 and pitch * buffer.dtype.size >= 8 * CHUNK
        layout: dict[str, int] = {"swizzle": 8} if plain else {"pad": CHUNK // buffer.dtype.size}
        found[buffer.name] = opt("STAGE", buffer.name, at=k.arg.name, order="row", depth=depth, **layout)
    return tuple(found.values())


def act(s: ScheduleBuilder, o: Opt) -> None:
    """Choose the operands and the axes of the instruction that `o` names."""
    row = _row(s, o)
    nest = _sum(s, o)
    if nest.name in s.dots or nest.name in s.tensors:
        raise OptError(f"{o}: {o.on} has a matrix instruction already")
    if isinstance(row, TensorRow):
        m, n = (_axis(s, o, nest, field, nest.axes) for field in "mn")
        tensor_cores.act(s, o, TensorPlan(nest.name, row, m, n, _axis(s, o, nest, "k", nest.reduce_axes)), nest)
        return
    if nest.expr.op != "mul":
        raise OptError(f"{o}: {o.on} is a sum of products under a condition, which {row.name} cannot keep")
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


def _row(s: ScheduleBuilder, o: Opt) -> Instruction | TensorRow:
    name = str(o.fields["row"])
    known: tuple[Instruction | TensorRow, ...] = (*instructions.available(s.target), *tensor_rows.available(s.target))
    has = ", ".join(r.name for r in known) or "none"
    row = instructions.BY_NAME.get(name) or tensor_rows.BY_NAME.get(name) or wgmma_named(name)
    if row is None:
        raise OptError(f"{o}: there is no instruction row {name!r} ({s.target.name} has: {has})")
    if row.flag not in s.target.features:
        raise OptError(f"{o}: {s.target.name} cannot execute {name}, it lacks {row.flag} (its rows: {has})")
    if (s.target.lang != "cuda") if isinstance(row, TensorRow) else not s.target.language.instructions:
        raise OptError(f"{o}: {s.target.lang} code cannot name {name}")
    return row


def _sum(s: ScheduleBuilder, o: Opt) -> Nest:
    nests = flat(plain(s.kernel))
    nest = next((n for n in nests if n.name == o.on and n.kind == "reduce"), None)
    if nest is None:
        names = ", ".join(n.name for n in nests if n.kind == "reduce") or "none"
        raise OptError(f"{o}: no reduction {o.on!r} in kernel {s.kernel.name} (reductions: {names})")
    assert nest.value is not None and isinstance(nest.value.expr, Reduce)
    if nest.value.expr.combine != "add" or tensor_cores.products(nest.expr)[0].op != "mul":
        raise OptError(f"{o}: {o.on} is not a sum of products")
    return nest


def _axis(s: ScheduleBuilder, o: Opt, nest: Nest, field: str, among: tuple[Node, ...]) -> Node:
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


def _types(o: Opt, row: Instruction, c: DType, a: DType, b: DType) -> int:
    shift = shift_of(row, c, a, b)
    if shift is not None:
        return shift
    signed = f" or int{8 * row.a.size}" if row.a.kind == "u" else ""
    raise OptError(
        f"{o}: {row.name} multiplies {row.a}{signed} by {row.b} into {row.c}; here lanes hold {b}, the other operand {a}, and the sum is {c}"
    )


def check(s: Scheduled) -> None:
    """Raise OptError unless every matrix instruction finds its lanes and its panel, or its operands and its registers."""
    tensor_cores.check(s)
    alone = next((t for t in s.tensors.values() if t.row.unit > s.target.warp and not consumers(s)), None)
    if alone is not None:
        raise OptError(f"{alone.what}: warpgroups read both operands from tiles that another one copies by TMA; add GRID(warpspec)")
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
                raise OptError(
                    f"{what}: {other.name} runs over {d.k.arg.name} as well, without the instruction; give it a site of its own in the kernel"
                )
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
        raise OptError(
            f"{what}: {buffer} must be staged outside the loops of its sum ({stage.at.name} is one), where its columns are summed"
        )


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


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """A matrix instruction for a sum of products, with the lanes and the panel it needs where they are not there yet."""
    s = near.schedule
    yield from propose_tensor_rows(near)
    known = {c.nest.name: c.lane for c in contractions(s.kernel)}
    for nest in s.nests:
        if nest.kind != "reduce" or nest.name in s.dots:
            continue
        for lane in [known[nest.name]] if nest.name in known else nest.axes:
            fit = fitting(s.target, nest, lane) if lane in s.plans else None
            if fit is None:
                continue
            name, size, n = lane.arg.name, extent(lane), fit.row.n
            lanes: list[Opts] = [()]
            if s.plans[lane].upcast == 1:
                lanes = [(*_padded(name, size, n * i), opt("UPCAST", name, n * i)) for i in (1, 2, 4) if n * i < 2 * size or i == 1]
            panels: list[Opts] = (
                [()] if ("STAGE", fit.wide) in near.taken else [(opt("STAGE", fit.wide, at=p),) for p in _fill_loops(s, nest, fit.wide)]
            )
            tc = opt("TC", nest.name, n=name, k=fit.k.arg.name, row=fit.row.name)
            yield from ((*a, *b, tc) for a in lanes for b in panels)


def _fill_loops(s: Scheduled, nest: Nest, name: str) -> list[str]:
    """Where a panel may be filled: the outer loops, and once where the input is constant."""
    constant = s.target.lang in ("llvm", "c") and any(b.name == name and b.constant for b in s.kernel.inputs)
    return [*([ONCE] if constant else []), *(p.name for p in s.loops(nest)[:4])]


def _padded(name: str, size: int, amount: int) -> Opts:
    """PADTO, where copies would not be allowed without it."""
    return (opt("PADTO", name, amount),) if -(-size // amount) * amount > MAX_EXTRA_WORK * size else ()


TC = Option(
    name="TC",
    letter="TC",
    on="tensor",
    arg={"m": str, "n": str, "k": str, "row": str},
    defaults={"m": ""},
    short=((":", "row"), ("/", "m"), ("/", "n"), ("/", "k")),
    axis_fields=("m", "n", "k"),
    kind="lanes",
    legend="matrix instruction",
    docs=(
        Doc(
            "TC(sum, m=axis, n=axis, k=axis, row=name)",
            "Do a sum of products by an instruction of the table in `targets/instructions.py` "
            "([below](#matrix-instructions)). `m` may be left out where the row's tile has one row.",
        ),
        Doc(
            "TC(sum, m=axis, n=axis, k=axis, row=name)",
            "The threads of a warp make a sum of products together, by an instruction of tensor cores from the table in "
            "`targets/tensor_rows.py` ([below](#tensor-cores)). `LOCAL` and `GROUP` of m and n then count warps, and `UPCAST` "
            "counts the elements that a warp has.",
            groups=True,
        ),
    ),
    act=act,
    check=check,
    propose=propose,
    flushes=lambda o: "bf16" in str(o.fields["row"]) and o.fields["row"] in instructions.BY_NAME,
)

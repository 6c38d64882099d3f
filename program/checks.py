"""What one instruction must look like: the rules of the table of operations, as texts that say what is wrong (None: nothing)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..ir.dtypes import DType, bool_, index
from ..targets import tensor_rows
from ..targets.instructions import BY_NAME
from .hopper import BoxLoad, BoxStore, MBar, WarpgroupProduct
from .ops import ACCESSES, MATRIX_LOADS, PAGE, Op, Operand
from .program import AsyncCopy, Instr, Mem, Program, Val

_CLASSES = {"mbarrier": MBar, "box load": BoxLoad, "box store": BoxStore, "product": WarpgroupProduct}
SPACES = ("param", "scratch", "shared", "work")


def check_types(op: Op, s: Instr) -> str | None:
    """Operands and result: how many, of which types, and how many lanes. The attribute has been looked at."""
    most, given = len(op.operands), len(s.args)
    if most and op.operands[-1].repeated and most <= given < most + 5:
        op = replace(op, operands=(*op.operands, *[op.operands[-1]] * (given - most)))
        most = given
    if given != most and not (given == most - 1 and op.operands[-1].optional):
        return (
            f"{s.op} takes {most} operands{', of which the last may be left out,' if most and op.operands[-1].optional else ''} not {given}"
        )
    if (s.out is None) != (op.dtype is None):
        return f"{s.op} gives {'no result' if op.dtype is None else 'a result'}"
    common = next((v.dtype for o, v in zip(op.operands, s.args) if o.same), None)
    lanes = _lanes(op, s)
    for o, v in zip(op.operands, s.args):
        wrong = _operand(o, v, s, common, lanes)
        if wrong is not None:
            return f"{s.op}: operand {o.name} {wrong}"
    return _result(op, s, s.out, common) or _particular(s)


def _lanes(op: Op, s: Instr) -> int:
    """The lanes of the operation."""
    if s.out is not None and op.lanes in ("all", "free"):
        return s.out.lanes
    return next((v.lanes for o, v in zip(op.operands, s.args) if o.lanes == "all"), 1)


def _operand(o: Operand, v: Val, s: Instr, common: DType | None, lanes: int) -> str | None:
    d = v.dtype
    if o.index and d is not index:
        return f"is {v.type}, not {index}"
    if o.stored and isinstance(s.attr, Mem) and d is not s.attr.dtype:
        return f"is {v.type}, and the memory holds {s.attr.dtype}"
    if o.same and d is not common:
        return f"is {v.type}, where another one is {common}"
    if d.kind not in o.kinds:
        return f"is {v.type}, which the operation does not take"
    if d.narrow and not o.halves:
        return f"is {v.type}: floats of 16 and 8 bits are cast to float32 first"
    n, rule = v.lanes, o.lanes
    if rule == "all":
        return None if n == lanes else f"has {n} lanes, where {lanes} are wanted"
    if rule == "one":
        return None if n == 1 else f"has {n} lanes, where 1 is wanted"
    if rule == "many":
        return None if n > 1 else "has 1 lane, where 2 or more are wanted"
    return None if rule == "any" or n in (1, lanes) else f"has {n} lanes, where 1 is wanted or {lanes} are"


def _result(op: Op, s: Instr, out: Val | None, common: DType | None) -> str | None:
    if out is None:
        return None
    rule = op.dtype
    if rule != "free":
        want = common if rule == "same" else bool_ if rule == "bool" else s.mem.dtype
        if out.dtype is not want:
            return f"{s.op} gives {want}, not {out.type}"
    if op.lanes == "one" or op.lanes == "attribute":
        lanes = 1 if op.lanes == "one" else len(s.picks)
        if out.lanes != lanes:
            return f"{s.op} gives {lanes} lanes, not {out.lanes}"
    return f"{s.op} gives no vector of {out.lanes} lanes" if out.lanes < 1 else None


def _particular(s: Instr) -> str | None:
    """What the table cannot say."""
    out = s.out
    if s.op == "splat" and out is not None and out.lanes < 2:
        return "splat gives a vector"
    if s.op == "bitcast" and out is not None and (out.dtype.size != s.args[0].dtype.size or out.dtype is bool_):
        return f"bitcast of {s.args[0].type} to {out.type}, which has another size"
    if s.op == "dot":
        row = BY_NAME[str(s.attr)]
        shapes = [(v.dtype, v.lanes) for v in s.args]
        if shapes != [(row.c, row.n), (row.a, row.k), (row.b, row.n * row.k)]:
            return f"dot {row.name} does not take {', '.join(v.type for v in s.args)}"
    if s.op == "mma":
        tile = tensor_rows.BY_NAME[str(s.attr)]
        if [(v.dtype, v.lanes) for v in s.args] != [(t, tile.elements(x)) for t, x in ((tile.c, "c"), (tile.a, "a"), (tile.b, "b"))]:
            return f"{tile.name} does not take {', '.join(v.type for v in s.args)}"
    return _matrix_load(s) if s.op in MATRIX_LOADS else None


def _matrix_load(s: Instr) -> str | None:
    """Rows of 16 bytes in shared memory; a thread gets one, two or four 32-bit words."""
    mem, lanes = s.mem, s.result.lanes
    if mem.space != "shared" or mem.align % 16:
        return f"{s.op} reads rows of shared memory aligned to 16 bytes, not of {mem.space} aligned to {mem.align}"
    if mem.dtype.size > (2 if s.op == "ldmatrix_t" else 4) or (s.op == "ldmatrix_t" and mem.dtype.size != 2):
        return f"{s.op} does not read {mem.dtype}"
    if lanes * mem.dtype.size not in (4, 8, 16):
        return f"{s.op} gives 4, 8 or 16 bytes, not {s.result.type}"
    return None


# attributes -----------------------------------------------------------------------------------------------------------------
def check_attribute(op: Op, s: Instr, program: Program) -> str | None:
    """The attribute's type and range."""
    a, kind = s.attr, op.attribute
    first = s.args[0].lanes if s.args else 0
    if kind == "none":
        fine = a is None
    elif kind == "number":
        fine = s.out is not None and _numbers(a, s.out)
    elif kind == "positive":
        fine = _whole(a, 1)
    elif kind == "lane":
        fine = _whole(a, 0) and int(a) < first  # type: ignore[arg-type]
    elif kind == "lanes":
        total = sum(v.lanes for v in s.args)
        fine = isinstance(a, tuple) and len(a) > 0 and all(_whole(x, 0) and x < total for x in a)
    elif kind == "distance":
        fine = _whole(a, 1)
    elif kind == "row":
        fine = isinstance(a, str) and a in BY_NAME
    elif kind in _CLASSES:
        fine = isinstance(a, _CLASSES[kind])
    elif kind == "groups":
        fine = _whole(a, 0)
    elif kind == "copy":
        fine = isinstance(a, AsyncCopy)
    elif kind == "tensor row":
        fine = isinstance(a, str) and a in tensor_rows.BY_NAME
        if fine and (rules := tensor_rows.BY_NAME[str(a)].rules) and program.generation not in rules:
            return f"{a}: the Program is for tensor cores of {program.generation or 'no'} generation, which lack it"
    elif kind == "alignment":
        fine = isinstance(a, tuple) and len(a) == 2 and all(_whole(x, 0) for x in a) and a[0] < len(program.params) and _power(a[1])
    elif kind == "window":
        places = s.picks if isinstance(a, tuple) and len(a) == 4 and all(_whole(x, 0) for x in a) else (0, 0, 0, 0)
        fine = max(places[:2]) < len(program.params) and places[2] < PAGE and 0 < places[3] < PAGE
    else:
        fine = isinstance(a, Mem)
    return None if fine else f"{s.op}: {a!r} is no attribute of it ({kind})"


def _whole(x: object, least: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= least


def _power(x: object) -> bool:
    return isinstance(x, int) and x > 0 and x & (x - 1) == 0


def _numbers(a: object, out: Val) -> bool:
    """Whether `a` is a constant of `out`: a number, or one a lane."""
    if isinstance(a, tuple):
        return len(a) == out.lanes and all(_numbers(x, out) and not isinstance(x, tuple) for x in a)
    return isinstance(a, (bool, int) if not out.dtype.is_float else (int, float))


# memory ---------------------------------------------------------------------------------------------------------------------
def check_memory(op: Op, s: Instr, program: Program, at: int | None) -> str | None:
    """Where an access goes: a space that is there, no input written, and inside it where the index is the constant `at`."""
    mem = s.attr
    assert isinstance(mem, Mem)
    found = _place(op, mem, program)
    if isinstance(found, str):
        return found
    return _inside(op, s, mem, *found, at)


def check_copy(op: Op, s: Instr, program: Program) -> str | None:
    """Both ends of an asynchronous copy: their spaces, types and alignment."""
    c = s.copy
    if c.to.space != "shared" or c.source.space not in ("param", "work"):
        return f"{s.op} copies from a parameter or the workspace to shared memory, not from {c.source.space} to {c.to.space}"
    if c.to.dtype is not c.source.dtype or c.bytes not in (4, 8, 16):
        return f"{s.op} copies 4, 8 or 16 bytes of one type, not {c.lanes} elements of {c.source.dtype} to {c.to.dtype}"
    if min(c.to.align, c.source.align) < c.bytes:
        return f"{s.op} of {c.bytes} bytes wants both ends aligned to them, not to {c.source.align} and {c.to.align}"
    for mem in (c.to, c.source):
        found = _place(op, mem, program)
        if isinstance(found, str):
            return found
    return None


def _place(op: Op, mem: Mem, program: Program) -> tuple[int, int | None] | str:
    """(where the memory of an access begins, its bytes where they are known), or what is wrong with it."""
    if mem.space not in SPACES:
        return f"{mem.space!r} is no memory"
    if not _whole(mem.base, 0) or not isinstance(mem.offset, int) or not _power(mem.align):
        return f"base {mem.base!r}, offset {mem.offset!r} and alignment {mem.align!r} are no place"
    if mem.space == "param":
        if mem.base >= len(program.params):
            return f"there is no parameter {mem.base}"
        param = program.params[mem.base]
        if param.dtype is not mem.dtype:
            return f"parameter {param.name} holds {param.dtype}, not {mem.dtype}"
        if op.effect == "write" and param.role == "in":
            return f"parameter {param.name} is an input and is not written"
        static = [d for d in param.shape if isinstance(d, int)]
        size = prod(static) * mem.dtype.size if len(static) == len(param.shape) else None
        base = 0
    else:
        size, base = {"scratch": program.scratch, "shared": program.shared, "work": program.work}[mem.space], mem.base
        if size == 0:
            return f"the Program has no {mem.space} memory"
        if base >= size or base % mem.dtype.size:
            return f"{mem.space}@{base} is no place of {mem.dtype} in {size} bytes"
    return base, size


def _inside(op: Op, s: Instr, mem: Mem, base: int, size: int | None, at: int | None) -> str | None:
    masked = len(s.args) == len(op.operands) and op.operands[-1].optional
    if size is None or at is None or masked or s.op not in ACCESSES:
        return None
    lanes = 16 // mem.dtype.size if s.op in MATRIX_LOADS else s.out.lanes if s.out is not None else s.args[1].lanes
    first = base + (at + mem.offset) * mem.dtype.size
    if first < base or first + lanes * mem.dtype.size > size:
        return f"element {at + mem.offset}{f' to {at + mem.offset + lanes - 1}' if lanes > 1 else ''} is outside the memory"
    return None

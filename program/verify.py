"""Checks that a Program is well formed: what the table of operations says, what structured SSA says, and what memory there is.

`verify` looks at one Program; it costs about as much as writing the Program's text. Lowering calls it where the environment variable
TILEWRIGHT_VERIFY is 1, as it is in the tests: after all of its passes, and where a Program is refused after each of them. That is a
fault of the pass that is named, never of a user's kernel or options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ..ir.dtypes import DType, bool_, index
from ..ir.errors import InternalError
from ..targets import tensor_rows
from ..targets.instructions import BY_NAME
from .facts import Spread
from .hopper import BoxLoad, BoxStore, MBar, WarpgroupProduct
from .hopper_checks import check_hopper, check_phase, check_program
from .listing import excerpt
from .ops import ACCESSES, ASYNCS, MATRIX_LOADS, OPS, PAGE, SYNCS, Op, Operand
from .program import AsyncCopy, Block, For, If, Instr, Mem, Phase, Program, Roles, Stmt, Val

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


_RIGHT: set[tuple[object, ...]] = set()
"""Operations, with the types of their values and memory, that `check_types` found right. A few hundred stand for all instructions."""


def _checked_types(op: Op, s: Instr) -> str | None:
    """As `check_types`, which looks only once at what was right."""
    a = s.attr
    about = a.dtype.name if isinstance(a, Mem) else len(a) if isinstance(a, tuple) else a if isinstance(a, str) else None
    key = s.op, about, *[v and (v.dtype.name, v.lanes) for v in (s.out, *s.args)]
    if key in _RIGHT and s.op not in MATRIX_LOADS:  # (where space and alignment decide too)
        return None
    wrong = check_types(op, s)
    if wrong is None:
        _RIGHT.add(key)
    return wrong


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
        if [(v.dtype, v.lanes) for v in s.args] not in row.operands:
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


def check_attribute(op: Op, s: Instr, program: Program) -> str | None:
    """The attribute's type and range."""
    a, kind = s.attr, op.attribute
    first = s.args[0].lanes if s.args else 0
    if kind == "none":
        fine = a is None
    elif kind == "number":
        fine = s.out is not None and _numbers(a, s.out)
    elif kind == "positive":
        fine = _is_int(a, 1)
    elif kind == "lane":
        fine = _is_int(a, 0) and int(a) < first  # type: ignore[arg-type]
    elif kind == "lanes":
        total = sum(v.lanes for v in s.args)
        fine = isinstance(a, tuple) and len(a) > 0 and all(_is_int(x, 0) and x < total for x in a)
    elif kind == "distance":
        fine = _is_int(a, 1)
    elif kind == "row":
        fine = isinstance(a, str) and a in BY_NAME
    elif kind in _CLASSES:
        fine = isinstance(a, _CLASSES[kind])
    elif kind == "groups":
        fine = _is_int(a, 0)
    elif kind == "copy":
        fine = isinstance(a, AsyncCopy)
    elif kind == "tensor row":
        fine = isinstance(a, str) and a in tensor_rows.BY_NAME
        if fine and (rules := tensor_rows.BY_NAME[str(a)].rules) and program.generation not in rules:
            return f"{a}: the Program is for tensor cores of {program.generation or 'no'} generation, which lack it"
    elif kind == "alignment":
        fine = isinstance(a, tuple) and len(a) == 2 and all(_is_int(x, 0) for x in a) and a[0] < len(program.params) and _power(a[1])
    elif kind == "window":
        places = s.picks if isinstance(a, tuple) and len(a) == 4 and all(_is_int(x, 0) for x in a) else (0, 0, 0, 0)
        fine = max(places[:2]) < len(program.params) and places[2] < PAGE and 0 < places[3] < PAGE
    else:
        fine = isinstance(a, Mem)
    return None if fine else f"{s.op}: {a!r} is no attribute of it ({kind})"


def _is_int(x: object, least: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= least


def _power(x: object) -> bool:
    return isinstance(x, int) and x > 0 and x & (x - 1) == 0


def _numbers(a: object, out: Val) -> bool:
    """Whether `a` is a constant of `out`: a number, or one a lane."""
    if isinstance(a, tuple):
        return len(a) == out.lanes and all(_numbers(x, out) and not isinstance(x, tuple) for x in a)
    return isinstance(a, (bool, int) if not out.dtype.is_float else (int, float))


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
    if not _is_int(mem.base, 0) or not isinstance(mem.offset, int) or not _power(mem.align):
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


def _barriers(block: Block, control: tuple[Val, ...] = ()) -> Iterator[tuple[Instr, tuple[Val, ...]]]:
    """Every barrier, with the conditions and the loops' bounds that decide who comes by."""
    for s in block.stmts:
        if isinstance(s, Instr):
            if s.op == "barrier":
                yield s, control
        elif isinstance(s, Roles):
            for r in s.roles:
                yield from _barriers(r.body, control)
        else:
            yield from _barriers(s.body, (*control, *((s.cond,) if isinstance(s, If) else (s.lo, s.hi))))


WARP = 32
"""Threads that do an operation of tensor cores together."""
_TOGETHER = SYNCS | ASYNCS
VARIABLE = "TILEWRIGHT_VERIFY"
"""Lowering verifies what it makes where this environment variable is neither empty nor 0."""


def wanted() -> bool:
    """Whether the switch is on."""
    return os.environ.get(VARIABLE, "") not in ("", "0")


def verify(program: Program, when: str = "") -> None:
    """Raise InternalError with the Program's text around the place if `program` is not well formed; `when` is said in the message."""
    _Verifier(program, when).run()


class _Verifier:
    """One walk over a Program. `live`: the values that the current statement may use, by id; `order`: the same, as they were defined."""

    def __init__(self, program: Program, when: str) -> None:
        self.program, self.when = program, when
        self.at: tuple[int, Stmt | None] = (0, None)
        self.live: dict[int, Val] = {}
        self.order: list[Val] = []
        self.seen: dict[int, Val] = {}
        self.consts: dict[int, int] = {}
        """Scalar integers that are known, by id."""

    def fail(self, message: str) -> None:
        """Raise about the current statement."""
        number, stmt = self.at
        when = f" {self.when}" if self.when else ""
        head = f"{self.program.name}: a malformed Program{when}: {message} (phase {number})"
        raise InternalError(
            f"{head}\n{excerpt(self.program, number, stmt)}\nThis is a fault of Tilewright: please report it with this text."
        )

    # the whole ------------------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Everything."""
        p = self.program
        names = [x.name for x in p.params]
        for what, found in (("parameters", names), ("symbols", [s.arg.name for s in p.symbols])):
            if len(set(found)) < len(found):
                self.fail(f"two {what} have one name: {', '.join(found)}")
        for x in p.params:
            if x.role not in ("in", "out", "inout"):
                self.fail(f"parameter {x.name} is neither 'in' nor 'out' nor 'inout' but {x.role!r}")
        if min(p.scratch, p.work, p.shared, p.regs) < 0 or p.align < 1 or p.align & (p.align - 1):
            self.fail(
                f"sizes are never negative, and an alignment is a power of two: scratch {p.scratch}, work {p.work}, shared {p.shared}, align {p.align}"
            )
        if not 0 <= p.once <= len(p.phases):
            self.fail(f"{p.once} of {len(p.phases)} phases run once")
        if (wrong := check_program(p)) is not None:
            self.fail(wrong)
        for i, phase in enumerate(p.phases):
            self.at = i, None
            self._phase(phase)

    def _phase(self, phase: Phase) -> None:
        self.live, self.seen, self.consts, self.order = {}, {}, {}, []
        if phase.threads < 1 or (phase.thread is None) != (phase.threads == 1):
            self.fail(f"a group of {phase.threads} threads, and {'no' if phase.thread is None else 'a'} value that says which one it is")
        if len(phase.vars) != len(self.program.symbols):
            self.fail(f"{len(phase.vars)} values for {len(self.program.symbols)} symbols")
        for v in (phase.item, *phase.vars, *([phase.thread] if phase.thread is not None else [])):
            self._counts(v, "what a phase begins with")
            self._define(v, 0)
        self._block(phase.body, 0)
        for where, what in check_phase(phase):
            self.at = self.at[0], where
            self.fail(what)
        if phase.threads > 1:
            spread = Spread(phase)
            for barrier, conds in _barriers(phase.body):
                self.at = self.at[0], barrier
                if any(map(spread.varies, conds)):
                    self.fail("a barrier stands in code that not all threads of the group run")

    # statements -----------------------------------------------------------------------------------------------------------
    def _block(self, block: Block, depth: int) -> None:
        for s in block.stmts:
            self.at = self.at[0], s
            if isinstance(s, Instr):
                self._instr(s, depth)
            elif isinstance(s, If):
                self._use(s.cond)
                if s.cond.dtype is not bool_ or s.cond.lanes != 1:
                    self.fail(f"the condition is a {s.cond.type}, not one bool")
                self._inside(s.body, depth + 1, ())
            elif isinstance(s, Roles):
                for r in s.roles:
                    self._inside(r.body, depth + 1, ())
            else:
                self._for(s, depth)

    def _inside(self, body: Block, depth: int, begin: tuple[Val, ...], yields: tuple[Val, ...] = ()) -> None:
        """A block whose values nobody outside sees."""
        before, where = len(self.order), self.at
        for v in begin:
            self._define(v, depth)
        self._block(body, depth)
        self.at = where
        for v in yields:
            self._use(v)
        for v in self.order[before:]:
            del self.live[v.id]
        del self.order[before:]

    def _for(self, s: For, depth: int) -> None:
        for v in (s.lo, s.hi):
            self._use(v)
            self._counts(v, "a bound")
        self._counts(s.var, "the variable")
        if not isinstance(s.step, int) or s.step < 1:
            self.fail(f"the step is {s.step!r}, not a positive number")
        if s.maybe and self.program.phases[self.at[0]].threads > 1:
            self.fail("the loop may have no iteration, which several threads do not have together")
        counts = [len(x) for x in (s.init, s.carried, s.yields, s.results)]
        if len(set(counts)) > 1:
            self.fail("the loop begins with {} values, carries {}, yields {} and gives {}".format(*counts))
        for start, c, y, r in zip(s.init, s.carried, s.yields, s.results, strict=True):
            self._use(start)
            if len({(v.dtype, v.lanes) for v in (start, c, y, r)}) > 1:
                self.fail(f"what the loop carries begins as {start.type}, is {c.type}, becomes {y.type} and is given as {r.type}")
        self._inside(s.body, depth + 1, (s.var, *s.carried), tuple(s.yields))
        for r in s.results:
            self._define(r, depth)

    def _instr(self, s: Instr, depth: int) -> None:
        op = OPS.get(s.op)
        if op is None:
            self.fail(f"{s.op!r} is not an operation of Programs")
            return
        for v in s.args:
            self._use(v)
        wrong = check_attribute(op, s, self.program) or _checked_types(op, s)
        if wrong is None and op.attribute == "memory":
            wrong = check_memory(op, s, self.program, self.consts.get(s.args[0].id))
        if wrong is None and op.effect == "warpgroup":
            wrong = check_hopper(s, self.program, self.consts)
        if wrong is None and op.attribute == "copy":
            wrong = check_copy(op, s, self.program)
        if wrong is not None:
            self.fail(wrong)
        if s.op in _TOGETHER:
            threads = self.program.phases[self.at[0]].threads
            if threads == 1:
                self.fail(f"a {s.op} stands in a phase of one thread")
            if op.needs == "tensor_cores" and threads % WARP:
                self.fail(f"{s.op} is done by whole warps, and a group has {threads} threads")
        if s.out is not None:
            self._define(s.out, depth)
            if s.op == "const" and s.out.lanes == 1 and s.out.dtype.is_int:
                self.consts[s.out.id] = int(s.attr[0] if isinstance(s.attr, tuple) else s.attr)  # type: ignore[arg-type]

    # values ---------------------------------------------------------------------------------------------------------------
    def _define(self, v: Val, depth: int) -> None:
        if v.id in self.seen:
            self.fail(f"{v!r} (value {v.id}) is defined twice")
        if v.depth != depth:
            self.fail(f"{v!r} (value {v.id}) says it is defined at depth {v.depth} and is at {depth}")
        self.seen[v.id] = self.live[v.id] = v
        self.order.append(v)

    def _use(self, v: Val) -> None:
        if self.live.get(v.id) is not v:
            where = "outside the block that defines it" if self.seen.get(v.id) is v else "before it is defined"
            self.fail(f"value {v.id} ({v.type}) is used {where}")

    def _counts(self, v: Val, what: str) -> None:
        if v.dtype is not index or v.lanes != 1:
            self.fail(f"{what} is a {v.type}, not one {index}")

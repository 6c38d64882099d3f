"""What verification knows of Hopper's operations and of roles: each check gives a text that says what is wrong, or None."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir.dtypes import index
from ..targets.tensor_rows import wgmma_named
from .hopper import REGISTERS, WARPGROUP, BoxLoad, BoxStore, MBar, SharedOperand, WarpgroupProduct, launch_registers
from .ops import HOPPER
from .program import Block, For, If, Instr, Phase, Program, Role, Roles, Stmt, bodies

_ARRIVALS = (1 << 20) - 1
_CLUSTER = 8
"""Groups of a cluster that every GPU with clusters takes."""


def check_program(program: Program) -> str | None:
    """Its tensor maps."""
    for i, m in enumerate(program.maps):
        if not 0 <= m.param < len(program.params) or program.params[m.param].dtype is not m.dtype:
            return f"map {i} is of {m.dtype}, and no parameter {m.param} holds that"
        wrong = m.check()
        if wrong is not None:
            return f"map {i}: {wrong}"
    return None


def check_hopper(s: Instr, program: Program, consts: dict[int, int]) -> str | None:
    """One operation; `consts`: integers that are known, by id. Its operands' types and its attribute's class have been looked at."""
    a = s.attr
    if isinstance(a, MBar):
        wrong = _barriers(a, program)
        return wrong or (_slot(a, consts.get(s.args[0].id)) if s.args else None)
    if isinstance(a, BoxLoad):
        wrong = _box(a.map, a.to, consts.get(s.args[1].id), len(s.args) - 2, program) or _barriers(a.bar, program)
        return wrong or _slot(a.bar, consts.get(s.args[0].id))
    if isinstance(a, BoxStore):
        wrong = _box(a.map, a.source, consts.get(s.args[0].id), len(s.args) - 1, program)
        if wrong is None and program.params[program.maps[a.map].param].role == "in":
            return f"parameter {program.params[program.maps[a.map].param].name} is an input and is not written"
        return wrong
    return _product(s, a, program) if isinstance(a, WarpgroupProduct) else None


def _barriers(bar: MBar, program: Program) -> str | None:
    if bar.base % 8 or bar.base < 0 or bar.count < 1 or bar.base + 8 * bar.count > program.shared:
        return f"{bar} is no place of mbarriers in {program.shared} bytes of shared memory"
    return None if 1 <= bar.arrivals <= _ARRIVALS else f"{bar}: an mbarrier counts 1 to {_ARRIVALS} arrivals"


def _slot(bar: MBar, at: int | None) -> str | None:
    return None if at is None or 0 <= at < bar.count else f"{bar} has no barrier {at}"


def _box(number: int, base: int, at: int | None, rank: int, program: Program) -> str | None:
    if not 0 <= number < len(program.maps):
        return f"there is no map {number}"
    m = program.maps[number]
    if rank != len(m.dims):
        return f"map {number} has {len(m.dims)} dimensions, and {rank} coordinates are given"
    align = 8 * m.swizzle or 128
    first = base + (at or 0) * m.dtype.size
    if base % align or first % align:
        return f"a box with swizzle {m.swizzle} starts at a multiple of {align} bytes, not at {first}"
    return None if base >= 0 and first >= 0 and first + m.bytes <= program.shared else f"a box at byte {first} leaves the shared memory"


def _product(s: Instr, p: WarpgroupProduct, program: Program) -> str | None:
    row = wgmma_named(p.row)
    if row is None:
        return f"{p.row!r} is no row of targets.tensor_rows"
    acc, a = s.args[0], s.args[1]
    if (acc.dtype, acc.lanes) != (row.c, row.elements("c")):
        return f"{p.row} adds to {row.elements('c')} lanes of {row.c}, not to {acc.type}"
    if p.a is None and (a.dtype, a.lanes) != (row.a, row.elements("a")):
        return f"{p.row} takes a fragment of {row.elements('a')} lanes of {row.a}, not {a.type}"
    if p.a is not None and (a.dtype is not index or a.lanes != 1):
        return f"{p.row} takes the element at which A starts, not {a.type}"
    return (_operand(p.a, program, p.row) if p.a is not None and p.a.dtype is row.a else None if p.a is None else "A has another type") or (
        _operand(p.b, program, p.row) if p.b.dtype is row.b else "B has another type"
    )


def _operand(o: SharedOperand, program: Program, row: str) -> str | None:
    if o.base % 1024 or not 0 <= o.base < program.shared:
        return f"{row}: an operand with rows of 128 bytes starts at a multiple of 1024 bytes of shared memory, not at {o.base}"
    if any(x % 16 or not 0 <= x < 1 << 18 for x in (o.stride, o.lead)):
        return f"{row}: strides of {o.stride} and {o.lead} bytes are no multiples of 16 below 2^18"
    return f"{row}: only operands of 16 bits may lie across k" if o.across and o.dtype.size != 2 else None


def check_phase(phase: Phase) -> Iterator[tuple[Stmt | None, str]]:
    """(where, what is wrong) of clusters, roles, and who may run what."""
    if not 1 <= phase.cluster <= _CLUSTER or (phase.items.op == "const" and int(phase.items.arg) % phase.cluster):
        yield None, f"{phase.items} items are not run in clusters of {phase.cluster} (1 to {_CLUSTER}, a whole number of them)"
    yield from _block(phase.body, phase, None, 0)
    yield from _accumulators(phase.body)


def _block(block: Block, phase: Phase, role: Role | None, depth: int) -> Iterator[tuple[Stmt | None, str]]:
    for s in block.stmts:
        if isinstance(s, Instr):
            wrong = _allowed(s, phase, role)
            if wrong is not None:
                yield s, wrong
        elif isinstance(s, Roles):
            if depth or role is not None:
                yield s, "roles stand in the body of a phase, in no loop, condition or role"
            wrong = _ranges(s, phase.threads)
            if wrong is not None:
                yield s, wrong
            for r in s.roles:
                yield from _block(r.body, phase, r, depth + 1)
        else:
            yield from _block(s.body, phase, role, depth + 1)


def _allowed(s: Instr, phase: Phase, role: Role | None) -> str | None:
    if s.op in HOPPER and phase.threads == 1:
        return f"a {s.op} stands in a phase of one thread"
    if s.op == "barrier" and role is not None:
        return "a barrier stands in a role: the other threads do not come by"
    first, threads = (role.first, role.threads) if role else (0, phase.threads)
    if s.op.startswith("wgmma") and (first % WARPGROUP or threads % WARPGROUP):
        return f"{s.op} is for warpgroups of {WARPGROUP} threads, and these are {threads} from thread {first} on"
    if s.op == "meet" and (role is None or s.number not in (WARPGROUP, threads) or (s.number == WARPGROUP and first % WARPGROUP)):
        return f"{s.attr} threads meet: in a role, {WARPGROUP} of a warpgroup do, or all of the role"
    if s.op == "mbar_init" and role is not None:
        return "mbarriers are set up before the roles begin"
    if s.op == "cluster_barrier" and role is not None:
        return "a cluster's barrier stands in a role: the other threads do not come by"
    remote = (s.op == "mbar_arrive" and len(s.args) > 1) or (isinstance(s.attr, BoxLoad) and s.attr.multicast > 0)
    if remote and (phase.cluster == 1 or (isinstance(s.attr, BoxLoad) and s.attr.multicast >> phase.cluster)):
        return f"{s.op} reaches another group, and the clusters are of {phase.cluster}"
    return None


def _ranges(s: Roles, threads: int) -> str | None:
    """What is wrong with who plays which role."""
    end, registers, start = 0, 0, launch_registers(threads)
    for r in s.roles:
        if r.first < end or r.first + r.threads > threads or r.threads < 1 or r.first % 32 or r.threads % 32:
            return f"role {r.name} is threads {r.first} to {r.first + r.threads - 1}: whole warps, in order, of {threads} threads"
        if r.registers and (r.first % WARPGROUP or r.threads % WARPGROUP):
            return f"role {r.name} sets registers, and is no whole warpgroups"
        if r.registers and (r.registers % 8 or not 24 <= r.registers <= 240):
            return f"role {r.name} asks for {r.registers} registers: a multiple of 8 from 24 to 240"
        end = r.first + r.threads
        registers += r.threads * (r.registers or start)
    if len({bool(r.registers) for r in s.roles}) > 1:
        return "some roles set registers and some do not: the assembler ignores that"
    rest = threads - sum(r.threads for r in s.roles)
    if registers + rest * start > REGISTERS and any(r.registers > start for r in s.roles):
        return f"the roles ask for {registers + rest * start} registers, and a multiprocessor has {REGISTERS}"
    return None


def _accumulators(block: Block) -> Iterator[tuple[Stmt | None, str]]:
    """That what a wgmma gives is used once, by what may hold it while the product is under way."""
    pending: set[int] = set()
    used: set[int] = set()
    yield from _uses(block, pending, used)


def _uses(block: Block, pending: set[int], used: set[int]) -> Iterator[tuple[Stmt | None, str]]:
    for s in block.stmts:
        if isinstance(s, Instr):
            takes = s.args[:1] if s.op in ("wgmma", "wgmma_result") else ()
            for v in s.args:
                if v.id in pending and v not in takes:
                    yield s, f"{s.op} uses an accumulator before its product is done: wgmma_wait and wgmma_result come first"
            yield from _take_accumulators(s, [v.id for v in takes if v.id in pending], used)
            if s.op == "wgmma" and s.args[0].id in pending and s.args[0].depth != s.result.depth:
                yield s, "a wgmma changes an accumulator of an outer block: let the loop carry it"
            if s.op == "wgmma":
                pending.add(s.result.id)
        elif isinstance(s, For):
            yield from _loop(s, pending, used)
        else:
            if isinstance(s, If) and s.cond.id in pending:
                yield s, "a condition is no accumulator"
            for body in bodies(s):
                yield from _uses(body, pending, used)


def _loop(s: For, pending: set[int], used: set[int]) -> Iterator[tuple[Stmt | None, str]]:
    # what a loop carries is under way where its start is, or where an iteration leaves it so
    asynchronous = _yielded(s)
    for start, c in zip(s.init, s.carried, strict=True):
        if start.id in pending or c.id in asynchronous:
            pending.add(c.id)
    yield from _take_accumulators(s, [v.id for v in s.init if v.id in pending], used)
    yield from _uses(s.body, pending, used)
    yield from _take_accumulators(s, [v.id for v in s.yields if v.id in pending], used)
    for c, y, r in zip(s.carried, s.yields, s.results, strict=True):
        if c.id in pending or y.id in pending:
            pending.add(r.id)


def _yielded(s: For) -> set[int]:
    """What a loop carries that its own products leave under way, by id."""
    made = {x.result.id for x in s.body.stmts if isinstance(x, Instr) and x.op == "wgmma"}
    for x in s.body.stmts:
        if isinstance(x, For) and x.carried:
            inner = _yielded(x)
            made |= {r.id for r, c in zip(x.results, x.carried, strict=True) if c.id in inner}
    return {c.id for c, y in zip(s.carried, s.yields, strict=True) if y.id in made}


def _take_accumulators(s: Stmt, ids: Sequence[int], used: set[int]) -> Iterator[tuple[Stmt | None, str]]:
    for i in ids:
        if i in used:
            yield s, "an accumulator is used a second time, and has one place in registers"
        used.add(i)

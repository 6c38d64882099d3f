"""Checks that a Program is well formed: what the table of operations says, what structured SSA says, and what memory there is.

`verify` looks at one Program; it costs about as much as writing the Program's text. Lowering calls `after_pass` after each of its
passes, which verifies where the environment variable TILEWRIGHT_VERIFY is 1, as it is in the tests. A Program that is refused is a fault
of the pass that is named, never of a user's kernel or options."""

from __future__ import annotations

import os

from ..ir.dtypes import bool_, index
from ..ir.errors import InternalError
from .checks import check_attribute, check_copy, check_memory, check_types
from .hopper_checks import check_hopper, check_phase, check_program
from .ops import ASYNCS, OPS, SYNCS
from .program import Block, For, If, Instr, Phase, Program, Roles, Stmt, Val
from .text import excerpt
from .uniform import Uniformity

WARP = 32
"""Threads that do an operation of tensor cores together."""
VARIABLE = "TILEWRIGHT_VERIFY"
"""Verify after every pass where this environment variable is neither empty nor 0."""


def after_pass(name: str, program: Program) -> None:
    """Verify what a pass has made, where the switch is on. Raises InternalError that names the pass."""
    if os.environ.get(VARIABLE, "") not in ("", "0"):
        verify(program, f"after {name}")


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
            uniform = Uniformity(phase)
            for barrier, conds in uniform.barriers():
                self.at = self.at[0], barrier
                found = [v for v in conds if not uniform.same(v)]
                if found:
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
        wrong = check_attribute(op, s, self.program) or check_types(op, s)
        if wrong is None and op.attribute == "memory":
            wrong = check_memory(op, s, self.program, self.consts.get(s.args[0].id))
        if wrong is None and op.effect == "warpgroup":
            wrong = check_hopper(s, self.program, self.consts)
        if wrong is None and op.attribute == "copy":
            wrong = check_copy(op, s, self.program)
        if wrong is not None:
            self.fail(wrong)
        if s.op in SYNCS | ASYNCS:
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

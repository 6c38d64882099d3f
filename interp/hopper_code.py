"""Turns each phase with asynchronous copies into the source of a coroutine: function hopper0(batch, item, thread, *symbols) …

Statements are those of thread groups (`group_code`). A role is a coroutine inside it, which sees the values that were made before."""

from __future__ import annotations

from ..program.ops import HOPPER
from ..program.program import Block, For, Instr, Phase, Roles, bodies, statements
from .code import NESTED
from .group_code import GroupCoder

_WAITS = frozenset({"mbar_wait", "cluster_barrier"})
_MOVES = {"box_load": "load", "box_store": "store", "box_commit": "commit", "box_wait": "wait"}
_TOLD = frozenset({"mbar_init", "mbar_arrive", "mbar_expect", "mbar_wait", "box_load", "box_store", "wgmma"})
"""What gets its attribute too."""


class HopperCoder(GroupCoder):
    """Source text of a Program's phases with asynchronous copies."""

    prefix = "h"
    _role = "None"

    def _wants(self, phase: Phase) -> bool:
        return phase.threads > 1 and phase.asynchronous

    def _head(self, i: int, phase: Phase) -> None:
        assert phase.thread is not None
        args = ", ".join(["batch", "boxes", self._name(phase.item), self._name(phase.thread), *(self._name(v) for v in phase.vars)])
        self.lines.append(f"def hopper{i}({args}):")
        self._on = "on0"
        self._emit(1, "on0 = None")
        self._emit(1, "if False: yield")

    # statements ---------------------------------------------------------------------------------------------------
    def _block(self, block: Block, depth: int, loops: int) -> None:
        for s in block.stmts:
            if isinstance(s, Roles):
                self._roles(s, depth)
            elif (
                isinstance(s, For)
                and loops >= NESTED
                and any(isinstance(t, Instr) and t.op in _WAITS for b in bodies(s) for t in statements(b))
            ):
                f = self._fresh("nested")
                self._emit(depth, f"def {f}():")
                self._for(s, depth + 1, 0)
                self._emit(depth + 1, f"return ({''.join(self._name(v) + ', ' for v in s.results)})")
                results = "".join(self._name(v) + ", " for v in s.results)
                self._emit(depth, f"{f'({results}) = ' if results else ''}yield from {f}()")
            else:
                super()._block(Block([s]), depth, loops)

    def _roles(self, s: Roles, depth: int) -> None:
        outer, names = self._on, []
        for r in s.roles:
            f, self._on, self._role = self._fresh("role"), self._fresh("on"), self._fresh("r")
            self.globals[self._role] = r
            self._emit(depth, f"def {f}({self._on}):")
            self._emit(depth + 1, "if False: yield")
            self._block(r.body, depth + 1, 0)
            names.append(f)
        self._on, self._role = outer, "None"
        number = self._fresh("roles")
        self.globals[number] = s
        self._emit(depth, f"yield from batch.roles({number}, [{', '.join(names)}])")

    def _instr(self, s: Instr, depth: int) -> None:
        if s.op not in HOPPER:
            return super()._instr(s, depth)
        name = f"together{len(self.together)}_{self.prefix}"
        self.globals[name] = s
        self.together.append(s)
        args = [self._on, name]
        if s.op in _TOLD:
            args.append(f"{name}.attr")
        if s.op == "meet":
            args.insert(1, self._role)
        args += [self._name(a) for a in s.args]
        if s.op == "proxy_fence":
            return self._emit(depth, f"batch.memory.fence(batch.who({self._on}, {name}))")
        call = f"{'boxes' if s.op in _MOVES else 'batch'}.{_MOVES.get(s.op, s.op)}({', '.join(args)})"
        if s.op in _WAITS:
            call = f"yield from {call}"
        return self._emit(depth, call if s.out is None else f"{self._name(s.out)} = {call}")

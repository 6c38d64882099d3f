"""Turns each phase of several threads into the source of a Python function over arrays of threads (see `crew`)."""

from __future__ import annotations

import numpy as np

from ..ir.dtypes import bool_
from ..ir.errors import VerifyError
from ..program.program import For, If, Instr, Phase, Program, Val
from . import ops
from .code import Coder


class GroupCoder(Coder):
    """Source text of a Program's phases of several threads: functions group0(crew, item, thread, *symbols) …"""

    prefix = "g"

    def __init__(self, program: Program, as_twin: bool) -> None:
        self.together: list[Instr] = []
        """Barriers and shuffles, by number."""
        self._on = "on0"
        super().__init__(program, as_twin)

    def _wants(self, phase: Phase) -> bool:
        return phase.threads > 1

    def _head(self, i: int, phase: Phase) -> None:
        assert phase.thread is not None
        args = ", ".join(["crew", self._name(phase.item), self._name(phase.thread), *(self._name(v) for v in phase.vars)])
        self.lines.append(f"def group{i}({args}):")
        self._on = "on0"
        self._emit(1, "on0 = None")

    # statements ---------------------------------------------------------------------------------------------------
    def _if(self, s: If, depth: int, loops: int) -> None:
        outer, self._on = self._on, self._fresh("on")
        self._emit(depth, f"{self._on} = crew.narrow({outer}, {self._name(s.cond)})")
        self._emit(depth, f"if {self._on} is not False:")
        self._block(s.body, depth + 1, loops)
        self._emit(depth + 1, "pass")
        self._on = outer

    def _for(self, s: For, depth: int, loops: int) -> None:
        outer, self._on = self._on, self._fresh("on")
        for c, v in zip(s.carried, s.init, strict=True):
            self._emit(depth, f"{self._name(c)} = {self._name(v)}")
        self._emit(depth, f"for {self._name(s.var)}, {self._on} in crew.spans({outer}, {self._name(s.lo)}, {self._name(s.hi)}, {s.step}, {s.label!r}):")
        self._block(s.body, depth + 1, loops + 1)
        if s.carried:
            old, new = (", ".join(map(self._name, vs)) + "," for vs in (s.carried, s.yields))
            wide = [v.lanes > 1 for v in s.carried]
            self._emit(depth + 1, f"if {self._on} is {outer}: {old} = {new}")
            self._emit(depth + 1, f"else: {old} = crew.merge({self._on}, ({new}), ({old}), {wide})")
        self._emit(depth + 1, "pass")
        for r, c in zip(s.results, s.carried, strict=True):
            self._emit(depth, f"{self._name(r)} = {self._name(c)}")
        self._on = outer

    def _instr(self, s: Instr, depth: int) -> None:
        if s.op not in ("barrier", "shfl_xor"):
            return super()._instr(s, depth)
        name = f"together{len(self.together)}"
        self.globals[name] = s
        self.together.append(s)
        if s.out is None:
            return self._emit(depth, f"crew.barrier({self._on}, {name})")
        return self._emit(depth, f"{self._name(s.out)} = crew.shuffled({self._on}, {self._name(s.args[0])}, {s.attr}, {name})")

    def _access(self, f: str, args: list[str]) -> str:
        return f"{f}({', '.join([self._on, *args])})"

    # expressions --------------------------------------------------------------------------------------------------
    def _expr(self, s: Instr, out: Val, a: list[str]) -> str:
        op, dtype = s.op, s.args[0].dtype
        if (self.as_twin and dtype.is_float) or op in ("dot", "cast", "bitcast", "splat", "extract", "insert", "shuffle", "select"):
            return super()._expr(s, out, a)
        if op == "fma" and dtype.size == 4 and dtype.is_float:
            return f"ops.fma32({', '.join(a)})"
        if op in ("max", "min"):
            return f"np.{op}imum({a[0]}, {a[1]})"
        if op == "shl":
            return f"ops.shl({a[0]}, {a[1]})"
        if op == "not":
            return f"np.logical_not({a[0]})" if dtype is bool_ else f"~{a[0]}"
        if op == "abs":
            return f"np.abs({a[0]})"
        return super()._expr(s, out, a)

    def _move(self, s: Instr, out: Val, a: list[str], scalar: bool) -> str:
        op, source = s.op, s.args[0].dtype
        if op == "select":
            cond = f"ops.column({a[0]})" if s.args[0].lanes < out.lanes else a[0]
            return f"np.where({cond}, {a[1]}, {a[2]})[()]"
        if op in ("cast", "bitcast"):
            if op == "bitcast" and self.as_twin and (source.is_float or out.dtype.is_float):
                raise VerifyError("the twin cannot bitcast floats: lower with expand=False")
            f = f"{op}_{source.name}_{out.dtype.name}"
            self.globals[f] = ops.caster(source, out.dtype, 0, self.as_twin) if op == "cast" else ops.bitcaster(source, out.dtype, 0)
            return f"{f}({a[0]})"
        if op == "splat":
            return f"ops.spread({a[0]}, {out.lanes}, {self._dtype(out)})"
        if op == "extract":
            return f"{a[0]}[..., {s.attr}]"
        if op == "insert":
            return f"ops.insert_each({a[0]}, {a[1]}, {s.attr})"
        t = self._fresh("t")
        self.globals[t] = np.array(s.attr) if out.lanes > 1 else s.attr[0]
        wide = [v.lanes > 1 for v in s.args]
        return f"ops.joined({a[0]}, {a[1]}, {wide[0]}, {wide[1]})[..., {t}]"

    def _dtype(self, v: Val) -> str:
        """The name of a NumPy type of elements like those of `v`."""
        name = "U32" if self.as_twin and v.dtype.is_float else f"dtype_{v.dtype.name}"
        self.globals.setdefault(name, v.dtype.np)
        return name

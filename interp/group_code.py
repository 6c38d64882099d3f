"""Turns each phase of several threads into the source of a Python function over arrays of threads (see `threads`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..ir.dtypes import bool_
from ..program.ops import MATRIX_LOADS
from ..program.program import For, If, Instr, Phase, Program, Val
from .code import Coder
from .collective import multiplier


class GroupCoder(Coder):
    """Source text of a Program's phases of several threads: functions group0(batch, item, thread, *symbols) …"""

    prefix = "g"

    def __init__(self, program: Program, as_twin: bool) -> None:
        self.together: list[Instr] = []
        """Barriers, shuffles and instructions of tensor cores, by number."""
        self._on = "on0"
        super().__init__(program, as_twin)

    def _wants(self, phase: Phase) -> bool:
        return phase.threads > 1 and not phase.asynchronous

    def _head(self, i: int, phase: Phase) -> None:
        assert phase.thread is not None
        args = ", ".join(["batch", self._name(phase.item), self._name(phase.thread), *(self._name(v) for v in phase.vars)])
        self.lines.append(f"def group{i}({args}):")
        self._on = "on0"
        self._emit(1, "on0 = None")

    # statements ---------------------------------------------------------------------------------------------------
    def _if(self, s: If, depth: int, loops: int) -> None:
        outer, self._on = self._on, self._fresh("on")
        self._emit(depth, f"{self._on} = batch.narrow({outer}, {self._name(s.cond)})")
        self._emit(depth, f"if {self._on} is not False:")
        self._block(s.body, depth + 1, loops)
        self._emit(depth + 1, "pass")
        self._on = outer

    def _for(self, s: For, depth: int, loops: int) -> None:
        outer, self._on = self._on, self._fresh("on")
        for c, v in zip(s.carried, s.init, strict=True):
            self._emit(depth, f"{self._name(c)} = {self._name(v)}")
        self._emit(
            depth,
            f"for {self._name(s.var)}, {self._on} in batch.spans({outer}, {self._name(s.lo)}, {self._name(s.hi)}, {s.step}, {s.label!r}):",
        )
        self._block(s.body, depth + 1, loops + 1)
        if s.carried:
            old, new = (", ".join(map(self._name, vs)) + "," for vs in (s.carried, s.yields))
            wide = [v.lanes > 1 for v in s.carried]
            self._emit(depth + 1, f"if {self._on} is {outer}: {old} = {new}")
            self._emit(depth + 1, f"else: {old} = batch.merge({self._on}, ({new}), ({old}), {wide})")
        self._emit(depth + 1, "pass")
        for r, c in zip(s.results, s.carried, strict=True):
            self._emit(depth, f"{self._name(r)} = {self._name(c)}")
        self._on = outer

    def _together(self, s: Instr, depth: int, args: list[str]) -> None:
        if s.op in MATRIX_LOADS:
            return self._touch(s, depth, args)
        name = f"together{len(self.together)}"
        self.together.append(s)
        if s.op == "mma":
            self.globals[name] = multiplier(s, self.as_twin, self.program.generation)
            return self._emit(depth, f"{self._name(s.result)} = {name}(batch, {self._on}, {', '.join(args)})")
        self.globals[name] = s
        if s.out is None:
            return self._emit(depth, f"batch.barrier({self._on}, {name})")
        return self._emit(depth, f"{self._name(s.out)} = batch.shuffled({self._on}, {args[0]}, {s.attr}, {name})")

    def _asynchronous(self, s: Instr, depth: int, args: list[str]) -> None:
        if s.op == "copy_async":
            return self._touch(s, depth, args)
        return self._emit(depth, f"copies.{s.op}({', '.join([self._on, *([] if s.attr is None else [str(s.attr)])])})")

    def _access(self, f: str, args: list[str]) -> str:
        return f"{f}({', '.join([self._on, *args])})"

    # expressions --------------------------------------------------------------------------------------------------
    def _fma(self, s: Instr, out: Val, a: list[str]) -> str:
        dtype = s.args[0].dtype
        return f"ops.fma{8 * dtype.size}({', '.join(a)})" if dtype.is_float else super()._fma(s, out, a)

    def _wrapped(self, s: Instr, out: Val, text: str) -> str:
        return text  # NumPy's numbers, which wrap

    def _minmax(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"np.{s.op}imum({a[0]}, {a[1]})"

    def _shl(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.shl({a[0]}, {a[1]})"

    def _not(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"np.logical_not({a[0]})" if out.dtype is bool_ else f"~{a[0]}"

    def _bits(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.{s.op}({a[0]})"

    def _abs(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"np.abs({a[0]})"

    def _select(self, s: Instr, out: Val, a: list[str]) -> str:
        cond = f"ops.column({a[0]})" if s.args[0].lanes < out.lanes else a[0]
        return f"np.where({cond}, {a[1]}, {a[2]})[()]"

    def _form(self, v: Val) -> int:
        return 0

    def _splat(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.spread({a[0]}, {out.lanes}, {self._dtype(out)})"

    def _extract(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"{a[0]}[..., {s.attr}]"

    def _insert(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.insert_each({a[0]}, {a[1]}, {s.attr})"

    def _shuffle(self, s: Instr, out: Val, a: list[str]) -> str:
        wide = [v.lanes > 1 for v in s.args]
        return f"ops.joined({a[0]}, {a[1]}, {wide[0]}, {wide[1]})[..., {self._picks(s, out)}]"

    def _dtype(self, v: Val) -> str:
        """The name of a NumPy type of elements like those of `v`."""
        name = "U32" if self.as_twin and v.dtype.is_float else f"dtype_{v.dtype.name}"
        self.globals.setdefault(name, v.dtype.np)
        return name

    TABLE: ClassVar[dict[str, Callable[[Any, Instr, Val, list[str]], str]]] = {
        **Coder.TABLE,
        **dict.fromkeys(("max", "min"), _minmax),
        "fma": _fma,
        **dict.fromkeys(("popcount", "clz"), _bits),
        "shl": _shl,
        "not": _not,
        "abs": _abs,
        "select": _select,
        "splat": _splat,
        "extract": _extract,
        "insert": _insert,
        "shuffle": _shuffle,
    }

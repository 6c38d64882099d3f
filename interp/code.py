"""Turns each phase of single workers into the source of a Python function."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dtypes import bool_, index
from ..ir.errors import VerifyError
from ..ir.evaluation import twin
from ..program.program import Block, For, If, Instr, Phase, Program, Val
from . import ops

NESTED = 15
"""Loops inside one Python function: CPython refuses more than 20 nested blocks."""
_INFIX = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^", "shr": ">>"}
_NUMPY = {"sqrt": "sqrt", "floor": "floor", "round": "rint", "abs": "abs"}


class Coder:
    """Source text of a Program's phases of single workers, with the constants and instructions it refers to: functions
    phase0(item, *symbols), phase1 …"""

    prefix = "v"
    """Names of one Coder do not begin like another's."""

    def __init__(self, program: Program, as_twin: bool) -> None:
        self.program, self.as_twin = program, as_twin
        self.lines: list[str] = []
        self.globals: dict[str, Any] = {"np": np, "ops": ops, "twin": twin, "U32": np.uint32}
        self.accesses: list[list[tuple[str, Instr]]] = []  # by phase
        self._names: dict[Val, str] = {}
        self._count = 0
        for i, phase in enumerate(program.phases):
            self.accesses.append([])
            if self._wants(phase):
                self._head(i, phase)
                self._block(phase.body, 1, 0)
                self.lines.append("    return None")

    @property
    def source(self) -> str:
        """The functions."""
        return "\n".join(self.lines) + "\n"

    def _wants(self, phase: Phase) -> bool:
        return phase.threads == 1

    def _head(self, i: int, phase: Phase) -> None:
        args = ", ".join([self._name(phase.item), *(self._name(v) for v in phase.vars)])
        self.lines.append(f"def phase{i}({args}):")

    def _name(self, v: Val) -> str:
        return self._names.setdefault(v, f"{self.prefix}{len(self._names)}")  # ids may repeat from phase to phase

    def _fresh(self, what: str) -> str:
        self._count += 1
        return f"{self.prefix}_{what}{self._count}"

    def _emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    # statements ---------------------------------------------------------------------------------------------------
    def _block(self, block: Block, depth: int, loops: int) -> None:
        for s in block.stmts:
            if isinstance(s, If):
                self._if(s, depth, loops)
            elif isinstance(s, Instr):
                self._instr(s, depth)
            elif loops >= NESTED:
                f = self._fresh("nested")
                self._emit(depth, f"def {f}():")
                self._for(s, depth + 1, 0)
                results = "".join(self._name(v) + ", " for v in s.results)
                self._emit(depth + 1, f"return ({results})")
                self._emit(depth, f"{f'({results}) = ' if results else ''}{f}()")
            else:
                self._for(s, depth, loops)

    def _if(self, s: If, depth: int, loops: int) -> None:
        self._emit(depth, f"if {self._name(s.cond)}:")
        self._block(s.body, depth + 1, loops)
        self._emit(depth + 1, "pass")

    def _for(self, s: For, depth: int, loops: int) -> None:
        lo, hi, var = self._name(s.lo), self._name(s.hi), self._name(s.var)
        for c, v in zip(s.carried, s.init, strict=True):
            self._emit(depth, f"{self._name(c)} = {self._name(v)}")
        self._emit(depth, f"if {lo} >= {hi}: empty_loop({s.label!r}, {lo}, {hi})")
        self._emit(depth, f"for {var} in range({lo}, {hi}, {s.step}):")
        self._block(s.body, depth + 1, loops + 1)
        if s.carried:
            self._emit(depth + 1, f"{', '.join(map(self._name, s.carried))}, = {', '.join(map(self._name, s.yields))},")
        self._emit(depth + 1, "pass")
        for r, c in zip(s.results, s.carried, strict=True):
            self._emit(depth, f"{self._name(r)} = {self._name(c)}")

    def _instr(self, s: Instr, depth: int) -> None:
        if s.op == "prefetch":
            return
        args = [self._name(a) for a in s.args]
        if s.op in ("load", "gather", "store", "scatter"):
            f = self._fresh("m")
            self.accesses[-1].append((f, s))
            text = self._access(f, args)
            self._emit(depth, text if s.out is None else f"{self._name(s.out)} = {text}")
            return
        if s.op in ("barrier", "shfl_xor"):
            raise VerifyError(f"a {s.op} stands in a phase of one thread")
        assert s.out is not None
        if s.op == "aligned":
            self._emit(depth, f"{self._name(s.out)} = aligned{s.attr!r}")
            return
        if s.op == "const":
            self.globals[self._name(s.out)] = ops.constant(s.attr, s.out.dtype, s.out.lanes, self.as_twin)
            return
        self._emit(depth, f"{self._name(s.out)} = {self._expr(s, s.out, args)}")

    def _access(self, f: str, args: list[str]) -> str:
        return f"{f}({', '.join(args)})"

    # expressions --------------------------------------------------------------------------------------------------
    def _expr(self, s: Instr, out: Val, a: list[str]) -> str:
        op, dtype = s.op, s.args[0].dtype
        scalar = out.lanes == 1
        if op in ("cast", "bitcast", "splat", "extract", "insert", "shuffle", "select"):
            return self._move(s, out, a, scalar)
        if op == "dot":
            f = f"dot_{s.attr}"
            self.globals[f] = ops.dotter(s.attr, self.as_twin)
            return f"{f}({', '.join(a)})"
        if self.as_twin and dtype.is_float:
            return self._twin(op, a)
        if op in _INFIX:
            return f"{a[0]} {_INFIX[op]} {a[1]}"
        if op in ("idiv", "imod"):
            return f"{a[0]} {'//' if op == 'idiv' else '%'} {s.attr}"
        if op == "fma":
            which = "fma64" if dtype.size == 8 else "fma32_scalar" if scalar else "fma32"
            return f"ops.{which}({', '.join(a)})" if dtype.is_float else f"{a[0]} * {a[1]} + {a[2]}"
        if op == "scale2":
            return f"ops.scale2({a[0]}, {a[1]})"
        if op == "div" and dtype.is_float:
            return f"{a[0]} / {a[1]}"
        if op in ("max", "min"):
            if scalar:
                return f"({a[0]} if {a[0]} {'>=' if op == 'max' else '<='} {a[1]} or {a[0]} != {a[0]} else {a[1]})"
            return f"np.{op}imum({a[0]}, {a[1]})"
        if op == "shl":
            return f"ops.wrap64({a[0]} << {a[1]})" if scalar and dtype is index else f"{a[0]} << {a[1]}"
        if op == "neg":
            return f"-{a[0]}"
        if op == "not":
            return f"(not {a[0]})" if scalar and dtype is bool_ else f"~{a[0]}"
        if op == "abs" and scalar and dtype is index:
            return f"abs({a[0]})"
        if op in _NUMPY:
            return f"np.{_NUMPY[op]}({a[0]})"
        if op in ("exp", "log", "tanh", "erf"):
            self.globals[f"dt_{dtype.name}"] = dtype
            return f"ops.function({op!r}, {a[0]}, dt_{dtype.name})"
        raise VerifyError(f"the interpreter does not know the operation {op} of {dtype}")

    @staticmethod
    def _twin(op: str, a: list[str]) -> str:
        if op in _INFIX and op not in ("and", "or", "xor", "shr"):
            return f"{a[0]} {_INFIX[op]} {a[1]}"
        if op == "fma":
            return f"{a[0]} * {a[1]} + {a[2]}"
        if op in ("max", "min"):
            return f"np.{op}imum({a[0]}, {a[1]})"
        if op == "div":
            return f"{a[0]} * twin.hashed('div', {a[1]})"
        if op in ("neg", "exp", "log", "tanh", "erf", "sqrt", "floor", "round", "abs"):
            return f"twin.unary({op!r}, {a[0]})"
        raise VerifyError(f"the twin does not know the operation {op} of floats: lower with expand=False")

    def _move(self, s: Instr, out: Val, a: list[str], scalar: bool) -> str:
        op, source = s.op, s.args[0].dtype
        if op == "select":
            return f"({a[1]} if {a[0]} else {a[2]})" if scalar else f"np.where({a[0]}, {a[1]}, {a[2]})"
        if op in ("cast", "bitcast"):
            if op == "bitcast" and self.as_twin and (source.is_float or out.dtype.is_float):
                raise VerifyError("the twin cannot bitcast floats: lower with expand=False")
            f = f"{op}_{source.name}_{out.type}"
            self.globals[f] = ops.caster(source, out.dtype, out.lanes, self.as_twin) if op == "cast" else ops.bitcaster(source, out.dtype, out.lanes)
            return f"{f}({a[0]})"
        if op == "splat":
            t = f"splat_{out.type}"
            self.globals[t] = ops.splatter(out.lanes, np.dtype(np.uint32) if self.as_twin and out.dtype.is_float else out.dtype.np)
            return f"{t}({a[0]})"
        if op == "extract":
            return f"int({a[0]}[{s.attr}])" if out.dtype is index else f"{a[0]}[{s.attr}]"
        if op == "insert":
            return f"ops.insert({a[0]}, {a[1]}, {s.attr})"
        t = self._fresh("t")
        self.globals[t] = np.array(s.attr) if out.lanes > 1 else s.attr[0]
        whole = a[0] if max(s.attr) < s.args[0].lanes > 1 else f"np.concatenate((np.atleast_1d({a[0]}), np.atleast_1d({a[1]})))"
        return f"{whole}[{t}]"

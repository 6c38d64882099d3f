"""Turns each phase of single workers into the source of a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..ir.dtypes import bool_, index
from ..ir.errors import VerifyError
from ..ir.evaluation import array_math as integers
from ..ir.evaluation import twin
from ..program.ops import ACCESSES, ASYNCS, COMPARISONS, HINTS, SIGNS, SYNCS, TWIN_ONLY
from ..program.program import Block, For, If, Instr, Phase, Program, Roles, Val
from . import ops

NESTED = 15
"""Loops inside one Python function: CPython refuses more than 20 nested blocks."""
INFIX = {**{op: SIGNS[op] for op in ("add", "sub", "mul", *COMPARISONS, "and", "or")}, "xor": "^", "shr": ">>"}
"""Operations that Python writes between its operands."""
TWIN_INFIX = {"add", "sub", "mul"} | COMPARISONS
"""Of floats in the twin, those that are the same on wrapping integers; and below, those that its `unary` knows."""
TWIN_UNARY = {"neg", "sqrt", "floor", "round", "abs"} | TWIN_ONLY
MOVES = frozenset({"cast", "bitcast", "splat", "extract", "insert", "shuffle", "select", "dot"})
"""What the twin does as any run does."""


class Coder:
    """Source text of a Program's phases of single workers, with the constants and instructions it refers to: functions
    phase0(item, *symbols), phase1 …"""

    prefix = "v"
    """Names of one Coder do not begin like another's."""

    def __init__(self, program: Program, as_twin: bool) -> None:
        self.program, self.as_twin = program, as_twin
        self.lines: list[str] = []
        self.globals: dict[str, Any] = {"np": np, "ops": ops, "twin": twin, "integers": integers, "U32": np.uint32}
        self.accesses: list[list[tuple[str, Instr]]] = []  # by phase
        self._names: dict[Val, str] = {}
        self._data: set[Val] = set()
        """int64 scalars that data decides: they are Python's numbers, and must be wrapped (indices never leave 64 bits)."""
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
            elif isinstance(s, Roles):
                raise VerifyError("roles stand in a phase of one thread")
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
        self._data.update(s.carried, s.results)
        for c, v in zip(s.carried, s.init, strict=True):
            self._emit(depth, f"{self._name(c)} = {self._name(v)}")
        if not s.maybe:
            self._emit(depth, f"if {lo} >= {hi}: empty_loop({s.label!r}, {lo}, {hi})")
        self._emit(depth, f"for {var} in range({lo}, {hi}, {s.step}):")
        self._block(s.body, depth + 1, loops + 1)
        if s.carried:
            self._emit(depth + 1, f"{', '.join(map(self._name, s.carried))}, = {', '.join(map(self._name, s.yields))},")
        self._emit(depth + 1, "pass")
        for r, c in zip(s.results, s.carried, strict=True):
            self._emit(depth, f"{self._name(r)} = {self._name(c)}")

    def _instr(self, s: Instr, depth: int) -> None:
        if s.op in HINTS:
            return
        args = [self._name(a) for a in s.args]
        if s.out is not None and (s.op in ("load", "cast", "extract") or not self._data.isdisjoint(s.args)):
            self._data.add(s.out)
        if s.op in ASYNCS:
            return self._asynchronous(s, depth, args)
        if s.op in SYNCS:
            return self._together(s, depth, args)
        if s.op in ACCESSES:
            return self._touch(s, depth, args)
        out = s.result
        if s.op == "const":
            self.globals[self._name(out)] = ops.constant(s.attr, out.dtype, out.lanes, self.as_twin)
            return
        self._emit(depth, f"{self._name(out)} = {self._expr(s, out, args)}")

    def _touch(self, s: Instr, depth: int, args: list[str]) -> None:
        """An access to memory."""
        f = self._fresh("m")
        self.accesses[-1].append((f, s))
        text = self._access(f, args)
        self._emit(depth, text if s.out is None else f"{self._name(s.out)} = {text}")

    def _together(self, s: Instr, depth: int, args: list[str]) -> None:
        """What threads do together."""
        raise VerifyError(f"a {s.op} stands in a phase of one thread")

    def _asynchronous(self, s: Instr, depth: int, args: list[str]) -> None:
        """Copies that go on beside threads."""
        raise VerifyError(f"a {s.op} stands in a phase of one thread")

    def _access(self, f: str, args: list[str]) -> str:
        return f"{f}({', '.join(args)})"

    # expressions --------------------------------------------------------------------------------------------------
    def _expr(self, s: Instr, out: Val, a: list[str]) -> str:
        """The value of an operation whose operands have these names."""
        if self.as_twin and s.args and s.args[0].dtype.is_float and s.op not in MOVES:
            return self._twin(s.op, a)
        write = self.TABLE.get(s.op)
        if write is None:
            raise VerifyError(f"the interpreter does not know the operation {s.op} of {', '.join(v.type for v in s.args)}")
        return write(self, s, out, a)

    @staticmethod
    def _twin(op: str, a: list[str]) -> str:
        if op in TWIN_INFIX:
            return f"{a[0]} {INFIX[op]} {a[1]}"
        if op == "fma":
            return f"{a[0]} * {a[1]} + {a[2]}"
        if op in ("max", "min"):
            return f"np.{op}imum({a[0]}, {a[1]})"
        if op == "div":
            return f"{a[0]} * twin.hashed('div', {a[1]})"
        if op in TWIN_UNARY:
            return f"twin.unary({op!r}, {a[0]})"
        raise VerifyError(f"the twin does not know the operation {op} of floats: lower with expand=False")

    def _infix(self, s: Instr, out: Val, a: list[str]) -> str:
        return self._wrapped(s, out, f"{a[0]} {INFIX[s.op]} {a[1]}")

    def _wrapped(self, s: Instr, out: Val, text: str) -> str:
        """The text of a result that may leave 64 bits."""
        wild = out.lanes == 1 and out.dtype is index and out in self._data and s.op in ("add", "sub", "mul", "fma", "neg", "abs")
        return f"ops.wrap64({text})" if wild else text

    def _div(self, s: Instr, out: Val, a: list[str]) -> str:
        if not out.dtype.is_float:
            raise VerifyError(f"the interpreter does not know the operation {s.op} of {out.type}")
        return f"{a[0]} / {a[1]}"

    def _divmod(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"{a[0]} {'//' if s.op == 'idiv' else '%'} {s.number}"

    def _quot(self, s: Instr, out: Val, a: list[str]) -> str:
        text = f"integers.quotient({a[0]}, {a[1]})"
        return f"int({text})" if out.dtype is index and self._form(out) == 1 else text

    def _fma(self, s: Instr, out: Val, a: list[str]) -> str:
        dtype = s.args[0].dtype
        wide = dtype.size == 8
        which = f"fma{64 if wide else 32}_scalar" if out.lanes == 1 else "fma64_lanes" if wide else "fma32"
        return f"ops.{which}({', '.join(a)})" if dtype.is_float else self._wrapped(s, out, f"{a[0]} * {a[1]} + {a[2]}")

    def _named_alike(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.{s.op}({', '.join(a)})"

    def _minmax(self, s: Instr, out: Val, a: list[str]) -> str:
        if out.lanes == 1:
            return f"({a[0]} if {a[0]} {'>=' if s.op == 'max' else '<='} {a[1]} or {a[0]} != {a[0]} else {a[1]})"
        return f"np.{s.op}imum({a[0]}, {a[1]})"

    def _shl(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.wrap64({a[0]} << {a[1]})" if out.lanes == 1 and out.dtype is index else f"{a[0]} << {a[1]}"

    def _neg(self, s: Instr, out: Val, a: list[str]) -> str:
        return self._wrapped(s, out, f"-{a[0]}")

    def _not(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"(not {a[0]})" if out.lanes == 1 and out.dtype is bool_ else f"~{a[0]}"

    def _abs(self, s: Instr, out: Val, a: list[str]) -> str:
        return self._wrapped(s, out, f"abs({a[0]})") if out.lanes == 1 and out.dtype is index else f"np.abs({a[0]})"

    def _bits(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"int(ops.{s.op}(np.int64({a[0]})))" if out.lanes == 1 and out.dtype is index else f"ops.{s.op}({a[0]})"

    def _numpy(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"np.{'rint' if s.op == 'round' else s.op}({a[0]})"

    def _function(self, s: Instr, out: Val, a: list[str]) -> str:
        self.globals[f"dt_{out.dtype.name}"] = out.dtype
        return f"ops.function({s.op!r}, {a[0]}, dt_{out.dtype.name})"

    def _addresses(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"{s.op}{s.attr!r}"

    def _dot(self, s: Instr, out: Val, a: list[str]) -> str:
        f = f"dot_{s.attr}"
        self.globals[f] = ops.dotter(str(s.attr), self.as_twin)
        return f"{f}({', '.join(a)})"

    # values that move or are converted ------------------------------------------------------------------------------
    def _select(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"({a[1]} if {a[0]} else {a[2]})" if out.lanes == 1 else f"np.where({a[0]}, {a[1]}, {a[2]})"

    def _cast(self, s: Instr, out: Val, a: list[str]) -> str:
        """`cast` and `bitcast`, by a function that is named after both types."""
        source = s.args[0].dtype
        if s.op == "bitcast" and self.as_twin and (source.is_float or out.dtype.is_float):
            raise VerifyError("the twin cannot bitcast floats: lower with expand=False")
        lanes = self._form(out)
        f = f"{s.op}_{source.name}_{out.type if lanes else out.dtype.name}"
        self.globals[f] = ops.caster(source, out.dtype, lanes, self.as_twin) if s.op == "cast" else ops.bitcaster(source, out.dtype, lanes)
        return f"{f}({a[0]})"

    def _form(self, v: Val) -> int:
        """The lanes that tell how values like `v` are held."""
        return v.lanes

    def _splat(self, s: Instr, out: Val, a: list[str]) -> str:
        t = f"splat_{out.type}"
        self.globals[t] = ops.splatter(out.lanes, np.dtype(np.uint32) if self.as_twin and out.dtype.is_float else out.dtype.np)
        return f"{t}({a[0]})"

    def _extract(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"int({a[0]}[{s.attr}])" if out.dtype is index else f"{a[0]}[{s.attr}]"

    def _insert(self, s: Instr, out: Val, a: list[str]) -> str:
        return f"ops.insert({a[0]}, {a[1]}, {s.attr})"

    def _shuffle(self, s: Instr, out: Val, a: list[str]) -> str:
        whole = a[0] if max(s.picks) < s.args[0].lanes > 1 else f"np.concatenate((np.atleast_1d({a[0]}), np.atleast_1d({a[1]})))"
        return f"{whole}[{self._picks(s, out)}]"

    def _picks(self, s: Instr, out: Val) -> str:
        """The name of the lanes that a shuffle takes."""
        t = self._fresh("t")
        self.globals[t] = np.array(s.picks) if out.lanes > 1 else s.picks[0]
        return t

    TABLE: ClassVar[dict[str, Callable[[Any, Instr, Val, list[str]], str]]] = {
        **dict.fromkeys(INFIX, _infix),
        **dict.fromkeys(("idiv", "imod"), _divmod),
        "quot": _quot,
        **dict.fromkeys(("max", "min"), _minmax),
        **dict.fromkeys(("sqrt", "floor", "round"), _numpy),
        **dict.fromkeys(TWIN_ONLY, _function),
        **dict.fromkeys(("cast", "bitcast"), _cast),
        "div": _div,
        "fma": _fma,
        **dict.fromkeys(("scale2", "exp2", "root_guess"), _named_alike),
        **dict.fromkeys(("popcount", "clz"), _bits),
        "shl": _shl,
        "neg": _neg,
        "not": _not,
        "abs": _abs,
        **dict.fromkeys(("aligned", "apart"), _addresses),
        "dot": _dot,
        "select": _select,
        "splat": _splat,
        "extract": _extract,
        "every": lambda _coder, _s, _out, a: f"{a[0]}.all(-1)",
        "insert": _insert,
        "shuffle": _shuffle,
    }
    """The Python expression of each operation that computes: functions `(coder, instr, out, names of operands)`."""

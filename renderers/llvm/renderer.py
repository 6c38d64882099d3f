"""Programs as LLVM IR text: explicit vectors, SSA values, phis for loop-carried values, ready for code generation with no passes.

Each phase is an exported function with the ABI of `lower.program.Signature`, which loads the buffer pointers and calls an internal
function that takes them as distinct (noalias) arguments and loops over the grid items. Instructions allowed are written on the
functions, so the text alone decides the code; LLVM's cpu name only tunes it. No operation becomes a call of a runtime function.
`fma` rounds twice on targets without the instruction. Typed pointers are not supported (LLVM 20 or newer)."""

from __future__ import annotations

import re

from ...ir.dtypes import float32
from ...ir.errors import BuildError
from ...program.program import Block, For, If, Instr, Phase, Program, Val
from ...targets.target import Target
from .memory import load, prefetch, store
from .ops import OPS
from .types import constant, suffix, type_of, vector

_LEVELS = (
    ("x86-64-v4", frozenset({"sse41", "avx2", "fma", "f16c", "avx512"})),
    ("x86-64-v3", frozenset({"sse41", "avx2", "fma", "f16c"})),
    ("x86-64-v2", frozenset({"sse41"})),
    ("x86-64", frozenset[str]()),
)
_LLVM_FLAGS = {"avx512": "", "sse41": "sse4.1"}


def render(program: Program, target: Target) -> str:
    """The module's text. Raises BuildError for a Program with an operation this renderer must not see."""
    functions: list[str] = []
    declared: dict[str, str] = {}
    for i, phase in enumerate(program.phases):
        functions += Emitter(program, target, declared).phase(program.signature.entry(i), phase)
    head = [f"; {program.name} for {target.name}"]
    return "\n".join([*head, *functions, *(declared[k] for k in sorted(declared)), _attributes(target), "!0 = !{i32 1}", ""])


def _attributes(target: Target) -> str:
    words = ["nounwind"]
    if target.arch == "x86_64":
        level, has = next((n, f) for n, f in _LEVELS if f <= target.features)
        extra = ",".join(f"+{_LLVM_FLAGS.get(f, f)}" for f in sorted(target.features - has))
        words += [f'"target-cpu"="{level}"', f'"tune-cpu"="{target.cpu}"', f'"prefer-vector-width"="{8 * target.vector_bytes}"']
        if extra:
            words.append(f'"target-features"="{extra}"')
    else:
        words.append(f'"target-cpu"="{target.cpu}"')
    return f"attributes #0 = {{ {' '.join(words)} }}"


def _symbol(name: str) -> str:
    """`name` as LLVM writes it after @ or %."""
    if re.fullmatch(r"[A-Za-z_.][\w.]*", name, re.ASCII):
        return name
    return '"' + "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\{b:02X}" for b in name.encode()) + '"'


class Emitter:
    """Writes one phase. `emit` adds an instruction and returns its operand; `of` is the operand of a Program value."""

    def __init__(self, program: Program, target: Target, declared: dict[str, str]) -> None:
        self.program, self.target, self.declared = program, target, declared
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.carried: set[int] = set()
        self.block = "entry"
        self._next = 0
        self._pointers = [*(f"%{_symbol(p.name + '.p')}" for p in program.params), "%work", "%scratch"]
        self.addresses: dict[tuple[str, str, str], str] = {}
        self.used: set[str] = set()
        self.written: set[str] = set()

    # text -----------------------------------------------------------------------------------------------------------
    def emit(self, text: str) -> str:
        """Append `%n = text`; returns `%n`."""
        self._next = n = self._next + 1
        self.lines.append(f"  %v{n} = {text}")
        return f"%v{n}"

    def of(self, v: Val) -> str:
        """The operand (a register or a constant) of `v`."""
        return self.names[v.id]

    def number(self, value: float, lanes: int) -> str:
        """A float32 constant."""
        return constant(value, float32, lanes)

    def select(self, cond: str, a: str, b: str, scalar: str, lanes: int) -> str:
        """Element-wise choice between operands of one type."""
        ty = vector(scalar, lanes)
        return self.emit(f"select {vector('i1', lanes)} {cond}, {ty} {a}, {ty} {b}")

    def call(self, name: str, ty: str, scalar: str, lanes: int, *args: str, flags: str = "") -> str:
        """Call the element-wise intrinsic `llvm.name` on operands of one type."""
        full = f"@llvm.{name}.{suffix(scalar, lanes)}"
        self.declare(full, f"declare {ty} {full}({', '.join([ty] * len(args))})")
        return self.emit(f"call {flags}{ty} {full}({', '.join(f'{ty} {a}' for a in args)})")

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    def declare(self, name: str, text: str) -> None:
        """Declare an intrinsic, once a module."""
        self.declared.setdefault(name, text)

    def label(self, name: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{name}:")
        self.block = name
        # addresses are formed again in each block, where instruction selection can fold them into the access
        self.addresses.clear()

    def fresh(self) -> int:
        """A number not used before."""
        self._next += 1
        return self._next

    # functions ------------------------------------------------------------------------------------------------------
    def phase(self, name: str, phase: Phase) -> list[str]:
        """The exported function and the internal one that it calls."""
        for symbol, v in zip(self.program.symbols, phase.vars, strict=True):
            self.names[v.id] = f"%{_symbol(symbol.arg.name + '.s')}"
        self.names[phase.item.id] = "%item"
        self.label("items")
        self.lines.append("  %item = phi i64 [ %lo, %entry ], [ %item.next, %next ]")
        self._block(phase.body)
        self.lines.append("  br label %next")
        pointers = [(i, p) for i, p in enumerate(self._pointers) if p in self.used]
        args = [f"ptr noalias {'' if p in self.written else 'readonly '}{p}" for _, p in pointers]
        symbols = [self.names[v.id] for v in phase.vars]
        args += [f"i64 {s}" for s in symbols] + ["i64 %lo", "i64 %hi"]
        inner, outer = f"@{_symbol(name + '.items')}", f"@{_symbol(name)}"
        loads, passed = [], []
        for i, p in pointers:
            if p == "%scratch":
                passed.append("ptr %scratch")
                continue
            loads += [f"  %at.{i} = getelementptr ptr, ptr %bufs, i64 {i}", f"  {p} = load ptr, ptr %at.{i}, align 8"]
            passed.append(f"ptr {p}")
        for i, s in enumerate(symbols):
            loads += [f"  %var.{i} = getelementptr i64, ptr %vars, i64 {i}", f"  {s} = load i64, ptr %var.{i}, align 8"]
            passed.append(f"i64 {s}")
        passed += ["i64 %lo", "i64 %hi"]
        return [
            f"define void {outer}(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {{",
            *loads,
            f"  call void {inner}({', '.join(passed)})",
            "  ret void",
            "}",
            f"define internal void {inner}({', '.join(args)}) #0 {{",
            "entry:",
            "  %some = icmp slt i64 %lo, %hi",
            "  br i1 %some, label %items, label %done",
            *self.lines,
            "next:",
            "  %item.next = add nuw nsw i64 %item, 1",
            "  %more = icmp slt i64 %item.next, %hi",
            "  br i1 %more, label %items, label %done",
            "done:",
            "  ret void",
            "}",
        ]

    def pointer(self, i: int) -> str:
        """The i-th pointer argument: the parameters, the workspace, the scratch arena."""
        return self._pointers[i]

    # statements -----------------------------------------------------------------------------------------------------
    def _block(self, block: Block) -> None:
        for s in block.stmts:
            if isinstance(s, Instr):
                write = OPS.get(s.op)
                if write is not None:
                    assert s.out is not None
                    self.names[s.out.id] = write(self, s)
                elif s.op in ("load", "gather"):
                    assert s.out is not None
                    self.names[s.out.id] = load(self, s, s.out)
                elif s.op in ("store", "scatter"):
                    store(self, s)
                elif s.op == "prefetch":
                    prefetch(self, s)
                else:
                    raise BuildError(f"{s.op} is not an operation of Programs")
            elif isinstance(s, For):
                self._for(s)
            else:
                self._if(s)

    def _for(self, s: For) -> None:
        n = self.fresh()
        loop, after, before = f"loop{n}", f"after{n}", self.block
        var, bump = f"%i{n}", f"%i{n}.next"
        start = [self.of(v) for v in s.init]
        lo, hi = self.of(s.lo), self.of(s.hi)
        self.lines.append(f"  br label %{loop}")
        self.label(loop)
        self.names[s.var.id] = var
        at = len(self.lines)
        for v in s.carried:
            self.names[v.id] = f"%v{self.fresh()}"
            self.carried.add(v.id)
        self._block(s.body)
        end = self.block
        phis = [f"  {var} = phi i64 [ {lo}, %{before} ], [ {bump}, %{end} ]"]
        for v, a, y in zip(s.carried, start, s.yields, strict=True):
            phis.append(f"  {self.of(v)} = phi {type_of(v)} [ {a}, %{before} ], [ {self.of(y)}, %{end} ]")
        self.lines[at:at] = phis
        self.lines += [
            f"  {bump} = add nuw nsw i64 {var}, {s.step}",
            f"  %i{n}.more = icmp slt i64 {bump}, {hi}",
            f"  br i1 %i{n}.more, label %{loop}, label %{after}",
        ]
        self.label(after)
        for r, y in zip(s.results, s.yields, strict=True):
            # the loop runs at least once, so what the last iteration yields is visible here
            self.names[r.id] = self.of(y)

    def _if(self, s: If) -> None:
        n = self.fresh()
        self.lines.append(f"  br i1 {self.of(s.cond)}, label %then{n}, label %after{n}")
        self.label(f"then{n}")
        self._block(s.body)
        self.lines.append(f"  br label %after{n}")
        self.label(f"after{n}")

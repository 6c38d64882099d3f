"""Programs as LLVM IR text: explicit vectors, SSA values, phis for loop-carried values, ready for code generation with no passes.

Each phase is an exported function with the ABI of `program.program.Signature`, which loads the buffer pointers and calls an internal
function that takes them as distinct (noalias) arguments and loops over the grid items. Instructions allowed are written on the
functions, so the text alone decides the code; LLVM's cpu name only tunes it. No operation becomes a call of a runtime function.
`fma` rounds twice on targets without the instruction. Typed pointers are not supported (LLVM 20 or newer)."""

from __future__ import annotations

from ...ir.dtypes import bool_
from ...ir.errors import BuildError
from ...program.program import Block, For, If, Instr, Phase, Program, Val, statements
from ...targets.target import Target
from . import llvm_memory, llvm_ops
from .llvm_emitter import LlvmEmitter, symbol, type_of
from .llvm_memory import broadcast_addresses, broadcasts, read_inside, stored_choices, updated_addresses

_LEVELS = (
    ("x86-64-v4", frozenset({"sse41", "avx2", "fma", "f16c", "avx512"})),
    ("x86-64-v3", frozenset({"sse41", "avx2", "fma", "f16c"})),
    ("x86-64-v2", frozenset({"sse41"})),
    ("x86-64", frozenset[str]()),
)
_STACK = 16
"""Bytes that the stack is aligned to where a function begins (System V ABI)."""
_LLVM_FLAGS = {"avx512": "", "sse41": "sse4.1", "avx512popcnt": "avx512vpopcntdq,+avx512bitalg"}
OPS = {**llvm_ops.OPS, **llvm_memory.OPS}
"""What each operation of Programs becomes: a function `(emitter, instr) -> operand` ('' where there is no result)."""


def render(program: Program, target: Target) -> str:
    """The module's text. Raises BuildError for a Program with an operation this renderer must not see."""
    functions: list[str] = []
    declared: dict[str, str] = {}
    indices = llvm_memory.indices(program)
    pairs = llvm_memory.pairs(program, indices)
    single = updated_addresses(program) if target.guesses_by_registers else set[Val]()
    single |= broadcast_addresses(program) if target.broadcasts_operands else set()
    chosen = stored_choices(program) if target.stores_slowly_by_masks else set[Val]()
    facts = indices, pairs, single, chosen, llvm_memory.read_anywhere(program, indices)
    for i, phase in enumerate(program.phases):
        functions += PhaseWriter(program, target, declared, *facts).phase(program.signature.entry(i), phase)
    head = [f"; {program.name} for {target.name}"]
    return "\n".join([*head, *functions, *(declared[k] for k in sorted(declared)), _attributes(target), "!0 = !{i32 1}", "!1 = !{}", ""])


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


class PhaseWriter(LlvmEmitter):
    """Writes one phase: the functions, and the statements between operations."""

    def phase(self, name: str, phase: Phase) -> list[str]:
        """The exported function and the internal one that it calls."""
        for given, v in zip(self.program.symbols, phase.vars, strict=True):
            self.names[v.id] = f"%{symbol(given.arg.name + '.s')}"
        self.names[phase.item.id] = "%item"
        self._spread = broadcasts(phase, self.program) if self.target.broadcasts_operands else {}
        self.label("items")
        self.lines.append("  %item = phi i64 [ %lo, %entry ], [ %item.next, %next ]")
        self._block(phase.body)
        self.lines.append("  br label %next")
        pointers = [(i, p) for i, p in enumerate(self._pointers) if p in self.used]
        shared = self.program.shared_params
        args = [f"ptr {'' if i in shared else 'noalias '}{'' if p in self.written else 'readonly '}{p}" for i, p in pointers]
        symbols = [self.names[v.id] for v in phase.vars]
        args += [f"i64 {s}" for s in symbols] + ["i64 %lo", "i64 %hi"]
        inner, outer = f"@{symbol(name + '.items')}", f"@{symbol(name)}"
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
            f"define internal void {inner}({', '.join(args)}){self._stack(phase)} #0 {{",
            "entry:",
            *self.asides,
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

    def _stack(self, phase: Phase) -> str:
        """What makes the stack begin where vectors do, if some are longer than it is aligned without: those that have no register lie there, and
        reading or writing one across two lines of the cache takes two or three times as long."""
        code = (s.out for s in statements(phase.body) if isinstance(s, Instr))
        long = self.target.arch == "x86_64" and any(v is not None and v.lanes * v.dtype.size > _STACK for v in code)
        return f" alignstack({self.target.vector_bytes})" if long else ""

    # statements -----------------------------------------------------------------------------------------------------
    def _block(self, block: Block) -> None:
        for s in block.stmts:
            if isinstance(s, Instr):
                write = OPS.get(s.op)
                if write is None:
                    raise BuildError(f"{s.op} is not an operation of Programs that LLVM IR has")
                x = write(self, s)
                if s.out is not None:
                    self.names[s.out.id] = x
                    if s.op == "cast" and s.args[0].dtype is bool_ and s.out.lanes == 1:
                        self.conditions[s.out.id] = self.of(s.args[0])
                    if s.out.dtype.kind == "b" and all(a.dtype.is_int or a.id in self.whole for a in s.args):
                        self.whole.add(s.out.id)
            elif isinstance(s, For):
                self._for(s)
            elif isinstance(s, If):
                self._if(s)
            else:
                raise BuildError("LLVM IR has no roles: they are for GPUs with warpgroups")

    def _for(self, s: For) -> None:
        n = self.fresh()
        loop, after, before = f"loop{n}", f"after{n}", self.block
        var, bump = f"%i{n}", f"%i{n}.next"
        start = [self.of(v) for v in s.init]
        lo, hi = self.of(s.lo), self.of(s.hi)
        if s.maybe:
            cond, often = self.conditions.get(s.hi.id) if s.once else None, ""
            if cond is None:
                cond = f"%i{n}.any"
                self.lines.append(f"  {cond} = icmp slt i64 {lo}, {hi}")
            if s.rare:  # (what is kept in memory for want of registers is then what such a branch needs)
                self.declare("!2", '!2 = !{!"branch_weights", i32 1, i32 2000}')
                often = ", !prof !2"
            self.lines.append(f"  br i1 {cond}, label %{loop}, label %{after}{often}")
        else:
            self.lines.append(f"  br label %{loop}")
        self.label(loop)
        if s.once:
            self._branch(s, start, before, after)
            return
        self.names[s.var.id] = var
        at = len(self.lines)
        for v in s.carried:
            self.names[v.id] = f"%v{self.fresh()}"
            self.carried.add(v.id)
        outside = self._read_again(s)
        self._block(s.body)
        for known, old in zip((self.names, self.where), outside, strict=True):
            known |= old
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
        for r, y, a in zip(s.results, s.yields, start, strict=True):
            # where the loop runs at least once, what the last iteration yields is visible here
            self.names[r.id] = self._either(r, (a, before), (self.of(y), end)) if s.maybe else self.of(y)

    def _read_again(self, s: For) -> tuple[dict[int, str], dict[int, str]]:
        """Read in a loop what is too much for the registers; the operands of the same values outside, and where they were loaded from."""
        again = [x for v in read_inside(s, self._spread, self.target.registers) for x in self._spread[v]]
        ids = [x.result.id for x in again]
        outside = {i: self.names[i] for i in ids}, {i: self.where[i] for i in ids if i in self.where}
        self.here = True
        for x in again:
            self.names[x.result.id] = OPS[x.op](self, x)
        self.here = False
        return outside

    def _branch(self, s: For, start: list[str], before: str, after: str) -> None:
        """The body of a loop that runs once or not at all. (What a loop carries would have places of its own beside what is after it.)"""
        self.names[s.var.id] = self.of(s.lo)
        for v, i, a in zip(s.carried, s.init, start, strict=True):
            self.names[v.id] = a
            self.carried |= {v.id} if i.id in self.carried else set()
        self._block(s.body)
        end = self.block
        self.lines.append(f"  br label %{after}")
        self.label(after)
        for r, y, a in zip(s.results, s.yields, start, strict=True):
            self.names[r.id] = self._either(r, (a, before), (self.of(y), end))

    def _either(self, r: Val, *ways: tuple[str, str]) -> str:
        """What a value is, by the block that control comes from."""
        out = f"%v{self.fresh()}"
        self.carried.add(r.id)
        self.lines.append(f"  {out} = phi {type_of(r)} " + ", ".join(f"[ {x}, %{block} ]" for x, block in ways))
        return out

    def _if(self, s: If) -> None:
        n = self.fresh()
        self.lines.append(f"  br i1 {self.of(s.cond)}, label %then{n}, label %after{n}")
        self.label(f"then{n}")
        self._block(s.body)
        self.lines.append(f"  br label %after{n}")
        self.label(f"after{n}")

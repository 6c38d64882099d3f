"""The text of one phase as it grows: registers, basic blocks, declarations. What operations become is in `ops` and `memory`."""

from __future__ import annotations

import re
from collections.abc import Set

from ...ir.dtypes import float32
from ...program.program import Instr, Program, Val
from ...targets.target import Target
from .types import constant, suffix, vector


def symbol(name: str) -> str:
    """`name` as LLVM writes it after @ or %."""
    if re.fullmatch(r"[A-Za-z_.][\w.]*", name, re.ASCII):
        return name
    return '"' + "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\{b:02X}" for b in name.encode()) + '"'


class LlvmEmitter:
    """What the writers of operations share. `emit` adds an instruction and returns its operand; `of` is the operand of a Program value."""

    def __init__(
        self,
        program: Program,
        target: Target,
        declared: dict[str, str],
        indices: dict[Val, Instr],
        pairs: dict[Val, tuple[Instr, Instr]],
        updated: Set[Val],
        chosen: Set[Val],
    ) -> None:
        self.program, self.target, self.declared = program, target, declared
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.carried: set[int] = set()
        self.block = "entry"
        self._next = 0
        self._pointers = [*(f"%{symbol(p.name + '.p')}" for p in program.params), "%work", "%scratch"]
        self.addresses: dict[tuple[str, str, str], str] = {}
        self.used: set[str] = set()
        self.indices = indices
        """The instructions behind vectors of indices."""
        self.pairs = pairs
        """Gathers whose elements lie side by side, both for each of them."""
        self.updated = updated
        """Indices whose addresses must be in one register."""
        self.chosen = chosen
        """Vectors that must be made before they are stored."""
        self.where: dict[int, str] = {}
        """Where values were loaded from, without a mask."""
        self.whole: set[int] = set()
        """Truths of one lane that comparisons of whole numbers make."""
        self.gathered: dict[int, str] = {}
        """Vectors that were gathered together with others, by the value."""
        self.lanes: dict[tuple[int, int], str] = {}
        """Indices of single lanes, by the vector and the lane."""
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
        self.lanes.clear()

    def fresh(self) -> int:
        """A number not used before."""
        self._next += 1
        return self._next

    def pointer(self, i: int) -> str:
        """The i-th pointer argument: the parameters, the workspace, the scratch arena."""
        return self._pointers[i]

"""The text of one phase as it grows: registers, basic blocks, declarations. What operations become is in `ops` and `memory`."""

from __future__ import annotations

import re
from collections.abc import Set
from functools import cache
from typing import Any

from ...ir.dtypes import FORMATS, DType, float32
from ...program.program import Instr, Program, Val
from ...targets.target import Target

# floats of 16 and 8 bits are stored as integers and widened by explicit code: arithmetic on LLVM's half and bfloat calls runtime functions
SCALAR = {
    "float64": "double",
    "float32": "float",
    "float16": "i16",
    "bfloat16": "i16",
    "float8_e4m3": "i8",
    "float8_e5m2": "i8",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "i64",
    "uint32": "i32",
    "uint16": "i16",
    "uint8": "i8",
    "bool": "i1",
}


@cache
def vector(scalar: str, lanes: int) -> str:
    """`float`, 16 → `<16 x float>`."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def type_of(v: Val) -> str:
    """The type a value has in registers."""
    return vector(SCALAR[v.dtype.name], v.lanes)


def memory(dtype: DType) -> str:
    """The element type in memory: a bool is a byte."""
    return "i8" if dtype.kind == "b" else SCALAR[dtype.name]


@cache
def suffix(scalar: str, lanes: int) -> str:
    """The type's name inside an intrinsic's: `v16f32`, `i64`."""
    short = {"float": "f32", "double": "f64", "half": "f16"}.get(scalar, scalar)
    return short if lanes == 1 else f"v{lanes}{short}"


def literal(value: Any, dtype: DType) -> str:
    """A scalar constant of `dtype`, rounded to it (nearest even) or wrapped."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if not dtype.is_float:
        half = 1 << (8 * dtype.size - 1)
        return str((int(value) + half) % (2 * half) - half)
    value = float(value)
    form = FORMATS[dtype.name]
    if dtype.narrow:
        bits = form.bits(value)
        return str(bits - ((bits & form.sign) << 1))
    return f"0x{FORMATS['float64'].bits(form.rounded(value)):016X}"


def constant(value: Any, dtype: DType, lanes: int) -> str:
    """A constant operand; a tuple gives one number a lane."""
    scalar = SCALAR[dtype.name]
    if lanes == 1:
        return literal(value[0] if isinstance(value, tuple) else value, dtype)
    if isinstance(value, tuple):
        return f"<{', '.join(f'{scalar} {literal(x, dtype)}' for x in value)}>"
    return splat(scalar, literal(value, dtype))


def splat(scalar: str, text: str) -> str:
    """The vector constant with `text` in every lane."""
    return "zeroinitializer" if text in ("0", "0x0000000000000000", "false") else f"splat ({scalar} {text})"


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
        single: Set[Val],
        chosen: Set[Val],
        anywhere: Set[Val],
    ) -> None:
        self.program, self.target, self.declared = program, target, declared
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.carried: set[int] = set()
        self.block = "entry"
        self._next = 0
        self._pointers = [*(f"%{symbol(p.name + '.p')}" for p in program.params), "%work", "%scratch"]
        self.addresses: dict[tuple[str, str, str], tuple[str, int]] = {}
        """Pointers that were made, and the bytes that are in them already."""
        self.used: set[str] = set()
        self.indices = indices
        """The instructions behind vectors of indices."""
        self.pairs = pairs
        """Gathers whose elements lie side by side, both for each of them."""
        self.single = single
        """Indices whose addresses must be in one register."""
        self.chosen = chosen
        """Vectors that must be made before they are stored."""
        self.here = False
        """Whether what is read now must be read in this block."""
        self.where: dict[int, str] = {}
        """Where values were loaded from, without a mask or (`anywhere`) with one."""
        self.anywhere = anywhere
        """Indices that are read under a mask, for gathers that need none."""
        self.asides: list[str] = []
        """Instructions that make room on the stack."""
        self.whole: set[int] = set()
        """Truths of one lane that comparisons of whole numbers make."""
        self.conditions: dict[int, str] = {}
        """Truths, by the index that each was made to."""
        self.gathered: dict[int, str] = {}
        """Vectors that were gathered together with others, by the value."""
        self.lanes: dict[tuple[int, int, bool], str] = {}
        """Indices of single lanes, by the vector, the lane, and whether a mask of the vector counts."""
        self.written: set[str] = set()
        self.tables: dict[int, tuple[str, Any]] = {}
        self.small: set[int] = set()
        """Values that are functions of four bits: the operand that has these, and what each of sixteen makes."""

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

    def aside(self, ty: str) -> str:
        """The address of room for a value of type `ty`."""
        self.asides.append(f"  %aside{len(self.asides)} = alloca {ty}")
        return f"%aside{len(self.asides) - 1}"

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

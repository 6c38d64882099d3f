"""What C, OpenCL C and CUDA C++ have in common: the statements of a phase as text, one statement a line.

A value is a list of *pieces*: vectors of the language of up to `widest` lanes, or scalars (CUDA has nothing else). Operations are
written a piece at a time (`ops`), loads and stores in `memory`. A language is a subclass of `CFamilyEmitter` with its table of
operations and the methods of `dialect`, which also wraps a phase into a function. Names are numbered by first appearance.
Constants and splats are written where they are used. Functions that a line calls are collected in `helpers`, by name."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar

from ...ir.dtypes import DType, bool_, float32, index, int32, uint64
from ...ir.errors import BuildError
from ...program import abi
from ...program.abi import arguments
from ...program.facts import INT32, Intervals, inside
from ...program.ops import ASYNCS, READS, WRITES
from ...program.program import Block, For, Instr, Mem, Phase, Program, Roles, Val, statements, touched
from ...targets.instructions import BY_NAME, Instruction
from ...targets.languages import Language
from ...targets.target import Target
from .c_types import bits_of, finite, form, memory, pieces, round_to, unsigned, wrap


class Dialect(ABC):
    """Expressions are texts; those without a space bind tighter than any operator."""

    TYPES: ClassVar[dict[str, str]]
    """The language's names of the element types."""
    LANGUAGE: ClassVar[Language]
    """What the language can say."""
    LONG: ClassVar[tuple[str, str]] = ("LL", "ULL")
    """Suffixes of 64-bit literals, signed and unsigned."""
    BOOLS: ClassVar[tuple[str, str]] = ("false", "true")
    INLINE: ClassVar[str] = ""
    """What a helper function begins with."""
    narrow_scalars: ClassVar[bool] = True
    """Whether index scalars that fit are 32-bit integers (vectors of them always are)."""

    @property
    def notes_sums(self) -> bool:
        """Whether `CFamilyEmitter.sums` is wanted."""
        return False

    picks_extremes: ClassVar[bool] = False
    """Whether a choice between what was compared is an operation of its own."""

    # what a language says ----------------------------------------------------------------------------------------------
    @abstractmethod
    def type(self, form: DType, width: int = 1) -> str:
        """The type of a variable."""

    @abstractmethod
    def reinterpret(self, x: str, src: DType, dst: DType, width: int) -> str:
        """The same bits as another type of that size."""

    @abstractmethod
    def call(self, name: str, args: list[str], form: DType, width: int) -> str:
        """fma, sqrt, abs, floor or round of floats."""

    def count(self, op: str, x: str, form: DType, width: int) -> str:
        """Bits of integers: `popcount`, or `clz`."""
        if width > 1:
            return self.pack([self.count(op, self.lane(x, i), form, 1) for i in range(width)], form)
        whole = f"({self.type(uint64)})({self.type(unsigned(form))}){atom(x)}"
        found = f"{self.count64(op)}({whole})"
        return f"({self.type(form)})({found} - {64 - 8 * form.size})" if op == "clz" else f"({self.type(form)}){found}"

    @abstractmethod
    def count64(self, op: str) -> str:
        """The name of a function that counts bits of 64 (all of 0 lie above the highest that is set)."""

    @abstractmethod
    def special(self, value: float, form: DType) -> str:
        """An infinity or NaN."""

    def barrier(self) -> None:
        """Write a barrier (languages with groups of threads)."""
        raise self._no_groups("barriers")

    def roles(self, s: Roles) -> None:
        """Write threads with bodies of their own (languages with warpgroups)."""
        raise BuildError(f"{self.LANGUAGE.title} has no roles: they are for GPUs with warpgroups")

    def prefetch(self, at: str) -> None:
        """Ask for the line at an address that will be used."""
        raise BuildError(f"{self.LANGUAGE.title} has no prefetch: leave out CACHE with prefetch")

    def shuffle_xor(self, x: str, form: DType, distance: int) -> str:
        """The scalar `x` of thread `thread ^ distance` (languages with groups of threads)."""
        raise self._no_groups("shuffles")

    def copy_async(self, s: Instr) -> None:
        """Begin to copy elements into shared memory, beside the thread."""
        raise self._no_copies()

    def commit(self) -> None:
        """Make a group of the copies begun since the last one."""
        raise self._no_copies()

    def wait(self, groups: int) -> None:
        """Wait until at most so many groups of copies are under way."""
        raise self._no_copies()

    def dot(self, s: Instr, out: Val) -> None:
        """Write an instruction of `targets.instructions`."""
        raise BuildError(f"{self.LANGUAGE.title} has no {s.attr}: leave out TC, or render for a target that has it")

    def mma(self, s: Instr) -> None:
        """Write an instruction of `targets.tensor_rows` (languages with tensor cores)."""
        raise AssertionError(f"{self.LANGUAGE.title} has no tensor cores")

    def ldmatrix(self, s: Instr) -> None:
        """Write `ldmatrix` or `ldmatrix_t` (languages with tensor cores)."""
        raise AssertionError(f"{self.LANGUAGE.title} has no tensor cores")

    def scale2(self, x: str, n: str, form: DType, width: int) -> str:
        """x · 2^n with one rounding."""
        raise BuildError(f"{self.LANGUAGE.title} has no scale2: lower the kernel for the target it is rendered for")

    def exp2(self, x: str, form: DType, width: int) -> str:
        """2^x within 2 ulp."""
        raise BuildError(f"{self.LANGUAGE.title} has no exp2: lower the kernel for the target it is rendered for")

    def root_guess(self, x: str, form: DType, width: int) -> str:
        """1/√x within a part in 2700."""
        raise BuildError(f"{self.LANGUAGE.title} has no root_guess: lower the kernel for the target it is rendered for")

    def separate_load(self, at: str, mem: Mem, out: Val) -> str:
        """The pointer for the load of a scalar, where that is not to become part of another load."""
        return at

    @abstractmethod
    def address(self, pointer: str) -> str:
        """An address as an unsigned integer."""

    def load_whole(self, mem: Mem, at: Val, cond: str | None, out: Val) -> list[str] | None:
        """All pieces of a load at once where the language has better than one by one; `cond`: zeros where it does not hold."""
        return None

    def store_whole(self, mem: Mem, at: Val, value: Val) -> bool:
        """The same for a store; whether it was written."""
        return False

    def native_half(self, way: str, name: str, x: str, width: int) -> str | None:
        """'widen' a float of 16 or 8 bits to float32 or 'narrow' it by an instruction, where the language has one."""
        return None

    def moves_as(self, form: DType) -> DType:
        """The type that elements have while they change places in vectors."""
        return form

    def extreme(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        """The larger ('max') or smaller of floats, or the NaN among them; `b` of two zeros."""
        sign = ">" if op == "max" else "<"
        if width == 1:
            return f"{a} {sign} {b} || {a} != {a} ? {a} : {b}"
        return self.choose(f"({a} {sign} {b}) | ({a} != {a})", a, b, form, width)

    def bounded(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        """An extreme with a number `b` that is no NaN; either of two zeros."""
        return self.extreme(op, a, b, form, width)

    # vectors in variables, where a language has them -------------------------------------------------------------------
    def pack(self, lanes: list[str], form: DType) -> str:
        """A vector of these scalars."""
        raise self._no_vectors()

    def splat(self, x: str, form: DType, width: int) -> str:
        """A vector with a scalar in every lane."""
        raise self._no_vectors()

    def permute(self, a: str, b: str, picks: list[int], form: DType, width: int) -> str | None:
        """Lanes of two vectors in any order, where the language has one operation for it."""
        return None

    def subvector(self, x: str, first: int, form: DType, width: int, lanes: int) -> str | None:
        """Some lanes of a vector, side by side, where the language has one operation for it."""
        return None

    def lane(self, x: str, i: int) -> str:
        """An element of a vector of two lanes or more."""
        raise self._no_vectors()

    def convert_vector(self, x: str, src: DType, dst: DType, width: int) -> str:
        """The same numbers as another type."""
        raise self._no_vectors()

    def choose(self, mask: str, a: str, b: str, form: DType, width: int) -> str:
        """Element-wise choice between vectors by a mask of elements of the same size."""
        raise self._no_vectors()

    def load_vector(self, at: str, mem: Mem, width: int, align: int) -> str:
        """Consecutive elements from an address, as they are in memory."""
        raise self._no_vectors()

    def load_masked(self, at: str, mem: Mem, width: int, align: int, bools: list[str], mask: str) -> str:
        """The same where the mask holds (given as conditions by lane, and as a vector beside the elements), else 0."""
        raise self._no_vectors()

    def store_vector(self, at: str, x: str, mem: Mem, width: int, align: int) -> None:
        """Write a vector to consecutive elements."""
        raise self._no_vectors()

    def store_masked(self, at: str, x: str, mem: Mem, width: int, bools: list[str], mask: str) -> None:
        """The same where the mask holds."""
        raise self._no_vectors()

    def value(self, loaded: str, form: DType, width: int) -> str:
        """What `load_vector` gives as an operand of ?:, which wants equal types."""
        return loaded

    def _no_copies(self) -> Exception:
        return AssertionError(f"{self.LANGUAGE.title} has no asynchronous copies")

    def _no_groups(self, what: str) -> Exception:
        return AssertionError(f"{self.LANGUAGE.title} has no {what}: there are no threads in a group")

    def _no_vectors(self) -> Exception:
        return AssertionError(f"{self.LANGUAGE.title} has no vectors in variables")


def atom(x: str) -> str:
    """`x` in parentheses where it is more than one word."""
    return f"({x})" if " " in x else x


STEP = "    "


Table = Mapping[str, Callable[["CFamilyEmitter", Instr], None]]
"""Functions `(emitter, instr)` by the operation that they write."""


class CFamilyEmitter(Dialect):
    """Writes one phase."""

    TABLE: ClassVar[Table] = {}
    """What writes each operation: the language's own table."""

    def __init__(self, program: Program, target: Target, phase: Phase, helpers: dict[str, str], widest: int) -> None:
        self.program, self.target, self.phase, self.helpers, self.widest = program, target, phase, helpers, widest
        self.intervals = Intervals(phase, program.symbols)
        self.lines: list[str] = []
        self.depth = 1
        self.carried: set[int] = set()
        self.uniform: dict[int, str] = {}
        """Scalars that are in every lane of a vector, by the vector's id."""
        self.less: dict[int, tuple[Val, Val]] = {}
        """What comparisons of vectors of floats ask: whether the first is less, by the result's id."""
        self.sums: dict[int, tuple[Val, Val]] = {}
        """Indices that are sums of two that are not negative, where the language wants to know: (the one of an outer loop, the other)."""
        self._pieces: dict[int, list[str]] = {}
        self._masks: dict[int, DType] = {}
        self._splats: dict[int, Val] = {}
        self._consts: dict[int, Instr] = {}
        self._count = 0
        self.arguments = arguments(program.signature, target)
        self.params = [a.name for a in self.arguments if a.kind == "param"]
        self.pointers = self._name_pointers()

    def row(self, s: Instr) -> Instruction:
        """The row of `targets.instructions` that a `dot` names."""
        row = BY_NAME.get(str(s.attr))
        if row is None or [(v.dtype, v.lanes) for v in s.args] not in row.operands:
            raise BuildError(f"dot {s.attr} of {', '.join(v.type for v in s.args)} is not an operation of Programs")
        if row.flag not in self.target.features:
            raise BuildError(f"{self.target.name} has no {row.name}: leave out TC, or render for a target that has it")
        return row

    # forms and names ---------------------------------------------------------------------------------------------------
    def form(self, v: Val, width: int = 1) -> DType:
        """The form of a value's elements in pieces of `width` lanes."""
        if v.dtype is bool_:
            return bool_ if width == 1 else self._masks.get(v.id, int32)
        if v.dtype is index and (self.narrow_scalars or v.lanes > 1) and inside(self.intervals.of(v), INT32):
            return int32
        return form(v.dtype)

    def widths(self, v: Val) -> tuple[int, ...]:
        """The widths of a value's pieces."""
        return pieces(v.lanes, self.width_of(v))

    def width_of(self, v: Val) -> int:
        """The widest piece of a value."""
        return self.widest

    def of(self, v: Val) -> list[str]:
        """The pieces of a value as operands."""
        return self.as_form(v, None)

    def as_form(self, v: Val, want: DType | None) -> list[str]:
        """The pieces of a value as elements of `want`: the same numbers, or the same bools as masks of that size."""
        forms = [self.form(v, w) if want is None or (v.dtype is bool_ and w == 1) else want for w in self.widths(v)]
        if v.id in self._consts:
            return self._constant(v, self._consts[v.id].attr, forms)
        if v.id in self._splats:
            return [self._spread(self._splats[v.id], f, w) for f, w in zip(forms, self.widths(v), strict=True)]
        return [self.convert(x, self.form(v, w), f, w) for x, f, w in zip(self._pieces[v.id], forms, self.widths(v), strict=True)]

    def _spread(self, x: Val, f: DType, width: int) -> str:
        (text,) = self.of(x)
        if x.dtype is not bool_:
            text = self.convert(text, self.form(x), f, 1)
        elif width > 1:
            text = f"-({self.type(f)}){atom(text)}"
        return text if width == 1 else self.splat(text, f, width)

    def lanes(self, v: Val) -> list[str]:
        """Every element of a number as a scalar."""
        if v.id in self.uniform:
            return [self.uniform[v.id]] * v.lanes
        out = []
        for x, w in zip(self.of(v), self.widths(v), strict=True):
            out += [x] if w == 1 else [self.lane(x, i) for i in range(w)]
        return out

    def bools(self, v: Val) -> list[str]:
        """Every element of a bool value as a scalar condition."""
        if v.id in self.uniform:
            return [self.uniform[v.id]] * v.lanes
        out = []
        for x, w in zip(self.of(v), self.widths(v), strict=True):
            out += [x] if w == 1 else [f"{self.lane(x, i)} != 0" for i in range(w)]
        return out

    def convert(self, x: str, src: DType, dst: DType, width: int) -> str:
        """The same numbers in another form (bools are masks; plain C conversions)."""
        if src is dst:
            return x
        return f"({self.type(dst)}){atom(x)}" if width == 1 else self.convert_vector(x, src, dst, width)

    def select(self, cond: str, a: str, b: str, form: DType, width: int) -> str:
        """`a` where the condition holds: a scalar bool, or a mask of elements of the size of `form`."""
        return f"{atom(cond)} ? {a} : {b}" if width == 1 else self.choose(cond, a, b, form, width)

    def chosen(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        """`a` where it is larger ('max') or smaller, else `b`: of integers, and of floats as some processors have it."""
        return self.select(f"{a} {'>' if op == 'max' else '<'} {b}", a, b, form, width)

    def define(self, v: Val, exprs: list[str], mask: DType | None = None) -> None:
        """Declare a variable a piece; `mask` is the form of bools in vectors."""
        if v.dtype is bool_ and v.lanes > 1 and mask is not None:
            self._masks[v.id] = mask
        names = self.names(v, self.fresh("v"))
        for name, x, w in zip(names, exprs, self.widths(v), strict=True):
            self.line(f"{self.type(self.form(v, w), w)} {name} = {x};")
        self._pieces[v.id] = names

    def alias(self, v: Val, texts: list[str]) -> None:
        """Let a value be these pieces, which are defined already."""
        self._pieces[v.id] = texts

    def names(self, v: Val, stem: str) -> list[str]:
        """The variables of a value called `stem`."""
        n = len(self.widths(v))
        return [stem] if n == 1 else [f"{stem}_{i}" for i in range(n)]

    def fresh(self, letter: str) -> str:
        """A new name."""
        self._count += 1
        return f"{letter}{self._count}"

    def line(self, text: str) -> None:
        """Append a line."""
        self.lines.append(STEP * self.depth + text)

    def need(self, name: str, text: str) -> str:
        """Define a function, once a program; returns its name."""
        self.helpers.setdefault(name, text)
        return name

    def _name_pointers(self) -> dict[tuple[str, int, DType], str]:
        """Names of the places in scratch, shared memory and the workspace that the phase uses, in order."""
        found = {(m.space, m.base, memory(m.dtype)) for s in statements(self.phase.body) if isinstance(s, Instr) for m, _ in touched(s)}
        places = sorted((p for p in found if p[0] != "param"), key=lambda p: (p[0], p[1], p[2].name))
        alone = [(space, base) for space, base, _ in places]
        return {p: f"{p[0]}{p[1]}" + (f"_{p[2].name}" if alone.count(p[:2]) > 1 else "") for p in places}

    def touched(self, how: str) -> set[tuple[str, int]]:
        """(space, base) of everything the phase stores to ('store') or loads from ('load'); base is 0 outside parameters."""
        ops = {"store": WRITES | ASYNCS, "load": READS | ASYNCS}[how]
        some = (s for s in statements(self.phase.body) if isinstance(s, Instr) and s.op in ops)
        found = {m for s in some for m, written in touched(s) if written == (how == "store")}
        return {(m.space, m.base if m.space == "param" else 0) for m in found}

    # constants ---------------------------------------------------------------------------------------------------------
    def literal(self, value: float, dtype: DType) -> str:
        """A scalar constant of a form or of a float of 16 or 8 bits."""
        if dtype is bool_:
            return self.BOOLS[bool(value)]
        if dtype.narrow:
            return f"({self.type(form(dtype))}){bits_of(value, dtype):#0{2 + 2 * dtype.size}x}"
        if dtype.is_float:
            x = round_to(value, dtype)
            return finite(x, "f" if dtype is float32 else "") if math.isfinite(x) else self.special(x, dtype)
        n = wrap(value, dtype)
        if dtype.size < 4:
            return f"({self.type(dtype)}){n}"
        if dtype.size == 4:
            return f"{n}u" if dtype.kind == "u" else f"{n}" if n > -(1 << 31) else f"({n + 1}-1)"
        if dtype.kind == "u":
            return f"{n}{self.LONG[1]}"
        if abs(n) < 1 << 15:
            return f"{n}"  # the other operand is 64 bits wide, or both are small
        return f"{n}{self.LONG[0]}" if n > -(1 << 63) else f"({n + 1}{self.LONG[0]}-1)"

    def _element(self, value: float, v: Val, f: DType) -> str:
        if v.dtype is bool_ and f is not bool_:
            return self.literal(-int(bool(value)), f)
        return self.literal(value, v.dtype if v.dtype.is_float else f)

    def _constant(self, v: Val, attr: object, forms: list[DType]) -> list[str]:
        """Scalars, and vectors of one number."""
        value: float = attr[0] if isinstance(attr, tuple) else attr  # type: ignore[assignment]
        texts = [self._element(value, v, f) for f in forms]
        return [x if w == 1 else self.splat(x, f, w) for x, f, w in zip(texts, forms, self.widths(v), strict=True)]

    def const(self, s: Instr) -> None:
        """Remember a constant; one with a number a lane becomes a variable."""
        out = s.result
        if not isinstance(s.attr, tuple) or out.lanes == 1:
            self._consts[out.id] = s
            if out.lanes > 1:
                self.uniform[out.id] = self._element(s.number, out, self.form(out, 1))
            return
        exprs, at = [], 0
        for w in self.widths(out):
            lanes = [self._element(x, out, self.form(out, w)) for x in s.attr[at : at + w]]
            exprs.append(lanes[0] if w == 1 else self.pack(lanes, self.form(out, w)))
            at += w
        self.define(out, exprs)

    def is_number(self, v: Val) -> bool:
        """Whether a value is known to be one number in all lanes, and no NaN."""
        known = self._consts.get(v.id)
        return known is not None and known.number == known.number

    def remember_splat(self, out: Val, x: Val) -> None:
        """A splat is written where it is used."""
        if x.id in self._consts:
            self._consts[out.id] = self._consts[x.id]
        else:
            self._splats[out.id] = x
        (self.uniform[out.id],) = self.of(x)

    # statements --------------------------------------------------------------------------------------------------------
    def block(self, block: Block) -> None:
        """Write the statements of a block."""
        table = self.TABLE
        for s in block.stmts:
            if isinstance(s, Instr):
                write = table.get(s.op)
                if write is None:
                    raise BuildError(f"{s.op} is not an operation of Programs that {self.LANGUAGE.title} has")
                write(self, s)
            elif isinstance(s, For):
                self._for(s)
            elif isinstance(s, Roles):
                self.roles(s)
            else:
                self.line(f"if ({self.of(s.cond)[0]}) {{")
                self._inner(s.body)
                self.line("}")

    def _inner(self, block: Block) -> None:
        """Write a block one step further in."""
        self.depth += 1
        self.block(block)
        self.depth -= 1

    def _for(self, s: For) -> None:
        var = self.fresh("j")
        for c, a in zip(s.carried, s.init, strict=True):
            self.carried.add(c.id)
            self.define(c, self._as_carried(a, c), int32)
        self._pieces[s.var.id] = [var]
        f = self.form(s.var)
        lo, hi = self.as_form(s.lo, f)[0], self.of(s.hi)[0]
        inner = not any(isinstance(x, For) for x in s.body.stmts)
        if inner and lo.isdigit() and hi.isdigit() and self.writes_out((int(hi) - int(lo)) // s.step, len(s.body.stmts)):
            self.line("#pragma unroll")
        self.line(
            f"for ({self.type(f)} {var} = {lo}; {var} < {hi}; {var} += {s.step}) {{ // {s.label.splitlines()[0] if s.label else ''}".rstrip()
        )
        self._inner(s.body)
        self.depth += 1
        self._yield(s)
        self.depth -= 1
        self.line("}")
        for r, c in zip(s.results, s.carried, strict=True):
            self._pieces[r.id] = self._pieces[c.id]
            if r.dtype is bool_:
                self._masks[r.id] = int32

    def writes_out(self, trips: int, statements: int) -> bool:
        """Whether the compiler is told to write an innermost loop out."""
        return False

    def _as_carried(self, a: Val, c: Val) -> list[str]:
        return [
            x if w == 1 and c.dtype is bool_ else self.convert(x, self.form(a, w), self.form(c, w), w)
            for x, w in zip(self.of(a), self.widths(a), strict=True)
        ]

    def _yield(self, s: For) -> None:
        moves = [
            m
            for c, y in zip(s.carried, s.yields, strict=True)
            for m in zip(self._pieces[c.id], self._as_carried(y, c), self.widths(c), [c] * len(self.widths(c)))
        ]
        moves = [m for m in moves if m[0] != m[1]]
        targets = {m[0] for m in moves}
        # a carried value that becomes another one must be read before it changes
        late = []
        for name, x, w, c in moves:
            if not targets.isdisjoint(re.findall(r"\w+", x)):
                kept = self.fresh("v")
                self.line(f"{self.type(self.form(c, w), w)} {kept} = {x};")
                late.append((name, kept))
            else:
                late.append((name, x))
        for name, x in late:
            self.line(f"{name} = {x};")


def prelude(helpers: dict[str, str]) -> list[str]:
    """The lines before the kernels: types, and functions with a blank line before each."""
    return [line for text in helpers.values() for line in (["", text] if "\n" in text else [text])]


class GroupEmitter(CFamilyEmitter):
    """Writes one phase as a kernel."""

    def __init__(self, program: Program, target: Target, phase: Phase, helpers: dict[str, str], widest: int) -> None:
        super().__init__(program, target, phase, helpers, widest)
        self.signature = program.signature
        self.place = abi.place(self.signature, target)
        self.spaces = {space for space, _, _ in self.pointers}
        self.number = next(i for i, p in enumerate(program.phases) if p is phase)
        self.shared = abi.shared_bytes(self.signature, target, self.number)

    @abstractmethod
    def barrier(self) -> None: ...

    @abstractmethod
    def shuffle_xor(self, x: str, form: DType, distance: int) -> str: ...

    @abstractmethod
    def group(self) -> str:
        """The number of this group."""

    @abstractmethod
    def thread(self) -> str:
        """The number of this thread in its group."""

    @abstractmethod
    def pointer_type(self, space: str, form: DType, const: bool = False) -> str:
        """A pointer to elements in a space of `Mem`, such as `const float *`."""

    def parameters(self) -> list[str]:
        """The declarations of the kernel's parameters."""
        written, out = self.touched("store"), []
        for a in self.arguments:
            if a.kind == "param":
                m = memory(self.program.params[a.at].dtype)
                restrict = "" if a.at in self.program.shared_params else self.RESTRICT
                out.append(f"{self.pointer_type('param', m, ('param', a.at) not in written)}{restrict} {a.name}")
            elif a.kind == "map":
                out.append(self.map_type(a.name))
            elif a.kind == "symbol":
                out.append(f"{self.type(index)} {a.name}")
            else:
                out.append(f"{self.pointer_type('work', memory(bool_))}{self.RESTRICT} {a.name}")
        return out

    def map_type(self, name: str) -> str:
        """The declaration of a tensor map."""
        raise BuildError(f"{self.LANGUAGE.title} has no tensor maps: leave out what copies by TMA")

    RESTRICT = "restrict"

    def body(self) -> list[str]:
        """The lines of the kernel."""
        self._number(self.phase.item, "item", self.group())
        if self.phase.thread is not None:
            self._number(self.phase.thread, "thread", self.thread())
        symbols = [a.name for a in self.arguments if a.kind == "symbol"]
        for v, s in zip(self.phase.vars, symbols, strict=True):
            if self.form(v) is int32:
                self._number(v, f"{s}_int", s)
            else:
                self.alias(v, [s])
        if "scratch" in self.spaces:
            self._scratch()
        for (space, base, m), pointer in self.pointers.items():
            self.line(f"{self.pointer_type(space, m)}const {pointer} = ({self.pointer_type(space, m).rstrip()})({space} + {base});")
        self.block(self.phase.body)
        return self.lines

    def _number(self, v: Val, name: str, text: str) -> None:
        narrow = inside(self.intervals.of(v), INT32)
        f = int32 if narrow else index
        self.line(f"const {self.type(f)} {name} = ({self.type(f)}){text};")
        self.alias(v, [name])

    def _scratch(self) -> None:
        byte = memory(bool_)
        if self.place == "shared":
            start = self.shared - self.signature.scratch
            self.line(f"{self.pointer_type('scratch', byte)}const scratch = shared + {start};")
        elif self.place == "arena":
            number = f"({self.type(index)}){self.group()} * {self.phase.threads}" + (
                f" + {self.thread()}" if self.phase.threads > 1 else ""
            )
            self.line(f"{self.pointer_type('scratch', byte)}const scratch = arena + ({number}) * {abi.stride(self.signature)};")
        else:
            self.line(f"{self.array('scratch', self.signature.scratch)};")

    @abstractmethod
    def array(self, name: str, size: int) -> str:
        """The declaration of bytes of a thread's own memory."""

    def fences(self) -> bool:
        """Whether a barrier must order more than shared memory: the phase reads what it writes in global memory."""
        return any(
            space in ("param", "work") or (space == "scratch" and self.place == "arena")
            for space, _ in self.touched("store") & self.touched("load")
        )

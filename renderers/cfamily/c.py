"""Programs as C with vector extensions, for gcc, clang and zig cc: the second opinion on the LLVM renderer, bit for bit.

The ABI is that of `program.program.Signature`; a name that C cannot hold is written as `program.abi.entry` has it. No function
outside the text is called: fma, square root and non-temporal stores are builtins that become instructions. Nothing is included but
immintrin.h, and that for matrix instructions alone: it takes longer to read than a kernel. Build
with contraction off and the instructions of the target on. Vectors are as wide as the target's registers."""

from __future__ import annotations

from typing import ClassVar

from ...ir.dtypes import DType, bool_, float32, float64, index, int32, int64, uint64
from ...ir.errors import BuildError
from ...program.abi import entry
from ...program.program import For, Instr, Mem, Phase, Program, Val, defined, operands, statements
from ...targets.languages import language
from ...targets.target import Target
from . import c_helpers as helpers
from . import c_ops
from .c_emitter import CFamilyEmitter, atom, prelude
from .c_types import memory, unsigned

LANGUAGE = language("c")
OPS = c_ops.table(LANGUAGE)
"""What writes each operation of Programs."""

_HEAD = """#ifndef __has_builtin
#define __has_builtin(x) 0
#endif"""


def render(program: Program, target: Target) -> str:
    """The text of a translation unit. Raises BuildError for a Program that C cannot express."""
    names: dict[str, str] = {}
    functions: list[str] = []
    for i, phase in enumerate(program.phases):
        functions += CEmitter(program, target, phase, names, _widths(phase, target)).function(entry(program.signature, i))
    return "\n".join([f"// {program.name} for {target.name}", _HEAD, *prelude(names), *functions, ""])


def _widths(phase: Phase, target: Target) -> dict[int, int]:
    """The widest piece of each vector, by its id: a register of the largest elements among all vectors that an operation joins to it, however
    far away, since gcc takes longer vectors apart element by element. Operands of matrix instructions are registers of the smallest."""
    joined: dict[int, int] = {}

    def find(v: int) -> int:
        while joined.setdefault(v, v) != v:
            joined[v] = v = joined[joined[v]]
        return v

    sizes: dict[int, set[int]] = {}
    vectors: dict[int, Val] = {}
    whole = set()
    for s in statements(phase.body):
        groups = zip(s.carried, s.init, s.yields, s.results, strict=True) if isinstance(s, For) else [(*operands(s), *defined(s))]
        for group in groups:
            last: dict[int, Val] = {}
            for v in group:
                if v.lanes > 1:
                    vectors[v.id] = v
                    joined[find(v.id)] = find(last.setdefault(v.lanes, v).id)
                    if isinstance(s, Instr) and s.op == "dot":
                        whole.add(v.id)
    kept = {find(v) for v in whole}
    for v in vectors.values():
        if v.dtype is not bool_:
            wide = v.dtype is index or (v.dtype.narrow and find(v.id) not in kept)
            sizes.setdefault(find(v.id), set()).add(4 if wide else v.dtype.size)
    largest = {v: (min if v in kept else max)(some) for v, some in sizes.items()}
    return {v: max(1, target.vector_bytes // largest.get(find(v), 4)) for v in vectors}


class CEmitter(CFamilyEmitter):
    """Writes one phase as a function that takes its buffers as distinct pointers and loops over the grid's items."""

    TYPES: ClassVar[dict[str, str]] = {
        "float64": "f64", "float32": "f32", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
        "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool",
    }  # fmt: skip
    INLINE = "static inline "
    BOOLS = ("0", "1")
    narrow_scalars = False
    picks_extremes = True

    LANGUAGE, TABLE = LANGUAGE, OPS
    _BASES: ClassVar[dict[str, str]] = {"f64": "double", "f32": "float", "bool": "_Bool"}

    def __init__(self, program: Program, target: Target, phase: Phase, helpers: dict[str, str], widths: dict[int, int]) -> None:
        self._widths = widths
        super().__init__(program, target, phase, helpers, max(1, target.vector_bytes // 4))

    def width_of(self, v: Val) -> int:
        return self._widths.get(v.id, self.widest)

    def function(self, name: str) -> list[str]:
        """The function of the items and the exported one that calls it."""
        if self.phase.threads > 1:
            raise BuildError(f"{self.program.name}: C has no groups of threads; leave out LOCAL and GROUP, or render for OpenCL or CUDA")
        i64, u8 = self.type(index), self.type(memory(bool_))
        symbols = [a.name for a in self.arguments if a.kind == "symbol"]
        for v, s in zip(self.phase.vars, symbols, strict=True):
            self.alias(v, [s])
        self.alias(self.phase.item, ["item"])
        for (space, base, m), pointer in self.pointers.items():
            if space == "shared":
                raise BuildError(f"{self.program.name}: C has no shared memory; render for OpenCL or CUDA")
            self.line(f"{self.type(m)} *const {pointer} = ({self.type(m)} *)({space} + {base});")
        self.line(f"for ({i64} item = lo; item < hi; item += 1) {{")
        self.depth += 1
        self.block(self.phase.body)
        self.depth -= 1
        self.line("}")
        written, spaces = self.touched("store"), {space for space, _, _ in self.pointers}
        parameters, given = [], []
        for i, (p, pname) in enumerate(zip(self.program.params, self.params, strict=True)):
            const = "" if ("param", i) in written else "const "
            restrict = "" if i in self.program.shared_params else "restrict "
            parameters.append(f"{const}{self.type(memory(p.dtype))} *{restrict}{pname}")
            given.append(f"bufs[{i}]")
        for space, at in (("work", f"bufs[{len(self.params)}]"), ("scratch", "scratch")):
            if space in spaces:
                parameters.append(f"{u8} *restrict {space}")
                given.append(at)
        parameters += [f"{i64} {s}" for s in symbols] + [f"{i64} lo", f"{i64} hi"]
        given += [f"vars[{i}]" for i in range(len(symbols))] + ["lo", "hi"]
        return [
            "",
            f"static __attribute__((noinline)) void {name}_items({', '.join(parameters)}) {{",
            *self.lines,
            "}",
            "",
            f"void {name}(void **bufs, {i64} *vars, void *scratch, {i64} lo, {i64} hi) {{",
            f"    {name}_items({', '.join(given)});",
            "}",
        ]

    # types -----------------------------------------------------------------------------------------------------------
    def type(self, form: DType, width: int = 1) -> str:
        name = self.TYPES[form.name]
        base = self._BASES.get(name) or f"__{'U' if form.kind == 'u' else ''}INT{8 * form.size}_TYPE__"
        self.need(name, f"typedef {base} {name};")
        if width == 1:
            return name
        return self.need(f"{name}x{width}", f"typedef {name} {name}x{width} __attribute__((vector_size({width * form.size})));")

    def place(self, form: DType, width: int, align: int) -> str:
        """A vector as it lies in memory: aligned to its size, or to its elements."""
        vector, size = self.type(form, width), width * form.size
        name, bytes_ = (f"{vector}a", size) if align >= size else (f"{vector}u", form.size)
        return self.need(name, f"typedef {self.type(form)} {name} __attribute__((vector_size({size}), aligned({bytes_}), may_alias));")

    def pack(self, lanes: list[str], form: DType) -> str:
        return f"({self.type(form, len(lanes))}){{{', '.join(lanes)}}}"

    def splat(self, x: str, form: DType, width: int) -> str:
        return f"{helpers.splat(self, form, width)}({x})"

    def permute(self, a: str, b: str, picks: list[int], form: DType, width: int) -> str | None:
        to = self.moves_as(form)
        x, y = (v if to is form else self.reinterpret(v, form, to, width) for v in (a, b))
        text = f"{helpers.permute(self, to, width)}({x}, {y}, {', '.join(map(str, picks))})"
        return text if to is form else self.reinterpret(text, to, form, width)

    def subvector(self, x: str, first: int, form: DType, width: int, lanes: int) -> str | None:
        to = self.moves_as(form)
        text = x if to is form else self.reinterpret(x, form, to, width)
        text = f"{helpers.subvector(self, to, width, lanes)}({text}, {', '.join(map(str, range(first, first + lanes)))})"
        return text if to is form else self.reinterpret(text, to, form, lanes)

    def lane(self, x: str, i: int) -> str:
        return f"{x}[{i}]" if x.isidentifier() else f"({x})[{i}]"

    def reinterpret(self, x: str, src: DType, dst: DType, width: int) -> str:
        if width == 1 and src.is_float != dst.is_float:
            return f"{helpers.bits(self, src, dst)}({x})"
        return f"({self.type(dst, width)}){atom(x)}"

    def moves_as(self, form: DType) -> DType:
        # gcc 12 makes a wrong vpermilpd of some permutations of eight doubles, and never of integers
        return int64 if form is float64 else form

    def convert_vector(self, x: str, src: DType, dst: DType, width: int) -> str:
        for step in (int32, dst) if int32.size > min(src.size, dst.size) and src.is_float != dst.is_float else (dst,):
            if step is not src:
                x, src = helpers.converted(self, x, src, step, width), step
        return x

    def native_half(self, way: str, name: str, x: str, width: int) -> str | None:
        native = name == "float16" and "f16c" in self.target.features and self.target.arch == "x86_64"
        if not native or 4 * width > self.target.vector_bytes:
            return None
        return f"{helpers.half(self, way, width)}({x})"

    def special(self, value: float, form: DType) -> str:
        f = "f" if form is float32 else ""
        return f'__builtin_nan{f}("")' if value != value else f"{'-' if value < 0 else ''}__builtin_inf{f}()"

    # operations ------------------------------------------------------------------------------------------------------
    def choose(self, mask: str, a: str, b: str, form: DType, width: int) -> str:
        return f"{helpers.select(self, form, width)}({mask}, {a}, {b})"

    def call(self, name: str, args: list[str], form: DType, width: int) -> str:
        f = "f" if form is float32 else ""
        if name == "fma" and "fma" not in self.target.features:
            return f"{args[0]} * {args[1]} + {args[2]}"  # without the instruction an exact fma is a slow runtime function
        if name == "abs" and width > 1:
            u = unsigned(form)
            return self.reinterpret(
                f"{self.reinterpret(args[0], form, u, width)} & {self.literal((1 << (8 * form.size - 1)) - 1, u)}", u, form, width
            )
        if name in ("floor", "round"):
            return f"{helpers.whole(self, name, form, width)}({args[0]})"
        if width == 1:
            return f"__builtin_{'fabs' if name == 'abs' else name}{f}({', '.join(args)})"
        helper = helpers.fma(self, form, width) if name == "fma" else helpers.square_root(self, form, width)
        return f"{helper}({', '.join(args)})"

    def count64(self, op: str) -> str:
        if op == "popcount" and {"sse41", "neon"} & self.target.features:
            return "__builtin_popcountll"
        if op == "popcount":  # (without an instruction it is a library's function)
            body = "    int n = 0;\n    for (; x; x &= x - 1) n++;\n    return n;"
            return self.need("bits_set", f"{self.INLINE}int bits_set({self.type(uint64)} x) {{\n{body}\n}}")
        text = f"{self.INLINE}int leading_zeros({self.type(uint64)} x) {{\n    return x ? __builtin_clzll(x) : 64;\n}}"
        return self.need("leading_zeros", text)

    def extreme(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        text = super().extreme(op, a, b, form, width)
        return text if width == 1 else f"{helpers.extreme(self, op, form, width)}({a}, {b})"

    def chosen(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        if width == 1:
            return super().chosen(op, a, b, form, width)
        helper = helpers.extreme(self, op, form, width, quick=True) if form.is_float else helpers.extreme_integer(self, op, form, width)
        return f"{helper}({a}, {b})"

    def bounded(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        return self.chosen(op, b, a, form, width)

    def prefetch(self, at: str) -> None:
        self.line(f"__builtin_prefetch({at});")

    def dot(self, s: Instr, out: Val) -> None:
        row = self.row(s)
        acc, a, b = (self.of(v)[0] for v in s.args)
        self.define(out, [f"{helpers.dot(self, row, s.args[1].lanes)}({acc}, {a}, {b})"])

    def scale2(self, x: str, n: str, form: DType, width: int) -> str:
        if "avx512" not in self.target.features:
            raise BuildError(f"{self.target.name} has no scale2 (it lacks avx512): lower the kernel for this target")
        return f"{helpers.scale2(self, form, width)}({x}, {n})"

    def root_guess(self, x: str, form: DType, width: int) -> str:
        if self.target.arch != "x86_64" or form is not float32:
            raise BuildError(f"{self.target.name} has no root_guess of {form}: lower the kernel for this target")
        return f"{helpers.root_guess(self, width)}({x})"

    def address(self, pointer: str) -> str:
        return f"(__UINTPTR_TYPE__){pointer}"

    # memory ----------------------------------------------------------------------------------------------------------
    def load_vector(self, at: str, mem: Mem, width: int, align: int) -> str:
        return f"*(const {self.place(memory(mem.dtype), width, align)} *)({at})"

    def value(self, loaded: str, form: DType, width: int) -> str:
        return f"({self.type(form, width)}){loaded}"

    def load_masked(self, at: str, mem: Mem, width: int, align: int, bools: list[str], mask: str) -> str:
        return f"{helpers.load_masked(self, memory(mem.dtype), width)}({at}, {mask})"

    def store_vector(self, at: str, x: str, mem: Mem, width: int, align: int) -> None:
        m = memory(mem.dtype)
        place = self.place(m, width, align)
        if mem.nt and align >= width * m.size:
            self.line(f"{helpers.store_streaming(self, m, width, place)}({at}, {x});")
        else:
            self.line(f"*({place} *)({at}) = {x};")

    def store_masked(self, at: str, x: str, mem: Mem, width: int, bools: list[str], mask: str) -> None:
        self.line(f"{helpers.store_masked(self, memory(mem.dtype), width)}({at}, {x}, {mask});")

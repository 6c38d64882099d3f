"""Programs as OpenCL C 1.2: vectors of up to 16 elements, local memory, barriers.

Kernels are named and called as `program.abi` says. Division and square root are only as exact as Programs mean them where the driver is
asked for it (-cl-fp32-correctly-rounded-divide-sqrt). No extension is used but cl_khr_fp64 for float64, cl_khr_fp16 to convert float16
where the target has it, and cl_khr_subgroup_shuffle, or Intel's cl_intel_subgroups, where threads exchange values."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from ...ir.dtypes import DType, bool_, float32, int32, uint16
from ...ir.errors import BuildError
from ...program.abi import AHEAD, entry
from ...program.program import Instr, Mem, Program, Val, statements
from ...targets.instructions import Instruction
from ...targets.languages import has, language
from ...targets.target import Target
from . import c_ops
from .c_emitter import GroupEmitter, atom, prelude
from .c_types import memory, unsigned

LANGUAGE = language("opencl")
OPS = c_ops.table(LANGUAGE)
"""What writes each operation of Programs."""
PLAIN = "PLAIN_OPENCL"
"""Defined where a text is checked by what knows nothing but OpenCL."""


def _builtin(builtin: str, name: str, args: str, text: str, other: str) -> str:
    """A macro of what compilers of processors (clang) have, and `other` where there is none."""
    have = [
        f"#if defined(__has_builtin) && !defined({PLAIN})",
        f"#if __has_builtin({builtin})",
        f"#define {name}({args}) {text}",
        "#endif",
        "#endif",
    ]
    return "\n".join([*have, f"#ifndef {name}", f"#define {name}({args}) {other}", "#endif"])


_STORE_STREAMING = _builtin("__builtin_nontemporal_store", "store_streaming", "x, p", "__builtin_nontemporal_store(x, p)", "(*(p) = (x))")
# (the builtin function of OpenCL does nothing on processors)
_FETCH_LINE = _builtin("__builtin_prefetch", "fetch_line", "p", "__builtin_prefetch((const void *)(size_t)(p))", "prefetch(p, 1)")


def render(program: Program, target: Target) -> str:
    """The text of a program, a kernel a phase. Raises BuildError for a Program that the target's OpenCL cannot express."""
    helpers: dict[str, str] = {}
    kernels: list[str] = []
    for i, phase in enumerate(program.phases):
        kernels += OpenClEmitter(program, target, phase, helpers, LANGUAGE.vectors).kernel(entry(program.signature, i))
    return "\n".join([f"// {program.name} for {target.name}", "#pragma OPENCL FP_CONTRACT OFF", *prelude(helpers), *kernels, ""])


class OpenClEmitter(GroupEmitter):
    """Writes one phase as a kernel."""

    LANGUAGE, TABLE = LANGUAGE, OPS
    TYPES: ClassVar[dict[str, str]] = {
        "float64": "double", "float32": "float", "int64": "long", "int32": "int", "int16": "short", "int8": "char",
        "uint64": "ulong", "uint32": "uint", "uint16": "ushort", "uint8": "uchar", "bool": "bool",
    }  # fmt: skip
    LONG = ("L", "UL")

    @property
    def notes_sums(self) -> bool:
        return self.target.kind == "cpu"

    INLINE = "static "

    def writes_out(self, trips: int, statements: int) -> bool:
        # PoCL's LLVM leaves a loop of three steps as one, whose end is mispredicted each time: a 3 x 3 convolution takes 1.22 times as long
        return self.target.kind == "cpu" and trips <= 4 and trips * statements <= 512

    def kernel(self, name: str) -> list[str]:
        """The lines of the kernel."""
        body = self.body()
        shared = []
        if "shared" in self.spaces or (self.place == "shared" and "scratch" in self.spaces):
            shared = [f"    __local uchar shared[{self.shared}] __attribute__((aligned(64)));"]
        size = f"__attribute__((reqd_work_group_size({self.phase.threads}, 1, 1)))"
        if "intel_subgroups" in self.target.features:
            size += f" __attribute__((intel_reqd_sub_group_size({self.target.warp})))"
        ahead = [f"    if (!{self.params[0]}) {AHEAD}"] if self.target.kind == "cpu" and self.phase.threads == 1 else []
        return ["", f"__kernel {size} void {name}({', '.join(self.parameters())}) {{", *shared, *ahead, *body, "}"]

    def group(self) -> str:
        return "get_group_id(0)"

    def thread(self) -> str:
        return "get_local_id(0)"

    def pointer_type(self, space: str, form: DType, const: bool = False) -> str:
        return f"{self._space(space)} {'const ' if const else ''}{self.type(form)} *"

    def _space(self, space: str) -> str:
        if space == "scratch":
            return {"shared": "__local", "private": "__private", "arena": "__global", "none": "__private"}[self.place]
        return "__local" if space == "shared" else "__global"

    def array(self, name: str, size: int) -> str:
        return f"__private uchar {name}[{size}] __attribute__((aligned(64)))"

    # types -----------------------------------------------------------------------------------------------------------
    def type(self, form: DType, width: int = 1) -> str:
        name = self.TYPES[form.name]
        if name == "double":
            if "fp64" not in self.target.features:
                raise BuildError(f"{self.program.name} computes in float64, which {self.target.name} does not have: use float32")
            self.need("fp64", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        return name if width == 1 else f"{name}{width}"

    def pack(self, lanes: list[str], form: DType) -> str:
        return f"({self.type(form, len(lanes))})({', '.join(lanes)})"

    def splat(self, x: str, form: DType, width: int) -> str:
        return f"({self.type(form, width)})({x})"

    def lane(self, x: str, i: int) -> str:
        return f"{x}.s{i:x}" if x.isidentifier() else f"({x}).s{i:x}"

    def permute(self, a: str, b: str, picks: list[int], form: DType, width: int) -> str | None:
        if self.target.kind != "cpu":
            return None
        # (of vectors that are written out lane by lane, some of PoCL's code is a chain of insertions)
        names = ", ".join(f"i{n}" for n in range(width))
        name, order = f"permute_{self.type(form, width)}", f"({self.type(unsigned(form), width)})({names})"
        text = _builtin(
            "__builtin_shufflevector", name, f"a, b, {names}", f"__builtin_shufflevector(a, b, {names})", f"shuffle2(a, b, {order})"
        )
        return f"{self.need(name, text)}({a}, {b}, {', '.join(map(str, picks))})"

    def reinterpret(self, x: str, src: DType, dst: DType, width: int) -> str:
        if width == 1 and not src.is_float:
            x = f"({self.type(src)}){atom(x)}"  # a literal may be shorter
            if not dst.is_float:
                return f"({self.type(dst)}){x}"
        return f"as_{self.type(dst, width)}({x})"

    def convert_vector(self, x: str, src: DType, dst: DType, width: int) -> str:
        return f"convert_{self.type(dst, width)}({x})"

    def special(self, value: float, form: DType) -> str:
        name = "NAN" if value != value else "INFINITY"
        text = f"-{name}" if value < 0 else name
        return text if form is float32 else f"({self.type(form)}){text}"

    # operations ------------------------------------------------------------------------------------------------------
    def choose(self, mask: str, a: str, b: str, form: DType, width: int) -> str:
        return f"{atom(mask)} ? {a} : {b}"

    def call(self, name: str, args: list[str], form: DType, width: int) -> str:
        return f"{({'abs': 'fabs', 'round': 'rint'}).get(name, name)}({', '.join(args)})"

    def count(self, op: str, x: str, form: DType, width: int) -> str:
        return f"{op}({x if width > 1 else f'({self.type(form)}){atom(x)}'})"

    def count64(self, op: str) -> str:
        return op

    def native_half(self, way: str, name: str, x: str, width: int) -> str | None:
        if name != "float16":
            return None
        if not has(LANGUAGE.halves, self.target.features):
            return f"{self._moved_half(way, width)}({x})"
        self.need("fp16", "#pragma OPENCL EXTENSION cl_khr_fp16 : enable")
        n = "" if width == 1 else str(width)
        return f"convert_float{n}(as_half{n}({x}))" if way == "widen" else f"as_ushort{n}(convert_half{n}_rte({x}))"

    def _moved_half(self, way: str, width: int) -> str:
        """A function that converts as memory of `half` is loaded and stored, which every device can: processors have instructions for it.
        (PoCL converts one or two by integers, and sixteen in two parts.)"""
        n, m = "" if width == 1 else str(width), max(width, 4)
        f, u, us = self.type(float32, width), self.type(uint16, width), self.type(uint16, m)
        if width == 16 and "avx512" in self.target.features:
            text, to, of = ("vcvtph2ps %1, %0", f, u) if way == "widen" else ("vcvtps2ph $0, %1, %0", u, f)
            return self._assembly(f"{way}_half16", text, {"": to, "x": of})
        copies, cut = {1: ("(x)", ".s0"), 2: ("(x, x)", ".s01")}.get(width, ("", ""))
        if way == "widen":
            at = f"(__private const half *)&{'y' if copies else 'x'}"
            loaded = f"vload_half{m}(0, {at}){cut}" if width < 16 else f"({f})(vload_half8(0, {at}), vload_half8(1, {at}))"
            text = f"static {f} widen_half{n}({u} x) {{ {f'{us} y = ({us}){copies}; ' if copies else ''}return {loaded}; }}"
        else:
            x = f"({self.type(float32, m)}){copies}" if copies else "x"
            text = f"static {u} narrow_half{n}({f} x) {{ {us} y; vstore_half{m}_rte({x}, 0, (__private half *)&y); return y{cut}; }}"
        return self.need(f"{way}_half{n}", text)

    # instructions of processors, which drivers that are built on clang assemble ------------------------------------------
    def dot(self, s: Instr, out: Val) -> None:
        row = self.row(s)
        acc, a, b = (self._words(v, row) for v in s.args)
        self.define(out, [f"{self._dot(row)}({acc}, {a}, {b})"])

    def _words(self, v: Val, row: Instruction) -> str:
        """An operand as one vector of 32-bit words, as many as the row has lanes: the sums as they are, a group for all lanes in each."""
        pieces, widths, f = self.of(v), self.widths(v), self.form(v, 2)
        if f.size == 4:
            return pieces[0]
        words = [f"as_{self.type(int32, w * f.size // 4)}({x})" for x, w in zip(pieces, widths, strict=True)]
        return f"({self.type(int32, row.n)})({', '.join(words)})"

    def _dot(self, row: Instruction) -> str:
        """A function of the sums and both operands as words."""
        acc, words, vex = self.type(row.c, row.n), self.type(int32, row.n), "%{vex%} " if row.flag == "avxvnni" else ""
        mnemonic = row.name.removesuffix("vl").removesuffix("256")
        if row.halves == 1:
            return self._assembly(f"dot_{row.name}", f"{vex}{mnemonic} %2, %1, %0", {"acc": acc, "a": words, "b": words})
        add = self._assembly("pairs", f"{mnemonic} %2, %1, %0", {"": words, "a": words, "b": words})
        signed = self._assembly("upper_bytes", "vpsraw $8, %1, %0", {"": words, "x": words})
        even, odd = (f"{add}({a} & 0xff00ff, {signed}({b}))" for a, b in (("a", "b << 8"), ("(a >> 8)", "b")))
        return self.need(
            f"dot_{row.name}", f"static {acc} dot_{row.name}({acc} acc, {words} a, {words} b) {{ return acc + {even} + {odd}; }}"
        )

    def scale2(self, x: str, n: str, form: DType, width: int) -> str:
        if "avx512" not in self.target.features:
            return super().scale2(x, n, form, width)
        return self._lanewise("scale2", f"vscalefp{'d' if form.size == 8 else 's'} %2, %1, %0", [x, n], form, width)

    def root_guess(self, x: str, form: DType, width: int) -> str:
        if "sse41" not in self.target.features or form is not float32:
            return super().root_guess(x, form, width)
        mnemonic = "vrsqrt14ps" if "avx512" in self.target.features else "vrsqrtps" if "avx2" in self.target.features else "rsqrtps"
        return self._lanewise("root_guess", f"{mnemonic} %1, %0", [x], form, width)

    def _lanewise(self, name: str, text: str, args: list[str], form: DType, width: int) -> str:
        """An instruction of each element: of vectors that registers hold, in more than one where those are shorter, of part of one else."""
        least, most = 16 // form.size, self.target.vector_bytes // form.size
        whole, names = min(max(width, least), most), "xy"[: len(args)]
        one = self._assembly(f"{name}{whole}", text, {"": self.type(form, whole)} | dict.fromkeys(names, self.type(form, whole)))
        if width == whole:
            return f"{one}({', '.join(args)})"
        v = self.type(form, width)
        if width < whole:
            given, cut = (f"({self.type(form, whole)})({', '.join([x] * (whole // width))})" for x in names), "s0" if width == 1 else "s01"
            made = f"{one}({', '.join(given)}).{cut}"
        else:
            lanes = ["".join(f"{i:x}" for i in range(at, at + whole)) for at in range(0, width, whole)]
            parts = [", ".join(f"{x}.s{part}" for x in names) for part in lanes]
            made = f"({v})({', '.join(f'{one}({part})' for part in parts)})"
        one = self.need(f"{name}{width}", f"static {v} {name}{width}({', '.join(f'{v} {x}' for x in names)}) {{ return {made}; }}")
        return f"{one}({', '.join(args)})"

    def _assembly(self, name: str, text: str, values: dict[str, str]) -> str:
        """A function that is one instruction. `values`: the type of its result, and those of its operands by name; a result that has a name
        is an operand as well. (Assemblers take any instruction; that the processor has it is known by the target's features.)"""
        (made, result), *operands = values.items()
        out, declared = ("+" if made else "=") + "v", "" if made else f"{result} made; "
        given = ", ".join(f"{t} {n}" for n, t in values.items() if n)
        reads = ", ".join(f'"v"({n})' for n, _ in operands)
        body = f'{declared}__asm__("{text}" : "{out}"({made or "made"}) : {reads}); return {made or "made"};'
        return self.need(name, f"static {result} {name}({given}) {{ {body} }}")

    def barrier(self) -> None:
        self.line(f"barrier(CLK_LOCAL_MEM_FENCE{' | CLK_GLOBAL_MEM_FENCE' if self.fences() else ''});")

    def shuffle_xor(self, x: str, form: DType, distance: int) -> str:
        if not has(LANGUAGE.shuffles, self.target.features):
            raise BuildError(f"{self.target.name} has no shuffles between threads: lower for a target whose warp is 1")
        if "intel_subgroups" in self.target.features:
            self.need("subgroups", "#pragma OPENCL EXTENSION cl_intel_subgroups : enable")
            narrow = form is bool_ or form.size < 4
            return (
                f"{f'({self.type(form)})' if narrow else ''}intel_sub_group_shuffle_xor({f'(int){atom(x)}' if narrow else x}, {distance})"
            )
        self.need("subgroups", "#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable")
        return f"sub_group_shuffle_xor({f'(int){x}' if form is bool_ else x}, {distance})"

    def address(self, pointer: str) -> str:
        return f"(size_t){pointer}"

    @cached_property
    def _spread_out(self) -> set[int]:
        """Scalars that become vectors, by id."""
        return {s.args[0].id for s in statements(self.phase.body) if isinstance(s, Instr) and s.op == "splat"}

    def separate_load(self, at: str, mem: Mem, out: Val) -> str:
        # neighbours that are loaded in a loop LLVM would keep for the next round, gather, and permute out of vectors: an instruction
        # that loads an element into all lanes is best (gradients of convolutions in half the time)
        if self.target.kind != "cpu" or not out.depth or not mem.dtype.is_float or mem.dtype.narrow or out.id not in self._spread_out:
            return at
        return f"(({self._space(mem.space)} const volatile {self.type(mem.dtype)} *){at})"

    # memory ----------------------------------------------------------------------------------------------------------
    def load_vector(self, at: str, mem: Mem, width: int, align: int) -> str:
        m = memory(mem.dtype)
        if align >= width * m.size:
            return f"*({self._space(mem.space)} const {self.type(m, width)} *)({at})"
        return f"vload{width}(0, {at})"

    def load_masked(self, at: str, mem: Mem, width: int, align: int, bools: list[str], mask: str) -> str:
        m = memory(mem.dtype)
        lanes = [f"{atom(b)} ? ({at})[{i}] : {self.literal(0, m)}" for i, b in enumerate(bools)]
        return f"all({mask}) ? {self.load_vector(at, mem, width, align)} : {self.pack(lanes, m)}"

    def prefetch(self, at: str) -> None:
        self.line(f"{self.need('fetch_line', _FETCH_LINE)}({at});")

    def store_vector(self, at: str, x: str, mem: Mem, width: int, align: int) -> None:
        m = memory(mem.dtype)
        if align >= width * m.size and mem.nt:
            self.line(f"{self.need('store_streaming', _STORE_STREAMING)}({x}, ({self._space(mem.space)} {self.type(m, width)} *)({at}));")
        elif align >= width * m.size:
            self.line(f"*({self._space(mem.space)} {self.type(m, width)} *)({at}) = {x};")
        else:
            self.line(f"vstore{width}({x}, 0, {at});")

    def store_masked(self, at: str, x: str, mem: Mem, width: int, bools: list[str], mask: str) -> None:
        for i, b in enumerate(bools):
            self.line(f"if ({b}) ({at})[{i}] = {self.lane(x, i)};")

"""Programs as CUDA C++ for NVRTC: scalars, with vector loads and stores where addresses are known to be aligned.

Kernels are named and called as `program.abi` says. Nothing is included. All that is CUDA's goes by its usual names (threadIdx, blockIdx,
__syncthreads, __shfl_xor_sync, __stcs, float4 and make_float4, __float_as_int …), and what has an instruction but no name is a small
function around inline PTX with a plain C++ form beside it, which TILEWRIGHT_HOST chooses: so the same text runs on a processor under
a header that defines those names. Build with --fmad=false: a Program says where a product and a sum are one rounding.

Shared memory up to 48 KiB is declared with its size; above that the array has none, and the launch gives `abi.dynamic_shared` bytes,
for which the driver must be asked first."""

from __future__ import annotations

from typing import ClassVar

from ...ir.dtypes import FORMATS, DType, bool_, float32, index, uint8, uint16, uint32, uint64
from ...program import abi
from ...program.program import Instr, Program
from ...targets.languages import language
from ...targets.table import rates_of
from ...targets.target import Target
from ...targets.tensor_rows import COEFFICIENTS, FAR
from . import c_helpers, c_ops, cuda_hopper, cuda_tensor
from .c_emitter import GroupEmitter, Table, atom, prelude
from .c_memory import VectorAccess, address
from .cuda_hopper import HopperEmitter

# cuda async -------------------------------------------------------------------------------------------------
# CUDA's copies from global to shared memory that go on beside the thread: cp.async, its groups and waits.
#
# The forms are those of the PTX ISA (9.7.9.25, "Data Movement and Conversion Instructions: Asynchronous copy", compute
# capability 8.0 and above): `cp.async.cg` moves 16 bytes past the L1 cache, `cp.async.ca` 8 or 4 through it; with a
# source size of 0 they read nothing and write zeros. On a processor, under the header of `devices.cuda.host`, the
# functions call its model of them.


_HOST = "tilewright_host::"


class AsyncCopies(VectorAccess):
    """The part of CUDA's emitter that copies without waiting."""

    def copy_async(self, s: Instr) -> None:
        c = s.copy
        args = [address(self, c.to, s.args[0], c.to.offset), address(self, c.source, s.args[1], c.source.offset)]
        mask = self.of(s.args[2])[0] if len(s.args) > 2 else "true"
        self.line(f"{self._copier(c.bytes)}({', '.join([*args, mask])});")

    def commit(self) -> None:
        body = self._either('asm volatile("cp.async.commit_group;" ::: "memory");', f"{_HOST}commit(__LINE__);")
        self.line(f"{self.need('cp_async_commit', f'{self.INLINE}void cp_async_commit() {{{body}}}')}();")

    def wait(self, groups: int) -> None:
        body = self._either('asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");', f"{_HOST}wait(__LINE__, N);")
        self.need("cp_async_wait", f"template <int N>\n{self.INLINE}void cp_async_wait() {{{body}}}")
        self.line(f"cp_async_wait<{groups}>();")

    def _copier(self, size: int) -> str:
        """The function that begins a copy of so many bytes; `on` false: zeros."""
        u, way, name = self.type(uint32), "cg" if size == 16 else "ca", f"cp_async{size}"
        body = self._either(
            f'asm volatile("cp.async.{way}.shared.global [%0], [%1], {size}, %2;" :: "r"(({u})__cvta_generic_to_shared(to)), "l"(from), '
            f'"r"(on ? {size} : 0) : "memory");',
            f"{_HOST}copy(__LINE__, to, from, {size}, on);",
        )
        return self.need(name, f"{self.INLINE}void {name}(void *to, const void *from, bool on) {{{body}}}")

    @staticmethod
    def _either(ptx: str, plain: str) -> str:
        return f"\n#if defined(__CUDA_ARCH__)\n    {ptx}\n#else\n    {plain}\n#endif\n"


LANGUAGE = language("cuda")
OPS: Table = {**c_ops.table(LANGUAGE), **cuda_hopper.TABLE, "cast": cuda_tensor.tensor_cast, "shuffle": cuda_tensor.shuffle}
"""What writes each operation of Programs."""
_REGISTERS, _WARP = 65536, 32


def render(program: Program, target: Target) -> str:
    """The text of a translation unit, a kernel a phase. Raises BuildError for a Program that CUDA cannot express."""
    helpers: dict[str, str] = {}
    kernels: list[str] = []
    for i, phase in enumerate(program.phases):
        kernels += CudaEmitter(program, target, phase, helpers, LANGUAGE.vectors).kernel(abi.entry(program.signature, i))
    return "\n".join([f"// {program.name} for {target.name}", *prelude(helpers), *kernels, ""])


class CudaEmitter(HopperEmitter, AsyncCopies, GroupEmitter):
    """Writes one phase as a kernel."""

    LANGUAGE, TABLE = LANGUAGE, OPS
    TYPES: ClassVar[dict[str, str]] = {
        "float64": "double", "float32": "float", "int64": "i64", "int32": "int", "int16": "i16", "int8": "i8",
        "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool",
    }  # fmt: skip
    INLINE = "static __device__ __forceinline__ "
    RESTRICT = "__restrict__"

    _BASES: ClassVar[dict[str, str]] = {
        "i64": "long long", "u64": "unsigned long long", "u32": "unsigned int", "u16": "unsigned short", "i16": "short", "i8": "signed char", "u8": "unsigned char",
    }  # fmt: skip

    def kernel(self, name: str) -> list[str]:
        """The lines of the kernel."""
        body = self.body()
        shared = []
        asynchronous = self.phase.asynchronous
        if "shared" in self.spaces or asynchronous:
            size = "" if abi.dynamic_shared(self.signature, self.target, self.number) else str(self.shared)
            shared = [
                f"    {'' if size else 'extern '}__shared__ __align__({1024 if asynchronous else 16}) {self.type(uint8)} shared[{size}];"
            ]
        cluster = f"__cluster_dims__({self.phase.cluster}, 1, 1) " if self.phase.cluster > 1 else ""
        head = f'extern "C" __global__ void {cluster}__launch_bounds__({self._bounds()}) {name}({", ".join(self.parameters())}) {{'
        return ["", head, *shared, *body, "}"]

    def _bounds(self) -> str:
        """Threads a group, and where registers are capped the groups that fit a multiprocessor then."""
        threads = self.phase.threads
        if self.phase.asynchronous:
            return f"{threads}, 1"  # setmaxnreg wants it
        if not self.program.regs:
            return str(threads)
        warps = -(-threads // _WARP)
        most = rates_of(self.target).threads // _WARP // warps
        groups = _REGISTERS // (warps * _WARP * -(-self.program.regs // 8) * 8)
        return f"{threads}, {max(1, min(groups, most, 32))}"

    def group(self) -> str:
        return "blockIdx.x"

    def thread(self) -> str:
        return "threadIdx.x"

    def pointer_type(self, space: str, form: DType, const: bool = False) -> str:
        return f"{'const ' if const else ''}{self.type(form)} *"

    def array(self, name: str, size: int) -> str:
        return f"__align__(16) {self.type(uint8)} {name}[{size}]"

    # types -----------------------------------------------------------------------------------------------------------
    def type(self, form: DType, width: int = 1) -> str:
        name = self.TYPES[form.name]
        return self.need(name, f"typedef {self._BASES[name]} {name};") if name in self._BASES else name

    def reinterpret(self, x: str, src: DType, dst: DType, width: int) -> str:
        if src.is_float == dst.is_float:
            return f"({self.type(dst)}){atom(x)}"
        if src is float32:
            return f"__float_as_{'uint' if dst is uint32 else 'int'}({x})"
        if dst is float32:
            return f"__{'uint' if src is uint32 else 'int'}_as_float({x})"
        if src.is_float:
            return f"{f'({self.type(uint64)})' if dst is uint64 else ''}__double_as_longlong({x})"
        return f"__longlong_as_double({f'({self.type(index)}){atom(x)}' if src is uint64 else x})"

    def special(self, value: float, form: DType) -> str:
        name, bits = ("not_a_number", "0x7fffffff") if value != value else ("infinity", "0x7f800000")
        self.need(name, f"{self.INLINE}float {name}() {{\n    return __int_as_float({bits});\n}}")
        text = f"{'-' if value < 0 else ''}{name}()"
        return text if form is float32 else f"({self.type(form)}){text}"

    # operations ------------------------------------------------------------------------------------------------------
    def call(self, name: str, args: list[str], form: DType, width: int) -> str:
        c = {"abs": "fabs", "round": "rint"}.get(name, name)
        return f"{c}{'f' if form is float32 else ''}({', '.join(args)})"

    def count64(self, op: str) -> str:
        return "__clzll" if op == "clz" else "__popcll"

    def extreme(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        plain = super().extreme(op, "a", "b", form, width)
        t, name = self.type(form), f"{op}_{self.type(form)}"
        if form is float32:
            body = self.instruction(
                f'float y;\n    asm("{op}.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));\n    return y;', f"return {plain};"
            )
        else:
            body = f"    return {plain};"
        return f"{self.need(name, f'{self.INLINE}{t} {name}({t} a, {t} b) {{{chr(10)}{body}{chr(10)}}}')}({a}, {b})"

    def exp2(self, x: str, form: DType, width: int) -> str:
        poly = repr(COEFFICIENTS[-1])
        for c in reversed(COEFFICIENTS[:-1]):
            poly = f"({poly} * f + {c!r})"
        plain = (
            f"double y = x < {-FAR} ? {-FAR} : x > {FAR} ? {FAR} : (double)x;\n    double n = rint(y), f = y - n;\n    if (x != x) return x;\n"
            f"    return (float)({poly} * __longlong_as_double(((long long)n + 1023) << 52));"
        )
        body = self.instruction('float y;\n    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));\n    return y;', plain)
        return f"{self.need('exp2_approx', f'{self.INLINE}float exp2_approx(float x) {{{chr(10)}{body}{chr(10)}}}')}({x})"

    def native_half(self, way: str, name: str, x: str, width: int) -> str | None:
        plain = c_helpers.plain(self, way, name, 1)
        if FORMATS[name].size == 8:
            return self._native_8bit(way, name, x, plain)
        source, result = ("h", "f") if way == "widen" else ("f", "h")
        short = "f16" if name == "float16" else "bf16"
        if way == "widen" and name == "bfloat16":
            return None  # a shift
        op = f"cvt.f32.{short}" if way == "widen" else f"cvt.rn.{short}.f32"
        f, u = self.type(float32), self.type(uint16)
        a, b = (u, f) if way == "widen" else (f, u)
        body = self.instruction(f'{b} y;\n    asm("{op} %0, %1;" : "={result}"(y) : "{source}"(x));\n    return y;', "\n    ".join(plain))
        full = f"{way}_{name}"
        self.need(full, f"{self.INLINE}{b} {full}({a} x) {{\n{body}\n}}")
        return f"{full}({x})"

    def _native_8bit(self, way: str, name: str, x: str, plain: list[str]) -> str:
        """Instructions of compute capability 8.9 (PTX ISA 9.0, "cvt": two numbers at once, .satfinite must be said). They
        clamp what is too large, which a plain cast does not."""
        kind, f = "e4m3x2" if name == "float8_e4m3" else "e5m2x2", FORMATS[name]
        float_, byte = self.type(float32), self.type(uint8)
        if way == "widen":
            a, b = byte, float_
            ptx = (
                f'{b} y;\n    asm("{{.reg .b32 t; .reg .b16 l, h; cvt.rn.f16x2.{kind} t, %1; mov.b32 {{l, h}}, t; cvt.f32.f16 %0, l;}}"'
                f' : "=f"(y) : "h"(({self.type(uint16)})x));\n    return y;'
            )
        else:
            a, b, u = float_, byte, self.type(uint32)
            ptx = "\n    ".join(
                [
                    f"{self.type(uint16)} y;",
                    f'asm("cvt.rn.satfinite.{kind}.f32 %0, %2, %1;" : "=h"(y) : "f"(x), "f"(0.0f));',
                    f"{u} bits = {self.reinterpret('x', float32, uint32, 1)};",
                    f"{u} magnitude = bits & 0x7fffffffu;",
                    f"{u} large = (bits >> 24 & 0x80u) | (magnitude > 0x7f800000u ? {f.nan:#x}u : {f.top:#x}u);",
                    f"return ({b})(magnitude > {f.overflow:#x}u ? large : y);",
                ]
            )
        body = self.instruction(ptx, "\n    ".join(plain), 890)
        full = self.need(f"{way}_{name}", f"{self.INLINE}{b} {way}_{name}({a} x) {{\n{body}\n}}")
        return f"{full}({x})"

    def barrier(self) -> None:
        self.line("__syncthreads();")

    def shuffle_xor(self, x: str, form: DType, distance: int) -> str:
        full, rest = divmod(self.phase.threads, _WARP)
        tail = f"{(1 << rest) - 1:#x}u"
        mask = "0xffffffffu" if not rest else tail if not full else f"{self.thread()} < {full * _WARP} ? 0xffffffffu : {tail}"
        if form is bool_ or form.size < 4:
            return f"({self.type(form)})__shfl_xor_sync({mask}, (int){atom(x)}, {distance})"
        return f"__shfl_xor_sync({mask}, {x}, {distance})"

    def address(self, pointer: str) -> str:
        return f"({self.type(uint64)}){pointer}"

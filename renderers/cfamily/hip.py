"""Programs as HIP C++ for AMD's GPUs: what CUDA's text is, less inline PTX, with warps ("waves") of 64 or 32 threads.

The text is for hipcc, for clang's HIP front end and for hiprtc, which needs no include. Products and sums are kept apart by a pragma,
since HIP contracts them otherwise. float16 is converted by the processor's instructions; bfloat16 and 8-bit floats in integer code:
those of gfx942 are other types (e4m3fnuz and e5m2fnuz: other biases, one NaN, no minus zero; AMD, "CDNA3 Instruction Set Architecture",
2024, 7.5). Shared memory is declared with its size, as up to 64 KiB may be. There is no device that runs the text: it is here to be
compiled elsewhere (`tune show --target gfx90a --source`), and the tests compile it where clang is installed (docs/gpu.md)."""

from __future__ import annotations

from ...ir.dtypes import DType, bool_, float32, uint16
from ...program import abi
from ...program.program import Program
from ...targets.languages import language
from ...targets.target import Target
from . import c_ops
from .c_emitter import atom, prelude
from .cuda import CudaEmitter

LANGUAGE = language("hip")
OPS = dict(c_ops.table(LANGUAGE))
"""What writes each operation of Programs."""
_HEAD = """#ifndef __HIPCC_RTC__
#include <hip/hip_runtime.h>
#endif
#pragma clang fp contract(off)"""


def render(program: Program, target: Target) -> str:
    """The text of a translation unit, a kernel a phase. Raises BuildError for a Program that HIP cannot express."""
    helpers: dict[str, str] = {}
    kernels: list[str] = []
    for i, phase in enumerate(program.phases):
        kernels += HipEmitter(program, target, phase, helpers, LANGUAGE.vectors).kernel(abi.entry(program.signature, i))
    return "\n".join([f"// {program.name} for {target.name}", _HEAD, *prelude(helpers), *kernels, ""])


class HipEmitter(CudaEmitter):
    """Writes one phase as a kernel."""

    LANGUAGE, TABLE = LANGUAGE, OPS

    def _bounds(self) -> str:
        """Threads a group: a cap of registers is no part of HIP's bounds."""
        return str(self.phase.threads)

    def extreme(self, op: str, a: str, b: str, form: DType, width: int) -> str:
        t, name, plain = self.type(form), f"{op}_{self.type(form)}", super(CudaEmitter, self).extreme(op, "a", "b", form, width)
        self.need(name, f"{self.INLINE}{t} {name}({t} a, {t} b) {{\n    return {plain};\n}}")
        return f"{name}({a}, {b})"

    def native_half(self, way: str, name: str, x: str, width: int) -> str | None:
        if name != "float16":
            return None
        if way == "widen":
            return f"({self.type(float32)})__builtin_bit_cast(_Float16, {x})"
        return f"__builtin_bit_cast({self.type(uint16)}, (_Float16){atom(x)})"

    def shuffle_xor(self, x: str, form: DType, distance: int) -> str:
        """All lanes of a wave take part, those past the end of a group too: they are not there to be asked."""
        if form is bool_ or form.size < 4:
            return f"({self.type(form)})__shfl_xor((int){atom(x)}, {distance})"
        return f"__shfl_xor({x}, {distance})"

"""Tensor cores in CUDA text: `mma` and `ldmatrix` are calls of small functions around inline PTX, with a model in C++ beside it that
TILEWRIGHT_HOST chooses (devices/cuda/host_tensor.hpp).

A fragment of elements below 32 bits lies in 32-bit registers, several in each. A value that is in such registers already stays there:
what `ldmatrix` or an aligned load gives, and the halves that a shuffle takes of it, go to `mma` as they are.

PTX: "Warp-level matrix instructions: mma.sync.aligned" and "ldmatrix" of the PTX ISA. Both are volatile, so that the compiler leaves
them where all threads of the warp come by."""

from __future__ import annotations

from ...ir.dtypes import float32, uint16, uint32
from ...program.program import Block, Instr, Phase, Program, Val
from ...targets.target import Target
from ...targets.tensor_rows import BY_NAME, TensorRow
from .c_emitter import CFamilyEmitter
from .c_memory import VectorAccess, address
from .c_ops import cast, lane_shuffle
from .c_types import form

MODEL = "tilewright_tensor"
"""The namespace of the C++ models."""
_PTX = {
    "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "int8": "s8", "uint8": "u8", "float8_e4m3": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
_PAIRS = {"float16": "f16x2", "bfloat16": "bf16x2"}
_SUMS = {"float32": ("f32", "float", "f"), "float16": ("f16", "u32", "r"), "int32": ("s32", "int", "r")}
"""The accumulators' types: PTX's type, the text's, and the letter of the register."""
_RESULTS = {"f32": "F32", "e8m13": "E8m13", "f16": "Half"}


def shuffle(e: CFamilyEmitter, s: Instr) -> None:
    """`shuffle`: whole registers change places as such."""
    assert isinstance(e, TensorText)
    words = e.shuffled_registers(s)
    if words is None:
        lane_shuffle(e, s)
    else:
        e.hold(s.result, words)


def tensor_cast(e: CFamilyEmitter, s: Instr) -> None:
    """`cast`: what 16-bit floats were made of is remembered, since two are packed and rounded by one instruction."""
    assert isinstance(e, TensorText)
    cast(e, s)
    (a,), out = s.args, s.result
    if out.dtype.name in _PAIRS and a.dtype is float32:
        e.narrowed.update({x: (out.dtype.name, y) for x, y in zip(e.lanes(out), e.lanes(a), strict=True)})


class TensorText(VectorAccess):
    """The part of CUDA's emitter that writes instructions of tensor cores."""

    def __init__(self, program: Program, target: Target, phase: Phase, helpers: dict[str, str], widest: int) -> None:
        super().__init__(program, target, phase, helpers, widest)
        self.narrowed: dict[str, tuple[str, str]] = {}
        """16-bit floats that were float32: their type, and the float32, by name."""

    def _inner(self, block: Block) -> None:
        # what was packed inside a block is not declared behind it
        outside = dict(self.registers)
        super()._inner(block)
        self.registers = outside

    # registers ---------------------------------------------------------------------------------------------------------
    def hold(self, v: Val, words: list[str]) -> None:
        """Let a value be in these 32-bit registers."""
        self.registers[v.id] = words
        f, size = form(v.dtype), v.dtype.size
        if size == 4:
            self.alias(v, [x if f is uint32 else self.reinterpret(x, uint32, f, 1) for x in words])
        else:
            shifted = [f"({x} >> {bit})" if bit else x for x in words for bit in range(0, 32, 8 * size)]
            self.alias(v, [f"({self.type(f)}){x}" for x in shifted])

    def words(self, v: Val) -> list[str]:
        """The 32-bit registers that hold a value's elements, packed now where they are not."""
        found = self.registers.get(v.id)
        if found is not None:
            return found
        f, values = form(v.dtype), self.lanes(v)
        if f.size == 4:
            texts = values if f is uint32 else [self.reinterpret(x, f, uint32, 1) for x in values]
            return texts
        texts, q = self._packed(values) if f.size == 2 else self._words(values, f), self.fresh("r")
        names = [f"{q}_{i}" for i in range(len(texts))]
        self.line(f"{self.type(uint32)} {', '.join(f'{n} = {x}' for n, x in zip(names, texts, strict=True))};")
        self.registers[v.id] = names
        return names

    def _packed(self, values: list[str]) -> list[str]:
        """Elements of 16 bits, two in each word."""
        out = []
        for low, high in zip(values[::2], values[1::2], strict=True):
            a, b = self.narrowed.get(low), self.narrowed.get(high)
            if a is None or b is None or a[0] != b[0]:
                out += self._words([low, high], uint16)
                continue
            name, u = f"pack_{a[0]}", self.type(uint32)
            ptx = f'{u} y;\n    asm("cvt.rn.{_PAIRS[a[0]]}.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));\n    return y;'
            plain = f"return ({u})narrow_{a[0]}(low) | ({u})narrow_{a[0]}(high) << 16;"
            self.need(name, f"{self.INLINE}{u} {name}(float low, float high) {{\n{self.instruction(ptx, plain)}\n}}")
            out.append(f"{name}({a[1]}, {b[1]})")
        return out

    @staticmethod
    def instruction(ptx: str, plain: str, least: int = 800) -> str:
        """The body of a function: PTX of a compute capability (8.0) and above, or plain C++."""
        return f"#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= {least}\n    {ptx}\n#else\n    {plain}\n#endif"

    def shuffled_registers(self, s: Instr) -> list[str] | None:
        """The registers that a shuffle gives, where it takes only whole ones; else None."""
        each = 4 // s.result.dtype.size if s.result.dtype.size < 4 else 0
        if not each or s.result.lanes % each:
            return None
        from_ = [(v, lane) for v in s.args for lane in range(v.lanes)]
        out = []
        for i in range(0, s.result.lanes, each):
            some = [from_[p] for p in s.picks[i : i + each]]
            v, first = some[0]
            if v.id not in self.registers or first % each or some != [(v, first + k) for k in range(each)]:
                return None
            out.append(self.registers[v.id][first // each])
        return out

    # instructions ------------------------------------------------------------------------------------------------------
    def mma(self, s: Instr) -> None:
        row, (acc, a, b), out = BY_NAME[str(s.attr)], s.args, s.result
        packed = row.c.size == 2
        start = self.words(acc) if packed else self.lanes(acc)
        names = [f"{stem}_{i}" for stem in [self.fresh("v")] for i in range(len(start))]
        t = self.type(uint32) if packed else self.type(row.c)
        self.line(f"{t} {', '.join(f'{n} = {x}' for n, x in zip(names, start, strict=True))};")
        self._need_mma(row)
        self.line(f"{row.helper}({', '.join([*names, *self.words(a), *self.words(b)])});")
        if packed:
            self.hold(out, names)
        else:
            self.alias(out, names)

    def _need_mma(self, row: TensorRow) -> None:
        ptx, t, letter = _SUMS[row.c.name]
        t = self.type(uint32) if t == "u32" else t
        counts = [row.elements(x) * d.size // 4 for x, d in (("c", row.c), ("a", row.a), ("b", row.b))]
        u = self.type(uint32)
        params = [f"{kind}{x}{i}" for kind, x, n in zip((f"{t} &", f"{u} ", f"{u} "), "cab", counts, strict=True) for i in range(n)]
        groups, at = [], 0
        for n in counts:
            groups.append(f"{{{', '.join(f'%{at + i}' for i in range(n))}}}")
            at += n
        sums = ", ".join(f'"+{letter}"(c{i})' for i in range(counts[0]))
        rest = ", ".join(f'"r"({x}{i})' for x, n in zip("ab", counts[1:], strict=True) for i in range(n))
        shape = row.name.split(".")[1]
        name = f"mma.sync.aligned.{shape}.row.col.{ptx}.{_PTX[row.a.name]}.{_PTX[row.b.name]}.{ptx}"
        body = f'asm volatile("{name} {groups[0]}, {groups[1]}, {groups[2]}, {groups[0]};"\n        : {sums}\n        : {rest});'
        model = f"{MODEL}::mma(__LINE__, {chr(34)}{row.helper}{chr(34)}, {self._model(row)}, __VA_ARGS__)"
        self._choice(row.helper, params, body, f"#define {row.helper}(...) {model}")

    def _model(self, row: TensorRow) -> str:
        """The function that computes the tile."""
        a, b = (_PTX[d.name].capitalize() for d in (row.a, row.b))
        if not row.rules:
            return f"({MODEL}::multiply_integers<{MODEL}::{a}, {MODEL}::{b}>)"
        rule = row.rules[self.program.generation]
        types = f"{MODEL}::{a}, {MODEL}::{b}, {MODEL}::{_RESULTS[rule.result]}"
        return f"({MODEL}::multiply<{types}, {rule.terms}, {rule.fraction}, {rule.zero}, {str(rule.widened).lower()}>)"

    def _choice(self, name: str, params: list[str], body: str, model: str) -> None:
        """A function of PTX, or its model."""
        self.need(name, f"#ifdef TILEWRIGHT_HOST\n{model}\n#else\n{self.INLINE}void {name}({', '.join(params)}) {{\n    {body}\n}}\n#endif")

    def ldmatrix(self, s: Instr) -> None:
        out, mem, transposed = s.result, s.mem, s.op == "ldmatrix_t"
        count, u = out.lanes * mem.dtype.size // 4, self.type(uint32)
        name, q = f"ldmatrix_x{count}{'_t' if transposed else ''}", self.fresh("q")
        registers = [f"{q}_{i}" for i in range(count)]
        ptx = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
        places = ", ".join(f"%{i}" for i in range(count))
        outs = ", ".join(f'"=r"(r{i})' for i in range(count))
        body = (
            f'asm volatile("{ptx} {{{places}}}, [%{count}];"\n        : {outs}\n'
            f'        : "r"(({u})__cvta_generic_to_shared(row)) : "memory");'
        )
        model = f"{MODEL}::ldmatrix<{'true' if transposed else 'false'}>(__LINE__, {chr(34)}{name}{chr(34)}, __VA_ARGS__)"
        self._choice(name, ["const void *row", *(f"{u} &r{i}" for i in range(count))], body, f"#define {name}(...) {model}")
        self.line(f"{u} {', '.join(registers)};")
        self.line(f"{name}({', '.join([address(self, mem, s.args[0], mem.offset), *registers])});")
        self.hold(out, registers)

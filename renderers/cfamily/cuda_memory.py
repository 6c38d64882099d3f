"""Vector loads and stores of CUDA: 16, 8 or 4 bytes at once where the address is known to be aligned, into scalars.

Elements of 4 and 8 bytes go through CUDA's own vectors (float4, int2, double2 …); smaller ones are cut out of 32-bit words."""

from __future__ import annotations

from ...ir.dtypes import DType, uint8, uint16, uint32
from ...program.program import Mem, Phase, Program, Val
from ...targets.target import Target
from .dialect import atom
from .emitter import CFamilyEmitter
from .memory import address, alignment, element, pointer, stored
from .types import memory

_NAMES = {"float32": "float", "int32": "int", "uint32": "uint", "float64": "double", "int64": "longlong", "uint64": "ulonglong"}
_MEMBERS = "xyzw"


def chunks(mem: Mem, lanes: int) -> list[int]:
    """How many elements each access takes; 1 is a scalar."""
    m, out, at = memory(mem.dtype), [], 0
    while at < lanes:
        n = next((n for n in (16 // m.size, 8 // m.size, 4 // m.size) if 1 < n <= lanes - at and alignment(mem, at) >= n * m.size), 1)
        out.append(n)
        at += n
    return out


class VectorAccess(CFamilyEmitter):
    """The part of CUDA's emitter that moves several elements at once."""

    def __init__(self, program: Program, target: Target, phase: Phase, helpers: dict[str, str], widest: int) -> None:
        super().__init__(program, target, phase, helpers, widest)
        self.registers: dict[int, list[str]] = {}
        """Values of small elements that lie in 32-bit registers, several in each, by id."""
        self._types: dict[str, str] = {}
        """Types of vectors that were loaded, by name."""

    def load_whole(self, mem: Mem, at: Val, cond: str | None, out: Val) -> list[str] | None:
        sizes = chunks(mem, out.lanes)
        if max(sizes) == 1:
            return None
        m, texts, words = memory(mem.dtype), [], []
        for start, n in _starts(sizes):
            i = mem.offset + start
            if n == 1:
                text, zero = f"{pointer(self, mem)}[{element(self, at, i)}]", self.literal(0, m)
            else:
                t, members = self._vector(m, n)
                text = f"*(const {t} *)({address(self, mem, at, i)})"
                if mem.nt and self.LANGUAGE.nontemporal:
                    text = f"__ldcs((const {t} *)({address(self, mem, at, i)}))"
                zero = f"make_{t}({', '.join(['0'] * members)})" if members > 1 else "0u"
            text = f"{atom(cond)} ? {text} : {zero}" if cond else text
            if n == 1:
                texts.append(text)
                continue
            q = self.fresh("q")
            self._types[q] = t
            self.line(f"{t} {q} = {text};")
            texts += self._elements(q, m, n)
            words += [q] if n * m.size == 4 else [f"{q}.{x}" for x in _MEMBERS[: n * m.size // 4]]
        if m.size < 4 and 1 not in sizes:
            self.registers[out.id] = words
        return texts

    def store_whole(self, mem: Mem, at: Val, value: Val) -> bool:
        sizes = chunks(mem, value.lanes)
        if max(sizes) == 1:
            return False
        m, values = memory(mem.dtype), stored(self, mem, value)
        for start, n in _starts(sizes):
            i = mem.offset + start
            if n == 1:
                self.line(f"{pointer(self, mem)}[{element(self, at, i)}] = {values[start]};")
                continue
            t, members = self._vector(m, n)
            parts = values[start : start + n] if m.size >= 4 else self._words(values[start : start + n], m)
            whole = f"make_{t}({', '.join(parts)})" if members > 1 else parts[0]
            q = parts[0].partition(".")[0]
            if self._types.get(q) == t and parts == [f"{q}.{x}" for x in _MEMBERS[:members]]:
                whole = q
            where = f"({t} *)({address(self, mem, at, i)})"
            self.line(f"__stcs({where}, {whole});" if mem.nt and self.LANGUAGE.nontemporal else f"*{where} = {whole};")
        return True

    def _vector(self, m: DType, n: int) -> tuple[str, int]:
        """(type that holds n elements, its members)."""
        if m.size >= 4:
            return f"{_NAMES[m.name]}{n}", n
        words = n * m.size // 4
        return (f"uint{words}", words) if words > 1 else (self.type(uint32), 1)

    def _elements(self, q: str, m: DType, n: int) -> list[str]:
        if m.size >= 4:
            return [f"{q}.{_MEMBERS[i]}" for i in range(n)]
        out = []
        for i in range(n):
            word, bit = divmod(8 * m.size * i, 32)
            x = f"{q}.{_MEMBERS[word]}" if n * m.size > 4 else q
            out.append(f"({self.type(m)}){f'({x} >> {bit})' if bit else x}")
        return out

    def _words(self, values: list[str], m: DType) -> list[str]:
        """Small elements side by side in 32-bit words."""
        byte = f"({self.type(uint8)})" if m.size == 1 and m.kind == "i" else f"({self.type(uint16)})" if m.kind == "i" else ""
        u, n = self.type(uint32), 4 // m.size
        return [
            " | ".join(f"({u}){byte}{atom(x)}" + (f" << {8 * m.size * k}" if k else "") for k, x in enumerate(values[i : i + n]))
            for i in range(0, len(values), n)
        ]


def _starts(sizes: list[int]) -> list[tuple[int, int]]:
    out, at = [], 0
    for n in sizes:
        out.append((at, n))
        at += n
    return out

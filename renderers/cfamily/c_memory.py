"""Loads and stores in C-like languages: places, masks, gathers.

A mask that is the same in all lanes is a condition around the whole access; other masked accesses touch their lanes one by one."""

from __future__ import annotations

import re

from ...ir.dtypes import DType, bool_, index, int8, int32, int64, uint8, uint16, uint32
from ...ir.errors import BuildError
from ...program.facts import INT32, inside
from ...program.program import Instr, Mem, Phase, Program, Val
from ...targets.target import Target
from .c_emitter import CFamilyEmitter, atom
from .c_types import MASKS, form, memory


def pointer(e: CFamilyEmitter, mem: Mem) -> str:
    """The name of a typed pointer to what `mem` is in."""
    return e.params[mem.base] if mem.space == "param" else e.pointers[mem.space, mem.base, memory(mem.dtype)]


def element(e: CFamilyEmitter, at: Val, more: int) -> str:
    """The text of an index plus a constant; 32 bits only where the sum fits."""
    (x,) = e.of(at)
    if not x.lstrip("-").isdigit():
        if more == 0:
            return x
        r = e.intervals.of(at)
        if e.form(at) is int32 and not (r is not None and inside((r[0] + more, r[1] + more), INT32)):
            x = f"({e.type(int64)}){x}"
        return f"{x} + {more}" if more > 0 else f"{x} - {-more}"
    return str(int(x) + more)


def place(e: CFamilyEmitter, mem: Mem, at: Val, more: int) -> tuple[str, str]:
    """A pointer and the text of an index from there. What a sum has from an outer loop is added to the pointer, where the emitter notes sums:
    of indices that are added in a loop LLVM makes vectors, and takes them apart again for each access (float64 products at 1.3 times)."""
    outer, inner = e.sums.get(at.id, (None, at))
    if outer is None:
        return pointer(e, mem), element(e, at, more)
    return f"({pointer(e, mem)} + {e.of(outer)[0]})", element(e, inner, more)


def address(e: CFamilyEmitter, mem: Mem, at: Val, more: int) -> str:
    """The address of an element."""
    base, where = place(e, mem, at, more)
    return base if where == "0" else f"{base} + {where}"


def alignment(mem: Mem, more: int) -> int:
    """The alignment known for the element `more` after the accessed one."""
    align, skip = max(mem.align, 1), more * mem.dtype.size
    return align if skip % align == 0 else skip & -skip


def load(e: CFamilyEmitter, s: Instr) -> None:
    """`load` and `gather`."""
    mem, out = s.mem, s.result
    mask = s.args[1] if len(s.args) > 1 else None
    find = _gather if s.op == "gather" and out.lanes > 1 else _consecutive
    texts = find(e, mem, s.args[0], mask, out)
    if mem.dtype is bool_:
        zeros = [e.literal(0, uint8) if w > 1 else "0" for w in e.widths(out)]
        texts = [f"{atom(x)} != {zero}" for x, zero in zip(texts, zeros, strict=True)]
    if all(re.fullmatch(r"[\w.]+", x) for x in texts):
        e.alias(out, texts)  # parts of a vector that was loaded whole
    else:
        e.define(out, texts, int8 if mem.dtype is bool_ else None)


def _consecutive(e: CFamilyEmitter, mem: Mem, at: Val, mask: Val | None, out: Val) -> list[str]:
    m, one = memory(mem.dtype), _uniform_condition(e, mask)
    whole = e.load_whole(mem, at, one, out) if mask is None or one is not None else None
    if whole is not None:
        return whole
    bools, masks = _by_lane(e, mask, m) if one is None else ([], [])
    texts, start = [], 0
    for k, w in enumerate(e.widths(out)):
        i = mem.offset + start
        if w == 1:
            base, where = place(e, mem, at, i)
            text, zero = f"{e.separate_load(base, mem, out)}[{where}]", e.literal(0, m)
            cond = one or (bools[start] if bools else None)
            texts.append(f"{atom(cond)} ? {text} : {zero}" if cond else text)
        elif bools:
            texts.append(e.load_masked(address(e, mem, at, i), mem, w, alignment(mem, start), bools[start : start + w], masks[k]))
        else:
            text = e.load_vector(address(e, mem, at, i), mem, w, alignment(mem, start))
            texts.append(f"{atom(one)} ? {e.value(text, m, w)} : {e.splat(e.literal(0, m), m, w)}" if one else text)
        start += w
    return texts


def _uniform_condition(e: CFamilyEmitter, mask: Val | None) -> str | None:
    """The condition of a mask that is the same in all lanes."""
    if mask is None:
        return None
    return e.of(mask)[0] if mask.lanes == 1 else e.uniform.get(mask.id)


def _by_lane(e: CFamilyEmitter, mask: Val | None, m: DType) -> tuple[list[str], list[str]]:
    """A mask as (conditions by lane, pieces beside elements of `m`)."""
    return ([], []) if mask is None else (e.bools(mask), e.as_form(mask, MASKS[m.size]))


def _gather(e: CFamilyEmitter, mem: Mem, at: Val, mask: Val | None, out: Val) -> list[str]:
    m = memory(mem.dtype)
    where, name = _indices(e, at, mem.offset), pointer(e, mem)
    bools, _ = _by_lane(e, mask, m)
    texts, start = [], 0
    for w in e.widths(out):
        lanes = []
        for i in range(start, start + w):
            text = f"{name}[{where[i]}]"
            lanes.append(f"({atom(bools[i])} ? {text} : {e.literal(0, m)})" if bools else text)
        texts.append(lanes[0] if w == 1 else e.pack(lanes, m))
        start += w
    return texts


def _indices(e: CFamilyEmitter, at: Val, more: int) -> list[str]:
    if not more:
        return e.lanes(at)
    r = e.intervals.of(at)
    wide = e.form(at, at.lanes) is int32 and not (r is not None and inside((r[0] + more, r[1] + more), INT32))
    return [f"{f'({e.type(int64)})' if wide else ''}{x} {'+' if more > 0 else '-'} {abs(more)}" for x in e.lanes(at)]


def store(e: CFamilyEmitter, s: Instr) -> None:
    """`store` and `scatter`."""
    mem = s.mem
    at, value = s.args[:2]
    mask = s.args[2] if len(s.args) > 2 else None
    if _register(value) != _register(mem):
        raise BuildError(f"a {value.dtype} is stored into {mem.dtype} memory: cast it first")
    if s.op == "scatter" and value.lanes > 1:
        _scatter(e, mem, at, value, mask)
        return
    one = _uniform_condition(e, mask)
    bools, masks = _by_lane(e, mask, memory(mem.dtype)) if one is None else ([], [])
    if one is not None:
        e.line(f"if ({one}) {{")
        e.depth += 1
    start = 0
    pieces = zip(stored(e, mem, value), e.widths(value), strict=True)
    for k, (x, w) in enumerate(() if not bools and e.store_whole(mem, at, value) else pieces):
        i = mem.offset + start
        if w == 1:
            guard = f"if ({bools[start]}) " if bools else ""
            base, where = place(e, mem, at, i)
            e.line(f"{guard}{base}[{where}] = {x};")
        elif bools:
            e.store_masked(address(e, mem, at, i), x, mem, w, bools[start : start + w], masks[k])
        else:
            e.store_vector(address(e, mem, at, i), x, mem, w, alignment(mem, start))
        start += w
    if one is not None:
        e.depth -= 1
        e.line("}")


def prefetch(e: CFamilyEmitter, s: Instr) -> None:
    """`prefetch`, where the language has it."""
    e.prefetch(address(e, s.mem, s.args[0], s.mem.offset))


def stored(e: CFamilyEmitter, mem: Mem, value: Val) -> list[str]:
    """The pieces of a value as they lie in memory."""
    m, out = memory(mem.dtype), []
    for x, w in zip(e.of(value), e.widths(value), strict=True):
        f = e.form(value, w)
        if value.dtype is bool_:
            byte = f"({e.type(uint8)}){atom(x)}"
            out.append(byte if w == 1 else e.reinterpret(f"{e.convert(x, f, int8, w)} & {e.literal(1, int8)}", int8, uint8, w))
        elif value.dtype is index:
            out.append(e.convert(x, f, form(index), w))
        else:
            out.append(x if f is m or w == 1 else e.reinterpret(x, f, m, w))
    return out


def _scatter(e: CFamilyEmitter, mem: Mem, at: Val, value: Val, mask: Val | None) -> None:
    bools = e.bools(mask) if mask is not None else []
    values = [f"({e.type(uint8)})({x})" for x in e.bools(value)] if value.dtype is bool_ else e.lanes(value)
    for i, (x, where) in enumerate(zip(values, _indices(e, at, mem.offset), strict=True)):
        e.line(f"{f'if ({bools[i]}) ' if bools else ''}{pointer(e, mem)}[{where}] = {x};")


def _register(v: Val | Mem) -> tuple[bool, bool, int]:
    f = form(v.dtype)
    return f is bool_, f.is_float, f.size


# vectors of CUDA ------------------------------------------------------------------------------------------------------
# Vector loads and stores of CUDA: 16, 8 or 4 bytes at once where the address is known to be aligned, into scalars.
#
# Elements of 4 and 8 bytes go through CUDA's own vectors (float4, int2, double2 …); smaller ones are cut out of
# 32-bit words.


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

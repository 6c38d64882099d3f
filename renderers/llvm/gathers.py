"""Gathers as LLVM instructions: one for all lanes where the processor is quick at that, else an access of each element.

LLVM takes single accesses by itself where a processor has no gather, but computes a vector of addresses first and then takes that apart.
Here each lane's index is taken once for all gathers that use it, from memory where it was loaded from, and what all lanes have in common
is part of the pointer. Elements that lie side by side and are both gathered are one access for each lane: both vectors are put together
from the pairs. Of a masked gather all lanes are read where each of them has an element (`Mem.anywhere`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ...ir.dtypes import int64
from ...program.program import Block, Instr, Mem, Program, Val, bodies
from .llvm_emitter import SCALAR, LlvmEmitter, memory, type_of, vector


def by_element(e: LlvmEmitter, s: Instr) -> bool:
    """Whether a gather is an access of each element."""
    if s.op != "gather" or s.result.lanes == 1:
        return False
    return s.mem.anywhere if len(s.args) > 1 else not e.target.gathers or e.target.gathers_slowly


def gathered(e: LlvmEmitter, s: Instr, pointer: str, scalars: list[str], left: Val) -> str:
    """The elements at an index that is the sum of some scalars and the vector `left`, from a pointer on, one by one."""
    first, second = e.pairs.get(s.result, (s, None))
    known = e.gathered.get(s.result.id)
    if known is not None:
        return known
    if second is not None:
        pointer = e.emit(f"getelementptr i8, ptr {pointer}, i64 {(first.mem.offset - s.mem.offset) * s.mem.dtype.size}")
    ty = memory(s.mem.dtype)
    for x in scalars:
        pointer = e.emit(f"getelementptr {ty}, ptr {pointer}, i64 {x}")
    lanes, align = s.result.lanes, min(s.mem.align, s.mem.dtype.size)
    where = _places(e, ty, pointer, left, lanes, s.mem.anywhere)
    if second is None:
        found = _together(e, ty, [e.emit(f"load {ty}, ptr {w}, align {align}") for w in where])
        return found if len(s.args) == 1 else e.select(e.of(s.args[1]), found, "zeroinitializer", ty, lanes)
    pairs = [e.emit(f"load <2 x {ty}>, ptr {w}, align {align}") for w in where]
    while len(pairs) > 1:
        size = 2 * lanes // len(pairs)
        picks = ", ".join(f"i32 {i}" for i in range(2 * size))
        pairs = [
            e.emit(f"shufflevector <{size} x {ty}> {a}, <{size} x {ty}> {b}, <{2 * size} x i32> <{picks}>")
            for a, b in zip(pairs[::2], pairs[1::2], strict=True)
        ]
    for at, one in enumerate((first, second)):
        picks = ", ".join(f"i32 {2 * i + at}" for i in range(lanes))
        both = f"<{2 * lanes} x {ty}>"
        e.gathered[one.result.id] = e.emit(f"shufflevector {both} {pairs[0]}, {both} poison, <{lanes} x i32> <{picks}>")
    return e.gathered[s.result.id]


def _places(e: LlvmEmitter, ty: str, pointer: str, left: Val, lanes: int, anywhere: bool) -> list[str]:
    """The address of each lane's element."""
    terms = _terms(e.indices, left) or []
    if len(terms) < 2:
        return [e.emit(f"getelementptr {ty}, ptr {pointer}, i64 {_lane(e, left, i, anywhere)}") for i in range(lanes)]
    for _, s in terms:
        if s.op == "splat":
            pointer = e.emit(f"getelementptr {ty}, ptr {pointer}, i64 {e.of(s.args[0])}")
    out = []
    for i in range(lanes):
        place = pointer
        for v, s in sorted(terms, key=lambda t: t[1].op == "const"):  # (what is known is a part of the instruction)
            if s.op != "splat":
                step = s.picks[i] if isinstance(s.attr, tuple) else s.attr if s.op == "const" else _lane(e, v, i, anywhere)
                place = e.emit(f"getelementptr {ty}, ptr {place}, i64 {step}")
        out.append(place)
    return out


def _together(e: LlvmEmitter, ty: str, elements: list[str]) -> str:
    """A vector of scalars."""
    whole, x = vector(ty, len(elements)), "poison"
    for i, one in enumerate(elements):
        x = e.emit(f"insertelement {whole} {x}, {ty} {one}, i32 {i}")
    return x


def readable(e: LlvmEmitter, s: Instr, where: str, x: str) -> None:
    """Have the lanes of a vector `x` of indices, which was read under a mask from `where` on, in memory, for gathers that read anywhere:
    the array's own where the whole vector is its, else a copy."""
    if s.result not in e.anywhere:
        return
    count = prod(d if isinstance(d, int) else 0 for d in e.program.params[s.mem.base].shape) - s.result.lanes
    if count < 0:
        return
    first = e.emit(f"add i64 {e.of(s.args[0])}, {s.mem.offset}")
    outside = e.emit(f"icmp ugt i64 {first}, {count}")
    n, before, ty = e.fresh(), e.block, type_of(s.result)
    copy = e.aside(ty)
    e.declare("!2", '!2 = !{!"branch_weights", i32 1, i32 2000}')
    e.line(f"br i1 {outside}, label %copied{n}, label %there{n}, !prof !2")
    e.label(f"copied{n}")
    e.line(f"store {ty} {x}, ptr {copy}, align {s.mem.dtype.size}")
    e.line(f"br label %there{n}")
    e.label(f"there{n}")
    e.where[s.result.id] = e.emit(f"phi ptr [ {where}, %{before} ], [ {copy}, %copied{n} ]")


def _lane(e: LlvmEmitter, v: Val, lane: int, anywhere: bool) -> str:
    """An index of one lane, of 64 bits; any that the array has where the mask that it was read under leaves the lane out, if `anywhere`."""
    key = (v.id, lane, anywhere)
    found = e.lanes.get(key)
    if found is None:
        s = e.indices.get(v)
        source = s.args[0] if s is not None and s.op == "cast" and s.args[0].dtype.is_int else v
        ty, from_memory = SCALAR[source.dtype.name], e.indices.get(source)
        if from_memory is not None and from_memory.op == "load" and (len(from_memory.args) == 1 or (anywhere and source.id in e.where)):
            at = e.where[source.id]
            place = e.emit(f"getelementptr {ty}, ptr {at}, i64 {lane}") if lane else at
            found = e.emit(f"load {ty}, ptr {place}, align {source.dtype.size}")
        else:
            found = e.emit(f"extractelement {type_of(source)} {e.of(source)}, i32 {lane}")
        if ty != "i64":
            found = e.emit(f"{'sext' if source.dtype.kind == 'i' else 'zext'} {ty} {found} to i64")
        e.lanes[key] = found
    return found


def _terms(indices: Mapping[Val, Instr], at: Val) -> list[tuple[Val, Instr]] | None:
    """What an index is the sum of, where that is known of each lane without taking vectors apart: numbers that lie in memory, constants,
    and what all lanes have in common."""
    s = indices.get(at)
    if s is None:
        return None
    if s.op == "mul":
        other = next((b for a, b in (s.args, s.args[::-1]) if _is_one(indices, a)), None)
        return None if other is None else _terms(indices, other)
    if s.op == "add":
        first, second = (_terms(indices, a) for a in s.args)
        return None if first is None or second is None else first + second
    known = s.op in ("splat", "const", "load") or (s.op == "cast" and (of := indices.get(s.args[0])) is not None and of.op == "load")
    return [(at, s)] if known else None


def _is_one(indices: Mapping[Val, Instr], at: Val) -> bool:
    s = indices.get(at)
    of = indices.get(s.args[0]) if s is not None and s.op == "splat" else None
    return of is not None and of.op == "const" and of.attr == 1


def common(indices: Mapping[Val, Instr], at: Val) -> tuple[list[Val], Val]:
    """(scalars that are added to every lane of an index, what is left)."""
    found: list[Val] = []
    while (s := indices.get(at)) is not None and s.op in ("add", "mul"):
        known = [indices.get(a) for a in s.args]
        i = next((i for i, k in enumerate(known) if k is not None and k.op == "splat"), None)
        if i is None:
            break
        scalar = s.args[i] if (k := known[i]) is None else k.args[0]
        fixed = indices.get(scalar)
        if s.op == "add":
            found += [scalar] if fixed is None or fixed.attr != 0 else []
        elif fixed is None or fixed.attr != 1:
            break
        at = s.args[1 - i]
    return found, at


def indices(program: Program) -> dict[Val, Instr]:
    """The instructions behind vectors of indices: sums, products, what is the same in all lanes, what they are cast and read from; and
    constants."""
    made = {s.out: s for p in program.phases for b in _blocks(p.body) for s in b.stmts if isinstance(s, Instr) and s.out is not None}
    whole = {v: s for v, s in made.items() if v.dtype is int64}
    found = {v: s for v, s in whole.items() if v.lanes > 1 and s.op in ("add", "mul", "splat", "cast", "load")}
    behind = [s.args[0] for s in found.values() if s.op == "cast"]
    found |= {v: made[v] for v in behind if v in made and made[v].op == "load"}
    found = {v: s for v, s in found.items() if s.op != "load" or _constant(program, s.mem)}
    return found | {v: s for v, s in whole.items() if s.op == "const"}


def read_anywhere(program: Program, indices: Mapping[Val, Instr]) -> set[Val]:
    """The vectors, read under a mask, that are indices of gathers which read anywhere."""
    out: set[Val] = set()
    for s in (s for p in program.phases for b in _blocks(p.body) for s in b.stmts if isinstance(s, Instr)):
        if s.op == "gather" and s.mem.anywhere and s.result.lanes > 1:
            for _, term in _terms(indices, common(indices, s.args[0])[1]) or []:
                of = indices.get(term.args[0]) if term.op == "cast" else term
                if of is not None and of.op == "load" and len(of.args) > 1:
                    out.add(of.result)
    return out


def pairs(program: Program, indices: Mapping[Val, Instr]) -> dict[Val, tuple[Instr, Instr]]:
    """Of two gathers of one block whose elements lie side by side in every lane, in an input: both, the one of the lower elements first."""
    out: dict[Val, tuple[Instr, Instr]] = {}
    for phase in program.phases:
        for block in _blocks(phase.body):
            found: dict[tuple[tuple[int, ...], Val, Mem], Instr] = {}
            for s in block.stmts:
                if isinstance(s, Instr) and s.op == "gather" and len(s.args) == 1 and s.result.lanes > 1 and _constant(program, s.mem):
                    scalars, left = common(indices, s.args[0])
                    found.setdefault((tuple(sorted(x.id for x in scalars)), left, _plain(s.mem, s.mem.offset)), s)
            for (added, rest, mem), low in sorted(found.items(), key=lambda f: f[0][2].offset):
                high = found.get((added, rest, _plain(mem, mem.offset + 1)))
                if high is not None and low.result not in out and mem.dtype.kind != "b" and mem.dtype.size in (4, 8):
                    out[low.result] = out[high.result] = (low, high)
    return out


def _plain(mem: Mem, offset: int) -> Mem:
    """A memory from another offset on, with nothing known of its alignment."""
    return Mem(mem.space, mem.base, mem.dtype, offset, mem.dtype.size)


def _constant(program: Program, mem: Mem) -> bool:
    """Whether nobody writes to a memory while the program runs."""
    return mem.space == "param" and program.params[mem.base].role == "in" and mem.base not in program.shared_params


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for s in block.stmts:
        for body in bodies(s):
            yield from _blocks(body)

"""Loads and stores of a Program as LLVM instructions: addresses, masks, gathers and non-temporal stores.

Targets without masked instructions get branches from LLVM's own expansion; a masked scalar is a branch written here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import gcd, prod

from ...ir.dtypes import int64
from ...ir.errors import BuildError
from ...program.facts import mask_pieces, masked_in_pieces
from ...program.ops import HINTS, READS, RENDERED, WRITES
from ...program.program import Block, For, Instr, Mem, Phase, Program, Val, bodies, statements
from .llvm_emitter import SCALAR, LlvmEmitter, memory, splat, suffix, type_of, vector
from .tables import picked

# gathers --------------------------------------------------------------------------------------------------------------
#
# Gathers as LLVM instructions: one for all lanes where the processor is quick at that, else an access of each
# element.
#
# LLVM takes single accesses by itself where a processor has no gather, but computes a vector of addresses first and
# then takes that apart. Here each lane's index is taken once for all gathers that use it, from memory where it was
# loaded from, and what all lanes have in common is part of the pointer. Elements that lie side by side and are both
# gathered are one access for each lane: both vectors are put together from the pairs. Of a masked gather all lanes
# are read where each of them has an element (`Mem.anywhere`).


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
    where = _lane_pointers(e, ty, pointer, left, lanes, s.mem.anywhere)
    if second is None:
        found = _as_vector(e, ty, [e.emit(f"load {ty}, ptr {w}, align {align}") for w in where])
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


def _lane_pointers(e: LlvmEmitter, ty: str, pointer: str, left: Val, lanes: int, anywhere: bool) -> list[str]:
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


def _as_vector(e: LlvmEmitter, ty: str, elements: list[str]) -> str:
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
                    found.setdefault((tuple(sorted(x.id for x in scalars)), left, _unaligned(s.mem, s.mem.offset)), s)
            for (added, rest, mem), low in sorted(found.items(), key=lambda f: f[0][2].offset):
                high = found.get((added, rest, _unaligned(mem, mem.offset + 1)))
                if high is not None and low.result not in out and mem.dtype.kind != "b" and mem.dtype.size in (4, 8):
                    out[low.result] = out[high.result] = (low, high)
    return out


def _unaligned(mem: Mem, offset: int) -> Mem:
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


# llvm memory ----------------------------------------------------------------------------------------------------------


def known(mask: str, lanes: int) -> tuple[bool, ...] | None:
    """The lanes of a mask that is written as a constant; None of another."""
    if mask == "zeroinitializer":
        return (False,) * lanes
    on = [lane.strip() for lane in mask.strip("<>").split(",")]
    return tuple(lane == "i1 true" for lane in on) if mask.startswith("<") and set(on) <= {"i1 true", "i1 false"} else None


def load_in_pieces(e: LlvmEmitter, where: str, mem: Mem, mask: str, lanes: int) -> str | None:
    """The elements of the lanes that are on, and zeros. None where an instruction with a mask is better, or the mask is not known.

    (One lane stays one element: LLVM 22 folds what follows into a masked access and then touches more bytes than there are.)"""
    on = known(mask, lanes)
    if on is None or not masked_in_pieces(on, mem.dtype.size, e.target.features, store=False):
        return None
    scalar = memory(mem.dtype)
    whole = vector(scalar, lanes)
    x = "zeroinitializer"
    for first, count in mask_pieces(on):
        one = e.emit(f"load {vector(scalar, count)}, ptr {_place(e, where, mem, first)}, align {_align(mem, first)}")
        if count == 1:
            x = e.emit(f"insertelement {whole} {x}, {scalar} {one}, i32 {first}")
            continue
        wide = _shuffled(e, scalar, count, one, "poison", [i if i < count else -1 for i in range(lanes)])
        x = _shuffled(e, scalar, lanes, x, wide, [lanes + i - first if first <= i < first + count else i for i in range(lanes)])
    return x


def store_in_pieces(e: LlvmEmitter, x: str, where: str, mem: Mem, mask: str, lanes: int) -> bool:
    """Write the lanes that are on; False where an instruction with a mask is better, or the mask is not known."""
    on = known(mask, lanes)
    if on is None or not masked_in_pieces(on, mem.dtype.size, e.target.features, store=True):
        return False
    scalar = memory(mem.dtype)
    for first, count in mask_pieces(on):
        if count == 1:
            one = e.emit(f"extractelement {vector(scalar, lanes)} {x}, i32 {first}")
        else:
            one = _shuffled(e, scalar, lanes, x, "poison", list(range(first, first + count)))
        e.line(f"store {vector(scalar, count)} {one}, ptr {_place(e, where, mem, first)}, align {_align(mem, first)}")
    return True


def _shuffled(e: LlvmEmitter, scalar: str, lanes: int, a: str, b: str, picks: list[int]) -> str:
    ty = vector(scalar, lanes)
    chosen = ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in picks)
    return e.emit(f"shufflevector {ty} {a}, {ty} {b}, <{len(picks)} x i32> <{chosen}>")


def _place(e: LlvmEmitter, where: str, mem: Mem, lane: int) -> str:
    return e.emit(f"getelementptr {memory(mem.dtype)}, ptr {where}, i64 {lane}") if lane else where


def _align(mem: Mem, lane: int) -> int:
    return gcd(mem.align, lane * mem.dtype.size) if lane else mem.align


# updates of memory ----------------------------------------------------------------------------------------------------
# Updates of memory that some processors are slow at as LLVM would write them. It is kept from that by instructions of
# no length that it does not see through.
#
# Updates of places that a vector of indices says (histograms): a processor that guesses from an address's registers
# what a load depends on takes it to need the store before it that has the same two registers in its address, although
# one of them has got another number from a vector meanwhile. Each wrong guess costs it about twenty cycles. So the
# address is put into one register.
#
# Choices between what is at a place and something else (extremes by segment): LLVM makes a masked store of the choice
# and the store, which is dozens of instructions in a processor without registers for masks.


ALONG = frozenset({"add", "sub", "mul", "shl", "cast", "min", "max", "select"})
"""What an index goes through on its way from a lane."""
CHOICES = frozenset({"select", "min", "max"})


def updated_addresses(program: Program) -> set[Val]:
    """Indices from lanes of vectors at which a place is read and written."""
    found: set[Val] = set()
    for phase in program.phases:
        code = list(statements(phase.body))
        read = {(s.mem, s.args[0]) for s in code if isinstance(s, Instr) and s.op in READS and s.args[0].lanes == 1}
        written = {(s.mem, s.args[0]) for s in code if isinstance(s, Instr) and s.op in WRITES}
        lanes: set[Val] = set()  # and what is made of them: each instruction is looked at once, however often its value is used
        for s in code:
            if isinstance(s, Instr) and s.out is not None and (s.op == "extract" or (s.op in ALONG and not lanes.isdisjoint(s.args))):
                lanes.add(s.out)
        found |= {at for _, at in read & written if at in lanes}
    return found


BROADCASTS = 4
"""Elements broadcast from one index from which on it is worth an instruction to have their addresses in one register."""


def broadcast_addresses(program: Program) -> set[Val]:
    """Indices that many elements are read from, each for all lanes of one vector. Such a read is part of the instruction that uses it (AVX-512), and
    Intel's processors take that apart again where its address is of two registers (A. Fog, "The microarchitecture of Intel, AMD and VIA CPUs":
    unlamination). Measured on Emerald Rapids: 24 sums of a register tile in 1.5 times the time."""
    found: set[Val] = set()
    for phase in program.phases:
        code = [s for s in statements(phase.body) if isinstance(s, Instr)]
        uses = Counter(a for s in code for a in s.args)
        wide = {s.args[0] for s in code if s.op == "splat" and uses[s.result] == 1}
        counts = Counter(s.args[0] for s in code if s.op == "load" and len(s.args) == 1 and s.out in wide)
        found |= {at for at, n in counts.items() if n >= BROADCASTS}
    return found


def broadcasts(phase: Phase, program: Program) -> dict[Val, tuple[Instr, Instr]]:
    """Vectors whose lanes are all one element of an argument that nobody writes here: the instructions that read and spread it."""
    code = [s for s in statements(phase.body) if isinstance(s, Instr)]
    written = {s.mem.base for s in code if s.op in WRITES and s.mem.space == "param"} | set(program.shared_params)
    read = {s.out: s for s in code if s.op == "load" and len(s.args) == 1 and s.mem.space == "param" and s.mem.base not in written}
    return {s.result: (read[s.args[0]], s) for s in code if s.op == "splat" and s.args[0] in read}


def read_inside(s: For, spread: Mapping[Val, tuple[Instr, Instr]], most: int) -> list[Val]:
    """Vectors that a loop without loops inside takes from outside, of `spread`, where they are more than `most`: read again in the loop, each is part
    of the instruction that uses it (AVX-512), and else it would lie on the stack, as a whole vector."""
    body = [x for x in s.body.stmts if isinstance(x, Instr)]
    made = {x.out for x in body}
    found = dict.fromkeys(a for x in body for a in x.args if a in spread and a not in made)
    return list(found) if len(body) == len(s.body.stmts) and len(found) > most else []


def stored_choices(program: Program) -> set[Val]:
    """Vectors of one register that are stored where one of the two comes from that they are chosen of."""
    found: set[Val] = set()
    for phase in program.phases:
        code = [s for s in statements(phase.body) if isinstance(s, Instr)]
        read = {s.out: (s.mem, s.args[0]) for s in code if s.op in READS and s.out is not None}
        choices = {s.out: s.args for s in code if s.op in CHOICES and s.out is not None and _masked(s.out)}
        stores = ((s.args[1], (s.mem, s.args[0])) for s in code if s.op == "store" and len(s.args) == 2)
        found |= {v for v, place in stores if any(read.get(a) == place for a in choices.get(v, ()))}
    return found


def _masked(v: Val) -> bool:
    """Whether there are masked stores of what fills a register so."""
    return v.dtype.size in (4, 8) and v.lanes * v.dtype.size in (16, 32)


def in_one_register(address: str, here: bool = False) -> str:
    """The instruction that keeps an address from becoming part of the access. `here`: and what is read there from being read before a loop."""
    return f'call ptr asm {"sideeffect " if here else ""}"", "=r,0"(ptr {address})'


def separate_store(ty: str, value: str) -> str:
    """The instruction that keeps a vector from becoming part of the store."""
    return f'call {ty} asm "", "=x,0"({ty} {value})'


def _base(e: LlvmEmitter, mem: Mem) -> tuple[str, int]:
    """(pointer, constant byte offset from it)."""
    params = len(e.program.params)
    i, base = (mem.base, 0) if mem.space == "param" else (params + (mem.space == "scratch"), mem.base)
    pointer = e.pointer(i)
    e.used.add(pointer)
    return pointer, base + mem.offset * mem.dtype.size


def _address(e: LlvmEmitter, mem: Mem, index: Val) -> str:
    pointer, offset = _base(e, mem)
    at = e.of(index)
    if at.startswith("%"):
        key = (pointer, memory(mem.dtype), at)
        if key not in e.addresses:
            found, first = e.emit(f"getelementptr {key[1]}, ptr {pointer}, i64 {at}"), 0
            if e.here or index in e.single:  # (what is added to all of them is part of it, so that the rest is short)
                whole = e.emit(f"getelementptr i8, ptr {found}, i64 {offset}") if offset else found
                found, first = e.emit(in_one_register(whole, e.here)), offset
            e.addresses[key] = (found, first)
        pointer, first = e.addresses[key]
        offset -= first
    else:
        offset += int(at) * mem.dtype.size
    return pointer if offset == 0 else e.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def _addresses(e: LlvmEmitter, mem: Mem, at: Val) -> str:
    """A vector of addresses. What all lanes have in common is added to the pointer: where the rest is a cast of 32-bit integers, LLVM
    then takes the instruction that gathers twice as many lanes."""
    pointer, scalars, left = _pointer_and_offsets(e, mem, at)
    for x in scalars:
        pointer = e.emit(f"getelementptr {memory(mem.dtype)}, ptr {pointer}, i64 {x}")
    return e.emit(f"getelementptr {memory(mem.dtype)}, ptr {pointer}, {type_of(left)} {e.of(left)}")


def _pointer_and_offsets(e: LlvmEmitter, mem: Mem, at: Val) -> tuple[str, list[str], Val]:
    """A vector of indices as a pointer, scalars that are added to all lanes, and what is left."""
    scalars, left = common(e.indices, at)
    return _start(e, mem), [e.of(x) for x in scalars], left


def _start(e: LlvmEmitter, mem: Mem) -> str:
    """A pointer to the element from which an index counts."""
    pointer, offset = _base(e, mem)
    return e.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}") if offset else pointer


def _hint(mem: Mem) -> str:
    return ", !nontemporal !0" if mem.nt else ""


def load(e: LlvmEmitter, s: Instr) -> str:
    """`load` and `gather`; gives the operand (16-bit floats as their bits, bools as i1)."""
    mem, lanes = s.mem, s.result.lanes
    ty = vector(memory(mem.dtype), lanes)
    mask = s.args[1] if len(s.args) > 1 else None
    if s.op == "gather" and (found := picked(e, s, lambda: _start(e, mem))) is not None:
        if mem.dtype.is_float and SCALAR[mem.dtype.name] != f"i{8 * mem.dtype.size}":
            found = e.emit(f"bitcast <{lanes} x i{8 * mem.dtype.size}> {found} to {ty}")
        x = found if mask is None else e.select(e.of(mask), found, "zeroinitializer", memory(mem.dtype), lanes)
    elif s.op == "gather" and lanes > 1:
        x = _one_after_another(e, s, mask) if mem.runs and s.result not in e.pairs else _apart(e, s, mask)
    else:
        where = _address(e, mem, s.args[0])
        if mask is None:
            e.where[s.result.id] = where
            x = e.emit(f"load {ty}, ptr {where}, align {mem.align}{_hint(mem)}")
        elif lanes > 1:
            x = load_in_pieces(e, where, mem, e.of(mask), lanes) or _masked_load(e, "load", where, mem, mask, lanes)
            readable(e, s, where, x)
        else:
            x = _guarded_load(e, ty, where, mem, mask)
    if mem.dtype.kind == "b":
        return e.emit(f"icmp ne {ty} {x}, {splat('i8', '0') if lanes > 1 else '0'}")
    return x


def _apart(e: LlvmEmitter, s: Instr, mask: Val | None) -> str:
    """Elements that are gathered."""
    if by_element(e, s):
        return gathered(e, s, *_pointer_and_offsets(e, s.mem, s.args[0]))
    return _masked_load(e, "gather", _addresses(e, s.mem, s.args[0]), s.mem, mask, s.result.lanes)


def _one_after_another(e: LlvmEmitter, s: Instr, mask: Val | None) -> str:
    """Elements of which those that the mask counts mostly lie one after the other: one vector then, else they are gathered."""
    mem, lanes = s.mem, s.result.lanes
    pointer, scalars, left = _pointer_and_offsets(e, mem, s.args[0])
    of = e.indices.get(left)
    places = of.args[0] if of is not None and of.op == "cast" and of.args[0].dtype.is_int else left
    kind, ty = SCALAR[places.dtype.name], type_of(places)
    first = e.emit(f"extractelement {ty} {e.of(places)}, i32 0")
    same = e.emit(f"shufflevector {ty} {e.of(places)}, {ty} poison, <{lanes} x i32> zeroinitializer")
    run = e.emit(f"add {ty} {same}, <{', '.join(f'{kind} {i}' for i in range(lanes))}>")
    differ = e.emit(f"icmp ne {ty} {e.of(places)}, {run}")
    if mask is not None:
        differ = e.emit(f"and <{lanes} x i1> {differ}, {e.of(mask)}")
    bits = e.emit(f"bitcast <{lanes} x i1> {differ} to i{lanes}")
    n, runs = e.fresh(), e.emit(f"icmp eq i{lanes} {bits}, 0")
    e.line(f"br i1 {runs}, label %run{n}, label %apart{n}")
    e.label(f"run{n}")
    if kind != "i64":
        first = e.emit(f"{'sext' if places.dtype.kind == 'i' else 'zext'} {kind} {first} to i64")
    for x in (*scalars, first):
        pointer = e.emit(f"getelementptr {memory(mem.dtype)}, ptr {pointer}, i64 {x}")
    whole, near = vector(memory(mem.dtype), lanes), _unaligned(mem, 0)
    vec = (
        e.emit(f"load {whole}, ptr {pointer}, align {near.align}") if mask is None else _masked_load(e, "load", pointer, near, mask, lanes)
    )
    e.line(f"br label %read{n}")
    e.label(f"apart{n}")
    one_by_one, end = _apart(e, s, mask), e.block
    e.line(f"br label %read{n}")
    e.label(f"read{n}")
    return e.emit(f"phi {whole} [ {vec}, %run{n} ], [ {one_by_one}, %{end} ]")


def _masked_load(e: LlvmEmitter, kind: str, where: str, mem: Mem, mask: Val | None, lanes: int) -> str:
    scalar = memory(mem.dtype)
    ty = vector(scalar, lanes)
    pointer, tail, align = (
        ("ptr", "p0", mem.align) if kind == "load" else (f"<{lanes} x ptr>", f"v{lanes}p0", min(mem.align, mem.dtype.size))
    )
    full = f"@llvm.masked.{kind}.{suffix(scalar, lanes)}.{tail}"
    e.declare(full, f"declare {ty} {full}({pointer}, i32, <{lanes} x i1>, {ty})")
    on = splat("i1", "true") if mask is None else e.of(mask)
    return e.emit(f"call {ty} {full}({pointer} {where}, i32 {align}, <{lanes} x i1> {on}, {ty} zeroinitializer)")


def _guarded_load(e: LlvmEmitter, ty: str, where: str, mem: Mem, mask: Val) -> str:
    n, before = e.fresh(), e.block
    e.line(f"br i1 {e.of(mask)}, label %then{n}, label %after{n}")
    e.label(f"then{n}")
    x = e.emit(f"load {ty}, ptr {where}, align {mem.align}")
    e.line(f"br label %after{n}")
    e.label(f"after{n}")
    return e.emit(f"phi {ty} [ {x}, %then{n} ], [ {'0.0' if ty in ('float', 'double') else '0'}, %{before} ]")


def store(e: LlvmEmitter, s: Instr) -> str:
    """`store` and `scatter`."""
    mem = s.mem
    at, value = s.args[:2]
    mask = s.args[2] if len(s.args) > 2 else None
    lanes, x = value.lanes, e.of(value)
    ty = vector(memory(mem.dtype), lanes)
    if SCALAR[value.dtype.name] != SCALAR[mem.dtype.name]:
        raise BuildError(f"a {value.dtype} is stored into {mem.dtype} memory: cast it first")
    if mem.dtype.kind == "b":
        x = e.emit(f"zext {type_of(value)} {x} to {ty}")
    e.written.add(_base(e, mem)[0])
    if s.op == "scatter" and lanes > 1:
        on = splat("i1", "true") if mask is None else e.of(mask)
        _masked_store(e, "scatter", x, _addresses(e, mem, at), mem, on, lanes)
        return ""
    where = _address(e, mem, at)
    x = e.emit(separate_store(ty, x)) if value in e.chosen else x
    plain = f"store {ty} {x}, ptr {where}, align {mem.align}{_hint(mem)}"
    if mask is None:
        e.line(plain)
    elif lanes > 1:
        if not store_in_pieces(e, x, where, mem, e.of(mask), lanes):
            _masked_store(e, "store", x, where, mem, e.of(mask), lanes)
    else:
        n = e.fresh()
        e.line(f"br i1 {e.of(mask)}, label %then{n}, label %after{n}")
        e.label(f"then{n}")
        e.line(plain)
        e.line(f"br label %after{n}")
        e.label(f"after{n}")
    return ""


def _masked_store(e: LlvmEmitter, kind: str, x: str, where: str, mem: Mem, on: str, lanes: int) -> None:
    ty = vector(memory(mem.dtype), lanes)
    pointer, tail, align = (
        ("ptr", "p0", mem.align) if kind == "store" else (f"<{lanes} x ptr>", f"v{lanes}p0", min(mem.align, mem.dtype.size))
    )
    full = f"@llvm.masked.{kind}.{suffix(memory(mem.dtype), lanes)}.{tail}"
    e.declare(full, f"declare void {full}({ty}, {pointer}, i32, <{lanes} x i1>)")
    e.line(f"call void {full}({ty} {x}, {pointer} {where}, i32 {align}, <{lanes} x i1> {on})")


def prefetch(e: LlvmEmitter, s: Instr) -> str:
    """`prefetch`, into every cache; to write where it is an output's."""
    mem = s.mem
    write = int(mem.space == "param" and e.program.params[mem.base].role == "out")
    name = "@llvm.prefetch.p0"
    e.declare(name, f"declare void {name}(ptr, i32 immarg, i32 immarg, i32 immarg)")
    e.line(f"call void {name}(ptr {_address(e, mem, s.args[0])}, i32 {write}, i32 3, i32 1)")
    return ""


OPS: dict[str, Callable[[LlvmEmitter, Instr], str]] = {
    **dict.fromkeys(READS & RENDERED, load),
    **dict.fromkeys(WRITES, store),
    **dict.fromkeys(HINTS, prefetch),
}

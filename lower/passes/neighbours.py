"""Sums of products of narrow integers, two neighbours at a time.

x86 multiplies 16-bit numbers and adds the products of neighbours into 32 bits by one instruction (`pmaddwd`), where products
in 32 bits take two or three and half as many fit in a vector. A reduction with lanes along its own axis may use it: partial
sums of integers may be grouped in any way, and wrap as the sum does. This pass joins two such partial sums, of two vectors
that follow each other in memory, into one: both vectors are loaded as one, multiplied, and even and odd products added. LLVM
has the instruction for just that; a Program says what it means, and the interpreter needs no new operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import permutations

from ...ir.dtypes import DType, int32
from ...opts.analysis.neighbours import NARROW
from ...program.program import Block, For, If, Instr, Program, Stmt, Val, bodies, statements


@dataclass(slots=True)
class PartialSum:
    """One partial sum of a loop, by the value that is carried: the products added to it in a step, and the additions, first to last."""

    carried: Val
    products: list[Instr]
    additions: list[Instr]


@dataclass(slots=True)
class NeighbourSums:
    """What is known of a Program while its loops are rewritten. `made`: the instruction behind each value; `uses`: how often
    each is read; `readers`: the instruction that reads it last."""

    program: Program
    made: dict[Val, Instr] = field(default_factory=dict)
    uses: dict[Val, int] = field(default_factory=dict)
    readers: dict[Val, Instr] = field(default_factory=dict)
    last: int = 0

    def look(self) -> None:
        """Count again."""
        self.made.clear()
        self.uses.clear()
        self.readers.clear()
        for phase in self.program.phases:
            for s in statements(phase.body):
                self._count(s)

    def _count(self, s: Stmt) -> None:
        read: list[Val] = []
        if isinstance(s, Instr):
            read += s.args
            self.readers.update(dict.fromkeys(s.args, s))
            if s.out is not None:
                self.made[s.out] = s
                self.last = max(self.last, s.out.id)
        elif isinstance(s, For):
            read += [*s.init, *s.yields, s.lo, s.hi]
            self.last = max(self.last, s.var.id, *(v.id for v in (*s.carried, *s.results)))
        elif isinstance(s, If):
            read.append(s.cond)
        for v in read:
            self.uses[v] = self.uses.get(v, 0) + 1

    def total(self, v: Val) -> Val:
        """The root of the tree of additions that a value is a leaf of: itself where something else reads it as well."""
        while self.uses.get(v) == 1 and v in self.readers and self.readers[v].op == "add":
            v = self.readers[v].result
        return v

    def value(self, dtype: DType, lanes: int, like: Val) -> Val:
        """A new one, as deep as another."""
        self.last += 1
        return Val(self.last, dtype, lanes, like.depth)


def join(program: Program) -> bool:
    """Rewrite what can be, in place: results are the same to the bit. False where there is nothing to look for."""
    if not any(p.dtype in NARROW for p in program.params):
        return False
    known = NeighbourSums(program)
    known.look()
    for phase in program.phases:
        _block(known, phase.body)
    return True


def _block(known: NeighbourSums, block: Block) -> None:
    for s in list(block.stmts):
        if isinstance(s, For) and any(v.dtype is int32 and v.lanes > 1 for v in s.carried):
            _loop(known, block, s)
        for body in bodies(s):
            _block(known, body)


def _loop(known: NeighbourSums, block: Block, loop: For) -> None:
    """Join the partial sums of a loop that are added up behind it."""
    if any(not isinstance(s, Instr) or s.out is None for s in loop.body.stmts):
        return  # loops inside, or something that writes memory
    wide: dict[object, Val] = {}
    found = {v: terms for i, v in enumerate(loop.results) if (terms := _terms(known, loop, i)) is not None}
    done: set[Val] = set()
    for a, b in permutations(found, 2):
        # sums of one tree of additions, in which it does not matter where a term comes in
        if done & {a, b} or known.total(a) is not known.total(b) or known.total(b) is b:
            continue
        if _joined(known, loop, found[a], found[b], wide):
            _forget(known, block, loop, b)
            done |= {a, b}
    if done:
        _sweep(known, loop)


def _terms(known: NeighbourSums, loop: For, position: int) -> PartialSum | None:
    """What a step adds to a partial sum; None where it is not a sum of products that begins with 0."""
    carried, init = loop.carried[position], known.made.get(loop.init[position])
    if carried.dtype is not int32 or carried.lanes == 1 or init is None or not _zero(known, init):
        return None
    found = PartialSum(carried, [], [])
    at = loop.yields[position]
    while at is not carried:
        s = known.made.get(at)
        if s is None or s.op != "add" or known.uses[at] != 1:
            return None
        x, y = (known.made.get(v) for v in s.args)
        product = x if x is not None and x.op == "mul" else y
        if product is None or product.op != "mul" or known.uses[product.result] != 1 or _sources(known, product) is None:
            return None
        found.products.insert(0, product)
        found.additions.insert(0, s)
        at = s.args[1] if product is x else s.args[0]
    return found if found.products and known.uses[carried] == 1 else None


def _zero(known: NeighbourSums, s: Instr) -> bool:
    if s.op == "splat":
        inner = known.made.get(s.args[0])
        return inner is not None and _zero(known, inner)
    return s.op == "const" and (s.attr == 0 or (isinstance(s.attr, tuple) and not any(s.attr)))


def _sources(known: NeighbourSums, product: Instr) -> tuple[Instr, Instr] | None:
    """The loads of the two factors of narrow integers."""
    loads = []
    for v in product.args:
        cast = known.made.get(v)
        load = known.made.get(cast.args[0]) if cast is not None and cast.op == "cast" else None
        if load is None or load.op != "load" or len(load.args) != 1 or load.result.dtype not in NARROW:
            return None
        loads.append(load)
    return loads[0], loads[1]


def _follows(a: Instr, b: Instr) -> bool:
    """Whether a load reads what comes right behind another's."""
    return a.args[0] is b.args[0] and b.mem == replace(a.mem, offset=a.mem.offset + a.result.lanes, align=b.mem.align)


def _joined(known: NeighbourSums, loop: For, first: PartialSum, second: PartialSum, wide: dict[object, Val]) -> bool:
    """Make the first partial sum of both, if every product of the second is one of what follows that of the first."""
    if len(first.products) != len(second.products):
        return False
    plan = []
    for p, q in zip(first.products, second.products):
        loads, behind = _sources(known, p), _sources(known, q)
        assert loads is not None and behind is not None
        near = next((n for n in (behind, behind[::-1]) if all(_follows(a, b) for a, b in zip(loads, n))), None)
        if near is None:
            return False
        plan.append(loads)
    for addition, product, loads in zip(first.additions, first.products, plan):
        made = list(_pairs(known, loads, product.result, wide))
        at = loop.body.stmts.index(addition)
        loop.body.stmts[at:at] = made
        addition.args = tuple(made[-1].result if v is product.result else v for v in addition.args)
    loop.yields[loop.carried.index(second.carried)] = second.carried
    return True


def _pairs(known: NeighbourSums, loads: tuple[Instr, Instr], like: Val, wide: dict[object, Val]) -> Iterator[Instr]:
    """The sums of neighbouring products of two vectors of twice the lanes."""
    lanes, factors = like.lanes, []
    for load in loads:
        key = (load.mem, load.args[0])
        if key not in wide:
            both = known.value(load.result.dtype, 2 * lanes, like)
            wide[key] = known.value(int32, 2 * lanes, like)
            yield Instr("load", both, load.args, load.attr)
            yield Instr("cast", wide[key], (both,))
        factors.append(wide[key])
    product = known.value(int32, 2 * lanes, like)
    yield Instr("mul", product, (factors[0], factors[1]))
    even, odd, total = (known.value(int32, lanes, like) for _ in range(3))
    yield Instr("shuffle", even, (product, product), tuple(range(0, 2 * lanes, 2)))
    yield Instr("shuffle", odd, (product, product), tuple(range(1, 2 * lanes, 2)))
    yield Instr("add", total, (even, odd))


def _forget(known: NeighbourSums, block: Block, loop: For, gone: Val) -> None:
    """Take a partial sum out of a loop, and the addition of its result out of what follows."""
    at, addition = loop.results.index(gone), known.readers[gone]
    for part in (loop.init, loop.carried, loop.yields, loop.results):
        del part[at]
    block.stmts.remove(addition)
    _replace(block, addition.result, next(v for v in addition.args if v is not gone))
    known.look()


def _replace(block: Block, old: Val, new: Val) -> None:
    """Read one value in place of another."""
    for s in statements(block):
        if isinstance(s, Instr):
            if old in s.args:
                s.args = tuple(new if v is old else v for v in s.args)
        elif isinstance(s, For):
            s.init = [new if v is old else v for v in s.init]
            s.yields = [new if v is old else v for v in s.yields]


def _sweep(known: NeighbourSums, loop: For) -> None:
    """Leave out what nothing reads any more."""
    while True:
        known.look()
        kept = [s for s in loop.body.stmts if not isinstance(s, Instr) or s.out is None or s.out in known.uses]
        if len(kept) == len(loop.body.stmts):
            return
        loop.body.stmts = kept

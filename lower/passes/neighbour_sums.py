"""Sums of products of narrow integers, two neighbours at a time.

x86 multiplies 16-bit numbers and adds the products of neighbours into 32 bits by one instruction (`pmaddwd`), where products
in 32 bits take two or three and half as many fit in a vector. A reduction with lanes along its own axis may use it: partial
sums of integers may be grouped in any way, and wrap as the sum does. This pass joins two such partial sums, of two vectors
that follow each other in memory, into one: both vectors are loaded as one, multiplied, and even and odd products added. LLVM
has the instruction for just that; a Program says what it means, and the interpreter needs no new operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from ...ir.dtypes import int32
from ...opts.analysis.dot_instructions import NARROW
from ...program.facts import DefUse
from ...program.program import Block, For, Instr, Program, Val, bodies
from .scheduling import drop_unread, replace_value


@dataclass(slots=True)
class PartialSum:
    """One partial sum of a loop, by the value that is carried: the products added to it in a step, and the additions, first to last."""

    carried: Val
    products: list[Instr]
    additions: list[Instr]


def join(program: Program) -> None:
    """Rewrite what can be, in place: results are the same to the bit."""
    if any(p.dtype in NARROW for p in program.params):
        uses = DefUse(program)
        for phase in program.phases:
            _block(uses, phase.body)


def _total(uses: DefUse, v: Val) -> Val:
    """The root of the tree of additions that a value is a leaf of: itself where something else reads it as well."""
    while uses.count[v] == 1 and v in uses.reader and uses.reader[v].op == "add":
        v = uses.reader[v].result
    return v


def _block(uses: DefUse, block: Block) -> None:
    for s in list(block.stmts):
        if isinstance(s, For) and any(v.dtype is int32 and v.lanes > 1 for v in s.carried):
            _loop(uses, block, s)
        for body in bodies(s):
            _block(uses, body)


def _loop(uses: DefUse, block: Block, loop: For) -> None:
    """Join the partial sums of a loop that are added up behind it."""
    if any(not isinstance(s, Instr) or s.out is None for s in loop.body.stmts):
        return  # loops inside, or something that writes memory
    wide: dict[object, Val] = {}
    found = {v: terms for i, v in enumerate(loop.results) if (terms := _terms(uses, loop, i)) is not None}
    done: set[Val] = set()
    for a, b in permutations(found, 2):
        # sums of one tree of additions, in which it does not matter where a term comes in
        if done & {a, b} or _total(uses, a) is not _total(uses, b) or _total(uses, b) is b:
            continue
        if _joined(uses, loop, found[a], found[b], wide):
            _forget(uses, block, loop, b)
            done |= {a, b}
    if done:
        drop_unread(loop)
        uses.look()


def _terms(uses: DefUse, loop: For, position: int) -> PartialSum | None:
    """What a step adds to a partial sum; None where it is not a sum of products that begins with 0."""
    carried = loop.carried[position]
    if carried.dtype is not int32 or carried.lanes == 1 or not _zero(uses, loop.init[position]):
        return None
    found = PartialSum(carried, [], [])
    at = loop.yields[position]
    while at is not carried:
        s = uses.made.get(at)
        if s is None or s.op != "add" or uses.count[at] != 1:
            return None
        x, y = (uses.made.get(v) for v in s.args)
        product = x if x is not None and x.op == "mul" else y
        if product is None or product.op != "mul" or uses.count[product.result] != 1 or _sources(uses, product) is None:
            return None
        found.products.insert(0, product)
        found.additions.insert(0, s)
        at = s.args[1] if product is x else s.args[0]
    return found if found.products and uses.count[carried] == 1 else None


def _zero(uses: DefUse, v: Val) -> bool:
    s = uses.made.get(v)
    return uses.number(v) == 0 or (s is not None and s.op == "const" and isinstance(s.attr, tuple) and not any(s.attr))


def _sources(uses: DefUse, product: Instr) -> tuple[Instr, Instr] | None:
    """The loads of the two factors of narrow integers."""
    loads = []
    for v in product.args:
        cast = uses.made.get(v)
        load = uses.made.get(cast.args[0]) if cast is not None and cast.op == "cast" else None
        if load is None or load.op != "load" or len(load.args) != 1 or load.result.dtype not in NARROW:
            return None
        loads.append(load)
    return loads[0], loads[1]


def _follows(a: Instr, b: Instr) -> bool:
    """Whether a load reads what comes right behind another's."""
    return a.args[0] is b.args[0] and b.mem == replace(a.mem, offset=a.mem.offset + a.result.lanes, align=b.mem.align)


def _joined(uses: DefUse, loop: For, first: PartialSum, second: PartialSum, wide: dict[object, Val]) -> bool:
    """Make the first partial sum of both, if every product of the second is one of what follows that of the first."""
    if len(first.products) != len(second.products):
        return False
    plan = []
    for p, q in zip(first.products, second.products):
        loads, behind = _sources(uses, p), _sources(uses, q)
        assert loads is not None and behind is not None
        near = next((n for n in (behind, behind[::-1]) if all(_follows(a, b) for a, b in zip(loads, n))), None)
        if near is None:
            return False
        plan.append(loads)
    for addition, product, loads in zip(first.additions, first.products, plan):
        made = list(_pairs(uses, loads, product.result, wide))
        at = loop.body.stmts.index(addition)
        loop.body.stmts[at:at] = made
        addition.args = tuple(made[-1].result if v is product.result else v for v in addition.args)
    loop.yields[loop.carried.index(second.carried)] = second.carried
    return True


def _pairs(uses: DefUse, loads: tuple[Instr, Instr], like: Val, wide: dict[object, Val]) -> Iterator[Instr]:
    """The sums of neighbouring products of two vectors of twice the lanes."""
    lanes, factors = like.lanes, []
    for load in loads:
        key = (load.mem, load.args[0])
        if key not in wide:
            both = uses.fresh(load.result.dtype, 2 * lanes, like.depth)
            wide[key] = uses.fresh(int32, 2 * lanes, like.depth)
            yield Instr("load", both, load.args, load.attr)
            yield Instr("cast", wide[key], (both,))
        factors.append(wide[key])
    product = uses.fresh(int32, 2 * lanes, like.depth)
    yield Instr("mul", product, (factors[0], factors[1]))
    even, odd, total = (uses.fresh(int32, lanes, like.depth) for _ in range(3))
    yield Instr("shuffle", even, (product, product), tuple(range(0, 2 * lanes, 2)))
    yield Instr("shuffle", odd, (product, product), tuple(range(1, 2 * lanes, 2)))
    yield Instr("add", total, (even, odd))


def _forget(uses: DefUse, block: Block, loop: For, gone: Val) -> None:
    """Take a partial sum out of a loop, and the addition of its result out of what follows."""
    at, addition = loop.results.index(gone), uses.reader[gone]
    for part in (loop.init, loop.carried, loop.yields, loop.results):
        del part[at]
    block.stmts.remove(addition)
    replace_value(block.stmts, addition.result, next(v for v in addition.args if v is not gone))
    uses.look()

"""Planted faults of Hopper's units: right Programs with one thing put wrong, and what the interpreter must say of each.

`MUTANTS` maps a name to (the right Program's shape, the fault, what is said). A fault that only gives wrong numbers says 'differs'. The text
that runs on the processor finds all but `INTERPRETER_ALONE`: it knows no proxies, and not who has been told of what."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from hopper_programs import Gemm, operands, worst
from tilewright.interp import run
from tilewright.ir import VerifyError
from tilewright.program.hopper import BoxLoad, MBar, WarpgroupProduct
from tilewright.program.program import Block, For, If, Instr, Program, Roles, Val, bodies, statements

Fault = Callable[[Program], None]
PLAIN = Gemm(64, 64, 320, slots=2)
ACROSS = Gemm(64, 128, 192, columns=128, slots=2, b_along="n")
STAGED = Gemm(64, 64, 64, slots=2, staged=True)
CLUSTER = Gemm(128, 64, 320, slots=2, cluster=2)
FRAGMENTS = Gemm(64, 64, 192, slots=2, a_registers=True)
TOGETHER = Gemm(128, 64, 320, slots=2, roles=False, consumers=2)
COPIED = Gemm(128, 64, 192, consumers=2, slots=1, roles=False, copied=True)
LIMIT = 1e-6
"""Of the error by the sum of the absolute products, far above what cutting to 25 bits brings."""


def checked(g: Gemm, program: Program) -> str:
    """What is wrong with the Program of `g`, in either order of groups; '' if nothing."""
    a, b, c = operands(g)
    for order in (None, lambda n: range(n - 1, -1, -1)):
        out = c.copy()
        try:
            run(program, [a, b, out], items=order)
        except VerifyError as e:
            return str(e)
        if worst(g, a, b, out) > LIMIT:
            return "differs"
    return ""


# finding and changing -----------------------------------------------------------------------------------------------
def blocks(program: Program) -> Iterator[Block]:
    for p in program.phases:
        yield p.body
        for s in statements(p.body):
            yield from bodies(s)


def found(program: Program, op: str) -> list[tuple[Block, Instr]]:
    return [(b, s) for b in blocks(program) for s in b.stmts if isinstance(s, Instr) and s.op == op]


def without(b: Block, s: Instr) -> None:
    b.stmts[:] = [x for x in b.stmts if x is not s]


def drop(op: str, which: int | None = None) -> Fault:
    """Leave out an operation (the one of that number, or all)."""

    def fault(program: Program) -> None:
        every = found(program, op)
        assert every, op
        for b, s in every if which is None else [every[which]]:
            without(b, s)

    return fault


def told(op: str, change: Callable[[Any], Any], which: int | None = None) -> Fault:
    """Change what an operation is told."""

    def fault(program: Program) -> None:
        every = found(program, op)
        assert every, op
        for _, s in every if which is None else [every[which]]:
            s.attr = change(s.attr)

    return fault


def given(op: str, operand: int, new: Callable[[Val, int], list[Instr]], which: int | None = None) -> Fault:
    """Put something else in an operand's place: `new(operand, the next free number)` are instructions, of which the last gives it."""

    def fault(program: Program) -> None:
        number = 100000
        every = found(program, op)
        for b, s in every if which is None else [every[which]]:
            more = new(s.args[operand], number)
            number += len(more)
            at = b.stmts.index(s)
            depth = max(v.depth for v in s.args)
            for m in more:
                m.result.depth = depth
            b.stmts[at:at] = more
            s.args = (*s.args[:operand], more[-1].result, *s.args[operand + 1 :])

    return fault


def _one(v: Val, number: int, value: int, op: str) -> list[Instr]:
    c, out = Val(number, v.dtype, 1, v.depth), Val(number + 1, v.dtype, 1, v.depth)
    return [Instr("const", c, (), value), Instr(op, out, (v, c))]


def flipped(op: str, operand: int) -> Fault:
    """The other parity."""
    return given(op, operand, lambda v, n: _one(v, n, 1, "xor"))


def plus(op: str, operand: int, value: int, which: int | None = None) -> Fault:
    """So much more."""
    return given(op, operand, lambda v, n: _one(v, n, value, "add"), which)


def late_wait(program: Program) -> None:
    """The slot is given back before its products are done."""
    (body, wait), *_ = found(program, "wgmma_wait")
    without(body, wait)
    last = max(i for i, s in enumerate(body.stmts) if isinstance(s, If))
    body.stmts.insert(last + 1, wait)


def fence_after_meeting(program: Program) -> None:
    (body, fence), *_ = found(program, "proxy_fence")
    without(body, fence)
    at = next(i for i, s in enumerate(body.stmts) if isinstance(s, Instr) and s.op == "meet")
    body.stmts.insert(at + 1, fence)


def no_barrier(program: Program) -> None:
    for b, s in found(program, "barrier"):
        without(b, s)


def operand(name: str, **more: Any) -> Callable[[WarpgroupProduct], WarpgroupProduct]:
    """Another form of an operand of products."""

    def change(p: WarpgroupProduct) -> WarpgroupProduct:
        return dataclasses.replace(p, **{name: dataclasses.replace(getattr(p, name), **more)})

    return change


def arrivals(base: int, count: int) -> Fault:
    """An mbarrier at `base` (of the two, 0 or 1) that counts other arrivals."""

    def fault(program: Program) -> None:
        bars = sorted({s.attr.base for _, s in found(program, "mbar_init")})  # type: ignore[union-attr]
        for b in blocks(program):
            for s in b.stmts:
                if isinstance(s, Instr) and isinstance(s.attr, MBar) and s.attr.base == bars[base]:
                    s.attr = dataclasses.replace(s.attr, arrivals=count)

    return fault


def loads(change: Callable[[BoxLoad], BoxLoad], number: int) -> Fault:
    """Change the boxes of one map."""
    return told("box_load", lambda x: change(x) if x.map == number else x)


def local_release(program: Program) -> None:
    """Consumers tell their own producer alone, which is all that it waits for."""
    arrivals(1, 1)(program)
    every = found(program, "mbar_arrive")
    for b, s in every[1:]:
        without(b, s)
    b, s = every[0]
    s.args = s.args[:1]


def _role(program: Program, number: int) -> Block:
    return next(s for s in program.phases[0].body.stmts if isinstance(s, Roles)).roles[number].body


def one_thread_multiplies(program: Program) -> None:
    """The products stand where one thread of the warpgroup comes by."""
    loop = next(s for s in _role(program, 1).stmts if isinstance(s, For))
    fence = next(i for i, s in enumerate(loop.body.stmts) if isinstance(s, Instr) and s.op == "wgmma_fence")
    cond = next(s.cond for s in loop.body.stmts if isinstance(s, If))
    s = loop.body.stmts[fence]
    s_if = If(cond, Block([s]))
    loop.body.stmts[fence] = s_if


BEFORE = "used before its products are done"
MUTANTS: dict[str, tuple[Gemm, Fault, str]] = {
    # those of the prototype
    "no wait for wgmma": (PLAIN, drop("wgmma_wait"), "still reads it"),
    "no wait after the last product": (Gemm(64, 64, 64, slots=2), drop("wgmma_wait"), BEFORE),
    "a slot is given back before wgmma is done": (PLAIN, late_wait, "no barrier since a wgmma"),
    "wrong parity of the full barrier": (PLAIN, flipped("mbar_wait", 1), ""),
    "too few bytes are announced": (PLAIN, plus("mbar_expect", 1, -8192), "on its way to it"),
    "a step of k of 16 bytes in A": (PLAIN, plus("wgmma", 1, 8, 1), "differs"),
    "wrong stride of eights of rows": (PLAIN, told("wgmma", operand("b", stride=512)), "differs"),
    "B taken with k along its rows": (ACROSS, told("wgmma", operand("b", across=False)), "no barrier since a box"),
    "the producer does not wait for empty slots": (PLAIN, drop("mbar_wait", 0), "more threads arrive"),
    "an operand at half an atom": (PLAIN, plus("wgmma", 2, 256, 0), "no start of eight rows"),
    # waiting and telling
    "consumers do not wait for full slots": (PLAIN, drop("mbar_wait", 1), "on its way to it"),
    "too many bytes are announced": (PLAIN, plus("mbar_expect", 1, 16), "nobody can go on"),
    "nobody gives slots back": (PLAIN, drop("mbar_arrive"), "nobody can go on"),
    "the empty barrier counts one more": (PLAIN, arrivals(1, 2), "nobody can go on"),
    "mbarriers are used before a barrier": (PLAIN, no_barrier, "set it up"),
    "mbarriers are not set up": (PLAIN, drop("mbar_init", 1), "nobody set up"),
    "no barrier before a slot is filled again": (TOGETHER, drop("barrier", 1), "no barrier since a wgmma of warpgroup 1"),
    # products
    "no fence before products": (PLAIN, drop("wgmma_fence"), "no wgmma_fence"),
    "products are not committed": (Gemm(64, 64, 64, slots=2), drop("wgmma_commit"), BEFORE),
    "a group of products may stay under way": (PLAIN, told("wgmma_wait", lambda n: 1), "no barrier since a wgmma"),
    "one thread comes to the fence": (PLAIN, one_thread_multiplies, "units of 128"),
    "wrong stride of 64s of columns": (ACROSS, told("wgmma", operand("b", lead=1024)), "differs"),
    "fragments are read before the slot is full": (FRAGMENTS, drop("mbar_wait", 1), "on its way to it"),
    # a tile that is stored
    "no fence before TMA reads a tile": (STAGED, drop("proxy_fence"), "no proxy_fence"),
    "the fence comes after the barrier": (STAGED, fence_after_meeting, "no proxy_fence"),
    "no barrier before TMA reads a tile": (STAGED, drop("meet"), "no barrier since"),
    "nobody waits until TMA has read": (STAGED, drop("box_wait"), "box_wait"),
    "a stored box is not committed": (STAGED, drop("box_commit"), "box_wait"),
    # tiles that threads copy
    "no fence after copies": (COPIED, drop("proxy_fence"), "no proxy_fence"),
    "no wait for copies": (COPIED, drop("wait"), "on its way to it"),
    "no barrier after copies": (COPIED, drop("barrier", 1), "no barrier since thread"),
    "no barrier before the next copies": (COPIED, drop("barrier", 2), "with no barrier since a wgmma"),
    # clusters
    "a box goes to one group alone": (CLUSTER, loads(lambda x: dataclasses.replace(x, multicast=0), 1), "nobody can go on"),
    "a box goes to the other group alone": (CLUSTER, loads(lambda x: dataclasses.replace(x, multicast=1), 1), ""),
    "slots are given back to one producer": (CLUSTER, local_release, "overwritten by a box"),
    "a group ends while another may reach it": (CLUSTER, drop("cluster_barrier", 1), "has ended"),
    "groups begin before the other has its mbarriers": (CLUSTER, drop("cluster_barrier", 0), "set"),
}
"""Each is found; those with '' by one of several signs."""
INTERPRETER_ALONE = {
    "no barrier before a slot is filled again",
    "no fence before TMA reads a tile",
    "the fence comes after the barrier",
    "slots are given back to one producer",
}
"""Those that the text on the processor misses in both of its orders."""

"""Updates of places that a vector of indices says (histograms), on processors that guess from an address's registers what a load depends on.

Such a processor takes a load to need the store before it that has the same two registers in its address, although one of them has got
another number from a vector meanwhile. Each wrong guess costs it about twenty cycles. So the address is put into one register, by an
instruction that LLVM sees nothing of."""

from __future__ import annotations

from collections.abc import Mapping

from ...program.ops import READS, WRITES
from ...program.program import Instr, Program, Val, statements

ALONG = frozenset({"add", "sub", "mul", "shl", "cast", "min", "max", "select"})
"""What an index goes through on its way from a lane."""


def updated(program: Program) -> set[Val]:
    """Indices from lanes of vectors at which a place is read and written."""
    found: set[Val] = set()
    for phase in program.phases:
        code = list(statements(phase.body))
        made = {s.out: s for s in code if isinstance(s, Instr) and s.out is not None}
        read = {(s.mem, s.args[0]) for s in code if isinstance(s, Instr) and s.op in READS and s.args[0].lanes == 1}
        written = {(s.mem, s.args[0]) for s in code if isinstance(s, Instr) and s.op in WRITES}
        found |= {at for _, at in read & written if _of_lane(made, at)}
    return found


def _of_lane(made: Mapping[Val, Instr], at: Val) -> bool:
    s = made.get(at)
    return s is not None and (s.op == "extract" or (s.op in ALONG and any(_of_lane(made, a) for a in s.args)))


def in_one_register(address: str) -> str:
    """The instruction that keeps an address from becoming part of the access."""
    return f'call ptr asm "", "=r,0"(ptr {address})'

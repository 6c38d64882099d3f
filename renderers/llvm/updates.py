"""Updates of memory that some processors are slow at as LLVM would write them. It is kept from that by instructions of no length
that it does not see through.

Updates of places that a vector of indices says (histograms): a processor that guesses from an address's registers what a load depends on
takes it to need the store before it that has the same two registers in its address, although one of them has got another number from a
vector meanwhile. Each wrong guess costs it about twenty cycles. So the address is put into one register.

Choices between what is at a place and something else (extremes by segment): LLVM makes a masked store of the choice and the store, which
is dozens of instructions in a processor without registers for masks."""

from __future__ import annotations

from ...program.ops import READS, WRITES
from ...program.program import Instr, Program, Val, statements

ALONG = frozenset({"add", "sub", "mul", "shl", "cast", "min", "max", "select"})
"""What an index goes through on its way from a lane."""
CHOICES = frozenset({"select", "min", "max"})


def updated(program: Program) -> set[Val]:
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


def chosen(program: Program) -> set[Val]:
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


def in_one_register(address: str) -> str:
    """The instruction that keeps an address from becoming part of the access."""
    return f'call ptr asm "", "=r,0"(ptr {address})'


def apart(ty: str, value: str) -> str:
    """The instruction that keeps a vector from becoming part of the store."""
    return f'call {ty} asm "", "=x,0"({ty} {value})'

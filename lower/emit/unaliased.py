"""Where stores past the caches may lie, for loads not to meet them.

Such stores wait in a few buffers for the rest of their lines. Processors compare a load with stores that are under way by their places in a
page first: where a load comes to a place at which a line of another array waits, the line is written as it is, and again for each piece of
it that follows. On a Zen 3 two outputs that begin 64 bytes after their input in a page take twelve times as long as those that begin
elsewhere, one output half as long again (`docs/decisions`, 91)."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.dtypes import bool_
from ...opts.nests import Nest
from ...opts.strides import stride
from ...program.ops import PAGE
from ...program.program import Val
from ..lowering import Lowering

SEVERAL, ALONE = 1024, 128
"""Bytes after a load in which no output may lie: of several rows that are stored at once, and of one."""
LINE = 64
"""Bytes from which on two copies of a store are in different lines."""
MOST = PAGE // 2
"""Bytes of a page which loads may forbid; beyond, such stores are not worth asking."""


def unaliased(low: Lowering, nests: Sequence[Nest]) -> Val | None:
    """Whether no load of some nests comes to where stores of theirs wait, which is known once the parameters are; None where none can.
    Loads that move otherwise than the stores meet them seldom."""
    b, out = low.b, None
    size = SEVERAL if sum(_rows(low, n) for n in nests) > 1 else ALONE
    for (param, other), places in _places(low, nests).items():
        windows = _windows(sorted(places), size)
        if sum(n for _, n in windows) > MOST:
            return b.const(False, bool_)
        for first, length in windows:
            found = b.apart(param, other, first % PAGE, length)
            out = found if out is None else b.op("and", out, found)
    return out


def _places(low: Lowering, nests: Sequence[Nest]) -> dict[tuple[int, int], set[int]]:
    """By (parameter stored to, parameter loaded from): how many bytes loads are ahead of the stores."""
    found: dict[tuple[int, int], set[int]] = {}
    loads = dict.fromkeys(n for nest in nests for n in nest.loads)
    for nest in nests:
        assert nest.store is not None
        buffer = nest.store.buffer
        at = low.ctx.address(buffer.name, nest.indices)
        for source, indices, _ in map(load_parts, loads):
            if source.name not in low.ctx.params or source.name in low.sched.stages or source.dtype.size != buffer.dtype.size:
                continue
            ahead = ix.add(low.ctx.address(source.name, indices), at, -1)
            if ahead.op == "const":
                pair = (low.ctx.params[buffer.name], low.ctx.params[source.name])
                found.setdefault(pair, set()).add(ahead.arg * source.dtype.size % PAGE)
    return found


def _rows(low: Lowering, n: Nest) -> int:
    """The rows of an output that a nest stores to at once."""
    assert n.store is not None
    s, out = low.sched, 1
    for p in s.registers(n):
        step = abs(stride(s, n, "", n.indices, n.store.buffer.shape, p) or 0) * n.store.buffer.dtype.size
        if p is not s.lanes(n).lane and step >= LINE:
            out *= p.trips
    return out


def _windows(places: Sequence[int], size: int) -> list[tuple[int, int]]:
    """(first byte, bytes) where an output may not begin after an array: in the `size` bytes after each place, joined where they meet."""
    out: list[tuple[int, int]] = []
    for p in places:
        first, end = p + 1, p + size
        if out and first <= out[-1][0] + out[-1][1]:
            out[-1] = (out[-1][0], end - out[-1][0])
        else:
            out.append((first, end - first))
    return out

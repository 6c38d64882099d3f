"""Intervals of the int64 values of a phase: which of them fit 32 bits, and which cannot wrap.

One walk in order suffices, since values are assigned once; what a loop carries is taken as unknown. Vectors have one interval for
all lanes. The intervals are of exact integers: an operation whose result may leave int64 gives no interval, and must wrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.dtypes import index
from ..ir.index import bounds
from ..ir.intervals import BIG
from ..ir.node import Node
from ..program.program import Block, For, Instr, Phase, Val, bodies

Range = tuple[int, int]
INT32: Range = (-(1 << 31), (1 << 31) - 1)
INT64: Range = (-(1 << 63), (1 << 63) - 1)


def inside(a: Range | None, b: Range) -> bool:
    """Whether every number of `a` is one of `b`; an unknown range is inside nothing."""
    return a is not None and b[0] <= a[0] and a[1] <= b[1]


def ranges(phase: Phase, symbols: Sequence[Node]) -> dict[int, Range]:
    """Intervals by Val id. A loop's variable includes the value that ends the loop. Values without an entry may be any int64."""
    found: dict[int, Range] = {phase.item.id: (0, max(0, bounds(phase.items)[1] - 1))}
    for v, s in zip(phase.vars, symbols, strict=True):
        found[v.id] = bounds(s)
    if phase.thread is not None:
        found[phase.thread.id] = (0, phase.threads - 1)
    for known in list(found):
        if not inside(found[known], (-BIG, BIG - 1)):
            del found[known]
    _block(phase.body, found)
    return found


def _block(block: Block, found: dict[int, Range]) -> None:
    for s in block.stmts:
        if isinstance(s, Instr):
            if s.out is not None and s.out.dtype is index:
                r = _of(s, found)
                if inside(r, INT64):
                    assert r is not None
                    found[s.out.id] = r
        elif isinstance(s, For):
            lo, hi = found.get(s.lo.id), found.get(s.hi.id)
            if lo is not None and hi is not None:
                # the last value tested is below the bound by at most nothing and above it by less than a step
                r = lo[0], max(lo[1], hi[1]) + s.step - 1
                if inside(r, INT64):
                    found[s.var.id] = r
            _block(s.body, found)
        else:
            for body in bodies(s):
                _block(body, found)


def _of(s: Instr, found: dict[int, Range]) -> Range | None:
    if s.op == "const":
        values = s.picks if isinstance(s.attr, tuple) else (s.number,)
        return int(min(values)), int(max(values))
    if s.op == "cast":
        return _cast(s.args[0], found)
    rule = _RULES.get(s.op)
    if rule is None:
        return None
    args = [_arg(a, found) for a in s.args if a.dtype is index]
    if s.op in ("idiv", "imod"):
        return rule(*args, (s.number, s.number))
    return rule(*args)


def _arg(v: Val, found: dict[int, Range]) -> Range:
    return found.get(v.id, INT64)


def _cast(a: Val, found: dict[int, Range]) -> Range | None:
    if a.dtype.kind == "b":
        return 0, 1
    if a.dtype is index:
        return _arg(a, found)
    if a.dtype.kind == "u":
        return 0, (1 << 8 * a.dtype.size) - 1
    half = 1 << (8 * a.dtype.size - 1)
    return (-half, half - 1) if a.dtype.kind == "i" else None


def _ends(f: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    def rule(a: Range, b: Range) -> Range:
        ends = [f(x, y) for x in a for y in b]
        return min(ends), max(ends)

    return rule


def _mod(a: Range, n: Range) -> Range:
    low, high = a[0] // n[0], a[1] // n[0]
    return (a[0] % n[0], a[1] % n[0]) if low == high else (0, n[0] - 1)


def _abs(a: Range) -> Range:
    return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), max(abs(a[0]), abs(a[1]))


def _and(a: Range, b: Range) -> Range | None:
    tops = [r[1] for r in (a, b) if r[0] >= 0]
    return (0, min(tops)) if tops else None


def _bits(a: Range, b: Range) -> Range | None:
    """Of `or` and `xor`: no bit above the highest of either."""
    return (0, (1 << max(a[1], b[1]).bit_length()) - 1) if min(a[0], b[0]) >= 0 else None


def _shift(a: Range, n: Range) -> Range | None:
    return _ends(lambda x, k: x >> k)(a, n) if inside(n, (0, 63)) else None


def _union(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


_RULES: dict[str, Callable[..., Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _ends(lambda x, y: x * y),
    "fma": lambda a, b, c: _RULES["add"](_ends(lambda x, y: x * y)(a, b), c),
    "neg": lambda a: (-a[1], -a[0]),
    "abs": _abs,
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "idiv": lambda a, n: (a[0] // n[0], a[1] // n[0]),
    "imod": _mod,
    "and": _and,
    "or": _bits,
    "xor": _bits,
    "shr": _shift,
    "select": _union,
    "splat": lambda a: a,
    "extract": lambda a: a,
    "insert": _union,
    "shuffle": _union,
    "shfl_xor": lambda a: a,
}

"""The comparison of a result with its reference, as a Program: rendered for every device, by the renderer of the candidates.

An element's error is |result − reference| · weight for floats, in float64, and 2 for integers that differ. Each lane, or each thread, keeps the
largest error of its elements; a maximum keeps NaN. An error of at most 1 is right. What is above, NumPy judges and describes."""

from __future__ import annotations

from ..ir.dtypes import DType, dtype, float32, float64, index, uint8
from ..ir.node import const, sym
from ..program.builder import Builder
from ..program.program import Mem, Param, Phase, Program, Val
from .base import FREE, SPECIAL

CHUNK = 1 << 14
"""Elements that a thread of a processor, or a group of threads, compares."""
THREADS = 256
"""Threads of a group, and maxima that are left of a result, on devices with groups."""


def rows(n: int, lanes: int) -> int:
    """Rows of the maxima of `by_chunks`."""
    rest = n % CHUNK
    return n // CHUNK + (rest >= lanes) + (rest % lanes > 0)


def by_chunks(of: DType, n: int, lanes: int) -> Program:
    """For processors. Parameters: result (n,) `of`, reference (n,) float64 (integers: `of`), weight (n,) float32 (floats only), worst
    (rows, lanes) float64: the lane-wise maxima of each chunk of elements, of the rest, and of the last n mod lanes."""
    params = _parameters(of, of.is_float, False, n)
    out = len(params)
    params.append(Param("worst", float64, (rows(n, lanes), lanes), "out"))
    worst = Mem("param", out, float64, 0, 8)
    chunks, rest = n // CHUNK, n % CHUNK
    b = Builder()
    phases: list[Phase] = []

    def span(first: Val, count: int, width: int, row: Val) -> None:
        lo, hi = first, b.op("add", first, b.const(count))
        with b.loop("i", lo, hi, width, [b.const(0.0, float64, width)]) as loop:
            loop.yields = [b.op("max", loop.carried[0], _error(b, of, of.is_float, False, loop.var, width))]
        best = b.splat(loop.results[0], lanes) if width == 1 else loop.results[0]
        b.store(worst, b.op("mul", row, b.const(lanes)), best)

    if chunks:
        with b.phase(const(chunks), ()) as phase:
            span(b.op("mul", phase.item, b.const(CHUNK)), CHUNK, lanes, phase.item)
        phases.append(phase)
    if rest:
        with b.phase(const(1), ()) as phase:
            full = rest // lanes * lanes
            if full:
                span(b.const(chunks * CHUNK), full, lanes, b.const(chunks))
            if rest - full:
                span(b.const(chunks * CHUNK + full), rest - full, 1, b.const(rows(n, lanes) - 1))
        phases.append(phase)
    return Program(f"compare_{of.name}", tuple(params), (), phases)


def groups(n: int) -> int:
    """Groups of `by_threads` for a result of n elements."""
    return -(-n // CHUNK)


def by_threads(of: DType, weighed: bool, flagged: bool) -> Program:
    """For devices with groups of threads; one Program for results of any size n, its symbol. Parameters: result (n,) `of`, reference (n,)
    float64 (integers: `of`), weight (n,) float32 and flags (n,) uint8 where there are any, errors (groups(n) · THREADS,), a thread's
    each, and worst (THREADS,), the largest of these, float64."""
    n = sym("n", 1, 1 << 40)
    items = (n + (CHUNK - 1)) // CHUNK
    params = _parameters(of, weighed, flagged, n)
    errors, worst = (Mem("param", len(params) + i, float64, 0, 8) for i in range(2))
    params += [Param("errors", float64, (items * THREADS,), "out"), Param("worst", float64, (THREADS,), "out")]
    b = Builder()
    with b.phase(items, (n,), THREADS) as first:
        assert first.thread is not None
        begin = b.op("mul", first.item, b.const(CHUNK))
        end = b.op("min", first.vars[0], b.op("add", begin, b.const(CHUNK)))
        with b.loop("i", b.op("add", begin, first.thread), end, THREADS, [b.const(0.0, float64)], maybe=True) as loop:
            loop.yields = [b.op("max", loop.carried[0], _error(b, of, weighed, flagged, loop.var, 1))]
        b.store(errors, b.op("add", b.op("mul", first.item, b.const(THREADS)), first.thread), loop.results[0])
    with b.phase(const(1), (n,), THREADS) as second:
        assert second.thread is not None
        count = b.op("idiv", b.op("add", second.vars[0], b.const(CHUNK - 1)), attr=CHUNK)
        with b.loop("i", second.thread, b.op("mul", count, b.const(THREADS)), THREADS, [b.const(0.0, float64)]) as loop:
            loop.yields = [b.op("max", loop.carried[0], b.load(errors, loop.var))]
        b.store(worst, second.thread, loop.results[0])
    return Program(f"compare_{of.name}", tuple(params), (n,), [first, second])


def _parameters(of: DType, weighed: bool, flagged: bool, n: object) -> list[Param]:
    kept = stored(of)
    out = [Param("result", kept, (n,), "in"), Param("reference", float64 if of.is_float else kept, (n,), "in")]  # type: ignore[arg-type]
    out += [Param("weight", float32, (n,), "in")] * weighed  # type: ignore[arg-type]
    out += [Param("flags", uint8, (n,), "in")] * flagged  # type: ignore[arg-type]
    return out


def _error(b: Builder, of: DType, weighed: bool, flagged: bool, at: Val, lanes: int) -> Val:
    assert at.dtype is index

    def element(position: int, t: DType) -> Val:
        return b.load(Mem("param", position, t, 0, t.size), at, lanes, invariant=True)

    got, want = element(0, stored(of)), element(1, float64 if of.is_float else stored(of))
    if of.kind == "b":  # any byte but 0 is true
        got, want = (
            b.op("select", b.op("ne", x, b.const(0, uint8, lanes)), *(b.const(k, uint8, lanes) for k in (1, 0))) for x in (got, want)
        )
    nothing = b.const(0.0, float64, lanes)
    if not weighed:
        error = b.op("select", b.op("ne", got, want), b.const(2.0, float64, lanes), nothing, dtype=float64)
    else:
        got, want = _wide(b, got), _wide(b, want)
        error = b.op("mul", b.op("abs", b.op("sub", got, want)), b.op("cast", element(2, float32), dtype=float64))
    if not flagged:
        return error
    flags = element(2 + weighed, uint8)

    def has(flag: int) -> Val:
        return b.op("ne", b.op("and", flags, b.const(flag, uint8, lanes)), b.const(0, uint8, lanes))

    if of.is_float:  # what is not finite in its type is compared by kind
        infinite = b.const(float("inf"), float64, lanes)
        both_nan = b.op("and", b.op("ne", got, got), b.op("ne", want, want))
        side = b.op("eq", b.op("lt", got, nothing), b.op("lt", want, nothing))
        same = b.op("and", b.op("eq", b.op("abs", got), infinite), b.op("and", b.op("eq", want, want), side))
        error = b.op("select", has(SPECIAL), b.op("select", b.op("or", both_nan, same), nothing, infinite), error)
    return b.op("select", has(FREE), nothing, error)


def _wide(b: Builder, x: Val) -> Val:
    """A number as float64."""
    if x.dtype.narrow:
        x = b.op("cast", x, dtype=float32)
    return x if x.dtype is float64 else b.op("cast", x, dtype=float64)


def stored(of: DType) -> DType:
    """The type under which elements are compared: bools are bytes."""
    return dtype("uint8") if of.kind == "b" else of

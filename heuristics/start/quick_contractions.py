"""A contraction's start schedule in a few steps: a closed form chooses the register tile, and the analytic model is asked about
one change at a time, where the ranked choice (`contractions.best_contractions`) asks about every combination."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice

from ...ir.node import Node
from ...opts.access import accesses
from ...opts.analysis.structure import Contraction, extent, shared_axes
from ...opts.defaults import waste
from ...opts.opt import Opts
from ...targets import Target
from ..machine import DEFAULT
from .contractions import FEW_ROWS, Blocks, contraction, contraction_guesses
from .legal import Trials
from .windows import window_guesses

LONG = 512
"""The block of a reduction whose whole panel the second cache does not hold."""
WIDE = 256
"""Elements of the lane axis in a panel that is wide enough: beyond that, items over lanes are better than over rows."""
SHORT = 256
"""The block of a reduction that is asked about first: its panels fit the second cache beside what passes."""
MORE_ITEMS = 8
"""Work items a thread that batches have to make, before the product itself is spread over threads."""

Ask = Callable[[Opts], float | None]
"""Options, perhaps illegal ones → predicted seconds; None where nothing legal is left, or enough was asked."""


def ask_contractions(trials: Trials, threads: int, c: Contraction, ask: Ask) -> None:
    """Ask about few schedules of `c`: windows first, then from the closed form's favourite one change at a time, each
    from the best so far."""
    kernel, target = trials.kernel, trials.target
    guesses = contraction_guesses(c, target, threads)
    if any(g.tc for g in guesses):
        guesses = [g for g in guesses if g.tc]
    free = [extent(a) for a in shared_axes(kernel) if a is not c.lane and a is not _row(c)]
    # panels of an operand that is read across memory are better filled once where the reduction is long, though
    # that makes them narrow
    across = _depth(c) > 4 * LONG and any(x.buffer == c.wide and x.stride(c.lane) != 1 for x in accesses(kernel, c.nest))
    order = sorted(guesses, key=lambda g: _key(g, c, target, threads, math.prod(free), across))
    windows = list(islice(window_guesses(kernel, target, threads, c), 2))
    windows = windows[-1:] if target.registers >= 32 else windows[:1]  # with many registers, items over the rows where they are offered
    for wish in windows:
        ask(wish)
    asked: dict[Blocks, float] = {}

    def best_of(g: Blocks | None) -> Blocks:
        if g is not None and g not in asked:
            found = ask(contraction(kernel, target, threads, c, g))
            asked[g] = math.inf if found is None else found
        return min(asked, key=lambda b: asked[b])

    at = best_of(order[0])
    few = (_stream, _few) if max(map(extent, c.rows), default=1) <= FEW_ROWS else ()
    for change in (*few, *(() if windows else (_cut, _rows, _tile))):
        at = best_of(change(at, [g for g in order if g not in asked]))


def _depth(c: Contraction) -> int:
    return math.prod(extent(a) for a in c.reduce)


def _row(c: Contraction) -> Node | None:
    return max(c.rows, key=extent, default=None)


def _key(g: Blocks, c: Contraction, target: Target, threads: int, free: int, across: bool) -> tuple[float, bool, bool, bool, int, int, int]:
    """What guesses are sorted by: seconds by a closed form, to two digits, and what mostly is better among equals."""
    seconds = 1e-12 + _seconds(g, c, target, threads, free)
    digits = -math.floor(math.log10(seconds)) + 1
    line, room = g.nb * c.nest.expr.dtype.size, DEFAULT.caches.usable * target.l2
    whole = g.kc == (0 if across or _depth(c) * line <= room else LONG)
    return round(seconds, digits), bool(g.stream), (g.kc or _depth(c)) * line > room, not whole, -min(g.nb, WIDE), g.rows, -g.nb


def _seconds(g: Blocks, c: Contraction, target: Target, threads: int, free: int) -> float:
    """Arithmetic of one register tile against the ports, times tiles, shared among threads. Data is taken to be near:
    what it costs to bring is asked of the model."""
    core, caches = DEFAULT.core, DEFAULT.caches
    tall, width = max((extent(a) for a in c.rows), default=1), extent(c.lane)
    if not tall * width:
        return 0.0
    nr, sums = g.nv * target.lanes(c.nest.expr.dtype), g.mr * g.nv
    loads = g.mr + g.nv
    step = max(sums / core.ports, loads / core.load_ports, core.latency, (sums + loads + core.overhead / g.unroll) / core.issue)
    steps = _depth(c) * math.prod(extent(a) for a in c.nest.axes) / (g.mr * nr)
    size, depth = c.nest.expr.dtype.size, g.kc or _depth(c)
    near = depth * (nr + g.mr) * size <= caches.usable * target.l1  # else every row of tiles reads its panel from the second cache
    moved = (g.mr + (0 if near else nr)) * size / caches.l2
    step = max(step, moved) + caches.unhidden * min(step, moved)
    work = steps * (1 + waste(tall, g.mr)) * (1 + waste(width, nr)) * step / core.clock
    if free >= MORE_ITEMS * threads:
        items = free
    elif g.rows and tall > 1:
        items = free * -(-tall // max(g.mc, g.mr))
    else:
        items = free * -(-width // (g.nb if nr <= g.nb < width else nr))
    items = max(1, items)
    used = min(threads, items)
    return work * -(-items // used) / items + (caches.wake if used > 1 else 0.0) + items * caches.item


def _cut(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """The same with the reduction cut otherwise."""
    found = [g for g in left if _but(g, at, "kc", "nb") and g.kc != at.kc]
    return next((g for g in found if g.kc == SHORT), found[0] if found else None)


def _rows(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """The same, parallel over rows instead of lanes, or the reverse."""
    return next((g for g in left if _but(g, at, "rows", "mc") and g.rows != at.rows), None)


def _tile(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """The next register tile, cut as this one where it can be."""
    others = [g for g in left if (g.mr, g.nv) != (at.mr, at.nv) and g.stream == at.stream]
    alike = [g for g in others if (g.kc, g.rows) == (at.kc, at.rows)]
    return next(iter(alike or others), None)


def _but(g: Blocks, at: Blocks, *fields: str) -> bool:
    """Whether two guesses differ in `fields` at most."""
    return all(getattr(g, f) == getattr(at, f) for f in Blocks.__slots__ if f not in fields)


def _stream(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """Long rows read side by side: the wide operand of few rows passes once."""
    return next((g for g in left if g.stream and g.unroll == 16), None)


def _few(at: Blocks, left: list[Blocks]) -> Blocks | None:
    """Panels of a few long rows."""
    return next((g for g in left if g.kc == 128), None)

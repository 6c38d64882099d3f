"""Neighbourhood moves: small changes inside an option list, all re-applied for legality.

Appending is what `Space.successors` does; these change what is already there: another amount, one option fewer, two options exchanged.
They let a search leave a seed sideways, which appending alone cannot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ..opts.written.syntax import SYNTAX

if TYPE_CHECKING:
    from random import Random

    from ..opts.opt import Opt
    from .space import Schedule, Space, State

AMOUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 80, 96, 112, 128, 192, 224, 256, 384, 512, 768, 1024, 2048, 4096)
"""Amounts worth trying for a split: small register tiles densely, cache blocks coarsely."""


def amounts(n: int, reach: int = 2) -> list[int]:
    """Up to `reach` ladder steps below and above `n`, and its half and double, nearest first, without `n`."""
    below = [a for a in AMOUNTS if a < n][-reach:][::-1]
    above = [a for a in AMOUNTS if a > n][:reach]
    out: list[int] = []
    for i in range(reach):
        out += above[i : i + 1] + below[i : i + 1]
    for a in (2 * n, n // 2):
        if a >= 1 and a != n and a not in out:
            out.append(a)
    return out


def variants(opt: Opt, places: Collection[str] = (), reach: int = 2) -> Iterator[Opt]:
    """The option with another amount, or with one field changed; `places` are loops that its fields may name."""
    if isinstance(opt.arg, int):
        for a in amounts(opt.arg, reach):
            yield dataclasses.replace(opt, arg=a)
    elif isinstance(opt.arg, tuple):
        fields, syntax = opt.fields, SYNTAX[opt.op]
        for field, value in fields.items():
            for choice in places if field in syntax.loop_fields else syntax.choices.get(field, ()):
                if choice not in (value, opt.on):
                    yield dataclasses.replace(opt, arg=tuple({**fields, field: choice}.items()))


def places(opts: Schedule) -> list[str]:
    """The axes and loops that a list mentions, each once, in order."""
    seen: dict[str, None] = {}
    for o in opts:
        if SYNTAX[o.op].on != "tensor":
            seen.setdefault(o.on)
        if isinstance(o.arg, tuple):
            for field, value in o.arg:
                if field in SYNTAX[o.op].loop_fields:
                    seen.setdefault(str(value))
    return list(seen)


def neighbours(opts: Schedule, reach: int = 2) -> Iterator[tuple[str, Schedule]]:
    """(kind of move, new list) for every neighbourhood move; nothing here is checked for legality."""
    named = places(opts)
    for i, o in enumerate(opts):
        for v in variants(o, named, reach):
            yield f"amount {o.op} {o.on}", (*opts[:i], v, *opts[i + 1 :])
    for i, o in enumerate(opts):
        yield f"drop {o.op} {o.on}", (*opts[:i], *opts[i + 1 :])
    for i in range(len(opts) - 1):
        yield "swap", (*opts[:i], opts[i + 1], opts[i], *opts[i + 2 :])
    for i, a in enumerate(opts):
        for j in range(i + 1, len(opts)):
            b = opts[j]
            # the same kind of option on two axes: exchange the amounts (an 8x4 register tile becomes 4x8)
            if a.op == b.op and a.on != b.on and a.arg != b.arg and isinstance(a.arg, int) and isinstance(b.arg, int):
                pair = list(opts)
                pair[i], pair[j] = dataclasses.replace(a, arg=b.arg), dataclasses.replace(b, arg=a.arg)
                yield f"exchange {a.op}", tuple(pair)


def mutate(space: Space, state: State, rng: Random, tries: int = 8) -> State | None:
    """A random legal state near `state`: one neighbourhood move, or one action appended or put in somewhere earlier."""
    for _ in range(tries):
        if not state.opts or rng.random() < 0.35:
            actions = space.actions(state)
            if actions:
                action = rng.choice(actions)
                cut = rng.randrange(len(state.opts) + 1) if rng.random() < 0.3 else len(state.opts)
                nxt = space.state((*state.opts[:cut], *action, *state.opts[cut:]))
                if nxt is not None and nxt.hash != state.hash:
                    return nxt
        if state.opts:
            _, opts = rng.choice(list(neighbours(state.opts, reach=3)))
            nxt = space.legalise(opts)
            if nxt is not None and nxt.hash != state.hash:
                return nxt
    return None

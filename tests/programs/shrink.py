"""A failing program made smaller while it fails in the same way: fewer results, steps and options, smaller extents, simpler types
and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from . import oracle
from .program import Leaf, Program, Step

Fails = Callable[[Program], bool]


def kind(message: str) -> str:
    """What stays the same of a failure: the class of an exception, or that numbers are wrong."""
    if "elements are wrong" in message:
        return "wrong"
    head = message.split(":")[0]
    return head if head.endswith("Error") or " " not in head else "".join(c for c in message if not c.isdigit())[:24]


def shrunk(program: Program, fails: Fails, tries: int = 400) -> Program:
    """The smallest that was found within so many tries. `fails` says whether a program fails in the way of the first."""
    best = program
    seen = {program}
    again = True
    while again and tries > 0:
        again = False
        for made in smaller(best):
            if made in seen:
                continue
            seen.add(made)
            if not means_something(made):
                continue
            tries -= 1
            if fails(made):
                best, again = made, True
                break
            if tries <= 0:
                break
    return best


def means_something(program: Program) -> bool:
    """Whether NumPy computes it."""
    try:
        oracle.use(0)
        with np.errstate(all="ignore"):
            oracle.compiled(program)(*[oracle.array(leaf) for leaf in program.leaves])
    except Exception:
        return False
    return True


def shapes(program: Program) -> list[tuple[tuple[int, ...], str]]:
    """Shape and type of every value."""
    whole = replace(program, outs=tuple(range(len(program.leaves) + len(program.steps))))
    oracle.use(0)
    with np.errstate(all="ignore"):
        found = oracle.compiled(whole)(*[oracle.array(leaf) for leaf in program.leaves])
    return [(np.shape(x), oracle.kind_of(x)) for x in found]


def smaller(p: Program) -> Iterator[Program]:
    """Programs that are a little smaller, the boldest first."""
    if len(p.outs) > 1:
        for o in p.outs:
            yield replace(p, outs=(o,)).live()
        for o in p.outs:
            yield replace(p, outs=tuple(x for x in p.outs if x != o)).live()
    known = shapes(p)
    first = len(p.leaves)
    for i in reversed(range(len(p.steps))):
        if first + i in p.outs and len(p.steps) > 1:
            yield replace(p, outs=tuple(dict.fromkeys(a for o in p.outs for a in (p.steps[i].args if o == first + i else (o,))))).live()
    for i in range(len(p.steps)):
        yield without(p, i, Leaf("whole", 1, *known[first + i]))
        for a in dict.fromkeys(p.steps[i].args):
            if known[a] == known[first + i]:
                yield instead(p, first + i, a).live()
    yield from _narrower(p)
    for i, leaf in enumerate(p.leaves):
        for other in range(i):
            if known[other] == known[i]:
                yield instead(p, i, other).live()
        if leaf.what not in ("whole", "ones") and not leaf.what.startswith("below"):
            yield _leaf(p, i, replace(leaf, what="whole"))
            yield _leaf(p, i, replace(leaf, what="positive"))
    for kind_ in {leaf.dtype for leaf in p.leaves} - {"float32"}:
        yield replace(
            p,
            leaves=tuple(replace(leaf, dtype="float32") if leaf.dtype == kind_ else leaf for leaf in p.leaves),
            steps=tuple(replace(s, params=tuple((k, "float32" if v == kind_ else v) for k, v in s.params)) for s in p.steps),
        )
    for i, s in enumerate(p.steps):
        for j, (k, v) in enumerate(s.params):
            if (k, v) == ("keep", True):
                yield _step(p, i, replace(s, params=(*s.params[:j], (k, False), *s.params[j + 1 :])))


def _narrower(p: Program) -> Iterator[Program]:
    """An extent that is less everywhere, in leaves and parameters."""
    extents = sorted({n for leaf in p.leaves for n in leaf.shape if n > 1}, reverse=True)
    for n in extents:
        for m in dict.fromkeys((1, 2, 3, n // 2, n - 8, n - 1)):
            if 0 < m < n:
                to = lambda x, n=n, m=m: m if x == n else x  # noqa: E731
                leaves = tuple(
                    replace(leaf, shape=tuple(map(to, leaf.shape)), what=f"below {m}" if leaf.what == f"below {n}" else leaf.what)
                    for leaf in p.leaves
                )
                steps = tuple(replace(s, params=tuple((k, tuple(map(to, v)) if k == "shape" else v) for k, v in s.params)) for s in p.steps)
                yield replace(p, leaves=leaves, steps=steps)
    for i, leaf in enumerate(p.leaves):
        for d, n in enumerate(leaf.shape):
            if n > 1:
                yield _leaf(p, i, replace(leaf, shape=(*leaf.shape[:d], 1, *leaf.shape[d + 1 :])))


def instead(p: Program, value: int, by: int) -> Program:
    """`by` wherever `value` is read or asked for."""
    to: Any = lambda v: by if v == value else v  # noqa: E731
    steps = tuple(replace(s, args=tuple(map(to, s.args))) for s in p.steps)
    return replace(p, steps=steps, outs=tuple(dict.fromkeys(map(to, p.outs))))


def without(p: Program, i: int, leaf: Leaf) -> Program:
    """Step `i` as a leaf: it stands behind the others."""
    first = len(p.leaves)
    to: Any = lambda v: first if v == first + i else v if v < first else v + 1 if v < first + i else v  # noqa: E731
    rest = (*p.steps[:i], *p.steps[i + 1 :])
    steps = tuple(replace(s, args=tuple(map(to, s.args))) for s in rest)
    return replace(p, leaves=(*p.leaves, leaf), steps=steps, outs=tuple(dict.fromkeys(map(to, p.outs)))).live()


def _leaf(p: Program, i: int, leaf: Leaf) -> Program:
    return replace(p, leaves=(*p.leaves[:i], leaf, *p.leaves[i + 1 :]))


def _step(p: Program, i: int, step: Step) -> Program:
    return replace(p, steps=(*p.steps[:i], step, *p.steps[i + 1 :]))

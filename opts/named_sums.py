"""What options have in common that name sums of a kernel, several of which may be rewritten together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..ir.errors import OptError
from .neighbourhood import Neighbourhood
from .opt import Opts, opt
from .rewriting import Rewriting


def named(r: Rewriting, on_gpus: str, done: str) -> tuple[str, ...]:
    """The sums that the options name. OptError where one is named twice (it is `done` already), or on a GPU (where `on_gpus`)."""
    names = tuple(o.on for o in r.mine)
    if r.target.kind == "gpu":
        raise OptError(f"{r.mine[0]}: {on_gpus}; {r.mine[0].op} is for processors")
    twice = next((o for i, o in enumerate(r.mine) if o.on in names[:i]), None)
    if twice is not None:
        raise OptError(f"{twice}: it is {done} already")
    return names


def proposed(near: Neighbourhood, op: str, found: Mapping[str, object]) -> Iterator[Opts]:
    """Options `op` for the sums that were found: all together, and each alone; none where one of them has it."""
    if any((op, v) in near.taken for v in found):
        return
    if len(found) > 1:
        yield tuple(opt(op, v) for v in found)
    yield from ((opt(op, v),) for v in found)

"""Python names that a loop's body reads and then binds anew. The body runs once, for all steps of the loop, so what it binds would be
handed on to no next step: the kernel would mean something else than the same lines in Python."""

from __future__ import annotations

import dis
from types import FrameType
from typing import Any

from ..ir.errors import KernelError

_NOWHERE = object()


class Rebound:
    """The names that the `for` statement which runs in a frame would hand from one step to the next, and what they are before it."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._before = {name: self._now(name) for name in _read_and_bound(frame)}

    def _now(self, name: str) -> Any:
        return self._frame.f_locals.get(name, self._frame.f_globals.get(name, _NOWHERE))

    def check(self, loop: str) -> None:
        """KernelError where one of them is another object now. (An accumulator stays what it is, whatever it holds.)"""
        changed = [name for name, value in self._before.items() if value is not _NOWHERE and self._now(name) is not value]
        if changed:
            name = changed[0]
            raise KernelError(
                f"the loop over {loop}: {name} is bound anew in its body, which runs once for all steps, and only accumulators outlive a "
                f"loop: let {name} be one (t.zeros, t.full or t.accumulator before the loop), and change it by {name} += … or "
                f"{name}[...] = …"
            )


def _read_and_bound(frame: FrameType) -> list[str]:
    """Names that are read before they are bound in the body of the `for` statement that runs, in the order of its instructions."""
    instructions = list(dis.get_instructions(frame.f_code))
    # (where it has run for a while, Python stands at what belongs to the instruction)
    start = next((i for i, x in reversed(list(enumerate(instructions))) if x.offset <= frame.f_lasti), None)
    if start is None or instructions[start].opname != "FOR_ITER":
        return []
    end = instructions[start].argval
    first: dict[str, str] = {}
    bound = set[str]()
    for x in instructions[start + 1 :]:
        if x.offset >= end:
            break
        names = x.argval if isinstance(x.argval, tuple) else (x.argval,)
        for what, name in zip((word for word in x.opname.split("_") if word in ("LOAD", "STORE")), names):
            if isinstance(name, str) and x.opname.endswith(("FAST", "BORROW", "CHECK", "CLEAR", "DEREF", "CLOSURE", "NAME", "GLOBAL")):
                first.setdefault(name, what)
                if what == "STORE":
                    bound.add(name)
    return [name for name, what in first.items() if what == "LOAD" and name in bound]

"""Which values all threads of a group agree on, as far as that follows from what they are computed from.

A value that no thread number goes into is the same in all threads. One that it goes into is evaluated for each thread where it depends
on nothing else but constants (a condition on a group's spare threads, say); else it counts as different. `lower.passes.divergence`
knows more, which addresses need and barriers do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .ops import MATRIX_LOADS, OPS
from .program import Block, If, Instr, Mem, Phase, Roles, Val

Each = list[int]
"""A number for each thread."""
_EXACT: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "neg": lambda a: -a, "max": max, "min": min,
    "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b), "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b),
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip


class Uniformity:
    """The values of one phase."""

    def __init__(self, phase: Phase) -> None:
        self.thread, self.threads, self.body = phase.thread, phase.threads, phase.body
        self._from: dict[int, Sequence[Val]] = {}
        self._made: dict[int, Instr] = {}
        self._kept: dict[int, list[Val]] = {}  # scratch piece -> what its content depends on
        self._known: dict[int, Each | None] = {}
        self._scan(phase.body, ())

    def _scan(self, block: Block, control: tuple[Val, ...]) -> None:
        for s in block.stmts:
            if isinstance(s, Instr):
                own = isinstance(s.attr, Mem) and s.attr.space == "scratch"
                if s.out is not None:
                    self._made[s.out.id], self._from[s.out.id] = s, s.args
                elif own and OPS[s.op].effect == "write":
                    self._kept.setdefault(s.mem.base, []).extend((*s.args, *control))
            elif isinstance(s, If):
                self._scan(s.body, (*control, s.cond))
            elif isinstance(s, Roles):
                for role in s.roles:
                    self._scan(role.body, control)
            else:
                self._from[s.var.id] = (s.lo, s.hi)
                for c, r, start, end in zip(s.carried, s.results, s.init, s.yields, strict=True):
                    self._from[c.id], self._from[r.id] = (start, end), (start, end, s.lo, s.hi)
                self._scan(s.body, (*control, s.lo, s.hi))

    def barriers(self) -> Iterator[tuple[Instr, tuple[Val, ...]]]:
        """Every barrier, with the conditions and the loops' bounds that decide who comes by."""
        yield from _barriers(self.body, ())

    def same(self, v: Val) -> bool:
        """Whether all threads hold the same `v`."""
        if self._agreed(v):
            return True
        each = self._each(v)
        return each is not None and len(set(each)) == 1

    def _agreed(self, v: Val) -> bool:
        """Whether nothing that `v` is computed from depends on the thread."""
        seen, todo = {v.id}, [v]
        while todo:
            u = todo.pop()
            if u is self.thread:
                return False
            for w in self._depends(u):
                if w.id not in seen:
                    seen.add(w.id)
                    todo.append(w)
        return True

    def _depends(self, v: Val) -> Sequence[Val]:
        s = self._made.get(v.id)
        if s is not None and s.op in MATRIX_LOADS and self.thread is not None:  # lanes get parts of it
            return [self.thread]
        if s is not None and isinstance(s.attr, Mem) and s.attr.space == "scratch":
            return [*s.args, *self._kept.get(s.attr.base, ())]
        return self._from.get(v.id, ())

    def _each(self, v: Val) -> Each | None:
        """What each thread holds, where that is known."""
        if v.id not in self._known:
            self._known[v.id] = self._find(v)
        return self._known[v.id]

    def _find(self, v: Val) -> Each | None:
        if v is self.thread:
            return list(range(self.threads))
        s = self._made.get(v.id)
        if s is None or v.lanes > 1:
            return None
        if s.op == "const":
            return [int(s.attr)] * self.threads if isinstance(s.attr, int) else None
        args = [self._each(a) for a in s.args]
        known = [a for a in args if a is not None]
        if len(known) < len(args) or not args:
            return None
        if s.op in ("idiv", "imod") and isinstance(s.attr, int):
            return [x // s.attr if s.op == "idiv" else x % s.attr for x in known[0]]
        rule = _EXACT.get(s.op)
        return None if rule is None else [rule(*xs) for xs in zip(*known, strict=True)]


def _barriers(block: Block, control: tuple[Val, ...]) -> Iterator[tuple[Instr, tuple[Val, ...]]]:
    for s in block.stmts:
        if isinstance(s, Instr):
            if s.op == "barrier":
                yield s, control
        elif isinstance(s, Roles):
            for r in s.roles:
                yield from _barriers(r.body, control)
        else:
            yield from _barriers(s.body, (*control, *((s.cond,) if isinstance(s, If) else (s.lo, s.hi))))

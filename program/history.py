"""What each pass of lowering did to a Program: an observer that takes its text, and the differences between one stage
and the next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import unified_diff

from .program import Instr, Program, statements
from .text import Names, show


@dataclass(frozen=True, slots=True)
class Stage:
    """A Program as it was after `name`: its text, in which a value keeps its name from stage to stage, and its
    instructions by operation."""

    name: str
    text: str
    counts: Counter[str]


class History:
    """`lower(scheduled, observe=history)` fills `stages`: what was emitted, then the Program after each pass, in
    order."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._names = Names()

    def __call__(self, name: str, program: Program) -> None:
        """Take the text now: the Program goes on changing."""
        counts = Counter(s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr))
        self.stages.append(Stage(name, show(program, self._names), counts))

    def text(self) -> str:
        """The Program as it was emitted, then for each pass its unified diff and how many instructions it added and
        took away."""
        first = self.stages[0]
        out = [f"{first.name}: {first.counts.total()} instructions", *first.text.splitlines()]
        for before, after in zip(self.stages, self.stages[1:]):
            out += ["", _heading(before, after)]
            out += unified_diff(before.text.splitlines(), after.text.splitlines(), before.name, after.name, lineterm="")
        return "\n".join(out) + "\n"


def _heading(before: Stage, after: Stage) -> str:
    if before.text == after.text:
        return f"pass {after.name}: changed nothing"
    more = {op: after.counts[op] - before.counts[op] for op in sorted({*before.counts, *after.counts})}
    changes = ", ".join(f"{n:+} {op}" for op, n in more.items() if n) or "the same ones"
    return f"pass {after.name}: {before.counts.total()} instructions before, {after.counts.total()} after ({changes})"

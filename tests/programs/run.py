"""Running numbered programs: which way each goes, and what became of all."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import check, draw, shrink, written
from .program import Program

WAYS = ("eager", "jit", "grad", "numbers", "grad", "vmap", "jit", "symbols", "grad", "eager", "grad", "state")
"""The way of program N is the one at N modulo their number."""
LAZY = ("eager", "grad", "vmap")
"""Those that capture nothing: all that an engine can run which is not this machine."""
FRESH = 400
"""Programs after which what the process remembers of kernels is dropped: it would only grow."""


@dataclass
class Tally:
    """What was run: programs by way, failures by kind, refusals by sentence."""

    ways: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def figures(self) -> dict[str, Any]:
        return {
            "programs": sum(self.ways.values()), "ways": dict(self.ways), "failures": dict(self.failures), 
            "refused": dict(self.refused.most_common(20)),
        }  # fmt: skip


def numbered(seed: int, number: int, way: str | None = None, among: tuple[str, ...] = WAYS) -> Program:
    """Program `number` of a seed, with the way that it goes."""
    return replace(draw.drawn(seed, number), how=(("way", way or among[number % len(among)]),))


def one(program: Program, engine: str, tally: Tally) -> str:
    """Run it; what is wrong."""
    tally.ways[str(program.options["way"])] += 1
    try:
        found = check.check(program, engine)
    except check.Refused as e:
        tally.refused["".join(c for c in str(e).splitlines()[0] if not c.isdigit())[:80]] += 1
        return ""
    if found:
        tally.failures[shrink.kind(found)] += 1
    if sum(tally.ways.values()) % FRESH == 0:
        forget()
    return found


def forget() -> None:
    """Drop what the process keeps of kernels that will not come again."""
    from tilewright.tensor.running import compiled_kernels as programs
    from tilewright.tensor.running import realise as run

    programs._programs.clear()
    programs._bound.clear()
    run._lists.clear()


def kept(program: Program, message: str, engine: str, folder: Path, seed: int, number: int) -> Path:
    """Shrink a failing program and write it."""
    kind = shrink.kind(message)

    def fails(p: Program) -> bool:
        try:
            return shrink.kind(check.check(p, engine)) == kind if kind else False
        except check.Refused:
            return False

    small = shrink.shrunk(program, fails, 300 if engine == "evaluate" else 80)
    try:
        again = check.check(small, engine)
    except check.Refused:
        again = message
    level = os.environ.get("TILEWRIGHT_TARGET", "")
    name = f"{number}_{small.options['way']}_{'_'.join(s.op for s in small.steps[:4])}{'_' + level if level else ''}"
    return written.write(folder, name, small, again or message, seed, number, engine)

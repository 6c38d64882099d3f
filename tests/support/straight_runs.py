"""Straight runs of a Program, and what reordering them must keep."""

from __future__ import annotations

import random

from tilewright.ir.dtypes import float32
from tilewright.ir.node import const
from tilewright.program.builder import Builder
from tilewright.program.program import Block, Instr, Mem, Phase, Val

LANES = 16


def instructions(block: Block) -> list[Instr]:
    return [s for s in block.stmts if isinstance(s, Instr)]


def check(before: list[Instr], after: list[Instr]) -> None:
    """The same instructions, values before their uses, and accesses that may meet in the order they had."""
    assert sorted(map(id, before)) == sorted(map(id, after))
    place = {id(s): i for i, s in enumerate(after)}
    made = {s.out: s for s in before if s.out is not None}
    for i, s in enumerate(before):
        for a in s.args:
            assert a not in made or place[id(made[a])] < place[id(s)]
        for t in before[:i]:
            if s.op not in ("load", "store") or t.op not in ("load", "store") or (s.op == t.op == "load"):
                continue
            m, n = s.attr, t.attr
            if (m.space, m.base) == (n.space, n.base) and (s.args[0] is not t.args[0] or abs(m.offset - n.offset) < LANES):
                assert place[id(t)] < place[id(s)]


def random_run(r: random.Random) -> Phase:
    """Loads, operations and stores, of which some may meet."""
    b = Builder()
    with b.phase(const(1), ()) as phase:
        at = [phase.item, b.op("add", phase.item, b.const(1))]
        vals: list[Val] = [b.load(Mem("param", 0, float32), phase.item, LANES)]
        for _ in range(r.randint(60, 300)):
            kind = r.random()
            mem = Mem(r.choice(["param", "scratch"]), r.choice([0, 64]), float32, r.choice([0, 8, 16, 32]))
            if kind < 0.15:
                vals.append(b.load(mem, r.choice(at), LANES))
            elif kind < 0.25:
                b.store(mem, r.choice(at), r.choice(vals[-4:]))
            else:
                vals.append(b.op(r.choice(["mul", "add", "div"]), r.choice(vals[-6:]), r.choice(vals)))
    return phase

"""Random plans of a small transformer: prices by chance make the search split operations in every way there is."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from tilewright.placement import MeshAxis, ShardOp, TransformerSize, generate, search_shardings, transformer
from tilewright.placement.running import PlannedRun

SIZE = TransformerSize(2, 16, 4, 8, 32)


def drawn_plan(ranks: int, draw: random.Random) -> PlannedRun:
    """A plan over 2 or 4 ranks."""
    stages, seed = draw.choice((1, 2)), draw.random()
    shape = draw.choice({1: [(1,)], 2: [(2,)], 4: [(4,), (2, 2)]}[ranks // stages])
    mesh = tuple(MeshAxis(n, 0, 1e-9 * draw.random()) for n in shape)

    def price(op: ShardOp, local: Mapping[str, int]) -> float:
        return random.Random(str((seed, op.name, sorted(local.items())))).random() * 1e-3

    microbatches, sequences = draw.choice((1, 2, 4)), draw.choice((1, 2, 4))
    cuts = [range(2)] if stages == 1 else [range(1), range(1, 2)]
    plans = tuple(search_shardings(transformer(SIZE, sequences, c), mesh, price, microbatches=microbatches) for c in cuts)
    whole = search_shardings(transformer(SIZE, sequences), (MeshAxis(1),))
    schedule = generate(draw.choice(("gpipe", "1f1b", "zb-h1", "zb-h2")), stages, microbatches)
    return PlannedRun(plans, whole, schedule, microbatches)


def faulty(run: PlannedRun, draw: random.Random) -> PlannedRun | None:
    """The same with a mistake that it can make; None where it can make none."""
    can = ["swapped-chunk"] if len(run.stages) > 1 else []
    if any(way.collectives for plan in run.stages for way in plan.ops.values()):
        can.append("missing-all-reduce")
    if any(plan.ops[op.name].writes != plan.arrays[op.writes[0]] for plan in run.stages for op in plan.graph.updates()):
        can.append("stale-gather")
    return replace(run, fault=draw.choice(can)) if can else None

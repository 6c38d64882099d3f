"""Random plans of a small transformer: prices by chance make the search split operations in every way there is."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from tilewright.placement import SCHEDULES, MeshAxis, PlanError, ShardOp, TransformerSize, generate, search_shardings, transformer
from tilewright.placement.decided import Decided, as_decided
from tilewright.placement.running import PlannedRun

SHAPES = {1: [(1,)], 2: [(2,)], 3: [(1, 3), (3,)], 4: [(4,), (2, 2), (4, 1)]}


def drawn_plan(ranks: int, draw: random.Random, name: str = "", least: int = 1) -> PlannedRun:
    """A plan over so many ranks in `least` stages or more, under a schedule by chance or by name; stages that have one part each may have unlike
    meshes."""
    seed = draw.random()

    def price(op: ShardOp, local: Mapping[str, int]) -> float:
        return random.Random(str((seed, op.name, sorted(local.items())))).random() * 1e-3

    while True:
        stages, microbatches, sequences = draw.randint(least, ranks), draw.choice((1, 2, 4, 6)), draw.choice((1, 2, 4))
        try:
            schedule = generate(name or draw.choice(sorted(SCHEDULES)), stages, microbatches)
        except PlanError:  # numbers that this schedule does not take
            continue
        if schedule.chunks == 1:
            sizes = [1] * stages
            for _ in range(ranks - stages):
                sizes[draw.randrange(stages)] += 1
        elif ranks % stages == 0:
            sizes = [ranks // stages] * stages
        else:
            continue
        if max(sizes) in SHAPES:
            break
    size = TransformerSize(
        schedule.parts, 12 if 3 in sizes else 16, 3 if 3 in sizes else 4, 6 if 3 in sizes else 8, 36 if 3 in sizes else 32
    )
    shapes = [draw.choice(SHAPES[n]) for n in sizes]
    shapes = shapes if schedule.chunks == 1 else shapes[:1] * stages
    meshes = [tuple(MeshAxis(n, 0, 1e-9 * draw.random()) for n in shape) for shape in shapes]
    stage_of = {part: stage for (stage, _), (_, part) in schedule.part_at.items()}
    plans = []
    for part in range(schedule.parts):
        graph, mesh = transformer(size, sequences, range(part, part + 1)), meshes[stage_of[part]]
        allowed = as_decided(graph, mesh, Decided(zero=draw.randrange(4))) if len(mesh) == 2 and draw.random() < 0.5 else None
        try:
            plans.append(search_shardings(graph, mesh, price, allowed=allowed, microbatches=microbatches))
        except PlanError:  # a batch that does not divide so
            plans.append(search_shardings(graph, mesh, price, microbatches=microbatches))
    whole = search_shardings(transformer(size, sequences), (MeshAxis(1),))
    return PlannedRun(tuple(plans), whole, schedule)


def faulty(run: PlannedRun, draw: random.Random) -> PlannedRun | None:
    """The same with a mistake that it can make; None where it can make none."""
    can = ["swapped-chunk"] if len(run.parts) > 1 else []
    if len(run.schedule.routes) > 1 or any(way.collectives for plan in run.parts for way in plan.ops.values()):
        can.append("missing-all-reduce")
    if any(plan.ops[op.name].writes != plan.arrays[op.writes[0]] for plan in run.parts for op in plan.graph.updates()):
        can.append("stale-gather")
    return replace(run, fault=draw.choice(can)) if can else None

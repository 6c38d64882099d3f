"""Plans over devices beside the literature's figures.

    python benchmarks/record.py benchmarks/plans.py [--seconds 3] [--only schedules]

`schedules`: bubble rates that the search finds under a limit of memory, beside those that were printed (Zero Bubble's ZB-2p and ZB-V, and the
claims for V-Half and V-Min: p/2m and 2p/3m, and these shares of the rate of 1F1B). `found` and `printed` are shares of a step; `memory` is in microbatches. `shardings`: seconds of Alpa's tests.
`model`: GPT-2 over 4 devices, cold and with its kernel prices known. `runs`: random plans on 2 and 4 ranks, in integers: how many had the bits of
one process, and of runs with a planted mistake how many were caught. `prediction`: steps on 2 ranks, predicted and measured."""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from tilewright import cache, devices
from tilewright.placement import (
    KernelPrices,
    MeshAxis,
    Model,
    PartCosts,
    TransformerSize,
    equal_parts,
    generate,
    perceptron,
    plan,
    search_schedule,
    search_shardings,
    simulate,
    transformer,
)
from tilewright.placement.model_graphs import GPT2
from tilewright.placement.network import ASSUMED, measure
from tilewright.placement.running import RunSpec, drawn, run, run_plans
from tilewright.placement.running.prediction import layer_times, predicted

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))
from drawn_plans import drawn_plan, faulty
from published import PROFILED, ZB_2P, ZB_V


def row(**fields: object) -> None:
    """A line of JSON, which `record.py` keeps."""
    print(json.dumps(fields), flush=True)


def schedules(seconds: float) -> None:
    """The search for schedules."""
    began = time.perf_counter()
    for s, printed in zip(PROFILED, ZB_2P, strict=True):
        part = PartCosts(s.f, s.b, s.w, held=34 * s.hidden + 5 * s.heads * 1024, held_weight=32 * s.hidden)
        found = search_schedule(s.p, s.m, equal_parts(s.p, part, s.c), 2 * s.p * part.held, seconds=seconds)
        shown = {"memory": max(found.line.memory) / part.held, "gap": round(found.gap, 4), "seconds": round(found.seconds, 2)}
        row(table="ZB-2p", model=s.name, p=s.p, m=s.m, found=round(found.line.bubble, 4), printed=printed, **shown)
    row(table="ZB-2p", model="all", seconds=round(time.perf_counter() - began, 1))
    for p, m, f, b, w, c, printed in ZB_V:
        found = search_schedule(p, m, equal_parts(2 * p, PartCosts(f, b, w), c), 2 * p, "v", seconds=3 * seconds)
        row(table="ZB-V", p=p, m=m, found=round(found.line.bubble, 4), printed=printed, memory=max(found.line.memory) / 2)
    for p, m in ((4, 12), (6, 18), (8, 24), (8, 64), (16, 48)):
        for name, share, memory in (("v-half", 1 / 2, (p + 2) // 2), ("v-min", 2 / 3, (p + 4) // 3)):
            line = simulate(generate(name, p, m), equal_parts(2 * p, PartCosts(1, 1, 1)))
            claimed = {"printed": round(share * p / m, 4), "share_of_1f1b": round(share * (p - 1) / (m + p - 1), 4)}
            row(table=name, p=p, m=m, found=round(line.bubble, 4), memory=max(line.memory) / 2, printed_memory=memory, **claimed)


def shardings(_: float) -> None:
    """Alpa's own tests."""
    extra = (0.01, 0.1, 0.001)
    row1, square = (MeshAxis(4, 1, 1, extra),), (MeshAxis(2, 1, 1, extra), MeshAxis(2, 1, 0.1, extra))
    bert = transformer(TransformerSize(2, 128, 8, 8), 8)
    reduced = row1[0].seconds
    cases = (
        ("data parallel", perceptron(6, 256, 32), row1, 6 * reduced("all-reduce", 32 * 32 * 4)),
        ("columns and rows", perceptron(6, 32, 256), row1, 5 * reduced("all-reduce", 32 * 256 * 4)),
        (
            "both",
            perceptron(6, 256, 32),
            square,
            6 * square[0].seconds("all-reduce", 32 * 32 * 2) + 5 * square[1].seconds("all-reduce", 256 * 32 * 2),
        ),
        ("BERT", bert, row1, 7 * reduced("all-reduce", 64 * 128 * 4)),
    )
    for name, graph, mesh, printed in cases:
        for as_alpa in (True, False):
            began = time.perf_counter()
            found = search_shardings(graph, mesh, as_alpa=as_alpa)
            took = round(time.perf_counter() - began, 3)
            row(table="Alpa", case=name, as_alpa=as_alpa, found=found.communication, printed=printed, optimal=found.optimal, seconds=took)


def model(_: float) -> None:
    """GPT-2 124M over 4 devices."""
    size = GPT2["gpt2"]
    gpt2 = Model("gpt2", size.layers, lambda layers, batch: transformer(size, batch, layers, state=8.0), 4.0 * size.sequence * size.hidden)
    with cache.open(None) as store:
        prices = KernelPrices(devices.get("cpu"), 1, store)
        for memory, known in ((math.inf, False), (math.inf, True), (2e9, True)):
            began, cpu = time.perf_counter(), time.process_time()
            found = plan(gpt2, 4, 8, prices, ASSUMED, memory)
            shown = {"seconds": round(time.perf_counter() - began, 2), "cpu_s": round(time.process_time() - cpu, 2), "priced": known}
            limit = None if math.isinf(memory) else memory
            row(table="GPT-2", memory=limit, plan=found.best.name, step_s=found.best.step, others=len(found.others), **shown)


def runs(_: float) -> None:
    """Bits of one process, and planted mistakes."""
    draw = random.Random(0)
    for ranks in (2, 4):
        specs = [drawn(ranks, draw) for _ in range(100)]
        began = time.perf_counter()
        equal = sum(not r.wrong for r in run(specs, deadline=600))
        row(table="runs", ranks=ranks, plans=len(specs), equal=equal, seconds=round(time.perf_counter() - began, 1))
        wrong = [s for s in (_faulty(x, draw) for x in specs) if s is not None]
        caught = sum(bool(r.wrong) for r in run(wrong, deadline=600))
        row(table="mistakes", ranks=ranks, plans=len(wrong), caught=caught)
        plans = [drawn_plan(ranks, draw) for _ in range(100)]
        equal = sum(not r.wrong for r in run_plans(plans, deadline=600))
        mistakes = [x for p in plans if (x := faulty(p, draw)) is not None]
        caught = sum(bool(r.wrong) for r in run_plans(mistakes, deadline=600))
        row(table="a model's operations", ranks=ranks, plans=len(plans), equal=equal, mistakes=len(mistakes), caught=caught)


def _faulty(spec: RunSpec, draw: random.Random) -> RunSpec | None:
    """The same with a mistake that it can make."""
    schedule = spec.pipeline()
    can = []
    if len({stage for route in schedule.routes for stage, _ in route}) > 1 and spec.batch * spec.hidden > 1:
        can.append("swapped-chunk")
    if spec.data > 1 or spec.tensor > 1 or len(schedule.routes) > 1:
        can.append("missing-all-reduce")
    if spec.zero:
        can.append("stale-gather")
    return replace(spec, fault=draw.choice(can)) if can else None


def prediction(_: float) -> None:
    """Six plans on 2 ranks: a step as predicted from one process and the links, and as measured."""
    wide = {"hidden": 256, "inner": 1024, "batch": 64, "layers": 8, "microbatches": 8, "dtype": "float32", "steps": 6}
    plans = [RunSpec(stages=2, schedule=name, **wide) for name in ("gpipe", "1f1b", "zb-h1")]
    plans += [RunSpec(tensor=2, **wide), RunSpec(data=2, **wide), RunSpec(data=2, zero=3, **wide)]
    links = measure()
    found = run(plans, deadline=300)
    off, pairs = [], []
    for spec, ran in zip(plans, found):
        guess = predicted(spec, layer_times(spec), links)
        work = spec.data  # data-parallel ranks do twice the rows
        off.append(abs(guess / ran.seconds - 1))
        pairs.append((ran.seconds / work, guess / work))
        row(table="prediction", plan=spec.name, measured_s=ran.seconds, predicted_s=guess)
    named = [(a[1] < b[1]) == (a[0] < b[0]) for a, b in combinations(pairs, 2) if max(a[0], b[0]) > 1.1 * min(a[0], b[0])]
    row(table="prediction", plan="all", median_off=statistics.median(off), pairs=len(named), named_rightly=sum(named))


PARTS: dict[str, Callable[[float], None]] = {
    "schedules": schedules,
    "shardings": shardings,
    "model": model,
    "runs": runs,
    "prediction": prediction,
}


def main() -> int:
    """Run all parts, or one."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=float, default=3.0, help="for each search")
    p.add_argument("--only", choices=PARTS)
    a = p.parse_args()
    for name, part in PARTS.items():
        if a.only in (None, name):
            part(a.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

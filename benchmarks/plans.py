"""Plans over devices beside the literature's figures.

    python benchmarks/record.py benchmarks/plans.py [--seconds 2] [--only schedules]

`schedules`: bubble rates that the search finds under a limit of memory, beside those that were printed (Zero Bubble's ZB-2p and ZB-V, and the
claims for V-Half and V-Min: p/2m and 2p/3m, and these shares of the rate of 1F1B); `idle_of_1f1b`: seconds of idle time as a share of 1F1B's. `found`
and `printed` are shares of a step; `memory` is in microbatches. `shardings`: seconds of Alpa's tests.
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
from tilewright.placement.decided import Decided
from tilewright.placement.model_graphs import GPT2
from tilewright.placement.network import ASSUMED, measure
from tilewright.placement.running import run_plans
from tilewright.placement.running.prediction import planned_run, predicted_plans

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
        found = search_schedule(p, m, equal_parts(2 * p, PartCosts(f, b, w), c), 2 * p, "v", seconds=seconds)
        row(table="ZB-V", p=p, m=m, found=round(found.line.bubble, 4), printed=printed, memory=max(found.line.memory) / 2)
    for p, m in ((4, 12), (6, 18), (8, 24), (8, 64), (16, 48)):
        for name, share, memory in (("v-half", 1 / 2, (p + 2) // 2), ("v-min", 2 / 3, (p + 4) // 3)):
            line = simulate(generate(name, p, m), equal_parts(2 * p, PartCosts(1, 1, 1)))
            claimed = {"printed": round(share * p / m, 4), "share_of_1f1b": round(share * (p - 1) / (m + p - 1), 4)}
            idle = {"idle_of_1f1b": round(max(line.idle) / (6 * (p - 1)), 4), "memory": max(line.memory) / 2, "printed_memory": memory}
            row(table=name, p=p, m=m, found=round(line.bubble, 4), **idle, **claimed)


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
    gpt2 = Model("gpt2", size.layers, lambda layers, batch: transformer(size, batch, layers, state=8.0))
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
        plans = [drawn_plan(ranks, draw) for _ in range(100)]
        began = time.perf_counter()
        equal = sum(not r.wrong for r in run_plans(plans, deadline=600))
        took = round(time.perf_counter() - began, 1)
        mistakes = [x for p in plans if (x := faulty(p, draw)) is not None]
        caught = sum(bool(r.wrong) for r in run_plans(mistakes, deadline=600))
        row(table="runs", ranks=ranks, plans=len(plans), equal=equal, mistakes=len(mistakes), caught=caught, seconds=took)


def prediction(_: float) -> None:
    """Ways to split one step of a model over 2 ranks, predicted from kernels in one process and the links, and measured."""
    size, batch = TransformerSize(4, 256, 4, 128), 8
    small = Model("small", size.layers, lambda layers, n: transformer(size, n, layers))
    links = measure()
    with cache.open(None) as store:
        prices = KernelPrices(devices.get("cpu"), 1, store)
        ways = {
            "data parallel": Decided(1, tensor=1, zero=0),
            "ZeRO-3": Decided(1, tensor=1, zero=3),
            "tensor parallel": Decided(1, tensor=2),
            "GPipe": Decided(2, "gpipe", 2),
            "1F1B": Decided(2, "1f1b", 4),
            "ZB-V": Decided(2, "zb-v", 4),
        }
        found = [plan(small, 2, batch, prices, links, decided=decided).best for decided in ways.values()]
    plans = [replace(planned_run(p, small.part), dtype="float32", steps=10) for p in found]
    guesses = predicted_plans(plans, links)
    measured = [ran.seconds for ran in run_plans(plans, deadline=300)]
    for name, guess, took in zip(ways, guesses, measured):
        row(table="prediction", plan=name, measured_s=took, predicted_s=guess)
    off = statistics.median(abs(guess / took - 1) for guess, took in zip(guesses, measured))
    apart = [(a, b) for a, b in combinations(zip(measured, guesses), 2) if max(a[0], b[0]) > 1.1 * min(a[0], b[0])]
    named = sum((a[1] < b[1]) == (a[0] < b[0]) for a, b in apart)
    row(table="prediction", plan="all", median_off=off, pairs=len(apart), named_rightly=named)


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
    p.add_argument("--seconds", type=float, default=2.0, help="for each search")
    p.add_argument("--only", choices=PARTS)
    a = p.parse_args()
    for name, part in PARTS.items():
        if a.only in (None, name):
            part(a.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

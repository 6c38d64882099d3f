"""A step of training (loss and gradients) of six small networks: eager PyTorch, Inductor and Tilewright's backend in turns.

    python benchmarks/training_vs.py [--only NAME ...] [--threads N] [--rounds N] [--quiet COMMAND]

Prints a JSON line a network: milliseconds (the median over rounds of the lower quartile of a burst), how many times as fast ours is
(`over_eager`, `over_inductor`: above 1 ours is faster), kernels of the forward and the backward graph, nodes that PyTorch computed, and
the largest difference of a gradient from eager PyTorch in float64, relative to the largest element of that gradient, of ours and of eager
PyTorch in float32. Ours runs start schedules: the cache and the store of compiled code are empty."""

from __future__ import annotations

import argparse
import copy
import json
import os
import shlex
import statistics
import tempfile
from collections.abc import Callable
from subprocess import PIPE, Popen
from time import perf_counter, sleep
from types import FunctionType
from typing import Any

os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="training-vs-")  # read at import

import torch
from parts.training_models import CASES, TrainingCase, loss_of
from tilewright.bridges import pytorch as bridge
from tilewright.bridges.pytorch.backend import GRAPHS

BURST = 12
WARM = 2


def step(network: Any, x: Any, wanted: Any) -> Any:
    """The loss of a batch."""
    return loss_of(network(x), wanted)


def step_of(name: str) -> Any:
    """`step` as a function of its own: PyTorch keeps what it compiled by a function's code."""
    return FunctionType(step.__code__.replace(co_name=name), globals(), name)


def player(network: Any, function: Callable[..., Any], batch: tuple[Any, Any]) -> Callable[[], None]:
    """One step: the loss and new gradients."""

    def run() -> None:
        for p in network.parameters():
            p.grad = None
        function(network, *batch).backward()

    return run


def errors(networks: dict[str, Any], exact: Any) -> dict[str, float]:
    """Of each player, the largest relative difference of a gradient."""
    wide = {n: p.grad for n, p in exact.named_parameters()}
    return {
        name: max(float((p.grad.double() - wide[n]).abs().max() / wide[n].abs().max()) for n, p in network.named_parameters())
        for name, network in networks.items()
    }


Runs = dict[str, Callable[[], None]]


def prepared(case: TrainingCase) -> tuple[Runs, dict[str, Any]]:
    """The players of a network, compiled, and what is known of them without a clock."""
    torch.manual_seed(0)
    first = len(GRAPHS)
    network, batch = case.network(), case.batch()
    networks = {name: copy.deepcopy(network) for name in ("eager", "inductor", "ours")}
    functions = {
        "eager": step,
        "inductor": torch.compile(step_of(f"{case.name}_inductor"), backend="inductor"),
        "ours": torch.compile(step_of(f"{case.name}_ours"), backend=bridge.backend),
    }
    runs = {n: player(networks[n], f, batch) for n, f in functions.items()}
    for run in runs.values():
        run()
    exact = copy.deepcopy(network).double()
    player(exact, step, (batch[0].double(), batch[1].double() if batch[1].is_floating_point() else batch[1]))()
    wrong = errors(networks, exact)
    programs = [(g.kind, p) for g in GRAPHS[first:] for p in g.programs.values()]
    return runs, {
        "kernels": {
            kind: sum(k.calls for of, p in programs if of == kind for s in p.steps if s.function for k in s.function.program.kernels)
            for kind in ("forward", "backward")
        },
        "fallbacks": sum(len(p.fallbacks) for _, p in programs),
        "error": float(f"{wrong['ours']:.1e}"),
        "eager_error": float(f"{wrong['eager']:.1e}"),
    }


def timed(runs: Runs, rounds: int, apart: float) -> dict[str, Any]:
    """Milliseconds and ratios; `apart`: seconds for which every pool sleeps before a burst."""
    times: dict[str, list[float]] = {n: [] for n in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            sleep(apart)
            burst = []
            for _ in range(BURST):
                begin = perf_counter()
                run()
                burst.append(perf_counter() - begin)
            times[name].append(statistics.quantiles(burst[WARM:], n=4)[0])
    ratio = {n: statistics.median(a / b for a, b in zip(times[n], times["ours"], strict=True)) for n in ("eager", "inductor")}
    return {
        "threads": torch.get_num_threads(),
        "ms": {n: round(statistics.median(t) * 1e3, 3) for n, t in times.items()},
        "over_eager": round(ratio["eager"], 2),
        "over_inductor": round(ratio["inductor"], 2),
    }


def main() -> None:
    """One JSON line a network."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", choices=[c.name for c in CASES], default=[c.name for c in CASES])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--quiet", default="", metavar="COMMAND", help="run around the timing; it is given `cat`")
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    players = {case.name: prepared(case) for case in CASES if case.name in args.only}
    waiting = Popen([*shlex.split(args.quiet), "cat"], stdin=PIPE, stdout=PIPE) if args.quiet else None
    if waiting is not None and waiting.stdin is not None and waiting.stdout is not None:
        waiting.stdin.write(b"\n")
        waiting.stdin.flush()
        waiting.stdout.read(1)  # it runs
    rows = [{"network": n} | timed(runs, args.rounds, 0.06 if args.threads > 1 else 0.0) | facts for n, (runs, facts) in players.items()]
    if waiting is not None:
        waiting.communicate()
    for row in rows:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

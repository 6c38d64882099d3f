"""PyTorch's models: `torch.compile(backend="tilewright")` against eager PyTorch and Inductor, module by module.

    python benchmarks/models_vs.py [--only TEXT ...] [--groups operation pattern network transformers] [--threads 1 2]
                                   [--rounds 5] [--without inductor] [--batch 8] [--quiet "COMMAND"] [--memory]

A case is a module without a gradient, called as users call it. A process of its own for each case and number of threads
prepares three players with the same weights: `eager`, `inductor` and `ours` (start schedules; the cache and the store
of compiled code are empty). They take turns in bursts; above one thread every pool sleeps before. A player's time is
the median over rounds of a burst's lower quartile; `ratios` are rival over ours, the median over rounds of the quotient
within a round: above 1 ours is faster. `seconds`: processor time of each player's first call and of the compilers that
it starts, with Dynamo's and AOTAutograd's own, without imports.

`error`: the largest difference from eager PyTorch in float64, relative to the largest element; `eager_error`: the same
of eager PyTorch. A case is wrong where ours is above 1e-4 and above four times eager's, or whole numbers differ.
`fallbacks`: nodes that PyTorch computes itself.

--memory times nothing: a process for each player makes five calls, and `peak_mb` is the most memory that it ever had,
with its compiler's (not the C++ compiler's of Inductor), above that of a process that has imported everything.

--batch cases are prepared, then timed together; --quiet runs a command around the timing (it is given `cat`, which ends
when the timing does), such as one that keeps others from the machine."""

from __future__ import annotations

import argparse
import copy
import json
import math
import multiprocessing
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from time import perf_counter, sleep
from typing import Any

TEMPORARY = tempfile.mkdtemp(prefix="models-vs-")
os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = TEMPORARY  # read at import
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch  # noqa: E402
from parts.model_networks import NETWORKS  # noqa: E402
from parts.model_operations import OPERATIONS, ModelCase  # noqa: E402
from parts.model_patterns import PATTERNS  # noqa: E402
from parts.model_transformers import TRANSFORMERS  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

CASES = [*OPERATIONS, *PATTERNS, *NETWORKS, *TRANSFORMERS]
LOOSE, SLACK = 1e-4, 4.0
BURST_S = 0.08


def peak_mb() -> float:
    """The process's largest memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


COMPILED: dict[str, Callable[[Any], Any]] = {
    "inductor": lambda f: torch.compile(f),
    "ours": lambda f: torch.compile(f, backend="tilewright"),
}


def cpu_seconds() -> float:
    """Processor time of this process and its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def warm_up() -> None:
    """Everything that a first call imports, before the process divides."""
    import tilewright.torch  # noqa: F401
    import torch._inductor.compile_fx

    torch.set_num_threads(1)
    with torch.no_grad():
        torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(2))
    torch._dynamo.reset()


def prepared(case: ModelCase, threads: int, without: Sequence[str]) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """The players, and what is known before anything is timed."""
    import tilewright.torch as ours
    from tilewright.bridges.pytorch.backend import GRAPHS
    from tilewright.bridges.pytorch.report import functions

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    module, inputs = case.make()
    row: dict[str, Any] = {"case": case.name, "group": case.group, "threads": threads, "seconds": {}}
    exact = _leaves(copy.deepcopy(module).double(), tree_map(_double, inputs)) if isinstance(module, torch.nn.Module) else None
    exact = exact if exact is not None else _leaves(module, tree_map(_double, inputs))
    players: dict[str, Callable[[], Any]] = {}
    found: dict[str, list[torch.Tensor]] = {}
    for name in ("eager", "ours", "inductor"):
        if name in without:
            continue
        own = copy.deepcopy(module)
        function = COMPILED[name](own) if name in COMPILED else own
        begin = cpu_seconds()
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found[name] = [x.clone() for x in _leaves(function, inputs)]
        except Exception as e:
            traceback.print_exc()
            row.setdefault("failed", {})[name] = f"{type(e).__name__}: {e}"[:400]
            continue
        row["seconds"][name] = round(cpu_seconds() - begin, 2)
        if name == "ours":
            row["fallbacks"] = sorted({f"{f.target}: {f.reason}" for f in ours.fallbacks()})
            row["warnings"] = sorted({str(w.message)[:200] for w in told if "ilewright" in str(w.message)})
            programs = [p for g in GRAPHS for p in g.programs.values()]
            row["nodes"], row["kernels"] = sum(p.nodes for p in programs), sum(len(f.calls) for p in programs for f in functions(p))
        players[name] = _calls(function, inputs)
    row["error"] = {n: float(f"{_error(found[n], exact):.2g}") for n in found if n != "eager"}
    row["eager_error"] = float(f"{_error(found['eager'], exact):.2g}")
    bound = max(LOOSE, SLACK * row["eager_error"])
    row["right"] = {n: _same_whole(found[n], found["eager"]) and e <= bound for n, e in row["error"].items()}
    return players, row


def _double(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def _leaves(function: Callable[..., Any], inputs: Any) -> list[torch.Tensor]:
    with torch.no_grad():
        return [x for x in tree_leaves(function(*inputs)) if isinstance(x, torch.Tensor)]


def _calls(function: Callable[..., Any], inputs: Any) -> Callable[[], Any]:
    def call() -> Any:
        with torch.no_grad():
            return function(*inputs)

    return call


def _error(found: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """The largest difference over the largest element; infinite where NaNs, infinities or shapes differ."""
    worst = 0.0
    for a, b in zip(found, exact, strict=True):
        if a.shape != b.shape:
            return math.inf
        if a.is_floating_point() and a.numel():
            a, b = a.double(), b.double()
            finite = torch.isfinite(b)
            if not torch.equal(torch.isfinite(a), finite) or not torch.equal(torch.nan_to_num(a[~finite]), torch.nan_to_num(b[~finite])):
                return math.inf
            size = max(float(b[finite].abs().max()) if finite.any() else 0.0, 1e-30)
            worst = max(worst, float((a - b)[finite].abs().max()) / size if finite.any() else 0.0)
    return worst


def _same_whole(found: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(a.dtype == b.dtype and (a.is_floating_point() or torch.equal(a, b)) for a, b in zip(found, other, strict=True))


def serve(case: ModelCase, threads: int, args: argparse.Namespace, pipe: Any) -> None:
    """A case's process: prepare, tell, and play when asked."""
    try:
        players, row = prepared(case, threads, args.without)
    except Exception as e:
        traceback.print_exc()
        pipe.send({"case": case.name, "group": case.group, "threads": threads, "failed": {"all": f"{type(e).__name__}: {e}"[:400]}})
        return
    pipe.send(row)
    if pipe.recv() != "play":
        return
    pipe.send(play(players, args.rounds, threads))


def remembered(case: ModelCase, threads: int, name: str, pipe: Any) -> None:
    """A player's process that tells its memory."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    before = peak_mb()
    module, inputs = case.make()
    function = _calls(COMPILED.get(name, lambda f: f)(module), inputs)
    for _ in range(5):
        function()
    pipe.send(round(peak_mb() - before))


def peaks(case: ModelCase, threads: int, args: argparse.Namespace) -> dict[str, Any]:
    """A row of the players' memory."""
    context = multiprocessing.get_context("fork")
    found = {}
    for name in ("eager", "inductor", "ours"):
        if name not in args.without:
            mine, theirs = context.Pipe()
            process = context.Process(target=remembered, args=(case, threads, name, theirs))
            process.start()
            theirs.close()
            found[name] = mine.recv()
            process.join()
    return {"case": case.name, "group": case.group, "threads": threads, "peak_mb": found}


def play(players: dict[str, Callable[[], Any]], rounds: int, threads: int) -> list[dict[str, float]]:
    """Each player's seconds a call, by rounds."""
    turns, counts = list(players), dict.fromkeys(players, 3)
    found = []
    for r in range(rounds + 1):
        got = {}
        for name in turns[r % len(turns) :] + turns[: r % len(turns)]:
            if threads > 1:
                sleep(0.06)
            times = []
            for _ in range(counts[name]):
                begin = perf_counter()
                players[name]()
                times.append(perf_counter() - begin)
            got[name] = sorted(times)[len(times) // 4]
            counts[name] = max(4, min(300, int(BURST_S / got[name])))
        if r:  # the first round only finds how many calls make a burst
            found.append(got)
    return found


def measured(row: dict[str, Any], rounds: list[dict[str, float]]) -> dict[str, Any]:
    """The row with times and ratios."""
    row["ms"] = {n: float(f"{statistics.median(r[n] for r in rounds) * 1e3:.4g}") for n in rounds[0]}
    rivals = [n for n in rounds[0] if n != "ours"]
    row["ratios"] = {n: round(statistics.median(r[n] / r["ours"] for r in rounds), 3) for n in rivals if "ours" in rounds[0]}
    return row


def run(cases: Sequence[tuple[ModelCase, int]], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Prepare these cases, then time them one after the other."""
    context = multiprocessing.get_context("fork")
    ready, rows = [], []
    for case, threads in cases:
        mine, theirs = context.Pipe()
        process = context.Process(target=serve, args=(case, threads, args, theirs))
        process.start()
        theirs.close()
        try:
            row = mine.recv() if mine.poll(args.patience) else {"failed": {"all": f"not ready after {args.patience} s"}}
        except EOFError:
            process.join()
            row = {"failed": {"all": f"the process ended with {process.exitcode}"}}
        row = {"case": case.name, "group": case.group, "threads": threads} | row
        if "ms" in row or "all" in row.get("failed", {}):
            process.kill()
        else:
            ready.append((mine, process, row))
        rows.append(row)
    keeper = subprocess.Popen([*shlex.split(args.quiet), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert keeper.stdin is not None and keeper.stdout is not None
    keeper.stdin.write("\n")
    keeper.stdin.flush()
    keeper.stdout.readline()
    for pipe, process, row in ready:
        pipe.send("play")
        measured(row, pipe.recv())
        process.join()
    keeper.stdin.close()
    keeper.wait()
    return rows


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means, shares of losers, what was wrong, seconds of first calls: by group and threads."""
    found: dict[str, Any] = {"summary": True}
    for group, threads in sorted({(r["group"], r["threads"]) for r in rows}):
        own = [r for r in rows if (r["group"], r["threads"]) == (group, threads)]
        timed = [r for r in own if r.get("ratios")]
        one: dict[str, Any] = {"cases": len(own), "wrong": [r["case"] for r in own if not r.get("right", {}).get("ours")]}
        for rival in ("eager", "inductor"):
            ratios = [r["ratios"][rival] for r in timed if rival in r["ratios"]]
            if ratios:
                one[rival] = {
                    "geomean": round(statistics.geometric_mean(ratios), 3),
                    "below 0.8": round(sum(x < 0.8 for x in ratios) / len(ratios), 3),
                }
        one["first call, s"] = {
            n: round(statistics.median(r["seconds"][n] for r in timed if n in r["seconds"]), 2)
            for n in ("ours", "inductor")
            if any(n in r["seconds"] for r in timed)
        }
        one["with fallbacks"] = [r["case"] for r in own if r.get("fallbacks")]
        found[f"{group}, {threads} threads"] = one
    return found


def main() -> None:
    """One JSON line a row on stdout, then a summary; a table on stderr. The exit status is 1 where ours failed or was wrong."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=[], help="parts of case names")
    p.add_argument("--groups", nargs="*", default=[], choices=sorted({c.group for c in CASES}))
    p.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--without", nargs="*", default=[], choices=["inductor"])
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--memory", action="store_true")
    p.add_argument("--quiet", default="", metavar="COMMAND")
    p.add_argument("--patience", type=float, default=300, help="seconds after which a case that is not ready has failed")
    args = p.parse_args()
    chosen = [c for c in CASES if (not args.groups or c.group in args.groups) and (not args.only or any(t in c.name for t in args.only))]
    warm_up()
    jobs = [(c, t) for t in args.threads for c in chosen]
    if args.memory:
        for case, threads in jobs:
            print(json.dumps(peaks(case, threads, args)), flush=True)
        return
    rows: list[dict[str, Any]] = []
    print(f"{'case':52} thr {'ours ms':>9} {'eager':>6} {'induc':>6}  first s", file=sys.stderr)
    for at in range(0, len(jobs), args.batch):
        for row in run(jobs[at : at + args.batch], args):
            rows.append(row)
            print(json.dumps(row), flush=True)
            ratios = "".join(f"{row.get('ratios', {}).get(n, math.nan):7.2f}" for n in ("eager", "inductor"))
            marks = ("" if row.get("right", {}).get("ours") else "  WRONG") + ("  fallback" if row.get("fallbacks") else "")
            marks += f"  {row['failed']}" if row.get("failed") else ""
            ms, first = row.get("ms", {}).get("ours", math.nan), row.get("seconds", {}).get("ours", math.nan)
            print(f"{row['case']:52} {row['threads']:3} {ms:9.3f}{ratios} {first:7.2f}{marks}", file=sys.stderr)
    print(json.dumps(summary(rows)), flush=True)
    raise SystemExit(0 if all(r.get("right", {}).get("ours") for r in rows) else 1)


if __name__ == "__main__":
    main()

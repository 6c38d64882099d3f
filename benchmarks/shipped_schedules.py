"""What the schedules that ship with the package are worth on a processor of a listed kind, against schedules that are tuned there.

    python benchmarks/shipped_schedules.py [--cases 40] [--tuned FILE] [--budget 12] [--rounds 21] [--keep FILE]

A case is a kernel of `schedules/kernels.toml` or `schedules/layers.py`, on one thread or on all; `--cases` of them are drawn
evenly. What a program runs where nothing was tuned is built from an empty cache over what ships; what it runs after tuning
from the cache `--tuned`, where `make ship` keeps its own (build/ship-KIND.db), else what a search of `--budget` seconds finds
now, from the rules. The two take turns in bursts. One line a case: `origin` is where the first is from ("start": nothing ships
for it), `ratio` the tuned one's time over its time (1: as good; 0.97: it loses 3 %). The last line has the geometric mean and
the least, of all and of those that ship. Rows in `--keep` are not made again. A case whose search had too little time is not
counted."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from sibling_schedules import quotient
from tilewright import best, devices, empty, named_kernels, tune
from tilewright.cache.layers import SHIPPED_RUN
from tilewright.ir.errors import OutOfTimeError
from tilewright.ir.kernel import Kernel
from tilewright.measure.inputs import generate
from tilewright.opts import short
from tilewright.plan import CompiledKernel
from tilewright.search.manifest import manifest_file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))


def cases(most: int) -> list[tuple[str, Kernel, int]]:
    """(name, kernel, threads) of what `make ship` tunes: so many, evenly drawn from all."""
    import ship
    from tilewright.cli.functions.tracing import ask
    from tilewright.ir.rewriter import without_aliases

    every = devices.get("cpu").threads
    found: dict[tuple[str, int], Kernel] = {}
    for e in manifest_file.load(ROOT / "schedules" / "kernels.toml").entries:
        text = ",".join(f"{n}={x}" for n, x in e.shape.items())
        found[f"{e.kernel} {text} {e.dtype}", e.place.threads or every] = named_kernels.make(e.kernel, e.shape, e.dtype)
    for name in ship.layers():
        for i, k in enumerate(k for k in ask(name, None, None, None).kernels if k is not None):
            for threads in dict.fromkeys((1, every)):
                found[f"{name.rpartition(':')[2]}#{i + 1} {k.name}", threads] = without_aliases(k)
    listed = [(name, k, threads) for (name, threads), k in found.items()]
    most = min(most, len(listed))
    return [listed[i * len(listed) // most] for i in range(most)]


def tuned(kernel: Kernel, threads: int, file: str, budget: float) -> CompiledKernel:
    """The kernel as it runs after tuning."""
    found = best(kernel, threads=threads, cache=file)
    if found.origin != "exact":
        tune(kernel, threads=threads, budget=budget, cache=file)
        found = best(kernel, threads=threads, cache=file)
    return found


def row(name: str, kernel: Kernel, threads: int, args: argparse.Namespace) -> dict[str, Any]:
    """One case."""
    other = tuned(kernel, threads, args.tuned, args.budget)
    ships = best(kernel, threads=threads)
    inputs = generate(kernel, {}, 0)
    arrays = [inputs[b.name] for b in kernel.inputs]
    out = [empty(b.shape, b.dtype) for b in kernel.outputs]
    calls = [partial(f, *arrays, out=out[0] if len(out) == 1 else tuple(out)) for f in (ships, other)]
    same = ships.opts == other.opts
    ratio = 1.0 if same else 1 / quotient(*calls, args.rounds, threads)
    shipped = ships.plan.row is not None and ships.plan.row.run_id == SHIPPED_RUN
    origin = "ships" if shipped else ships.origin
    said = {"case": name, "threads": threads, "origin": origin, "ratio": round(ratio, 4)}
    return said | {"ships": short(ships.opts), "tuned": "the same" if same else short(other.opts)}


def main() -> None:
    """One line a case, then one of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--tuned", default="")
    parser.add_argument("--budget", type=float, default=12.0)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--keep", default="")
    args = parser.parse_args()
    folder = tempfile.mkdtemp()
    os.environ |= {"XDG_DATA_HOME": folder, "TILEWRIGHT_SHIPPED": "1"}
    os.environ.pop("TILEWRIGHT_CACHE", None)
    args.tuned = args.tuned or str(Path(folder, "tuned.db"))
    kept = Path(args.keep) if args.keep else Path(folder, "kept.jsonl")
    known = {(r["case"], r["threads"]): r for r in map(json.loads, kept.read_text().splitlines() if kept.exists() else ())}
    rows = []
    for name, kernel, threads in cases(args.cases):
        try:
            found = known.get((name, threads)) or row(name, kernel, threads, args)
        except OutOfTimeError as e:
            print(json.dumps({"case": name, "threads": threads, "error": str(e)}), flush=True)
            continue
        if (name, threads) not in known:
            with kept.open("a") as f:
                f.write(json.dumps(found) + "\n")
        rows.append(found)
        print(json.dumps(found), flush=True)
    every, ship = [r["ratio"] for r in rows], [r["ratio"] for r in rows if r["origin"] == "ships"]
    said: dict[str, Any] = {"cases": len(every), "mean": round(statistics.geometric_mean(every), 4), "least": min(every)}
    said |= {"below_0.97": [f"{r['case']}, {r['threads']}" for r in rows if r["ratio"] < 0.97], "ship": len(ship)}
    print(json.dumps(said | ({"mean_of_these": round(statistics.geometric_mean(ship), 4), "least_of_these": min(ship)} if ship else {})))


if __name__ == "__main__":
    main()

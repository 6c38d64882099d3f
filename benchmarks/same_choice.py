"""The same choice twice: every kernel is tuned two times, from nothing each time, and the two answers are compared.

    python benchmarks/same_choice.py [--kernels 40] [--trials 16] [--threads 1] [--keep FILE]

One line a kernel: `verdict` is "same", "named tie" (one answer is among the near ties of the other), or "other". Where they differ they meet in
pairs, in five processes, since code and operands lie elsewhere in each: `ratio` is the second's time over the first's, with its noise. The last line has the share of those that are the same or a named tie, and the
largest loss of an answer against the other, also beyond the noise of its pairs. Rows in `--keep` are not made again."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tilewright import named_kernels, tune
from tilewright.ir.normal_form import normalise
from tilewright.measure import Measurement, Measurer
from tilewright.opts import parse, short
from tilewright.search import Result

SIZES: dict[str, tuple[str, ...]] = {
    "matmul": ("m=64,n=64,k=64", "m=128,n=256,k=128", "m=200,n=300,k=100", "m=8,n=512,k=512", "m=256,n=256,k=256"),
    "matmul_nt": ("m=64,n=64,k=64", "m=1,n=512,k=512", "m=32,n=256,k=256"),
    "matmul_tn": ("m=64,n=96,k=128", "m=200,n=100,k=300"),
    "matmul_bias_gelu": ("m=64,n=256,k=64", "m=128,n=128,k=128"),
    "batched_matmul": ("b=4,m=32,n=32,k=32", "b=8,m=64,n=64,k=32"),
    "matvec": ("m=256,n=256", "m=512,n=1000"),
    "sum_rows": ("m=256,n=512", "m=7,n=5000"),
    "sum_cols": ("m=256,n=512", "m=1000,n=64"),
    "softmax": ("m=256,n=300", "m=64,n=1024", "m=1000,n=50"),
    "log_softmax": ("m=128,n=200",),
    "layernorm": ("m=128,n=512", "m=300,n=100"),
    "rmsnorm": ("m=128,n=512",),
    "cross_entropy": ("m=128,n=500",),
    "gelu": ("m=256,n=512", "m=64,n=4096"),
    "add": ("m=256,n=512",),
    "transpose": ("m=256,n=300", "m=64,n=1000"),
    "conv2d": ("n=1,c=16,h=14,w=14,oc=16,kh=3,kw=3", "n=2,c=8,h=20,w=20,oc=12,kh=3,kw=3"),
    "argmax": ("m=128,n=300",),
    "cumsum": ("m=128,n=300",),
    "attention": ("b=1,h=2,s=64,d=32",),
    "attention_full": ("b=1,h=2,s=100,d=32", "b=2,h=2,s=64,d=16"),
}
ROUNDS, PROCESSES, T_95 = 9, 5, 2.776
"""Rounds in each process, how many there are, and Student's t for as many."""


def answers(name: str, shape: dict[str, int], threads: int, trials: int) -> list[Result]:
    """Two tunings, each with a cache of its own."""
    found = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            found.append(tune(name, shape, threads=threads, trials=trials, cache=str(Path(folder, "cache.db"))))
    return found


def tied(a: Result, b: Result) -> bool:
    """Whether an answer is among the near ties of the other."""
    return any(tuple(parse(t["opts"])) == tuple(y.opts) for x, y in ((a, b), (b, a)) for t in x.ties)


def in_pairs(name: str, shape: dict[str, int], threads: int, a: Result, b: Result) -> tuple[float, float]:
    """(time of the second answer over that of the first: the mean of several processes, half of its 95 % confidence interval as a share)."""
    logs = []
    for _ in range(PROCESSES):
        with Measurer(normalise(named_kernels.make(name, shape)), "cpu", threads) as m:
            built = {s.opts: s for _, s in m.build([tuple(a.opts), tuple(b.opts)]) if not isinstance(s, Measurement)}
            logs.append(math.log(m.duel(built[tuple(b.opts)], built[tuple(a.opts)], ROUNDS).ratio))
    return math.exp(statistics.fmean(logs)), math.expm1(T_95 * statistics.stdev(logs) / math.sqrt(len(logs)))


def row(name: str, text: str, threads: int, trials: int) -> dict[str, Any]:
    """What two tunings of one kernel found."""
    shape = named_kernels.parse_shape(text)
    a, b = answers(name, shape, threads, trials)
    said: dict[str, Any] = {
        "kernel": name,
        "shape": text,
        "first": short(a.opts),
        "second": short(b.opts),
        "ties": [len(a.ties), len(b.ties)],
    }
    if tuple(a.opts) == tuple(b.opts):
        return {**said, "verdict": "same"}
    ratio, noise = in_pairs(name, shape, threads, a, b)
    return {**said, "verdict": "named tie" if tied(a, b) else "other", "ratio": round(ratio, 4), "noise": round(noise, 4)}


def main() -> None:
    """Print a JSON line a kernel, and one that counts."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernels", type=int, default=40)
    p.add_argument("--trials", type=int, default=16)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--keep", default="")
    a = p.parse_args()
    kept = Path(a.keep) if a.keep else None
    lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    known = {(r["kernel"], r["shape"]): r for r in map(json.loads, lines)}
    rows = []
    for name, text in [(n, s) for n, shapes in SIZES.items() for s in shapes][: a.kernels]:
        found = known.get((name, text)) or row(name, text, a.threads, a.trials)
        if kept is not None and (name, text) not in known:
            with kept.open("a") as f:
                f.write(json.dumps(found) + "\n")
        rows.append(found)
        print(json.dumps(found), flush=True)
    alike = sum(r["verdict"] != "other" for r in rows)
    losses = [(max(r["ratio"], 1 / r["ratio"]), r["noise"]) for r in rows if "ratio" in r]
    worst = {
        "worst_loss": max(losses, default=(1.0, 0.0))[0] - 1,
        "worst_loss_beyond_noise": max((x / (1 + n) for x, n in losses), default=1.0) - 1,
    }
    said = {"kernels": len(rows), "trials": a.trials, "same": sum(r["verdict"] == "same" for r in rows), "same_or_tied": alike / len(rows)}
    print(json.dumps({k: round(v, 4) for k, v in (said | worst).items()}))


if __name__ == "__main__":
    main()

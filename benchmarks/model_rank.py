"""How well the analytic model ranks what is measured, kernel by kernel.

    python benchmarks/model_rank.py [--kernel NAME ...] [--budget 15s] [--threads N] [--json FILE]

Two searches fill a cache with measured schedules, a random one and the default one. `rank` is Spearman's correlation between predicted and measured times;
`first_ten` is the best measured time among the ten schedules that the model ranks first, over the best of all: 1 means that measuring ten would have been
enough, 1.3 is the aim.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright import cache, heuristics, kernels, opts, targets
from tilewright.ir import OptError
from tilewright.ir.normalise import normalise
from tilewright.search import tune

KERNELS = (
    "matmul", "matmul_nt", "batched_matmul", "matvec", "conv2d", "attention", "softmax", "log_softmax", "layernorm", "rmsnorm", "cross_entropy", "gelu", "add",
    "transpose", "sum_rows", "sum_cols", "sum_all", "max_pool2d", "argmax", "cumsum", "embedding",
)  # fmt: skip


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation of two series without ties to speak of."""
    import numpy as np

    ranks = [np.argsort(np.argsort(x)) for x in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def measured(name: str, budget: str, threads: int | None) -> tuple[list[tuple[float, float]], int]:
    """((predicted, measured) seconds of every verified schedule, threads) of a random and a default search."""
    kernel = normalise(kernels.make(name, None, "float32" if "float32" in kernels.get(name).dtypes else None))
    found: dict[str, tuple[float, float]] = {}
    used = 1
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "cache.db"
        for strategy in ("random", None):
            used = tune(name, budget=budget, threads=threads, strategy=strategy, cache=place, mode="refresh").threads
        with cache.open(place) as store:
            rows = store.rows(outcome="ok")
    for r in rows:
        try:
            s = opts.apply(kernel, opts.parse(r.opts_display), targets.host())
        except OptError:
            continue
        if r.t_med and (s.hash not in found or r.t_med < found[s.hash][1]):
            found[s.hash] = (heuristics.estimate(s, used), r.t_med)
    return list(found.values()), used


def main() -> None:
    """Print one JSON line a kernel."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kernel", nargs="*", choices=KERNELS, default=list(KERNELS))
    p.add_argument("--budget", default="15s")
    p.add_argument("--threads", type=int)
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    lines = []
    for name in args.kernel:
        pairs, threads = measured(name, args.budget, args.threads)
        best = min(t for _, t in pairs)
        first = min(t for _, t in sorted(pairs)[:10])
        rank = spearman([p for p, _ in pairs], [t for _, t in pairs]) if len(pairs) > 2 else 0.0
        lines.append(json.dumps({"kernel": name, "threads": threads, "schedules": len(pairs), "rank": round(rank, 3), "first_ten": round(first / best, 3)}))
        print(lines[-1], flush=True)
    if args.json:
        Path(args.json).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""Row kernels tuned from an empty cache against this machine's measured bandwidth, all threads.

    python benchmarks/rows_vs_bandwidth.py [--budget 30s] [--kernel softmax layernorm sum_all] [--threads N]

softmax and layernorm are set against triad (the better of ordinary and non-temporal stores), sum_all against reading. The
limits are measured again right before and after each kernel, and the larger figure counts; operands that would fit the last
cache are rotated while timing. `ratio` is compulsory bytes over the best and the median time, over that bandwidth.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import tilewright
from tilewright.devices import get

CASES: dict[str, tuple[dict[str, int], bool]] = {
    "softmax": ({"m": 4096, "n": 4096}, True),
    "layernorm": ({"m": 4096, "n": 1024}, True),
    "sum_all": ({"n": 1 << 26}, False),
}


def bandwidth(threads: int, writes: bool) -> float:
    """Bytes a second, measured now."""
    limits = get("cpu").limits(probe=True)
    assert limits is not None
    if not writes:
        return limits.bandwidth(threads, writes=False)
    return max(limits.bandwidth(threads, nt=False), limits.bandwidth(threads, nt=True))


def main() -> None:
    """Print one JSON line a kernel."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--budget", default="30s")
    p.add_argument("--kernel", nargs="*", choices=list(CASES), default=list(CASES))
    p.add_argument("--threads", type=int, default=get("cpu").threads)
    args = p.parse_args()
    for name in args.kernel:
        shape, writes = CASES[name]
        before = bandwidth(args.threads, writes)
        with tempfile.TemporaryDirectory() as folder:
            r = tilewright.tune(
                name, shape=shape, dtype="float32", threads=args.threads, budget=args.budget, cache=Path(folder) / "cache.db"
            )
        limit = max(before, bandwidth(args.threads, writes))
        if r.t_min is None or r.t_med is None or r.gbytes_s is None:
            raise SystemExit(f"{name}: {r.message}")
        row: dict[str, Any] = {
            "kernel": name,
            "shape": shape,
            "threads": args.threads,
            "ratio": round(r.gbytes_s * 1e9 / limit, 3),
            "ratio_of_median": round(r.gbytes_s * 1e9 / limit * r.t_min / r.t_med, 3),
            "gbytes_s": round(r.gbytes_s, 2),
            "limit_gbytes_s": round(limit / 1e9, 2),
            "limit": "triad" if writes else "read",
            "ms": round(r.t_min * 1e3, 3),
            "tuning_seconds": round(r.seconds, 1),
            "opts": [o.json for o in r.opts],
            "counts": dict(r.counts),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

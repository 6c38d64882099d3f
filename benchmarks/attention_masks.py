"""Causal attention with one mask, as a user writes it, beside the named kernel: the start schedules of both, built and timed in turns.

    python benchmarks/attention_masks.py [--rounds N] [--threads N]

`plain` masks the scores only; `bare` takes exp(score - M) without keeping M finite as well. Tiles of keys that all
come later are skipped in all of them, so the ratios (over the named kernel) should be 1; `full`, which has no mask
and so skips nothing, shows what skipping is worth."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from tilewright import named_kernels
from tilewright.heuristics import starts
from tilewright.ir import Kernel
from tilewright.ir.normal_form import canonical, normalise
from tilewright.measure import Measurement, Measurer
from tilewright.targets import host

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
SHAPE = {"b": 1, "h": 8, "s": 1024, "d": 64}


def main() -> None:
    """Print one JSON line a kernel."""
    from plain_attention import plain  # the kernel that the tests use

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()
    made: dict[str, Kernel] = {
        "named": named_kernels.make("attention", SHAPE, "float32"),
        "plain": plain(**SHAPE),
        "bare": plain(**SHAPE, finite=False),
        "full": named_kernels.make("attention_full", SHAPE, "float32"),
    }
    times: dict[str, list[float]] = {n: [] for n in made}
    measurers = {n: Measurer(normalise(k), "cpu", args.threads, deadline_s=30) for n, k in made.items()}
    try:
        first = {n: starts(normalise(k), host(), args.threads)[0] for n, k in made.items()}
        built = {n: dict(m.build([first[n]]))[0] for n, m in measurers.items()}
        for _ in range(args.rounds):
            for n, m in measurers.items():
                b = built[n]
                got = b if isinstance(b, Measurement) else m.measure([b])[0]
                if not got.ok or got.t_med is None:
                    raise SystemExit(f"{n}: {got.outcome.value}: {got.detail}")
                times[n].append(got.t_med)
    finally:
        for m in measurers.values():
            m.close()
    for n, k in made.items():
        ratios = [a / b for a, b in zip(times[n], times["named"], strict=True)]
        row = {
            "kernel": n,
            "shape": SHAPE,
            "threads": args.threads,
            "ms": round(statistics.median(times[n]) * 1e3, 3),
            "over_named": round(statistics.median(ratios), 3),
            "range": [round(min(ratios), 3), round(max(ratios), 3)],
            "same_hash": canonical(k).hash == canonical(made["named"]).hash,
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

"""Tune what `schedules/` ships for the kind of processor that this machine has: `make ship`.

    python scripts/ship.py [--budget SECONDS] [--again]

Tunes `schedules/kernels.toml` and the layers of `schedules/layers.py` with `tune run`, into a cache of its own in
build/, so that a repeated run goes on where one ended. Winners that beat the start schedule in pairs meet it once more,
in another process. Those that win again go to `schedules/KIND.jsonl`, with the smaller gain, the processor, the date and
the versions. KIND is the processor's name as targets
have it, and the level of instructions where TILEWRIGHT_TARGET lowers it. Files of other kinds stay as they are, and so do schedules of kernels that
this run found nothing for, in the time that it had.
`--budget`: the most seconds that a kernel takes, default 12. `--again`: tune nothing, only compare what was tuned again."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.cache import Row
    from tilewright.ir import Kernel

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "schedules"
GAIN = 1.02
"""A winner is shipped where it was so many times faster than the start schedule."""
KERNELS = {"--manifest": 28, "--kernel": 6}
"""About how many kernels a run tunes."""
LEFT = 4
"""The exit code where a kernel is left or failed: the others are shipped all the same."""
PAIRS = 21
BURST_S = 0.02
PRIVATE = ("host", "os_release")
"""What a row knows of a machine that is nobody's business."""


def layers() -> list[str]:
    """The public functions of the layers, as `--kernel` takes them."""
    tree = ast.parse((SHIPPED / "layers.py").read_text())
    return [f"{SHIPPED}/layers.py:{f.name}" for f in tree.body if isinstance(f, ast.FunctionDef) and f.name[0] != "_"]


def tune(cache: Path, budget: float) -> None:
    """Tune the manifest, then each public function of the layers, on one thread and on all. SystemExit where that cannot be done."""
    runs = [["--manifest", str(SHIPPED / "kernels.toml")]]
    runs += [["--kernel", name, *more] for name in layers() for more in (["--threads", "1"], [])]
    for arguments in runs:
        command = [sys.executable, "-m", "tilewright", "run", *arguments, "--cache", str(cache)]
        print("==", *arguments, flush=True)
        status = subprocess.run([*command, "--budget", f"{budget * KERNELS[arguments[0]]:g}s"], cwd=ROOT).returncode
        if status not in (0, LEFT):
            raise SystemExit(status)


def kernels() -> Callable[[Row], Kernel]:
    """The kernel of a row: a named one, or one of the layers'."""
    from tilewright import named_kernels
    from tilewright.cli.functions.tracing import ask
    from tilewright.ir.normal_form import normalise
    from tilewright.ir.rewriter import without_aliases
    from tilewright.plan import canonical_of

    traced = [without_aliases(k) for name in layers() for k in ask(name, None, None, None).kernels if k is not None]
    known = {canonical_of(normalise(k)).hash: k for k in traced}
    return lambda row: known.get(row.key.kernel) or named_kernels.make(row.name, json.loads(row.shape), row.dtype)


def gain(kernel: Kernel, row: Row) -> float:
    """How many times faster the row's schedule is than the start schedule: the median of pairs of bursts that take turns. On one thread it is the
    thread's own time that counts."""
    import numpy as np
    from tilewright import best, empty

    facts, rng, threads = json.loads(row.provenance), np.random.default_rng(0), row.key.threads
    clock = time.thread_time if threads == 1 else time.perf_counter
    arrays = [(rng.standard_normal(b.shape) if b.dtype.is_float else rng.integers(0, 6, b.shape)).astype(b.dtype.np) for b in kernel.inputs]
    out = [empty(b.shape, b.dtype) for b in kernel.outputs]
    start, won = (best(kernel, threads=threads, opts=o) for o in (facts["start_opts"], json.loads(row.opts_display)))

    def seconds(f: Callable[..., object], calls: int) -> float:
        began = clock()
        for _ in range(calls):
            f(*arrays, out=out[0] if len(out) == 1 else tuple(out))
        return clock() - began

    calls = max(1, round(BURST_S / max(seconds(start, 1), seconds(won, 1), 1e-6)))
    return statistics.median(seconds(start, calls) / seconds(won, calls) for _ in range(PAIRS))


def shipped(row: Row, kernel_of: Callable[[Row], Kernel]) -> Row | None:
    """The row as it is shipped; None where it is no better than the start schedule."""
    from tilewright.cache.layers import SHIPPED_RUN

    facts = json.loads(row.provenance)
    if not facts.get("paired") or facts.get("gain", 1.0) < GAIN:
        return None
    again = min(facts["gain"], gain(kernel_of(row), row))
    print(
        f"{row.name}, {row.shape}, {row.key.threads} threads: {facts['gain']:.2f} when it was tuned, now at least {again:.2f}", flush=True
    )
    if again < GAIN:
        return None
    facts["gain"] = again
    machine = {k: v for k, v in facts["machine"].items() if k not in PRIVATE}
    return dataclasses.replace(row, provenance={**facts, "machine": machine}, run_id=SHIPPED_RUN)


def kept(before: Sequence[Row], answered: Sequence[Row], kernel_of: Callable[[Row], Kernel]) -> list[Row]:
    """What was shipped of kernels that have no answer now. Of kernels that nobody makes any more nothing stays."""
    from tilewright.ir.errors import TilewrightError
    from tilewright.ir.normal_form import normalise
    from tilewright.plan import canonical_of

    def made(row: Row) -> bool:
        try:
            return canonical_of(normalise(kernel_of(row))).hash == row.key.kernel
        except TilewrightError:
            print(f"{row.name}, {row.shape} is shipped no more: neither kernels.toml nor layers.py makes it", flush=True)
            return False

    known = {dataclasses.replace(r.key, compiler="") for r in answered}
    return [r for r in before if dataclasses.replace(r.key, compiler="") not in known and made(r)]


def main() -> int:
    """Tune, then write this kind's file."""
    from tilewright import cache, devices
    from tilewright.cache import bundles

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=12.0)
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    target, level = devices.get("cpu").target, os.environ.get("TILEWRIGHT_TARGET", "")
    kind = "-".join(filter(None, (target.key.split(":")[2], level)))
    place = ROOT / "build" / f"ship-{kind}.db"
    place.parent.mkdir(exist_ok=True)
    os.environ["TILEWRIGHT_SHIPPED"] = "0"  # what was shipped before is tuned again, from the rules
    if not args.again:
        tune(place, args.budget)
    with cache.open(place) as store:
        found = (store.best(k) for k in dict.fromkeys(r.key for r in store.rows(target=target.key)))
        answers = [a for a in found if a is not None]
        kernel_of = kernels()
        rows = [r for r in (shipped(a, kernel_of) for a in answers) if r is not None]
    file = SHIPPED / f"{kind}.jsonl"
    stay = kept(bundles.read(file) if file.exists() else [], answers, kernel_of)
    count = bundles.write([*rows, *stay], file)
    print(f"== {count} schedules are in schedules/{kind}.jsonl, {len(stay)} of them from before")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tune what `schedules/` ships for the kind of processor that this machine has: `make ship`.

    python scripts/ship.py [--budget SECONDS]

Tunes `schedules/kernels.toml` and the layers of `schedules/layers.py` with `tune run`, into a cache of its own in
build/, so that a repeated run goes on where one ended. Winners that beat the start schedule in pairs go to
`schedules/KIND.jsonl`, with the gain, the processor, the date and the versions. KIND is the processor's name as targets
have it, and the level of instructions where TILEWRIGHT_TARGET lowers it. Files of other kinds stay as they are.
`--budget`: the most seconds that a kernel takes, default 12."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.cache import Row

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "schedules"
GAIN = 1.02
"""A winner is shipped where it was so many times faster than the start schedule."""
KERNELS = {"--manifest": 28, "--kernel": 6}
"""About how many kernels a run tunes."""
LEFT = 4
"""The exit code where a kernel is left or failed: the others are shipped all the same."""
PRIVATE = ("host", "os_release")
"""What a row knows of a machine that is nobody's business."""


def tune(cache: Path, budget: float) -> None:
    """Tune the manifest, then each public function of the layers, on one thread and on all. SystemExit where that cannot be done."""
    layers = [f.name for f in ast.parse((SHIPPED / "layers.py").read_text()).body if isinstance(f, ast.FunctionDef) and f.name[0] != "_"]
    runs = [["--manifest", str(SHIPPED / "kernels.toml")]]
    runs += [["--kernel", f"{SHIPPED}/layers.py:{name}", *more] for name in layers for more in (["--threads", "1"], [])]
    for arguments in runs:
        command = [sys.executable, "-m", "tilewright", "run", *arguments, "--cache", str(cache)]
        print("==", *arguments, flush=True)
        status = subprocess.run([*command, "--budget", f"{budget * KERNELS[arguments[0]]:g}s"], cwd=ROOT).returncode
        if status not in (0, LEFT):
            raise SystemExit(status)


def shipped(row: Row) -> Row | None:
    """The row as it is shipped; None where it is no better than the start schedule."""
    from tilewright.cache.layers import SHIPPED_RUN

    facts = json.loads(row.provenance)
    if not facts.get("paired") or facts.get("gain", 1.0) < GAIN:
        return None
    machine = {k: v for k, v in facts["machine"].items() if k not in PRIVATE}
    return dataclasses.replace(row, provenance={**facts, "machine": machine}, run_id=SHIPPED_RUN)


def main() -> int:
    """Tune, then write this kind's file."""
    from tilewright import cache, devices
    from tilewright.cache import bundles

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=12.0)
    args = parser.parse_args()
    target, level = devices.get("cpu").target, os.environ.get("TILEWRIGHT_TARGET", "")
    kind = "-".join(filter(None, (target.key.split(":")[2], level)))
    place = ROOT / "build" / f"ship-{kind}.db"
    place.parent.mkdir(exist_ok=True)
    os.environ["TILEWRIGHT_SHIPPED"] = "0"  # what was shipped before is tuned again, from the rules
    tune(place, args.budget)
    with cache.open(place) as store:
        answers = (store.best(k) for k in dict.fromkeys(r.key for r in store.rows(target=target.key)))
        rows = [r for r in (shipped(a) for a in answers if a is not None) if r is not None]
    count = bundles.write(rows, SHIPPED / f"{kind}.jsonl")
    print(f"== {count} schedules are in schedules/{kind}.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())

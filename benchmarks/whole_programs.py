"""Programs tuned kernel by kernel, and what of it helps the whole: `tune run --kernel FILE.py:FUNCTION` on eight programs.

    python benchmarks/whole_programs.py [--budget 20s] [--only attention gated ...] [--rounds 15]

Each program has a cache of its own, empty at first. `winners` kernels had another schedule after the search; `kept` of them help the whole and
are used in it. `gain`: the whole before over after, in pairs, by the tuning run itself; `predicted`: what the kernels' times alone promised.
`fresh`: the same measured by another process, which captures the program with an empty cache and with the tuned one, in turns: the median of
ratios before / after with half of its 95 % interval. A row may be at 1.0 less that, and not below."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from parts import whole_programs

HERE = Path(__file__).parent
FILE = HERE / "parts" / "whole_programs.py"


def tuned(name: str, budget: str, cache: Path, env: dict[str, str]) -> dict[str, Any]:
    """What `tune run` says of a program."""
    out = cache.with_suffix(".json")
    words = ["run", "--kernel", f"{FILE}:{name}", "--budget", budget, "--cache", str(cache), "--quiet", "--json", str(out)]
    done = subprocess.run([sys.executable, "-m", "tilewright", *words], env=env, capture_output=True, text=True)
    if not out.exists():
        raise SystemExit(f"{name}: {done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(out.read_text())["program"] or {}
    return found


def in_turns(name: str, before: str, after: str, rounds: int) -> dict[str, Any]:
    """The program with two caches, in this process, in turns."""
    import tilewright
    from tilewright.measure import Duel
    from tilewright.measure.timing import quartile
    from tilewright.tensor import Tensor
    from tilewright.tensor.trees import tree_map

    given = getattr(whole_programs, f"{name}_inputs")()
    arguments = tree_map(lambda x: Tensor(x), given)
    sides = [tilewright.jit(getattr(whole_programs, name), cache=cache) for cache in (before, after)]

    def call(side: Any) -> float:
        begin = time.perf_counter()
        side(**arguments) if isinstance(arguments, dict) else side(*arguments)
        return time.perf_counter() - begin

    first = min(min(call(s) for _ in range(12)) for s in sides)
    pairs = []
    for r in range(rounds):
        got = {}
        for which in ((0, 1), (1, 0))[r % 2]:
            call(sides[which])
            got[which] = quartile([call(sides[which]) for _ in range(max(3, int(0.03 / first)))])
        pairs.append((got[0], got[1]))
    duel = Duel.of(pairs, 0, False)
    return {"ratio": duel.ratio, "noise": duel.noise, "kernels": len(sides[1].programs[0].kernels)}


def row_of(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """One program."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS")} | {
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    }
    with tempfile.TemporaryDirectory() as place:
        cache, empty = Path(place) / "tuned.db", Path(place) / "empty.db"
        said = tuned(name, args.budget, cache, env)
        command = [sys.executable, __file__, "--turns", name, str(empty), str(cache), "--rounds", str(args.rounds)]
        fresh = json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    row = {"program": name, "kernels": fresh["kernels"], "budget": args.budget, "load": round(os.getloadavg()[0], 1)}
    if said:
        before, after, predicted = said["before_s"], said["after_s"], said["predicted_s"]
        row |= {
            "winners": len(said["winners"]), "kept": sum(w["kept"] for w in said["winners"]), "before_ms": round(1e3 * before, 4),
            "after_ms": round(1e3 * after, 4), "predicted_ms": round(1e3 * predicted, 4), "gain": round(before / after, 4),
            "predicted": round(before / predicted, 4), "error": round(abs(after / predicted - 1), 4),
            "judged": [[w["name"], round(w["alone"], 3), round(w["whole"], 3), w["kept"]] for w in said["winners"]],
        }  # fmt: skip
    return row | {"fresh": round(fresh["ratio"], 4), "fresh_noise": round(fresh["noise"], 4)}


def main() -> None:
    """One JSON line a program, then one of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="20s")
    parser.add_argument("--only", nargs="+", choices=whole_programs.NAMES, default=whole_programs.NAMES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--turns", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.turns:
        print(json.dumps(in_turns(*args.turns, args.rounds)))
        return
    rows = []
    for name in args.only:
        rows.append(row_of(name, args))
        print(json.dumps(rows[-1]), flush=True)
    told = [r for r in rows if "gain" in r]
    errors = [r["error"] for r in told if r["kept"]]
    whole = {"winners": sum(r["winners"] for r in told), "kept": sum(r["kept"] for r in told)}
    slower = [r["program"] for r in rows if r["fresh"] + r["fresh_noise"] < 1]
    print(json.dumps({"programs": len(rows), **whole, "median_error": statistics.median(errors) if errors else None, "slower": slower}))


if __name__ == "__main__":
    main()

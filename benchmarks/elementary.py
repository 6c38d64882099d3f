"""Elementary functions and divisions on one thread, against gcc -Ofast, whose loops call glibc's vector functions.

    python benchmarks/elementary.py [--only REGEX] [--types float32 float64] [--n 4096] [--rounds 9] [--json]

TILEWRIGHT_TARGET=v2|v3|v4 chooses the level of both: `-march=x86-64-LEVEL`. Every function is a loop over n elements
(4096: in the first two caches). Both sides read the clock around each call, in native code, and take turns; a time is
the lower quartile of a burst, the ratio the median over rounds of C over ours: above 1 ours is faster. `seed` is the
schedule that a user gets without tuning. Errors are in units in the last place, the largest over the n elements,
against long double; glibc's vector functions may be 4 off, and -Ofast divides by estimates. `vector` names the vector
functions that the C loop calls, as its object file lists them: none, and the loop was not vectorised that way.
--json: keep the rows as results/elementary-LEVEL.json."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from parts.elementary_cases import FUNCTIONS, Function

HEAD = """
#include <tgmath.h>
#include <time.h>
#define K(v) ((T)(v))
"""
BENCH = """
void bench(void **p, int n, double *seconds) {
  struct timespec a, b;
  for (int r = 0; r < n; r++) {
    clock_gettime(CLOCK_MONOTONIC, &a);
    f(p);
    clock_gettime(CLOCK_MONOTONIC, &b);
    seconds[r] = (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
  }
}
"""
BURST_S = 0.01
"""Seconds of a burst."""


class Rival:
    """C with the body of `f`, compiled; `p` are the pointers."""

    def __init__(self, body: str, kind: str, n: int, folder: Path, name: str) -> None:
        level = os.environ.get("TILEWRIGHT_TARGET", "")
        march = f"x86-64-{level}" if level in ("v2", "v3", "v4") else "native"
        source, library = folder / f"{name}.c", folder / f"{name}.so"
        ctype = {"float32": "float", "float64": "double"}[kind]
        text = f"{HEAD}typedef {ctype} T;\n#define N {n}\n__attribute__((noinline)) void f(void **p) {{ {body} }}\n{BENCH}"
        source.write_text(text)
        words = ["gcc", "-Ofast", f"-march={march}", "-fopenmp", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
        subprocess.run(words, check=True)
        self.bench = ctypes.CDLL(str(library)).bench
        named = subprocess.run(["nm", "-D", str(library)], check=True, capture_output=True, text=True).stdout
        self.vector = sorted(set(re.findall(r"_ZGV\w+", named)))

    def times(self, pointers: list[int], repeats: int) -> list[float]:
        """Seconds of so many calls."""
        each, seconds = (ctypes.c_void_p * len(pointers))(*pointers), (ctypes.c_double * repeats)()
        self.bench(each, repeats, seconds)
        return list(seconds)


class Ours:
    """The schedule that a user gets without tuning, built."""

    def __init__(self, kernel: Any, cpu: Any) -> None:
        from tilewright.heuristics import seeds
        from tilewright.ir.normal_form.normalise import normalise
        from tilewright.lower import lower
        from tilewright.opts import apply, short
        from tilewright.renderers import render

        made = normalise(kernel)
        opts = seeds(made, cpu.target, 1)[0]
        source = render(lower(apply(made, opts, cpu.target)), cpu.target)
        self.exe, self.opts, self.text = cpu.load(cpu.build(source), source.signature, 1), short(opts), source.text

    def times(self, pointers: list[int], repeats: int) -> list[float]:
        """Seconds of so many calls."""
        return list(self.exe.time([pointers], (), repeats))


def body_of(case: Function) -> str:
    """The loop in C."""
    names = ("x", "z")[: len(case.ranges)]
    heads = "".join(f"const T *restrict a{n} = p[{i}]; " for i, n in enumerate(names))
    reads = "".join(f"T {n} = a{n}[i]; " for n in names)
    return f"{heads}T *restrict y = p[{len(names)}]; for (int i = 0; i < N; i++) {{ {reads}y[i] = {case.c}; }}"


def kernel_of(case: Function, kind: str, n: int) -> Any:
    """Ours."""
    from tilewright.ir import KernelBuilder, dtype

    kb = KernelBuilder("one")
    i = kb.axis("n", n)
    args = [kb.input(name, (n,), dtype(kind))[i] for name, _ in zip("xz", case.ranges)]
    kb.store("y", dtype(kind), (n,), (i,), case.ours(*args))
    return kb.build()


def ulps(got: Any, want: Any) -> float:
    """The largest error in units in the last place of the type of `got`."""
    import numpy as np

    unit = np.spacing(np.abs(want).astype(got.dtype)).astype(np.longdouble)
    return float(np.max(np.abs(got.astype(np.longdouble) - want) / unit))


def play(sides: dict[str, Any], pointers: dict[str, list[int]], rounds: int) -> tuple[dict[str, float], float]:
    """(seconds of each side, the ratio of C's to ours)."""
    repeats = {k: max(5, min(4000, int(BURST_S / max(1e-8, min(s.times(pointers[k], 5)))))) for k, s in sides.items()}
    found: dict[str, list[float]] = {k: [] for k in sides}
    for r in range(rounds):
        for k in list(sides)[:: 1 if r % 2 else -1]:
            times = sorted(sides[k].times(pointers[k], repeats[k]))
            found[k].append(times[len(times) // 4])
    ratio = statistics.median(c / o for c, o in zip(found["c"], found["ours"], strict=True))
    return {k: statistics.median(v) for k, v in found.items()}, ratio


def draw(ranges: tuple[tuple[float, float], ...], kind: str, shapes: list[tuple[int, ...]]) -> list[Any]:
    """Arrays of uniform numbers, each beginning on a cache line."""
    import numpy as np
    import tilewright

    rng, out = np.random.default_rng(1), []
    for ends, shape in zip(ranges, shapes, strict=True):
        out.append(tilewright.empty(shape, kind))
        out[-1][...] = rng.uniform(*ends, shape)
    return out


def one_function(name: str, case: Function, kind: str, args: argparse.Namespace, folder: Path, cpu: Any) -> dict[str, Any]:
    """The row of a function."""
    import numpy as np
    import tilewright

    inputs = draw(case.ranges, kind, [(args.n,)] * len(case.ranges))
    sides = {
        "c": Rival(body_of(case), kind, args.n, folder, f"{name.replace(' ', '_')}_{kind}"),
        "ours": Ours(kernel_of(case, kind, args.n), cpu),
    }
    outs = {k: tilewright.empty((args.n,), kind) for k in sides}
    pointers = {k: [a.ctypes.data for a in (*inputs, outs[k])] for k in sides}
    seconds, ratio = play(sides, pointers, args.rounds)
    want = case.exact(*(a.astype(np.longdouble) for a in inputs))
    row = {"function": name, "type": kind, "main": case.main, "ratio": round(ratio, 3)}
    row |= {f"{k}_ns": round(1e9 * v / args.n, 3) for k, v in seconds.items()} | {f"{k}_ulp": round(ulps(outs[k], want), 2) for k in sides}
    return row | {"vector": sides["c"].vector, "opts": sides["ours"].opts}


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means and the least, by kind of row."""
    groups = {
        "functions": [r for r in rows if r.get("main")],
        "composed functions": [r for r in rows if r.get("main") is False],
    }
    out = []
    for k, found in groups.items():
        for kind in ("float32", "float64"):
            mine = [(r["ratio"], r["function"]) for r in found if r["type"] == kind]
            if mine:
                mean = statistics.geometric_mean(v for v, _ in mine)
                out.append({"summary": k, "type": kind, "cases": len(mine), "mean": round(mean, 3), "least": list(min(mine))})
    return out


def main() -> None:
    """A line of text a case, then the means as JSON."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", metavar="REGEX")
    p.add_argument("--types", nargs="*", default=["float32", "float64"])
    p.add_argument("--n", type=int, default=4096)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    from tilewright import devices

    cpu = devices.get("cpu")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, case in FUNCTIONS.items():
            for kind in args.types if re.search(args.only, name) else ():
                row = one_function(name, case, kind, args, folder, cpu)
                rows.append(row)
                told = f"C {row['c_ns']:7.3f} ours {row['ours_ns']:7.3f} ns  {row['c_ulp']:5.2f} {row['ours_ulp']:5.2f} ulp"
                print(f"{name:12} {kind} {row['ratio']:6.2f}  {told}  {row['opts']} {' '.join(row['vector'])}", flush=True)
    lines = summary(rows)
    for line in lines:
        print(json.dumps(line), flush=True)
    if args.json:
        import record

        record.keep("elementary", f"python benchmarks/elementary.py {' '.join(sys.argv[1:])}", rows + lines)


if __name__ == "__main__":
    main()

"""Contractions with computed operands, and of several arrays, against C as a good programmer writes it (gcc -Ofast -fopenmp, of the
same level; the best order with temporary arrays).

    python benchmarks/contractions.py [--only NAME ...] [--threads 1 2] [--seconds 12] [--rounds 9] [--opts JSON]

One line of JSON for each case: milliseconds of C, of the seed (the schedule without a search) and of what a search of so many
seconds found (0: no search), and C over each. The contestants take turns, the best of three calls in each round, medians over
rounds. With one thread it is the processor time of the calling thread. --opts: a schedule to time in place of the seed.
TILEWRIGHT_TARGET lowers both sides."""

from __future__ import annotations

import ctypes
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parts.contraction_cases import CASES
from stencil_chains import LEVELS, arguments, each_case, medians

SOURCE = Path(__file__).with_name("contractions.c")


def rivals(folder: Path) -> ctypes.CDLL:
    """The functions in C, compiled for the level that we use ourselves."""
    from tilewright import targets

    features = targets.host().features
    level = next((arch for flag, arch in LEVELS if flag in features), "x86-64")
    command = ["gcc", "-Ofast", f"-march={level}", "-mprefer-vector-width=512", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run([*command, str(SOURCE), "-o", str(folder / "rivals.so"), "-lm"], check=True)
    return ctypes.CDLL(str(folder / "rivals.so"))


def play(job: dict[str, Any]) -> dict[str, Any]:
    """One case: its times and ratios."""
    import numpy as np
    from tilewright.devices import get
    from tilewright.heuristics import seeds
    from tilewright.ir.normal_form.normalise import normalise
    from tilewright.measure.inputs import generate
    from tilewright.opts import parse, short
    from tilewright.plan import empty
    from tilewright.plan.compile import compile as compiled_plan
    from tilewright.search.api import tune

    written, threads, cpu = CASES[job["case"]](), job["threads"], get("cpu")
    kernel = normalise(written)
    arrays = {}
    for name, a in generate(written, {}, 0).items():
        arrays[name] = empty(a.shape, a.dtype)  # on cache lines, the rival's as well
        arrays[name][...] = a
    b = kernel.outputs[0]
    out, expected = (empty(tuple(int(d) for d in b.shape), b.dtype.np) for _ in range(2))
    schedules = {"seed": seeds(kernel, cpu.target, threads)[0] if not job["opts"] else parse(job["opts"])}
    with tempfile.TemporaryDirectory() as folder:
        if job["seconds"]:
            result = tune(kernel, device="cpu", budget=job["seconds"], threads=threads, cache=f"{folder}/cache.db", mode="refresh")
            schedules["tuned"] = result.opts
        rival = getattr(rivals(Path(folder)), job["case"])
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*(arrays[b.name] for b in written.inputs), expected)]
        calls: dict[str, Callable[[], object]] = {"c": lambda: rival(*pointers)}
        for name, opts in schedules.items():
            built = compiled_plan(kernel, opts, cpu)
            run, at = cpu.load(built.obj, built.signature, threads), [arrays[b.name].ctypes.data for b in kernel.inputs] + [out.ctypes.data]
            calls[name] = lambda run=run, at=at: run.run(at, [])  # type: ignore[misc]
            calls["c"](), calls[name]()
            if out.dtype.kind == "i":
                assert (out == expected).mean() > 0.999, name  # (near ties)
            else:
                assert np.allclose(out, expected, rtol=1e-3, atol=1e-4 * float(abs(expected).max())), name
        times = medians(calls, job["rounds"], threads)
    ratios = {f"{name}_ratio": round(times["c"] / t, 3) for name, t in times.items() if name != "c"}
    said = {f"{name}_opts": short(opts) for name, opts in schedules.items()}
    return {"case": job["case"], "threads": threads, **{k: round(1e3 * v, 3) for k, v in times.items()}, **ratios, **said}


def main() -> None:
    """Every case in a process of its own, then geometric means."""
    args = arguments(__doc__).parse_args()
    if args.job:
        print(json.dumps(play(json.loads(args.job))), flush=True)
        return
    each_case(__file__, args.only or CASES, args)


if __name__ == "__main__":
    main()

"""One case of `user_kernels.py`, in a process of its own: compile C, tune ours, check both, time them in turns.

    python benchmarks/user_case.py '{"file": …, "name": …, "threads": 1, "march": …, "budget": "12s", "rounds": 9, …}'

Prints one JSON line. An empty budget times the seed alone. What goes wrong on our side is a row with "error", and C is
timed all the same."""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from parts.drawn_sizes import drawn

FLAGS = ("-Ofast", "-fopenmp", "-shared", "-fPIC")


@cache
def load(file: Path) -> dict[str, Any]:
    """The names of a file of kernels."""
    return runpy.run_path(str(file))


def sizes_of(function: Callable[..., Any]) -> dict[str, int]:
    """The sizes that a kernel has when none are given."""
    return {n: p.default for n, p in inspect.signature(function).parameters.items()}


def inputs_of(kernel: Any, seed: int = 0) -> dict[str, Any]:
    """An array for each input, beginning on a cache line; floats with a range are uniform over it."""
    import numpy as np
    import tilewright
    from tilewright.measure.inputs import generate

    made = generate(kernel, {}, seed)
    for position, b in enumerate(kernel.inputs):
        if b.range is not None and b.dtype.is_float:
            made[b.name] = np.random.default_rng([seed, position]).uniform(*b.range, made[b.name].shape)
        a = tilewright.empty(made[b.name].shape, b.dtype.np)
        a[...] = made[b.name]
        made[b.name] = a
    return made


def outputs_of(kernel: Any) -> tuple[Any, ...]:
    """Arrays for the outputs, full of ones' bits."""
    import tilewright

    out = tuple(tilewright.empty(b.shape, b.dtype.np) for b in kernel.outputs)
    for a in out:
        a.reshape(-1).view("uint8").fill(255)
    return out


def compiled(text: str, sizes: Mapping[str, int], march: str, folder: Path) -> Callable[..., Callable[[], None]]:
    """The C function `kernel`: give it arrays for a call to make. Sizes are macros in capitals."""
    source, library = folder / "kernel.c", folder / "kernel.so"
    source.write_text(text)
    macros = [f"-D{n.upper()}={v}" for n, v in sizes.items()]
    subprocess.run(["gcc", *FLAGS, f"-march={march}", *macros, str(source), "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).kernel
    function.restype = None

    def caller(*arrays: Any) -> Callable[[], None]:
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        return lambda: function(*pointers)

    return caller


def expected(kernel: Any, inputs: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """What NumPy says of each output, within our error bound. SystemExit where the kernel means something else."""
    from dataclasses import replace

    import numpy as np
    from tilewright.measure.checking.verify import check, expectations

    out = {}
    for name, e in expectations(kernel, inputs, {}).items():
        numpy = np.asarray(want[name]).reshape(-1)
        rounded = np.ascontiguousarray(numpy, dtype=e.dtype.np)
        found = check(e, rounded.ctypes.data)
        if not found.ok:
            raise SystemExit(f"NumPy and the kernel's definition differ: {found.detail}")
        out[name] = replace(e, value=np.ascontiguousarray(numpy, dtype=e.value.dtype))
    return out


def wrong(expects: Mapping[str, Any], outputs: tuple[Any, ...]) -> str:
    """What is wrong with some outputs, in words; '' if nothing is."""
    from tilewright.measure.checking.verify import check

    found = [check(e, a.ctypes.data) for e, a in zip(expects.values(), outputs)]
    return "; ".join(v.detail for v in found if not v.ok)


def play(calls: Mapping[str, Callable[[], Any]], job: Mapping[str, Any]) -> list[dict[str, float]]:
    """Seconds of everyone's call in every round: the lower quartile of a burst."""
    from cpu_player import burst

    alone = job["threads"] == 1
    names, most, rounds = list(calls), dict.fromkeys(calls, 3), []
    for r in range(job["rounds"] + 1):
        got = {}
        for name in names[r % len(names) :] + names[: r % len(names)]:
            if not alone:
                time.sleep(0.06)
            times = sorted(burst(calls[name], job["burst"], most[name], alone)[1 if alone else 2 :])
            got[name] = times[(len(times) - 1) // 4]
            most[name] = max(5, min(200, int(job["burst"] / got[name])))
        if r:  # the first round only finds how many calls make a burst
            rounds.append(got)
    return rounds


def ours(job: Mapping[str, Any], kernel: Any, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what to tell, programs by name): the seed, and the tuned schedule where there is a budget for it."""
    import tilewright

    programs = {"seed": tilewright.best(kernel, threads=job["threads"], cache=folder / "none.db")}
    told: dict[str, Any] = {"seed_opts": [o.json for o in programs["seed"].opts]}
    if not job["budget"]:
        return told, programs
    result = tilewright.tune(kernel, threads=job["threads"], budget=job["budget"], cache=folder / "cache.db")
    told |= {"counts": dict(result.counts), "tuning_seconds": round(result.seconds, 1)}
    if not result.found:
        return told | {"error": result.message or "nothing valid was found"}, programs
    programs["ours"] = tilewright.best(kernel, threads=job["threads"], cache=folder / "cache.db")
    return told | {"opts": [o.json for o in programs["ours"].opts]}, programs


def main() -> None:
    """Play the case that the first argument describes."""
    job = json.loads(sys.argv[1])
    names = load(Path(job["file"]))
    name = job["name"]
    sizes = sizes_of(names[name])
    if job["drawn"]:
        sizes = drawn(names[name], sizes, f"{name} {job['drawn']}")
    if unknown := set(job["sizes"]) - set(sizes):
        raise SystemExit(f"{name} has no size {', '.join(sorted(unknown))} (it has {', '.join(sizes)})")
    sizes |= job["sizes"]
    kernel = names[name](**sizes)
    inputs = inputs_of(kernel)
    row: dict[str, Any] = {"sizes": sizes}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        results = {"c": outputs_of(kernel)}
        loops = compiled(names["C"][name], sizes, job["march"], folder)
        calls: dict[str, Callable[[], Any]] = {"c": loops(*inputs.values(), *results["c"])}
        try:
            told, programs = ours(job, kernel, folder)
        except Exception as e:  # a kernel that fails is a line of the table
            told, programs = {"error": f"{type(e).__name__}: {e}"}, {}
        row |= told
        for who, program in programs.items():
            results[who] = outputs_of(kernel)
            out = results[who] if len(results[who]) > 1 else results[who][0]
            calls[who] = lambda program=program, out=out: program(*inputs.values(), out=out)
        for call in calls.values():
            call()
        expects = expected(kernel, inputs, names[f"{name}_numpy"](inputs, sizes))
        bad = {who: text for who, out in results.items() if (text := wrong(expects, out))}
        row |= {"wrong": bad} if bad else {}
        if set(bad) - {"c"}:
            row["error"] = "; ".join(f"{who}: {text}" for who, text in bad.items())
        rounds = play(calls, job)
    row["ms"] = {n: round(statistics.median(r[n] for r in rounds) * 1e3, 4) for n in calls}
    for key, who in (("seed_ratio", "seed"), ("ratio", "ours")):
        if who in calls and who not in bad:
            row[key] = round(statistics.median(r["c"] / r[who] for r in rounds), 3)
    if not job["budget"] and "seed_ratio" in row:
        row["ratio"] = row["seed_ratio"]
        row["ms"]["ours"] = row["ms"]["seed"]
    row["load"] = round(os.getloadavg()[0], 2)
    print(json.dumps(row))


if __name__ == "__main__":
    main()

"""One kernel of `user/` against the same loops in C: compile C, tune ours, check both, time them in turns.

    python benchmarks/vs_c.py '{"name": …, "threads": 1, "march": …, "budget": "12s", "rounds": 9, …}'

`user_kernels.py` runs this once for each case. It prints one JSON line. An empty budget times the start schedule alone.
What goes wrong on our side is a row with "error", and C is timed all the same.

The right answer is what the same C says when each `float` is a `double`, and so are numbers of 16 bits, without -Ofast
(`user/reference.h`). It must agree with the kernel's own definition, which our interpreter evaluates. C as it is timed is
then checked as ours is."""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from cpu_player import burst
from parts.drawn_sizes import drawn

USER = Path(__file__).with_name("user")
SETS = ("borders", "stencil_chains", "contractions", "elementary")
"""Folders that are sets of their own; the others hold kernels that are worked on or held out."""
FAST = ("-Ofast", "-fopenmp")
EXACT = ("-O2", "-fopenmp", "-fwrapv", "-w", "-include", str(USER / "reference.h"))
WIDENED = ("bfloat16", "float16", "float32", "float64")
"""What the reference computes in a wider type."""
TOP = 8
"""Arguments that `user/timer.c` can pass."""
Times = Callable[[float, int], list[float]]
"""Seconds of each call in a burst of about so many seconds, and at most so many calls."""


@cache
def load(file: Path) -> dict[str, Any]:
    """The names of a file of kernels."""
    return runpy.run_path(str(file))


@dataclass(frozen=True)
class Case:
    """A row of `user/cases.toml`. `kernel`: the function that makes it (default, the one of its name); `sizes`: those that
    differ from the function's own; `c`: the file with its loops, without `.c`; `defines`: macros for that file; `ranges`:
    what inputs are drawn of, where the kernel does not say; `long`: its reference computes in long double."""

    name: str
    folder: str
    kind: str
    small: Mapping[str, int]
    batch: int = 0
    held_out: bool = False
    kernel: str = ""
    c: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    long: bool = False

    @property
    def set(self) -> str:
        """The set that it belongs to."""
        return self.folder if self.folder in SETS else "held_out" if self.held_out else "worked"

    @property
    def names(self) -> dict[str, Any]:
        """The names of the file that makes it."""
        return load(USER / self.folder / f"{self.folder}.py")

    @property
    def make(self) -> Callable[..., Any]:
        """A function of sizes that returns the kernel."""
        made: Callable[..., Any] = self.names[self.kernel or self.name]
        return made

    @property
    def source(self) -> Path:
        """Its loops in C."""
        return USER / self.folder / f"{self.c or self.name}.c"

    def inputs(self, kernel: Any) -> dict[str, Any]:
        """An array for each input of its kernel."""
        return inputs_of(kernel, self.ranges)

    def all_sizes(self) -> dict[str, int]:
        """The sizes that are measured."""
        return {n: p.default for n, p in inspect.signature(self.make).parameters.items()} | dict(self.sizes)

    def small_sizes(self) -> dict[str, int]:
        """Sizes for a test."""
        return self.all_sizes() | dict(self.small)

    def answer(self, kernel: Any, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
        """The right outputs by name, without the last rounding."""
        kind = "longdouble" if self.long else "float64"
        wide = [widened(inputs[b.name], kind) for b in kernel.inputs]
        outputs = outputs_of(kernel, kind)
        with tempfile.TemporaryDirectory() as folder:
            flags = (*EXACT, *(["-DLONG"] if self.long else []))
            library = compiled(self, sizes, "native", Path(folder), flags)
            library.kernel(*(ctypes.c_void_p(a.ctypes.data) for a in (*wide, *outputs)))
        return {b.name: a for b, a in zip(kernel.outputs, outputs, strict=True)}


@cache
def cases() -> dict[str, Case]:
    """Every case by name. ValueError where two have one name."""
    out: dict[str, Case] = {}
    for folder, rows in tomllib.loads((USER / "cases.toml").read_text()).items():
        for name, row in rows.items():
            if name in out:
                raise ValueError(f"two cases have the name {name}, in {out[name].folder} and {folder}")
            row["kind"] = row.pop("class")
            out[name] = Case(name, folder, **row)
    return out


def inputs_of(kernel: Any, ranges: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    """An array for each input, beginning on a cache line; floats with a range are uniform over it."""
    import numpy as np
    import tilewright
    from tilewright.measure.inputs import generate

    made = {}
    for position, (b, a) in enumerate(zip(kernel.inputs, generate(kernel, {}, 0).values(), strict=True)):
        ends = ranges.get(b.name, b.range)
        if ends is not None and b.dtype.is_float:
            a = np.random.default_rng([0, position]).uniform(*ends, a.shape)
        made[b.name] = tilewright.empty(a.shape, b.dtype.np)
        made[b.name][...] = a
    return made


def outputs_of(kernel: Any, wide: str = "") -> tuple[Any, ...]:
    """Arrays for the outputs, full of ones' bits; `wide`: the type of those of floats that C has."""
    import numpy as np
    import tilewright

    out = []
    for b in kernel.outputs:
        kind = wide if wide and np.dtype(b.dtype.np).name in WIDENED else b.dtype.np
        out.append(np.empty(b.shape, kind) if wide else tilewright.empty(b.shape, kind))
        out[-1].reshape(-1).view("uint8").fill(255)
    return tuple(out)


def widened(a: Any, kind: str) -> Any:
    """An array of floats that C has as the wider type; another as it is."""
    return a.astype(kind) if a.dtype.name in WIDENED else a


def compiled(case: Case, sizes: Mapping[str, int], march: str, folder: Path, flags: tuple[str, ...] = FAST) -> ctypes.CDLL:
    """The library with the C function `kernel`, and `bench` to time it. Sizes are macros in capitals."""
    library = folder / f"{case.name}.so"
    macros = [f"-D{n.upper()}={v}" for n, v in sizes.items()] + [f"-D{n}={v}" for n, v in case.defines.items()]
    sources = [str(case.source), *([str(USER / "timer.c")] if flags is FAST else [])]
    objects = [str(folder / f"{case.name}{i}.o") for i in range(len(sources))]
    for source, made in zip(sources, objects, strict=True):
        subprocess.run(["gcc", *flags, f"-march={march}", "-fPIC", *macros, "-c", source, "-o", made], check=True)
    # linked without -Ofast, which would have subnormal numbers of the whole process be zeros from then on
    subprocess.run(["gcc", "-shared", "-fopenmp", *objects, "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def expected(kernel: Any, inputs: Mapping[str, Any], want: Mapping[str, Any]) -> dict[str, Any]:
    """What is right for each output, within our error bound. SystemExit where the kernel means something else."""
    from dataclasses import replace

    import numpy as np
    from tilewright.measure.checking.verify import check, expectations

    out = {}
    for name, e in expectations(kernel, inputs, {}).items():
        right = np.asarray(want[name]).reshape(-1)
        rounded = np.ascontiguousarray(right, dtype=e.dtype.np)
        found = check(e, rounded.ctypes.data)
        if not found.ok:
            raise SystemExit(f"the reference and the kernel's definition differ: {found.detail}")
        out[name] = replace(e, value=np.ascontiguousarray(right, dtype=e.value.dtype))
    return out


def wrong(expects: Mapping[str, Any], outputs: tuple[Any, ...]) -> str:
    """What is wrong with some outputs, in words; '' if nothing is."""
    from tilewright.measure.checking.verify import check

    found = [check(e, a.ctypes.data) for e, a in zip(expects.values(), outputs)]
    return "; ".join(v.detail for v in found if not v.ok)


def ulps(got: Any, want: Any) -> float:
    """The largest error in units in the last place of the type of `got`."""
    import numpy as np

    unit = np.spacing(np.abs(want).astype(got.dtype)).astype(np.longdouble)
    return round(float(np.max(np.abs(got.astype(np.longdouble) - want) / unit)), 2)


def play(sides: Mapping[str, Times], job: Mapping[str, Any]) -> list[dict[str, float]]:
    """Seconds of everyone's call in every round: the lower quartile of a burst."""
    alone = job["threads"] == 1
    names, most, rounds = list(sides), dict.fromkeys(sides, 3), []
    for r in range(job["rounds"] + 1):
        got = {}
        for name in names[r % len(names) :] + names[: r % len(names)]:
            if not alone:
                time.sleep(0.06)
            times = sorted(sides[name](job["burst"], most[name])[1 if alone else 2 :])
            got[name] = times[(len(times) - 1) // 4]
            most[name] = max(5, min(4000 if job["native"] else 200, int(job["burst"] / max(got[name], 1e-9))))
        if r:  # the first round only finds how many calls make a burst
            rounds.append(got)
    return rounds


def native_c(library: ctypes.CDLL, arrays: tuple[Any, ...]) -> Times:
    """C's calls timed in C. SystemExit where it has too many arguments."""
    if len(arrays) > TOP:
        raise SystemExit(f"--native times kernels of up to {TOP} arrays, and this one has {len(arrays)}")
    pointers = (ctypes.c_void_p * TOP)(*(a.ctypes.data for a in arrays))

    def times(_: float, most: int) -> list[float]:
        seconds = (ctypes.c_double * most)()
        library.bench(pointers, most, seconds)
        return list(seconds)

    return times


def native_ours(kernel: Any, opts: Any, arrays: Mapping[str, Any], threads: int) -> tuple[Times, dict[str, int]]:
    """Our calls timed in native code; how long they took to build in milliseconds, and the lines of their source."""
    from tilewright import devices
    from tilewright.ir.normal_form import normalise
    from tilewright.plan.artefacts import compile as compiled_plan

    cpu = devices.get("cpu")
    begin = time.perf_counter()
    built = compiled_plan(normalise(kernel), opts, cpu)
    told = {"ms": round(1e3 * (time.perf_counter() - begin)), "lines": built.source.text.count("\n")}
    run = cpu.load(built.obj, built.signature, threads)
    at = [arrays[p.name].ctypes.data for p in built.signature.params]
    return lambda _, most: list(run.time([at], (), most)), told


def ours(job: Mapping[str, Any], kernel: Any, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what to tell, programs by name): the start schedule, the fastest of all of them where they are asked for, and the
    tuned schedule where there is a budget for it."""
    import tilewright

    threads = job["threads"]
    programs = {"start": tilewright.best(kernel, threads=threads, cache=folder / "none.db", opts=job["opts"] or None)}
    if job["all_starts"]:
        from tilewright import devices
        from tilewright.heuristics import starts
        from tilewright.ir.normal_form import normalise

        found = starts(normalise(kernel), devices.get("cpu").target, threads)[1:12]
        for place, opts in enumerate(found, 1):
            programs[f"seed {place}"] = tilewright.best(kernel, threads=threads, cache=folder / "none.db", opts=opts)
    told: dict[str, Any] = {"start_opts": [o.json for o in programs["start"].opts]}
    if not job["budget"]:
        return told, programs
    result = tilewright.tune(kernel, threads=threads, budget=job["budget"], cache=folder / "cache.db")
    told |= {"counts": dict(result.counts), "tuning_seconds": round(result.seconds, 1)}
    if not result.found:
        return told | {"error": result.message or "nothing valid was found"}, programs
    programs["ours"] = tilewright.best(kernel, threads=threads, cache=folder / "cache.db")
    return told | {"opts": [o.json for o in programs["ours"].opts]}, programs


def sizes_for(case: Case, job: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that a job asks for. SystemExit for names that the kernel lacks."""
    sizes = case.all_sizes()
    if job["drawn"]:
        sizes = drawn(case.make, sizes, f"{case.name} {job['drawn']}")
    if unknown := set(job["sizes"]) - set(sizes):
        raise SystemExit(f"{case.name} has no size {', '.join(sorted(unknown))} (it has {', '.join(sizes)})")
    return sizes | job["sizes"]


def row_of(case: Case, job: Mapping[str, Any]) -> dict[str, Any]:
    """The case's row."""
    sizes = sizes_for(case, job)
    kernel = case.make(**sizes)
    inputs = case.inputs(kernel)
    row: dict[str, Any] = {"sizes": sizes}
    alone = job["threads"] == 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        results = {"c": outputs_of(kernel)}
        library = compiled(case, sizes, job["march"], folder)
        arrays = (*inputs.values(), *results["c"])
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
        library.kernel.restype = None
        calls: dict[str, Callable[[], Any]] = {"c": lambda: library.kernel(*pointers)}
        sides: dict[str, Times] = {"c": native_c(library, arrays)} if job["native"] else {}
        try:
            told, programs = ours(job, kernel, folder)
        except Exception as e:  # a kernel that fails is a line of the table
            told, programs = {"error": f"{type(e).__name__}: {e}"}, {}
        row |= told
        for who, program in programs.items():
            results[who] = outputs_of(kernel)
            out = results[who] if len(results[who]) > 1 else results[who][0]
            calls[who] = lambda program=program, out=out: program(*inputs.values(), out=out)
            if job["native"]:
                named = inputs | dict(zip((b.name for b in kernel.outputs), results[who]))
                sides[who], row.setdefault("built", {})[who] = native_ours(kernel, program.opts, named, job["threads"])
        for who, call in calls.items():
            call()
            sides.setdefault(who, partial(burst, call, cpu=alone))
        want = case.answer(kernel, inputs, sizes)
        expects = expected(kernel, inputs, want)
        bad = {who: text for who, out in results.items() if (text := wrong(expects, out))}
        row |= {"wrong": bad} if bad else {}
        if set(bad) - {"c"}:
            row["error"] = "; ".join(f"{who}: {text}" for who, text in bad.items())
        if case.long:
            first = kernel.outputs[0].name
            row["ulp"] = {who: ulps(out[0], want[first]) for who, out in results.items()}
            named_symbols = subprocess.run(["nm", "-D", str(folder / f"{case.name}.so")], check=True, capture_output=True, text=True)
            row["vector"] = sorted(set(re.findall(r"_ZGV\w+", named_symbols.stdout)))
        rounds = play(sides, job)
    return row | compared(rounds, programs, set(bad), bool(job["budget"]))


def compared(rounds: list[dict[str, float]], programs: Mapping[str, Any], bad: set[str], tuned: bool) -> dict[str, Any]:
    """Milliseconds of a call and ratios of C to ours, medians over the rounds."""
    row: dict[str, Any] = {"ms": {n: round(statistics.median(r[n] for r in rounds) * 1e3, 6) for n in ("c", *programs)}}
    keys = {"start_ratio": "start", "ratio": "ours"}
    others = [who for who in programs if who.startswith("start") and who not in bad]
    if len(others) > 1:
        keys["best_start_ratio"] = fastest = min(others, key=lambda who: float(row["ms"][who]))
        row["best_start_opts"] = [o.json for o in programs[fastest].opts]
    for key, who in keys.items():
        if who in programs and who not in bad:
            row[key] = round(statistics.median(r["c"] / r[who] for r in rounds), 3)
    if not tuned and "start_ratio" in row:
        row["ratio"] = row["start_ratio"]
        row["ms"]["ours"] = row["ms"]["start"]
    row["load"] = round(os.getloadavg()[0], 2)
    return row


def main() -> None:
    """Play the case that the first argument describes."""
    job = json.loads(sys.argv[1])
    print(json.dumps(row_of(cases()[job["name"]], job)))


if __name__ == "__main__":
    main()

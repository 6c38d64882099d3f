"""Fixed numerics: the same bits under random schedules, at every level of this processor, with one and two threads, for batches of 1 to 7.

    python -m benchmarks.fixed_bits [--schedules 200] [--case NAME]

For each case, one row of inputs is computed beside none to six others. Every output is compared with that of the schedule without options, at
this processor's own level and for a batch of 7, of which a smaller batch is the beginning. Schedules are drawn as the search draws them: from
start schedules, by random legal moves. Processors that this one cannot run (AArch64) are emulated by qemu, with fewer schedules."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from tilewright import KernelBuilder, named_kernels
from tilewright.devices import get
from tilewright.ir.errors import BuildError, OptError
from tilewright.ir.fixed_sums import fixed
from tilewright.ir.functions import exp, sqrt, tanh
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, short
from tilewright.plan import CompiledKernel, Plan, compile, key_of
from tilewright.search.space import OptEngine, Space, mutate
from tilewright.targets import named

LEVELS = ("v4", "v3", "v2")
BATCHES = tuple(range(1, 8))


def _two_sums(b: int, dtype: str) -> Kernel:
    k = KernelBuilder("two_sums")
    m, n, j = k.axis("m", b), k.axis("n", 203), k.axis("j", 203)
    x = k.input("x", (b, 203), dtype)
    s = k.sum("s", m, n, x[m, n] * tanh(x[m, n]))
    q = k.sum("q", m, j, exp(x[m, j]))
    k.store("y", dtype, (b,), (m,), s[m] / sqrt(q[m]))
    return k.build()


@dataclass(frozen=True)
class Case:
    """A kernel for a batch; `rows`: by name, the dimension of a buffer that the batch is."""

    name: str
    make: Callable[[int, str], Kernel]
    rows: dict[str, int]
    dtypes: tuple[str, ...] = ("float32", "float64", "bfloat16")


def _named(name: str, batch: str, rows: dict[str, int], **shape: int) -> Case:
    label = name + "," + batch
    return Case(label, lambda b, dtype: named_kernels.make(name, {**shape, batch: b}, dtype), rows)


CASES = (
    _named("matmul", "m", {"a": 0, "c": 0}, n=45, k=530),
    _named("matmul", "n", {"b": 1, "c": 1}, m=37, k=300),
    _named("matmul_nt", "m", {"a": 0, "c": 0}, n=45, k=530),
    _named("matmul_nt", "n", {"b": 0, "c": 1}, m=40, k=270),
    _named("matmul_tn", "m", {"a": 1, "c": 0}, n=45, k=530),
    _named("matvec", "m", {"a": 0, "y": 0}, n=700),
    _named("sum_rows", "m", {"x": 0, "y": 0}, n=5000),
    _named("sum_cols", "n", {"x": 1, "y": 0}, m=700),
    _named("softmax", "m", {"x": 0, "y": 0}, n=203),
    _named("layernorm", "m", {"x": 0, "y": 0}, n=203),
    _named("layernorm_stats", "m", {"x": 0, "y": 0, "mean_out": 0, "rstd_out": 0}, n=130),
    _named("attention", "b", {"q": 0, "k": 0, "v": 0, "y": 0}, h=2, s=150, d=16),
    _named("attention_full", "b", {"q": 0, "k": 0, "v": 0, "y": 0}, h=2, s=70, d=16),
    _named("conv2d", "n", {"x": 0, "y": 0}, c=34, h=9, w=11, oc=12, kh=3, kw=3),
    Case("two sums,m", _two_sums, {"x": 0, "y": 0}),
)


def schedules(kernel: Kernel, target: Any, count: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """Start schedules, then random neighbours of what was drawn before; none twice."""
    space, rng = Space(OptEngine(kernel, target, 2), frozenset({"FIXED"})), Random(seed)
    known = [space.state(()), *(space.state(o) for o in space.starts()[: max(2, count // 20)])]
    seen = {s.hash for s in known if s is not None}
    yield from (s.opts for s in known if s is not None)
    drawn, tries = len(known), 0
    while drawn < count and tries < 20 * count:
        tries += 1
        state = mutate(space, rng.choice(known[-12:] if rng.random() < 0.7 else known), rng)
        if state is None or state.hash in seen or len(state.opts) > 12:
            continue
        seen.add(state.hash)
        known.append(state)
        drawn += 1
        yield state.opts


def inputs(case: Case, dtype: str) -> dict[str, np.ndarray]:
    """Arrays of the largest batch."""
    rng = np.random.default_rng(len(case.name))
    return {b.name: rng.normal(size=b.shape).astype(b.dtype.np) for b in case.make(BATCHES[-1], dtype).inputs}


def part(case: Case, name: str, array: np.ndarray, batch: int) -> np.ndarray:
    """What a smaller batch has of an array."""
    dim = case.rows.get(name)
    return array if dim is None else np.ascontiguousarray(np.take(array, range(batch), axis=dim))


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def run(case: Case, kernel: Kernel, opts: Any, arrays: dict[str, np.ndarray], batch: int) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Outputs of a schedule on this machine, with one and with two threads."""
    device = get("cpu")
    built = compile(normalise(kernel), opts, device)
    given = [part(case, b.name, arrays[b.name], batch) for b in kernel.inputs]
    for threads in (1, 2):
        plan = Plan(opts, "given", None, key_of(kernel, device, threads))
        out = CompiledKernel(kernel, plan, built, device.load(built.obj, built.signature, threads))(*given)
        outs = out if isinstance(out, tuple) else (out,)
        yield threads, {b.name: np.asarray(o) for b, o in zip(kernel.outputs, outs, strict=True)}


def by_qemu(case: Case, kernel: Kernel, opts: Any, arrays: dict[str, np.ndarray], batch: int) -> dict[str, np.ndarray]:
    """The same as an AArch64 processor does it."""
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "support"))
    import aarch64

    program = lower(apply(normalise(kernel), opts, aarch64.NEON))
    program.name = "kernel"
    given = {
        b.name: part(case, b.name, arrays[b.name], batch) if b.name in arrays else np.zeros(b.shape, b.dtype.np) for b in kernel.buffers
    }
    aarch64.run(program, list(given.values()), [])
    return {b.name: given[b.name] for b in kernel.outputs}


def levels() -> list[str]:
    """Those that this processor has."""
    found = []
    for level in LEVELS:
        os.environ["TILEWRIGHT_TARGET"] = level
        try:
            get("cpu").target  # noqa: B018
            found.append(level)
        except Exception:
            pass
    return found


def check(case: Case, dtype: str, count: int, qemu: int) -> dict[str, Any]:
    """How many results were compared, how many differed, and the first that did."""
    arrays = inputs(case, dtype)
    compared, wrong, refused = 0, list[str](), dict[str, str]()
    want: dict[str, np.ndarray] = {}
    for level in (*levels(), *(("neon",) if qemu else ())):
        if level != "neon":
            os.environ["TILEWRIGHT_TARGET"] = level
        for batch in BATCHES:
            kernel = fixed(case.make(batch, dtype))
            target = named("neon") if level == "neon" else get("cpu").target
            many = qemu if level == "neon" else count
            share = -(-many // len(BATCHES))
            for number, opts in enumerate(schedules(normalise(kernel), target, share, batch)):
                if number >= share:
                    break
                try:
                    if level == "neon":
                        results = [(1, by_qemu(case, kernel, opts, arrays, batch))]
                    else:
                        results = list(run(case, kernel, opts, arrays, batch))
                except (OptError, BuildError) as e:
                    refused.setdefault(level, str(e))
                    if not opts:
                        break
                    continue
                if not want:
                    whole = fixed(case.make(BATCHES[-1], dtype))
                    want = next(run(case, whole, (), arrays, BATCHES[-1]))[1]
                for threads, found in results:
                    for name, value in found.items():
                        compared += 1
                        if bits(value) != bits(part(case, name, want[name], batch).reshape(value.shape)):
                            wrong.append(f"{level} batch {batch} threads {threads}: {short(opts) or '(none)'}: {name}")
    return {"case": case.name, "dtype": dtype, "compared": compared, "different": len(wrong), "first": wrong[:8], "refused": refused}


def main() -> None:
    """Check all cases and print what was found as JSON."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--schedules", type=int, default=200)
    p.add_argument("--qemu", type=int, default=0)
    p.add_argument("--case", default="")
    p.add_argument("--dtype", default="")
    a = p.parse_args()
    for case in CASES:
        for dtype in case.dtypes:
            if a.case in case.name and a.dtype in dtype:
                print(json.dumps(check(case, dtype, a.schedules, a.qemu)), flush=True)


if __name__ == "__main__":
    main()

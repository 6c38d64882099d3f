"""Fixed numerics: the same bits under random schedules, at every level of this processor, with one and two threads, for batches of 1 to 7.

    python benchmarks/fixed_bits.py [--schedules 200] [--qemu 20] [--others 6] [--seconds S] [--keep FILE] [--case NAME] [--dtype NAME]

One line for a case, an element type and a level. A case is a kernel whose number of rows is a symbol: each schedule runs with 1 to 7 rows, and
with one and two threads. One in a hundred more, for each number of rows, are those of kernels that have
1 to 7 rows for good, whose axes of one element are dropped. Every output is compared with that of the kernel without options, with 7 rows and at this processor's own level, of which fewer rows are the
beginning; and that one with the float64 reference. Schedules are drawn as the search draws them: from start schedules, by random legal moves.
AArch64 is emulated by qemu, one thread, with `--qemu` schedules. `--others`: schedules of the cases and element types that are not the first ones.

`verdict` is "equal" only where all schedules asked for ran, or all that there are, and no bit differed, and "refused" where the level has no
fused multiply-adds and the kernel needs them. After `--seconds` no other row is begun: the last line, which counts, names those that are left;
`--keep` goes on from there.
The exit status is 1 where a verdict is neither, so nothing is recorded."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tilewright import KernelBuilder, named_kernels
from tilewright.devices import get
from tilewright.ir import sym
from tilewright.ir.errors import DeviceError, OptError
from tilewright.ir.evaluation import evaluate
from tilewright.ir.fixed_sums import fixed
from tilewright.ir.functions import exp, sqrt, tanh, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import apply, short
from tilewright.plan import CompiledKernel, Plan, compile, key_of
from tilewright.search.space import OptEngine, Space, mutate
from tilewright.targets import named

LEVELS = ("v4", "v3", "v2")
MOST = 7
BATCHES = tuple(range(1, MOST + 1))
QEMU_BATCHES = (1, 4, 7)
KEY = ("case", "dtype", "level", "asked")
CLOSE = {"float64": 1e-9, "float32": 2e-4}
"""How near to the float64 reference an output is, relative to the largest of it; of 16-bit types 0.03."""


def _two_sums(b: Any, dtype: str) -> Kernel:
    k = KernelBuilder("two_sums")
    m, n, j = k.axis("m", b), k.axis("n", 203), k.axis("j", 203)
    x = k.input("x", (b, 203), dtype)
    s = k.sum("s", m, n, x[m, n] * tanh(x[m, n]))
    q = k.sum("q", m, j, exp(x[m, j]))
    k.store("y", dtype, (b,), (m,), s[m] / sqrt(q[m]))
    return k.build()


def _distances(b: Any, dtype: str) -> Kernel:
    """Squared distances: no product of two things that are read, but of one difference with itself."""
    k = KernelBuilder("distances")
    m, n, d = k.axis("m", b), k.axis("n", 21), k.axis("d", 301)
    x, w = k.input("x", (b, 301), dtype), k.input("w", (21, 301), dtype)
    s = k.sum("s", (m, n), d, (x[m, d] - w[n, d]) * (x[m, d] - w[n, d]))
    k.store("y", dtype, (b, 21), (m, n), s[m, n])
    return k.build()


def _two_axes(b: Any, dtype: str) -> Kernel:
    """Sums over the outer and the inner of three axes, under a condition."""
    k = KernelBuilder("two_axes")
    i, m, j = k.axis("i", 37), k.axis("m", b), k.axis("j", 83)
    x = k.input("x", (37, b, 83), dtype)
    s = k.sum("s", m, (i, j), where(x[i, m, j] > -0.5, x[i, m, j] * 1.25, 0.0))
    k.store("y", dtype, (b,), (m,), s[m])
    return k.build()


def _inner_batch(b: Any, dtype: str) -> Kernel:
    """Sums over the outer of two axes whose inner one is the result, and of what they make once more."""
    k = KernelBuilder("inner_batch")
    i, c, m, d = k.axis("i", 130), k.axis("c", 19), k.axis("m", b), k.axis("d", 19)
    x, w = k.input("x", (130, 19, b), dtype), k.input("w", (19,), dtype)
    s = k.sum("s", (c, m), i, x[i, c, m])
    t = k.sum("t", m, d, s[d, m] * w[d])
    k.store("y", dtype, (b,), (m,), t[m])
    return k.build()


def _products(b: Any, dtype: str) -> Kernel:
    """A product of all numbers of a row, and a running sum along it."""
    k = KernelBuilder("products")
    m, n, j = k.axis("m", b), k.axis("n", 190), k.axis("j", 190)
    x = k.input("x", (b, 190), dtype)
    p = k.reduce("mul", "p", m, n, 1.0 + x[m, n] * 0.03)
    r = k.scan("add", "r", (m, j), j, x[m, j])
    k.store("y", dtype, (b, 190), (m, j), r[m, j] * p[m])
    return k.build()


@dataclass(frozen=True)
class Case:
    """A kernel by its number of rows, a number or a symbol. `main`: one of those that the promise speaks of."""

    name: str
    make: Callable[[Any, str], Kernel]
    dtypes: tuple[str, ...] = ("float32", "float64", "bfloat16")
    main: bool = False


def _named(name: str, batch: str, dtypes: tuple[str, ...] = ("float32", "float64", "bfloat16"), main: bool = False, **shape: int) -> Case:
    return Case(f"{name},{batch}", lambda b, dtype: named_kernels.make(name, {**shape, batch: b}, dtype), dtypes, main)


CASES = (
    _named("matmul", "m", main=True, n=45, k=530),
    _named("matmul", "n", m=37, k=300),
    _named("matmul_nt", "m", main=True, n=45, k=530),
    _named("matmul_nt", "n", m=40, k=270),
    _named("matmul_tn", "m", n=45, k=530),
    _named("matmul_bias_gelu", "m", n=40, k=515),
    _named("batched_matmul", "b", m=9, n=20, k=260),
    _named("matmul_mixed", "m", ("bfloat16", "float16", "float8_e4m3"), n=36, k=261),
    _named("matmul_w8", "m", ("float32", "bfloat16"), n=36, k=261),
    _named("matmul_w4", "m", ("float32", "bfloat16"), n=36, k=256, group=64),
    _named("matmul_fp8_blocks", "m", ("float8_e4m3",), n=128, k=256, block=128),
    _named("matvec", "m", n=700),
    _named("sum_rows", "m", main=True, n=5000),
    _named("sum_cols", "n", m=700),
    _named("softmax", "m", main=True, n=203),
    _named("log_softmax", "m", n=77),
    _named("layernorm", "m", main=True, n=203),
    _named("layernorm_stats", "m", n=130),
    _named("rmsnorm", "m", n=130),
    _named("cross_entropy", "m", n=203),
    _named("cumsum", "m", n=203),
    _named("attention", "b", main=True, h=2, s=150, d=16),
    _named("attention_full", "b", h=2, s=70, d=16),
    _named("attention_window", "b", h=2, s=150, d=8, w=40),
    _named("attention_grouped", "b", h=4, hk=2, s=80, d=16),
    _named("attention_lse", "b", h=2, s=80, d=16, causal=1, w=0, shared=1),
    _named("attention_delta", "b", h=2, s=20, d=70),
    _named("attention_dq", "b", h=2, s=80, d=16, causal=1, w=0, shared=1),
    _named("attention_dkv", "b", h=2, s=80, d=16, causal=1, w=0, shared=1),
    _named("conv2d", "n", c=34, h=9, w=11, oc=12, kh=3, kw=3),
    _named("conv2d_dx", "n", c=8, h=9, w=11, oc=34, kh=3, kw=3),
    Case("two sums,m", _two_sums),
    Case("distances,m", _distances),
    Case("two axes,m", _two_axes),
    Case("inner batch,m", _inner_batch),
    Case("products,m", _products),
)


def drawn(kernel: Kernel, target: Any, count: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """None, start schedules, then random neighbours of what was drawn before; none twice; as many as there are tries for."""
    space, rng = Space(OptEngine(kernel, target, 2), frozenset({"FIXED"})), Random(seed)
    known = [s for o in ((), *space.starts()[: max(2, count // 20)]) if (s := space.state(o)) is not None]
    seen = set[str]()
    for s in known:
        if s.hash not in seen:
            seen.add(s.hash)
            yield s.opts
    for _ in range(50 * count):
        state = mutate(space, rng.choice(known[-12:] if rng.random() < 0.7 else known), rng)
        if state is None or state.hash in seen or len(state.opts) > 12:
            continue
        seen.add(state.hash)
        known.append(state)
        yield state.opts


Outputs = dict[str, np.ndarray]


def part(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What a smaller batch has of an array: its beginning in the dimension that the batch is."""
    return np.ascontiguousarray(array[tuple(slice(n) for n in shape)])


def here(
    kernel: Kernel, opts: Any, sized: Callable[[int], Kernel], arrays: Outputs, batches: tuple[int, ...]
) -> Iterator[tuple[str, int, Outputs]]:
    """Outputs of a schedule on this machine, for numbers of rows, with one and with two threads."""
    device = get("cpu")
    built = compile(normalise(kernel), opts, device)
    for threads in (1, 2):
        plan = Plan(opts, "given", None, key_of(kernel, device, threads))
        call = CompiledKernel(kernel, plan, built, device.load(built.obj, built.signature, threads))
        for batch in batches:
            out = call(*(part(arrays[b.name], b.shape) for b in sized(batch).inputs))
            outs = out if isinstance(out, tuple) else (out,)
            yield f"{threads} threads", batch, {b.name: np.asarray(o) for b, o in zip(kernel.outputs, outs, strict=True)}


def by_qemu(
    kernel: Kernel, opts: Any, sized: Callable[[int], Kernel], arrays: Outputs, batches: tuple[int, ...]
) -> Iterator[tuple[str, int, Outputs]]:
    """The same as an AArch64 processor does it."""
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "support"))
    import aarch64

    program = lower(apply(normalise(kernel), opts, aarch64.NEON))
    program.name = "kernel"
    for batch in batches if program.symbols else batches[:1]:
        one = sized(batch)
        given = {b.name: part(arrays[b.name], b.shape) if b.name in arrays else np.zeros(b.shape, b.dtype.np) for b in one.buffers}
        aarch64.run(program, list(given.values()), [batch] * len(program.symbols))
        yield "1 thread", batch, {b.name: given[b.name] for b in one.outputs}


def levels() -> list[str]:
    """Those that this processor has."""
    found = []
    for level in LEVELS:
        os.environ["TILEWRIGHT_TARGET"] = level
        try:
            get("cpu").target  # noqa: B018
            found.append(level)
        except DeviceError:
            pass
    return found


class Checker:
    """A case of one element type: the inputs, and the outputs that all others must have."""

    def __init__(self, case: Case, dtype: str) -> None:
        self.case, self.dtype = case, dtype
        self.symbolic = fixed(case.make(sym("rows", 1, MOST), dtype))
        self.sized = {b: fixed(case.make(b, dtype)) for b in BATCHES}
        self.arrays = generate(self.sized[MOST], {}, 7)
        os.environ["TILEWRIGHT_TARGET"] = levels()[0]
        self.want = next(here(self.sized[MOST], (), self.sized.__getitem__, self.arrays, (MOST,)))[2]
        for name, right in evaluate(self.sized[MOST], self.arrays).items():
            got, most = self.want[name].astype("float64"), max(1.0, float(np.abs(right).max()))
            assert np.abs(got - right).max() <= CLOSE.get(dtype, 0.03) * most, f"{case.name} {dtype}: {name} is not what the kernel means"

    def row(self, level: str, count: int) -> dict[str, Any]:
        """How many schedules ran at a level, how many results were compared, how many differed, and the first that did."""
        neon = level == "neon"
        if not neon:
            os.environ["TILEWRIGHT_TARGET"] = level
        target, run = (named("neon"), by_qemu) if neon else (get("cpu").target, here)
        said: dict[str, Any] = {"case": self.case.name, "dtype": self.dtype, "level": level}
        share = 1 + count // 100
        todo: list[tuple[str, Kernel, tuple[int, ...], int]] = [
            ("any rows", self.symbolic, QEMU_BATCHES if neon else BATCHES, count - share if neon else count),
            *((f"{b} rows", k, (b,), 1 if neon else share) for b, k in self.sized.items()),
        ]
        schedules, compared, few, wrong, refused = 0, 0, list[str](), list[str](), list[str]()
        for label, kernel, batches, asked in todo:
            done = 0
            for opts in drawn(normalise(kernel), target, asked, len(label) + asked):
                if done == asked:
                    break
                try:
                    for how, batch, found in run(kernel, opts, self.sized.__getitem__, self.arrays, batches):
                        for name, value in found.items():
                            compared += 1
                            if value.tobytes() != part(self.want[name], value.shape).tobytes():
                                wrong.append(f"{label}, {batch} given, {how}: {short(opts) or '(none)'}: {name}")
                except OptError as e:
                    if not opts and "fused multiply-adds" in str(e):
                        return {**said, "verdict": "refused", "why": str(e)}
                    refused.append(f"{label}: {short(opts)}: {e}")  # (legal, but not to be lowered: another is drawn)
                    continue
                done += 1
            schedules += done
            if done < asked:
                few.append(f"{label}: {done} of {asked}")
        said |= {"schedules": schedules, "compared": compared, "different": len(wrong)}
        said |= {"first": wrong[:4]} if wrong else {}
        said |= {"not_lowered": len(refused), "such_as": refused[0]} if refused else {}
        said |= {"all_that_there_are": few} if few else {}
        return {**said, "verdict": "different" if wrong else "equal" if schedules and compared else "nothing ran"}


def main() -> int:
    """Check all cases and print what was found as JSON. 1 where a bit differs or nothing ran."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--schedules", type=int, default=200, help="for each main case in its first element type, at each level")
    p.add_argument("--others", type=int, default=6, help="the same for other cases and element types")
    p.add_argument("--keep", metavar="FILE", default="", help="rows are kept there, and those that are there are not made again")
    p.add_argument("--seconds", type=float, default=float("inf"), help="begin no other case after so many")
    p.add_argument("--qemu", type=int, default=0, help="the same on AArch64, emulated; three for other cases")
    p.add_argument("--case", default="", help="only cases whose name holds this")
    p.add_argument("--dtype", default="", help="only element types whose name holds this")
    a = p.parse_args()
    verdicts: dict[str, int] = {}
    total = {"schedules": 0, "compared": 0, "different": 0}
    kept = Path(a.keep) if a.keep else None
    known = (
        {tuple(r[k] for k in KEY): r for r in map(json.loads, kept.read_text().splitlines())} if kept is not None and kept.exists() else {}
    )
    begin, left = time.monotonic(), list[str]()
    asked = [(c, d, place) for c in CASES for place, d in enumerate(c.dtypes) if a.case in c.name and a.dtype in d]
    for case, dtype, place in sorted(asked, key=lambda x: (x[2] > 0, not x[0].main)):
        many = a.schedules if case.main and place == 0 else a.others
        checker = None
        for level, count in [
            *((x, many) for x in levels()),
            ("neon", a.qemu if case.main and place == 0 else min(a.qemu, 3) if place == 0 else 0),
        ]:
            if not count:
                continue
            row = known.get((case.name, dtype, level, count))
            if row is None and time.monotonic() - begin > a.seconds:
                left.append(f"{case.name} {dtype} {level}")
                continue
            if row is None:
                checker = checker or Checker(case, dtype)
                row = {**checker.row(level, count), "asked": count}
                if kept is not None:
                    with kept.open("a") as f:
                        f.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
            verdicts[row["verdict"]] = verdicts.get(row["verdict"], 0) + 1
            total = {k: v + row.get(k, 0) for k, v in total.items()}
    print(json.dumps({"rows": verdicts, **total, **({"left": left} if left else {})}))
    return 0 if verdicts and not verdicts.keys() - {"equal", "refused"} else 1


if __name__ == "__main__":
    sys.exit(main())

"""Rows whose ends are read from memory beside SciPy and Numba: start schedules, nothing tuned.

    python benchmarks/sparse_vs.py [--only NAME ...] [--dtype float32 float64] [--threads 1 2] [--rounds 7] [--record]

`spmv`, `spmm8`, `spmm64`: a sparse matrix in compressed rows times a vector, 8 and 64 columns. `sddmm`: products of rows of two tables of 32
columns at the entries of the matrix. `segment_sum`, `segment_max`: each row's entries, combined. Structures of 50,000 rows and about
500,000 entries (of `long`, 2,000 rows). `scipy` (one thread; products only) and `numba` (`fastmath`, `prange` over rows): their time over ours, the
median over rounds in turns. Inputs are checked once, as SciPy checks them when a matrix is made. `error`: the largest difference to NumPy in
float64, over the largest value. --record writes results/sparse_vs.json, where other rows stay."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import record
from tilewright import best, sparse
from tilewright.ir import KernelBuilder
from tilewright.ir.kernel import Kernel
from tilewright.plan import Replay

ROWS, FEW, MEAN, WIDE = 50_000, 2_000, 10, 32
Array = np.ndarray[Any, Any]


def lengths(name: str, rng: np.random.Generator) -> Array:
    """Entries of each row."""
    some = {
        "banded": lambda: np.full(ROWS, 9),
        "tridiagonal": lambda: np.full(ROWS, 3),
        "random": lambda: rng.binomial(1000, MEAN / 1000, ROWS),
        "power law": lambda: np.minimum((rng.pareto(1.3, ROWS) * 4).astype(np.int64), ROWS // 4),
        "blocks": lambda: np.repeat(rng.integers(1, 5, ROWS // 4) * 4, 4),
        "one dense row": lambda: np.where(np.arange(ROWS) == ROWS // 2, ROWS, 9),
        "empty rows": lambda: np.where(rng.random(ROWS) < 0.5, 0, rng.binomial(1000, 2 * MEAN / 1000, ROWS)),
        "sorted": lambda: np.sort(rng.binomial(1000, MEAN / 1000, ROWS)),
        "two lengths": lambda: np.where(rng.random(ROWS) < 0.9, 2, 80),
        "long": lambda: rng.integers(150, 350, FEW),
    }
    return some[name]()


STRUCTURES = ("banded", "tridiagonal", "random", "power law", "blocks", "one dense row", "empty rows", "sorted", "two lengths", "long")
BAND = ("banded", "tridiagonal")


@cache
def structure(name: str) -> tuple[Array, Array, int]:
    """(where rows begin, columns, how many columns there are): sorted in each row."""
    rng = np.random.default_rng([1, *name.encode()])
    n = lengths(name, rng)
    begins, rows = np.concatenate([[0], np.cumsum(n)]), len(n)
    row = np.repeat(np.arange(rows), n)
    if name in BAND:
        place = np.arange(begins[-1]) - begins[row]
        column = np.clip(row + place - n[0] // 2, 0, rows - 1)
    else:
        column = rng.integers(0, rows, begins[-1])
    column = column[np.lexsort((column, row))]
    return begins.astype(np.int32), column.astype(np.int32), rows


def kernel(form: str, rows: int, columns: int, entries: int, dtype: str, regular: bool, pattern: str = "") -> Kernel:
    """What is computed. `regular`: most rows are as long as those beside them; `pattern`: how most columns follow each other."""
    kb = KernelBuilder(form)
    if form == "sddmm":
        e, f = kb.axis("e", entries), kb.axis("f", WIDE)
        row, column = (kb.input(x, (entries,), "int32", range=(0, n - 1)) for x, n in (("row", rows), ("column", columns)))
        a, u, v = kb.input("a", (entries,), dtype), kb.input("u", (rows, WIDE), dtype), kb.input("v", (columns, WIDE), dtype)
        dot = kb.sum("dot", (e,), f, u[row[e], f] * v[column[e], f])
        kb.store("y", dtype, (entries,), (e,), a[e] * dot[e])
        return kb.build()
    i = kb.axis("i", rows)
    p = kb.input("p", (rows + 1,), "int32", range=(0, entries), ascending=True, regular=regular)
    k = kb.axis("k", (p[i], p[i + 1]))
    if form.startswith("segment"):
        a = kb.input("a", (entries,), dtype)
        total = kb.reduce("add" if form == "segment_sum" else "max", "total", (i,), k, a[k])
        kb.store("y", dtype, (rows,), (i,), total[i])
        return kb.build()
    column, a = kb.input("column", (entries,), "int32", range=(0, columns - 1), pattern=pattern), kb.input("a", (entries,), dtype)
    width = FORMS[form]
    js = (kb.axis("j", width),) if width > 1 else ()
    x = kb.input("x", (columns, width) if js else (columns,), dtype)
    total = kb.sum("total", (i, *js), k, a[k] * x[(column[k], *js)])
    kb.store("y", dtype, (rows, width) if js else (rows,), (i, *js), total[(i, *js)])
    return kb.build()


FORMS = {"spmv": 1, "spmm8": 8, "spmm64": 64, "sddmm": 0, "segment_sum": 0, "segment_max": 0}


def by_numba(form: str) -> Callable[..., None]:
    """The same as one writes it in Numba."""
    import numba as nb

    def spmv(p: Array, column: Array, a: Array, x: Array, y: Array) -> None:
        for i in nb.prange(len(y)):
            total = a.dtype.type(0)
            for k in range(p[i], p[i + 1]):
                total += a[k] * x[column[k]]
            y[i] = total

    def spmm(p: Array, column: Array, a: Array, x: Array, y: Array) -> None:
        for i in nb.prange(len(y)):
            y[i, :] = 0
            for k in range(p[i], p[i + 1]):
                value, c = a[k], column[k]
                for j in range(x.shape[1]):
                    y[i, j] += value * x[c, j]

    def sddmm(row: Array, column: Array, a: Array, u: Array, v: Array, y: Array) -> None:
        for e in nb.prange(len(y)):
            total = a.dtype.type(0)
            for f in range(u.shape[1]):
                total += u[row[e], f] * v[column[e], f]
            y[e] = a[e] * total

    def segment_sum(p: Array, a: Array, y: Array) -> None:
        for i in nb.prange(len(y)):
            total = a.dtype.type(0)
            for k in range(p[i], p[i + 1]):
                total += a[k]
            y[i] = total

    def segment_max(p: Array, a: Array, y: Array) -> None:
        for i in nb.prange(len(y)):
            most = a.dtype.type(-3e38)
            for k in range(p[i], p[i + 1]):
                most = max(most, a[k])
            y[i] = most

    found = {"spmv": spmv, "sddmm": sddmm, "segment_sum": segment_sum, "segment_max": segment_max}.get(form, spmm)
    compiled: Callable[..., None] = nb.njit(parallel=True, fastmath=True)(found)
    return compiled


def measured(form: str, name: str, dtype: str, threads: int, rounds: int, numba_call: Callable[..., None]) -> dict[str, Any]:
    """A row."""
    import numba
    from scipy.sparse import csr_array

    numba.set_num_threads(threads)
    begins, column, columns = structure(name)
    rows, entries, rng = len(begins) - 1, len(column), np.random.default_rng(2)
    a = rng.standard_normal(entries).astype(dtype)
    row = np.repeat(np.arange(rows, dtype=np.int32), np.diff(begins))
    width = FORMS[form]
    x = rng.standard_normal((columns, width) if width > 1 else columns).astype(dtype)
    u = rng.standard_normal((rows, WIDE)).astype(dtype)
    v = rng.standard_normal((columns, WIDE)).astype(dtype)
    arrays = {"sddmm": (row, column, a, u, v), "segment_sum": (begins, a), "segment_max": (begins, a)}.get(form, (begins, column, a, x))
    call = best(
        kernel(form, rows, columns, entries, dtype, sparse.regular(begins), sparse.pattern(begins, column) if form == "spmv" else ""),
        threads=threads,
    )
    y = call(*arrays)
    replay, theirs = Replay([call.bound(*arrays, y)]), np.empty_like(y)
    matrix = csr_array((a, column, begins), shape=(rows, columns))
    calls: dict[str, Callable[[], Any]] = {"ours": replay, "numba": lambda: numba_call(*arrays, theirs)}
    if width:
        calls["scipy"] = lambda: matrix @ x
    if width:
        right = matrix.astype("float64") @ x.astype("float64")
    elif form == "sddmm":
        right = a * np.einsum("ef,ef->e", u[row].astype("float64"), v[column])
    else:
        right = np.zeros(rows) if form == "segment_sum" else np.full(rows, -np.inf)
        (np.add if form == "segment_sum" else np.maximum).at(right, row, a.astype("float64"))
    for c in calls.values():
        c()
        c()
    there = np.isfinite(right)
    assert np.array_equal(there, np.isfinite(y))
    error = float(np.abs(y[there] - right[there]).max() / np.abs(right[there]).max())
    assert error < (1e-4 if dtype == "float32" else 1e-12), error
    times: dict[str, list[float]] = {n: [] for n in calls}
    for _ in range(rounds):
        for n, c in calls.items():
            times[n].append(burst(c))
    found = {
        "form": form,
        "structure": name,
        "dtype": dtype,
        "threads": threads,
        "opts": call.schedule,
        "us": round(1e6 * statistics.median(times["ours"]), 1),
    }
    for n in calls:
        if n != "ours":
            found[n] = round(statistics.median(t / o for t, o in zip(times[n], times["ours"], strict=True)), 2)
    return {**found, "error": float(f"{error:.1e}")}


def burst(call: Callable[[], Any]) -> float:
    """Median seconds of a call, after one that brings its data."""
    call()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    """Print one JSON line a row."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=list(FORMS), help="forms")
    p.add_argument("--structures", nargs="*", default=list(STRUCTURES))
    p.add_argument("--dtype", nargs="*", default=["float32", "float64"])
    p.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--record", action="store_true")
    args = p.parse_args()
    rows = []
    for form in args.only:
        numba_call = by_numba(form)
        for name in args.structures:
            for dtype in args.dtype:
                for threads in args.threads:
                    rows.append(measured(form, name, dtype, threads, args.rounds, numba_call))
                    print(json.dumps(rows[-1]), flush=True)
    if args.record:
        kept = record.ROOT / "results" / "sparse_vs.json"
        before = json.loads(kept.read_text())["rows"] if kept.exists() else []
        same = lambda r: tuple(r[k] for k in ("form", "structure", "dtype", "threads"))  # noqa: E731
        new = {same(r) for r in rows}
        record.keep("sparse_vs", "python benchmarks/sparse_vs.py --record", [*(r for r in before if same(r) not in new), *rows])


if __name__ == "__main__":
    main()

"""`jit(numpy=True)` beside Numba and NumPy: eight functions of arrays, float64 and float32.

    python benchmarks/record.py benchmarks/numpy_jit_vs.py [--size 1000000] [--only energy softmax]

Numba compiles loops that are written out (`njit(fastmath=True)`, one thread); NumPy and ours run the same array expressions. Ours runs
start schedules on one thread. Each call gets the same arrays in turns; times are medians of milliseconds, and `first_s` the seconds of
the first call, compilation included (Numba's and ours without what they keep on disk). `new_size_us`: a call with a size never seen,
of arrays of 1,000 elements, and `numpy_us` NumPy's on them."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS, SECONDS = 40, 1.0


def energy(x: Any, w: Any) -> Any:
    return (w * x**2).sum(1)


def softmax(x: Any, w: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def distances(x: Any, w: Any) -> Any:
    return np.sqrt(((x - w) ** 2).sum(1))


def clipped(x: Any, w: Any) -> Any:
    return np.where(x > 0, x, 0.1 * x) + np.maximum(w, 0.5)


def wave(x: Any, w: Any) -> Any:
    return np.sin(x) * np.exp(-w * w) + np.cos(w)


def standard(x: Any, w: Any) -> Any:
    return (x - x.mean(0)) / x.std(0)


def blur(x: Any, w: Any) -> Any:
    return (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[1:-1, 1:-1]) * 0.2


def total(x: Any, w: Any) -> Any:
    return (x * w).sum() / np.sqrt((x * x).sum() * (w * w).sum())


FUNCTIONS = (energy, softmax, distances, clipped, wave, standard, blur, total)


def loops() -> dict[str, Callable[..., Any]]:
    """The same as loops for Numba."""
    from math import cos, exp, sin, sqrt

    def energy(x, w):
        out = np.zeros(x.shape[0], x.dtype)
        for i in range(x.shape[0]):
            s = x.dtype.type(0)
            for j in range(x.shape[1]):
                s += w[i, j] * x[i, j] * x[i, j]
            out[i] = s
        return out

    def softmax(x, w):
        out = np.empty_like(x)
        for i in range(x.shape[0]):
            top = x[i, 0]
            for j in range(x.shape[1]):
                top = max(top, x[i, j])
            s = x.dtype.type(0)
            for j in range(x.shape[1]):
                out[i, j] = exp(x[i, j] - top)
                s += out[i, j]
            for j in range(x.shape[1]):
                out[i, j] /= s
        return out

    def distances(x, w):
        out = np.zeros(x.shape[0], x.dtype)
        for i in range(x.shape[0]):
            s = x.dtype.type(0)
            for j in range(x.shape[1]):
                s += (x[i, j] - w[i, j]) * (x[i, j] - w[i, j])
            out[i] = sqrt(s)
        return out

    def clipped(x, w):
        out = np.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] if x[i, j] > 0 else 0.1 * x[i, j]) + max(w[i, j], 0.5)
        return out

    def wave(x, w):
        out = np.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = sin(x[i, j]) * exp(-w[i, j] * w[i, j]) + cos(w[i, j])
        return out

    def standard(x, w):
        n, m = x.shape
        out, mean, std = np.empty_like(x), np.zeros(m, x.dtype), np.zeros(m, x.dtype)
        for i in range(n):
            for j in range(m):
                mean[j] += x[i, j]
        mean /= n
        for i in range(n):
            for j in range(m):
                std[j] += (x[i, j] - mean[j]) ** 2
        for j in range(m):
            std[j] = sqrt(std[j] / n)
        for i in range(n):
            for j in range(m):
                out[i, j] = (x[i, j] - mean[j]) / std[j]
        return out

    def blur(x, w):
        out = np.empty((x.shape[0] - 2, x.shape[1] - 2), x.dtype)
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = (x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2] + x[i + 1, j + 1]) * 0.2
        return out

    def total(x, w):
        a = b = c = x.dtype.type(0)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                a += x[i, j] * w[i, j]
                b += x[i, j] * x[i, j]
                c += w[i, j] * w[i, j]
        return a / sqrt(b * c)

    return {f.__name__: f for f in (energy, softmax, distances, clipped, wave, standard, blur, total)}


def compared(function: Callable[..., Any], loop: Callable[..., Any], size: int, kind: str) -> dict[str, Any]:
    import numba
    import tilewright as tw

    rng = np.random.default_rng(0)
    rows = int(size**0.5)
    x, w = (rng.standard_normal((rows, size // rows)).astype(kind) for _ in range(2))
    ours, theirs = tw.jit(function, numpy=True, threads=1), numba.njit(loop, fastmath=True)
    first = {}
    for name, f in (("ours", ours), ("numba", theirs)):
        begin = time.perf_counter()
        found = f(x, w)
        first[name] = round(time.perf_counter() - begin, 3)
        np.testing.assert_allclose(found, function(x, w), rtol=2e-3 if kind == "float32" else 1e-6, atol=1e-4)
    ours(x[1:], w[1:])  # another size: from here on it is a symbol
    times: dict[str, list[float]] = {"numpy": [], "numba": [], "ours": [], "symbol": []}
    calls = {
        "numpy": lambda: function(x, w),
        "numba": lambda: theirs(x, w),
        "ours": lambda: ours(x, w),
        "symbol": lambda: ours(x[1:], w[1:]),
    }
    for f in calls.values():
        f()
    begin = time.perf_counter()
    while len(times["ours"]) < ROUNDS and (time.perf_counter() - begin < SECONDS or len(times["ours"]) < 5):
        for name, f in calls.items():
            at = time.perf_counter()
            f()
            times[name].append(1e3 * (time.perf_counter() - at))
    found = {name: statistics.median(t) for name, t in times.items()}
    small = [[a[:n, :25].copy() for a in (x, w)] for n in range(40, 80)]
    ours(*small[0]), ours(*small[1])
    fresh, plain = [], []
    for a, b in small[2:]:
        at = time.perf_counter()
        ours(a, b)
        mid = time.perf_counter()
        function(a, b)
        fresh.append(1e6 * (mid - at))
        plain.append(1e6 * (time.perf_counter() - mid))
    return {
        "function": function.__name__, "dtype": kind, "shape": list(x.shape), **{f"{n}_ms": round(t, 4) for n, t in found.items()},
        "over_numpy": round(found["numpy"] / found["ours"], 2), "over_numba": round(found["numba"] / found["ours"], 2),
        "first_s": first["ours"], "numba_first_s": first["numba"], "new_size_us": round(statistics.median(fresh), 1),
        "numpy_us": round(statistics.median(plain), 1), "programs": len(ours.programs),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="+", choices=[f.__name__ for f in FUNCTIONS])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        written = loops()
        rows = []
        for f in FUNCTIONS:
            if not options.only or f.__name__ in options.only:
                for kind in ("float64", "float32"):
                    rows.append(compared(f, written[f.__name__], options.size, kind))
                    print(json.dumps(rows[-1]), flush=True)
    means = {f"over_{who}": round(statistics.geometric_mean([r[f"over_{who}"] for r in rows]), 2) for who in ("numpy", "numba")}
    print(json.dumps({"function": "geometric mean", **means}))


if __name__ == "__main__":
    main()

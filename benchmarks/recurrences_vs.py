"""Recurrences that are not linear beside C and Numba: seven examples, batched and alone, on one thread.

    python benchmarks/record.py benchmarks/recurrences_vs.py [--only rnn dtw] [--tune 20s] [--rounds 9]

`rows`: C whose outer loop is over the batch, as one writes it by hand, on arrays in which each element of the batch lies in one piece;
`steps`: C whose inner loop is over the batch, which is the last dimension, with states in an array, which gcc may vectorise. Both are
compiled by gcc -O3 -march=native, and with -ffast-math as well (`fast`); `numba`: the first in Numba, njit(fastmath=True), on arrays as C's. Ours is a kernel with `recurrence`, or (two axes) a `scan` over rows in a captured function whose body is such a
kernel. Each runs in turn; times are medians of milliseconds. `by_hand`: the faster of `rows` and Numba by ours, `ratio`: the fastest rival by
ours."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 0.15
HEAD = "#include <math.h>\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n#define MIN(a, b) ((a) < (b) ? (a) : (b))\n"


@dataclass(frozen=True)
class Example:
    """`c`: the bodies of `rows` and `steps`, over arrays x, w, y; `numba`: the first one in Python; `ours`: a function of the arrays."""

    name: str
    batch: int
    steps: int
    inputs: Callable[[np.random.Generator], list[Any]]
    output: tuple[tuple[int, ...], str]
    rows: str
    steps_c: str
    numba: Callable[..., None]
    ours: Callable[[str | None], Callable[..., Any]]


# one axis -----------------------------------------------------------------------------------------------------------
def _kernel(name: str, n: int, m: int, kind: str, start: tuple[float, ...], step: Callable[..., Any], weights: bool) -> Any:
    import tilewright as tw

    kb = tw.KernelBuilder(name)
    i, t = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (n, m), kind, range=(0, 2) if kind == "int32" else None)
    w = kb.input("w", (m,), kind, range=(-0.9, 0.9)) if weights else None
    found = kb.recurrence(
        [f"s{k}" for k in range(len(start))], (i, t), t, start, lambda *s: step(x[t, i], None if w is None else w[i], *s), kind
    )
    kb.store("y", kind, (n, m), (i, t), found[0][i, t], (t, i))
    return kb.build()


def _one_axis(*about: Any) -> Callable[[str | None], Callable[..., Any]]:
    def make(budget: str | None) -> Callable[..., Any]:
        import tilewright as tw

        kernel = _kernel(*about)
        if budget:
            tw.tune(kernel, threads=1, budget=budget)
        compiled = tw.best(kernel, threads=1)
        return lambda *arrays: compiled(*arrays[:-1], out=arrays[-1])

    return make


def _rnn(x: Any, w: Any, h: Any) -> Any:
    from tilewright.ir import tanh

    return tanh(x + w * h)


def _biquad(x: Any, w: Any, y: Any, p: Any, q: Any) -> Any:
    out = x * 0.2 + p
    return out, x * 0.3 + q - out * w, x * 0.2 - out * 0.4


def _automaton(x: Any, w: Any, s: Any) -> Any:
    from tilewright.ir import where

    return where(x.eq(0), 0, where(s.eq(3), 1, where(x > 1, s + 1, s)))


def rnn_numba(x: Any, w: Any, y: Any) -> None:
    for i in range(x.shape[1]):
        h = np.float32(0)
        for t in range(x.shape[0]):
            h = np.tanh(x[t, i] + w[i] * h)
            y[t, i] = h


def biquad_numba(x: Any, w: Any, y: Any) -> None:
    for i in range(x.shape[1]):
        p = q = np.float32(0)
        for t in range(x.shape[0]):
            out = x[t, i] * np.float32(0.2) + p
            p = x[t, i] * np.float32(0.3) + q - out * w[i]
            q = x[t, i] * np.float32(0.2) - out * np.float32(0.4)
            y[t, i] = out


def automaton_numba(x: Any, y: Any) -> None:
    for i in range(x.shape[1]):
        s = 2
        for t in range(x.shape[0]):
            v = x[t, i]
            s = 0 if v == 0 else 1 if s == 3 else s + 1 if v > 1 else s
            y[t, i] = s


def _c(signature: str, rows: str, steps: str) -> tuple[str, str]:
    rows = re.sub(r"\[\(([^\]]*)\) \* M \+ i\]", r"[i * SIZE + \1]", rows)
    rows = re.sub(r"\[(\w) \* M \+ i\]", r"[i * N + \1]", rows)
    return f"void run({signature}) {{ {rows} }}", f"void run({signature}) {{ {steps} }}"


_XWY = "const float *restrict x, const float *restrict w, float *restrict y"


def _single(name: str, m: int, n: int) -> Example:
    floats = lambda rng: [rng.standard_normal((n, m)).astype(np.float32), rng.uniform(-0.9, 0.9, m).astype(np.float32)]  # noqa: E731
    head = f"enum {{ N = {n}, M = {m} }};"
    if name == "rnn":
        rows = "for (int i = 0; i < M; i++) { float h = 0; for (int t = 0; t < N; t++) y[t * M + i] = h = tanhf(x[t * M + i] + w[i] * h); }"
        steps = "for (int t = 0; t < N; t++) for (int i = 0; i < M; i++) y[t * M + i] = tanhf(x[t * M + i] + w[i] * (t ? y[t * M + i - M] : 0));"
        made = _c(_XWY, head + rows, head + steps)
        ours = _one_axis(name, n, m, "float32", (0.0,), _rnn, True)
        return Example(name, m, n, floats, ((n, m), "float32"), *made, rnn_numba, ours)
    if name == "iir":
        one = "float v = x[t * M + i], o = v * 0.2f + P; P = v * 0.3f + Q - o * w[i]; Q = v * 0.2f - o * 0.4f; y[t * M + i] = o;"
        rows = f"for (int i = 0; i < M; i++) {{ float p = 0, q = 0; for (int t = 0; t < N; t++) {{ {one.replace('P', 'p').replace('Q', 'q')} }} }}"
        inner = one.replace("P", "p[i]").replace("Q", "q[i]")
        steps = f"static float p[M], q[M]; for (int i = 0; i < M; i++) p[i] = q[i] = 0; for (int t = 0; t < N; t++) for (int i = 0; i < M; i++) {{ {inner} }}"
        made = _c(_XWY, head + rows, head + steps)
        ours = _one_axis(name, n, m, "float32", (0.0, 0.0, 0.0), _biquad, True)
        return Example(name, m, n, floats, ((n, m), "float32"), *made, biquad_numba, ours)
    one = "int v = x[t * M + i]; S = v == 0 ? 0 : S == 3 ? 1 : v > 1 ? S + 1 : S; y[t * M + i] = S;"
    rows = f"for (int i = 0; i < M; i++) {{ int s = 2; for (int t = 0; t < N; t++) {{ {one.replace('S', 's')} }} }}"
    steps = f"static int s[M]; for (int i = 0; i < M; i++) s[i] = 2; for (int t = 0; t < N; t++) for (int i = 0; i < M; i++) {{ {one.replace('S', 's[i]')} }}"
    made = _c("const int *restrict x, int *restrict y", head + rows, head + steps)
    integers = lambda rng: [rng.integers(0, 3, (n, m)).astype(np.int32)]  # noqa: E731
    ours = _one_axis(name, n, m, "int32", (2,), _automaton, False)
    return Example(name, m, n, integers, ((n, m), "int32"), *made, automaton_numba, ours)


# two axes -----------------------------------------------------------------------------------------------------------
# A scan over rows; the row is a recurrence along its places, whose step reads what the row above has at them and before them.


def _rows_kernel(name: str, n: int, m: int) -> Callable[..., Any]:
    """The kernel of a row of `name`, of the row above: (places, batch) each."""
    import tilewright as tw
    from tilewright.ir import absolute, maximum, minimum, where

    @tw.operation
    def row(x: Any, above: Any, given: Any, corner: Any) -> Any:
        kb = tw.KernelBuilder(f"{name}_row")
        i, t = kb.axis("m", m), kb.axis("n", n)
        a = kb.input("x", x.shape, "float32")  # of this row: (batch,), or (places, batch)
        up, b = kb.input("above", (n, m), "float32"), kb.input("given", (n, m), "float32")
        c = kb.input("corner", (), "float32")  # what is before the place above the first one
        if name == "dtw":
            before = where(t > 0, up.masked(t > 0, t - 1, i), c[()])
            start: Any = 1e30
            step = lambda left: absolute(a[i] - b[t, i]) + minimum(minimum(left, up[t, i]), before)  # noqa: E731
        elif name == "smith_waterman":
            before = where(t > 0, up.masked(t > 0, t - 1, i), c[()])
            start = 0.0
            step = lambda left: maximum(  # noqa: E731
                maximum(left - 1.0, up[t, i] - 1.0), maximum(before + where(a[i].eq(b[t, i]), 2.0, -1.0), 0.0)
            )
        else:  # Gauss-Seidel: `above` is new, `x` this row and `given` the row below, both old
            start = 0.0
            right = a.masked(t < n - 1, t + 1, i)
            step = lambda left: (left + up[t, i] + right + b[t, i]) * 0.25 + c[()]  # noqa: E731
        (s,) = kb.recurrence(("s",), (i, t), t, (start,), step)
        kb.store("y", "float32", (n, m), (i, t), s[i, t], (t, i))
        return kb.build()

    return row


def _two_axes(name: str, m: int, n: int) -> Callable[[str | None], Callable[..., Any]]:
    def make(budget: str | None) -> Callable[..., Any]:
        import tilewright as tw

        row = _rows_kernel(name, n, m)
        if name == "gauss_seidel":

            def whole(u: Any) -> Any:
                nothing = tw.xp.zeros((n,))
                below = tw.xp.concat([u[1:], u[:1] * 0])
                return tw.scan(lambda above, r: ((new := row(r[0], above, r[1], r[2])), new), u[0] * 0, (u, below, nothing))[1]
        else:

            def whole(x: Any, b: Any) -> Any:
                outside = 0.0 if name == "smith_waterman" else 1e30
                corners = tw.xp.where(tw.xp.arange(n) == 0, 0.0, outside).astype("float32")
                return tw.scan(lambda above, r: ((new := row(r[0], above, b, r[1])), new), b * 0 + outside, (x, corners))[1]

        f = tw.jit(whole, tune="tune" if budget else "use", budget=budget, threads=1)
        return lambda *arrays: f(*arrays[:-1], out=arrays[-1])

    return make


def dtw_numba(x: Any, b: Any, y: Any) -> None:
    big = np.float32(1e30)
    for i in range(x.shape[1]):
        for r in range(x.shape[0]):
            for t in range(b.shape[0]):
                up = y[r - 1, t, i] if r else big
                left = y[r, t - 1, i] if t else big
                both = y[r - 1, t - 1, i] if r and t else (big if r or t else np.float32(0))
                y[r, t, i] = abs(x[r, i] - b[t, i]) + min(min(left, up), both)


def smith_waterman_numba(x: Any, b: Any, y: Any) -> None:
    for i in range(x.shape[1]):
        for r in range(x.shape[0]):
            for t in range(b.shape[0]):
                up = y[r - 1, t, i] if r else np.float32(0)
                left = y[r, t - 1, i] if t else np.float32(0)
                both = y[r - 1, t - 1, i] if r and t else np.float32(0)
                both += np.float32(2) if x[r, i] == b[t, i] else np.float32(-1)
                y[r, t, i] = max(max(left - np.float32(1), up - np.float32(1)), max(both, np.float32(0)))


def gauss_seidel_numba(u: Any, y: Any) -> None:
    rows, places, batch = u.shape
    zero = np.float32(0)
    for i in range(batch):
        for r in range(rows):
            for t in range(places):
                left, up = y[r, t - 1, i] if t else zero, y[r - 1, t, i] if r else zero
                right, down = u[r, t + 1, i] if t < places - 1 else zero, u[r + 1, t, i] if r < rows - 1 else zero
                y[r, t, i] = (left + up + right + down) * np.float32(0.25)


def _double(name: str, m: int, n: int) -> Example:
    head = f"enum {{ N = {n}, M = {m}, SIZE = N * N }};"
    at = "y[(r * N + t) * M + i]"
    left, up, both = "y[(r * N + t - 1) * M + i]", "y[((r - 1) * N + t) * M + i]", "y[((r - 1) * N + t - 1) * M + i]"
    if name == "dtw":
        inner = f"float l = t ? {left} : 1e30f, u = r ? {up} : 1e30f, d = r && t ? {both} : r || t ? 1e30f : 0; {at} = fabsf(x[r * M + i] - w[t * M + i]) + MIN(MIN(l, u), d);"
        numba, signature = dtw_numba, _XWY
    elif name == "smith_waterman":
        inner = f"float l = t ? {left} : 0, u = r ? {up} : 0, d = (r && t ? {both} : 0) + (x[r * M + i] == w[t * M + i] ? 2.0f : -1.0f); {at} = MAX(MAX(l - 1, u - 1), MAX(d, 0));"
        numba, signature = smith_waterman_numba, _XWY
    else:
        right, down = "x[(r * N + t + 1) * M + i]", "x[((r + 1) * N + t) * M + i]"
        inner = (
            f"float l = t ? {left} : 0, u = r ? {up} : 0; {at} = (l + u + (t < N - 1 ? {right} : 0) + (r < N - 1 ? {down} : 0)) * 0.25f;"
        )
        numba, signature = gauss_seidel_numba, "const float *restrict x, float *restrict y"
    loops = ["for (int i = 0; i < M; i++)", "for (int r = 0; r < N; r++)", "for (int t = 0; t < N; t++)"]
    rows = f"{' '.join(loops)} {{ {inner} }}"
    steps = f"{loops[1]} {loops[2]} {loops[0]} {{ {inner} }}"

    def inputs(rng: np.random.Generator) -> list[Any]:
        if name == "gauss_seidel":
            return [rng.standard_normal((n, n, m)).astype(np.float32)]
        kind = (lambda s: rng.integers(0, 4, s)) if name == "smith_waterman" else rng.standard_normal
        return [kind((n, m)).astype(np.float32), kind((n, m)).astype(np.float32)]

    return Example(name, m, n, inputs, ((n, n, m), "float32"), *_c(signature, head + rows, head + steps), numba, _two_axes(name, m, n))


# Viterbi: the best path to each of S states, of sums of logarithms; in tensors, a batch at a time.
STATES = 16


def viterbi_numba(e: Any, a: Any, y: Any) -> None:
    steps, states, batch = e.shape
    for i in range(batch):
        for t in range(steps):
            for s in range(states):
                best = (y[t - 1, 0, i] if t else np.float32(0)) + a[0, s]
                for k in range(1, states):
                    best = max(best, (y[t - 1, k, i] if t else np.float32(0)) + a[k, s])
                y[t, s, i] = best + e[t, s, i]


def _viterbi(m: int, n: int) -> Example:
    head = f"enum {{ N = {n}, M = {m}, S = {STATES}, SIZE = N * S }};"
    step = "float b = p[i] + w[s]; for (int k = 1; k < S; k++) { float v = p[k * M + i] + w[k * S + s]; b = MAX(b, v); } y[(t * S + s) * M + i] = b + x[(t * S + s) * M + i];"
    first = "static const float zero[S * M];"
    loops = [
        "for (int i = 0; i < M; i++)",
        "for (int t = 0; t < N; t++) { const float *p = t ? y + (t - 1) * S * M : zero;",
        "for (int s = 0; s < S; s++)",
    ]
    signature = _XWY.replace("float *restrict y", "float *y")  # (the step before is read)
    alone = step.replace("p[i]", "p[0]").replace("p[k * M + i]", "p[k]")
    mine = " ".join([loops[0], loops[1].replace("y + (t - 1) * S * M", "y + i * SIZE + (t - 1) * S"), loops[2]])
    made = _c(signature, f"{head}{first}{mine} {{ {alone} }} }}", f"{head}{first}{loops[1]} {loops[2]} {loops[0]} {{ {step} }} }}")

    def ours(budget: str | None) -> Callable[..., Any]:
        import tilewright as tw

        def whole(e: Any, a: Any) -> Any:
            def step(v: Any, x: Any) -> Any:
                new = (v[:, None, :] + a[:, :, None]).max(0) + x
                return new, new

            return tw.scan(step, e[0] * 0, e)[1]

        f = tw.jit(whole, tune="tune" if budget else "use", budget=budget, threads=1)
        return lambda *arrays: f(*arrays[:-1], out=arrays[-1])

    def inputs(rng: np.random.Generator) -> list[Any]:
        return [np.log(rng.uniform(0.1, 1, s)).astype(np.float32) for s in ((n, STATES, m), (STATES, STATES))]

    return Example("viterbi", m, n, inputs, ((n, STATES, m), "float32"), *made, viterbi_numba, ours)


def examples() -> list[Example]:
    """Batched, then alone."""
    found = [_single("rnn", 256, 1000), _single("iir", 256, 2000), _single("automaton", 256, 2000), _viterbi(64, 200)]
    found += [_double(name, 64, 100) for name in ("smith_waterman", "dtw", "gauss_seidel")]
    return found + [_single(name, 1, 200_000) for name in ("rnn", "iir", "automaton")]


# timing -------------------------------------------------------------------------------------------------------------
def _compiled(text: str, folder: str, flags: tuple[str, ...]) -> Callable[..., None]:
    number = len(list(Path(folder).glob("*.so")))
    source, library = Path(folder, f"{number}.c"), Path(folder, f"{number}.so")
    source.write_text(HEAD + text)
    subprocess.run(["gcc", "-O3", "-march=native", *flags, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    run = ctypes.CDLL(str(library)).run
    return lambda *arrays: run(*[ctypes.c_void_p(a.ctypes.data) for a in arrays])


def _timed(call: Callable[[], Any]) -> float:
    best, end = [], time.perf_counter() + SECONDS
    while not best or (time.perf_counter() < end and len(best) < 200):
        start = time.perf_counter()
        call()
        best.append(time.perf_counter() - start)
    return statistics.median(best)


def measured(e: Example, budget: str | None, rounds: int, folder: str) -> dict[str, Any]:
    """A row."""
    import numba

    arrays = e.inputs(np.random.default_rng(0))
    shape, kind = e.output
    rivals: dict[str, Callable[..., Any]] = {
        "rows": _compiled(e.rows, folder, ()), "rows_fast": _compiled(e.rows, folder, ("-ffast-math",)),
        "steps": _compiled(e.steps_c, folder, ()), "steps_fast": _compiled(e.steps_c, folder, ("-ffast-math",)),
        "numba": numba.njit(fastmath=True)(e.numba), "ours": e.ours(budget),
    }  # fmt: skip
    mine = [np.moveaxis(a, -1, 0).copy() if a.ndim > 1 and a.shape[-1] == e.batch else a for a in arrays]
    back = [np.moveaxis(a, 0, -1) if a is not b else b for a, b in zip(mine, arrays, strict=True)]
    given = {name: mine if "rows" in name else back if name == "numba" else arrays for name in rivals}
    made: dict[str, Any] = {}
    held: dict[str, Any] = {}
    for name, call in rivals.items():
        held[name] = np.zeros((shape[-1], *shape[:-1]) if given[name] is not arrays else shape, kind)
        made[name] = np.moveaxis(held[name], 0, -1) if given[name] is not arrays else held[name]
        if name == "numba":
            held[name] = made[name]
        call(*given[name], held[name])
        np.testing.assert_allclose(made[name], made["rows"], rtol=2e-3, atol=2e-4, err_msg=f"{e.name} by {name}")
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, call in rivals.items():
            times[name].append(_timed(lambda call=call, name=name: call(*given[name], held[name])))  # type: ignore[misc]
    ms = {name: round(1e3 * statistics.median(t), 4) for name, t in times.items()}
    hand = min(ms["rows"], ms["rows_fast"], ms["numba"])
    fastest = min(v for n, v in ms.items() if n != "ours")
    row = {"name": e.name, "batch": e.batch, "steps": e.steps, **{f"{n}_ms": v for n, v in ms.items()}}
    return {**row, "by_hand": round(hand / ms["ours"], 3), "ratio": round(fastest / ms["ours"], 3)}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*")
    p.add_argument("--tune", metavar="BUDGET", help="tune each kernel so long, in a cache of its own")
    p.add_argument("--rounds", type=int, default=5)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE"] = f"{folder}/cache.db"
        rows = [measured(e, args.tune, args.rounds, folder) for e in examples() if not args.only or e.name in args.only]
    for r in rows:
        print(json.dumps(r))


if __name__ == "__main__":
    main()

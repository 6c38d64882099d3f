"""Loops in captured functions beside PyTorch's recurrent layers, Numba and JAX, from an empty cache: start schedules, nothing tuned.

    python benchmarks/scans_vs.py [--only NAME ...] [--threads 1 2] [--rounds 5] [--record]

`lstm`, `gru`: a layer over 1,000 steps of a batch, as many features as hidden units, beside `torch.nn.LSTM` and `GRU`: `forward` without
gradients, and `training`, the gradient of the outputs' squares with respect to all weights, with the forward pass. `compile_s`: capturing
and compiling 1,000 steps, and `one_step_s` the same for one. `heat`: 1,000 Runge-Kutta steps of the heat equation in one dimension.
`jacobi`: a linear system, until nothing moves by more than a bound. Both are one call of ours; beside Numba's loops, and JAX's. `ratio`: the
other's time over ours, the median over rounds in turns. `error`: the largest difference over the largest value. --record writes
results/scans_vs.json, keeping rows of other forms."""

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
import record

STEPS = 1000
SIZES = [(64, 1), (64, 32), (128, 8), (256, 1), (256, 32), (512, 1), (512, 32)]
MOST_S = 0.25

Call = Callable[[], Any]


def lstm_step(w: Any) -> Any:
    """A step of an LSTM on what its input brings."""

    def step(carry: Any, brought: Any) -> Any:
        h, c = carry
        i, f, new, o = (brought + h @ w.T).split(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * new.tanh()
        h = o.sigmoid() * c.tanh()
        return (h, c), h

    return step


def gru_step(w: Any, b: Any) -> Any:
    """A step of a GRU as PyTorch's: the reset gate comes behind the product."""

    def step(h: Any, brought: Any) -> Any:
        r, z, n = brought.split(3, 1)
        hr, hz, hn = (h @ w.T + b).split(3, 1)
        z = (z + hz).sigmoid()
        h = (1 - z) * (n + (r + hr).sigmoid() * hn).tanh() + z * h
        return h, h

    return step


def layer(kind: str, p: dict[str, Any], xs: Any) -> Any:
    """All states of a layer."""
    import tilewright as tw
    from tilewright import xp

    h = xp.zeros((xs.shape[1], p["weight_hh_l0"].shape[1]))
    if kind == "lstm":
        brought = xs @ p["weight_ih_l0"].T + (p["bias_ih_l0"] + p["bias_hh_l0"])
        return tw.scan(lstm_step(p["weight_hh_l0"]), (h, h), brought)[1]
    brought = xs @ p["weight_ih_l0"].T + p["bias_ih_l0"]
    return tw.scan(gru_step(p["weight_hh_l0"], p["bias_hh_l0"]), h, brought)[1]


def recurrent(kind: str, hidden: int, batch: int, threads: int, cache: str) -> list[tuple[dict[str, Any], Call, dict[str, Call]]]:
    """(what is told, ours, others by name), forward and training."""
    import tilewright as tw
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](hidden, hidden)
    x = torch.randn(STEPS, batch, hidden)
    p = {k: v.detach().numpy().copy() for k, v in net.named_parameters()}
    xn = x.numpy()

    def loss(p: Any, xs: Any) -> Any:
        return (layer(kind, p, xs) ** 2).sum()

    def forward() -> Any:
        with torch.no_grad():
            return net(x)[0]

    def training() -> Any:
        net.zero_grad()
        (net(x)[0] ** 2).sum().backward()
        return {k: v.grad for k, v in net.named_parameters()}

    out = []
    for what, f, theirs in (("forward", lambda p, xs: layer(kind, p, xs), forward), ("training", tw.grad(loss), training)):
        told: dict[str, Any] = {"form": kind, "hidden": hidden, "batch": batch, "what": what, "threads": threads}
        for name, steps in (("one_step_s", 1), ("compile_s", STEPS)):
            begin = time.perf_counter()
            made = tw.jit(f, threads=threads, cache=cache)
            found = made(p, xn[:steps])
            told[name] = round(time.perf_counter() - begin, 2)
        want = theirs()
        pairs = [(found[k], want[k]) for k in want] if isinstance(want, dict) else [(found, want)]
        told["error"] = float(f"{max(float(np.abs(a.numpy() - b.numpy()).max() / np.abs(b.numpy()).max()) for a, b in pairs):.2g}")
        out.append((told, lambda made=made: made(p, xn), {"torch": theirs}))
    return out


def heat(threads: int, cache: str) -> list[tuple[dict[str, Any], Call, dict[str, Call]]]:
    """Runge-Kutta's method of order 4 on 4,096 points."""
    import jax
    import jax.numpy as jnp
    import tilewright as tw
    from jax import lax
    from numba import njit

    n, dt = 4096, np.float32(0.2)
    u = np.random.default_rng(0).standard_normal(n).astype(np.float32)

    def stepped(slope: Any) -> Any:
        def step(i: Any, u: Any) -> Any:
            a = slope(u)
            b = slope(u + 0.5 * dt * a)
            c = slope(u + 0.5 * dt * b)
            d = slope(u + dt * c)
            return u + dt / 6 * (a + 2 * b + 2 * c + d)

        return step

    def ours_slope(u: Any) -> Any:
        return u.roll(1) - 2 * u + u.roll(-1)

    ours = tw.jit(lambda u: tw.fori_loop(0, STEPS, stepped(ours_slope), u), threads=threads, cache=cache)
    theirs = jax.jit(lambda u: lax.fori_loop(0, STEPS, stepped(lambda u: jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)), u))

    @njit(fastmath=False)
    def slope(u: Any, out: Any) -> None:
        m = len(u)
        for i in range(1, m - 1):
            out[i] = u[i - 1] - np.float32(2) * u[i] + u[i + 1]
        out[0] = u[m - 1] - np.float32(2) * u[0] + u[1]
        out[m - 1] = u[m - 2] - np.float32(2) * u[m - 1] + u[0]

    @njit(fastmath=False)
    def numba(u: Any, dt: Any, steps: int) -> Any:
        u = u.copy()
        a, b, c, d, v = np.empty_like(u), np.empty_like(u), np.empty_like(u), np.empty_like(u), np.empty_like(u)
        half, sixth, two = dt * np.float32(0.5), dt / np.float32(6), np.float32(2)
        for _ in range(steps):
            slope(u, a)
            for i in range(len(u)):
                v[i] = u[i] + half * a[i]
            slope(v, b)
            for i in range(len(u)):
                v[i] = u[i] + half * b[i]
            slope(v, c)
            for i in range(len(u)):
                v[i] = u[i] + dt * c[i]
            slope(v, d)
            for i in range(len(u)):
                u[i] = u[i] + sixth * (a[i] + two * b[i] + two * c[i] + d[i])
        return u

    want = numba(u, dt, STEPS)
    error = float(np.abs(ours(u).numpy() - want).max() / np.abs(want).max())
    told = {"form": "heat", "points": n, "threads": threads, "error": float(f"{error:.2g}")}
    return [(told, lambda: ours(u), {"numba": lambda: numba(u, dt, STEPS), "jax": lambda: theirs(u).block_until_ready()})]


def jacobi(threads: int, cache: str) -> list[tuple[dict[str, Any], Call, dict[str, Call]]]:
    """512 unknowns."""
    import jax
    import jax.numpy as jnp
    import tilewright as tw
    from jax import lax
    from numba import njit

    rng, n = np.random.default_rng(0), 512
    a = rng.standard_normal((n, n)).astype(np.float32)
    d = (np.abs(a).sum(1) * 1.2).astype(np.float32)
    np.fill_diagonal(a, 0)
    b = rng.standard_normal(n).astype(np.float32)
    bound = np.float32(1e-6)

    def solved(loop: Any, largest: Any) -> Any:
        def run(a: Any, d: Any, b: Any) -> Any:
            step = lambda v: ((b - a @ v[0]) / d, v[0])  # noqa: E731
            return loop(lambda v: largest(v[0] - v[1]) > bound, step, (b / d, b * 0))[0]

        return run

    ours = tw.jit(solved(tw.while_loop, lambda x: x.abs().max()), threads=threads, cache=cache)
    theirs = jax.jit(solved(lax.while_loop, lambda x: jnp.abs(x).max()))

    @njit
    def numba(a: Any, d: Any, b: Any, bound: Any) -> Any:
        x, before = b / d, b * np.float32(0)
        while np.abs(x - before).max() > bound:
            x, before = (b - a @ x) / d, x
        return x

    want = numba(a, d, b, bound)
    error = float(np.abs(ours(a, d, b).numpy() - want).max() / np.abs(want).max())
    told = {"form": "jacobi", "unknowns": n, "threads": threads, "error": float(f"{error:.2g}")}
    return [(told, lambda: ours(a, d, b), {"numba": lambda: numba(a, d, b, bound), "jax": lambda: theirs(a, d, b).block_until_ready()})]


def burst(call: Call) -> float:
    """The median time of a call, in seconds."""
    call()
    times: list[float] = []
    end = time.perf_counter() + MOST_S
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 50):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def forms(threads: int, cache: str) -> dict[str, Callable[[], list[tuple[dict[str, Any], Call, dict[str, Call]]]]]:
    """By name what makes the calls."""
    out: dict[str, Any] = {}
    for kind in ("lstm", "gru"):
        for hidden, batch in SIZES:
            out[f"{kind}-{hidden}-{batch}"] = lambda k=kind, h=hidden, b=batch: recurrent(k, h, b, threads, cache)
    return {**out, "heat": lambda: heat(threads, cache), "jacobi": lambda: jacobi(threads, cache)}


def main() -> None:
    """Print a JSON line for each form, number of threads and direction."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="+", default=[], help="parts of names")
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--record", action="store_true")
    args = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for threads in args.threads:
            for name, make in forms(threads, f"{folder}/cache.db").items():
                if args.only and not any(o in name for o in args.only):
                    continue
                for told, ours, others in make():
                    for _ in range(8):  # in the first calls a captured function settles how many threads short kernels have
                        ours()
                    rounds = [(burst(ours), {k: burst(f) for k, f in others.items()}) for _ in range(args.rounds)]
                    told["ms"] = round(statistics.median(r[0] for r in rounds) * 1e3, 3)
                    for k in others:
                        told[f"{k}_ms"] = round(statistics.median(r[1][k] for r in rounds) * 1e3, 3)
                        told[f"{k}_ratio"] = round(statistics.median(r[1][k] / r[0] for r in rounds), 3)
                    print(json.dumps(told), flush=True)
                    rows.append(told)
    if args.record:
        kept = record.ROOT / "results" / "scans_vs.json"
        before = json.loads(kept.read_text())["rows"] if kept.exists() else []
        same = lambda r: tuple(r.get(k) for k in ("form", "hidden", "batch", "what", "threads"))  # noqa: E731
        new = {same(r) for r in rows}
        command = "python benchmarks/scans_vs.py --record"
        record.keep("scans_vs", command, [*(r for r in before if same(r) not in new), *rows])


if __name__ == "__main__":
    main()

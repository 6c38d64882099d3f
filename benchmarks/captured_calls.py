"""What a call of a captured function costs beside its kernels: arguments of all kinds, sizes that were never seen, slices written.

    python benchmarks/record.py benchmarks/captured_calls.py [--only tensor arguments tree sizes slices weights]

`tensor`: microseconds of `Tensor(array)`. `arguments`: of a call with one NumPy array and with 16, with 1, 4 and 16 tensors, and with
`out=`, the kernel's own 16 elements included. `tree`: of a call whose arguments are a tree of 140 tensors, of which the function reads
all, and of one that updates 24 of them. `sizes`: a function of 170 kernels and one symbolic size: microseconds of a call with
a value that was seen, and of one with a value never seen, and bytes that the process grew by a value. `slices`: microseconds of a
captured `cache[:, at] = row` into caches of 512 to 32,768 rows. `weights`: of a product with weights that the function closes over,
and with weights that are an argument. Times are the lowest of several rounds' averages, in processor time on one thread."""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

KERNELS = 170


def lowest(f: Callable[[], Any], times: int, rounds: int = 7) -> float:
    """Microseconds of one call: the lowest of some rounds' averages."""
    f()
    found = []
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(times):
            f()
        found.append((time.thread_time() - begin) / times)
    return round(min(found) * 1e6, 2)


def tensor() -> dict[str, Any]:
    import tilewright as tw

    small, large = np.ones(16, np.float32), np.ones((512, 512), np.float32)
    return {"small_us": lowest(lambda: tw.Tensor(small), 5000), "large_us": lowest(lambda: tw.Tensor(large), 5000)}


def arguments() -> dict[str, Any]:
    import tilewright as tw

    one = tw.jit(lambda x: x + 1, threads=1)
    many = tw.jit(lambda *xs: sum(xs[1:], xs[0]), threads=1)
    array = np.ones(16, np.float32)
    arrays = [np.full(16, i, np.float32) for i in range(16)]
    tensors = [tw.Tensor(a) for a in arrays]
    row = {
        "one_array_us": lowest(lambda: one(array), 3000),
        "sixteen_arrays_us": lowest(lambda: many(*arrays), 1000),
        "one_tensor_us": lowest(lambda: one(tensors[0]), 3000),
        "four_tensors_us": lowest(lambda: many(*tensors[:4]), 3000),
        "sixteen_tensors_us": lowest(lambda: many(*tensors), 2000),
    }
    out = np.empty(16, np.float32)
    return row | {"one_array_with_out_us": lowest(lambda: one(array, out=out), 3000)}


def tree() -> dict[str, Any]:
    import tilewright as tw

    def layer(k: int) -> dict[str, Any]:
        return {f"p{i:02}": tw.Tensor(np.full(16, i + k, np.float32)) for i in range(14)}

    parameters = {"layers": [layer(k) for k in range(10)]}
    x = tw.Tensor(np.ones(16, np.float32))

    def total(p: Any, x: Any) -> Any:
        for part in p["layers"]:
            for t in part.values():
                x = x + t
        return x

    def updating(p: Any, x: Any) -> Any:
        out = total(p, x)
        for part in p["layers"]:
            for name in ("p00", "p01"):
                part[name].assign(part[name] + 1)
        for name in ("p02", "p03", "p04", "p05"):
            p["layers"][0][name].assign(p["layers"][0][name] + 1)
        return out

    read, write = tw.jit(total, threads=1), tw.jit(updating, threads=1)
    return {"tensors": 140, "us": lowest(lambda: read(parameters, x), 300), "updating_24_us": lowest(lambda: write(parameters, x), 300)}


def sizes() -> dict[str, Any]:
    import tilewright as tw

    n = tw.Var("n", 1, 4096)

    def steps(x: Any) -> Any:
        for k in range(KERNELS):
            x = (x + x.sum(0, keepdims=True) * (1.0 / 4096)).max(1, keepdims=True) + x if k % 2 else x * 0.5 + x.sum(0, keepdims=True)
        return x

    f = tw.jit(steps, symbols={"x": {0: n}}, threads=1)
    arrays = {k: tw.Tensor(np.ones((k, 4), np.float32)) for k in range(1, 600)}
    for k in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        for _ in range(8):
            f(arrays[k])
    kernels = len(f.programs[0].calls)
    same = lowest(lambda: f(arrays[64]), 300)
    # sizes of 65 to 95 in turn with 64, which is seen: so few elements that the kernels' own work hardly differs
    fresh = [k for k in range(65, 128)]
    pairs = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for k in fresh:
        f(arrays[64])
        t0 = time.perf_counter()
        f(arrays[64])
        t1 = time.perf_counter()
        f(arrays[k])
        t2 = time.perf_counter()
        f(arrays[k])
        t3 = time.perf_counter()
        pairs.append((t1 - t0, t2 - t1, t3 - t2))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / len(fresh)
    seen, first, again = (float(np.median([p[i] for p in pairs])) * 1e6 for i in range(3))
    return {
        "kernels": kernels, "seen_us": round(seen, 1), "same_again_us": same, "first_us": round(first, 1), "second_us": round(again, 1),
        "first_less_second_us": round(float(np.median([p[1] - p[2] for p in pairs])) * 1e6, 2), "bytes_a_value": round(grown),
    }  # fmt: skip


def slices() -> dict[str, Any]:
    row: dict[str, Any] = {"columns": 64}
    for rows in (512, 4096, 32768):
        row |= one_cache(rows)
    return row


def one_cache(rows: int) -> dict[str, Any]:
    """A cache of so many rows, of which a call writes one: its place is a symbol, and a tensor."""
    import tilewright as tw

    def write(cache: Any, new: Any, at: Any) -> None:
        cache[:, at] = new

    f = tw.jit(write, symbols={"at": tw.Var("at", 0, rows - 1)}, threads=1)
    g = tw.jit(write, threads=1)
    cache, other = (tw.Tensor(np.zeros((1, rows, 64), np.float32)) for _ in range(2))
    new = tw.Tensor(np.ones((1, 64), np.float32))
    places = [tw.Tensor(np.array(i, np.int64)) for i in range(64)]
    turn = iter(range(1 << 60))
    return {
        f"symbol_{rows}_us": lowest(lambda: f(cache, new, next(turn) % 64), 100, 5),
        f"tensor_{rows}_us": lowest(lambda: g(other, new, places[next(turn) % 64]), 100, 5),
    }


def weights() -> dict[str, Any]:
    import tilewright as tw

    rng = np.random.default_rng(0)
    x, w = (tw.Tensor(rng.standard_normal(s).astype("float32")) for s in ((64, 1024), (1024, 1024)))
    inside, given = tw.jit(lambda x: x @ w, threads=1), tw.jit(lambda x, w: x @ w, threads=1)
    return {"product": [64, 1024, 1024], "closed_over_us": lowest(lambda: inside(x), 50), "argument_us": lowest(lambda: given(x, w), 50)}


FACTS = {f.__name__: f for f in (tensor, arguments, tree, sizes, slices, weights)}


def main() -> None:
    """One JSON line a fact."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", choices=list(FACTS), default=list(FACTS))
    args = p.parse_args()
    for name in args.only:
        print(json.dumps({"fact": name, **FACTS[name](), "load": round(os.getloadavg()[0], 2)}), flush=True)


if __name__ == "__main__":
    main()

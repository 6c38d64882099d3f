"""Products of packed weights with one row of activations and with many, by start schedules, beside the speed of memory.

    python benchmarks/packed_weights.py [--form q8_0 ...] [--size 4096 ...] [--rows 1 64 512] [--threads 1 2] [--rounds 7]

One JSON line a format, size, count of rows and number of threads. A captured `linear(x, w)` with a square matrix of normally distributed
numbers is called on copies of the packed matrix in turn, which together are larger than the last cache, so that weights come from memory.
`gbytes_s`: bytes of packed weights read each second. `read_gbytes_s`: what the sum of a large float32 array reads at the same number of threads,
measured in turns with it; `of_read` is the median of the rounds' ratios. `of_float32`: the float32 product's time over this one's, in turns
(above 1 packed weights are faster). `error`: the largest difference from a float64 product of the decoded numbers, over its largest element.
Nothing is tuned: the cache and the store of compiled code are empty. TILEWRIGHT_TARGET lowers the target."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

BURST_S = 0.03
BEYOND_CACHE = 160 << 20
FORMS = ("float32", "bfloat16", "q8_0", "q4_0", "q4_k", "q6_k", "int8", "int4")


def product(form: str, size: int, rows: int, threads: int) -> tuple[Callable[[], Any], int, float, float]:
    """A call on the next copy, bytes of a matrix, seconds of the first call, and the error."""
    import numpy as np
    import tilewright as tw
    from tilewright import weights

    r = np.random.default_rng(size)
    a, x = r.standard_normal((size, size), np.float32), tw.Tensor(r.standard_normal((rows, size), np.float32))
    plain = form in ("float32", "bfloat16")
    first = tw.Tensor(a).astype(form).realise() if plain else weights.quantize(a, form)
    size_of = first.nbytes
    count = max(1, -(-BEYOND_CACHE // size_of)) if rows == 1 else 1
    copies = [
        first,
        *(
            tw.Tensor(first.numpy().copy()) if plain else type(first)(*(tw.Tensor(f.numpy().copy()) for f in first))
            for _ in range(count - 1)
        ),
    ]
    call, turn = tw.jit(weights.linear, threads=threads), cycle(copies)
    begin = time.perf_counter()
    y = call(x, first).numpy()
    seconds = time.perf_counter() - begin
    numbers = (first.astype("float32") if plain else first.decoded()).numpy()
    exact = x.numpy()[:8].astype("float64") @ numbers.T.astype("float64")
    return lambda: call(x, next(turn)), size_of, seconds, float(np.abs(y[:8] - exact).max() / np.abs(exact).max())


def reading(threads: int) -> tuple[Callable[[], Any], int]:
    """A sum of what is larger than the last cache, and its bytes."""
    import numpy as np
    import tilewright as tw

    large = tw.Tensor(np.ones(BEYOND_CACHE // 4, np.float32))
    call = tw.jit(lambda x: x.sum(), threads=threads)
    call(large)
    return lambda: call(large), BEYOND_CACHE


def burst(call: Callable[[], Any]) -> float:
    """Median seconds of a call."""
    times, end = [], time.perf_counter() + BURST_S
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(form: str, size: int, rows: int, threads: int, rounds: int) -> dict[str, Any]:
    """A line of the results."""
    from tilewright.devices import get

    call, nbytes, seconds, error = product(form, size, rows, threads)
    others = {"read": reading(threads)[0]} if rows == 1 else {"float32": product("float32", size, rows, threads)[0]}
    other = next(iter(others.values()))
    pairs = [(burst(call), burst(other)) for _ in range(rounds)]
    mine, theirs = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    line = {"form": form, "size": size, "rows": rows, "threads": threads, "target": get("cpu").target.name, "us": round(mine * 1e6, 1)}
    line |= {"gbytes_s": round(nbytes / mine / 1e9, 2), "error": float(f"{error:.1e}"), "first_seconds": round(seconds, 2)}
    if rows == 1:
        share = statistics.median(nbytes / a / (BEYOND_CACHE / b) for a, b in pairs)
        return line | {"read_gbytes_s": round(BEYOND_CACHE / theirs / 1e9, 2), "of_read": round(share, 3)}
    return line | {
        "gflop_s": round(2e-9 * size * size * rows / mine, 1),
        "of_float32": round(statistics.median(b / a for a, b in pairs), 3),
    }


def main() -> None:
    """Print one JSON line a case."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--form", nargs="*", choices=FORMS, default=FORMS)
    p.add_argument("--size", nargs="*", type=int, default=[2048, 4096, 8192])
    p.add_argument("--rows", nargs="*", type=int, default=[1, 64, 512])
    p.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    p.add_argument("--rounds", type=int, default=7)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for rows in args.rows:
            for form in args.form:
                for size in args.size:
                    for threads in args.threads:
                        print(json.dumps(measure(form, size, rows, threads, args.rounds)), flush=True)


if __name__ == "__main__":
    main()

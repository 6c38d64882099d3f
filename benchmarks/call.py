"""Overhead of calling a compiled kernel on NumPy arrays. `python benchmarks/call.py`

Times `compiled(a, b, out=c)` for an 8x8x8 matmul (the kernel itself takes well under 0.1 us) with one thread, the
smallest of 7 means over 20,000 calls; the same without `out=`, with arrays that were never seen (every check is
made), over 1000 sets of arrays in turn, and the device's bare native call."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np


def seconds(call: Callable[[], object], repeats: int = 20_000) -> float:
    """The least mean time of a call, out of 7."""
    means = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        means.append((time.perf_counter() - begin) / repeats)
    return min(means)


def main() -> None:
    from tilewright.plan import Artefacts, best

    with tempfile.TemporaryDirectory() as folder:
        compiled = best(
            "matmul",
            {"m": 8, "n": 8, "k": 8},
            "float32",
            cache=Path(folder) / "cache.db",
            store=Artefacts(Path(folder) / "artefacts"),
            threads=1,
        )
    a, b, c = np.ones((3, 8, 8), np.float32)
    sets = itertools.cycle([tuple(np.ones((3, 8, 8), np.float32)) for _ in range(1000)])

    def many() -> None:
        x, y, z = next(sets)
        compiled(x, y, out=z)

    bare, addresses = compiled._executable.bind(), tuple(x.ctypes.data for x in (a, b, c))
    found = {
        "call_s": seconds(lambda: compiled(a, b, out=c)),
        "call_without_out_s": seconds(lambda: compiled(a, b)),
        "unseen_arrays_s": seconds(lambda: compiled._first_call((a, b), c, {}), 5_000),
        "many_sets_s": seconds(many),
        "native_s": seconds(lambda: bare(*addresses)),
    }
    for name, limit in (
        ("call_s", "   (bound 5 us)"),
        ("call_without_out_s", ""),
        ("unseen_arrays_s", ""),
        ("many_sets_s", ""),
        ("native_s", ""),
    ):
        print(f"{name[:-2].replace('_', ' '):<18}  {found[name] * 1e6:8.2f} us{limit}")
    print(json.dumps({"benchmark": "call", **found}))


if __name__ == "__main__":
    main()

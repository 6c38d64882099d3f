"""Time of a cache look-up among 10,000 rows: the first after import, and warm. `python benchmarks/lookup.py [ROWS]`

The first look-up is timed in a fresh interpreter, from just after `import tilewright.cache` to the row in hand (opening the file
and reading included), the median of 15 processes. Warm is the median over 20,000 look-ups of 200 keys that were seen before. For
comparison: keys that were not.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parts.cache_rows import OPTS

FIRST = """
import sys, time
from tilewright import cache
begin = time.perf_counter()
row = cache.lookup(sys.argv[1], cache.Key(sys.argv[2], "llvm:x86_64:znver5:avx2", 2, "llvmlite-0.50"))
print(time.perf_counter() - begin)
assert row is not None
"""


def main(rows: int = 10_000) -> None:
    from tilewright import cache
    from tilewright.cache import Key, Row, lookup

    def key(i: int) -> Key:
        return Key(f"{i % keys:064x}", "llvm:x86_64:znver5:avx2", 2, "llvmlite-0.50")

    keys = max(1, rows // 20)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.db"
        with cache.open(path) as store:
            store.record(
                Row(**{f: getattr(key(i), f) for f in ("kernel", "target", "threads", "compiler")}, name="matmul", shape={"m": i, "n": i, "k": i}, opts=OPTS,
                    opts_display=OPTS, t_med=1e-3 + i * 1e-8, t_min=1e-3, n=30, verified=True, run_id=str(i), provenance={"host": "x" * 200})
                for i in range(rows)
            )  # fmt: skip
        runs = [
            subprocess.run([sys.executable, "-c", FIRST, str(path), key(i).kernel], capture_output=True, text=True, check=True)
            for i in range(15)
        ]
        first = statistics.median(float(r.stdout) for r in runs)

        def timed(wanted: list[Key]) -> float:
            seconds = []
            for k in wanted:
                begin = time.perf_counter()
                lookup(path, k)
                seconds.append(time.perf_counter() - begin)
            return statistics.median(seconds)

        seen = [key(i) for i in range(200)]
        timed(seen)
        warm = timed(seen * 100)
        unseen = timed([key(i) for i in range(200, min(keys, 400))]) if keys > 200 else float("nan")
        print(f"{rows} rows, {keys} keys, {path.stat().st_size / 1e6:.1f} MB")
        print(f"first after import  {first * 1e3:8.2f} ms   (bound 5 ms)")
        print(f"warm                {warm * 1e6:8.2f} us   (bound 20 us)")
        print(f"a key not seen yet  {unseen * 1e6:8.2f} us")
        print(json.dumps({"benchmark": "lookup", "rows": rows, "first_s": first, "warm_s": warm, "unseen_s": unseen}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

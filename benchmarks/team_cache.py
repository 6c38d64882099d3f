"""A team's cache: look-ups from the mirror, pulling 100,000 rows, and eight writers at once. Needs a PostgreSQL server:

    bash scripts/postgresql.sh start /tmp/pg
    TILEWRIGHT_TEST_POSTGRESQL=$(cat /tmp/pg/url) python benchmarks/record.py benchmarks/team_cache.py
    bash scripts/postgresql.sh stop /tmp/pg

Works in a schema of its own, which it removes. `--rows N`, `--writers N` and `--json` (only the JSON lines). Writers are
processes that each commit batches while a reader pulls; at the end the server and the mirror must hold what they said they wrote."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from parts.cache_rows import OPTS

WRITER = """
import json, sys
from tilewright import cache
name, batches, each = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with cache.open(sys.argv[1]) as store:
    store.ensure_writable()
    for i in range(batches):
        rows = [cache.Row(kernel=f"{name}{i}", target="t", threads=2, compiler="c", t_med=1e-3, verified=True, run_id=f"{i}-{j}") for j in range(each)]
        store.team.writer.record(rows)
        with open(sys.argv[5], "a") as f:
            f.write("".join(r.digest + "\\n" for r in rows))
"""


def fill(store: Any, count: int) -> list[Any]:
    """Rows of `count` / 20 keys, as long as real ones, on the server; all of them."""
    from tilewright.cache import Row
    from tilewright.cache.rows import COLUMNS

    keys = max(1, count // 20)
    rows = [
        Row(kernel=f"{i % keys:064x}", target="llvm:x86_64:znver5:avx2", threads=2, compiler="llvmlite-0.50", name="matmul", shape={"m": i, "n": i, "k": i},
            opts=OPTS, opts_display=OPTS, t_med=1e-3 + i * 1e-8, t_min=1e-3, n=30, verified=True, run_id=str(i), provenance={"host": "x" * 200})
        for i in range(count)
    ]  # fmt: skip
    names = ", ".join(f'"{n}"' for n in ("digest", "key_hash", *COLUMNS))
    store.team.writer.prepare()
    with (
        store.team.writer._connected().begin() as c,
        c.connection.cursor() as cursor,
        cursor.copy(f"COPY measurement ({names}) FROM STDIN") as to,
    ):
        for r in rows:
            to.write_row((r.digest, r.key.hash, *r.to_dict().values()))
    return rows


def look_ups(store: Any, rows: list[Any]) -> dict[str, Any]:
    """Seconds of a look-up of a key that was seen before, and of one that was not; medians."""

    def timed(keys: list[Any]) -> float:
        seconds = []
        for k in keys:
            begin = time.perf_counter()
            found = store.best(k)
            seconds.append(time.perf_counter() - begin)
            assert found is not None
        return statistics.median(seconds)

    keys = list(dict.fromkeys(r.key for r in rows[:400]))
    unseen = timed(keys)
    return {"unseen_s": unseen, "warm_s": timed(keys * 50)}


def together(url: str, writers: int, batches: int = 25, each: int = 40) -> dict[str, Any]:
    """Writers at once, and a reader that pulls meanwhile: how many rows were said to be written, and are missing."""
    from tilewright import cache

    begin = time.perf_counter()
    said_in = Path(os.environ["XDG_CACHE_HOME"]) / "written"
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, f"w{n}-", str(batches), str(each), f"{said_in}{n}"]) for n in range(writers)
    ]
    pulls = 0
    with cache.open(url) as store:
        while any(w.poll() is None for w in running):
            store.team.pull()
            pulls += 1
            time.sleep(0.05)
        said = {d for n in range(writers) for d in Path(f"{said_in}{n}").read_text().split()}
        seconds = time.perf_counter() - begin
        failed = sum(w.wait() != 0 for w in running)
        store.team.pull()
        mirrored = {row["digest"] for row in store.team.mirror.reader.table("SELECT digest FROM measurement WHERE kernel LIKE 'w%'")}
        with store.team.writer._connected().connect() as c:
            served = set(c.exec_driver_sql("SELECT digest FROM measurement WHERE kernel LIKE 'w%%'").scalars())
    return {
        "writers": writers,
        "written": len(said),
        "failed": failed,
        "missing_on_server": len(said - served),
        "missing_in_mirror": len(said - mirrored),
        "pulls_meanwhile": pulls,
        "writing_s": seconds,
    }


def main() -> None:
    """Print the figures, and a JSON line of each part."""
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("--rows", type=int, default=100_000)
    p.add_argument("--writers", type=int, default=8)
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    base = os.environ.get("TILEWRIGHT_TEST_POSTGRESQL")
    if not base:
        raise SystemExit("TILEWRIGHT_TEST_POSTGRESQL names no database")
    from tilewright import cache
    from tilewright.cache.server.address import Address
    from tilewright.cache.server.server_writer import ServerWriter

    name = f"tilewright_{uuid.uuid4().hex[:12]}"
    admin = ServerWriter(Address.parse(base))
    admin._ready = True
    admin.execute(f"CREATE SCHEMA {name}")
    url = f"{base}{'&' if '?' in base else '?'}options=-csearch_path%3D{name}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.environ |= {f"XDG_{n}_HOME": str(Path(folder) / n) for n in ("DATA", "CONFIG", "CACHE")}
            with cache.open(url) as store:
                rows = fill(store, args.rows)
                store.team.pull()  # loads what is imported once
                begin = time.perf_counter()
                done = store.team.pull(again=True)
                pulled = {"benchmark": "team_cache", "part": "pull", "rows": done.added, "pull_s": time.perf_counter() - begin}
                begin = time.perf_counter()
                store.team.pull()
                pulled |= {"nothing_new_s": time.perf_counter() - begin, "mirror_bytes": store.team.mirror.path.stat().st_size}
                found = {"benchmark": "team_cache", "part": "look-up", "rows": done.added, **look_ups(store, rows)}
            many = {"benchmark": "team_cache", "part": "writers", **together(url, args.writers)}
    finally:
        admin.execute(f"DROP SCHEMA {name} CASCADE")
        admin.close()
    if not args.json:
        print(f"{pulled['rows']} rows pulled in  {pulled['pull_s']:8.2f} s    (bound 10 s)")
        print(f"nothing new         {1e3 * pulled['nothing_new_s']:8.2f} ms")
        print(f"warm look-up        {1e6 * found['warm_s']:8.2f} us   (bound 20 us)")
        print(f"a key not seen yet  {1e6 * found['unseen_s']:8.2f} us")
        print(
            f"{args.writers} writers: {many['written']} rows, missing on the server {many['missing_on_server']}, in the mirror {many['missing_in_mirror']}"
        )
    for part in (pulled, found, many):
        print(json.dumps(part))


if __name__ == "__main__":
    main()

"""Several writers, and a writer that is killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache, Key, lookup

WRITER = """
import sys
from tilewright import cache
path, name, count, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
store = cache.open(path)
print("ready", flush=True)
sys.stdin.readline()
for i in range(count):
    store.record([cache.Row(kernel="k", target="t", threads=2, compiler="c", name=name, t_med=1e-3, t_min=1e-3, verified=True, run_id=f"{name}-{i}-{j}") for j in range(batch)])
    print(i, flush=True)
"""


def start(path: Path, name: str, count: int, batch: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count), str(batch)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.slow
def test_two_processes_record_into_one_new_file(path: Path) -> None:
    """Both also race to make the tables."""
    writers = [start(path, n, 20, 5) for n in ("a", "b", "c")]
    for w in writers:
        go(w)
    for w in writers:
        w.communicate(timeout=240)
        assert w.returncode == 0
    with cache.open(path) as store:
        rows = store.rows()
    assert {n: sum(r.name == n for r in rows) for n in "abc"} == {"a": 100, "b": 100, "c": 100}


@pytest.mark.slow
def test_a_reader_works_while_another_writes(path: Path) -> None:
    key = Key("k", "t", 2, "c")
    writer = start(path, "w", 30, 10)
    go(writer)
    seen = []
    while writer.poll() is None:
        with cache.open(path) as store:
            seen.append(len(store.rows()))
        lookup(path, key)
    writer.communicate(timeout=240)
    assert writer.returncode == 0
    assert seen == sorted(seen) and all(n % 10 == 0 for n in seen), "a reader sees whole transactions, in order"
    assert lookup(path, key) is not None


@pytest.mark.slow
def test_sigkill_while_writing_loses_no_finished_record(path: Path) -> None:
    for attempt in range(3):
        writer = start(path, f"w{attempt}", 100_000, 50)
        go(writer)
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= 2 + attempt:
                break
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read()
        writer.wait(timeout=240)
        done = max([2 + attempt, *(int(x) for x in rest.split("\n")[:-1])]) + 1
        with cache.open(path) as store:
            n = len(store.rows(name=f"w{attempt}"))
            assert n % 50 == 0, "a transaction is there whole or not at all"
            assert n >= 50 * done, "what record() had returned for is there"
            assert store.record(store.rows()[0]) == 0
    with sqlite3.connect(path) as c:
        assert c.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_threads_share_one_cache(store: Cache, make_row, key: Key) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(i: int) -> bool:
        store.record(make_row(run_id=f"thread{i}"))
        return store.best(key) is not None and len(store.rows()) > 0

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(24)))
    assert len(store.rows()) == 24

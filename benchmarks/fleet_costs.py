"""What a fleet costs, in processor time: the scheduler for each task, message, worker and question, and the client for each row.

    python benchmarks/fleet_costs.py --json results/fleet-costs.json

Processor time of a process is hardly changed by what else runs, so this needs no quiet machine. `fleet_scale.py` reads the result."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROWS = 2000
MESSAGE_ROWS = 12
"""Rows of a batch, which travel in one message."""
FEW, MORE = 2, 6
"""Workers, between which what one more costs is seen."""
HEARTBEAT_S = 0.5
"""Dask's interval for so few workers."""


def spent(pid: int) -> float:
    """Processor seconds of a process so far, all its threads."""
    return sum(int((t / "schedstat").read_text().split()[0]) for t in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def rows(n: int) -> list[Any]:
    """Rows as a search records them."""
    from tilewright.cache import Row

    facts = {
        "machine": {"host": "m", "cpu": "x" * 40, "cores": 16, "driver": "y" * 30},
        "clocks": [1, 2, 3],
        "checks": ["a", "b"],
        "beat": [],
    }
    return [
        Row(
            kernel=f"{i % 50:064x}",
            target="llvm:x86_64:znver5:avx512f+avx512bw+avx2+fma",
            threads=16,
            compiler="llvmlite-0.50.0-llvm20",
            loose_extents="e" * 64,
            loose_epilogue="f" * 64,
            name="matmul",
            shape={"m": 64, "n": 48, "k": 32 + i % 50},
            dtype="float32",
            device="cpu",
            opts=[["UPCAST", "a0", 8], ["UNROLL", "a2", 4], ["PARALLEL", "a0", None], ["TILE", "a1", i + 1]],
            opts_display=[["UPCAST", "m", 8], ["UNROLL", "k", 4], ["PARALLEL", "m", None], ["TILE", "n", i + 1]],
            t_min=1e-5,
            t_med=1.1e-5,
            n=40,
            seed_s=2e-5,
            flops=10**6,
            bytes=10**5,
            roofline_s=5e-6,
            strategy="portfolio",
            effects="REASSOC",
            verified=True,
            source_sha="5" * 64,
            tool_version="0" * 16,
            provenance=facts,
            run_id="r" * 16,
        )
        for i in range(n)
    ]


def of_rows() -> dict[str, float]:
    """What a row costs its reader and writer, and how large it is."""
    from tilewright import cache
    from tilewright.cache import bundles

    made = rows(ROWS)
    lines = [line.encode() + b"\n" for line in bundles.dumps(made)]
    start = time.process_time()
    read = bundles.loads(lines)
    parsed = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder, cache.open(Path(folder) / "c.db") as store:
        store.ensure_writable()
        start = time.process_time()
        for i in range(0, ROWS, 250):
            store.record(read[i : i + 250])
        written = time.process_time() - start
        store.close()
        size = (Path(folder) / "c.db").stat().st_size
    return {
        "row_bytes": sum(map(len, lines)) / ROWS,
        "row_parse_s": parsed / ROWS,
        "row_write_s": written / ROWS,
        "row_stored_bytes": size / ROWS,
    }


def of_dask() -> dict[str, float]:
    """What the scheduler does for tasks, messages, questions and idle workers."""
    from distributed import Client

    settings = {
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
        "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False",
        "DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH": "200",
        "DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__STATUS__TASK_STREAM_LENGTH": "0",
    }
    env = {**os.environ, **settings}
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "s.json")
        quiet: dict[str, Any] = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        base = [sys.executable, "-m", "distributed.cli"]
        scheduler = subprocess.Popen(
            [*base[:2], "distributed.cli.dask_scheduler", "--scheduler-file", file, "--no-dashboard", "--port", "0"], **quiet
        )
        worker = [*base[:2], "distributed.cli.dask_worker", "--scheduler-file", file, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        workers = [subprocess.Popen([*worker, "--local-directory", folder], **quiet) for _ in range(FEW)]
        try:
            with Client(scheduler_file=file, timeout=60) as client:
                client.wait_for_workers(FEW, timeout=60)
                few = _at_rest(client, scheduler.pid)
                out = _at_work(client, scheduler.pid)
                workers += [subprocess.Popen([*worker, "--local-directory", folder], **quiet) for _ in range(MORE - FEW)]
                client.wait_for_workers(MORE, timeout=90)
                more = _at_rest(client, scheduler.pid)
        finally:
            for p in (*workers, scheduler):
                p.kill()  # they keep nothing
                p.wait()
    each = {k: (more[k] - few[k]) / (MORE - FEW) for k in few}
    return {
        **out,
        "heartbeat_s": max(0.0, each["idle_share"] * HEARTBEAT_S),
        "scheduler_idle_share": max(0.0, few["idle_share"] - FEW * each["idle_share"]),
        "identity_worker_s": max(0.0, each["identity_s"]),
        "identity_s": max(0.0, few["identity_s"] - FEW * each["identity_s"]),
        "identity_worker_bytes": each["identity_bytes"],
    }


def _at_rest(client: Any, pid: int) -> dict[str, float]:
    """The scheduler's share of a processor when nothing happens, and its seconds and bytes for saying who is there."""
    import msgpack

    time.sleep(2)
    before = spent(pid)
    time.sleep(10)
    idle = (spent(pid) - before) / 10
    before, n = spent(pid), 500
    for _ in range(n):
        said = client.sync(client.scheduler.identity)
    each = (spent(pid) - before) / n
    return {"idle_share": idle, "identity_s": each, "identity_bytes": float(len(msgpack.packb(said, default=str)))}


def _at_work(client: Any, pid: int) -> dict[str, float]:
    """The scheduler's seconds for a task, and for a message of a batch of rows."""
    before, n = spent(pid), 400
    for _ in range(n):
        client.submit(_nothing, pure=False).result()
    task = (spent(pid) - before) / n

    text = "x" * 1250 * MESSAGE_ROWS
    heard: list[Any] = []
    client.subscribe_topic("cost", heard.append)
    before, n = spent(pid), 1000
    client.submit(_talk, n, text, pure=False).result()
    deadline = time.monotonic() + 60
    while len(heard) < n and time.monotonic() < deadline:
        time.sleep(0.05)
    if len(heard) < n:
        raise SystemExit(f"only {len(heard)} of {n} messages came")
    return {"task_s": task, "message_s": (spent(pid) - before) / n}


def _nothing() -> None:
    """A task that costs nothing where it runs."""


def _talk(n: int, text: str) -> None:
    from distributed import get_worker

    for _ in range(n):
        get_worker().log_event("cost", {"rows": text})
        time.sleep(0.005)  # as from many workers: not all in one packet


def main() -> None:
    """Measure and print, or write."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--json", metavar="FILE", help="where to write it; default: standard output")
    args = p.parse_args()
    found = {"measured": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), **of_rows(), **of_dask()}
    text = json.dumps({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in found.items()}, indent=1) + "\n"
    if args.json:
        Path(args.json).write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()

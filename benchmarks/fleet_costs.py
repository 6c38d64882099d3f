"""What a fleet costs, in processor time: the scheduler for each task, message, worker, question and look whether it is there, and
the client for each row.

    python benchmarks/fleet_costs.py --json results/fleet-costs.json

Processor time of a process is hardly changed by what else runs, so this needs no quiet machine. `fleet_scale.py` reads the result."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

ROWS = 1000
MESSAGE_ROWS = 12
"""Rows of a batch, which travel in one message."""
FEW, MORE = 2, 12
"""Workers, between which what one more costs is seen."""


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
            start_s=2e-5,
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
    bundles.loads(lines[:10])  # what is imported on first use is no row's cost
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


async def of_dask() -> dict[str, float]:
    """What tasks, messages, signs of life and questions cost. Scheduler, workers and client are threads of control of this one process and
    talk over TCP, so a figure holds both ends: the scheduler's own share is less."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.profile.enabled": False, "distributed.scheduler.work-stealing": False})
    given: dict[str, Any] = {"processes": False, "threads_per_worker": 1, "protocol": "tcp", "dashboard_address": None}
    async with (
        LocalCluster(n_workers=FEW, asynchronous=True, **given) as cluster,
        Client(cluster, asynchronous=True) as client,
    ):
        out = {**await _work(client), "heartbeat_s": await _heartbeat(cluster)}
        few = await _who(client)
        cluster.scale(MORE)
        await client.wait_for_workers(MORE, timeout=60)
        more = await _who(client)
    each = {k: (more[k] - few[k]) / (MORE - FEW) for k in few}
    return {
        **out,
        "identity_worker_s": max(0.0, each["seconds"]),
        "identity_s": max(0.0, few["seconds"] - FEW * each["seconds"]),
        "identity_worker_bytes": each["bytes"],
    }


async def of_joining() -> dict[str, float]:
    """What it costs to look over TLS whether the scheduler is there, and to be a worker that joins it and leaves again; both ends, and the
    making of a worker's own parts."""
    from tilewright.fleet import dask_setup as settings
    from tilewright.fleet import scheduler, tls
    from tilewright.fleet.worker import SlotWorker, WorkerOptions, slots

    settings.apply()
    with tempfile.TemporaryDirectory() as folder:
        tls.make(Path(folder))
        secured = {role: tls.security("tls://x", role, Path(folder)) for role in tls.ROLES}
        async with await scheduler.made(scheduler.SchedulerOptions("127.0.0.1", 0, secured["scheduler"])) as hub:
            told = slots(WorkerOptions(hub.address, lock=f"{folder}/lock"))[0]

            async def join() -> None:
                async with SlotWorker(hub.address, slot=told, nthreads=1, security=secured["worker"], local_directory=folder):
                    pass

            out = {}
            for name, act, n in (
                ("reach_s", lambda: scheduler.reach(hub.address, secured["worker"]), 60),
                ("join_s", join, 8),
            ):
                await act()
                start = time.process_time()
                for _ in range(n):
                    await act()
                out[name] = (time.process_time() - start) / n
    return out


async def _heartbeat(cluster: Any) -> float:
    worker = next(iter(cluster.workers.values()))
    start, n = time.process_time(), 200
    for _ in range(n):
        await worker.heartbeat()
    return (time.process_time() - start) / n


async def _who(client: Any) -> dict[str, float]:
    """Seconds and bytes for saying who is there."""
    import msgpack

    start, n = time.process_time(), 60
    for _ in range(n):
        said = await client.scheduler.identity(n_workers=-1)
    return {"seconds": (time.process_time() - start) / n, "bytes": float(len(msgpack.packb(said, default=str)))}


async def _work(client: Any) -> dict[str, float]:
    """Seconds for a task, and for a message of a batch of rows."""
    start, n = time.process_time(), 100
    for _ in range(n):
        await client.submit(_nothing, pure=False)
    task = (time.process_time() - start) / n
    heard: list[Any] = []
    client.subscribe_topic("cost", heard.append)
    start, n = time.process_time(), 300
    await client.submit(_talk, n, "x" * 1200 * MESSAGE_ROWS, pure=False)
    for _ in range(600):
        if len(heard) >= n:
            return {"task_s": task, "message_s": (time.process_time() - start) / n}
        await asyncio.sleep(0.05)
    raise SystemExit(f"only {len(heard)} of {n} messages came")


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
    found = {
        "measured": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        **of_rows(),
        **asyncio.run(of_dask()),
        **asyncio.run(of_joining()),
    }
    text = json.dumps({k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in found.items()}, indent=1) + "\n"
    if args.json:
        Path(args.json).write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()

"""What captured functions cost beside their kernels: a call, a kernel of a replay, a first call without and with what an
earlier process left on disk.

    python benchmarks/record.py benchmarks/tensor_jit.py

`wall` and `cpu` are seconds; of repeated measurements the least. On a machine that does other work, `cpu` is what counts;
helper processes are not in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

KERNELS = 100


def main() -> None:
    """Measure each in a process of its own; one line of JSON."""
    if len(sys.argv) > 1:
        print(json.dumps({"call": call, "replay": replay, "first": first}[sys.argv[1]]()))
        return
    found: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as home:
        found["call_of_4_arguments"] = child("call", home)
        found["replay"] = child("replay", home)
    with tempfile.TemporaryDirectory() as home:
        found[f"first_call_of_{KERNELS}_kernels"] = {
            "cold": child("first", home),
            "warm": min((child("first", home) for _ in range(3)), key=_cpu),
        }
    print(json.dumps(found))


def _cpu(row: dict[str, float]) -> float:
    return row["cpu"]


def child(what: str, home: str) -> dict[str, float]:
    """One measurement in a process whose caches lie in `home`."""
    env = {**os.environ, "XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data", "XDG_STATE_HOME": f"{home}/state"}
    done = subprocess.run([sys.executable, __file__, what], env=env, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, float] = json.loads(done.stdout)
    return row


def least(run: Callable[[], object], repeats: int, calls: int) -> dict[str, float]:
    """Seconds of one call, the least of some bursts."""
    wall = cpu = float("inf")
    for _ in range(repeats):
        w, c = time.perf_counter(), time.process_time()
        for _ in range(calls):
            run()
        wall, cpu = min(wall, (time.perf_counter() - w) / calls), min(cpu, (time.process_time() - c) / calls)
    return {"wall": wall, "cpu": cpu}


def call() -> dict[str, float]:
    """A call with four arguments whose kernel has 16 elements."""
    import numpy as np
    import tilewright as tw

    f = tw.jit(lambda a, b, c, d: a + b + c + d, threads=1)
    args = [tw.Tensor(np.ones(16, np.float32)) for _ in range(4)]
    f(*args)
    return least(lambda: f(*args), 60, 1000)


def replay() -> dict[str, float]:
    """Seconds a kernel of 100 kernels of 16 elements, kernels' own work included: by what 100 take more than one."""
    import numpy as np
    import tilewright as tw

    def kernels(x: Any, count: int) -> Any:
        return [x[i].softmax(-1) for i in range(count)]

    x = tw.Tensor(np.ones((100, 16), np.float32))
    times = {}
    for count in (1, 100):
        f = tw.jit(lambda x, count=count: kernels(x, count), threads=1)
        f(x)
        program = f.programs[0].sequence
        program.run([x.node.data])
        segment = program._segments[0]
        fresh = program.run([x.node.data])
        addresses = [b.address for b in (x.node.data, *fresh)]
        times[count] = least(lambda s=segment, p=program, a=addresses: s.run(p, a, [], []), 60, 200)
    return {k: (times[100][k] - times[1][k]) / 99 for k in ("wall", "cpu")}


def first() -> dict[str, float]:
    """The first call of a function of 100 distinct kernels: capture, partition, look-up, building and one run."""
    import numpy as np
    import tilewright as tw

    def many(xs: list[Any]) -> list[Any]:
        ways: list[Callable[[Any], Any]] = [
            lambda x: (x * 2.0 + 1.0).exp(),
            lambda x: x.softmax(-1),
            lambda x: x @ x.mT,
            lambda x: (x - x.mean(-1, keepdims=True)).tanh(),
            lambda x: x.sum(0),
        ]
        return [ways[i % len(ways)](x) for i, x in enumerate(xs)]

    xs = [tw.Tensor(np.ones((32 + i, 48 + i), np.float32)) for i in range(KERNELS)]
    f = tw.jit(many)
    wall, cpu = time.perf_counter(), time.process_time()
    f(xs)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "kernels": len(f.programs[0].kernels)}


if __name__ == "__main__":
    main()

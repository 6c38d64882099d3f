"""What a fleet of two workers gives and costs, on this machine.

    python benchmarks/fleet.py [--part gain dispatch overhead winners] [--seconds 3] [--entries 8]

`gain`: entries an hour with two slots over one, on the tests' fake device, whose times are scripted, each search with the same seconds.
Building and checking are real work, which two searches share this machine's cores for; the two workers stand for two machines, with a
lock each. `dispatch`: the same for searches that only wait. `overhead`: what sending, reading and writing a row through the fleet costs
a candidate more than writing it here. `winners`: two workers that share this machine's lock tune real kernels; how many of their searches
overlapped, and each winner beside that of a plain run here, in pairs. All is over TLS.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgpack

ROOT = Path(__file__).resolve().parents[1]
FAKE = f"{ROOT / 'tests' / 'fake_device.py'}:FakeDevice"
TUNE = [sys.executable, "-m", "tilewright.cli"]
PARTS = ("gain", "dispatch", "overhead", "winners")
KERNELS = (("matmul", "m=64,n=64,k=64"), ("softmax", "m=64,n=512"), ("add", "m=256,n=256"), ("layernorm", "m=64,n=512"))


@contextlib.contextmanager
def started(words: list[str], env: dict[str, str]) -> Iterator[str]:
    """A command that stays; the first line that it prints."""
    with subprocess.Popen([*TUNE, *words], stdout=subprocess.PIPE, text=True, env=env) as p:
        assert p.stdout is not None
        try:
            yield p.stdout.readline()
        finally:
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=30)


@contextlib.contextmanager
def fleet(workers: int, device: str, folder: Path, shared: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """(URL, environment of clients). `shared`: the workers are on one machine, else each has a lock of its own."""
    env = {**os.environ, "TILEWRIGHT_FLEET_TLS": str(folder / "tls")}
    subprocess.run([*TUNE, "fleet", "certificates"], check=True, env=env, stdout=subprocess.DEVNULL)
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(started(["fleet", "scheduler", "--host", "127.0.0.1", "--port", "0"], env))
        url = said.split()[-1]
        for i in range(workers):
            own = env if shared else {**env, "XDG_STATE_HOME": str(folder / f"state{i}")}
            stack.enter_context(started(["fleet", "worker", url, "--device", device, "--threads", "1", "--name", f"machine{i}"], own))
        yield url, env


def manifest(folder: Path, device: str, entries: list[tuple[str, str]], seconds: float) -> Path:
    """A manifest file of these kernels, each with a budget of its own."""
    lines = ["[targets.here]", f"device = {json.dumps(device)}", "threads = 1", "[defaults]", f'budget = "{seconds}s"']
    for name, shape in entries:
        lines += ["[[kernel]]", f'name = "{name}"', f'shapes = ["{shape}"]']
    path = folder / "tune.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(path: Path, cache: Path, env: dict[str, str], *more: str) -> tuple[float, list[dict[str, Any]]]:
    """(seconds that `tune run` took, its entries)."""
    began = time.monotonic()
    words = [*TUNE, "run", "--manifest", str(path), "--trust", "--cache", str(cache), "--json", "-", "--quiet", *more]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.monotonic() - began, json.loads(done.stdout)["entries"]


def gain(entries: int, seconds: float) -> dict[str, Any]:
    """Entries an hour on one slot and on two."""
    from tilewright.cache import Cache
    from tilewright.fleet.dask_engine import DaskEngine
    from tilewright.fleet.fleet_run import FleetOptions, tune_on_fleet
    from tilewright.fleet.tls import security
    from tilewright.search.manifest.manifest_file import load

    rate = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as t:
            with fleet(workers, FAKE, Path(t), shared=False) as (url, _), Cache.open(Path(t) / "c.db") as cache:
                wanted = load(manifest(Path(t), FAKE, [("matmul", f"m={64 + 8 * i},n=64,k=64") for i in range(entries)], seconds), "all")
                engine = DaskEngine(url, security(url, "client", Path(t) / "tls"))
                began = time.monotonic()
                done = tune_on_fleet(wanted, cache, engine, FleetOptions())
                rate[workers] = 3600 * entries / (time.monotonic() - began)
                engine.close()
            assert [d.status for d in done] == ["tuned"] * entries, done
    return {"entries_an_hour": {str(k): round(v) for k, v in rate.items()}, "gain": round(rate[2] / rate[1], 3)}


def dispatch(entries: int, seconds: float) -> dict[str, Any]:
    """The same for searches that only wait: what the fleet itself costs, whatever else the cores are wanted for. Scheduler, workers and
    client are in this process, and talk over TLS."""
    from distributed.utils import LoopRunner
    from tilewright import named_kernels
    from tilewright.cache import Cache
    from tilewright.fleet import dask_setup as settings
    from tilewright.fleet import engine as jobs
    from tilewright.fleet import scheduler, tls
    from tilewright.fleet.dask_engine import DaskEngine
    from tilewright.fleet.fleet_run import FleetOptions, tune_on_fleet
    from tilewright.fleet.worker import SlotWorker, WorkerOptions, slots
    from tilewright.search.manifest.manifest_file import Entry, Manifest, Place
    from tilewright.search.result import Job, make

    def waits(job: Any, site: Any) -> Any:
        time.sleep(seconds)
        return {"result": make(Job(job["kernel"], job["shape"], "float32", "cpu", 1, "none"), t_min=1e-6, t_med=1e-6, n=1).to_json()}

    mock.patch.object(jobs, "function", lambda kind: waits).start()
    settings.apply()
    place, rate = Place("here", threads=1), {}
    shapes = [{"m": 8 * (i + 1), "n": 8} for i in range(entries)]
    wanted = Manifest(
        "m", (place,), tuple(Entry("add", s, "float32", place, 1, made=named_kernels.make("add", s, "float32")) for s in shapes)
    )
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as t, Cache.open(Path(t) / "c.db") as cache:
            tls.make(Path(t))
            secured = {role: tls.security("tls://x", role, Path(t)) for role in tls.ROLES}
            loop = LoopRunner()
            loop.start()

            async def begin(t: str = t, secured: Any = secured, workers: int = workers) -> list[Any]:
                hub = await scheduler.made(scheduler.SchedulerOptions("127.0.0.1", 0, secured["scheduler"]))
                told = [slots(WorkerOptions(hub.address, lock=f"{t}/{i}"))[0] for i in range(workers)]
                more = {"nthreads": 1, "security": secured["worker"], "resources": {"timing": 1}, "local_directory": t}
                return [await SlotWorker(hub.address, slot=s, **more) for s in told] + [hub]

            servers = loop.run_sync(begin)
            engine = DaskEngine(servers[-1].address, secured["client"])
            began = time.monotonic()
            done = tune_on_fleet(wanted, cache, engine, FleetOptions())
            rate[workers] = 3600 * entries / (time.monotonic() - began)
            engine.close()
            for server in servers:
                loop.run_sync(server.close)
            loop.stop()
            assert [d.status for d in done] == ["tuned"] * entries, done
    return {"entries_an_hour": {str(k): round(v) for k, v in rate.items()}, "gain": round(rate[2] / rate[1], 3)}


def overhead(rows: int = 400) -> dict[str, Any]:
    """Milliseconds a candidate: what the worker does with a row beside timing, what the client does with it, and a write here."""
    from tilewright.cache import Cache, Key, Row
    from tilewright.fleet.entry_job import StreamedCache, rows_of

    made = [
        Row(kernel="k", target="t", threads=1, compiler="c", name="matmul", shape={"m": 64}, dtype="float32", device="cpu",
            opts=[["UPCAST", "a1", 8], ["UPCAST", "a2", i % 60 + 1]], opts_display=[["UPCAST", "n", 8]], t_min=1e-4, t_med=1e-4, n=9,
            tool_version="0" * 16, provenance={"machine": {"host": "h", "cpu": "a processor"}, "seed": i}, run_id="r")
        for i in range(rows)
    ]  # fmt: skip
    sent: list[str] = []

    class Sink:
        device, threads, stopped = "cpu", 1, False

        def send(self, message: Any) -> None:
            msgpack.dumps({"message": json.dumps(message)})  # as the site and Dask do
            sent.append(message["rows"])

    with tempfile.TemporaryDirectory() as t:
        stream = StreamedCache(Path(t) / "s.db", Sink())

        def each(act: Any, over: list[Any]) -> float:
            began = time.perf_counter()
            for x in over:
                act(x)
            return 1e3 * (time.perf_counter() - began) / len(over)

        worker = statistics.median(each(stream.record, made) for _ in range(3))
        key = Key("k", "t", 1, "c")
        client = statistics.median(each(lambda text: rows_of(text, key, "there"), sent[:rows]) for _ in range(3))
        with Cache.open(Path(t) / "c.db") as here:
            here.ensure_writable()
            write = each(here.record, [made[i : i + 10] for i in range(0, rows, 10)]) / 10
    return {"worker_ms": round(worker, 3), "client_ms": round(client, 3), "written_here_ms": round(write, 3)}


def winners(seconds: float) -> dict[str, Any]:
    """The winners of two and of four workers beside those of a plain run, and those of a second plain run beside them: two searches of
    one kernel differ by themselves. Overlaps of the workers' searches."""
    with tempfile.TemporaryDirectory() as t:
        path = manifest(Path(t), "cpu", list(KERNELS), seconds)
        _, plain = run(path, Path(t) / "plain.db", dict(os.environ))
        _, second = run(path, Path(t) / "second.db", dict(os.environ))
        found: dict[str, Any] = {"second plain run": {"ratios": beside(plain, second)}}
        for workers in (2, 4):
            cache = Path(t) / f"fleet{workers}.db"
            with fleet(workers, "cpu", Path(t) / str(workers), shared=True) as (url, env):
                _, fleeted = run(path, cache, env, "--fleet", url)
            found[f"{workers} workers"] = {"overlaps": overlaps(cache), "ratios": beside(plain, fleeted)}
        return found


def overlaps(cache: Path) -> int:
    """How many pairs of searches measured at the same time, by when their rows were made."""
    from tilewright.cache import Cache

    spans: dict[str, list[str]] = {}
    with Cache.open(cache) as c:
        for r in c.rows():
            spans.setdefault(r.run_id, []).append(r.when)
    ordered = sorted((min(w), max(w)) for w in spans.values())
    assert len(ordered) == len(KERNELS), ordered
    return sum(b[0] < a[1] for a, b in itertools.pairwise(ordered))


def beside(plain: list[dict[str, Any]], fleeted: list[dict[str, Any]]) -> dict[str, Any]:
    """Time of the fleet's winner over that of the plain run's, in pairs, with half its confidence interval."""
    from tilewright import named_kernels
    from tilewright.ir.normal_form import normalise
    from tilewright.measure import Measurement, Measurer
    from tilewright.opts import parse

    out = {}
    for a, b in zip(plain, fleeted):
        assert (a["status"], b["status"]) == ("tuned", "tuned"), (a, b)
        kernel = normalise(named_kernels.make(a["kernel"], a["shape"], a["dtype"]))
        lists = [parse(x["result"]["opts"]) for x in (b, a)]
        if lists[0] == lists[1]:
            out[a["kernel"]] = {"ratio": 1.0, "noise": 0.0, "same": True}
            continue
        with Measurer(kernel, "cpu", 1) as m:
            built = dict(m.build(lists))
            assert not any(isinstance(x, Measurement) for x in built.values())
            duel = m.duel(built[0], built[1], rounds=12)
        out[a["kernel"]] = {"ratio": round(duel.ratio, 3), "noise": round(duel.noise, 3), "same": False}
    return out


def main() -> None:
    """Run the parts that were asked for and print what was found."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    p.add_argument("--seconds", type=float, default=3.0, help="of each search")
    p.add_argument("--entries", type=int, default=8, help="of the fake device")
    args = p.parse_args()
    for part in args.part:
        two = {"gain": gain, "dispatch": dispatch}
        found = two[part](args.entries, args.seconds) if part in two else overhead() if part == "overhead" else winners(args.seconds)
        print(json.dumps({"part": part, **found}), flush=True)


if __name__ == "__main__":
    main()

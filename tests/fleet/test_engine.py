"""The engine on Dask, with TLS: a scheduler and workers in this process, so that nothing has to start."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed")
from distributed import Worker
from distributed.utils import LoopRunner
from tilewright.fleet import dask_engine as site
from tilewright.fleet import dask_setup as settings
from tilewright.fleet import engine as jobs
from tilewright.fleet import scheduler, tls
from tilewright.fleet.dask_engine import DaskEngine
from tilewright.fleet.dask_setup import id_of, key_of, title_of
from tilewright.fleet.engine import FleetJob, FleetSlot, JobFailed, SlotLost, Worksite
from tilewright.fleet.worker import SlotWorker, WorkerOptions, slots
from tilewright.ir.errors import FleetError

pytestmark = pytest.mark.slow


class Fleet:
    """A scheduler and its workers on a thread's loop."""

    def __init__(self, folder: Path) -> None:
        tls.make(folder / "tls")
        self.folder, self.loop, self.workers = folder, LoopRunner(), []  # type: ignore[var-annotated]
        settings.apply()
        self.loop.start()
        self.url = self.loop.run_sync(self._begin)

    def security(self, role: tls.Role) -> Any:
        return tls.security(self.url if hasattr(self, "url") else "tls://x", role, self.folder / "tls")

    async def _begin(self) -> str:
        self.scheduler = await scheduler.made(scheduler.SchedulerOptions("127.0.0.1", 0, self.security("scheduler")))
        return str(self.scheduler.address)

    def join(self, kind: type[Worker] = SlotWorker, **given: Any) -> str:
        async def begin() -> str:
            options = WorkerOptions(self.url, build=1, lock=str(self.folder / "lock"))
            if kind is SlotWorker:
                given.setdefault("slot", slots(options)[given.pop("which", 0)])
                given["resources"] = {"timing": given["slot"]["width"], "build": given["slot"]["build"]}
            w = await kind(self.url, nthreads=1, security=self.security("worker"), local_directory=str(self.folder), **given)
            self.workers.append(w)
            return str(w.address)

        return str(self.loop.run_sync(begin))

    def leave(self, address: str) -> None:
        (w,) = (w for w in self.workers if w.address == address)
        self.workers.remove(w)
        self.loop.run_sync(w.close)

    def kill(self, address: str) -> None:
        """End a worker as a signal would: its connection breaks without a word."""
        (w,) = (w for w in self.workers if w.address == address)

        async def cut() -> None:
            w.batched_stream.comm.abort()

        self.loop.run_sync(cut)
        self.leave(address)

    def close(self) -> None:
        for w in list(self.workers):
            self.loop.run_sync(w.close)
        self.loop.run_sync(self.scheduler.close)
        self.loop.stop()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"))
    made.join()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def engine(fleet: Fleet) -> Iterator[DaskEngine]:
    made = DaskEngine(fleet.url, fleet.security("client"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], None]:
    """Puts a function in place of every kind's."""
    return lambda act: monkeypatch.setattr(jobs, "function", lambda kind: act)


def timing(engine: DaskEngine) -> FleetSlot:
    return next(s for s in engine.slots() if s.width)


def test_a_slot_is_what_its_worker_says(engine: DaskEngine) -> None:
    from tilewright import devices

    slot, cpu = timing(engine), devices.get("cpu")
    assert slot.device is not None and not slot.refused and slot.width == 1
    assert (slot.device.target, slot.device.compiler, slot.device.threads) == (cpu.target.key, cpu.compiler_id(), cpu.threads)
    assert slot.name == slot.device.slot_name


def test_messages_come_in_order_before_the_result(engine: DaskEngine, acts: Callable[..., None]) -> None:
    def act(payload: Mapping[str, Any], where: Worksite) -> Any:
        for i in range(payload["n"]):
            where.send({"i": i})
        return [where.device, payload["n"]]

    acts(act)
    runs = [engine.submit(timing(engine), FleetJob("batch", {"n": n}, f"matmul m={n}")) for n in (40, 3)]
    assert [r.result(240) for r in runs] == [["cpu", 40], ["cpu", 3]]
    assert [[m["i"] for m in r.messages()] for r in runs] == [[*range(40)], [*range(3)]]


def test_an_error_arrives_with_its_class(engine: DaskEngine, acts: Callable[..., None]) -> None:
    def act(payload: Mapping[str, Any], where: Worksite) -> Any:
        raise ArithmeticError("no such number")

    acts(act)
    with pytest.raises(JobFailed, match="no such number") as e:
        engine.submit(timing(engine), FleetJob("batch", {})).result(240)
    assert e.value.kind == "ArithmeticError"


def test_a_job_ends_when_it_is_asked_to_or_nobody_wants_it(fleet: Fleet, engine: DaskEngine, acts: Callable[..., None]) -> None:
    begun, ended = threading.Semaphore(0), threading.Semaphore(0)

    def act(payload: Mapping[str, Any], where: Worksite) -> Any:
        begun.release()
        while not where.stopped:
            threading.Event().wait(0.005)
        ended.release()
        return "so far"

    acts(act)
    running = engine.submit(timing(engine), FleetJob("entry", {}, "matmul m=64"))
    assert begun.acquire(timeout=240) and timing(engine).running == ("matmul m=64",)
    running.stop()
    assert running.result(240) == "so far" and ended.acquire(timeout=240)
    gone = DaskEngine(fleet.url, fleet.security("client"))
    left = gone.submit(timing(gone), FleetJob("entry", {}))
    assert begun.acquire(timeout=240)
    gone.close()
    assert ended.acquire(timeout=240)  # the worker heard that its client left
    with pytest.raises(FleetError, match="left the fleet"):
        left.result(240)


def test_a_worker_that_leaves_loses_its_jobs_and_nothing_waits(fleet: Fleet, engine: DaskEngine, acts: Callable[..., None]) -> None:
    begun = threading.Event()

    def act(payload: Mapping[str, Any], where: Worksite) -> Any:
        begun.set()
        while not where.stopped:
            threading.Event().wait(0.005)

    acts(act)
    address = fleet.join(slot={**slots(WorkerOptions(fleet.url, lock=str(fleet.folder / "another")))[0], "host": "leaving"})
    slot = next(s for s in engine.slots() if s.address == address)
    at_work, behind = (engine.submit(slot, FleetJob("batch", {"n": n})) for n in (1, 2))
    assert begun.wait(240)
    fleet.leave(address)
    for running in (at_work, behind):
        with pytest.raises(SlotLost, match="leaving"):
            running.result(240)
    loss = engine.lost.get(timeout=240)
    # the one at work may have said that it leaves before it was gone
    assert loss.slot == slot and {behind.job.id} <= {j.id for j in loss.jobs} <= {at_work.job.id, behind.job.id}
    with pytest.raises(SlotLost):
        engine.submit(slot, FleetJob("batch", {})).result(240)
    assert address not in {s.address for s in engine.slots()}


def test_status_says_what_was_lost_and_how_often(
    fleet: Fleet, engine: DaskEngine, acts: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    begun = threading.Semaphore(0)

    def act(payload: Mapping[str, Any], where: Worksite) -> Any:
        begun.release()
        while not where.stopped:
            threading.Event().wait(0.005)

    acts(act)
    told = {**slots(WorkerOptions(fleet.url, lock=str(fleet.folder / "fragile")))[0], "host": "fragile"}
    for ending in ("kill", "kill", "leave"):
        address = fleet.join(slot=told, name="fragile cpu 7.0")
        running = engine.submit(next(s for s in engine.slots() if s.address == address), FleetJob("batch", {}, "matmul m=8"))
        assert begun.acquire(timeout=240)
        fleet.kill(address) if ending == "kill" else fleet.leave(address)
        with pytest.raises(SlotLost):
            running.result(240)
    came_back = fleet.join(slot=told, name="fragile cpu 7.0")
    try:
        engine.slots()
        seen = [(g.how, g.spec, g.jobs, g.back) for g in engine.gone() if g.worker == "fragile cpu 7.0"]
        assert seen == [(how, "cpu", ("matmul m=8",), True) for how in ("died", "died", "left")]
        said = status(fleet, capsys, "--format", "json")
        assert json.loads(said)["times_lost"]["matmul m=8"] == 3 and json.loads(said)["lost"][-1]["host"] == "fragile"
        assert all(words in status(fleet, capsys, "--wide") for words in ("matmul m=8 (lost 3 times)", " died ", " was ended ", " back "))
    finally:
        fleet.leave(came_back)


def status(fleet: Fleet, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What `tune fleet status` prints."""
    from tilewright.cli import main

    assert main(["fleet", "status", fleet.url, "--tls", str(fleet.folder / "tls"), *words]) == 0
    return capsys.readouterr().out


def test_what_cannot_run_there_is_refused_at_once(fleet: Fleet, engine: DaskEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    address = fleet.join(which=1)
    try:
        builder = next(s for s in engine.slots() if s.address == address)
        assert (builder.width, builder.build, builder.device) == (0, 1, None)
        with pytest.raises(FleetError, match="no place for jobs"):
            engine.submit(builder, FleetJob("batch", {})).result(5)
    finally:
        fleet.leave(address)
    with pytest.raises(FleetError, match="no jobs of the kind"):
        engine.submit(timing(engine), replace(FleetJob("batch", {}), kind="dance"))  # type: ignore[arg-type]
    monkeypatch.setitem(engine._versions, "tool", "f" * 16)
    slot = timing(engine)
    assert "f" * 16 in slot.refused and slot.device is not None and slot.device.tool in slot.refused
    with pytest.raises(FleetError, match="install the same versions"):
        engine.submit(slot, FleetJob("batch", {})).result(5)
    with pytest.raises(FleetError, match="refuses the job"):  # the worker looks for itself
        engine.submit(replace(slot, refused=""), FleetJob("batch", {})).result(240)


def test_other_workers_are_no_slots(fleet: Fleet, engine: DaskEngine) -> None:
    before = engine.slots()
    address = fleet.join(Worker)
    try:
        assert engine.slots() == before and engine.strangers == 1
    finally:
        fleet.leave(address)


def test_timed_jobs_of_one_machine_never_overlap(fleet: Fleet, engine: DaskEngine, acts: Callable[..., None]) -> None:
    """Two workers here stand for two processes of one machine, which share its lock."""
    inside, most, guard = 0, 0, threading.Lock()

    def act(payload: Mapping[str, Any], where: Worksite) -> Any:
        nonlocal inside, most
        with guard:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.01)
        with guard:
            inside -= 1

    acts(act)
    address = fleet.join()
    try:
        there = [s for s in engine.slots() if s.width]
        assert len(there) == 2
        for running in [engine.submit(s, FleetJob("batch", {})) for s in there for _ in range(4)]:
            running.result(240)
        assert most == 1
    finally:
        fleet.leave(address)


def test_a_stranger_can_neither_connect_nor_read(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "CONNECT_S", 0.5)
    with pytest.raises(FleetError, match=r"no scheduler answers|do not trust"):
        DaskEngine(fleet.url.replace("tls://", "tcp://"))
    tls.make(tmp_path / "other")  # an authority of their own
    with pytest.raises(FleetError, match=r"no scheduler answers|do not trust"):
        DaskEngine(fleet.url, tls.security(fleet.url, "client", tmp_path / "other"))
    host, port = fleet.url.partition("://")[2].split(":")
    for certificate in (None, tmp_path / "other"):
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # who listens in does not ask who answers
        if certificate is not None:
            context.load_cert_chain(certificate / "client.pem", certificate / "client-key.pem")
        with pytest.raises(OSError), socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain) as s:
            s.settimeout(10)
            assert s.recv(1) == b""  # not one byte of Dask's greeting
            raise ConnectionError("closed without a word")


def test_nobody_serves_pages(fleet: Fleet, engine: DaskEngine) -> None:
    """Dask's HTTP servers know nothing of certificates, and would tell strangers what runs."""
    import http.client

    for server in (fleet.scheduler.http_server, fleet.workers[0].http_server):
        assert server.address == "127.0.0.1"
        for page in ("/health", "/info/main/workers.html", "/json/counts.json", "/metrics", "/"):
            asked = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
            asked.request("GET", page)
            assert asked.getresponse().status == 404, page
            asked.close()


def test_certificates_that_will_not_do_are_named(fleet: Fleet, tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="tune fleet certificates"):
        tls.security("tls://x:1", "client", tmp_path)
    shutil.copytree(fleet.folder / "tls", tmp_path / "tls")
    (tmp_path / "tls/client-key.pem").chmod(0o644)
    with pytest.raises(FleetError, match="chmod 600"):
        tls.security("tls://x:1", "client", tmp_path / "tls")
    with pytest.raises(FleetError, match="no address of a fleet"):
        tls.security("host:8786", "client", tmp_path)
    for url in ("tcp://host", "tcp://host:99999", "tls://host:port"):
        with pytest.raises(FleetError, match="no address of a fleet"):
            tls.security(url, "client", tmp_path)
    with pytest.raises(FleetError, match=r"copy .* into that folder; --insecure does without"):
        tls.security("tls://all", "scheduler", tmp_path / "none")
    assert tls.security("tcp://x:1", "client", tmp_path) is None
    before = (tmp_path / "tls/ca.pem").read_bytes()
    assert {p.name for p in tls.make(tmp_path / "tls")} == {n for r in tls.ROLES for n in tls.files(r)[1:]}
    assert (tmp_path / "tls/ca.pem").read_bytes() == before
    assert (tmp_path / "tls/client-key.pem").stat().st_mode & 0o077 == 0


def test_tasks_are_grouped_by_kernel_in_the_dashboard() -> None:
    from distributed.utils import key_split

    titles = {"matmul m=64,n=64 float32 for ci": "matmul", "matmul: 12 candidates": "matmul", "dir/my-own.py:make for ci": "my_own.py:make"}
    for title, group in titles.items():
        key = key_of(job := FleetJob("entry", {}, title))
        assert (key_split(key), title_of(key), id_of(key)) == (group, title, job.id)
    assert id_of("sum-1f2e") == ""  # of a program that uses the same scheduler


def test_a_job_that_is_over_hears_no_stop() -> None:
    site.stop("nobody")


def test_a_worker_has_the_environment_of_its_command() -> None:
    """Dask would give NumPy one thread there, where the references are computed."""
    from distributed.nanny import _get_env_variables

    settings.apply()
    assert _get_env_variables("distributed.nanny.pre-spawn-environ") == {}


def test_status_lists_the_slots(fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.loads(status(fleet, capsys, "--format", "json"))
    assert [(s["width"], s["device"]["spec"], s["refused"]) for s in said["slots"]] == [(1, "cpu", "")] and said["other_workers"] == 0
    text = status(fleet, capsys)
    assert said["slots"][0]["name"] in text and "1 machine, 1 slot, 0 busy" in text
    monkeypatch.setenv("COLUMNS", "70")
    assert "--wide shows all" in status(fleet, capsys) and said["slots"][0]["device"]["target"] in status(fleet, capsys, "--wide")

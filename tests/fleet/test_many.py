"""A manifest on a fleet of scripted slots: what runs where, what a lost worker costs, and what is believed."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache, named_kernels
from tilewright.cache import Cache, CacheWarning, Key, Row
from tilewright.cache import store as spill
from tilewright.cache.server.server_errors import Unreachable
from tilewright.fleet.engine import FleetJob, FleetSlot, Running, SlotDevice, Worksite
from tilewright.fleet.entry_job import Reports, bundle
from tilewright.fleet.fleet_run import ClientWriter, FleetOptions, tune_on_fleet
from tilewright.ir.errors import FleetError
from tilewright.search.manifest.manifest_file import Entry, Manifest, Place
from tilewright.search.manifest.tune_all import Done
from tilewright.search.result import Job, make

from tests.support.local_fleet import Died, LocalEngine

TARGET = "llvm:x86_64:znver5:avx2"
ZEN, OTHER = Place("zen", "cpu", TARGET, 1), Place("other", "cpu", "llvm:x86_64:*+avx512*", 1)


def slots(n: int, target: str = TARGET) -> list[FleetSlot]:
    device = SlotDevice("cpu", target, "llvmlite-1", 4, "0" * 16)
    return [FleetSlot(device.slot_name, f"{target}:{i}", device, host="there") for i in range(n)]


def entry(n: int, place: Place = ZEN, **more: Any) -> Entry:
    return Entry("add", {"m": n, "n": 8}, "float32", place, n, made=named_kernels.make("add", {"m": n, "n": 8}, "float32"), **more)


def manifest(*entries: Entry) -> Manifest:
    return Manifest("tune.toml", tuple(dict.fromkeys(e.place for e in entries)), entries)


def row(job: Mapping[str, Any], run: str, **fields: Any) -> Row:
    """A measurement of a job's kernel."""
    given: dict[str, Any] = {
        "kernel": job["hash"], "target": TARGET, "threads": job["threads"], "compiler": "llvmlite-1", "name": "add", "shape": job["shape"],
        "dtype": "float32", "device": "cpu", "opts": [], "opts_display": [], "t_min": 1e-6, "t_med": 1e-6, "n": 9, "tool_version": "0" * 16, "run_id": run,
    }  # fmt: skip
    return Row(**(given | fields))


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    made = make(Job(job["kernel"], job["shape"], "float32", "cpu", job["threads"], "portfolio"), t_min=1e-6, t_med=1e-6, n=9)
    return {"result": made.to_json()}


@pytest.fixture
def tuned(tmp_path: Path) -> Callable[..., tuple[list[Done], Cache]]:
    """Runs a manifest on slots with a function for its jobs."""

    def run(
        act: Callable[[Mapping[str, Any], Worksite], Any], there: list[FleetSlot], *entries: Entry, **more: Any
    ) -> tuple[list[Done], Cache]:
        engine = LocalEngine(there, {"entry": act}, revive=more.pop("revive", True))
        store = cache.open(tmp_path / "c.db")
        try:
            return tune_on_fleet(manifest(*entries), store, engine, FleetOptions(**more)), store
        finally:
            engine.close()

    return run


def test_entries_of_two_slots_run_side_by_side_and_all_are_written(tuned: Callable[..., Any]) -> None:
    meet = threading.Barrier(2, timeout=240)  # breaks where the two are not at work at once

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        meet.wait()
        site.send({"phase": "searching"})
        site.send({"rows": bundle([row(job, "r1"), row(job, "r2", outcome="wrong", t_min=None, t_med=None)])})
        return answer(job)

    done, store = tuned(act, slots(2), entry(1), entry(2), entry(3), entry(4))
    assert [d.status for d in done] == ["tuned"] * 4 and [d.entry.line for d in done] == [1, 2, 3, 4]
    assert len(store.rows()) == 8


def test_a_lost_entry_is_sent_once_more_with_what_arrived(tuned: Callable[..., Any]) -> None:
    sent: list[str] = []

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        sent.append(job["rows"])
        if len(sent) == 1:
            site.send({"rows": bundle([row(job, "first")])})
            raise Died
        return answer(job)

    done, store = tuned(act, slots(1), entry(1))
    assert [d.status for d in done] == ["tuned"]
    assert len(sent) == 2 and "first" not in sent[0] and "first" in sent[1]
    assert [r.run_id for r in store.rows()] == ["first"]


def test_an_entry_that_loses_two_workers_failed_and_the_next_is_not_blamed(tuned: Callable[..., Any]) -> None:
    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        if job["shape"]["m"] == 1:
            raise Died
        return answer(job)

    done, _ = tuned(act, slots(1), entry(1), entry(2))
    assert [d.status for d in done] == ["failed", "tuned"] and "lost 2 times" in done[0].message


def test_a_scheduler_that_is_lost_blames_no_entry(tmp_path: Path) -> None:
    sent: list[str] = []

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        sent.append(job["rows"])
        if len(sent) > 3:
            return answer(job)
        site.send({"rows": bundle([row(job, f"run{len(sent)}")])})
        engine.cut()

    engine = LocalEngine(slots(1), {"entry": act})
    try:
        with cache.open(tmp_path / "c.db") as store:
            done = tune_on_fleet(manifest(entry(1)), store, engine, FleetOptions())
    finally:
        engine.close()
    assert [d.status for d in done] == ["tuned"], done[0].message
    assert len(sent) == 4 and all(f"run{n}" in sent[3] for n in (1, 2, 3))


def test_an_entry_is_sent_whatever_becomes_of_the_cache(tuned: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is sent again begins from what arrived, though it is written nowhere yet."""
    sent: list[str] = []

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        sent.append(job["rows"])
        if len(sent) == 1:
            monkeypatch.setattr(Cache, "rows", away)
            monkeypatch.setattr(Cache, "record", away)
            site.send({"rows": bundle([row(job, "first")])})
            raise Died
        return answer(job)

    with pytest.warns(CacheWarning):
        done, _ = tuned(act, slots(1), entry(1))
    assert [d.status for d in done] == ["tuned"], done[0].message
    assert "first" in sent[1]


def test_rows_for_a_server_that_is_away_are_in_a_bundle_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is killed meanwhile has lost none; when the server is there again, they are in it and in no bundle."""
    rows = [row({"hash": "k", "threads": 1, "shape": {"m": 1}}, f"r{i}") for i in range(3)]
    now = [0.0]
    with cache.open(tmp_path / "c.db") as store:
        writer = ClientWriter(store, lambda: now[0])
        with monkeypatch.context() as m, pytest.warns(CacheWarning, match="wait in a bundle"):
            m.setattr(store, "record", away)
            for r in rows[:2]:
                now[0] += 10
                writer.add([r])
                writer.write()
        assert sum(len(p.read_text().splitlines()) - 1 for p in tmp_path.glob("*.jsonl")) == 2
        writer.add(rows[2:])
        now[0] += 10
        writer.write()
        assert {r.run_id for r in store.rows()} == {"r0", "r1", "r2"} and not list(tmp_path.glob("*.jsonl"))
        assert writer.close() == ""


def test_a_bundle_that_no_run_finds_is_said_to_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "_bundle_names", lambda location, path: [])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a folder"))
    with cache.open(tmp_path / "c.db") as store:
        writer = ClientWriter(store)
        monkeypatch.setattr(store, "record", away)
        writer.add([row({"hash": "k", "threads": 1, "shape": {"m": 1}}, "r")])
        with pytest.warns(CacheWarning):
            said = writer.close()
    (kept,) = (tmp_path / "a folder").glob("*.jsonl")
    assert f"take them in with `tune cache import '{kept}'`" in said and "next run" not in said


def test_an_interrupt_of_the_last_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*rows: object, **how: object) -> int:
        raise KeyboardInterrupt

    with cache.open(tmp_path / "c.db") as store:
        writer = ClientWriter(store)
        writer.add([row({"hash": "k", "threads": 1, "shape": {"m": 1}}, "r")])
        with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
            m.setattr(store, "record", interrupted)
            writer.close()
        assert [len(p.read_text().splitlines()) - 1 for p in tmp_path.glob("*.jsonl")] == [1]


def away(*rows: object, **how: object) -> int:
    """What records where the server does not answer."""
    raise Unreachable("the server is away")


def test_a_slot_that_does_not_come_back_is_not_waited_for_in_silence(tuned: Callable[..., Any]) -> None:
    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        raise Died

    done, _ = tuned(act, slots(1), entry(1), revive=False, wait_s=0.0)
    assert [d.status for d in done] == ["failed"] and "did not come back" in done[0].message


def test_an_entry_without_a_slot_is_elsewhere_at_once(tuned: Callable[..., Any]) -> None:
    done, _ = tuned(lambda job, site: answer(job), slots(1), entry(1), entry(2, OTHER))
    assert [d.status for d in done] == ["tuned", "elsewhere"]
    assert "avx512" in done[1].message and TARGET in done[1].message


def test_host_must_mean_one_kind_of_machine(tuned: Callable[..., Any]) -> None:
    anywhere = Place("host")
    both = slots(1) + slots(1, "llvm:x86_64:znver4:avx2")
    done, _ = tuned(lambda job, site: answer(job), both, entry(1, anywhere))
    assert done[0].status == "failed" and "name one in the manifest" in done[0].message
    done, _ = tuned(lambda job, site: answer(job), slots(2), entry(1, anywhere))
    assert done[0].status == "tuned"


@pytest.mark.parametrize(
    "message, why",
    [
        ({"rows": "no bundle"}, "rows that are none"),
        ({"rows": 5}, "rows that are none"),
        ([1], "a form that this version does not know"),
        ("other", "a row of another key"),
    ],
    ids=str,
)
def test_what_a_worker_sends_is_read_strictly(message: Any, why: str, tuned: Callable[..., Any]) -> None:
    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        site.send({"rows": bundle([row(job, "r", target="llvm:x86_64:znver4:avx2")])} if message == "other" else message)
        return answer(job)

    done, store = tuned(act, slots(1), entry(1))
    assert done[0].status == "failed" and why in done[0].message
    assert store.rows() == []


def test_a_result_with_other_fields_is_refused(tuned: Callable[..., Any]) -> None:
    done, _ = tuned(lambda job, site: {"result": {"opts": []}}, slots(1), entry(1))
    assert done[0].status == "failed" and "is missing" in done[0].message


def test_an_error_of_a_search_fails_its_entry_only(tuned: Callable[..., Any]) -> None:
    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        if job["shape"]["m"] == 1:
            raise ValueError("not for this kernel")
        return answer(job)

    done, _ = tuned(act, slots(1), entry(1), entry(2))
    assert [(d.status, d.message) for d in done] == [("failed", "not for this kernel"), ("tuned", "")]


def test_the_budget_is_split_by_turns(tuned: Callable[..., Any]) -> None:
    """Two slots take four entries in two turns: each gets half of the wall time, and the last ones what is left."""
    shares: dict[int, Any] = {}
    guard = threading.Lock()

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        with guard:
            shares[job["shape"]["m"]] = job["seconds"]
        return answer(job)

    tuned(act, slots(2), *(entry(n) for n in (1, 2, 3)), entry(4, budget=5.0), seconds=60.0, clock=lambda: 100.0)
    assert shares == {1: 30.0, 2: 30.0, 3: 60.0, 4: 5.0}
    shares.clear()
    tuned(act, slots(1), entry(1), entry(2, trials=7))
    assert shares == {1: 30.0, 2: None}


def test_ctrl_c_ends_searches_and_keeps_what_they_found(tmp_path: Path) -> None:
    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        reports = Reports(site)
        site.send({"rows": bundle([row(job, "kept")])})
        try:
            while True:
                reports.phase("searching")
                threading.Event().wait(0.002)
        except KeyboardInterrupt:
            return {"interrupted": True}

    def show(under_way: Any, overall: Any) -> None:
        if any(u.counts for u in under_way) and not struck:
            struck.append(1)
            raise KeyboardInterrupt

    struck: list[int] = []
    engine, store = LocalEngine(slots(1), {"entry": act}), cache.open(tmp_path / "c.db")
    try:
        done = tune_on_fleet(manifest(entry(1), entry(2)), store, engine, FleetOptions(), show)
    finally:
        engine.close()
    assert [d.status for d in done] == ["interrupted", "left"] and [r.run_id for r in store.rows()] == ["kept"]


def test_a_key_is_that_of_the_slots_device() -> None:
    from tilewright.fleet.entry_job import key_of

    (there,) = slots(1)
    assert key_of(entry(1), there) == Key(key_of(entry(1), there).kernel, TARGET, 1, "llvmlite-1")
    assert key_of(entry(1, Place("zen", "cpu", TARGET)), there).threads == 4


def test_a_scheduler_that_goes_away_ends_the_run_with_what_arrived(tmp_path: Path) -> None:
    class Leaving(LocalEngine):
        def slots(self) -> list[FleetSlot]:
            if gone.is_set():
                raise FleetError("the scheduler does not answer any more")
            return super().slots()

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        site.send({"rows": bundle([row(job, "kept")])})
        gone.set()
        while not site.stopped:
            threading.Event().wait(0.002)

    gone = threading.Event()
    engine, store = Leaving(slots(1), {"entry": act}), cache.open(tmp_path / "c.db")
    try:
        done = tune_on_fleet(manifest(entry(1), entry(2)), store, engine, FleetOptions())
    finally:
        engine.close()
    assert [(d.status, "any more" in d.message) for d in done] == [("failed", True)] * 2 and [r.run_id for r in store.rows()] == ["kept"]


def test_slots_of_one_machine_take_turns_and_share_the_budget_so(tuned: Callable[..., Any]) -> None:
    """A processor's timing excludes its machine's GPU: the two are not sent at once, and neither waits at the other's expense."""
    cpu = replace(slots(1)[0], machine="m")
    gpu = FleetSlot("g", "gpu", SlotDevice("cuda", "cuda:sm_90", "nvrtc", 1, "0" * 16), machine="m", alone=False)
    at_work, shares = [0, 0], []
    guard = threading.Lock()

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        with guard:
            at_work[0] += 1
            at_work[1] = max(at_work)
            shares.append(job["seconds"])
        threading.Event().wait(0.02)
        with guard:
            at_work[0] -= 1
        return answer(job)

    on_gpu = Place("gpu", "cuda", "cuda:sm_90", 1)
    done, _ = tuned(act, [cpu, gpu], entry(1), entry(2, on_gpu), seconds=60.0, clock=lambda: 100.0)
    assert [d.status for d in done] == ["tuned"] * 2 and at_work == [0, 1] and shares == [30.0, 60.0]


def test_a_slot_that_was_just_seen_at_work_for_us_is_free_when_it_is_done(tmp_path: Path) -> None:
    sent: list[str] = []

    class Late(LocalEngine):
        def submit(self, slot: FleetSlot, job: FleetJob) -> Running:
            sent.append(job.id)
            return super().submit(slot, job)

        def slots(self) -> list[FleetSlot]:
            return [replace(s, jobs=tuple(sent[-1:]), running=(entry(1).title,)) for s in super().slots()]

    engine, store = Late(slots(1), {"entry": lambda job, site: answer(job)}), cache.open(tmp_path / "c.db")
    try:
        done = tune_on_fleet(manifest(entry(1), entry(2)), store, engine, FleetOptions())
    finally:
        engine.close()
    assert [d.status for d in done] == ["tuned", "tuned"]


def test_two_clients_with_one_manifest_leave_each_others_jobs_alone(tmp_path: Path) -> None:
    """Their jobs have the same titles. The second is stopped in the middle; the first gets all that it asked for."""
    begun, left, interrupted = threading.Semaphore(0), threading.Event(), []

    def act(job: Mapping[str, Any], site: Worksite) -> Any:
        reports = Reports(site)
        begun.release()
        try:
            while not left.wait(0.002):
                reports.phase("searching")
        except KeyboardInterrupt:
            interrupted.append(1)
            return {"interrupted": True}
        return answer(job)

    def client(name: str, show: Any = lambda *_: None) -> None:
        found[name] = tune_on_fleet(manifest(entry(1), entry(2)), cache.open(tmp_path / f"{name}.db"), engine, FleetOptions(), show)

    def strike(under_way: Any, overall: Any) -> None:
        if under_way and not struck and begun.acquire(timeout=240):
            struck.append(1)
            raise KeyboardInterrupt

    struck: list[int] = []
    engine, found = Shared(slots(3), {"entry": act}), dict[str, list[Done]]()
    first = threading.Thread(target=client, args=("first",))
    first.start()
    try:
        assert begun.acquire(timeout=240) and begun.acquire(timeout=240)
        client("second", strike)
    finally:
        left.set()
        first.join(30)
        engine.close()
    assert [d.status for d in found["second"]] == ["interrupted", "left"] and interrupted == [1]
    assert [d.status for d in found["first"]] == ["tuned", "tuned"]
    assert engine.behind == 0, "no slot that another client uses is taken for an idle one"


class Shared(LocalEngine):
    """An engine of several clients. `behind`: jobs that were sent to a slot that was at work."""

    behind = 0

    def submit(self, slot: FleetSlot, job: FleetJob) -> Running:
        self.behind += any(s.address == slot.address and s.jobs for s in super().slots())
        return super().submit(slot, job)

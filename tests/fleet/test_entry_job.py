"""An entry's job: the whole search on a device whose times follow a script, for a client that writes; and what comes back is what was sent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache, named_kernels
from tilewright.fleet import entry_job
from tilewright.fleet import entry_job as entries
from tilewright.fleet.engine import FleetJob, FleetSlot, JobFailed
from tilewright.fleet.fleet_run import FleetOptions, tune_on_fleet
from tilewright.fleet.worker import described
from tilewright.ir.errors import FleetError, UsageError
from tilewright.opts import parse
from tilewright.search.manifest.manifest_file import Entry, Manifest, Place
from tilewright.search.result import Job, Result, make

from tests.support.local_fleet import LocalEngine

SPEC = f"{Path(__file__).parents[1] / 'fake_device.py'}:FakeDevice"
PLACE = Place("fake", SPEC, threads=1)
FILE = """
from tilewright.ir import KernelBuilder, float32
def make(n=64):
    kb = KernelBuilder("twice")
    i = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    kb.store("y", float32, (n,), (i,), x[i] * 2.0)
    return kb.build()
"""


def slot() -> FleetSlot:
    device = described(SPEC)
    return FleetSlot(device.slot_name, "there", device)


def add(n: int) -> Entry:
    return Entry("add", {"m": n, "n": 8}, "float32", PLACE, 1, trials=4, made=named_kernels.make("add", {"m": n, "n": 8}, "float32"))


@pytest.mark.slow
def test_an_entry_is_tuned_there_and_written_here_and_cached_the_next_time(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    mine = f"{file}:make"
    own = Entry(mine, {"n": 96}, "", PLACE, 2, trials=2, made=named_kernels.make(mine, {"n": 96}))
    engine = LocalEngine([slot()])
    try:
        with cache.open(tmp_path / "c.db") as store:
            wanted = Manifest("tune.toml", (PLACE,), (own,))
            (done,) = tune_on_fleet(wanted, store, engine, FleetOptions())
            assert done.status == "tuned" and done.result is not None, done.message
            best, known = store.best(entry_job.key_of(own, slot())), len(store.rows())
            assert best is not None and best.verified and best.t_min == done.result.t_min and known > 1
            assert done.result.kernel == mine and mine in done.result.reproduce
            (again,) = tune_on_fleet(wanted, store, engine, FleetOptions())
            assert again.status == "cached" and len(store.rows()) == known, again.message
    finally:
        engine.close()


@pytest.mark.parametrize(
    "change, why",
    [
        ({"hash": "0" * 64}, "another kernel here"),
        ({"kernel": "nonsense"}, "nonsense"),
        ({"file": {"path": "a.py", "name": "../a.py", "text": "", "sha256": "0"}, "kernel": "a.py:make"}, "did not arrive whole"),
        ({"rows": "x"}, "the client's rows"),
    ],
    ids=["hash", "name", "file", "rows"],
)
def test_a_job_that_is_not_what_it_says_fails_before_anything_is_measured(change: dict[str, Any], why: str, tmp_path: Path) -> None:
    engine = LocalEngine([replace(slot(), address="x")])
    try:
        with cache.open(tmp_path / "c.db") as store:
            terms = entry_job.EntryTerms(None, 2, True, None, False)
            payload = {**entry_job.payload(add(8), slot(), terms, store), **change}
        running = engine.submit(engine.slots()[0], FleetJob("entry", payload))
        with pytest.raises(JobFailed, match=why):
            running.result(240)
    finally:
        engine.close()


def test_an_entry_for_another_objective_than_the_time_stays_where_it_is(tmp_path: Path) -> None:
    with cache.open(tmp_path / "c.db") as store, pytest.raises(UsageError, match="for energy cannot travel: a fleet tunes for the time"):
        entry_job.payload(replace(add(8), objective="energy"), slot(), entry_job.EntryTerms(1.0, 1, True, None, False), store)


def test_a_search_is_interrupted_once() -> None:
    class Stopped:
        device, threads, stopped = "cpu", 1, True

        def __init__(self) -> None:
            self.sent: list[Any] = []

        def send(self, message: Any) -> None:
            self.sent.append(message)

    site = Stopped()
    reports = entries.Reports(site)
    with pytest.raises(KeyboardInterrupt):
        reports.phase("searching")
    reports.phase("deciding")  # what it found is still to be decided
    assert site.sent == [{"phase": "searching"}, {"phase": "deciding"}]


SHAPE = {"m": 8, "n": 8}
ENTRY = Entry("add", SHAPE, "float32", Place("here"), 1, made=named_kernels.make("add", SHAPE, "float32"))
WIDE = parse("Un8")
POINT = {"t_min": 1e-6, "opts": [o.json for o in WIDE]}
FULL = {
    "t_min": 1e-6, "t_med": 2e-6, "n": 9, "opts": WIDE, "start_opts": (), "counts": {"ok": 3}, "failures": {"wrong": "an element"}, "gain": 1.5,
    "history": ({"seconds": 1.0, "trials": 2, **POINT},), "front": ({**POINT, "joules": 1e-9, "scratch": 64, "confirmed": True},),
    "energy": {"joules": 1e-9, "watts": 3.0}, "scratch": 64, "source_sha": "a" * 16,
}  # fmt: skip


def sent(result: Result) -> Result:
    return entry_job.result_of(json.loads(json.dumps(result.to_json())), ENTRY)


@pytest.mark.parametrize("known", [{}, {"t_min": 1e-6, "t_med": 1e-6, "n": 1}, FULL], ids=["nothing found", "a time", "every field"])
def test_a_result_that_travelled_is_the_same_and_can_be_written_again(known: dict[str, object]) -> None:
    first = make(Job("add", SHAPE, "float32", "cpu", 1, "portfolio", objective="time,scratch"), **known)
    assert sent(first) == first and sent(sent(first)).to_json() == first.to_json()


def test_a_result_that_cannot_be_read_is_an_error_of_the_fleet() -> None:
    data = make(Job("add", SHAPE, "float32", "cpu", 1, "portfolio")).to_json()
    for broken in ([], data | {"opts": [["NO", 1]]}, {k: v for k, v in data.items() if k != "front"}):
        with pytest.raises(FleetError, match="a worker sent a result"):
            entry_job.result_of(broken, ENTRY)

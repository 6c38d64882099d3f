"""Tuning a whole manifest: what each entry gets of the budget, what is skipped, and what ends a run. The search itself is scripted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache
from tilewright.cache import Cache
from tilewright.ir.errors import DeviceError, KernelError, UsageError
from tilewright.search import Silent
from tilewright.search.manifest.manifest_file import Entry, Manifest, load
from tilewright.search.manifest.tune_all import Done, Overall, tune_all
from tilewright.search.result import Job, Result, make


class Script:
    """Stands in for `search.tune`: entries by number (k=1, 2, …). `takes`: seconds of a search; `known`: what the
    cache has, `minute`: what more search is expected to gain that; `fate`: what happens instead."""

    def __init__(self) -> None:
        self.now = 100.0
        self.takes: dict[int, float] = {}
        self.known: set[int] = set()
        self.minute: dict[int, float] = {}
        self.fate: dict[int, Any] = {}
        self.calls: list[tuple[int, dict[str, Any]]] = []

    def __call__(self, kernel: str, shape: Any, dtype: Any, device: Any, budget: Any = None, **more: Any) -> Result:
        n = shape["k"]
        result = make(
            Job(kernel, shape, getattr(dtype, "name", dtype) or "", device.name, more["threads"], "portfolio"),
            t_min=1e-3 * n,
            t_med=1e-3 * n,
            n=1,
        )
        self.calls.append((n, {"budget": budget, **more}))
        self.now += min(self.takes.get(n, 1e9), budget.seconds if budget.seconds is not None else 1.0)
        fate = self.fate.get(n)
        if isinstance(fate, Result):
            return fate
        if fate is not None:
            raise fate
        return result

    def cached(
        self, kernel: str, shape: Any, dtype: Any, device: Any, threads: int, cache: Cache, asked: Any, objective: str, allow: Any
    ) -> Result | None:
        """Stands in for `search.api.cached`."""
        job = Job(kernel, shape, getattr(dtype, "name", dtype) or "", device.name, threads, "")
        return make(job, t_min=1e-3 * shape["k"], n=1, minute=self.minute.get(shape["k"])) if shape["k"] in self.known else None

    @property
    def shares(self) -> list[tuple[int, float]]:
        return [(n, more["budget"].seconds) for n, more in self.calls]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    s = Script()
    monkeypatch.setattr("tilewright.search.api.tune", s)
    monkeypatch.setattr("tilewright.search.api.cached", s.cached)
    return s


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Cache]:
    with cache.open(tmp_path / "cache.db") as c:
        yield c


def manifest(tmp_path: Path, n: int = 4, more: str = "", head: str = "") -> Manifest:
    shapes = ", ".join(f'"m=8,n=8,k={i + 1}"' for i in range(n))
    (tmp_path / "k.toml").write_text(f'{head}\n[[kernel]]\nname = "matmul"\nshapes = [{shapes}]\n{more}')
    return load(tmp_path / "k.toml")


def go(m: Manifest, store: Cache, script: Script, told: Callable[[Done, Overall], None] = lambda d, o: None, **more: Any) -> list[Done]:
    def show(entry: Entry, share: float | None, trials: int | None, overall: Overall) -> Any:
        return contextlib.nullcontext(Silent())

    return tune_all(m, store, show=show, told=told, clock=lambda: script.now, **more)


def test_equal_shares_of_what_is_left_and_unused_time_flows_on(tmp_path: Path, store: Cache, script: Script) -> None:
    script.takes = {1: 1.0}
    done = go(manifest(tmp_path), store, script, seconds=40)
    assert [d.status for d in done] == ["tuned"] * 4
    assert script.shares == [(1, 10.0), (2, 13.0), (3, 13.0), (4, 13.0)]


def test_targets_of_one_name_keep_their_threads(tmp_path: Path, store: Cache, script: Script) -> None:
    found = manifest(tmp_path)
    entries = tuple(replace(e, place=replace(e.place, threads=1 + i % 2)) for i, e in enumerate(found.entries))
    go(replace(found, entries=entries), store, script, seconds=40)
    assert [more["threads"] for _, more in script.calls] == [1, 2, 1, 2]


def test_what_is_cached_costs_nothing(tmp_path: Path, store: Cache, script: Script) -> None:
    script.known = {1, 3}
    heard: list[tuple[str, str]] = []
    done = go(manifest(tmp_path), store, script, seconds=40, told=lambda d, o: heard.append((d.status, o.line())))
    assert [d.status for d in done] == ["cached", "tuned", "cached", "tuned"] and script.shares == [(2, 20.0), (4, 20.0)]
    assert done[0].result is not None and done[0].result.t_min == 1e-3
    assert heard == [
        ("cached", "1/4, 1 cached, 0:40 left"),
        ("cached", "2/4, 2 cached, 0:40 left"),
        ("tuned", "3/4, 2 cached, 1 tuned, 0:20 left"),
        ("tuned", "4/4, 2 cached, 2 tuned, 0:00 left"),
    ]


def test_again_tunes_the_cached_ones_too(tmp_path: Path, store: Cache, script: Script) -> None:
    script.known = {1, 2}
    go(manifest(tmp_path, 2), store, script, seconds=10, again=True)
    assert script.shares == [(1, 5.0), (2, 5.0)] and all(more["retune"] for _, more in script.calls)


def test_what_is_cached_goes_on_where_that_pays(tmp_path: Path, store: Cache, script: Script) -> None:
    script.known, script.minute = {1, 2, 3}, {1: 0.1, 3: 0.001}
    done = go(manifest(tmp_path), store, script, seconds=100, further=True)
    assert [n for n, _ in script.shares] == [4, 1] and [more["retune"] for _, more in script.calls] == [False, True]
    assert [d.status for d in done] == ["tuned", "cached", "cached", "tuned"]
    for limits in ({"seconds": 100}, {"trials": 3, "further": True}, {"further": True}):
        script.calls.clear()
        go(manifest(tmp_path, 3), store, script, **limits)
        assert not script.calls, limits


def test_an_entry_that_is_given_trials_does_not_go_on(tmp_path: Path, store: Cache, script: Script) -> None:
    script.takes, script.known, script.minute = {1: 1.0, 2: 1.0}, {2}, {2: 1.0}
    script.fate[1] = make(Job("matmul", {"k": 1}, "float32", "cpu", 1, "portfolio"), t_min=1e-3, n=1, minute=1.0)
    go(manifest(tmp_path, 2, "trials = 3\n"), store, script, seconds=200, further=True)
    assert [n for n, _ in script.calls] == [1]


def test_an_entry_may_have_a_limit_and_its_own_way(tmp_path: Path, store: Cache, script: Script) -> None:
    m = manifest(
        tmp_path,
        2,
        'budget = "2s"\ntrials = 9\nstrategy = "beam"\nstart = "none"\nrandom-seed = 4\n[[kernel]]\nname = "matmul"\nshapes = ["m=9,n=9,k=3"]\n',
    )
    go(m, store, script, seconds=30)
    assert script.shares == [(1, 2.0), (2, 2.0), (3, 26.0)]
    first = script.calls[0][1]
    assert (first["budget"].trials, first["strategy"], first["start"], first["random_seed"]) == (9, "beam", "none", 4)
    script.calls.clear()
    go(m, store, script, seconds=30, trials=3, strategy="random")
    assert {(more["budget"].trials, more["strategy"]) for _, more in script.calls} == {(3, "random")}


def test_without_a_budget_each_has_its_own(tmp_path: Path, store: Cache, script: Script) -> None:
    go(manifest(tmp_path, 2), store, script)
    assert script.shares == [(1, 30.0), (2, 30.0)]
    script.calls.clear()
    go(manifest(tmp_path, 2), store, script, trials=5)
    assert [more["budget"].seconds for _, more in script.calls] == [None, None]


def test_what_a_spent_budget_has_no_room_for_is_left(tmp_path: Path, store: Cache, script: Script) -> None:
    """The first gets a second, and what then goes beyond the budget is not begun."""
    done = go(manifest(tmp_path, 3), store, script, seconds=0.3)
    assert script.shares == [(1, 1.0)] and [d.status for d in done] == ["tuned", "left", "left"]


def test_failures_do_not_end_the_run(tmp_path: Path, store: Cache, script: Script) -> None:
    nothing = make(Job("matmul", {}, "", "cpu", 1, "beam"), exit_code=4, message="all crashed")
    script.fate = {1: KernelError("too odd"), 2: nothing}
    done = go(manifest(tmp_path, 3), store, script, seconds=9)
    assert [(d.status, d.message) for d in done] == [("failed", "too odd"), ("failed", "all crashed"), ("tuned", "")]


@pytest.mark.parametrize("with_answer", [True, False])
def test_an_interrupt_keeps_what_is_done_and_leaves_the_rest(tmp_path: Path, store: Cache, script: Script, with_answer: bool) -> None:
    found = make(Job("matmul", {}, "", "cpu", 1, "beam"), t_min=1.0 if with_answer else None, exit_code=130)
    script.fate = {2: found if with_answer else KeyboardInterrupt()}
    script.known = {4}
    done = go(manifest(tmp_path, 4), store, script, seconds=9)
    assert [d.status for d in done] == ["tuned", "interrupted", "left", "cached"]
    assert (done[1].result is found) == with_answer


def test_an_interrupt_between_entries(tmp_path: Path, store: Cache, script: Script) -> None:
    def told(done: Done, overall: Overall) -> None:
        if done.status == "tuned":
            raise KeyboardInterrupt

    done = go(manifest(tmp_path, 3), store, script, told, seconds=9)
    assert [d.status for d in done] == ["tuned", "left", "left"]


def test_targets_that_are_elsewhere(tmp_path: Path, store: Cache, script: Script) -> None:
    head = '[targets.here]\nthreads = 3\n[targets.far]\ntarget = "llvm:x86_64:other:*"\n[targets.old]\ncompiler = "llvmlite-0.1"\n[targets.gone]\ndevice = "nvidia"\n'
    done = go(manifest(tmp_path, 1, head=head), store, script, seconds=9)
    assert [d.status for d in done] == ["tuned", "elsewhere", "elsewhere", "elsewhere"]
    assert script.calls[0][1]["threads"] == 3 and script.shares == [(1, 9.0)]
    assert (
        "not llvm:x86_64:other:*" in done[1].message
        and "not llvmlite-0.1" in done[2].message
        and "unknown device 'nvidia'" in done[3].message
    )


def test_bad_strategies_are_found_first(tmp_path: Path, store: Cache, script: Script) -> None:
    with pytest.raises(UsageError, match="did you mean 'beam'"):
        go(manifest(tmp_path), store, script, strategy="beem")
    assert not script.calls


def test_a_device_that_cannot_be_used_is_elsewhere(tmp_path: Path, store: Cache, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise DeviceError("no driver; install one")

    monkeypatch.setattr("tilewright.devices.cpu.device.CpuDevice.check", broken)
    assert [(d.status, d.message) for d in go(manifest(tmp_path, 1), store, script)] == [("elsewhere", "no driver; install one")]

"""When a cached answer will do, and what a search that goes on takes from the ones before it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import tilewright
import tilewright.cache as caches
from tilewright.cache.rows import PINNED
from tilewright.files.strict import canon
from tilewright.measure.outcome import Measurement, Outcome
from tilewright.opts import opt
from tilewright.search import Budget, tune
from tilewright.search.budget import GLANCE
from tilewright.search.warm_start import EarlierMeasurements, SearchEffort, next_minute

SHAPE = {"m": 32, "n": 32, "k": 32}
A, B, C = (opt("UPCAST", "m", 8),), (opt("UPCAST", "m", 4),), (opt("UPCAST", "m", 2),)


@pytest.mark.parametrize(
    ("effort", "budget", "covered"),
    [
        (SearchEffort(20, 100), Budget(20.0), True),
        (SearchEffort(19.5, 100), Budget(20.0), True),
        (SearchEffort(20, 100), Budget(60.0), False),
        (SearchEffort(2, 1), Budget(None, 1), True),
        (SearchEffort(2, 1), Budget(None, 2), False),
        (SearchEffort(2, 1), Budget(1.0, 100), True),  # either limit would have ended it
        (SearchEffort(1, 5, complete=True), Budget(3600.0), True),
        (SearchEffort(1, 5, patience=3), Budget(60.0, patience=2), True),
        (SearchEffort(1, 5, patience=3), Budget(60.0, patience=4), False),
        (SearchEffort(0.5, 1), GLANCE, False),
        (SearchEffort(0.5, 20), GLANCE, True),
        (SearchEffort(30, 3), GLANCE, True),
        (SearchEffort(5, 50, interrupted=True), None, False),
        (SearchEffort(5, 1), None, True),
    ],
)
def test_what_a_search_covers(effort: SearchEffort, budget: Budget | None, covered: bool) -> None:
    assert effort.covers(budget) == covered


def test_what_an_answer_says_of_more_search() -> None:
    row = caches.Row(kernel="k", target="t", threads=1, compiler="c")
    for effort, expected in (
        (SearchEffort(9, 9, minute=0.25), 0.25),
        (SearchEffort(1, 2), 1.0),
        (SearchEffort(9, 9, complete=True, minute=0.25), None),
    ):
        said = dataclasses.replace(row, provenance=canon({"effort": effort.json}))
        assert next_minute(said) == expected
        assert next_minute(dataclasses.replace(row, provenance=canon({"effort": effort.json, PINNED: True}))) is None
    assert next_minute(row) is None, "it says nothing"


def test_searches_add_up() -> None:
    both = SearchEffort(10, 40, interrupted=True).then(SearchEffort(5, 30, patience=2))
    assert both == SearchEffort(15, 70, patience=2)
    assert (
        str(both) == "70 candidates in 15 s of search"
        and str(SearchEffort(2, 1, interrupted=True)) == "1 candidate in 2 s of search, interrupted"
    )


def m(opts: Any, t: float | None, outcome: Outcome = Outcome.ok) -> Measurement:
    return Measurement(opts, outcome, t, t, 3 if t else 0)


def test_failures_and_slow_ones_are_not_measured_again_near_ones_are() -> None:
    known = EarlierMeasurements({A: m(A, 1.0), B: m(B, 1.1), C: m(C, 2.0), (): m((), None, Outcome.wrong)})
    assert [known.settled(o) is not None for o in (A, B, C, ())] == [False, False, True, True]
    assert known.settled((opt("UPCAST", "m", 16),)) is None


def test_old_times_are_told_at_todays_speed() -> None:
    known = EarlierMeasurements({A: m(A, 1.0), B: m(B, 1.5), C: m(C, 2.0)})
    assert [(x.opts, x.t_min) for x in known.today({A: m(A, 3.0)})] == [(B, 4.5), (C, 6.0)]


def run(location: Path, **more: Any) -> Any:
    return tune("matmul", SHAPE, "float32", threads=1, cache=location, **more)


@pytest.mark.slow
def test_a_search_of_one_trial_is_no_answer_for_ever(tmp_path: Path) -> None:
    location = tmp_path / "c.db"
    first = run(location, trials=1)
    assert first.origin == "tuned" and sum(first.counts.values()) == 1
    again = run(location, trials=1)
    assert again.origin == "cached" and "after 1 candidate in" in again.message
    more = run(location, trials=25)
    assert more.origin == "tuned" and more.earlier == 1
    assert run(location, trials=25).origin == "cached"
    assert run(location).origin == "cached", "whoever names no budget is content with a search"
    with caches.open(location) as c:
        told = [SearchEffort.of(r) for r in c.rows(verified=True) if not r.provisional]
    assert [e.candidates for e in told if e] == [1, 26]


@pytest.mark.alone
@pytest.mark.slow
def test_what_failed_or_was_slow_is_not_measured_twice(tmp_path: Path) -> None:
    location = tmp_path / "c.db"
    run(location, trials=25, strategy="random")
    run(location, trials=50, strategy="random")
    with caches.open(location) as c:
        rows = [r for r in c.rows(verified=False) if r.strategy not in ("start", "stored", "again", "confirm")]
    fastest = min(r.t_min for r in rows if r.t_min)
    counted: dict[str, int] = {}
    for r in rows:
        counted[r.opts] = counted.get(r.opts, 0) + 1
    slow = {r.opts for r in rows if r.t_min and r.t_min > 2 * fastest}
    assert slow and all(counted[o] == 1 for o in slow)


@pytest.mark.slow
def test_an_imported_answer_is_checked_and_timed_here(tmp_path: Path) -> None:
    there, here = tmp_path / "there.db", tmp_path / "here.db"
    won = run(there, trials=20)
    with caches.open(there) as c:
        c.export(tmp_path / "b.jsonl", best_only=True)
    with caches.open(here) as c:
        c.import_(tmp_path / "b.jsonl")
    required = run(here, mode="require")
    assert required.standing == "unverified" and "unverified here" in required.message and required.opts == won.opts
    assert tilewright.best("matmul", SHAPE, "float32", threads=1, cache=here).standing == "unverified"
    checked = run(here, trials=20)
    assert checked.origin == "tuned" and sum(checked.counts.values()) < 20, "only beside the start schedules"
    assert run(here, trials=20).origin == "cached"
    assert tilewright.best("matmul", SHAPE, "float32", threads=1, cache=here).standing == "verified"


@pytest.mark.slow
def test_an_imported_lie_is_found_out(tmp_path: Path) -> None:
    """A row with a tiny time answers nobody once the kernel was tuned here, and a tuned one keeps its place beside it."""
    here = tmp_path / "here.db"
    tuned = run(here, trials=8)
    with caches.open(here) as c:
        [row] = [r for r in c.rows(verified=True) if not r.provisional]
        lie = dataclasses.replace(row, opts="[]", opts_display="[]", t_min=1e-9, t_med=1e-9)
        caches.bundles.write([lie], tmp_path / "lie.jsonl")
        c.import_(tmp_path / "lie.jsonl")
    assert run(here, mode="require").opts == tuned.opts
    retuned = run(here, trials=8, retune=True)
    assert retuned.opts and run(here, mode="require").opts == retuned.opts


@pytest.mark.slow
def test_a_fast_row_whose_options_are_illegal_hides_nothing(tmp_path: Path) -> None:
    location = tmp_path / "c.db"
    tuned = run(location, trials=8)
    with caches.open(location) as c:
        [row] = [r for r in c.rows(verified=True) if not r.provisional]
        illegal = '[["TILE","a9",4]]'
        c.record(dataclasses.replace(row, opts=illegal, t_min=1e-9, t_med=1e-9, run_id="x"))
        stale = dataclasses.replace(
            row, opts="[]", opts_display="[]", t_min=1e-9, t_med=1e-9, tool_version="0" * 16, source_sha="0" * 64, run_id="y"
        )
        c.record(stale)
    with pytest.warns(caches.CacheWarning, match="options do not apply any more"):
        again = run(location, trials=8)
    assert again.origin == "cached" and again.opts == tuned.opts

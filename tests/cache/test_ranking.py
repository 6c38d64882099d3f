"""Which row answers a look-up: what failed since, who measured it, who won side by side, and only then the time."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache, Key, Standing
from tilewright.cache.file_check import CacheWarning
from tilewright.cache.ranking import FAILED, answers, standing
from tilewright.cache.rows import PINNED
from tilewright.files.strict import canon

A, B = [["UPCAST", "a1", 8]], [["UPCAST", "a1", 4]]


def at(second: int) -> str:
    return f"2025-01-01T00:00:{second:02}.000000+00:00"


def test_a_newer_measurement_of_the_same_schedule_supersedes_the_older(make_row) -> None:
    fast, slow, other = make_row(t_med=1e-6, when=at(1)), make_row(t_med=1e-3, when=at(2)), make_row(t_med=5e-4, opts=B, when=at(1))
    assert answers([fast, slow, other]) == [other, slow]
    candidate = make_row(t_med=1e-3, verified=False, when=at(2))
    assert answers([fast, other, candidate]) == [other, fast], "a candidate's time counts as well, its row answers nothing"


@pytest.mark.parametrize("outcome", sorted(FAILED))
def test_a_schedule_that_failed_since_answers_nothing_until_it_was_right_again(make_row, outcome: str) -> None:
    good, bad = make_row(when=at(1)), make_row(outcome=outcome, t_med=None, t_min=None, verified=False, when=at(2))
    assert answers([bad, good]) == []
    again = make_row(when=at(3), verified=False)
    assert answers([good, bad, again]) == [good]


def test_a_pinned_schedule_that_failed_since_is_not_dropped_silently(make_row) -> None:
    good, fast = make_row(when=at(1), provenance={PINNED: True}), make_row(opts=B, t_med=1e-6, when=at(1))
    assert answers([fast, good]) == [good, fast]
    bad = make_row(outcome="wrong", t_med=None, t_min=None, verified=False, when=at(2))
    with pytest.warns(CacheWarning, match=r"pinned for matmul k=64,m=64,n=64 failed since \(wrong, .*let go of it with `tune unpin`"):
        assert answers([fast, good, bad]) == [fast]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert answers([fast, good, bad], elsewhere=True) == [fast], "what others pinned is theirs"


def test_what_was_measured_elsewhere_comes_last_however_fast(make_row) -> None:
    ours = make_row(t_med=1e-3, provenance={"confirmed": True, "machine": {"host": os.uname().nodename}})
    once = make_row(t_med=1e-4, opts=B, provenance={"confirmed": False})
    imported = make_row(t_med=1e-6, opts=[["UPCAST", "a1", 2]]).marked(imported=True)
    other_host = make_row(t_med=1e-7, opts=[], provenance={"confirmed": True, "machine": {"host": "a machine that is not this one"}})
    assert answers([imported, other_host, once, ours]) == [ours, once, other_host, imported]
    assert [standing(r) for r in (ours, once, other_host, imported)] == ["verified", "unconfirmed", "unverified", "unverified"]
    assert standing(ours, elsewhere=True) is Standing.unverified


def test_an_imported_failure_says_nothing_of_what_was_measured_here(make_row) -> None:
    ours = make_row(when=at(1))
    theirs = make_row(outcome="wrong", t_med=None, t_min=None, verified=False, when=at(2)).marked(imported=True)
    assert answers([ours, theirs]) == [ours]


def test_who_lost_side_by_side_comes_after_who_won(make_row) -> None:
    loser = make_row(t_med=1e-4, when=at(1))
    winner = make_row(t_med=2e-4, opts=B, when=at(2), provenance={"beat": [canon(A)]})
    assert answers([loser, winner]) == [winner, loser]
    later = make_row(t_med=1e-4, when=at(3))
    assert answers([loser, winner, later]) == [later, winner], "until it wins again"
    assert answers([loser, winner.marked(imported=True)])[0] == loser, "what a row from elsewhere says of ours does not count"


def test_an_imported_row_never_hides_the_tuned_one(store: Cache, make_row, key: Key, tmp_path: Path) -> None:
    store.record(make_row(t_med=1e-3))
    with cache.open(tmp_path / "other.db") as other:
        other.record(make_row(t_med=1e-9, opts=B))
        other.export(tmp_path / "b.jsonl")
    store.import_(tmp_path / "b.jsonl")
    best = store.best(key)
    assert best is not None and best.t_med == 1e-3 and store.standing(best) is Standing.unconfirmed
    second = store.answers(key)[1]
    assert second.t_med == 1e-9 and store.standing(second) is Standing.unverified


def test_rows_of_a_lower_layer_are_from_elsewhere(tmp_path: Path, make_row, key: Key) -> None:
    from tilewright.cache.layers import Layers

    below = tmp_path / "below.db"
    with cache.open(below) as filled:
        filled.record(make_row(provenance={"confirmed": True}))
    with Cache(Layers(str(tmp_path / "top.db"), (below,))) as store:
        row = store.best(key)
        assert row is not None and store.standing(row) is Standing.unverified
        store.record(make_row(provenance={"confirmed": True}))
        row = store.best(key)
        assert row is not None and store.standing(row) is Standing.verified


def test_a_bundle_that_was_made_here_is_known_here(store: Cache, make_row, key: Key, tmp_path: Path) -> None:
    store.record(make_row())
    store.export(tmp_path / "b.jsonl")
    assert store.import_(tmp_path / "b.jsonl") == (0, 1)
    assert len(store.rows()) == 1

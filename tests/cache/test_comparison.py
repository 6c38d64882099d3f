"""Caches compared, merged, and pruned of what nobody would miss."""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache
from tilewright.cache.comparison import compare, hold, merge
from tilewright.cache.pruning import BEST, PruneRules, compact, plan
from tilewright.cache.ranking import answers
from tilewright.ir.errors import CacheError

from .conftest import MakeRow

NOW = "present"


def opts(n: int) -> list[list[object]]:
    return [["UPCAST", "a1", n]]


def test_a_cache_and_its_bundle_are_the_same(store: Cache, make_row: MakeRow, tmp_path: Path) -> None:
    store.record([make_row(), make_row(outcome="wrong", t_med=None, verified=False, opts=opts(4)), make_row(kernel="z" * 8).marked(True)])
    store.export(tmp_path / "b.jsonl")
    found = compare(hold(store.location).rows, hold(tmp_path / "b.jsonl").rows)
    assert [(str(d.state), d.more_a, d.more_b) for d in found] == [("same", 0, 0)] * 2


def test_differences_are_told_key_by_key(make_row: MakeRow) -> None:
    here = [make_row(), make_row(kernel="only a"), make_row(kernel="failed", outcome="crash", t_med=None, verified=False)]
    there = [here[0], make_row(opts=opts(16), t_med=5e-5, t_min=4.5e-5), make_row(kernel="only b")]
    found = {d.key.kernel: d for d in compare(here, there)}
    assert {k: str(d.state) for k, d in found.items()} == {
        "k" * 8: "other schedule", "only a": "only in A", "only b": "only in B", "failed": "no answer"
    }  # fmt: skip
    one = found["k" * 8]
    assert (one.both, one.more_a, one.more_b) == (1, 0, 1) and one.ratio == pytest.approx(0.5)


def test_a_merge_is_the_union_whatever_the_order(make_row: MakeRow, tmp_path: Path) -> None:
    rows = [make_row(opts=opts(2 + i % 3)) for i in range(6)]
    for name, part in (("a.db", rows[:4]), ("b.db", rows[2:])):
        with cache.open(tmp_path / name) as c:
            c.record(part)
    a, b = hold(tmp_path / "a.db"), hold(tmp_path / "b.db")
    done = merge([a, b], tmp_path / "ab.db")
    assert (done.added, done.known, done.total) == ((4, 2), (0, 2), 6)
    merge([b, a], tmp_path / "ba.jsonl")
    assert not any(d.more_a or d.more_b for d in compare(hold(tmp_path / "ab.db").rows, hold(tmp_path / "ba.jsonl").rows))
    assert merge([a, b], tmp_path / "ab.db").added == (0, 0)
    assert merge([hold(tmp_path / "ba.jsonl")], tmp_path / "ab.db").added == (0,), "a bundle's rows were known, marked or not"


def test_what_is_said_of_a_place_does_not_travel(make_row: MakeRow, tmp_path: Path) -> None:
    pinned = make_row(provenance={"pinned": True, "machine": {"host": "another machine"}})
    with cache.open(tmp_path / "a.db") as c:
        c.record(pinned)
        c.export(tmp_path / "a.jsonl")
    assert merge([hold(tmp_path / "a.db")], tmp_path / "c.db").unpinned == 1
    merge([hold(tmp_path / "a.jsonl")], tmp_path / "d.db")
    kept = {name: hold(tmp_path / f"{name}.db").rows[0] for name in "cd"}
    assert [(r.pinned, r.imported) for r in kept.values()] == [(False, False), (False, True)]


def test_a_dry_run_and_a_bad_input_change_nothing(make_row: MakeRow, tmp_path: Path) -> None:
    with cache.open(tmp_path / "a.db") as c:
        c.record(make_row())
    assert merge([hold(tmp_path / "a.db")], tmp_path / "c.db", dry_run=True).added == (1,)
    assert not (tmp_path / "c.db").exists()
    (tmp_path / "text").write_text("hello\n")
    shutil.copy(tmp_path / "a.db", tmp_path / "broken.db")
    with open(tmp_path / "broken.db", "r+b") as f:
        f.truncate(5000)
    before = sorted(p.name for p in tmp_path.iterdir())
    for name, said in (("text", "not valid JSON"), ("broken.db", "damaged"), ("nothing.db", "No such file"), (".", "folder")):
        with pytest.raises(CacheError, match=said):
            hold(tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == before, "what is only read is never moved aside"


@pytest.mark.filterwarnings("ignore:the schedule that was pinned")
def test_pruning_never_changes_an_answer(make_row: MakeRow) -> None:
    rng = random.Random(0)
    for _ in range(10):
        rows = []
        for i in range(40):
            outcome = rng.choice(["ok", "ok", "ok", "slow", "wrong", "crash"])
            t = rng.uniform(1, 2) if outcome in ("ok", "slow") else None
            facts = {"imported": True} if rng.random() < 0.2 else {"confirmed": rng.random() < 0.5, "pinned": rng.random() < 0.02}
            if rng.random() < 0.2:
                facts["beat"] = [f'[["UPCAST","a1",{rng.randrange(2, 14)}]]']  # type: ignore[assignment]
            rows.append(
                make_row(
                    kernel=rng.choice("ab"),
                    opts=opts(rng.randrange(2, 14)),
                    outcome=outcome,
                    t_med=t,
                    t_min=t,
                    verified=outcome == "ok",
                    provenance=facts,
                    tool_version=rng.choice([NOW, "older"]),
                    when=f"2026-01-{rng.randrange(1, 28):02d}T08:00:00.{i:06d}+00:00",
                )
            )
        one = plan(rows, PruneRules(superseded=True), NOW)
        whole = plan(rows, PruneRules(superseded=True, old_tools=True, tried=True), NOW)
        assert one.rows and not one.lost and len(whole.rows) >= len(one.rows) and not whole.lost
        for kernel in "ab":
            of_key = [r for r in rows if r.kernel == kernel]
            left = [r for r in of_key if r not in one.rows]
            assert answers(left) == answers(of_key)
            best = [r for r in of_key if r not in whole.rows]
            assert answers(best)[:1] == answers(of_key)[:1]
            assert len({r.opts for r in best}) <= BEST + sum(r.pinned for r in best)
        assert not plan([r for r in rows if r not in whole.rows], PruneRules(superseded=True, tried=True, old_tools=True), NOW).lost


def test_older_tools_stay_where_only_they_answer(make_row: MakeRow) -> None:
    new, old = make_row(tool_version=NOW), make_row(opts=opts(4), t_med=2e-4, tool_version="older")
    alone = make_row(kernel="alone", tool_version="older")
    found = plan([new, old, alone], PruneRules(old_tools=True), NOW)
    assert found.rows == (old,) and found.kept == 1 and not found.lost


def test_dead_targets_say_whose_answers_go(make_row: MakeRow) -> None:
    long_ago, lately = "2026-01-01T08:00:00.000000+00:00", "2026-03-01T08:00:00.000000+00:00"
    old, new = make_row(target="cuda:sm_70:x", when=long_ago), make_row(when=lately)
    found = plan([old, new], PruneRules(idle_days=30), NOW, datetime(2026, 3, 10, tzinfo=UTC))
    assert found.rows == found.lost == (old,) and found.targets == {"cuda:sm_70:x": 1}
    assert plan([old, new], PruneRules(targets=("cuda:*",)), NOW).by_rule["target"] == 1
    assert not plan([old, new], PruneRules(superseded=True, before=long_ago), NOW).rows


def test_exactly_the_rows_are_removed_and_their_space_is_given_back(store: Cache, make_row: MakeRow) -> None:
    rows = [make_row(opts=opts(i + 2)) for i in range(300)]
    store.record(rows)
    assert store.remove(rows[1:]) == 299 and store.remove(rows[1:3]) == 0
    assert store.best(rows[0].key) == rows[0]
    store.close()
    assert store.path is not None
    before, after = compact(store.path)
    assert after < before and hold(store.location).rows == (rows[0],)

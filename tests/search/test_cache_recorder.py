"""What a run leaves in the cache, and what the next one takes from it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tilewright.cache as caches
from tilewright import named_kernels
from tilewright.cache import CacheWarning, Key
from tilewright.cache.server.server_errors import Unreachable
from tilewright.ir.errors import CacheError
from tilewright.ir.normal_form import canonical, loose, normalise
from tilewright.measure.outcome import Measurement, Outcome
from tilewright.opts import opt, parse
from tilewright.opts.syntax import SYNTAX
from tilewright.search import Job, Space
from tilewright.search.cache_recorder import CacheRecorder
from tilewright.search.space import OptEngine
from tilewright.search.warm_start import related, stored
from tilewright.targets import named

KERNEL = normalise(named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64}, "float32"))
JOB = Job("my.py:matmul", {"m": 64, "n": 64, "k": 64}, "float32", "cpu", 2, "portfolio", flops=2 * 64**3, bytes=3 * 4 * 64 * 64)
A, B = (opt("UPCAST", "m", 8),), (opt("UPCAST", "m", 4), opt("PARALLEL", "m"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[caches.Cache]:
    with caches.open(tmp_path / "cache.db") as c:
        yield c


def recorder(cache: caches.Cache, clock: Clock | None = None, **other: Any) -> CacheRecorder:
    key = Key(canonical(KERNEL).hash, named("avx2").key, 2, "llvm-test")
    more = {"clock": clock} if clock is not None else {}
    job = other.pop("job", JOB)
    earlier = {r.opts for r in cache.answers(key)}
    return CacheRecorder(
        cache, key, canonical(KERNEL), loose(KERNEL), job, lambda o: frozenset({"REASSOC"}), earlier=earlier, **{**more, **other}
    )


def ok(opts: Any, t: float) -> Measurement:
    return Measurement(opts, Outcome.ok, t, 1.1 * t, 9, sha="5" * 64)


def test_rows_are_written_within_a_second_and_at_the_end(cache: caches.Cache) -> None:
    clock = Clock()
    r = recorder(cache, clock)
    r.add(ok(A, 1e-3), "beam")
    assert cache.rows() == []
    clock.now = 1.0
    r.add(Measurement(B, Outcome.crash, detail="signal 11"), "optuna")
    assert len(cache.rows()) == 2
    r.add(ok(B, 2e-3), "beam")
    r.flush()
    rows = {x.outcome + x.strategy: x for x in cache.rows()}
    assert set(rows) == {"okbeam", "crashoptuna"} and len(cache.rows()) == 3
    assert "signal 11" in rows["crashoptuna"].provenance and rows["crashoptuna"].t_min is None


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("matmul", "matmul"),
        ("matmul:constant=b", "matmul:constant=b"),
        ("dir/my.py:f", "f"),
        ("dir/my.py:f:constant=a,b", "f:constant=a,b"),
        ("my.py", "my.py"),
    ],
)
def test_a_row_has_the_kernels_name(cache: caches.Cache, kernel: str, name: str) -> None:
    r = recorder(cache, job=dataclasses.replace(JOB, kernel=kernel))
    r.add(ok(A, 1e-3), "beam")
    r.flush()
    assert [x.name for x in cache.rows()] == [name]


def test_names_are_canonical_for_look_ups_and_plain_for_people(cache: caches.Cache) -> None:
    r = recorder(cache)
    r.add(ok(B, 1e-3), "beam")
    r.flush()
    [row] = cache.rows()
    assert parse(row.opts_display) == B and parse(row.opts) != B
    assert parse(canonical(KERNEL).from_canonical([o.json for o in parse(row.opts)], SYNTAX)) == B
    assert (row.name, row.shape_dict, row.flops, row.effects) == ("matmul", {"m": 64, "n": 64, "k": 64}, 2 * 64**3, "REASSOC")


def test_clocks_are_kept_beside_a_time(cache: caches.Cache) -> None:
    r = recorder(cache)
    r.add(dataclasses.replace(ok(A, 1e-3), clocks={"sm_mhz": 1755, "throttle": ["power cap"]}), "beam")
    r.add(ok(B, 1e-3), "beam")
    r.flush()
    assert [x.facts.get("clocks") for x in cache.rows()] == [{"sm_mhz": 1755, "throttle": ["power cap"]}, None]


def test_only_the_winner_answers(cache: caches.Cache) -> None:
    r = recorder(cache)
    r.add(ok(A, 1e-3), "beam")
    r.add(ok(B, 2e-3), "start")
    r.flush()
    assert cache.best(r.key) is None
    r.winner(ok(B, 2e-3), B, 2e-3, {"gain": 1.0, "confirmed": True})
    best = cache.best(r.key)
    assert best is not None and parse(best.opts_display) == B
    assert best.start_s == 2e-3 and '"confirmed":true' in best.provenance and '"gain":1.0' in best.provenance


def test_illegal_names_cannot_be_stored_and_do_not_matter(cache: caches.Cache) -> None:
    r = recorder(cache)
    r.add(Measurement((opt("TILE", "nosuch", 4),), Outcome.illegal, detail="no axis"), "beam")
    r.flush()
    assert cache.rows() == []


def test_a_winner_on_a_slower_day_replaces_the_answer_it_beat(cache: caches.Cache) -> None:
    """The machine runs at half speed; the new winner beat the old answer side by side."""
    recorder(cache).winner(ok(A, 1.0e-3), A, 1.0e-3, {})
    r = recorder(cache)
    r.add(ok(A, 2.0e-3), "stored")
    r.winner(ok(B, 1.5e-3), A, 2.0e-3, {})
    best = cache.best(r.key)
    assert best is not None and parse(best.opts_display) == B
    assert (best.t_min, best.start_s) == (1.5e-3, 2.0e-3), "both as they were timed, in one run"
    assert best.facts["beat"] == [next(iter(r.earlier))]


def test_a_winner_that_met_no_earlier_answer_is_compared_by_time(cache: caches.Cache) -> None:
    recorder(cache).winner(ok(A, 1.0e-3), A, 1.0e-3, {})
    r = recorder(cache)
    r.winner(ok(B, 2.1e-3), B, 2.1e-3, {})
    best = cache.best(r.key)
    assert best is not None and parse(best.opts_display) == A


def unwritable(rows: Any, *, patience_s: float) -> int:
    raise CacheError("the disk that holds the cache is full")


def test_a_cache_that_cannot_be_written_keeps_the_rows_and_the_search(cache: caches.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    r = recorder(cache, clock)
    with monkeypatch.context() as m:
        m.setattr(cache, "record", unwritable)
        with pytest.warns(CacheWarning, match="disk that holds the cache is full. The search goes on; its measurements wait in memory"):
            for clock.now in (1.0, 2.0, 3.0):  # said once
                r.add(ok(A, 1e-3 * clock.now), "beam")
        assert cache.rows() == []
    r.add(ok(B, 1e-3), "beam")
    assert cache.rows() == [], "not tried again at once"
    clock.now = 7.0
    r.add(ok(B, 2e-3), "beam")
    assert len(cache.rows()) == 5
    assert r.close() == ""


def test_what_could_not_be_written_waits_in_a_bundle_for_the_next_run(cache: caches.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    r = recorder(cache)
    with monkeypatch.context() as m:
        m.setattr(cache, "record", unwritable)
        r.add(ok(A, 1e-3), "beam")
        with pytest.warns(CacheWarning):
            r.winner(ok(A, 1e-3), A, 1e-3, {"confirmed": True})
        said = r.close()
    assert "2 measurements are in" in said and "the next run takes them in" in said
    assert cache.rows() == []
    with pytest.warns(CacheWarning, match="took in 2 measurements that an earlier run could not write"):
        cache.ensure_writable()
    best = cache.best(r.key)
    assert best is not None and cache.standing(best) == "verified", "they were measured here"
    assert not list(Path(cache.location).parent.glob("*.jsonl"))
    cache.ensure_writable()
    assert len(cache.rows()) == 2


@pytest.mark.parametrize("ahead", ["2999-12-31T23:59:59.999999+00:00", "2000-01-01T00:00:00.000000+00:00"])
def test_what_was_found_last_answers_though_the_clock_was_set_back(cache: caches.Cache, ahead: str) -> None:
    r = recorder(cache)
    r.winner(ok(A, 1e-3), A, 1e-3, {"confirmed": True})
    r.close()
    (row,) = cache.rows()
    cache.clear()
    cache.record(dataclasses.replace(row, when=ahead))
    key = r.key
    r = recorder(cache, after=ahead)
    r.add(ok(A, 1.2e-3), "beam")
    r.winner(ok(B, 1.1e-3), A, 1.2e-3, {"confirmed": True})
    r.close()
    best = cache.best(key)
    assert best is not None and best.run_id == r.run_id and best.opts != row.opts and best.when > ahead


def test_rows_that_nothing_takes_are_said_to_be_lost(cache: caches.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    r = recorder(cache)
    monkeypatch.setattr(cache, "record", unwritable)
    monkeypatch.setattr(caches.bundles, "write", lambda rows, file: (_ for _ in ()).throw(CacheError("no space there either")))
    r.add(ok(A, 1e-3), "beam")
    with pytest.warns(CacheWarning):
        said = r.close()
    assert said == "1 measurements are lost: the disk that holds the cache is full; no space there either"


def test_an_interrupt_while_writing_keeps_the_rows_for_the_last_flush(cache: caches.Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    r = recorder(cache)
    r.add(ok(A, 1e-3), "beam")

    def strike(rows: Any, **_: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(cache, "record", strike)
        with pytest.raises(KeyboardInterrupt):
            r.flush()
    r.flush()
    assert len(cache.rows()) == 1


def test_starts_from_what_is_stored_answers_first(cache: caches.Cache) -> None:
    r = recorder(cache)
    space = Space(OptEngine(KERNEL, named("avx2"), 2))
    for n, t in ((2, 1e-3), (3, 2e-3), (6, 3e-3), (12, 4e-3)):
        r.add(ok((opt("UPCAST", "m", n),), t), "beam")
    r.add(Measurement((opt("UPCAST", "m", 16),), Outcome.wrong), "beam")
    r.winner(ok(A, 5e-3), A, 5e-3, {})
    assert stored(cache, r.key, canonical(KERNEL), space) == [A, (opt("UPCAST", "m", 2),), (opt("UPCAST", "m", 3),)]


def test_starts_from_relatives_where_they_are_legal(cache: caches.Cache) -> None:
    other = normalise(named_kernels.make("matmul", {"m": 128, "n": 64, "k": 32}, "float32"))
    key = Key(canonical(other).hash, named("avx2").key, 2, "llvm-test")
    r = CacheRecorder(cache, key, canonical(other), loose(other), JOB, lambda o: frozenset())
    r.winner(ok((opt("UPCAST", "m", 8), opt("UPCAST", "n", 32)), 1e-3), None, None, {})
    mine = recorder(cache)
    space = Space(OptEngine(KERNEL, named("avx2"), 2))
    assert related(cache, mine.key, canonical(KERNEL), space, loose(KERNEL), JOB) == [(opt("UPCAST", "m", 8), opt("UPCAST", "n", 32))]


def test_rows_for_a_server_that_went_away_are_in_bundles_at_once(
    cache: caches.Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A search that is killed then has lost nothing; and one whose server comes back leaves nothing over."""
    clock = Clock()
    r = recorder(cache, clock)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with monkeypatch.context() as away:
        away.setattr(cache, "record", gone_away)
        for i, opts in enumerate((A, B)):
            clock.now = 10.0 * (i + 1)
            with pytest.warns(CacheWarning, match="wait in a bundle") if not i else contextlib.nullcontext():
                r.add(ok(opts, 1e-3), "beam")
            assert len(cache.waiting.files()) == i + 1, "each row once"
    clock.now = 30.0
    r.winner(ok(A, 1e-3), A, 1e-3, {})
    assert len(cache.rows()) == 3 and cache.waiting.files() == [] and r.close() == ""
    monkeypatch.setattr(cache, "record", gone_away)
    with pytest.warns(CacheWarning):
        r.add(ok(B, 1e-3), "beam")
        clock.now = 40.0
        r.add(ok(B, 2e-3), "beam")
    assert "so 2 measurements are in" in r.close() and len(cache.waiting.files()) == 1


def gone_away(rows: Any, *, patience_s: float) -> int:
    raise Unreachable("the cache postgresql://h/db does not answer")

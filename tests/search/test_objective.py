"""Searches for something but the time: what is made small, who wins, what is written, and that no answer serves another question."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic import FakeMeasurer, space
from tilewright import cache as caches
from tilewright import named_kernels, plan
from tilewright.cache.objective_types import FRONTS, objective
from tilewright.cache.ranking import undominated, value_of
from tilewright.ir.errors import CacheMiss, DeviceError, UsageError
from tilewright.measure.outcome import Duel, EnergyUse, Measurement, Outcome
from tilewright.opts.opt import Opt, parse, short
from tilewright.search import Budget, Job, Objective, Result, Silent, Start, TuningRun, create, register_objective, tune
from tilewright.search.budget import Meter
from tilewright.search.finals import Finalist
from tilewright.search.objective import SearchObjective
from tilewright.testing.objectives import ObjectiveTestCase

Schedule = tuple[Opt, ...]


def used(joules: float, idle: float | None = None) -> EnergyUse:
    return EnergyUse(joules, 0.01, 3, 300, 0.02, 50.0, idle, "made up")


class Frugal(FakeMeasurer):
    """Staging takes 4 KiB; every register copy costs energy beside what the time does."""

    @staticmethod
    def scratch(opts: Schedule) -> int:
        return sum(4096 for o in opts if o.op == "STAGE")

    def joules(self, opts: Schedule) -> float:
        copies = sum(o.amount for o in opts if o.op == "UPCAST")
        return 20 * self.seconds(opts) * (1 + (copies / 12) ** 2)

    def measure(self, built: Any, incumbent_s: float | None = None) -> list[Measurement]:
        return [replace(m, energy=used(self.joules(m.opts)), scratch=self.scratch(m.opts)) for m in super().measure(built, incumbent_s)]

    def duel(self, a: Any, b: Any, rounds: int = 8, energy: bool = False) -> Duel:
        if not energy:
            return super().duel(a, b, rounds)
        self.calls.append(("energy", (a.opts, b.opts)))
        ratio = self.joules(a.opts) / self.joules(b.opts)
        return Duel(ratio, abs(ratio - 1) > 0.01, self.joules(a.opts), self.joules(b.opts), rounds)


class Book:
    """Keeps what is recorded, but for what was provisional."""

    earlier: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.winners: list[tuple[Measurement, Any]] = []

    def add(self, measurement: Measurement, strategy: str) -> None:
        """Nothing."""

    def winner(self, measurement: Measurement, start_opts: Any, start_s: Any, final: Any) -> None:
        if not final.get("provisional"):
            self.winners.append((measurement, final))

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> str:
        return ""


def searched(what: str, strategy: str = "beam", trials: int = 60) -> tuple[Result, Frugal, Book]:
    where, engine = space()
    measurer, book = Frugal(engine.seconds), Book()
    starts = [Start(s) for s in where.starts()]
    values = {"values": SearchObjective(what).logs} if what in FRONTS and strategy.startswith("optuna:") else {}
    chosen = create(strategy, where, start=[s.opts for s in starts], **values)
    job = Job("matmulish", {"m": 64}, "float32", "fake", 2, strategy, objective=what)
    found = TuningRun(where, measurer, chosen, starts, job, Meter(Budget(None, trials)), Silent(), book).run()
    return found, measurer, book


@pytest.mark.parametrize(
    ("asked", "text"), [(None, "time"), ("scratch, time", "time,scratch"), (["energy"], "energy"), ("Scratch", "scratch")]
)
def test_an_objective_has_one_spelling(asked: Any, text: str) -> None:
    assert objective(asked) == text


@pytest.mark.parametrize("asked", ["energi", "time,time", "energy,dynamic-energy", "time,energy,scratch", "time,"])
def test_what_is_no_objective_is_said(asked: str) -> None:
    with pytest.raises(UsageError, match="objective"):
        objective(asked)


def test_the_least_energy_wins_and_duels_are_about_joules() -> None:
    fast, _, _ = searched("time")
    r, m, book = searched("energy")
    assert r.energy is not None and r.t_min is not None and fast.t_min is not None
    assert r.energy["joules"] == pytest.approx(m.joules(r.opts))
    assert m.joules(r.opts) < 0.9 * m.joules(fast.opts) and r.t_min > fast.t_min
    assert r.start_value == pytest.approx(m.joules(r.start_opts or ())) and r.start_s == pytest.approx(m.seconds(r.start_opts or ()))
    assert r.gain == pytest.approx(r.start_value / r.energy["joules"]) and r.significant
    assert {kind for kind, _ in m.calls if kind in ("duel", "energy")} <= {"energy"}
    assert [w.opts for w, _ in book.winners] == [r.opts] and book.winners[0][1]["start_value"] == r.start_value
    assert "--objective energy" in r.reproduce and all("energy" in step for step in r.history)


def test_the_least_scratch_memory_wins_and_the_time_decides_among_equals() -> None:
    r, m, _ = searched("scratch")
    assert r.scratch == 0 and r.exit_code == 0
    best = min(m.seconds(o) for kind, batch in m.calls if kind == "measure" for o in batch if not m.scratch(o))
    assert r.t_min == pytest.approx(best)


def test_a_start_schedule_with_the_least_scratch_memory_that_is_wrong_gives_way() -> None:
    where, engine = space()
    frugal = next(s for s in where.starts())
    m = Frugal(engine.seconds, second_check=lambda o: Outcome.wrong if o == frugal else Outcome.ok)
    m.scratch = lambda opts: 0 if opts == frugal else 8192  # type: ignore[method-assign, assignment]
    job = Job("matmulish", {"m": 64}, "float32", "fake", 2, "beam", objective="scratch")
    r = TuningRun(where, m, create("beam", where), [Start(frugal)], job, Meter(Budget(None, 30)), Silent(), Book()).run()
    assert r.exit_code == 0 and r.scratch == 8192 and r.counts["wrong"] == 1


@pytest.mark.parametrize("strategy", ["beam", "optuna:nsga2"])
def test_a_front_has_both_ends_and_nothing_that_another_beats(strategy: str) -> None:
    r, _, book = searched("time,scratch", strategy, 60)
    front = [(f["t_min"], f["scratch"]) for f in r.front]
    assert front == sorted(front) and len({s for _, s in front}) == len(front) >= 2 and front[-1][1] == 0
    assert all(a[1] > b[1] for a, b in itertools.pairwise(front)) and front[0][0] == r.t_min
    written = [(w.opts, final.get("objective")) for w, final in book.winners]
    assert written[-1] == (r.opts, "time") and [o for _, o in written[:-1]] == [None] * len(front)
    assert all(f["confirmed"] for f in r.front) and json.loads(json.dumps(r.to_json()))["front"] == list(r.front)


def test_a_member_that_fails_the_second_check_leaves_its_place_to_the_next() -> None:
    def front(bad: Schedule | None) -> list[Schedule]:
        where, engine = space()
        m = Frugal(engine.seconds, second_check=lambda o: Outcome.wrong if o == bad else Outcome.ok)
        job = Job("matmulish", {"m": 64}, "float32", "fake", 2, "beam", objective="time,scratch")
        starts = [Start(s) for s in where.starts()]
        r = TuningRun(where, m, create("beam", where), starts, job, Meter(Budget(None, 60)), Silent(), Book()).run()
        assert bad is None or r.counts["wrong"] == 1
        return [parse(f["opts"]) for f in r.front]

    whole = front(None)
    mended = front(whole[-1])
    assert len(whole) == len(mended) >= 2 and mended[-1] != whole[-1] and not any(o.op == "STAGE" for o in mended[-1])


def finalist(t: float, joules: float | None = None, scratch: int = 0, name: str = "") -> Finalist:
    m = Measurement((), Outcome.ok, t, t, 5, sha=name, scratch=scratch, energy=None if joules is None else used(joules))
    return Finalist(object(), m)


def test_a_front_of_noisy_figures_has_no_two_that_are_as_good() -> None:
    aim = SearchObjective("time,energy")
    found = [finalist(1.0, 10.0), finalist(1.01, 5.0), finalist(2.0, 4.95), finalist(3.0, 2.0), finalist(4.0)]
    assert [f.t for f in aim.members(found)] == [1.01, 3.0]
    assert [f.t for f in aim.members(found, exact=True)] == [1.0, 1.01, 2.0, 3.0]
    assert [f.t for f in SearchObjective("time,scratch").members([finalist(1.0, scratch=64), finalist(1.5, scratch=63)])] == [1.0, 1.5]


def test_what_has_no_meaning_for_an_objective_is_refused() -> None:
    for told in (
        {"objective": "energy", "stop_at": 0.9},
        {"objective": "time,scratch", "strategy": "optuna:cmaes"},
        {"objective": "scratch", "study": "x.log"},
    ):
        with pytest.raises(UsageError):
            tune("softmax", {"m": 8, "n": 64}, trials=1, **told)  # type: ignore[arg-type]


def test_energy_that_cannot_be_read_is_said_before_anything_is_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_POWERCAP", str(tmp_path / "none"))
    with pytest.raises(DeviceError, match="no energy counters"):
        tune("softmax", {"m": 8, "n": 64}, trials=1, objective="energy", cache=tmp_path / "c.db")
    assert not (tmp_path / "c.db").exists()


# what the cache answers ---------------------------------------------------------------------------------------------


@pytest.fixture
def filled(tmp_path: Path) -> tuple[caches.Cache, Any]:
    """A cache, and what writes a row of a softmax: options, seconds, and facts."""
    from tilewright import devices
    from tilewright.cache import Row, tool_version
    from tilewright.ir.normal_form import normalise
    from tilewright.plan.identity import key_of, opts_text

    kernel, device = normalise(named_kernels.make("softmax", {"m": 8, "n": 64})), devices.get("cpu")
    store = caches.open(tmp_path / "c.db")

    def write(opts: str, t: float, **facts: Any) -> None:
        key = key_of(kernel, device, 1)
        told = {"confirmed": True, **facts}
        text = opts_text(kernel, parse(opts))
        fields = {"kernel": key.kernel, "target": key.target, "threads": 1, "compiler": key.compiler, "tool_version": tool_version()}
        store.record(Row(**fields, opts=text, opts_display=text, t_min=t, t_med=t, n=5, verified=True, provenance=told))  # type: ignore[arg-type]

    return store, write


def best(store: caches.Cache, **asked: Any) -> tuple[str, str]:
    p = plan.best("softmax", {"m": 8, "n": 64}, threads=1, cache=store, **asked)
    return p.origin, short(p.opts)


def test_an_answer_for_one_objective_is_none_for_another(filled: Any) -> None:
    store, write = filled
    write("Un16", 1e-6, scratch=4096)
    assert best(store) == ("exact", "Un16") and best(store, objective="energy")[0] != "exact"
    with pytest.raises(CacheMiss):
        best(store, objective="scratch", exact_only=True)
    write("Un8", 3e-6, objective="energy", energy=used(1.0).json)
    write("Un32", 2e-6, objective="energy", energy=used(2.0).json)
    assert best(store) == ("exact", "Un16") and best(store, objective="energy") == ("exact", "Un8")
    assert best(store, objective="dynamic-energy")[0] != "exact"  # (another figure)


def test_a_front_answers_for_both_ends_and_within_a_limit(filled: Any) -> None:
    store, write = filled
    for opts, t, scratch in (("Un16", 1e-6, 8192), ("Un8", 2e-6, 1024), ("Un32", 3e-6, 0), ("Un4", 4e-6, 1024)):
        write(opts, t, objective="time,scratch", scratch=scratch)
    assert best(store, objective="time,scratch") == ("exact", "Un16") and best(store, objective="scratch") == ("exact", "Un32")
    assert [best(store, scratch_limit=n)[1] for n in (8192, 8191, 1024, 1023)] == ["Un16", "Un8", "Un8", "Un32"]
    assert best(store)[0] != "exact"  # nobody settled which is the fastest
    with pytest.raises(UsageError, match="number of bytes"):
        best(store, scratch_limit=-1)
    rows = store.rows()
    assert [value_of(r, "scratch") for r in undominated(rows, "time,scratch")] == [8192, 1024, 0]


def test_a_limit_holds_for_start_schedules_too(filled: Any) -> None:
    store, _ = filled
    p = plan.best("softmax", {"m": 8, "n": 64}, threads=1, cache=store, scratch_limit=0)
    assert p.origin == "start" and p.built.signature.working_memory(1) == 0


class FewStages(Objective):
    """Bytes of staging and microseconds beside them: somebody's own."""

    name, unit, about, close, per_second = "few-stages", "points", "memory, and the time", 1.0, 1e6

    def value(self, m: Any) -> float:
        return float(m.scratch) if m.scratch else 1.0


class Faulty(FewStages):
    name = "faulty"

    def value(self, m: Any) -> float:
        if m.scratch:
            raise ValueError("no idea")
        return 2.0


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cache.objective_types._registered", {})
    register_objective(FewStages())
    register_objective(Faulty())


@pytest.mark.usefixtures("mine")
def test_the_least_figure_of_ones_own_wins_and_the_time_decides_among_equals() -> None:
    r, m, book = searched("few-stages")
    best = min(m.seconds(o) for kind, batch in m.calls if kind == "measure" for o in batch if not m.scratch(o))
    assert (r.value, r.t_min, r.objective) == (1.0, pytest.approx(best), "few-stages")
    assert (
        [w.opts for w, _ in book.winners] == [r.opts]
        and "few-stages 1 points" in r.summary()
        and all("few-stages" in step for step in r.history)
    )


@pytest.mark.usefixtures("mine")
def test_schedules_without_a_figure_do_not_win() -> None:
    with pytest.warns(RuntimeWarning, match="no idea"):
        r, m, _ = searched("faulty")
    assert r.value == 2.0 and not m.scratch(r.opts)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("asked", "said"),
    [("time,few-stages", "two such as"), ("few-stage", "did you mean few-stages"), ("no/such.py:Thing", "cannot be made")],
)
def test_what_is_no_objective_of_ones_own_is_said(asked: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        objective(asked)


def test_an_objective_comes_from_a_file_and_answers_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cache.objective_types._registered", {})
    (tmp_path / "own.py").write_text(
        "from tilewright.search import Objective\nclass Half(Objective):\n    name = 'half'\n    def value(self, m): return m.t_med / 2\n"
    )
    where, shape = f"{tmp_path}/own.py:Half", {"m": 8, "n": 16}
    found = tune("add", shape, threads=1, objective=where, trials=2, cache=str(tmp_path / "c.db"))
    assert found.objective == "half" and found.value == pytest.approx((found.t_med or 0) / 2)
    again = tune("add", shape, threads=1, objective="half", trials=2, cache=str(tmp_path / "c.db"))
    assert (again.origin, again.value) == ("cached", pytest.approx(found.value))
    with caches.open(str(tmp_path / "c.db")) as c:
        row = c.rows(verified=True)[-1]
        assert row.objective == "half" and value_of(row, "half") == pytest.approx(found.value)
        assert tune("add", shape, threads=1, trials=2, cache=c).origin == "tuned"  # another question


class TestOwn(ObjectiveTestCase):
    def objective(self) -> FewStages:
        return FewStages()

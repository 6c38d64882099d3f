"""Optuna's samplers: what they are told, where a study begins, and studies that are kept and resumed."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
from synthetic import Matmulish, measured, space
from tilewright import named_kernels, targets, tune
from tilewright.ir.errors import OptError, UsageError
from tilewright.ir.normal_form import normalise
from tilewright.measure.outcome import Measurement, Outcome
from tilewright.opts.opt import Opt, opt, parse
from tilewright.search import Space, Strategy, create
from tilewright.search.space import OptEngine
from tilewright.search.strategies import optuna_samplers as optuna_samplers
from tilewright.search.strategies import optuna_study as optuna_opening
from tilewright.search.strategies import optuna_study as optuna_study
from tilewright.search.strategies.nearest_instance import Fitter, distance, nearest
from tilewright.search.strategies.optuna_samplers import KINDS
from tilewright.search.strategies.optuna_study import StudyKeeper, StudyTrial

HERE = [k for k, v in KINDS.items() if all(find_spec(p) for p in v.needs)]
Schedule = tuple[Opt, ...]


def finished(strategy: Strategy) -> list[Any]:
    """The finished trials of the study in memory."""
    return [t for t in strategy._study.get_trials(deepcopy=False) if t.state.is_finished()]  # type: ignore[attr-defined]


def drive(
    strategy: Strategy, engine: Matmulish, rounds: int, outcome: Callable[[Schedule], Outcome] = lambda o: Outcome.ok
) -> list[Schedule]:
    """Ask and tell; returns what was asked."""
    asked: list[Schedule] = []
    for _ in range(rounds):
        for opts in strategy.ask(6):
            asked.append(opts)
            what = outcome(opts)
            strategy.tell(
                opts,
                Measurement(
                    opts, what, engine.seconds(opts) if what in ("ok", "slow") else None, sha="5" * 64, detail="" if what == "ok" else "why"
                ),
            )
    return asked


class Tight(Matmulish):
    """More than half of the template's instances are illegal."""

    def apply(self, opts: Schedule) -> Any:
        if self._amount(opts, "m") * self._amount(opts, "n") > 48:
            raise OptError("more than 48 copies")
        return super().apply(opts)


def keeper(url: str, **about: Any) -> StudyKeeper:
    where, _ = space()
    return StudyKeeper(url, "gemm on fake", where.templates(), {"flops": 1000, **about})


# what a sampler is told ---------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_illegal_points_are_told_and_never_asked(name: str) -> None:
    engine = Tight()
    where = Space(engine)
    strategy = create(f"optuna:{name}", where, seed=1)
    asked = drive(strategy, engine, 6)
    assert asked and all(where.state(o) is not None for o in asked)
    told = [t for t in finished(strategy) if _schedule(where, t) is None]
    assert told, "nothing illegal was drawn"
    for t in told:
        if KINDS[name].constrained:
            assert t.constraints == {"valid": 1.0}
            assert t.state.name == ("PRUNED" if name == "tpe" else "COMPLETE")
        else:
            assert t.state.name == "PRUNED" and t.value is None
    assert all(
        t.constraints == {"valid": 0.0} for t in finished(strategy) if t.value is not None and t not in told and KINDS[name].constrained
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_slow_is_pruned_with_its_value_and_a_failure_is_not_a_value(name: str) -> None:
    where, engine = space()
    strategy = create(f"optuna:{name}", where, seed=1)
    fate = {0: Outcome.ok, 1: Outcome.slow, 2: Outcome.crash, 3: Outcome.wrong}
    which: dict[str, Outcome] = {}

    def outcome(opts: Schedule) -> Outcome:
        return which.setdefault(str(opts), fate[len(which) % 4])

    asked = drive(strategy, engine, 6, outcome)
    kind, seen = KINDS[name], set()
    for opts, trial in ((o, t) for o in asked for t in finished(strategy) if _schedule(where, t) == o):
        t, what = math.log(engine.seconds(opts)), which[str(opts)]
        seen.add(what)
        if what is Outcome.ok or (what is Outcome.slow and not kind.prunes):
            assert (trial.state.name, trial.value) == ("COMPLETE", t)
        elif what is Outcome.slow:
            assert (trial.state.name, trial.intermediate_values, trial.value) == ("PRUNED", {0: t}, t)
        elif kind.constrained:
            assert trial.constraints == {"valid": 1.0} and trial.state.name == ("PRUNED" if kind.prunes else "COMPLETE")
        else:
            assert (trial.state.name, trial.value) == ("FAIL", None)
    assert seen == set(fate.values())


def _schedule(where: Space, trial: Any) -> Schedule | None:
    t = where.templates()[0]
    return where.instance(t, {k: v[trial.params[f"gemm.{k}"]] for k, v in t.params.items()})


@pytest.mark.slow
def test_tpe_learns_to_stay_legal() -> None:
    """The second half of a study draws fewer illegal points than the first."""
    bad = [0, 0]
    for seed in range(4):
        engine = Tight()
        strategy = create("optuna:tpe", Space(engine), seed=seed)
        drive(strategy, engine, 8)
        trials = finished(strategy)
        for i, t in enumerate(trials):
            bad[2 * i >= len(trials)] += t.constraints == {"valid": 1.0}
    assert bad[1] < bad[0]


# where it begins ----------------------------------------------------------------------------------------------------
def test_a_start_schedule_is_a_trial_where_a_template_makes_it() -> None:
    where, engine = space()
    inside = (opt("PARALLEL", "m"), opt("UPCAST", "m", 4), opt("UPCAST", "n", 8), opt("STAGE", "b", at="n"))
    outside = (opt("PARALLEL", "m"), opt("UPCAST", "m", 6), opt("UPCAST", "n", 12), opt("TILE", "k", 64))
    strategy = create("optuna:random", where, seed=1, start=[inside, outside])
    for o in (inside, outside):
        strategy.tell(o, measured(o, engine.seconds(o)))
    asked = strategy.ask(1)
    assert [(t.state.name, t.value) for t in finished(strategy)] == [("COMPLETE", math.log(engine.seconds(inside)))], (
        "told, not measured again"
    )
    assert asked == [outside[:3]], "then the instance nearest to the other start schedule"


def test_fitting_finds_the_choices_that_make_a_start_schedule() -> None:
    """Every contraction start schedule of a matmul is an instance of its template."""
    kernel = normalise(named_kernels.make("matmul", {"m": 512, "n": 512, "k": 512}))
    where = Space(OptEngine(kernel, targets.named("znver5"), 2))
    fitters = [Fitter(t) for t in where.templates()]
    starts = [s for s in where.starts() if any(o.op == "STAGE" for o in s) and not any(o.op == "TILE" and o.on == "m" for o in s)][:4]
    for s in starts:
        name, params = nearest(fitters, s)  # type: ignore[misc]
        made = where.instance(next(f.template for f in fitters if f.template.name == name), params)
        assert name == "contraction" and made is not None and where.state(made).hash == where.state(s).hash  # type: ignore[union-attr]
    assert len(starts) == 4


def test_distance_between_option_lists() -> None:
    a = (opt("UPCAST", "m", 8), opt("STAGE", "b", at="n"))
    assert distance(a, tuple(reversed(a))) == 0
    assert distance(a, a[:1]) == 3 == distance(a[:1], a)
    assert 0 < distance(a, (opt("UPCAST", "m", 6), a[1])) < distance(a, (opt("UPCAST", "m", 2), a[1])) < 3
    assert distance(a, (a[0], opt("STAGE", "b", at="m"))) == 2


def test_fitting_costs_a_bounded_number_of_calls() -> None:
    calls = 0

    class Wide:
        name = "wide"
        params: ClassVar[dict[str, tuple[int, ...]]] = {f"p{i}": tuple(range(20)) for i in range(20)}

        @staticmethod
        def make(p: dict[str, Any]) -> Schedule:
            nonlocal calls
            calls += 1
            return tuple(opt("TILE", k, v + 1) for k, v in p.items())

    f = Fitter(Wide(), makes=50)
    for amount in (3, 7):
        assert f.fit(tuple(opt("TILE", f"p{i}", amount) for i in range(20))) is not None
    assert calls <= 50


# a study that is kept -----------------------------------------------------------------------------------------------
def urls(tmp_path: Path) -> list[str]:
    return [f"sqlite:///{tmp_path}/study.db", str(tmp_path / "study.log")]


def kept_by(url: str, rounds: int = 4, engine: Matmulish | None = None, **more: Any) -> tuple[list[Schedule], Matmulish]:
    engine = engine or Matmulish()
    strategy = create("optuna:tpe", Space(engine), seed=3, study=keeper(url))
    asked = drive(strategy, engine, rounds, **more)
    strategy.close()
    return asked, engine


def trials_of(url: str) -> list[Any]:
    import optuna

    storage = optuna_opening.storage_of(url)
    (summary,) = optuna.get_all_study_summaries(storage)
    assert summary.study_name.startswith("gemm on fake ")
    return optuna.load_study(study_name=summary.study_name, storage=storage).trials


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1], ids=["sqlite", "journal"])
def test_kept_trials_say_what_happened(tmp_path: Path, at: int) -> None:
    url = urls(tmp_path)[at]
    fate = [Outcome.ok, Outcome.ok, Outcome.slow, Outcome.crash]
    which: dict[Schedule, Outcome] = {}
    asked, engine = kept_by(url, engine=Tight(), outcome=lambda o: which.setdefault(o, fate[len(which) % 4]))
    found = {parse(t.user_attrs["opts"]): t for t in trials_of(url) if t.user_attrs["outcome"] != "illegal"}
    assert set(found) == set(asked)
    for opts, t in found.items():
        assert t.user_attrs["outcome"] == which[opts] and t.user_attrs["source"] == "5" * 64 and t.constraints == {"legal": 0.0}
        assert t.params["template"] == "gemm" and opt("UPCAST", "m", t.params["gemm.m"]) in opts, (
            "the parameters are the choices themselves"
        )
        s = engine.seconds(opts)
        if which[opts] is Outcome.ok:
            assert (t.state.name, t.value) == ("COMPLETE", s) and t.user_attrs["gflops"] == pytest.approx(1e-6 / s)
        elif which[opts] is Outcome.slow:
            assert (t.state.name, t.intermediate_values) == ("PRUNED", {0: s})
        else:
            assert (t.state.name, t.user_attrs["why"]) == ("FAIL", "why")
    illegal = [t for t in trials_of(url) if t.user_attrs["outcome"] == "illegal"]
    assert illegal and all(
        t.state.name == "PRUNED" and t.constraints == {"legal": 1.0} and "more than 48 copies" in t.user_attrs["why"] for t in illegal
    )


@pytest.mark.many
@pytest.mark.parametrize("sampler", HERE)
def test_a_resumed_study_tells_and_does_not_ask_again(tmp_path: Path, sampler: str) -> None:
    url = urls(tmp_path)[1]
    before, engine = kept_by(url)
    where, _ = space()
    strategy = create(f"optuna:{sampler}", where, seed=3, study=keeper(url))
    asked = drive(strategy, engine, 3)
    strategy.close()
    best = min(before, key=engine.seconds)
    assert asked[0] == best, "the best is timed anew, to be this session's answer"
    assert len(asked) > 8 and not set(asked[1:]) & set(before)
    told = [t for t in finished(strategy) if t.value is not None]
    assert {math.log(engine.seconds(o)) for o in before} <= {t.value for t in told}
    assert len({parse(t.user_attrs["opts"]) for t in trials_of(url) if t.user_attrs["outcome"] == "ok"}) == len(set(before) | set(asked))


def test_strangers_in_a_study_are_left_out(tmp_path: Path) -> None:
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution
    from optuna.trial import TrialState, create_trial

    url = urls(tmp_path)[1]
    k = keeper(url)
    params = {"template": "gemm", "gemm.m": 8, "gemm.n": 8, "gemm.at": "n"}
    where, _ = space()
    kinds = {
        "template": CategoricalDistribution(["gemm"]),
        **{f"gemm.{p}": CategoricalDistribution(list(v)) for p, v in where.templates()[0].params.items()},
    }
    add = k._study.add_trial
    add(create_trial(params={"x": 1.0}, distributions={"x": FloatDistribution(0, 2)}, value=1.0))
    add(create_trial(params=params, distributions=kinds, value=1.0))  # no outcome
    add(create_trial(params=params, distributions=kinds, value=-1.0, user_attrs={"outcome": "ok"}))
    add(create_trial(params=params, distributions=kinds, value=1.0, user_attrs={"outcome": "great"}))
    add(create_trial(params=params, distributions=kinds, state=TrialState.PRUNED, user_attrs={"outcome": "slow"}))
    add(create_trial(params={"template": "gemm"}, distributions={"template": kinds["template"]}, value=1.0, user_attrs={"outcome": "ok"}))
    k._study.enqueue_trial({"template": "gemm"})
    assert k.load() == []
    add(create_trial(params=params, distributions=kinds, value=0.5, user_attrs={"outcome": "ok"}))
    assert k.load() == [StudyTrial("gemm", {"m": 8, "n": 8, "at": "n"}, "ok", 0.5, {"outcome": "ok"})]
    assert optuna.logging.get_verbosity() == optuna.logging.ERROR


@pytest.mark.slow
def test_other_templates_are_another_study(tmp_path: Path) -> None:
    """Optuna refuses a parameter with other choices, so a version with other templates must not meet the old trials."""
    url = urls(tmp_path)[0]
    kept_by(url, rounds=1)
    where, _ = space()
    (t,) = where.templates()
    other = type(t)(t.name, {**t.params, "m": (2, 5)}, t.make)
    k = StudyKeeper(url, "gemm on fake", [other], {})
    k.add(StudyTrial("gemm", {"m": 5, "n": 2, "at": "-"}, "ok", 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        k.close()


def test_nothing_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in HERE:
            where, engine = space()
            drive(create(f"optuna:{name}", where, study=keeper(str(tmp_path / f"{name}.log"))), engine, 2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_real_search_keeps_its_study_and_answers_from_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    shape = {"m": 48, "n": 48, "k": 48}
    first = tune("matmul", shape, trials=12, threads=1, cache=tmp_path / "a.db", study=url)
    assert first.strategy == "optuna:tpe" and first.verified
    import optuna

    (summary,) = optuna.get_all_study_summaries(url)
    assert summary.study_name.startswith("matmul m=48,n=48,k=48 float32 cpu 1 threads ") and summary.user_attrs["flops"] == 2 * 48**3
    trials = optuna.load_study(study_name=summary.study_name, storage=url).trials
    right = [t for t in trials if t.user_attrs["outcome"] == "ok"]
    assert right and all(t.user_attrs["gflops"] > 0 and json.loads(t.user_attrs["opts"]) and t.user_attrs["source"] for t in right)
    assert len({t.user_attrs["outputs"] for t in right}) < len(right) and all(len(t.user_attrs["outputs"]) == 32 for t in right), (
        "some agree bit for bit"
    )
    again = tune("matmul", shape, strategy="optuna:random", trials=24, threads=1, cache=tmp_path / "b.db", study=url)
    assert again.verified
    now = optuna.load_study(study_name=summary.study_name, storage=url).trials
    measured_hashes = [t.user_attrs["hash"] for t in now if "hash" in t.user_attrs]
    assert len(now) > len(trials) and len(measured_hashes) == len(set(measured_hashes)), "nothing is measured twice"


# what goes wrong ----------------------------------------------------------------------------------------------------
def test_unknown_samplers_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="unknown Optuna sampler 'cmase'; did you mean 'cmaes'"):
        create("optuna:cmase", space()[0])
    with pytest.raises(UsageError, match="unknown strategy 'nsga2'; did you mean 'optuna:nsga2'"):
        create("nsga2", space()[0])
    monkeypatch.setattr(optuna_samplers, "find_spec", lambda name: None)
    with pytest.raises(
        UsageError,
        match=r"optuna:gp needs the Python packages scipy and torch: pip install scipy torch \(or tilewright\[optuna-gp\]\), or use optuna:tpe",
    ):
        create("optuna:gp", space()[0])
    with pytest.raises(UsageError, match=r"optuna:cmaes needs the Python package cmaes: pip install cmaes"):
        create("optuna:cmaes", space()[0])
    assert create("optuna", space()[0]).name == "optuna:tpe"


def test_a_study_wants_a_strategy_of_optunas(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a study is kept for Optuna's strategies .* not for 'beam'"):
        tune("matmul", strategy="beam", study=str(tmp_path / "s.log"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense://x", "nonsense.*write a URL such as sqlite:///study.db"),
        ("sqlite:////nowhere/at/all/study.db", "unable to open database file; check the URL"),
        ("/nowhere/at/all/study.log", "No such file or directory"),
        ("study.db", "write sqlite:///study.db"),
        ("postgresql+pg8001://me:secret@localhost/x", "postgresql"),
    ],
)
def test_places_that_cannot_be_opened(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as e:
        keeper(url)
    assert ("secret" not in str(e.value) and "--study" in str(e.value)) or "a URL such as" in str(e.value)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(
        UsageError,
        match=r"cannot open the study postgresql\+psycopg2://me:\*\*\*@localhost/x: it needs the Python package psycopg2: pip install psycopg2",
    ):
        keeper("postgresql+psycopg2://me:secret@localhost/x")


def test_a_file_that_is_not_a_study(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"garbage " * 1000)
    with pytest.raises(UsageError, match="it is a text; it was left as it is"):
        keeper(f"sqlite:///{tmp_path}/s.db")
    (tmp_path / "s.log").write_bytes(b"garbage\n" * 10)
    with pytest.raises(UsageError, match="it is a text, not a journal of Optuna's; it was left as it is"):
        keeper(str(tmp_path / "s.log"))
    assert (tmp_path / "s.db").read_bytes() == b"garbage " * 1000 and (tmp_path / "s.log").read_bytes() == b"garbage\n" * 10
    with sqlite3.connect(tmp_path / "other.db") as c:
        c.execute("CREATE TABLE mine (x)")
    c.close()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(UsageError, match="a database of another program"):
        keeper(f"sqlite:///{tmp_path}/other.db")
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_locked_study_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna_opening, "WAIT_S", 0.1)
    url = urls(tmp_path)[0]
    keeper(url).close()
    blocker = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UsageError, match="database is locked; another process holds it: try again"):
        keeper(url)
    blocker.close()


MEETING = """
import sys, time
from tilewright.search.strategies.optuna_study import StudyKeeper
import optuna, sqlalchemy, alembic.command, optuna.storages._rdb.storage
print("ready", flush=True)
for url in sys.stdin.read().split():
    StudyKeeper(url, "one", [], {"kernel": "matmul", "flops": 5})
print("opened")
"""


def meet(urls: list[str]) -> list[str]:
    """What four processes say that open studies together."""
    made = [
        subprocess.Popen(
            [sys.executable, "-c", MEETING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(4)
    ]
    for p in made:
        assert p.stdout is not None and p.stdout.readline() == "ready\n"
    for p in made:
        assert p.stdin is not None
        p.stdin.write("\n".join(urls))
    for p in made:  # they begin when the last word is read
        assert p.stdin is not None
        p.stdin.close()
    return [p.stdout.read() for p in made if p.stdout is not None and p.wait(240) is not None]


@pytest.mark.slow
def test_searches_that_begin_together_share_a_new_study(tmp_path: Path) -> None:
    said = meet([f"sqlite:///{tmp_path}/{i}.db" for i in range(2)])
    assert said == ["opened\n"] * 4, [s[-300:] for s in said]


@pytest.mark.skipif(not os.environ.get("TILEWRIGHT_TEST_POSTGRESQL"), reason="TILEWRIGHT_TEST_POSTGRESQL names no database")
def test_searches_that_begin_together_share_a_new_study_on_a_server() -> None:
    import sqlalchemy as sa

    url = sa.make_url(os.environ["TILEWRIGHT_TEST_POSTGRESQL"])
    names = [f"tilewright_meet_{i}" for i in range(2)]
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        for n in names:
            c.execute(sa.text(f"CREATE DATABASE {n}"))
        try:
            said = meet([url.set(database=n).render_as_string(hide_password=False) for n in names])
        finally:
            for n in names:
                c.execute(sa.text(f"DROP DATABASE {n} WITH (FORCE)"))
    engine.dispose()
    assert said == ["opened\n"] * 4, [s[-300:] for s in said]


def test_what_another_was_making_is_tried_again_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.exc import IntegrityError, OperationalError

    tries: list[str] = []

    def failing(errors: list[Exception]) -> Any:
        def make() -> str:
            tries.append("")
            if errors:
                raise errors.pop(0)
            return "made"

        return make

    monkeypatch.setattr(optuna_opening, "_PAUSE_S", (0.0, 0.001))
    met = [
        IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed: alembic_version.version_num")),
        OperationalError("CREATE", {}, Exception("table studies already exists")),
        IntegrityError("CREATE", {}, Exception('duplicate key value violates unique constraint "pg_type_typname_nsp_index"')),
    ]
    assert optuna_opening.together(failing(met)) == "made" and len(tries) == 4
    for other in (OperationalError("", {}, Exception("could not connect to server")), ValueError("already exists")):
        tries.clear()
        with pytest.raises(type(other)):
            optuna_opening.together(failing([other]))
        assert len(tries) == 1
    clock = iter(range(0, 1000, 3))
    with pytest.raises(OperationalError):  # not for ever
        optuna_opening.together(failing([met_again() for _ in range(99)]), lambda: next(clock))


def met_again() -> Exception:
    from sqlalchemy.exc import OperationalError

    return OperationalError("CREATE", {}, Exception("table studies already exists"))


@pytest.mark.slow
def test_a_storage_that_fails_during_the_search_loses_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locked when the first trials come, free later: they are written then. Never free: a warning at the end."""
    monkeypatch.setattr(optuna_study, "WAIT_S", 0.05)
    url = urls(tmp_path)[0]
    where, engine = space()
    k = keeper(url)
    strategy = create("optuna:random", where, seed=3, study=k)
    first = drive(strategy, engine, 1)
    blocker = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    asked = first + drive(strategy, engine, 2)
    assert len(asked) > len(first)
    with pytest.warns(UserWarning, match=r"trials are missing in the study .*database is locked.*Their measurements are in the cache"):
        strategy.close()
    blocker.close()
    missing = len(asked) - sum(t.user_attrs["outcome"] == "ok" for t in trials_of(url))
    assert missing > 0
    strategy = create("optuna:random", where, seed=4, study=keeper(url))
    blocker = sqlite3.connect(tmp_path / "study.db", isolation_level=None, check_same_thread=False)
    more = drive(strategy, engine, 1)
    blocker.execute("BEGIN IMMEDIATE")
    more += drive(strategy, engine, 1)
    blocker.execute("ROLLBACK")
    blocker.close()
    strategy.close()
    assert {parse(t.user_attrs["opts"]) for t in trials_of(url) if t.user_attrs["outcome"] == "ok"} >= set(more), (
        "what was not written at once was written later"
    )


@pytest.mark.skipif(not os.environ.get("TILEWRIGHT_TEST_POSTGRESQL"), reason="TILEWRIGHT_TEST_POSTGRESQL names no database")
def test_a_study_on_a_server() -> None:
    import optuna

    url = os.environ["TILEWRIGHT_TEST_POSTGRESQL"]
    for s in optuna.get_all_study_summaries(url):
        optuna.delete_study(study_name=s.study_name, storage=url)
    before, engine = kept_by(url, engine=Tight())
    asked = drive(create("optuna:tpe", Space(engine), study=keeper(url)), engine, 2)
    assert len(asked) > 6 and not set(asked[1:]) & set(before)
    assert any(t.user_attrs["outcome"] == "illegal" for t in trials_of(url))

"""What each strategy finds on a synthetic space within so many measurements."""

from __future__ import annotations

import math
from importlib.util import find_spec

import pytest
from synthetic import Matmulish, measured, space
from tilewright.ir.errors import UsageError
from tilewright.opts.opt import opt
from tilewright.search import Space, Strategy, create, names, register
from tilewright.search.space import amounts, mutate, neighbours
from tilewright.search.strategies.beam import Beam
from tilewright.search.strategies.optuna_samplers import KINDS
from tilewright.search.strategies.walks import crossover

SAMPLERS = [f"optuna:{k.name}" for k in KINDS.values() if not any(find_spec(p) is None for p in k.needs)]
"""Those whose packages are here (`dev` installs what all but the Gaussian process need)."""
ALL = ["portfolio", "beam", "random", "evolve", "choices", "anneal", "genetic", "uniform", "exhaustive", *SAMPLERS]


def drive(
    name: str, trials: int, seed: int = 0, with_starts: bool = True, batch: int = 8, with_templates: bool = True
) -> tuple[float, list[float]]:
    """Best time over the optimum after `trials` measurements, and the best after each."""
    where, engine = space(with_starts, with_templates)
    start = where.starts() if with_starts else []
    strategy = create(name, where, seed=seed, start=start)
    best, curve = math.inf, []
    for opts in start:
        best = min(best, engine.seconds(opts))
        strategy.tell(opts, measured(opts, engine.seconds(opts)))
    while len(curve) < trials and not strategy.done:
        asked = strategy.ask(min(batch, trials - len(curve)))
        if not asked:
            break
        for opts in asked:
            t = engine.seconds(opts)
            best = min(best, t)
            curve.append(best)
            strategy.tell(opts, measured(opts, t))
    return best / engine.optimum(), curve


def test_names_and_registry() -> None:
    assert set(ALL) <= set(names())
    assert names()[0] == "portfolio"
    where, _ = space()
    with pytest.raises(UsageError, match="unknown strategy 'beem'; did you mean 'beam'"):
        create("beem", where)

    class Once(Strategy):
        name = "once"

        def ask(self, n: int) -> list[tuple[object, ...]]:  # type: ignore[override]
            return [()]

        def tell(self, opts: object, measurement: object) -> None:
            pass

    register("once", Once)
    assert create("once", where).ask(1) == [()]


def test_beam_crosses_the_plateau_and_the_trap() -> None:
    """TILE(k) pays only after STAGE(b), which costs before UPCAST(n); greedy descent by single steps from the empty
    schedule stops before it."""
    assert sorted(drive("beam", 120, seed=s, with_starts=False)[0] for s in range(5))[2] < 1.02


def test_greedy_single_steps_do_not() -> None:
    """The space is as deceptive as it claims: from UPCAST(n, 2), where staging costs, no single step but more UPCAST gains."""
    _, engine = space()
    small = (opt("UPCAST", "n", 2),)
    assert engine.seconds((*small, opt("STAGE", "b", at="n"))) > engine.seconds(small)
    assert engine.seconds((*small, opt("TILE", "k", 256))) == engine.seconds(small)


def test_beam_improves_a_start_schedule_sideways() -> None:
    """The start schedule has n upcast by 8; the optimum needs another amount there, which no appended option can give."""
    where, engine = space()
    assert sorted(drive("beam", 80, seed=s)[0] for s in range(5))[2] < 1.05
    best_with_eight = min(
        engine.seconds((*where.starts()[0], opt("UPCAST", "m", m), opt("STAGE", "b", at="n"), opt("TILE", "k", 256)))
        for m in (2, 3, 4, 6, 8, 12, 16)
    )
    assert best_with_eight > 1.05 * engine.optimum()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beam", "evolve", "portfolio"])
def test_without_start_schedules_it_gets_close(name: str) -> None:
    results = [drive(name, 150, seed=s, with_starts=False)[0] for s in range(5)]
    assert sorted(results)[2] < 1.1


@pytest.mark.slow
def test_optuna_finds_the_template_optimum() -> None:
    where, engine = space()
    t = where.templates()[0]
    best = min(
        engine.seconds(o)
        for m in t.params["m"]
        for n in t.params["n"]
        for at in t.params["at"]
        if (o := where.instance(t, {"m": m, "n": n, "at": at})) is not None
    )
    found = sorted(drive("optuna", 60, seed=s)[0] * engine.optimum() for s in range(5))
    assert found[2] < 1.05 * best


@pytest.mark.slow
def test_portfolio_beats_random() -> None:
    """Half-way through a small budget from a start, on most start schedules; from nothing a little later, in the geometric mean."""
    wins = sum(drive("portfolio", 60, seed=s)[0] < drive("random", 60, seed=s)[0] for s in range(6))
    assert wins >= 5
    logs = {n: sum(math.log(drive(n, 120, seed=s, with_starts=False)[0]) for s in range(4)) for n in ("portfolio", "random")}
    assert logs["portfolio"] < 0.5 * logs["random"]


def test_portfolio_models_choices_when_it_starts_empty() -> None:
    where, _ = space()
    assert "choices" in create("portfolio", where, start=[])._arms  # type: ignore[attr-defined]
    assert "choices" not in create("portfolio", where, start=where.starts())._arms  # type: ignore[attr-defined]


def test_the_first_schedules_do_not_depend_on_what_was_measured() -> None:
    """Builds come in any order, so one search knows another start schedule first than the next; their times have noise, too."""
    starts = [(opt("PARALLEL", "m"), opt("UPCAST", "n", 8)), (opt("PARALLEL", "m"), opt("UPCAST", "m", 4), opt("UPCAST", "n", 4))]
    asked = []
    for known in ([], starts[:1], starts[1:], starts):
        where, engine = space()
        search = create("portfolio", where, seed=3, start=starts)
        for opts in known:
            search.tell(opts, measured(opts, engine.seconds(opts)))
        asked.append([*search.ask(5), *search.ask(7)])
    assert asked[0] == asked[1] == asked[2] == asked[3]
    assert len(set(asked[0])) == 12 and not set(asked[0]) & set(starts)


def test_exhaustive_sees_everything_once() -> None:
    class Small(Matmulish):
        def actions(self, done: object) -> list[tuple[object, ...]]:  # type: ignore[override]
            return [a for a in super().actions(done) if a[0].op in ("PARALLEL", "TILE")]  # type: ignore[arg-type]

    where = Space(Small(with_templates=False))
    strategy = create("exhaustive", where)
    asked = []
    while not strategy.done:
        asked += strategy.ask(7)
    assert len(asked) == 2 * 5
    assert len({where.state(o).hash for o in asked}) == 10  # type: ignore[union-attr]


def test_random_ends_when_the_space_does() -> None:
    class Tiny(Matmulish):
        def actions(self, done: object) -> list[tuple[object, ...]]:  # type: ignore[override]
            return [a for a in super().actions(done) if a[0].op == "PARALLEL"]  # type: ignore[arg-type]

    where = Space(Tiny(with_starts=False, with_templates=False))
    strategy = create("random", where)
    asked = []
    for _ in range(100):
        asked += strategy.ask(4)
        if strategy.done:
            break
    assert strategy.done
    assert {where.state(o).hash for o in asked} <= {"", "PARALLEL(m)"}  # type: ignore[union-attr]


def test_beam_ends_when_the_space_does() -> None:
    class Tiny(Matmulish):
        def actions(self, done: object) -> list[tuple[object, ...]]:  # type: ignore[override]
            return [a for a in super().actions(done) if a[0].op in ("PARALLEL", "TILE")]  # type: ignore[arg-type]

    where = Space(Tiny(with_starts=False, with_templates=False))
    strategy = Beam(where)
    asked = 0
    for _ in range(200):
        for opts in strategy.ask(4):
            asked += 1
            strategy.tell(opts, measured(opts, 1.0))
        if strategy.done:
            break
    assert strategy.done
    assert asked == 10


def test_policy_keeps_effects_out() -> None:
    where, _ = space()
    assert where.state((opt("SPLIT", "k", 4),)) is None
    assert "does not allow NONDET" in where.reason((opt("SPLIT", "k", 4),))
    assert Space(Matmulish(), frozenset({"NONDET"})).state((opt("SPLIT", "k", 4),)) is not None


def test_neighbourhood_moves() -> None:
    start = (opt("UPCAST", "m", 8), opt("UPCAST", "n", 16), opt("STAGE", "b", at="n"))
    kinds = {}
    for kind, opts in neighbours(start):
        kinds.setdefault(kind.split()[0], []).append(opts)
    assert (opt("UPCAST", "n", 16), opt("STAGE", "b", at="n")) in kinds["drop"]
    assert (opt("UPCAST", "n", 16), opt("UPCAST", "m", 8), opt("STAGE", "b", at="n")) in kinds["swap"]
    assert (opt("UPCAST", "m", 16), opt("UPCAST", "n", 8), opt("STAGE", "b", at="n")) in kinds["exchange"]
    assert (opt("UPCAST", "m", 7), opt("UPCAST", "n", 16), opt("STAGE", "b", at="n")) in kinds["amount"]
    assert (*start[:2], opt("STAGE", "b", at="m")) in kinds["amount"]
    assert (*start[:2], opt("STAGE", "b", at="n", order="row")) in kinds["amount"]
    assert start not in [o for group in kinds.values() for o in group]


def test_amounts_step_along_the_ladder() -> None:
    assert amounts(8) == [10, 7, 12, 6, 16, 4]
    assert amounts(1) == [2, 3]


def test_mutation_and_crossover_stay_legal() -> None:
    from random import Random

    where, _ = space()
    rng = Random(1)
    a = where.state((opt("PARALLEL", "m"), opt("UPCAST", "n", 8)))
    b = where.state((opt("UPCAST", "m", 6), opt("UPCAST", "n", 32), opt("STAGE", "b", at="n"), opt("TILE", "k", 256)))
    assert a is not None and b is not None
    skeletons = set()
    for _ in range(60):
        child = mutate(where, a, rng)
        assert child is not None and where.state(child.opts) is child and child.hash != a.hash
        both = crossover(where, a, b, rng)
        assert both is not None
        skeletons.add(both.skeleton)
    assert any(("PARALLEL", "m") in s and ("STAGE", "b") in s for s in skeletons)

"""Simulated searches: recording, the file, every strategy on it, the score."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import FakeMeasurer, space
from tilewright.ir.errors import UsageError
from tilewright.measure.outcome import Outcome
from tilewright.search import Recording, create
from tilewright.search.bench.scores import random_expectation, record, score, simulate


def recording(trials: int = 400) -> Recording:
    where, engine = space()
    m = FakeMeasurer(engine.seconds, outcomes=lambda o: Outcome.crash if len(o) % 5 == 4 else Outcome.ok)
    return record(where, m, create("random", where, seed=9, start=where.starts()), trials, {"kernel": "matmulish"})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def recorded() -> Recording:
    return recording()


def test_record_keeps_start_schedules_failures_and_costs(recorded: Recording) -> None:
    assert len(recorded.entries) == 400
    assert recorded.entries[0].opts == recorded.starts()[0]
    assert {e.outcome for e in recorded.entries} == {"ok", "crash"}
    assert all((e.t_min is None) == (e.outcome == "crash") for e in recorded.entries)
    assert any(e.template == "gemm" for e in recorded.entries)


def test_file_round_trip(recorded: Recording, tmp_path: Path) -> None:
    path = tmp_path / "space.jsonl"
    recorded.save(path)
    assert Recording.load(path) == recorded
    assert len(path.read_text().splitlines()) == 401


def test_damaged_files_name_the_line(recorded: Recording, tmp_path: Path) -> None:
    path = tmp_path / "space.jsonl"
    recorded.save(path)
    lines = path.read_text().splitlines()
    lines[7] = lines[7].replace('"hash"', '"hush"')
    path.write_text("\n".join(lines))
    with pytest.raises(UsageError, match="line 8: not a recorded space"):
        Recording.load(path)
    path.write_text('{"tilewright_space": 99}\n')
    with pytest.raises(UsageError, match="schema 99, this version reads 1"):
        Recording.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["portfolio", "beam", "optuna:tpe", "random", "evolve", "exhaustive"])
def test_every_strategy_runs_on_a_recording(name: str, recorded: Recording) -> None:
    r = simulate(recorded, name, trials=60, seed=1)
    assert r.strategy == name
    assert list(r.curve) == sorted(r.curve, reverse=True)
    assert len(r.curve) > 12
    assert r.charged_s == pytest.approx(0.015 * len(r.curve), rel=0.5)
    assert simulate(recorded, name, trials=60, seed=1) == r


def test_guided_search_scores_above_random(recorded: Recording) -> None:
    def mean(name: str) -> float:
        return sum(score(recorded, simulate(recorded, name, trials=60, seed=s, begin="none").curve) for s in range(3)) / 3

    assert mean("portfolio") > mean("random") + 0.1


def test_random_expectation_is_the_mean_of_draws(recorded: Recording) -> None:
    from random import Random

    expected = random_expectation(recorded, 10)
    assert expected == sorted(expected, reverse=True)
    valid = [e.t_min for e in recorded.entries if e.t_min is not None]
    times = valid + [max(valid)] * (len(recorded.entries) - len(valid))
    rng = Random(0)
    drawn = sum(min(rng.sample(times, 10)) for _ in range(4000)) / 4000
    assert expected[9] == pytest.approx(drawn, rel=0.03)


def test_score_of_the_optimum_is_one(recorded: Recording) -> None:
    best = min(e.t_min for e in recorded.entries if e.t_min is not None)
    assert score(recorded, [best] * 40) == pytest.approx(1.0)
    assert score(recorded, random_expectation(recorded, 40)) == pytest.approx(0.0, abs=1e-9)

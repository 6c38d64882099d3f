"""What options are worth: which others fall with one, and that all of it is measured."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tilewright import devices, named_kernels
from tilewright.cli import main
from tilewright.ir.normal_form import normalise
from tilewright.measure import Duel, Measurement, Outcome
from tilewright.measure.timing import REJECT
from tilewright.opts import Opt, apply, opt
from tilewright.search.finals import CLEAR
from tilewright.search.option_worth import Explanation, explain, without

KERNEL = normalise(named_kernels.make("matmul", {"m": 48, "n": 64, "k": 32}))
OPTS = (
    opt("UPCAST", "m", 4),
    opt("UPCAST", "n", 32),
    opt("TILE", "k", 16),
    opt("MOVE", "k", before="m"),
    opt("STAGE", "b", at="k"),
    opt("UNROLL", "k", 2),
)
CPU = devices.get("cpu")


@pytest.mark.parametrize("i", range(len(OPTS)))
def test_what_is_left_is_legal_and_what_fell_is_named(i: int) -> None:
    left, fell = without(KERNEL, OPTS, i, CPU)
    apply(KERNEL, left, CPU.target)
    assert set(left) | set(fell) | {OPTS[i]} == set(OPTS) and OPTS[i] not in left and len(left) + len(fell) == len(OPTS) - 1


def test_a_move_of_a_block_falls_with_the_block() -> None:
    opts = (opt("TILE", "n", 32), opt("MOVE", "n.t", before="k"), opt("UPCAST", "m", 4))
    left, fell = without(KERNEL, opts, 0, CPU)
    assert fell == (opts[1],) and left == (opts[2],)


@pytest.mark.slow
def test_everything_is_measured_and_the_worst_loss_comes_first() -> None:
    found = explain(KERNEL, OPTS, CPU, 1, 60.0)
    assert found.complete and not found.interrupted and found.seconds > 0 and found.plain
    assert {w.opt for w in found.worths} == set(OPTS)
    factors = [w.factor for w in found.worths if w.factor]
    assert factors == sorted(factors, reverse=True) and len(factors) == len(OPTS)
    for w in found.worths:
        assert w.neighbour is None or (w.neighbour.op, w.neighbour.on) == (w.opt.op, w.opt.on)
        assert (w.neighbour is None) == (w.beside is None) and w.neighbour != w.opt
        # what comes near was compared in pairs, and only what is far away was not
        assert w.without is not None and (w.without.noise is not None or w.without.factor >= CLEAR)


class Fake:
    """Instead of a Measurer: each schedule takes the seconds that `takes` says, in a duel give or take `noise`."""

    def __init__(self, takes: Callable[[tuple[Opt, ...]], float], noise: float, stop_after: int = 1000) -> None:
        self.takes, self.noise, self.calls, self.stop_after = takes, noise, [], stop_after  # type: ignore[var-annotated]

    def __call__(self, *_: object, **__: object) -> Fake:
        return self

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def build(self, wanted: Sequence[tuple[Opt, ...]]) -> Any:
        return ((i, SimpleNamespace(opts=o, sha=str(o))) for i, o in reversed(list(enumerate(wanted))))

    def measure(self, built: Sequence[Any], incumbent_s: float | None = None) -> list[Measurement]:
        self.calls.append(built[0].opts)
        if len(self.calls) > self.stop_after:
            raise KeyboardInterrupt
        t = self.takes(built[0].opts)
        slow = incumbent_s is not None and t > REJECT * incumbent_s
        return [Measurement(built[0].opts, Outcome.slow if slow else Outcome.ok, t_min=t, t_med=t, n=5)]

    def duel(self, a: Any, b: Any, rounds: int) -> Duel:
        t, base = self.takes(a.opts), self.takes(b.opts)
        return Duel(t / base, abs(t / base - 1) > self.noise, t, base, rounds, self.noise)


def faked(monkeypatch: pytest.MonkeyPatch, fake: Fake) -> Explanation:
    monkeypatch.setattr("tilewright.measure.Measurer", fake)
    return explain(KERNEL, OPTS, CPU, 1, 60.0)


@pytest.mark.parametrize(("noise", "worth"), [(0.05, False), (0.01, True)])
def test_two_percent_are_a_worth_only_beyond_the_noise(monkeypatch: pytest.MonkeyPatch, noise: float, worth: bool) -> None:
    found = faked(monkeypatch, Fake(lambda o: 1e-3 if set(o) == set(OPTS) else 1.02e-3, noise))
    assert {w.without.significant for w in found.worths if w.without} == {worth}
    assert all(w.without and w.without.noise == noise and w.factor == pytest.approx(1.02) for w in found.worths)
    from tilewright.cli.schedules.option_worth import ratio_text

    assert found.worths[0].without and ratio_text(found.worths[0].without) == ("1.02x ±1.0 %" if worth else "no difference ±5.0 %")


def test_what_is_far_away_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = faked(monkeypatch, Fake(lambda o: 1e-3 if set(o) == set(OPTS) else 8e-3, 0.01))
    assert all(w.without and w.without.noise is None and w.without.significant for w in found.worths)


def test_an_interrupt_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = faked(monkeypatch, Fake(lambda o: 1e-3, 0.01, stop_after=5))
    assert found.interrupted and not found.complete and found.measured == 3
    assert sum(w.without is not None for w in found.worths) == 2 and {w.why for w in found.worths if not w.without} == {"not measured"}


def test_a_lucky_first_time_does_not_make_the_schedule_too_slow_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1e-3, 20e-3, 20e-3])
    found = faked(monkeypatch, Fake(lambda o: next(times, 1e-3) if o == OPTS else 2e-3, 0.01))
    assert found.seconds == 1e-3 and found.complete


def test_one_disturbed_measurement_of_the_schedule_makes_no_option_look_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []

    def takes(opts: tuple[Opt, ...]) -> float:
        if opts != OPTS:
            return 8e-3
        calls.append(0)
        return 5e-3 if len(calls) == 1 else 1e-3

    found = faked(monkeypatch, Fake(takes, 0.01))
    assert found.seconds == 1e-3 and all(w.factor == pytest.approx(8.0) for w in found.worths)


@pytest.mark.slow
def test_a_short_budget_says_that_it_was_short() -> None:
    found = explain(KERNEL, OPTS, CPU, 1, 0.0)
    assert not found.complete and found.seconds > 0


@pytest.mark.slow
def test_the_command_needs_a_cached_schedule_and_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--kernel", "matmul", "--shape", "m=48,n=64,k=32", "--threads", "1", "--cache", str(tmp_path / "c.db")]
    assert main(["explain", *where]) == 5
    said = capsys.readouterr().err
    assert "with 1 thread; tune it first: tune run --kernel matmul --shape m=48,n=64,k=32" in said
    assert main(["explain", *where, "--numerics", "fixed"]) == 5 and "--numerics fixed" in capsys.readouterr().err
    # the command that it says, as it says it, is the one that helps
    assert main([*shlex.split(said.split("tune it first: tune ")[1]), "--trials", "4", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["explain", *where, "--budget", "3s", "--format", "json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["seconds"] > 0 and len(got["options"]) == len(got["opts"])
    assert main(["explain", *where, "--budget", "0.5s"]) == 0
    assert "what each option is worth" in capsys.readouterr().out

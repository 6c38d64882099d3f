"""What options are worth: which others fall with one, and that all of it is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tilewright import devices, kernels
from tilewright.cli import main
from tilewright.ir.normalise import normalise
from tilewright.opts import apply, opt
from tilewright.search.explain import explain, without

KERNEL = normalise(kernels.make("matmul", {"m": 48, "n": 64, "k": 32}))
OPTS = (opt("UPCAST", "m", 4), opt("UPCAST", "n", 32), opt("TILE", "k", 16), opt("MOVE", "k", before="m"), opt("STAGE", "b", at="k"), opt("UNROLL", "k", 2))
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


def test_everything_is_measured_and_the_worst_loss_comes_first() -> None:
    found = explain(KERNEL, OPTS, CPU, 1, 60.0)
    assert found.complete and found.seconds > 0 and found.plain
    assert {w.opt for w in found.worths} == set(OPTS)
    factors = [w.factor for w in found.worths if w.factor]
    assert factors == sorted(factors, reverse=True) and len(factors) >= len(OPTS) - 1
    for w in found.worths:
        assert w.neighbour is None or (w.neighbour.op, w.neighbour.on) == (w.opt.op, w.opt.on)
        assert (w.neighbour is None) == (w.beside is None) and w.neighbour != w.opt


def test_a_short_budget_says_that_it_was_short() -> None:
    found = explain(KERNEL, OPTS, CPU, 1, 0.0)
    assert not found.complete and found.seconds > 0


def test_the_command_needs_a_cached_schedule_and_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--kernel", "matmul", "--shape", "m=48,n=64,k=32", "--threads", "1", "--cache", str(tmp_path / "c.db")]
    assert main(["explain", *where]) == 5
    assert "tune it first: tune run --kernel matmul --shape m=48,n=64,k=32" in capsys.readouterr().err
    assert main(["run", *where, "--trials", "4", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["explain", *where, "--budget", "20s", "--format", "json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["seconds"] > 0 and len(got["options"]) == len(got["opts"])

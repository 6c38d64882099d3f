"""Bisecting a wrong schedule: broken passes, options, emission and devices are named, and option lists get as short
as they can."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
from fake_device import SCRIPT, SPEC
from tilewright import named_kernels, targets
from tilewright.cli import main
from tilewright.heuristics import starts
from tilewright.ir.errors import OptError
from tilewright.ir.node import Node, const
from tilewright.ir.normal_form import normalise
from tilewright.lower import passes, pipeline
from tilewright.lower.passes import barriers
from tilewright.lower.passes import scheduling as interleave
from tilewright.measure.checking.bisect import bisect, shortest
from tilewright.opts import Opts, parse
from tilewright.opts.axis_plan import AxisPlan
from tilewright.opts.registry import OPTIONS
from tilewright.program.program import For, Instr, Phase, Program, statements
from tilewright.targets import Target

AVX2, SM90 = targets.named("avx2"), targets.named("sm_90a")
MATMUL = normalise(named_kernels.make("matmul", {"m": 6, "n": 24, "k": 12}))
LIST = parse([["UPCAST", "m", 2], ["UPCAST", "n", 8], ["UNROLL", "k", 2], ["PARALLEL", "m"], ["STAGE", "b", {"at": "m"}]])
TILED = parse([["LOCAL", "m", 2], ["LOCAL", "n", 8], ["TILE", "k", 4], ["STAGE", "a", {"at": "k"}], ["STAGE", "b", {"at": "k"}]])


def broken_pass(name: str, change: Callable[[Program], None]) -> tuple[passes.Pass, ...]:
    """Today's passes, and one behind them."""
    return (*passes.PASSES, passes.Pass(name, lambda target: True, lambda program, target: change(program)))


def swapped(program: Program) -> None:
    """Subtracts, and multiplies, the other way round in a way that shows: the first operand twice."""
    s = next(s for s in statements(program.phases[0].body) if isinstance(s, Instr) and s.op in ("fma", "mul") and s.args[0].dtype.is_float)
    s.args = (s.args[0], s.args[0], *s.args[2:])


def reverse(phase: Phase) -> None:
    """The innermost loop backwards: what uses a value comes before what makes it."""
    loop = [s for s in statements(phase.body) if isinstance(s, For)][-1]
    loop.body.stmts.reverse()


def test_right_programs_have_no_culprit() -> None:
    for target, opts, passes_ in (
        (AVX2, LIST, ["flat", "neighbours", "columns", "bytes", "narrowing", "counters", "interleave"]),
        (SM90, TILED, ["barriers"]),
    ):
        found = bisect(MATMUL, opts, target)
        assert found.culprit == "" and [s for s, _ in found.stages] == ["emit", *passes_] and found.opts == opts


def test_a_broken_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", broken_pass("fold_constants", swapped))
    found = bisect(MATMUL, LIST, AVX2)
    assert found.culprit == "fold_constants" and [s for s, w in found.stages if not w] == [
        "emit",
        "flat",
        "neighbours",
        "columns",
        "bytes",
        "narrowing",
        "counters",
        "interleave",
    ]
    assert "integer twin: c differs at " in found.stages[-1][1]
    assert found.opts == (), "it breaks every schedule"


def test_of_two_broken_passes_the_first_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", (*broken_pass("one", swapped), *broken_pass("two", swapped)[-1:]))
    assert bisect(MATMUL, (), AVX2).culprit == "one"


def test_a_pass_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(program: Program) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(passes, "PASSES", broken_pass("hoist", fails))
    found = bisect(MATMUL, (), AVX2)
    assert found.culprit == "hoist" and "raised KeyError: 'lost' (measure/test_bisect.py:" in found.stages[-1][1]


def test_a_pass_that_makes_nonsense_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", broken_pass("reverse", lambda program: reverse(program.phases[0])))
    assert bisect(MATMUL, (), AVX2).culprit == "reverse"


def test_reordering_that_breaks_a_dependence_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleave, "interleave", lambda phase, registers, shared: reverse(phase))
    assert bisect(MATMUL, parse([["UPCAST", "n", 8]]), AVX2).culprit == "interleave"


def test_missing_barriers_are_the_barrier_pass_fault_and_not_emissions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barriers, "place", lambda phase, warp: None)
    found = bisect(MATMUL, TILED, SM90)
    assert found.culprit == "barriers" and "no barrier since" in found.stages[-1][1]
    assert [o.op for o in found.opts] in (["LOCAL", "STAGE"], ["LOCAL", "TILE", "STAGE"])


class Skewed(AxisPlan):
    """An axis whose unrolled copies are one element too far."""

    @property
    def index(self) -> Node:
        from tilewright.ir import index as ix

        return ix.add(super().index, const(1))


def skewing(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = OPTIONS[op].act
    assert real is not None

    def handler(s, o):  # type: ignore[no-untyped-def]
        real(s, o)
        for a in s.find(o.on, o):
            plan = s.plans[a]
            s.plans[a] = Skewed(**{f.name: getattr(plan, f.name) for f in fields(AxisPlan)})

    monkeypatch.setitem(OPTIONS, op, replace(OPTIONS[op], act=handler))


@pytest.mark.parametrize("op", ["UNROLL", "TILE"])
def test_a_broken_option_is_named(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    skewing(op, monkeypatch)
    opts = (*LIST, *parse([["TILE", "k", 4]]))
    found = bisect(MATMUL, opts, AVX2)
    assert found.culprit == "emit" and [o.op for o in found.opts] == [op]


def test_an_option_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(s, o):  # type: ignore[no-untyped-def]
        raise AssertionError("no such plan")

    monkeypatch.setitem(OPTIONS, "UNROLL", replace(OPTIONS["UNROLL"], act=handler))
    found = bisect(MATMUL, LIST, AVX2)
    assert found.culprit == "schedule" and [o.op for o in found.opts] == ["UNROLL"] and "no such plan" in found.stages[-1][1]


def test_options_that_break_only_together(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.emit

    def emit(scheduled, expand):  # type: ignore[no-untyped-def]
        program = real(scheduled, expand)
        if {"UNROLL", "STAGE"} <= {o.op for o in scheduled.opts}:
            swapped(program)
        return program

    monkeypatch.setattr(pipeline, "emit", emit)
    found = bisect(MATMUL, LIST, AVX2)
    # STAGE at the loop m needs nothing else to be legal
    assert found.culprit == "emit" and [o.op for o in found.opts] == ["UNROLL", "STAGE"]


def test_options_that_are_not_legal_raise() -> None:
    with pytest.raises(OptError, match="no axis 'q'"):
        bisect(MATMUL, parse([["UPCAST", "q", 8]]), AVX2)


@pytest.mark.many
@pytest.mark.parametrize("name", ["attention", "embedding_grad", "cumsum", "cross_entropy", "matmul_int8"])
def test_the_start_schedules_of_other_kernels_are_right(name: str) -> None:
    kernel = normalise(named_kernels.make(name, dict(named_kernels.get(name).odd_shape)))
    for target in (AVX2, SM90):
        found = bisect(kernel, starts(kernel, target, 2)[0], target)
        assert found.culprit == "", found.stages


def subsets(count: int) -> list[frozenset[int]]:
    return [frozenset(n for n in range(count) if bits >> n & 1) for bits in range(1 << count)]


def test_shortest_finds_just_what_is_needed() -> None:
    for count in range(1, 8):
        for needed in subsets(count):
            found = shortest(tuple(range(count)), lambda some, needed=needed: needed <= set(some))  # type: ignore
            assert found == tuple(sorted(needed))


def test_nothing_of_the_shortest_can_be_left_out() -> None:
    """Also where either of two causes does, and most parts of the list fail in no way (as those that are not legal)."""
    for one in subsets(5)[1:]:
        for other in subsets(5)[1:]:

            def fails(some: Opts, causes: tuple[frozenset[int], ...] = (one, other)) -> bool:
                return any(c <= set(some) for c in causes)  # type: ignore[comparison-overlap]

            found = shortest(tuple(range(5)), fails)  # type: ignore[arg-type]
            assert fails(found) and list(found) == sorted(found)  # type: ignore[type-var]
            assert not any(fails(found[:i] + found[i + 1 :]) for i in range(len(found)))


# the command --------------------------------------------------------------------------------------------------------
ARGS = ["bisect", "--kernel", "matmul", "--shape", "m=6,n=24,k=12", "--opts", json.dumps([o.json for o in LIST])]


def test_the_command_names_the_pass_and_how_to_look(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(passes, "PASSES", broken_pass("fold_constants", swapped))
    assert main([*ARGS, "--target", "avx2"]) == 4
    said = capsys.readouterr().out
    assert "emit         right" in said and "fold_constants WRONG: integer twin: c differs" in said
    assert "the pass fold_constants breaks it" in said and "--target avx2 --opts '(none)' --stage passes" in said


def test_the_command_names_the_option(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    skewing("UNROLL", monkeypatch)
    assert main([*ARGS, "--target", "avx2"]) == 4
    said = capsys.readouterr().out
    assert "look at UNROLL in opts/" in said and "the shortest list that shows it: Rk2\n" in said
    assert """--opts Rk2 --stage schedule,program""" in said


def test_a_target_that_is_not_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGS, "--target", "avx2"]) == 0
    assert "every Program is right; what avx2's compiler makes" in capsys.readouterr().out


@pytest.mark.slow
def test_a_right_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ARGS, "--device", "cpu", "--threads", "1"]) == 0
    assert "cpu          right" in capsys.readouterr().out


@pytest.mark.slow
def test_right_programs_and_a_wrong_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": [{"do": "wrong"}]}))
    monkeypatch.setenv(SCRIPT, str(script))
    assert main([*ARGS, "--device", SPEC]) == 4
    said = capsys.readouterr().out
    assert "interleave   right" in said and "fake         WRONG: wrong: " in said
    assert "the fault is the renderer's, the compiler's or the device's" in said


def test_the_other_compiler_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from tilewright.cli.schedules import bisect as command

    monkeypatch.setattr(command, "_measured", lambda kernel, opts, device, vars, args: "wrong: at [0]" if device.name == "cpu" else "")
    assert main([*ARGS, "--device", "cpu"]) == 4
    assert "cpu:c, which renders and compiles in another way, is right" in capsys.readouterr().out


def test_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "--kernel", "matmul", "--opts", '[["UPCAST","q",2]]']) == 2
    assert "no axis 'q'" in capsys.readouterr().err


def test_targets_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that runs for processors only is not blamed for a GPU's Programs."""
    only = passes.Pass("wide", lambda target: not target.groups, lambda program, target: swapped(program))
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, only))
    assert bisect(MATMUL, (), SM90).culprit == "" and bisect(MATMUL, (), AVX2).culprit == "wide"
    assert isinstance(AVX2, Target)

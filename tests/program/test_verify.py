"""The verifier refuses Programs that are broken in one place, and accepts what lowering makes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir.dtypes import bool_, float32, float64, int32
from tilewright.ir.errors import InternalError, OptError
from tilewright.lower import lower, passes
from tilewright.opts import actions, apply, parse
from tilewright.program import verify as verifier
from tilewright.program.program import Block, For, If, Instr, Mem, Program, Stmt, Val, statements
from tilewright.program.verify import verify

TILE = [["UPCAST", "m", 4], ["UPCAST", "n", 32], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]
GROUP = [["PARALLEL", "m"], ["PARALLEL", "n"], ["LOCAL", "m", 8], ["LOCAL", "n", 8], ["TILE", "k", 8], ["STAGE", "a", {"at": "k"}]]


def made(name: str) -> Program:
    """A Program with loops, masks, vectors, scratch and shared memory, barriers or conditions."""
    if name == "tile":
        return lower(apply(named_kernels.make("matmul", {"m": 31, "n": 95, "k": 20}, "float32"), parse(TILE), targets.named("znver5")))
    if name == "group":
        return lower(apply(named_kernels.make("matmul", {"m": 24, "n": 24, "k": 24}, "float32"), parse(GROUP), targets.named("sm_90a")))
    kernel = named_kernels.make(name, None, None)
    target = targets.named("avx2")
    return lower(apply(kernel, starts(kernel, target, 1)[0], target))


PROGRAMS = ("tile", "group", "softmax", "embedding")


def everything(p: Program) -> Iterator[Stmt]:
    for phase in p.phases:
        yield from statements(phase.body)


def instrs(p: Program) -> Iterator[Instr]:
    return (s for s in everything(p) if isinstance(s, Instr))


def loops(p: Program) -> Iterator[For]:
    return (s for s in everything(p) if isinstance(s, For))


def blocks(p: Program) -> Iterator[Block]:
    for phase in p.phases:
        yield phase.body
        yield from (s.body for s in statements(phase.body) if isinstance(s, (For, If)))


def retyped(v: Val, dtype: Any = None, lanes: int | None = None) -> Val:
    return Val(v.id, dtype or v.dtype, lanes or v.lanes, v.depth, v.name)


# each breaks a Program in one place and says whether there was such a place -------------------------------------------------
Break = Callable[[Program], bool]
BREAKS: dict[str, tuple[Break, str]] = {}


def mutant(message: str) -> Callable[[Break], Break]:
    def note(f: Break) -> Break:
        BREAKS[f.__name__] = f, message
        return f

    return note


def change(found: Iterator[Instr], edit: Callable[[Instr], None]) -> bool:
    s = next(found, None)
    if s is not None:
        edit(s)
    return s is not None


@mutant("is not an operation of Programs")
def unknown_operation(p: Program) -> bool:
    return change(instrs(p), lambda s: setattr(s, "op", "frobnicate"))


@mutant("operand|gives")
def operand_of_another_type(p: Program) -> bool:
    found = (
        (s, x) for s in instrs(p) if s.op in ("add", "fma", "max", "sub") for x in (next(t.out for t in instrs(p) if t.out is not None),)
    )
    for s, x in found:
        if x.dtype is not s.args[0].dtype:
            s.args = (s.args[0], x, *s.args[2:])
            return True
    return False


@mutant("before it is defined")
def use_before_definition(p: Program) -> bool:
    for b in blocks(p):
        for i, (s, t) in enumerate(zip(b.stmts, b.stmts[1:])):
            if isinstance(s, Instr) and isinstance(t, Instr) and s.out is not None and s.out in t.args:
                b.stmts[i : i + 2] = [t, s]
                return True
    return False


@mutant("outside the block")
def use_outside_the_block(p: Program) -> bool:
    for b in blocks(p):
        for i, s in enumerate(b.stmts):
            inner = [t for t in statements(s.body) if isinstance(t, Instr) and t.out is not None] if isinstance(s, For) else []
            if inner:
                out = inner[0].out
                assert out is not None
                b.stmts.insert(i + 1, Instr("neg", Val(10**6, out.dtype, out.lanes, out.depth - 1), (out,)))
                return True
    return False


@mutant("yields")
def a_yield_is_lost(p: Program) -> bool:
    s = next((s for s in loops(p) if s.yields), None)
    if s is not None:
        s.yields.pop()
    return s is not None


@mutant("carries begins as")
def a_yield_of_another_type(p: Program) -> bool:
    s = next((s for s in loops(p) if s.yields), None)
    if s is not None:
        s.yields[0] = s.var
    return s is not None


@mutant("the step is")
def a_step_of_nothing(p: Program) -> bool:
    s = next(loops(p), None)
    if s is not None:
        s.step = 0
    return s is not None


@mutant("a bound is a")
def a_bound_of_another_type(p: Program) -> bool:
    s = next((s for s in loops(p) if s.carried), None)
    if s is not None:
        s.hi = s.init[0]
    return s is not None


@mutant("lanes")
def wrong_lanes(p: Program) -> bool:
    for s in instrs(p):
        if s.op in ("fma", "mul", "add") and s.out is not None and s.out.lanes > 1:
            s.out = retyped(s.out, lanes=s.out.lanes - 1)
            return True
    return False


@mutant("gives bool, not")
def a_comparison_that_gives_a_number(p: Program) -> bool:
    return change((s for s in instrs(p) if s.op in ("lt", "le", "eq")), lambda s: setattr(s, "out", retyped(s.result, int32)))


@mutant("gives .* not float64")
def a_load_of_another_type(p: Program) -> bool:
    return change(
        (s for s in instrs(p) if s.op == "load" and s.mem.dtype is float32), lambda s: setattr(s, "out", retyped(s.result, float64))
    )


@mutant("no attribute of it")
def a_division_by_zero(p: Program) -> bool:
    return change((s for s in instrs(p) if s.op in ("idiv", "imod")), lambda s: setattr(s, "attr", 0))


@mutant("no attribute of it")
def a_lane_that_is_not_there(p: Program) -> bool:
    return change((s for s in instrs(p) if s.op == "extract"), lambda s: setattr(s, "attr", s.args[0].lanes))


@mutant("no attribute of it")
def a_store_to_nowhere(p: Program) -> bool:
    return change((s for s in instrs(p) if s.op == "store"), lambda s: setattr(s, "attr", None))


@mutant("no attribute of it")
def an_attribute_too_many(p: Program) -> bool:
    return change((s for s in instrs(p) if s.op in ("fma", "mul")), lambda s: setattr(s, "attr", 3))


@mutant("is an input and is not written")
def a_write_to_an_input(p: Program) -> bool:
    at = next(i for i, x in enumerate(p.params) if x.role == "in" and x.dtype is float32)
    return change(
        (s for s in instrs(p) if s.op == "store" and s.mem.dtype is float32),
        lambda s: setattr(s, "attr", Mem("param", at, float32, align=4)),
    )


@mutant("there is no parameter")
def a_parameter_that_is_not_there(p: Program) -> bool:
    return change(
        (s for s in instrs(p) if s.op == "load" and s.mem.space == "param"), lambda s: setattr(s, "attr", replace(s.mem, base=99))
    )


@mutant("is no memory")
def memory_that_is_not_there(p: Program) -> bool:
    return change((s for s in instrs(p) if s.op == "load"), lambda s: setattr(s, "attr", replace(s.mem, space="heap")))


@mutant("has no (scratch|shared) memory")
def memory_without_a_size(p: Program) -> bool:
    had, p.scratch, p.shared = p.scratch or p.shared, 0, 0
    return had > 0


@mutant("is no place of")
def a_place_past_the_end(p: Program) -> bool:
    size = {"scratch": p.scratch, "shared": p.shared}
    return change(
        (s for s in instrs(p) if s.op == "store" and s.mem.space in size),
        lambda s: setattr(s, "attr", replace(s.mem, base=size[s.mem.space])),
    )


@mutant("is outside the memory")
def a_constant_index_past_the_end(p: Program) -> bool:
    for phase in p.phases:
        for s in statements(phase.body):
            if isinstance(s, Instr) and s.op == "store" and s.mem.space in ("scratch", "shared") and len(s.args) == 2:
                far = Val(10**6, s.args[0].dtype, 1, 0)
                s.args = (far, s.args[1])
                phase.body.stmts.insert(0, Instr("const", far, (), 10**6))
                return True
    return False


@mutant("one operand|operands")
def an_operand_is_lost(p: Program) -> bool:
    return change((s for s in instrs(p) if s.op in ("fma", "select", "add")), lambda s: setattr(s, "args", s.args[:-1]))


@mutant("is defined twice")
def a_value_defined_twice(p: Program) -> bool:
    for b in blocks(p):
        for i, s in enumerate(b.stmts):
            if isinstance(s, Instr) and s.out is not None:
                b.stmts.insert(i, s)
                return True
    return False


@mutant("says it is defined at depth")
def a_wrong_depth(p: Program) -> bool:
    return change((s for s in instrs(p) if s.out is not None), lambda s: setattr(s.out, "depth", 17))


@mutant("the condition is a")
def a_condition_that_is_no_bool(p: Program) -> bool:
    s = next((s for s in everything(p) if isinstance(s, If)), None)
    if s is not None:
        s.cond = p.phases[-1].item
    return s is not None


@mutant("not all threads of the group run")
def a_barrier_that_some_threads_miss(p: Program) -> bool:
    for phase in p.phases:
        if phase.thread is not None:
            seven, some = Val(10**6, phase.thread.dtype, 1, 0), Val(10**6 + 1, bool_, 1, 0)
            phase.body.stmts[:0] = [
                Instr("const", seven, (), 7),
                Instr("lt", some, (phase.thread, seven)),
                If(some, Block([Instr("barrier", None, ())])),
            ]
            return True
    return False


@mutant("phase of one thread")
def a_barrier_without_a_group(p: Program) -> bool:
    alone = next((x for x in p.phases if x.threads == 1), None)
    if alone is not None:
        alone.body.stmts.insert(0, Instr("barrier", None, ()))
    return alone is not None


@mutant("two parameters have one name")
def two_parameters_of_one_name(p: Program) -> bool:
    p.params = (p.params[0], replace(p.params[1], name=p.params[0].name), *p.params[2:])
    return True


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return {name: made(name) for name in PROGRAMS}


@pytest.mark.many
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_program_is_refused(name: str, programs: dict[str, Program]) -> None:
    """In every one of the Programs that has such a place, and in one at least."""
    broken, message = BREAKS[name]
    tried = 0
    for whole in programs.values():
        p = copy.deepcopy(whole)
        if broken(p):
            tried += 1
            with pytest.raises(InternalError, match=message):
                verify(p)
    assert tried, "no Program has a place to break like this"


def test_the_message_shows_the_place(programs: dict[str, Program]) -> None:
    p = copy.deepcopy(programs["tile"])
    assert operand_of_another_type(p)
    with pytest.raises(InternalError) as caught:
        verify(p, "after spelling")
    text = str(caught.value)
    assert text.startswith("matmul: a malformed Program after spelling: ")
    marked = [line for line in text.splitlines() if line.startswith(">")]
    assert len(marked) == 1 and " = " in marked[0]
    assert 3 <= len(text.splitlines()) <= 12


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
@pytest.mark.covering(each=3)
def test_what_lowering_makes_is_accepted(name: str) -> None:
    """Of every kernel for a processor, OpenCL and CUDA: no options, and some of the first steps that a search may take. (Start schedules and long
    random schedules are verified wherever a test lowers them.)"""
    kernel = named_kernels.make(name, None, None)
    for target in map(targets.named, ("avx2", "opencl-gpu", "sm_90a")):
        steps = actions(apply(kernel, (), target))
        verify(lower(apply(kernel, (), target)))
        for opts in steps[:: 1 + len(steps) // 3]:
            with suppress(OptError):  # some take more memory than there is
                verify(lower(apply(kernel, opts, target)))


def test_the_twin_is_accepted() -> None:
    for name in ("softmax", "gelu"):
        verify(lower(apply(named_kernels.make(name, None, None), (), targets.named("avx2")), expand=False))


# the switch -----------------------------------------------------------------------------------------------------------------
def test_the_switch_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pass breaks is found after all of them, and the pass is named."""
    bad = passes.Pass("spelling", lambda target: True, lambda program, target: [None, unknown_operation(program)][0])
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, bad))
    schedule = apply(named_kernels.make("add", None, None), (), targets.named("avx2"))
    for value in ("", "0"):
        monkeypatch.setenv(verifier.VARIABLE, value)
        lower(schedule)
    monkeypatch.setenv(verifier.VARIABLE, "1")
    with pytest.raises(InternalError, match="after spelling"):
        lower(schedule)

"""Tiles in several slots (STAGE with depth > 1): right for every shape, one barrier an iteration, and refused where nothing can copy ahead."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from checks import check_twin
from cuda_build import needs_cxx, needs_nvdisasm, needs_nvrtc
from cuda_text import check_cuda
from group_mutants import found, place_of
from ring_kernels import DRAWN
from thorough import amount
from tilewright import named_kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.machine_code import counts
from tilewright.ir import OptError, VerifyError, sym
from tilewright.lower import lower
from tilewright.opts import Opts, apply, opt
from tilewright.program.program import For, Instr, Program, statements
from tilewright.renderers import render

Choose = Callable[[int], int]


def cases(name: str, count: int, some: tuple[str, ...]) -> list[tuple[Any, Opts, Any]]:
    """(kernel, options, target) of legal schedules, always the same ones."""
    out: list[tuple[Any, Opts, Any]] = []
    rng = random.Random(name)
    for _ in range(40 * count):
        shape, opts = DRAWN[name](rng.randrange)
        dtype = "float16" if name.endswith("cores") else rng.choice(("float32", "float32", "float16"))
        kernel, target = named_kernels.make(name.split()[0], shape, dtype), targets.named(rng.choice(some))
        try:
            lower(apply(kernel, opts, target))
        except OptError:
            continue
        out.append((kernel, opts, target))
        if len(out) == count:
            return out
    raise AssertionError(f"only {len(out)} legal schedules of {name}")


@pytest.mark.many
@pytest.mark.parametrize("name", DRAWN)
def test_the_twin_is_equal_in_every_bit(name: str, request: pytest.FixtureRequest) -> None:
    for kernel, opts, target in cases(name, amount(request, 3, 6), ("sm_80", "sm_90a", "opencl-gpu", "opencl-cpu")):
        check_twin(kernel, opts, target)


@pytest.mark.parametrize(("depth", "target"), [(2, "opencl-gpu"), (2, "sm_80"), (3, "sm_90a")])
def test_loops_of_any_length_and_of_one_iteration(depth: int, target: str) -> None:
    kernel = named_kernels.make("matmul", {"m": 9, "n": 20, "k": sym("k", 1, 300)})
    cuts = [opt("LOCAL", "m", 4), opt("LOCAL", "n", 4), opt("UPCAST", "n", 4), opt("TILE", "k", 16)]
    for k in (1, 16, 17, 100):
        check_twin(kernel, [*cuts, *(opt("STAGE", x, at="k", depth=depth) for x in "ab")], targets.named(target), {"k": k})


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", DRAWN)
def test_the_text_gives_the_interpreters_bits_in_both_orders(name: str, request: pytest.FixtureRequest) -> None:
    for kernel, opts, target in cases(name, amount(request, 1, 3), ("sm_80", "sm_90a")):
        check_cuda(kernel, opts, target)


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.many
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("cpu", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.covering
def test_the_machine_code_copies_past_the_registers_and_spills_nothing_to_speak_of(name: str, cpu: str) -> None:
    texts = [render(lower(apply(kernel, opts, target)), target).text for kernel, opts, target in cases(name, 4, (cpu,))]
    cubin, log = nvrtc.compile(next(x for x in texts if "cp_async" in x), cpu)
    assert counts(cubin)["LDGSTS"]
    # the assembler may keep a word or two in memory on its own account, to fit one more group on a multiprocessor
    assert all(r.spill_stores <= 16 for r in nvrtc.resources(log).values())


# what is in a loop ----------------------------------------------------------------------------------------------------
def ring(depth: int, target: str, k: int = 200, **more: Any) -> Program:
    kernel = named_kernels.make("matmul", {"m": 16, "n": 32, "k": k})
    cuts = [opt("LOCAL", "m", 4), opt("UPCAST", "m", 4), opt("LOCAL", "n", 8), opt("UPCAST", "n", 4), opt("TILE", "k", 8)]
    stages = [opt("STAGE", x, at="k", depth=depth, **more) for x in "ab"]
    return lower(apply(kernel, [*cuts, *stages], targets.named(target)), expand=False)


def tiles(p: Program) -> For:
    return next(s for s in p.phases[0].body.stmts if isinstance(s, For) and s.label == "k")


@pytest.mark.parametrize(("depth", "target"), [(2, "sm_80"), (3, "sm_80"), (4, "sm_90a"), (2, "opencl-gpu"), (2, "opencl-cpu")])
def test_one_barrier_an_iteration(depth: int, target: str) -> None:
    for k in (40, 200):  # few iterations are spelled out by the pass, many are known by their remainders
        loop = tiles(ring(depth, target, k))
        assert sum(isinstance(s, Instr) and s.op == "barrier" for s in statements(loop.body)) == 1
        if target.startswith("sm"):
            kinds = [s.op for s in loop.body.stmts if isinstance(s, Instr) and s.op in ("wait", "barrier", "commit")]
            assert kinds == ["wait", "barrier", "commit"]


def outcome(p: Program) -> str:
    try:
        check = named_kernels.make("matmul", {"m": 16, "n": 32, "k": 200})
        from checks import twin_of

        twin_of(p, check, {})
    except (VerifyError, AssertionError) as e:
        return str(e)
    return ""


def _gone(op: str) -> Callable[[Program], None]:
    def fault(p: Program) -> None:
        loop = tiles(p)
        s = next(s for s in loop.body.stmts if isinstance(s, Instr) and s.op == op)
        del loop.body.stmts[place_of(loop.body, s)]

    return fault


def _one_more(p: Program) -> None:
    for _, s in found(p, "wait"):
        s.attr = s.number + 1


def _fewer_slots(p: Program) -> None:
    for _, s in found(p, "imod"):
        if s.attr == 3:
            s.attr = 2


MUTANTS = {
    "no wait": _gone("wait"),
    "a wait for one group too few": _one_more,
    "no barrier": _gone("barrier"),
    "two slots for three": _fewer_slots,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_faults_are_found(name: str) -> None:
    p = ring(3, "sm_80")
    assert outcome(p) == ""
    MUTANTS[name](p)
    assert outcome(p)


# what is refused --------------------------------------------------------------------------------------------------------
def refusal(stages: list[Any], target: str = "sm_80", dtype: str = "float32", **shape: int) -> str:
    kernel = named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64, **shape}, dtype)
    cuts = [opt("LOCAL", "m", 4), opt("LOCAL", "n", 8), opt("UPCAST", "n", 4), opt("TILE", "k", 16)]
    with pytest.raises(OptError) as e:
        lower(apply(kernel, [*cuts, *stages], targets.named(target)))
    return str(e.value)


@pytest.mark.parametrize(
    ("stages", "more", "message"),
    [
        ([opt("STAGE", "a", at="k", depth=3)], {"target": "opencl-gpu"}, "opencl-gpu has no asynchronous copies: use depth=2"),
        ([opt("STAGE", "a", at="k", depth=3)], {"dtype": "float16"}, "not in pieces of 4, 8 or 16 bytes"),
        ([opt("STAGE", "b", at="k", depth=3, order="row")], {"dtype": "float16", "n": 63}, "not in pieces of 4, 8 or 16 bytes"),
        ([opt("STAGE", "a", at="n", depth=2)], {}, "stage at a loop inside the group, not at n"),
        ([opt("STAGE", "a", at="k", depth=9)], {}, "the number of slots of a tile, 1 to 8"),
        ([opt("STAGE", "a", at="k", depth=2), opt("STAGE", "b", at="k", depth=3)], {}, "give them the same depth, or 1"),
        ([opt("STAGE", "a", at="k", depth=2, pad=200), opt("STAGE", "b", at="k", depth=2, pad=256)], {"target": "opencl-gpu"}, "in 2 slots"),
    ],
)  # fmt: skip
def test_what_cannot_be_copied_ahead_is_refused(stages: list[Any], more: dict[str, Any], message: str) -> None:
    assert message in refusal(stages, **more)


def test_pieces_are_as_large_as_is_known_to_be_aligned() -> None:
    def sizes(dtype: str, n: int, **more: Any) -> set[int]:
        kernel = named_kernels.make("matmul", {"m": 16, "n": n, "k": 64}, dtype)
        opts = [opt("LOCAL", "n", 8), opt("UPCAST", "n", 4), opt("TILE", "k", 8), opt("STAGE", "b", at="k", depth=2, order="row", **more)]
        p = lower(apply(kernel, opts, targets.named("sm_80")))
        return {s.copy.bytes for q in p.phases for s in statements(q.body) if isinstance(s, Instr) and s.op == "copy_async"}

    assert sizes("float32", 64) == {16} and sizes("float32", 62) == {8} and sizes("float32", 63) == {4}
    assert sizes("float16", 64) == {16} and sizes("float16", 60) == {8} and sizes("float16", 62) == {4}
    assert sizes("float32", 64, pad=1) == {4} and sizes("float32", 64, pad=2) == {8}

"""Any legal schedule of any kernel computes the kernel: the test that finds what no one thought of.

`pytest tests/lower/test_random_schedules.py --examples 200` draws anew and longer; `python tests/soak.py` goes on for minutes."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin, twin_of
from group_mutants import MUTANTS, blocks, checked, padded, place_of, summed, tiled
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from random_dots import draw_dot
from random_schedules import GROUPS, NAMES, Case, draw, shortest
from thorough import amount
from tilewright import named_kernels, targets
from tilewright.ir import OptError, VerifyError
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, Program, statements

DOTS = "matrix instructions"


@st.composite
def cases(draw_: Callable[..., int], name: str, host_only: bool) -> Case:
    def choose(n: int) -> int:
        return draw_(st.integers(0, n - 1))

    return draw_dot(choose, host_only) if name == DOTS else draw(name, choose, host_only)


Few = tuple[int, int]
"""How many examples, and how many with `--thorough`."""


def fuzz(request: pytest.FixtureRequest, name: str, few: Few, check: Callable[[Case], None], host_only: bool = False) -> None:
    asked = request.config.getoption("--examples")
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

    @settings(max_examples=amount(request, *few), deadline=None, derandomize=not asked, database=None, suppress_health_check=quiet)
    @given(cases(name, host_only))
    def any_schedule(case: Case) -> None:
        note(str(case))
        try:
            check(case)
        except OptError:
            return  # some legal schedules cannot be lowered; that is said, and nothing is run

    any_schedule()


@pytest.mark.many
@pytest.mark.parametrize("name", NAMES)
def test_the_twin_is_equal_in_every_bit(request: pytest.FixtureRequest, name: str) -> None:
    fuzz(request, name, (3, 6), lambda c: check_twin(c.kernel, c.opts, c.target, c.vars, c.seed))


@pytest.mark.many
@pytest.mark.parametrize("name", NAMES)
def test_interpreted_floats_are_within_the_bound(request: pytest.FixtureRequest, name: str) -> None:
    fuzz(request, name, (1, 2), lambda c: check_floats(c.kernel, c.opts, c.target, c.vars, c.seed))


@pytest.mark.many
@pytest.mark.parametrize("name", NAMES)
def test_compiled_code_is_within_the_bound(request: pytest.FixtureRequest, name: str) -> None:
    fuzz(request, name, (1, 3), lambda c: check_compiled(c.kernel, c.opts, c.target, c.vars, c.threads, c.seed), host_only=True)


@pytest.mark.slow
def test_matrix_instructions(request: pytest.FixtureRequest) -> None:
    fuzz(request, DOTS, (20, 40), lambda c: check_twin(c.kernel, c.opts, c.target, c.vars, c.seed))
    fuzz(request, DOTS, (5, 10), lambda c: check_floats(c.kernel, c.opts, c.target, c.vars, c.seed))


@pytest.mark.slow
@pytest.mark.skipif("avx512vnni" not in targets.host().features, reason="this machine has no VNNI")
def test_compiled_matrix_instructions(request: pytest.FixtureRequest) -> None:
    fuzz(request, DOTS, (6, 12), lambda c: check_compiled(c.kernel, c.opts, c.target, c.vars, c.threads, c.seed), host_only=True)


# Random schedules for targets with groups of threads: no race, no access out of bounds, and the integer twin equal in
# every bit.


TEN = (
    "matmul", "matmul_bias_gelu", "batched_matmul", "conv2d", "softmax", "layernorm", "attention", "cross_entropy", "argmax", "embedding_grad",
    "transpose", "sum_cols",
)  # fmt: skip
"""Kernels of every kind, drawn most often."""


@lru_cache(maxsize=1024)  # drawing takes longer than most checks, and several tests look at the same cases
def _drawn(name: str, i: int) -> Case:
    return draw(name, random.Random(f"{name}/{i}").randrange, among=GROUPS)


def cases_of_gpu_random(request: pytest.FixtureRequest, name: str, few: int, many: int) -> Iterator[Case]:
    """As many random cases of a kernel as asked for: by default always the same."""
    asked = request.config.getoption("--examples")
    start = random.SystemRandom().randrange(1 << 30) if asked else 0
    for i in range(start, start + amount(request, few, many)):
        yield _drawn(name, i)


def hold(cases_of_gpu_random: Iterator[Case], check: Callable[[Case], None]) -> None:
    """Every case passes the check; one that does not is shown with as few options as still fail."""

    def fails(case: Case) -> str:
        try:
            check(case)
        except OptError:
            return ""  # some legal schedules cannot be lowered; that is said, and nothing is run
        except Exception as e:
            return f"{type(e).__name__}: {e}"
        return ""

    for case in cases_of_gpu_random:
        if fails(case):
            case = shortest(case, lambda c: bool(fails(c)))
            pytest.fail(f"{case}\n  {fails(case)}")


def twin(case: Case) -> None:
    check_twin(case.kernel, case.opts, case.target, case.vars, case.seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEN)
def test_hundreds_of_schedules_of_kernels_of_every_kind(request: pytest.FixtureRequest, name: str) -> None:
    hold(cases_of_gpu_random(request, name, 6, 12), twin)


@pytest.mark.many
@pytest.mark.parametrize("name", [n for n in NAMES if n not in TEN])
def test_schedules_of_every_other_kernel(request: pytest.FixtureRequest, name: str) -> None:
    hold(cases_of_gpu_random(request, name, 2, 4), twin)


@pytest.mark.many
@pytest.mark.parametrize("name", TEN)
def test_interpreted_floats_are_within_the_bound_in_gpu_random(request: pytest.FixtureRequest, name: str) -> None:
    hold(cases_of_gpu_random(request, name, 2, 3), lambda c: check_floats(c.kernel, c.opts, c.target, c.vars, c.seed))


FOUND: list[tuple[str, dict[str, Any], str, list[Any]]] = [
    # claimed the alignment of an index without its constant
    (
        "conv2d",
        {"n": 3, "c": 3, "h": 7, "w": 4, "oc": 2, "kh": 1, "kw": 2, "stride": 2, "pad": 1},
        "float16",
        [["STAGE", "x", {"at": "ow"}], ["GROUP", "kw", 4]],
    ),
    # a thread past the extent read at a clamped address where a mask of its own held
    ("max_pool2d", {"n": 2, "c": 1, "h": 8, "w": 2, "kh": 2, "kw": 3, "stride": 2, "pad": 1}, "float32", [["LOCAL", "ow", 2]]),
]


@pytest.mark.parametrize(("name", "shape", "dtype", "opts"), FOUND, ids=[f"{i}-{f[0]}" for i, f in enumerate(FOUND)])
def test_what_was_once_wrong(name: str, shape: dict[str, Any], dtype: str, opts: list[Any]) -> None:
    kernel = named_kernels.make(name, shape, dtype)
    for target in map(targets.named, GROUPS):
        check_twin(kernel, parse(json.dumps(opts)), target)


def lowered(request: pytest.FixtureRequest, few: int, many: int) -> Iterator[tuple[Case, Program]]:
    for name in NAMES:
        for case in cases_of_gpu_random(request, name, few, many):
            try:
                yield case, lower(apply(case.kernel, case.opts, case.target), expand=False)
            except OptError:
                continue


@pytest.mark.slow
def test_the_cases_have_what_groups_have(request: pytest.FixtureRequest) -> None:
    seen: Counter[str] = Counter()
    for case, program in lowered(request, 2, 4):
        ops = {s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr)}
        seen.update(
            ops & {"barrier", "shfl_xor"},
            cases_of_gpu_random=1,
            threads=any(p.threads > 1 for p in program.phases),
            shared=program.shared > 0,
        )
        seen.update({f"{o.op}{' swizzled' if isinstance(o.arg, tuple) and dict(o.arg).get('swizzle') else ''}" for o in case.opts})
    total = seen["cases"]
    assert seen["threads"] > total / 2 and seen["shared"] > total / 4 and seen["barrier"] > total / 4 and seen["shfl_xor"] > total / 20, (
        seen
    )
    assert all(seen[o] > 2 for o in ("LOCAL", "GROUP", "STAGE", "STAGE swizzled", "SWIZZLE", "SPLIT", "GRID", "UPCAST", "TILE")), seen


@pytest.mark.slow
def test_each_barrier_that_is_placed_is_needed(request: pytest.FixtureRequest) -> None:
    """Without any one of them the interpreter finds two threads that meet; but for a few, in code that does not run at this size."""
    needed = spare = 0
    for case, program in lowered(request, 2, 5):
        if 0 in case.vars.values() or any(o.op == "TILE" for o in case.opts):  # (cut folds need more to be evaluated)
            continue
        for block, s in [(b, s) for b in blocks(program) for s in b.stmts if isinstance(s, Instr) and s.op == "barrier"][:6]:
            at = place_of(block, s)
            del block.stmts[at]
            try:
                twin_of(program, case.kernel, case.vars, case.seed)
                spare += 1
            except VerifyError as e:
                assert "no barrier since" in str(e)
                needed += 1
            block.stmts.insert(at, s)
    assert needed > 30 and spare <= max(3, needed / 20), (needed, spare)


# An interpreter that lets a planted fault of thread groups pass is broken.


@pytest.mark.parametrize("make", [tiled, padded, summed])
def test_the_right_programs_pass(make):
    assert checked(make()) == ""


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_found(name):
    make, says = MUTANTS[name]
    found = checked(make())
    assert re.search(says, found), f"{name}: the interpreter says {found!r}"

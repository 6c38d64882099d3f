"""Random schedules for targets with groups of threads: no race, no access out of bounds, and the integer twin equal in every bit.

`pytest tests/lower/test_gpu_random.py --examples 200` draws anew and longer; `python tests/soak.py --groups` goes on for minutes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import pytest
from checks import check_floats, check_twin, twin_of
from group_mutants import blocks, place_of
from random_schedules import GROUPS, NAMES, Case, draw, shortest
from thorough import amount
from tilewright import kernels, targets
from tilewright.ir import OptError, VerifyError
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, Program, statements

TEN = (
    "matmul", "matmul_bias_gelu", "batched_matmul", "conv2d", "softmax", "layernorm", "attention", "cross_entropy", "argmax", "embedding_grad",
    "transpose", "sum_cols",
)  # fmt: skip
"""Kernels of every kind, drawn most often."""


@lru_cache(maxsize=1024)  # drawing takes longer than most checks, and several tests look at the same cases
def _drawn(name: str, i: int) -> Case:
    return draw(name, random.Random(f"{name}/{i}").randrange, among=GROUPS)


def cases(request: pytest.FixtureRequest, name: str, few: int, many: int) -> Iterator[Case]:
    """As many random cases of a kernel as asked for: by default always the same."""
    asked = request.config.getoption("--examples")
    start = random.SystemRandom().randrange(1 << 30) if asked else 0
    for i in range(start, start + amount(request, few, many)):
        yield _drawn(name, i)


def hold(cases: Iterator[Case], check: Callable[[Case], None]) -> None:
    """Every case passes the check; one that does not is shown with as few options as still fail."""

    def fails(case: Case) -> str:
        try:
            check(case)
        except OptError:
            return ""  # some legal schedules cannot be lowered; that is said, and nothing is run
        except Exception as e:
            return f"{type(e).__name__}: {e}"
        return ""

    for case in cases:
        if fails(case):
            case = shortest(case, lambda c: bool(fails(c)))
            pytest.fail(f"{case}\n  {fails(case)}")


def twin(case: Case) -> None:
    check_twin(case.kernel, case.opts, case.target, case.vars, case.seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEN)
def test_hundreds_of_schedules_of_kernels_of_every_kind(request: pytest.FixtureRequest, name: str) -> None:
    hold(cases(request, name, 6, 12), twin)


@pytest.mark.many
@pytest.mark.parametrize("name", [n for n in NAMES if n not in TEN])
def test_schedules_of_every_other_kernel(request: pytest.FixtureRequest, name: str) -> None:
    hold(cases(request, name, 2, 4), twin)


@pytest.mark.many
@pytest.mark.parametrize("name", TEN)
def test_interpreted_floats_are_within_the_bound(request: pytest.FixtureRequest, name: str) -> None:
    hold(cases(request, name, 2, 3), lambda c: check_floats(c.kernel, c.opts, c.target, c.vars, c.seed))


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
    kernel = kernels.make(name, shape, dtype)
    for target in map(targets.named, GROUPS):
        check_twin(kernel, parse(json.dumps(opts)), target)


def lowered(request: pytest.FixtureRequest, few: int, many: int) -> Iterator[tuple[Case, Program]]:
    for name in NAMES:
        for case in cases(request, name, few, many):
            try:
                yield case, lower(apply(case.kernel, case.opts, case.target), expand=False)
            except OptError:
                continue


@pytest.mark.slow
def test_the_cases_have_what_groups_have(request: pytest.FixtureRequest) -> None:
    seen: Counter[str] = Counter()
    for case, program in lowered(request, 2, 4):
        ops = {s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr)}
        seen.update(ops & {"barrier", "shfl_xor"}, cases=1, threads=any(p.threads > 1 for p in program.phases), shared=program.shared > 0)
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

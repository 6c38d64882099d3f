"""Any legal schedule of any kernel computes the kernel: the test that finds what no one thought of.

`pytest tests/lower/test_random_schedules.py --examples 200` draws anew and longer; `python tests/soak.py` goes on for minutes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from checks import check_compiled, check_floats, check_twin
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from random_dots import draw_dot
from random_schedules import NAMES, Case, draw
from thorough import amount
from tilewright import targets
from tilewright.ir import OptError

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

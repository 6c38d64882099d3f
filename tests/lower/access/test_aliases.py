"""Outputs in the memory of their inputs: right under every schedule, and refused where some schedule could be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from in_place_kernels import KERNELS, check_in_place_compiled, check_in_place_twin
from random_schedules import TARGETS, grow, pick_target, shared_axis
from tilewright import targets
from tilewright.ir import Kernel, KernelBuilder, OptError, float32, sym
from tilewright.ir.normal_form import normalise
from tilewright.ir.rewrite import apart, in_place
from tilewright.lower import lower
from tilewright.opts import apply, opt
from tilewright.renderers import render

SIZES = (1, 3, 8, 13, 16, 24, 33)


def any_schedule(
    request: pytest.FixtureRequest, name: str, few: int, host_only: bool, check: Callable[..., None], kernel: Kernel | None = None
) -> None:
    """Random schedules of a kernel from the table, or of the one given, which is not shrunk when it fails."""
    asked = request.config.getoption("--examples")
    phases = [Phase.generate] if kernel is not None else list(Phase)

    @settings(
        max_examples=asked or few,
        deadline=None,
        derandomize=not asked,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        def choose(n: int) -> int:
            return data.draw(st.integers(0, n - 1))

        m, n = SIZES[choose(len(SIZES))], SIZES[choose(len(SIZES))]
        symbol = choose(4) == 3
        made = normalise(kernel or KERNELS[name](m, sym("s", 1, n + 100) if symbol else n))
        target = pick_target(choose, host_only, TARGETS)
        start = shared_axis(made, target, choose) if target.groups else ()
        opts = grow(made, target, [choose(1 << 20) for _ in range(choose(8))], start)
        note(f"{name} {m} {n} {symbol} for {target.name}: {opts}")
        try:
            check(made, opts, target, {"s": n} if symbol and kernel is None else {}, choose(1000))
        except OptError:
            return  # some legal schedules cannot be lowered; that is said, and nothing is run

    run()


@pytest.mark.many
@pytest.mark.parametrize("name", KERNELS)
def test_every_schedule_is_right_in_place(request, name):
    any_schedule(request, name, 20, False, check_in_place_twin)


@pytest.mark.many
@pytest.mark.parametrize("name", KERNELS)
def test_compiled_code_is_right_in_place(request, name):
    any_schedule(request, name, 5, True, check_in_place_compiled)


@pytest.mark.slow
def test_c_is_right_in_place():
    target = replace(targets.host(), lang="c")
    for name, opts in (("step", (opt("UPCAST", "m_n", 16),)), ("residual", (opt("UPCAST", "n", 8), opt("UPCAST", "m", 4)))):
        check_in_place_compiled(normalise(KERNELS[name](24, 32)), opts, target, {}, 1, device="cpu:c")


def unchecked(kernel: Kernel, alias: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A kernel in place although that is refused."""
    monkeypatch.setattr("tilewright.ir.checks.check.check_aliases", lambda _: None)
    return in_place(kernel, alias)


def neighbours(m: int = 24, n: int = 16) -> Kernel:
    kb = KernelBuilder("neighbours")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m + 1, n), float32)
    kb.store("y", float32, (m + 1, n), (i, j), x[i + 1, j] - x[i, j])
    return kb.build()


def shared_input(m: int = 24, n: int = 16) -> Kernel:
    """Two outputs from one input."""
    kb = KernelBuilder("shared_input")
    i, j, k, l = kb.axis("m", m), kb.axis("n", n), kb.axis("m@b", m), kb.axis("n@b", n)
    x = kb.input("x", (m, n), float32)
    kb.store("y", float32, (m, n), (i, j), x[i, j] * 2.0)
    kb.store("z", float32, (m, n), (k, l), x[k, l] + 1.0)
    return kb.build()


@pytest.mark.slow
@pytest.mark.parametrize("make", [neighbours, shared_input])
def test_what_is_refused_would_go_wrong(request, make, monkeypatch):
    kernel = unchecked(make(), {"y": "x"}, monkeypatch)
    with pytest.raises(AssertionError, match="in place differs"):
        any_schedule(request, make.__name__, 60, False, check_in_place_twin, kernel)


def test_a_kept_value_does_not_wait_in_the_output():
    """The rows of an output are free until it is written, but not where an input lies in them."""
    kernel = normalise(KERNELS["expensive"](16, 64))
    target, opts = targets.named("cascadelake"), (opt("STAGE", "e", at="m"),)
    check_in_place_twin(kernel, opts, target, {}, 1)
    own = apart(kernel)
    assert lower(apply(kernel, opts, target)).scratch > lower(apply(own, opts, target)).scratch


def test_parameters_that_may_share_memory_promise_nothing():
    kernel = normalise(KERNELS["step"](16, 16))
    for lang, target in (
        ("noalias", targets.host()),
        ("restrict", replace(targets.host(), lang="c")),
        ("restrict", targets.named("sm_90a")),
    ):
        texts = [render(lower(apply(k, (), target)), target).text for k in (kernel, apart(kernel))]
        assert texts[0].count(lang) == texts[1].count(lang) - 2, target.name

"""Kernels that hardly anybody writes, under random legal schedules: interpreted, and run through every compiler that is here.

`pytest tests/lower/test_strange_kernels.py --examples 50` tries more of each form."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import run_text
import strange_kernels
from checks import check_compiled, check_floats, check_twin
from random_schedules import GROUPS, TARGETS, grow, pick_target
from thorough import amount
from tilewright import devices, targets
from tilewright.ir import DeviceError, OptError
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.measure.checking.verify import check, expectations
from tilewright.measure.inputs import generate
from tilewright.opts import Opts, apply
from tilewright.targets import Target

FORMS = [f.__name__ for f in strange_kernels.FORMS]
LEVELS = ("v2", "v3", "v4")


def drawn(form: str, start: int, count: int) -> Iterator[tuple[Kernel, random.Random]]:
    """Kernels of a form, each with the dice for its schedule; always the same."""
    for i in range(start, start + count):
        number = FORMS.index(form) + i * len(FORMS)
        yield strange_kernels.make(number), random.Random(f"schedule/{number}")


def schedule(kernel: Kernel, target: Target, dice: random.Random) -> Opts:
    return grow(kernel, target, [dice.randrange(1 << 20) for _ in range(dice.randrange(8))])


@pytest.mark.many
@pytest.mark.parametrize("form", FORMS)
def test_any_schedule_means_what_the_kernel_says(form: str, request: pytest.FixtureRequest) -> None:
    for kernel, dice in drawn(form, 0, amount(request, 2, 30)):
        target = pick_target(dice.randrange, False, (*TARGETS, *GROUPS))
        opts = schedule(kernel, target, dice)
        try:
            check_twin(kernel, opts, target)
            with np.errstate(all="ignore"):
                check_floats(kernel, opts, target)
        except OptError:
            continue  # some legal schedules cannot be lowered; that is said, and nothing is run


def by_text(kernel: Kernel, way: str, dice: random.Random) -> None:
    """Through the text of a C-like language; the results are within the verifier's bound."""
    target = {"c": targets.host, "opencl": lambda: devices.get("opencl").target, "cuda": lambda: run_text.CUDA}[way]()
    opts = schedule(kernel, target, dice)
    try:
        program = lower(apply(kernel, opts, target))
    except OptError:
        return
    inputs = generate(kernel, {}, 0)
    expect = expectations(kernel, inputs, {})
    arrays = dict(inputs)
    for name, e in expect.items():
        stale = e.stale()
        arrays[name] = np.full(e.shape, np.nan, e.dtype.np) if stale is None else stale.astype(e.dtype.np).reshape(e.shape)
    {"c": run_text.c, "opencl": run_text.opencl, "cuda": run_text.cuda}[way](program, [arrays[p.name] for p in program.params])
    for name, e in expect.items():
        if e.value.size:
            verdict = check(e, arrays[name].ctypes.data)
            assert verdict.ok, f"{verdict.detail}\n{kernel.name} by {way}: {opts}"


@pytest.mark.many
@pytest.mark.covering
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", [*LEVELS, "c", "opencl", "cuda"])
def test_compiled_code_is_within_the_bound(form: str, way: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if way in LEVELS:
        monkeypatch.setenv("TILEWRIGHT_TARGET", way)
    try:
        device = devices.get({"c": "cpu:c", "opencl": "opencl"}.get(way, "cpu"))
        device.check()
    except DeviceError as e:
        pytest.skip(str(e))
    for n, (kernel, dice) in enumerate(drawn(form, 0, amount(request, 1, 8))):
        if way not in LEVELS:
            by_text(kernel, way, dice)
            continue
        try:
            check_compiled(kernel, schedule(kernel, device.target, dice), device.target, threads=1 + n % 2)
        except OptError:
            continue


def test_a_store_that_never_happens_may_go_past_the_caches() -> None:
    """Whether an output is aligned is asked although nothing is stored there."""
    from tilewright.ir import KernelBuilder, float32
    from tilewright.opts import parse

    kb = KernelBuilder("nothing")
    i, j = kb.axis("m", 3), kb.axis("n", 8)
    x = kb.input("x", (3, 8), float32)
    kb.store("y", float32, (3, 8), (i, j), x[i, j], mask=j < -1)
    check_compiled(kb.build(), parse([["CACHE", "y", {"policy": "stream"}]]))

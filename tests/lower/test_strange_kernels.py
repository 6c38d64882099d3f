"""Kernels that hardly anybody writes, under random legal schedules: interpreted, and run through every compiler that is here.

`pytest tests/lower/test_strange_kernels.py --examples 50` tries more of each form."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import guarded
import numpy as np
import odd_kernels
import pytest
import run_text
import strange_kernels
from checks import check_compiled, check_floats, check_twin, in_child, run_compiled
from random_schedules import GROUPS, TARGETS, Case, draw, grow, pick_target
from thorough import amount
from tilewright import devices, targets
from tilewright.interp import run as interpret
from tilewright.ir import DeviceError, KernelBuilder, OptError, float32
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.measure.checking.verify import check, expectations
from tilewright.measure.inputs import generate, shape
from tilewright.opts import Opts, apply
from tilewright.renderers import render
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


# Input that nobody wishes for, under random legal schedules: huge and infinite numbers, NaN, addresses that are
# aligned to nothing, nothing at all.


Arrays = dict[str, Any]
Spoil = Callable[[np.ndarray[Any, Any], np.random.Generator], None]


def drawn_of_bad_input(request: pytest.FixtureRequest, name: str, few: int, many: int) -> Iterator[tuple[Case, random.Random]]:
    """Random schedules that can be lowered, by default always the same."""
    asked = request.config.getoption("--examples")
    start = random.SystemRandom().randrange(1 << 30) if asked else 0
    for i in range(start, start + amount(request, few, many)):
        rng = random.Random(f"bad/{name}/{i}")
        yield draw(name, rng.randrange, host_only=True), rng


def interpreted(case: Case, inputs: Mapping[str, Any], outputs: Arrays) -> None:
    program = lower(apply(case.kernel, case.opts, case.target))
    interpret(program, {**inputs, **outputs}, [case.vars[s.arg.name] for s in program.symbols])


def hold(case: Case, inputs: Arrays) -> None:
    """Interpreted and compiled, the schedule gives what the reference does with these inputs."""
    with np.errstate(all="ignore"):
        expect = expectations(case.kernel, inputs, case.vars)
        outputs = {b.name: np.empty(shape(b, case.kernel, case.vars), b.dtype.np) for b in case.kernel.outputs}
        try:
            interpreted(case, inputs, outputs)
        except OptError:
            return
        for name, e in expect.items():
            verdict = check(e, outputs[name].ctypes.data)
            assert verdict.ok, f"interpreted: {verdict.detail}\n{case}"
    source = render(lower(apply(case.kernel, case.opts, case.target)), case.target)
    said = in_child(lambda: run_compiled(case.kernel, source, inputs, expect, case.vars, case.threads))
    assert not said, f"compiled: {said}\n{case}"


# numbers ----------------------------------------------------------------------------------------------------------
def huge(x: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
    """±10000."""
    x[...] = np.where(rng.random(x.shape) < 0.5, -1e4, 1e4)


def infinite_rows(x: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
    """Rows of −∞, and −∞ among the elements of others."""
    x[rng.random(x.shape) < 0.2] = -np.inf
    x[rng.random(x.shape[:1]) < 0.4] = -np.inf


def not_numbers(x: np.ndarray[Any, Any], rng: np.random.Generator) -> None:
    """A NaN here and there, of either sign, and infinities."""
    x[rng.random(x.shape) < 0.03] = np.nan
    x[rng.random(x.shape) < 0.03] = -np.nan
    x[rng.random(x.shape) < 0.03] = np.inf
    x[rng.random(x.shape) < 0.03] = -np.inf


ROWS = ("softmax", "log_softmax", "cross_entropy")
ALL: tuple[Spoil, ...] = (huge, infinite_rows, not_numbers)
SPOILT: dict[str, tuple[Spoil, ...]] = {
    **dict.fromkeys(ROWS, ALL),
    **dict.fromkeys(("layernorm", "rmsnorm"), (huge, not_numbers)),
    **dict.fromkeys(("sum_rows", "sum_cols", "cumsum", "min_max", "scan_columns", "scatter_max", "scalar"), (infinite_rows, not_numbers)),
    **dict.fromkeys(("argmax", "max_pool2d", "matmul_bias_relu", "gelu", "log_sum"), (infinite_rows, not_numbers)),
    "attention_full": (huge, not_numbers),
    "attention": (huge,),  # (what a masked key's NaN does is not told)
}


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "spoil"), [(n, s) for n, spoils in SPOILT.items() for s in spoils], ids=lambda p: getattr(p, "__name__", p)
)
@pytest.mark.covering
def test_special_numbers_come_out_as_the_reference_has_them(request: pytest.FixtureRequest, name: str, spoil: Spoil) -> None:
    for case, rng in drawn_of_bad_input(request, name, 1, 2):
        inputs = generate(case.kernel, case.vars, case.seed)
        numbers = np.random.default_rng(rng.randrange(1 << 30))
        for b in case.kernel.inputs:
            if b.dtype.is_float and inputs[b.name].ndim:
                spoil(inputs[b.name], numbers)
        hold(case, inputs)


def test_nan_passes_through_extremes() -> None:
    """NumPy's maximum as the reference, for the reference's own sake."""
    kb = KernelBuilder("tops")
    i, j, k = kb.axis("m", 3), kb.axis("n@hi", 4), kb.axis("n@lo", 4)
    x = kb.input("x", (3, 4), float32)
    hi, lo = kb.max("hi", (i,), j, x[i, j]), kb.min("lo", (i,), k, x[i, k])
    kb.store("y", float32, (3,), (i,), hi[i] - lo[i])
    given = np.array([[1, np.nan, 2, 3], [1, 2, 3, 4], [-np.inf, 1, 2, np.nan]], np.float32)
    value = expectations(kb.build(), {"x": given}, {})["y"].value
    np.testing.assert_array_equal(value, given.max(1) - given.min(1))


# places -----------------------------------------------------------------------------------------------------------
def moved(dims: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Room that begins one element after a multiple of 64 bytes."""
    room: np.ndarray[Any, Any] = guarded.array(np.zeros(dims, dtype), 64, dtype.itemsize)
    return room


@pytest.mark.many
@pytest.mark.parametrize(
    "name", ["matmul", "conv2d", "softmax", "transpose", "add", "attention", "embedding_grad", "sum_all", "cumsum", "mixed"]
)
def test_arrays_one_element_off_every_alignment(request: pytest.FixtureRequest, name: str) -> None:
    for case, _ in drawn_of_bad_input(request, name, 1, 2):
        given = generate(case.kernel, case.vars, case.seed)
        arrays: Arrays = {}
        for b in case.kernel.buffers:
            arrays[b.name] = moved(shape(b, case.kernel, case.vars), np.dtype(b.dtype.np))
            if b.name in given:
                arrays[b.name][...] = given[b.name]
        expect = expectations(case.kernel, given, case.vars)
        outputs = {b.name: arrays[b.name] for b in case.kernel.outputs}

        def verify(how: str, expect: Mapping[str, Any] = expect, outputs: Arrays = outputs, case: Case = case) -> str:
            for n, e in expect.items():
                verdict = check(e, outputs[n].ctypes.data)
                if not verdict.ok:
                    return f"{how}: {verdict.detail}\n{case}"
            return ""

        try:
            interpreted(case, {n: arrays[n] for n in given}, outputs)
        except OptError:
            continue
        assert not verify("interpreted")
        source = render(lower(apply(case.kernel, case.opts, case.target)), case.target)

        def native(source: Any = source, case: Case = case, arrays: Arrays = arrays, outputs: Arrays = outputs) -> str:
            cpu = devices.get("cpu")
            exe = cpu.load(cpu.build(source), source.signature, case.threads)
            for y in outputs.values():
                y.reshape(-1).view(np.uint8)[...] = 0xFF if y.dtype.kind in "fV" else 0x55
            exe.run([arrays[b.name].ctypes.data for b in case.kernel.buffers], [case.vars[s] for s in source.signature.symbols])
            return next((f"wrote {at}" for at in map(guarded.broken, arrays.values()) if at), "") or verify("compiled")

        said = in_child(native)
        assert not said, said


# sizes ------------------------------------------------------------------------------------------------------------
@pytest.mark.many
@pytest.mark.parametrize("name", odd_kernels.SYMBOLIC)
def test_extents_of_zero_under_any_schedule(request: pytest.FixtureRequest, name: str) -> None:
    make, usual = odd_kernels.KERNELS[name]
    asked = request.config.getoption("--examples")
    for i in range(asked or 1):
        rng = random.Random(f"zero/{name}/{i}")
        sizes: list[Any] = list(usual)
        sizes[rng.choice(odd_kernels.SYMBOLIC[name])] = 0
        kernel: Kernel = make(*sizes)
        target = pick_target(rng.randrange, True)
        opts = grow(kernel, target, [rng.randrange(1 << 20) for _ in range(4)], ())
        try:
            check_twin(kernel, opts, target, None, i)
        except OptError:
            continue
        check_compiled(kernel, opts, target, None, 2, i)

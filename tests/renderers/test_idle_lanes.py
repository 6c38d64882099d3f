"""LLVM is not trusted: every operation, on every type, under masks of every length, at every level of this processor, against the
interpreter, bit for bit. `make test` takes a part. `make test-thorough` takes all of it, once for each version of LLVM
(`support/passed.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aarch64
import idle_lanes
import idle_tails
import llvmlite.binding as llvm
import numpy as np
import passed
import pytest
from idle_lanes import Bench, masks
from lane_operations import TYPES, dangerous
from tilewright import targets
from tilewright.devices.cpu import c_compiler as cc
from tilewright.devices.cpu.engine import Code, compile_text
from tilewright.interp import Interpreter
from tilewright.ir import DeviceError
from tilewright.ir.dtypes import dtype
from tilewright.program.ops import OPS, RENDERED, TWIN_ONLY
from tilewright.program.program import Instr, statements
from tilewright.targets import Target

FAULT = Path(__file__).parent / "llvm_faults" / "division_of_idle_lanes.ll"
FAULTY = (20, 21, 22)
"""Versions of LLVM with that fault."""
LANES = (
    "renderers/llvm", "interp/code.py", "interp/ops.py", "program/ops.py", "program/builder.py", "lower/arithmetic",
    "devices/cpu/engine.py", "tests/support/every_op.py", "tests/support/idle_lanes.py", "tests/support/lane_operations.py",
)  # fmt: skip
"""What decides how a lane is computed, natively and by the interpreter: where it changes, all is checked again."""
TAILS = (*LANES, "lower", "opts", "heuristics", "tests/support/idle_tails.py")
SHARE = 16
"""One in so many of what is done with results is tried each time."""


def lowered(level: str) -> Target:
    """This processor as one of a level; DeviceError where it lacks something."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TILEWRIGHT_TARGET", level)
        return targets.host()


def usable() -> list[str]:
    """The levels that this processor has."""
    found = []
    for level in ("v2", "v3", "v4"):
        try:
            found.append(lowered(level).name and level)
        except DeviceError:
            continue
    return found or ["host"]


LEVELS = usable()
levels = pytest.mark.parametrize("level", LEVELS)
types = pytest.mark.parametrize("name", TYPES)


def width(target: Target, name: str) -> int:
    """Lanes of one register, two at least."""
    return max(2, target.vector_bytes // (4 if name == "bool" else dtype(name).compute.size))


def part(target: Target, name: str, lanes: int, share: int = SHARE) -> Bench:
    """A part of what can be done: masks in turns, and of the things that are done with a result one in so many."""
    at, some = TYPES.index(name) + lanes, masks(lanes, few=True)
    return idle_lanes.bench(
        dtype(name), lanes, some[at % len(some) :] + some[: at % len(some)], target.features, lambda op, n: (n + at + len(op)) % share == 0
    )


def everything(target: Target, name: str, lanes: int, few: bool) -> list[Bench]:
    """All masks one by one; what harms no other lane has a fourth of what is done with results each time."""

    def chosen(k: int) -> Callable[[str, int], bool]:
        return lambda op, n: dangerous(op) or (n + k) % 4 == 0

    return [idle_lanes.bench(dtype(name), lanes, [mask], target.features, chosen(k)) for k, mask in enumerate(masks(lanes, few))]


@levels
@types
@pytest.mark.parametrize("registers", [1, 2])
@pytest.mark.covering
@pytest.mark.many
@pytest.mark.timeout(1800)
def test_idle_lanes_are_what_they_are(level: str, name: str, registers: int, request: pytest.FixtureRequest) -> None:
    target = lowered(level)
    lanes, case = registers * width(target, name), f"lanes-{level}-{name}-{registers}"
    thorough = request.config.getoption("--thorough") and not passed.known(case, *LANES)
    for k, bench in enumerate(everything(target, name, lanes, few=registers > 1) if thorough else [part(target, name, lanes)]):
        found = idle_lanes.differences(bench, target, seed=k)
        assert not found, f"{len(found)} rows differ:\n" + "\n".join(found[:20])
    if thorough:
        passed.note(case, *LANES)


@types
@pytest.mark.skipif(bool(aarch64.missing()), reason=aarch64.missing())
@pytest.mark.covering(each=5)
@pytest.mark.many
@pytest.mark.timeout(1800)
def test_idle_lanes_of_neon(name: str, request: pytest.FixtureRequest) -> None:
    target, case = aarch64.NEON, f"lanes-neon-{name}"
    lanes = width(target, name)
    thorough = request.config.getoption("--thorough") and not passed.known(case, *LANES)
    for k, bench in enumerate(everything(target, name, lanes, few=False) if thorough else [part(target, name, lanes)]):
        got, want = (bench.arrays(k, [i % 3 > 0 for i in range(lanes)]) for _ in range(2))
        aarch64.run(bench.program, got, [lanes // 2])
        Interpreter(bench.program).run(want, [lanes // 2])
        found = idle_lanes.rows_that_differ(bench, got, want)
        assert not found, f"{len(found)} rows differ:\n" + "\n".join(found[:20])
    if thorough:
        passed.note(case, *LANES)


@types
@pytest.mark.covering(each=5)
@pytest.mark.many
@pytest.mark.timeout(1800)
def test_the_c_compiler_agrees(name: str, request: pytest.FixtureRequest) -> None:
    try:
        cc.find()
    except DeviceError as e:
        pytest.skip(str(e))
    target = replace(lowered(LEVELS[-1]), lang="c")
    share = 4 if request.config.getoption("--thorough") else 3 * SHARE
    found = idle_lanes.differences(part(target, name, width(target, name), share), target, seed=1)
    assert not found, f"{len(found)} rows differ:\n" + "\n".join(found[:20])


@levels
@pytest.mark.parametrize("name", idle_tails.TYPES)
@pytest.mark.covering
@pytest.mark.many
@pytest.mark.timeout(1800)
def test_tails_of_rows(level: str, name: str, request: pytest.FixtureRequest) -> None:
    target, d, case = lowered(level), dtype(name), f"tails-{level}-{name}"
    lanes, makes, at = target.lanes(d), [*idle_tails.operations(d)], idle_tails.TYPES.index(name)
    thorough = request.config.getoption("--thorough") and not passed.known(case, *TAILS)
    pairs = [(tail, op) for tail in range(1, lanes + 1) for op in makes]
    if not thorough:
        pairs = [(1 + at % lanes, "quotient"), (lanes // 2, makes[at % len(makes)])]
    for tail, op in pairs:
        kernel = idle_tails.tails(d, op, 4 * lanes + tail)
        for opts in idle_tails.schedules(kernel, target, lanes, steps=int(tail <= 3 and thorough)):
            assert not idle_tails.differences(kernel, opts, target, tail)
    if thorough:
        passed.note(case, *TAILS)


def test_no_operation_is_left_out() -> None:
    """But for those that no expression over elements is made of."""
    features = frozenset({"fma", "avx512"})
    made = [idle_lanes.bench(dtype(name), 4, [(True,) * 4], features, lambda op, n: True) for name in ("float32", "int32", "bool")]
    tried = {s.op for b in made for phase in b.program.phases for s in statements(phase.body) if isinstance(s, Instr)}
    pure = {name for name in RENDERED - TWIN_ONLY if OPS[name].effect == "pure"}
    assert pure - tried == {"aligned", "apart", "dot", "insert", "exp2", "root_guess"}


@levels
def test_the_fault_of_llvm(level: str) -> None:
    """`llvm_faults/division_of_idle_lanes.ll`: versions that have it, and that what is rendered instead is right in all."""
    target, code = lowered(level), FAULT.read_text()
    made = Code([compile_text(code, target, native=True)], ("quotients", "mended"))
    x, y = np.array([1, 6], np.float32), np.array([4, 3], np.float32)
    out = {name: idle_lanes.called(made, name, x, y) for name in ("quotients", "mended")}
    made.close()
    assert out["mended"].tolist() == [0.25, 2, 0, 0]
    faulty = bool(np.isnan(out["quotients"][2:]).all())
    major = llvm.llvm_version_info[0]
    assert faulty == (major in FAULTY), (
        f"LLVM {major} {'has' if faulty else 'no longer has'} the fault of {FAULT.name}: say so in FAULTY. Where no version that "
        "pyproject.toml allows has it, renderers/llvm/division.py may divide vectors by fdiv again"
    )


@levels
@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.many
def test_sums_of_quotients(level: str, name: str) -> None:
    """Positive numbers, so that no NaN is right, in rows that leave so many elements for the last vector."""
    target, d = lowered(level), dtype(name)
    lanes = target.lanes(d)
    for left in {1, 2, lanes // 2, lanes - 1} - {0}:
        kernel = idle_tails.quotients(d, 4 * lanes + left)
        for opts in idle_tails.schedules(kernel, target, lanes):
            assert not idle_tails.differences(kernel, opts, target, seed=left, positive=True)

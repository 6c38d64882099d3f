"""The harness itself: programs are the same every time, the oracle accepts what is right and refuses what is a little wrong, and a
planted fault is found and shrunk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilewright import nn

from . import draw, noisy, oracle, run, shrink, ways, written
from .check import check
from .leaves import values
from .operations.table import OPERATIONS
from .program import Leaf, Program, Step


def test_a_number_is_a_program() -> None:
    assert draw.drawn(3, 41) == draw.drawn(3, 41) != draw.drawn(3, 42) and draw.drawn(4, 41) != draw.drawn(3, 41)


@pytest.mark.slow
def test_every_operation_is_drawn() -> None:
    """Within a few thousand programs; and nearly all elements are certain."""
    seen: set[str] = set()
    open_ = total = 0
    for number in range(1500):
        p = draw.drawn(0, number)
        seen |= {s.op for s in p.steps}
        if number < 200:
            for e in oracle.results(oracle.compiled(p), [oracle.array(leaf) for leaf in p.leaves], oracle.FEW):
                open_, total = open_ + int(e.open.sum()), total + e.value.size
    assert seen == set(OPERATIONS) and open_ < 0.01 * total


def in_types(program: Program, flawed: bool = False) -> list[Any]:
    """What NumPy computes in the leaves' own types, every operation rounded."""
    oracle.use(1)
    with np.errstate(all="ignore"):
        return list(oracle.compiled(program)(*[oracle.array(leaf) for leaf in program.leaves]))


@pytest.mark.slow
def test_the_oracle_accepts_every_operation_rounded_and_nothing_far_off() -> None:
    caught = changed = 0
    for number in range(150):
        p = draw.drawn(5, number)
        expected = oracle.results(oracle.compiled(p), [oracle.array(leaf) for leaf in p.leaves], oracle.FEW)
        for e, x in zip(expected, in_types(p), strict=True):
            assert not oracle.difference(e, np.asarray(x), e.kind)
            sure = np.argwhere(np.isfinite(np.asarray(e.value, np.float64)) & ~e.open & (np.abs(np.asarray(e.value, np.float64)) > 1e-3))
            if e.kind in noisy.EPS and len(sure):
                at = tuple(sure[number % len(sure)])
                off = np.array(x, np.float64)
                off[at] *= 1 + 1000 * noisy.EPS[e.kind]
                changed += 1
                caught += bool(oracle.difference(e, off, e.kind))
    assert changed > 150 and caught > 0.9 * changed


def test_a_cancellation_has_a_wide_bound_and_a_sum_of_equals_a_narrow_one() -> None:
    x = noisy.noisy(values("positive", 1, (1000,), "float32"), "float32")
    (wide,) = oracle.results(lambda a: ((a * 1000.0).sum() - (a * 999.0).sum() - a.sum(),), [x], 6)
    (narrow,) = oracle.results(lambda a: (a + a,), [x], 6)
    assert wide.off > 1e-2 and (narrow.off < 1e-5).all()


def test_what_overflows_in_its_type_is_open() -> None:
    x = noisy.noisy(np.array([300.0, 2.0]), "float16")
    (e,) = oracle.results(lambda a: (a * a / 300.0,), [x], 6)
    assert e.open.tolist() == [True, False]


def test_what_may_overflow_on_the_way_is_open() -> None:
    """Of a product with a factor that is 0 up to rounding, in another order."""
    x = noisy.noisy(np.array([1e30, 1e30, 1.0]), "float32")
    (e,) = oracle.results(lambda a: ((a[:1] * 3.0 - a[1:2] * 3.0) * a[1:2] * a[2:],), [x], 6)
    assert e.open.tolist() == [True]


def test_a_planted_fault_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = Program(
        (Leaf("normal", 1, (7, 12), "float64"), Leaf("normal", 2, (12,), "float64")),
        (Step("add", (0, 1)), Step("softmax", (2,), (("axis", 1),)), Step("mT", (3,)), Step("exp", (0,)), Step("layer_norm", (4,))),
        (6, 5), (("way", "eager"),),
    )  # fmt: skip
    assert not check(program)
    right = nn.layer_norm
    monkeypatch.setattr(ways.nn, "layer_norm", lambda x: right(x) * 1.001)
    message = check(program)
    assert "elements are wrong" in message
    small = shrink.shrunk(program, lambda p: shrink.kind(check(p)) == "wrong")
    assert [s.op for s in small.steps] == ["layer_norm"] and small.leaves[0].dtype == "float32" and max(small.leaves[0].shape) <= 3
    path = run.kept(program, message, "evaluate", tmp_path, 0, 7)
    assert "layer_norm" in path.name


BOTH = """
import runpy, sys
codes = []
for name in ("kept", "off"):
    try:
        runpy.run_path(f"{name}_{sys.argv[1]}.py", run_name="__main__")
        codes.append(0)
    except SystemExit as e:
        codes.append(int(bool(e.code)))
print(codes)
"""
"""Run a file that is right and one that is not; what they exit with."""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["eager", "jit", "grad", "vmap"])
def test_a_file_needs_nothing_of_the_tests(tmp_path: Path, way: str) -> None:
    program = Program(
        (Leaf("positive", 1, (3, 4), "float32"), Leaf("below 4", 2, (3,), "int64")),
        (Step("log_softmax", (0,), (("axis", 1),)), Step("cross_entropy", (2, 1))), (3,), (("way", way),),
    )  # fmt: skip
    if way == "vmap":
        program = Program(program.leaves[:1], program.steps[:1], (1,), program.how)
        program = Program(program.leaves, (Step("log_softmax", (0,), (("axis", 1),)),), (1,), program.how)
    text = written.write(tmp_path, "case", program, "nothing", 0, 0, "evaluate").read_text()
    off = "def right(*a):\n    return tuple(2 * x + 1 for x in exact(*a))\n\n\ndef exact("
    for name, says in (("kept", text), ("off", text.replace("def right(", off))):
        (tmp_path / f"{name}_{way}.py").write_text(says)
    # one process for both: its start costs more than they do
    done = subprocess.run([sys.executable, "-c", BOTH, way], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "right" in done.stdout.splitlines() and done.stdout.splitlines()[-1] == "[0, 1]", done.stderr

"""Every second to fourth element is picked from whole vectors, and nothing past the last one is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import kernels, targets
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, dtype
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, Program, statements

CASCADE = targets.named("cascadelake")


def every(step: int, n: int = 32, taps: int = 3, kind: str = "float32") -> Kernel:
    """y[i, j] = sum over k of x[i, step · j + k]; x ends with the last element that is used."""
    kb = KernelBuilder("every")
    i, j, k = kb.axis("m", 3), kb.axis("n", n), kb.axis("k", taps)
    x = kb.input("x", (3, (n - 1) * step + taps), dtype(kind))
    total = kb.sum("total", (i, j), k, x[i, j * step + k])
    kb.store("y", total[i, j].dtype, (3, n), (i, j), total[i, j])
    return kb.build()


def instructions(kernel: Kernel, opts: list[Any], target: targets.Target = CASCADE) -> list[Instr]:
    program: Program = lower(apply(kernel, parse(opts), target))
    return [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]


WAYS: list[list[Any]] = [
    [["UPCAST", "n", 16]],
    [["UPCAST", "n", 32], ["UNROLL", "k", 3]],
    [["UPCAST", "n", 8], ["UPCAST", "m", 3], ["UNROLL", "k", 3]],
    [["UPCAST", "n", 16], ["UNROLL", "k", 3], ["STAGE", "x", {"at": "m", "order": "row"}]],
    [["UPCAST", "n", 4], ["STAGE", "x", {"at": "n", "order": "row"}]],
]


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("opts", WAYS)
def test_what_is_picked_is_right(step: int, opts: list[Any]) -> None:
    kernel = every(step)
    x = np.arange(3 * kernel.inputs[0].shape[1], dtype=np.float32).reshape(3, -1)  # type: ignore[operator]
    y = np.zeros((3, 32), np.float32)
    interpret(lower(apply(kernel, parse(opts), CASCADE)), {"x": x, "y": y})
    np.testing.assert_array_equal(y, sum(x[:, k : k + 31 * step + 1 : step] for k in range(3)))
    check_twin(kernel, parse(opts), CASCADE)


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "int8"])
def test_every_type(step: int, kind: str) -> None:
    check_floats(every(step, kind=kind), parse(WAYS[1]), CASCADE)


@pytest.mark.parametrize("target", ["avx2", "neon", "cascadelake"])
def test_every_width(target: str) -> None:
    for opts in WAYS:
        check_floats(every(2), parse(opts), targets.named(target))


@pytest.mark.many
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("opts", WAYS)
def test_nothing_past_the_end_is_read(step: int, opts: list[Any]) -> None:
    """Compiled, with x against a page that cannot be read."""
    check_compiled(every(step), parse(opts), targets.host())


@pytest.mark.parametrize(("step", "loads", "shuffles"), [(2, 2, 1), (3, 3, 2), (4, 4, 3)])
def test_no_gathers(step: int, loads: int, shuffles: int) -> None:
    ops = [s.op for s in instructions(every(step), WAYS[0])]
    assert (ops.count("load"), ops.count("shuffle"), ops.count("gather"), ops.count("insert")) == (loads, shuffles, 0, 0)


def test_further_apart_is_not_worth_it() -> None:
    assert not any(s.op == "shuffle" for s in instructions(every(5), WAYS[0]))


def test_masked_loads_are_not_picked() -> None:
    """Elements that do not exist may lie outside of the buffer: a pool with padding takes whole vectors only of a staged copy."""
    kernel = kernels.make("max_pool2d", {"n": 1, "c": 2, "h": 32, "w": 32})
    plain = instructions(kernel, [["UPCAST", "ow", 16], ["UNROLL", "kw", 3]])
    staged = instructions(kernel, [["UPCAST", "ow", 16], ["UNROLL", "kw", 3], ["STAGE", "x", {"at": "c", "order": "row"}]])
    assert not any(s.op == "shuffle" for s in plain) and any(s.op == "shuffle" for s in staged)
    check_twin(kernel, parse([["UPCAST", "ow", 16], ["UNROLL", "kw", 3], ["STAGE", "x", {"at": "c", "order": "row"}]]), CASCADE)


def test_tails_are_not_picked_but_of_a_staged_copy() -> None:
    kernel = every(2, n=30)
    plain, staged = (apply(kernel, parse(w), CASCADE) for w in (WAYS[0], [*WAYS[0], ["STAGE", "x", {"at": "m", "order": "row"}]]))
    assert plain.lanes(plain.nests[0]).lane is None and staged.lanes(staged.nests[0]).lane is not None
    assert not any(s.op == "gather" for s in instructions(kernel, WAYS[0]))
    check_twin(kernel, parse(WAYS[0]), CASCADE)


@pytest.mark.parametrize("step", [1, 2, 4, 5])
def test_the_model_knows_the_lanes(step: int) -> None:
    scheduled = apply(every(step), parse([["UPCAST", "n", 16]]), CASCADE)
    part = scheduled.lanes(scheduled.nests[0]).lane
    assert (part is not None) == (step < 5)

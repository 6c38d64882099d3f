"""How long the code of a schedule is, before it is lowered."""

from __future__ import annotations

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import code_size, starts
from tilewright.ir import KernelBuilder, float32, int32
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.renderers import render

AVX2, SM80 = targets.named("avx2"), targets.named("sm_80")


def of(kernel: Kernel, *opts: list[object]) -> float:
    return code_size(apply(kernel, parse(list(opts)), AVX2))


def looked_up() -> Kernel:
    kb = KernelBuilder("looked_up")
    i = kb.axis("n", 64)
    at, table = kb.input("at", (64,), int32, range=(0, 9)), kb.input("table", (10,), float32)
    kb.store("y", float32, (64,), (i,), table[at[i]])
    return kb.build()


def test_copies_in_registers_are_counted_and_lanes_are_not() -> None:
    add = normalise(named_kernels.make("add", {"m": 64, "n": 64}))
    axis = add.axes[0].arg.name
    assert of(add, ["UPCAST", axis, 8]) == of(add)
    assert of(add, ["UPCAST", axis, 64]) == 8 * of(add)


def test_what_is_stored_past_the_caches_is_written_twice() -> None:
    """(Once for outputs that are aligned, and once for others.)"""
    add = normalise(named_kernels.make("add", {"m": 64, "n": 64}))
    axis, out = add.axes[0].arg.name, add.outputs[0].name
    assert of(add, ["UPCAST", axis, 32], ["CACHE", out, {"policy": "stream"}]) == 2 * of(add, ["UPCAST", axis, 32])


def test_what_is_gathered_takes_an_instruction_a_lane() -> None:
    assert of(looked_up(), ["UPCAST", "n", 8]) >= of(looked_up()) + 7


def test_phases_are_added_up() -> None:
    softmax = normalise(named_kernels.make("softmax", {"m": 8, "n": 64}))
    found = next(s for o in starts(softmax, AVX2, 2) if (s := apply(softmax, o, AVX2)).nests)
    assert code_size(found) > 0
    cumsum = normalise(named_kernels.make("cumsum", {"m": 2, "n": 64}))
    split = apply(cumsum, parse([["SPLIT", "n", 4]]), AVX2)
    assert code_size(split) == sum(map(code_size, split.phases))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matmul", "softmax", "attention", "conv2d"])
def test_longer_is_longer(name: str) -> None:
    """Twice as much of it and more is more lines of source."""
    kernel = normalise(named_kernels.make(name))
    lines = {}
    for opts in starts(kernel, AVX2, 1)[:8]:
        s = apply(kernel, opts, AVX2)
        lines[code_size(s)] = len(render(lower(s), AVX2).text.splitlines())
    pairs = [(a, b) for a in lines for b in lines if b > 3 * a]
    assert all(lines[b] > lines[a] for a, b in pairs), lines


def test_gpus_have_it_too() -> None:
    matmul = normalise(named_kernels.make("matmul", {"m": 256, "n": 256, "k": 256}))
    assert code_size(apply(matmul, starts(matmul, SM80, 1)[0], SM80)) > 0

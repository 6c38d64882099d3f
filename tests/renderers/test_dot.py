"""Matrix instructions: the interpreter against the row's meaning, and LLVM's and C code against the interpreter, bit for bit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import run_text
from hand_built import compile_for, run
from tilewright import interp, targets
from tilewright.devices.cpu import c_compiler as cc
from tilewright.ir import BuildError, DeviceError
from tilewright.ir.node import const
from tilewright.program.builder import Builder
from tilewright.program.listing import show
from tilewright.program.program import Mem, Param, Program
from tilewright.renderers import render
from tilewright.targets import instructions
from tilewright.targets.instructions import Instruction

ITEMS = 7
rows = pytest.mark.parametrize("row", instructions.ROWS, ids=lambda r: r.name)
WAYS = [pytest.param(run, id="llvm"), pytest.param(run_text.c, id="c"), pytest.param(run_text.opencl, id="opencl", marks=pytest.mark.slow)]
TARGET = {"avx512vnni": "cascadelake", "avx512bf16": "znver5", "avxvnni": "alderlake", "avx512": "skylake-avx512", "avx2": "haswell"}


def one_dot(row: Instruction, threads: int = 1, groups: int = 1, bits: int | None = None) -> Program:
    """y[item] = dot(c[item], a[item], b[item]), an item a group or its threads; `groups` of k elements in a; `bits`: those that a may have."""
    sizes = {"c": (row.c, row.n), "a": (row.a, groups * row.k), "b": (row.b, row.n * row.k)}
    params = [Param(name, d, (ITEMS * n,), "in") for name, (d, n) in sizes.items()] + [Param("y", row.c, (ITEMS * row.n,), "out")]
    b = Builder()
    with b.phase(const(ITEMS if threads == 1 else 1), (), threads) as phase:
        at = phase.item if phase.thread is None else phase.thread
        args = [b.load(Mem("param", i, d, align=d.size), b.op("mul", at, b.const(n)), n) for i, (d, n) in enumerate(sizes.values())]
        if bits is not None:
            args[1] = b.op("and", args[1], b.const(bits, row.a, args[1].lanes))
        b.store(Mem("param", 3, row.c, align=row.c.size), b.op("mul", at, b.const(row.n)), b.dot(row.name, *args))
    return Program("dots", tuple(params), (), [phase])


def operands(row: Instruction, seed: int = 1, groups: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)

    def draw(d: Any, n: int) -> Any:
        if d.is_float:
            return (rng.standard_normal(ITEMS * n) * 2.0 ** rng.integers(-70, 60, ITEMS * n)).astype(d.np)
        info = np.iinfo(d.np)
        return rng.integers(info.min, info.max, ITEMS * n, d.np, endpoint=True)

    return {"c": draw(row.c, row.n), "a": draw(row.a, groups * row.k), "b": draw(row.b, row.n * row.k)}


def by_elements(row: Instruction, x: dict[str, Any]) -> Any:
    """The row's step for one element at a time."""
    c, b = x["c"].reshape(ITEMS, -1), x["b"].reshape(ITEMS, row.n, row.k).tolist()
    a = np.broadcast_to(x["a"].reshape(ITEMS, -1, row.k), (ITEMS, row.n, row.k)).tolist()
    return np.array([row.step(c[i, j].item(), a[i][j], b[i][j]) for i in range(ITEMS) for j in range(row.n)], row.c.np)


@pytest.mark.parametrize("name", ["vpmaddwd", "vpmaddwd256"])
@pytest.mark.parametrize("most", [127, 128])
def test_bytes_without_a_sign_are_multiplied_in_pairs(name: str, most: int) -> None:
    """Sums of two products fit 16 bits then: the largest by the least too. Any other byte takes both of its halves apart."""
    row = instructions.BY_NAME[name]
    program, x = one_dot(row, 1, row.n, most), {**operands(row, 5, row.n)}
    x["a"][:], x["b"][: row.n * row.k], x["b"][row.n * row.k :] = most, -128, 127
    want = (x["c"].reshape(-1, 1) + (x["a"].astype(int) * x["b"]).reshape(-1, row.k)).sum(1, keepdims=True) - 3 * x["c"].reshape(-1, 1)
    got = np.zeros(ITEMS * row.n, row.c.np)
    if row.flag in targets.host().features:
        run(program, [*x.values(), got], target=targets.host())
        assert (got == (want.ravel() + 2**31) % 2**32 - 2**31).all()
    target = targets.named(TARGET[row.flag])
    text, _ = compile_for(target, render(program, target))
    assert text.count("vpmaddubsw") == (most == 127)


@rows
@pytest.mark.parametrize("threads", [1, ITEMS])
@pytest.mark.covering
def test_the_interpreter_steps_every_lane(row: Instruction, threads: int) -> None:
    x = operands(row)
    y = np.zeros(ITEMS * row.n, row.c.np)
    interp.run(one_dot(row, threads), {**x, "y": y})
    assert y.tobytes() == by_elements(row, x).tobytes()


@rows
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.covering
def test_each_lane_may_have_a_group_of_its_own(way: Any, row: Instruction) -> None:
    x = operands(row, 5, row.n)
    program, want, got = one_dot(row, 1, row.n), np.zeros(ITEMS * row.n, row.c.np), np.zeros(ITEMS * row.n, row.c.np)
    interp.run(program, {**x, "y": want})
    assert want.tobytes() == by_elements(row, x).tobytes()
    if row.flag in targets.host().features:
        way(program, [*x.values(), got], target=targets.host())
        assert got.tobytes() == want.tobytes()


@rows
def test_the_twin_adds_the_products(row: Instruction) -> None:
    x = operands(row)
    if row.c.is_float:
        x = {name: np.random.default_rng(2).integers(0, 1 << 32, v.size, dtype=np.uint32) for name, v in x.items()}
    y = np.zeros(ITEMS * row.n, np.uint32 if row.c.is_float else row.c.np)
    interp.run(one_dot(row), {**x, "y": y}, twin=True)
    c, a, b = (v.astype(object) for v in (x["c"].reshape(ITEMS, -1), x["a"].reshape(ITEMS, 1, -1), x["b"].reshape(ITEMS, row.n, row.k)))
    assert ((y.astype(object) - (c + (a * b).sum(-1)).ravel()) % 2**32 == 0).all()


@rows
def test_llvm_emits_the_instruction_and_no_other(row: Instruction) -> None:
    target = targets.named(TARGET[row.flag])
    text, _ = compile_for(target, render(one_dot(row), target))
    assert sum(
        row.name.removesuffix("vl").removesuffix("256") in line for line in text.splitlines()
    ) == row.halves and f"{row.name} %" in show(one_dot(row))


@pytest.mark.many
@rows
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.covering
def test_native_code_agrees_with_the_interpreter(way: Any, row: Instruction) -> None:
    target = targets.host()
    if row.flag not in target.features:
        pytest.skip(f"this machine has no {row.name}")
    x = operands(row, 3)
    want, got = np.zeros(ITEMS * row.n, row.c.np), np.zeros(ITEMS * row.n, row.c.np)
    interp.run(one_dot(row), {**x, "y": want})
    way(one_dot(row), [*x.values(), got], target=target)
    assert got.tobytes() == want.tobytes()


@pytest.mark.slow
@rows
def test_c_builds_for_machines_that_are_not_here(row: Instruction) -> None:
    target = replace(targets.named(TARGET[row.flag]), lang="c")
    text = render(one_dot(row), target).text
    assert row.call in text
    try:
        compiler = cc.find()
    except DeviceError as e:
        pytest.skip(str(e))
    assert len(cc.compile_c(text, target, compiler)) > 500


@rows
def test_c_takes_operands_whole(row: Instruction) -> None:
    """No operand is cut into pieces, whatever the size of its elements."""
    text = render(one_dot(row), replace(targets.named(TARGET[row.flag]), lang="c")).text
    assert not re.search(r"\bv\d+_\d+ = ", text)


@rows
@pytest.mark.parametrize("lang", ["llvm", "c"])
def test_a_target_without_it_is_refused(lang: str, row: Instruction) -> None:
    with pytest.raises(BuildError, match=f"neon has no {row.name}"):
        render(one_dot(row), replace(targets.named("neon"), lang=lang))


@pytest.mark.parametrize("target", ["opencl-cpu", "sm_90a"])
def test_languages_without_it_say_so(target: str) -> None:
    with pytest.raises(BuildError, match="has no vpdpbusd: leave out TC"):
        render(one_dot(instructions.BY_NAME["vpdpbusd"]), targets.named(target))


def test_wrong_shapes_are_refused() -> None:
    row = instructions.BY_NAME["vpdpbusd"]
    b = Builder()
    with b.phase(const(1), ()) as phase:
        acc = b.const(0, row.c, 8)
        out = b.dot(row.name, acc, b.const(1, row.a, 4), b.const(1, row.b, 64))
        b.store(Mem("param", 0, row.c, align=4), b.const(0), out)
    for lang in ("llvm", "c"):
        with pytest.raises(BuildError, match="dot"):
            render(Program("wrong", (Param("y", row.c, (8,), "out"),), (), [phase]), replace(targets.named("cascadelake"), lang=lang))

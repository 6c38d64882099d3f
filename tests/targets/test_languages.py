"""What languages declare, held against what their renderers do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from tilewright import targets
from tilewright.ir.dtypes import bool_, float16, float32, int8, int32, uint8
from tilewright.ir.errors import BuildError
from tilewright.ir.node import const
from tilewright.program import abi
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program
from tilewright.renderers import languages as rendered
from tilewright.renderers import render
from tilewright.targets import Target
from tilewright.targets.languages import Language, declare, declared, has, language

TARGETS = {
    "llvm": targets.named("znver5"),
    "c": replace(targets.named("znver5"), name="znver5-c", lang="c"),
    "opencl": targets.named("opencl-gpu"),
    "cuda": targets.named("sm_90a"),
    "hip": targets.named("gfx90a"),
}
X, Y = Param("x", float32, (64,), "in"), Param("y", float32, (64,), "out")
IN, OUT = Mem("param", 0, float32, align=4), Mem("param", 1, float32, align=4)


def program(write: Callable[[Builder], None], threads: int = 1, params: tuple[Param, ...] = (X, Y)) -> Program:
    b = Builder()
    with b.phase(const(1), (), threads) as phase:
        write(b)
    return Program("small", params, (), [phase])


def renders(p: Program, target: Target) -> bool:
    try:
        render(p, target)
    except BuildError:
        return False
    return True


def test_every_language_that_is_rendered_is_declared() -> None:
    assert set(rendered()) == set(declared()) == set(TARGETS)


@pytest.mark.parametrize("lang", TARGETS)
def test_groups(lang: str) -> None:
    p = program(lambda b: b.barrier(), 32)
    assert renders(p, TARGETS[lang]) == language(lang).groups == TARGETS[lang].groups


@pytest.mark.parametrize("lang", TARGETS)
def test_prefetch(lang: str) -> None:
    p = program(lambda b: b.prefetch(IN, b.const(3)))
    assert renders(p, TARGETS[lang]) == language(lang).prefetch


@pytest.mark.parametrize("lang", TARGETS)
def test_instructions(lang: str) -> None:
    def write(b: Builder) -> None:
        acc, a, x = b.const(0, int32, 16), b.const((1, 2, 3, 4), uint8, 4), b.const(1, int8, 64)
        b.store(Mem("param", 0, int32, align=4), b.const(0), b.dot("vpdpbusd", acc, a, x))

    target = replace(TARGETS[lang], features=TARGETS[lang].features | {"avx512vnni"})
    assert renders(program(write, params=(Param("y", int32, (16,), "out"),)), target) == language(lang).instructions


@pytest.mark.parametrize("lang", ["opencl", "cuda"])
@pytest.mark.parametrize("features", [frozenset[str](), frozenset({"subgroups"})])
def test_shuffles(lang: str, features: frozenset[str]) -> None:
    target = replace(TARGETS[lang], features=features)
    p = program(lambda b: b.store(OUT, b.const(0), b.shfl_xor(b.load(IN, b.const(0)), 1)), 32)
    assert renders(p, target) == has(language(lang).shuffles, features)


@pytest.mark.parametrize("lang", TARGETS)
@pytest.mark.parametrize("feature", ["f16c", "fp16", ""])
def test_conversions_of_16_bits(lang: str, feature: str) -> None:
    """Integer code multiplies by 2**112, except where an instruction does it (CUDA writes that code beside its instruction)."""
    half = Param("x", float16, (64,), "in")

    def write(b: Builder) -> None:
        b.store(OUT, b.const(0), b.op("cast", b.load(Mem("param", 0, float16, align=2), b.const(0)), dtype=float32))

    target = replace(TARGETS[lang], features=frozenset({feature}))
    text = render(program(write, params=(half, Y)), target).text
    instruction = "cvt.f32.f16" in text or "fpext <" in text or "fpext half" in text or "as_half" in text or "_Float16" in text
    assert instruction == has(language(lang).halves, target.features)


@pytest.mark.parametrize("lang", TARGETS)
def test_fused_products(lang: str) -> None:
    def write(b: Builder) -> None:
        x = b.load(IN, b.const(0))
        b.store(OUT, b.const(0), b.op("fma", x, x, x))

    text = render(program(write), replace(TARGETS[lang], features=frozenset())).text
    assert bool(re.search(r"\bfmaf?\(", text)) == language(lang).fuses


@pytest.mark.parametrize("lang", ["opencl", "cuda"])
def test_vectors(lang: str) -> None:
    """A vector of 32 lanes is as many pieces as the widest one makes of it."""

    def write(b: Builder) -> None:
        x = b.load(IN, b.const(0), 32)
        b.store(OUT, b.const(0), b.op("sqrt", x))

    assert render(program(write), TARGETS[lang]).text.count("sqrt") == 32 // language(lang).vectors


@pytest.mark.parametrize("lang", TARGETS)
def test_vectors_at_any_address(lang: str) -> None:
    """Four floats at a multiple of four bytes: one access, or four."""
    p = program(lambda b: b.store(OUT, b.const(0), b.load(IN, b.const(0), 4)))
    text = render(p, TARGETS[lang]).text
    once = {"llvm": "load <4 x float>", "c": "*(const f32x4u *)", "opencl": "vload4", "cuda": "float4", "hip": "float4"}[lang]
    assert (once in text) == language(lang).unaligned


@pytest.mark.parametrize("lang", ["llvm", "c"])
def test_masked_stores(lang: str) -> None:
    """One operation, or a function that goes from lane to lane. (C names the instruction of a processor that has one.)"""
    mask = (True, False, True, True)
    text = render(program(lambda b: b.store(OUT, b.const(0), b.load(IN, b.const(0), 4), b.const(mask, bool_, 4))), TARGETS[lang]).text
    assert ("@llvm.masked.store" in text) == language(lang).masked
    assert ("for (int i" in text) != (language(lang).masked or lang == "c")


@pytest.mark.parametrize("lang", TARGETS)
def test_stores_past_the_caches(lang: str) -> None:
    streamed = Mem("param", 1, float32, align=16, nt=True)
    text = render(program(lambda b: b.store(streamed, b.const(0), b.load(IN, b.const(0), 4))), TARGETS[lang]).text
    assert bool(re.search(r"!nontemporal|store_streaming|__stcs", text)) == language(lang).nontemporal


@pytest.mark.parametrize("lang", ["opencl", "cuda"])
def test_static_shared_memory(lang: str) -> None:
    p = program(lambda b: b.barrier(), 32)
    target = replace(TARGETS[lang], shared=200 << 10)
    for size in (48 << 10, (48 << 10) + 64):
        p.shared = size
        limit = language(lang).static_shared
        assert abi.dynamic_shared(p.signature, target, 0) == (size if limit and size > limit else 0)


def test_a_language_that_nobody_declared_has_nothing_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = replace(TARGETS["cuda"], lang="mine")
    assert mine.language == Language("mine", "mine") and not mine.groups
    monkeypatch.setattr("tilewright.targets.languages._LANGUAGES", {})
    declare(Language("mine", "My own", groups=True))
    assert mine.groups and mine.language.title == "My own"

"""Updates of memory as processors want them: addresses in one register where they guess by an address's registers, and choices made
before they are stored where masked stores are slow."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import targets
from tilewright.ir import KernelBuilder, float32, float64, int32, maximum, minimum
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.renderers import render

N, V = 1000, 64
BARRIER = 'asm ""'


def counts(computed: bool = True) -> Kernel:
    """How often each number occurs in some, or in what is `computed` of them."""
    kb = KernelBuilder("counts")
    i = kb.axis("n", N)
    x = kb.input("x", (N,), int32, range=(0, V - 1))
    kb.store("y", int32, (V,), (i,), 1, (cast((x[i] * 5) & (V - 1), "int64") if computed else x[i],), combine="add")
    return kb.build()


@pytest.mark.parametrize(("name", "kept"), [("znver4", True), ("znver5", False), ("cascadelake", False)])
def test_addresses_are_kept_whole_where_they_are_guessed_by_registers(name: str, kept: bool) -> None:
    target = targets.named(name)
    text = render(lower(apply(counts(), parse("Un8"), target)), target).text
    assert text.count(BARRIER) == (8 if kept else 0)


@pytest.mark.parametrize("opts", ["(none)", "Vy1x8 Un8"])
def test_only_what_lanes_say_is_kept_whole(opts: str) -> None:
    """One point at a time has its index in a register, as those have that are read from memory; copies (SPLIT) are cleared and
    combined at places that loops count."""
    target = targets.named("znver4")
    text = render(lower(apply(counts(), parse(opts), target)), target).text
    assert text.count(BARRIER) == (0 if opts == "(none)" else 8)
    read = render(lower(apply(counts(False), parse("Un8"), target)), target).text
    assert BARRIER not in read


def test_indices_whose_parts_are_used_twice_are_looked_at_once() -> None:
    """A hash of many steps has two ways from each to the one before: as many ways in all as numbers of so many bits."""
    kb = KernelBuilder("hashed")
    i = kb.axis("n", N)
    h = kb.input("x", (N,), int32, range=(0, V - 1))[i]
    for _ in range(60):
        h = h * h + h
    kb.store("y", int32, (V,), (i,), 1, (maximum(minimum(cast(h, "int64"), V - 1), 0),), combine="add")
    target = targets.named("znver4")
    assert BARRIER not in render(lower(apply(kb.build(), (), target)), target).text


@pytest.mark.parametrize("opts", ["Un8", "Un32", "Vy1x8 Un16", "Vy2x4 Un8"])
def test_updates_count_every_point(opts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets.Target, "guesses_by_registers", property(lambda t: t.lang == "llvm"))
    x = np.random.default_rng(0).integers(0, V, N).astype(np.int32)
    target = targets.host()
    assert BARRIER in render(lower(apply(counts(), parse(opts), target)), target).text
    np.testing.assert_array_equal(best(counts(), opts=opts, threads=1)(x), np.bincount(x * 5 % V, minlength=V))


def largest(dtype: DType) -> Kernel:
    """The largest numbers of the rows of each segment."""
    kb = KernelBuilder("largest")
    i, j = kb.axis("n", 100), kb.axis("d", 64)
    x, at = kb.input("x", (100, 64), dtype), kb.input("at", (100,), int32, range=(0, 7))
    kb.store("y", dtype, (8, 64), (i, j), x[i, j], indices=(at[i], j), combine="max")
    return kb.build()


@pytest.mark.parametrize(("name", "kept"), [("znver3", 4), ("znver4", 0), ("v3", 0)])
def test_choices_are_made_before_they_are_stored_where_masked_stores_are_slow(name: str, kept: int) -> None:
    target = targets.named(name)
    text = render(lower(apply(largest(float32), parse("Ud32"), target)), target).text
    assert text.count(BARRIER) == kept


@pytest.mark.parametrize("dtype", [float32, float64, int32])
@pytest.mark.parametrize("opts", ["Ud2", "Ud4", "Ud16", "Ud64"])
def test_choices_are_right(dtype: DType, opts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of any width, of which those that fill no register go their old way."""
    monkeypatch.setattr(targets.Target, "stores_slowly_by_masks", property(lambda t: t.lang == "llvm"))
    rng = np.random.default_rng(0)
    x, at = rng.integers(-50, 50, (100, 64)).astype(dtype.np), rng.integers(0, 8, 100).astype(np.int32)
    expected = np.stack([x[at == k].max(axis=0) for k in range(8)])
    np.testing.assert_array_equal(best(largest(dtype), opts=opts, threads=1)(x, at), expected)

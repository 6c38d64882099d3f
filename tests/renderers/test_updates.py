"""Updates of places that lanes of a vector say: their address is in one register where the processor guesses by an address's registers."""

from __future__ import annotations

import numpy as np
import pytest
from tilewright import targets
from tilewright.ir import KernelBuilder, int32
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
    """One point at a time has its index in a register, as those have that are read from memory; copies (PRIVATE) are cleared and
    combined at places that loops count."""
    target = targets.named("znver4")
    text = render(lower(apply(counts(), parse(opts), target)), target).text
    assert text.count(BARRIER) == (0 if opts == "(none)" else 8)
    read = render(lower(apply(counts(False), parse("Un8"), target)), target).text
    assert BARRIER not in read


@pytest.mark.parametrize("opts", ["Un8", "Un32", "Vy1x8 Un16", "Vy2x4 Un8"])
def test_updates_count_every_point(opts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets.Target, "guesses_by_registers", property(lambda t: t.lang == "llvm"))
    x = np.random.default_rng(0).integers(0, V, N).astype(np.int32)
    target = targets.host()
    assert BARRIER in render(lower(apply(counts(), parse(opts), target)), target).text
    np.testing.assert_array_equal(best(counts(), opts=opts, threads=1)(x), np.bincount(x * 5 % V, minlength=V))

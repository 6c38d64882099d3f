"""Groups of components that all go one way are computed as they lie; those that do not are taken apart and woven as before."""

from __future__ import annotations

from collections import Counter

import pytest
from checks import check_compiled, check_twin
from tilewright import targets
from tilewright.ir import KernelBuilder, cast, float32, int32, maximum, minimum, sqrt, uint8, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import For, Instr, Program, statements

LEVELS = ("x86-64-v2", "avx2", "x86-64-v4")


def smoothed(n: int, components: int = 3, kind: str = "uint8") -> Kernel:
    """Each component of pixels in a row, with those beside it; clamped."""
    kb = KernelBuilder("smoothed")
    j, c = kb.axis("w", n), kb.axis("c", components)
    x = kb.input("x", (n, components), kind)
    wide = int32 if kind == "uint8" else float32
    left, right = cast(x[maximum(j - 1, 0), c], wide), cast(x[minimum(j + 1, n - 1), c], wide)
    total = left + 2 * cast(x[j, c], wide) + right if kind == "uint8" else left + sqrt(x[j, c] * x[j, c]) - right
    kb.store("y", kind, (n, components), (j, c), cast(total >> 2, uint8) if kind == "uint8" else total)
    return kb.build()


def gains(n: int) -> Kernel:
    """Numbers of its own for each component, and one for all."""
    kb = KernelBuilder("gains")
    i, x = kb.axis("w", n), kb.input("x", (n, 3), float32)
    for c, gain in enumerate((0.5, 2.0, -3.0)):
        kb.store("y", float32, (n, 3), (i,), where(x[i, c] > 1.0, 1.0, x[i, c] * gain), (i, c))
    return kb.build()


def turned(n: int) -> Kernel:
    """Complex numbers by one: the components go different ways."""
    kb = KernelBuilder("turned")
    i, x = kb.axis("w", n), kb.input("x", (n, 2), float32)
    kb.store("y", float32, (n, 2), (i,), 0.6 * x[i, 0] - 0.8 * x[i, 1], (i, 0))
    kb.store("y", float32, (n, 2), (i,), 0.8 * x[i, 0] + 0.6 * x[i, 1], (i, 1))
    return kb.build()


def swapped(n: int) -> Kernel:
    """What lies in another order comes from no whole vectors."""
    kb = KernelBuilder("swapped")
    i, x = kb.axis("w", n), kb.input("x", (n, 2), float32)
    kb.store("y", float32, (n, 2), (i,), x[i, 1] + 1.0, (i, 0))
    kb.store("y", float32, (n, 2), (i,), x[i, 0] + 1.0, (i, 1))
    return kb.build()


def over(n: int, kind: str = "float32") -> Kernel:
    """Three components of pixels beside a weight that they share, over three."""
    kb = KernelBuilder("over")
    i, c = kb.axis("w", n), kb.axis("c", 3)
    x, y = kb.input("x", (n, 4), kind), kb.input("y", (n, 3), kind)
    wide = "int32" if kind.startswith("u") else "float32"
    weight = cast(x[i, 3], wide)
    kb.store("z", kind, (n, 3), (i, c), cast(cast(x[i, c], wide) * weight - cast(y[i, c], wide) * (1 - weight), kind))
    return kb.build()


def inner(program: Program) -> Counter[str]:
    """Operations in loops."""
    loops = [s for p in program.phases for s in statements(p.body) if isinstance(s, For)]
    return Counter(s.op for f in loops for s in f.body.stmts if isinstance(s, Instr))


def lowered(kernel: Kernel, opts: str, level: str) -> Program:
    return lower(apply(normalise(kernel), parse(opts), targets.named(level)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("made", [smoothed(331), smoothed(331, 2), smoothed(331, 4, "float32"), gains(331)], ids=lambda k: k.name)
@pytest.mark.covering
def test_what_goes_one_way_is_not_taken_apart(made: Kernel, level: str) -> None:
    components = made.outputs[0].shape[-1]
    axis = next((a.arg.name for a in normalise(made).stores[0].axes if a.arg.extent == components), None)
    opts = f"Uw64 U{axis}{components}"
    found = inner(lowered(made, opts, level))
    assert found["store"] >= components and found["load"] and not found["shuffle"]
    check_twin(made, parse(opts), targets.named(level))


@pytest.mark.parametrize("made", [turned(331), swapped(331)], ids=lambda k: k.name)
def test_what_goes_different_ways_is(made: Kernel) -> None:
    part = normalise(made).stores[0].axes[-1].arg.name
    opts = f"Uw32 U{part}2"
    assert inner(lowered(made, opts, "avx2"))["shuffle"]
    check_twin(made, parse(opts), targets.named("avx2"))
    check_compiled(made, parse(opts))


@pytest.mark.parametrize("kind", ["float32", "uint16"])
def test_what_components_share_is_spread_by_one_shuffle(kind: str) -> None:
    """Where any lanes of two vectors come together at once: those of the picture with a weight, and the weight, three vectors each."""
    made = over(331, kind)
    assert inner(lowered(made, "Uw16 Uc3", "x86-64-v4"))["shuffle"] == 6
    assert inner(lowered(over(331, "uint8"), "Uw16 Uc3", "x86-64-v4"))["shuffle"] > 6  # (not of bytes)
    for level in LEVELS:
        check_twin(made, parse("Uw16 Uc3"), targets.named(level))
    check_compiled(made, parse("Uw16 Uc3"))
    check_compiled(made, parse("Uw32 Uc3"))


@pytest.mark.many
@pytest.mark.parametrize("width", [8, 16, 64])
@pytest.mark.parametrize(
    "made", [smoothed(331), smoothed(333, 2), smoothed(125, 4), smoothed(125, 4, "float32"), gains(125)], ids=lambda k: k.name
)
@pytest.mark.covering
def test_results_stay_what_they_are(made: Kernel, width: int) -> None:
    components = made.outputs[0].shape[-1]
    axis = next(a.arg.name for a in normalise(made).stores[0].axes if a.arg.extent == components)
    check_compiled(made, parse(f"Uw{width} U{axis}{components}"))

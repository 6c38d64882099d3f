"""Sums with inserted zeros keep their values when they go over residue classes, and lose the tests of remainders."""

from __future__ import annotations

from itertools import product
from math import gcd

import numpy as np
import pytest
from checks import check_compiled
from tilewright import named_kernels
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import Kernel, KernelBuilder, float32, where
from tilewright.ir.evaluation import evaluate
from tilewright.ir.node import walk
from tilewright.ir.normal_form import normalise
from tilewright.ir.normal_form.residue_classes import split_by_residue
from tilewright.targets import host, named

OUT, IN, INNER = 11, 6, 3


def spaced(step: int, factor: int, taps: int, offset: int, sign: int = 1, out: int = OUT, epilogue: bool = True) -> Kernel:
    """y[o] = max(Σ x[c, q] · w[c, k] + b[o], 0) with step · q = o + factor · k + offset where that is whole and inside."""
    kb = KernelBuilder("spaced")
    o, c, k = kb.axis("o", out), kb.axis("c", INNER), kb.axis("k", taps)
    x, w, b = kb.input("x", (INNER, IN), float32), kb.input("w", (INNER, taps), float32), kb.input("b", (out,), float32)
    place = (o + k * factor + offset) * sign
    q = (place // step) * sign
    there = (place % step).eq(0) & (q >= 0) & (q < IN)
    total = kb.sum("total", (o,), (c, k), x.masked(there, c, q) * w[c, k])
    kb.store("y", float32, (out,), (o,), where(total[o] + b[o] > 0, total[o] + b[o], 0.0) if epilogue else total[o])
    return kb.build()


def arrays(kernel: Kernel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {b.name: rng.standard_normal([int(n) for n in b.shape]).astype(np.float32) for b in kernel.inputs}


CASES = list(product((2, 3, 4, 5), (OUT, 12, 4, 1), (-1, 1, -2, 3, 2, -4, -6), (1, 2, 3, 5), (0, 1, -3, 4), (1, -1)))


@pytest.mark.many
@pytest.mark.parametrize("step", (2, 3, 4, 5))
def test_values_stay(step: int) -> None:
    for _, out, factor, taps, offset, sign in [c for c in CASES if c[0] == step][::11]:
        kernel = spaced(step, factor, taps, offset, sign, out)
        normal = normalise(kernel)
        given = arrays(kernel)
        moved = {b.name: given[b.name].reshape([int(n) for n in b.shape]) for b in normal.inputs}
        (a,), (b,) = evaluate(kernel, given).values(), evaluate(normal, moved).values()
        np.testing.assert_allclose(a, b.reshape(a.shape), rtol=1e-12, err_msg=str((step, factor, taps, offset, sign, out)))


@pytest.mark.parametrize(
    ("step", "factor", "taps", "offset"), [(2, -1, 4, 1), (2, 1, 3, 0), (3, -2, 5, 2), (4, 2, 3, 1), (2, 2, 3, 1), (3, -1, 2, 0)]
)
def test_no_remainder_is_tested_in_the_sum(step: int, factor: int, taps: int, offset: int) -> None:
    kernel = spaced(step, factor, taps, offset)
    normal = normalise(kernel)
    assert any(n.op == "eq" for n in walk(kernel.values["total"].body)) and not any(n.op == "eq" for n in walk(normal.values["total"].body))
    assert split_by_residue(normal) is normal
    points = [np.prod([a.arg.extent for a in (*v.axes, *v.reduce_axes)]) for v in (kernel.values["total"], normal.values["total"])]
    own = step // gcd(step, factor)
    assert points[1] == INNER * -(-OUT // step) * own * -(-taps // own) < points[0]


@pytest.mark.parametrize(("steps", "alone"), [((2, 4), False), ((6, 3), False), ((2, 8, 4), False), ((2, 3), True)])
def test_sums_of_several_steps_go_over_residues_of_the_largest(steps: tuple[int, ...], alone: bool) -> None:
    """Of one that no other divides, the other's remainders are still tested."""
    kb = KernelBuilder("several")
    o, out = kb.axis("o", 48), None
    for n, step in enumerate(steps):
        k, x = kb.axis(f"k{n}", step + 1), kb.input(f"x{n}", (48,), float32)
        w, place = kb.input(f"w{n}", (step + 1,), float32), o - k + 1
        total = kb.sum(f"total{n}", (o,), k, x.masked((place % step).eq(0) & (place >= 0) & (place < 48), place // step) * w[k])[o]
        out = total if out is None else out + total
    kb.store("y", float32, (48,), (o,), out)
    kernel = kb.build()
    normal, given = normalise(kernel), arrays(kernel)
    assert any(n.op == "eq" for n in walk(*(v.body for v in normal.values.values()))) is alone
    moved = {b.name: given[b.name].reshape([int(n) for n in b.shape]) for b in normal.inputs}
    (a,), (b,) = evaluate(kernel, given).values(), evaluate(normal, moved).values()
    np.testing.assert_allclose(a, b.reshape(a.shape), rtol=1e-12)
    check_compiled(normal, quick_starts(normal, host())[0], host())


def test_many_residues_are_neighbours_of_weights() -> None:
    """The gradient of frames that are 32 apart reads weights at residue + 32 j: lanes along the residues, which need no register each."""
    kernel = normalise(spaced(32, -1, 64, 0, out=160, epilogue=False))
    assert not any(n.op == "mod" for n in walk(kernel.values["total"].body))
    assert [o.on for o in quick_starts(kernel, named("v4"))[0] if o.op == "UPCAST" and o.arg >= 16] == ["o_of32"]


@pytest.mark.parametrize("form", [(2, -1, 3, 1), (3, -1, 5, 2), (2, 2, 3, 1), (4, 2, 3, 1), (2, -3, 2, 0)])
def test_start_schedules_compute_it(form: tuple[int, int, int, int]) -> None:
    kernel = normalise(spaced(*form, out=45))
    for opts in starts(kernel, host())[:3]:
        check_compiled(kernel, opts)


def test_what_is_read_elsewhere_stays() -> None:
    """A sum that another value reads at a shifted place keeps its axis, and so does a maximum."""
    kb = KernelBuilder("shifted")
    o, p, k = kb.axis("o", 9), kb.axis("p", 8), kb.axis("k", 3)
    x, w = kb.input("x", (6,), float32), kb.input("w", (3,), float32)
    q = (o + k) // 2
    total = kb.sum("total", (o,), k, x.masked(((o + k) % 2).eq(0) & (q < 6), q) * w[k])
    kb.store("y", float32, (8,), (p,), total[p + 1] - total[p])
    kernel = kb.build()
    assert split_by_residue(kernel) is kernel


@pytest.mark.parametrize("places", (8, 128))
def test_places_that_are_read_in_rows_are_no_residues(places: int) -> None:
    """Frames of 4 rows are added up, each a row after the one before: y is stored by row and place, and x is read along places. Vectors of
    rows would read a column, and as many residues need a register each."""
    kb = KernelBuilder("frames")
    i, j, k = kb.axis("i", 43), kb.axis("j", places), kb.axis("k", 4)
    x, w = kb.input("x", (40, 4 * places), float32), kb.input("w", (4 * places,), float32)
    total = kb.sum("total", (i, j), k, x.masked((i - k >= 0) & (i - k < 40), i - k, k * places + j) * w[k * places + j])
    kb.store("y", float32, (43 * places,), (i, j), total[i, j], (i * places + j,))
    first = quick_starts(kb.build(), host())[0]
    lanes = next(o.on for o in first if o.op == "UPCAST")
    assert lanes == "j", first


def test_channels_of_groups_are_no_residues() -> None:
    """y is stored by group and channel as by block and residue. But both operands are read by the group: nothing slides along it. Vectors
    along 3 taps would be padded to 16."""
    built = named_kernels.get("conv2d_dw")
    assert built.odd_shape["groups"] > 1
    first = quick_starts(normalise(built.kernel(built.odd_shape)), named("znver5"))[0]
    assert all(o.arg < 16 for o in first if o.op == "PADTO"), first

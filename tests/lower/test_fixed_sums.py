"""Fixed numerics: a sum has one order of additions, whatever the schedule."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from checks import check_twin
from thorough import amount
from tilewright import KernelBuilder, named_kernels
from tilewright.interp import run
from tilewright.ir.errors import OptError, UsageError
from tilewright.ir.fixed_sums import fixed
from tilewright.ir.functions import exp, sqrt
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import canonical, normalise
from tilewright.lower import lower
from tilewright.opts import apply, parse, short
from tilewright.search.space import OptEngine, Space, mutate
from tilewright.targets import named


def two_sums(b: int) -> Kernel:
    k = KernelBuilder("two_sums")
    m, n, j = k.axis("m", b), k.axis("n", 75), k.axis("j", 75)
    x = k.input("x", (b, 75), "float32")
    s = k.sum("s", m, n, x[m, n] * exp(x[m, n]))
    q = k.sum("q", m, j, x[m, j] * x[m, j])
    k.store("y", "float32", (b,), (m,), s[m] / sqrt(q[m]))
    return k.build()


KERNELS = {
    "matmul": lambda: named_kernels.make("matmul", {"m": 3, "n": 18, "k": 530}, "float32"),
    "matmul_nt": lambda: named_kernels.make("matmul_nt", {"m": 2, "n": 19, "k": 300}, "bfloat16"),
    "matvec": lambda: named_kernels.make("matvec", {"m": 17, "n": 300}, "float32"),
    "sum_rows": lambda: named_kernels.make("sum_rows", {"m": 2, "n": 4500}, "float32"),
    "sum_cols": lambda: named_kernels.make("sum_cols", {"m": 700, "n": 9}, "float32"),
    "softmax": lambda: named_kernels.make("softmax", {"m": 2, "n": 77}, "float64"),
    "layernorm": lambda: named_kernels.make("layernorm", {"m": 3, "n": 77}, "float32"),
    "attention": lambda: named_kernels.make("attention", {"b": 1, "h": 1, "s": 66, "d": 3}, "float32"),
    "conv2d": lambda: named_kernels.make("conv2d", {"n": 1, "c": 34, "h": 2, "w": 5, "oc": 2, "kh": 3, "kw": 3}, "float32"),
    "two sums": lambda: two_sums(2),
}


def outputs(kernel: Kernel, opts: Any, level: str) -> list[bytes]:
    """The bits of a schedule's outputs, by the interpreter."""
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=b.shape).astype(b.dtype.np) if b.role == "in" else np.zeros(b.shape, b.dtype.np) for b in kernel.buffers]
    run(lower(apply(kernel, opts, named(level))), arrays)
    return [a.tobytes() for a, b in zip(arrays, kernel.buffers, strict=True) if b.role == "out"]


@pytest.mark.parametrize("name", KERNELS)
def test_random_schedules_have_the_same_bits(name: str, request: pytest.FixtureRequest) -> None:
    kernel = normalise(fixed(KERNELS[name]()))
    want = outputs(kernel, (), "v4")
    rng, count = Random(3), 0
    for level in ("v4", "v3", "neon"):
        space = Space(OptEngine(kernel, named(level), 2), frozenset({"FIXED"}))
        known = [s for o in ((), *space.starts()[:3]) if (s := space.state(o)) is not None]
        known += [s for _ in range(amount(request, 3, 6)) if (s := mutate(space, rng.choice(known), rng)) is not None]
        for s in known:
            assert outputs(kernel, s.opts, level) == want, f"{level}: {short(s.opts)}"
            count += 1
    assert count > 12


@pytest.mark.parametrize("opts", ["Un32", "Rk3", "Tk128 Mk<m", "Uk4", "SPLITk4", "Tgroup1"])
def test_schedules_that_add_in_another_order_are_refused(opts: str) -> None:
    few = named_kernels.make("matmul_w4", {"m": 3, "n": 8, "k": 64, "group": 16}, "float32")  # a fold that one tile holds
    kernel = fixed(few if opts == "Tgroup1" else KERNELS["sum_rows" if opts == "Un32" else "matmul"]())
    given = parse([["SPLIT", "k", 4]]) if opts.startswith("SPLIT") else parse(opts)
    with pytest.raises(OptError, match=r"fixed (numerics|order)"):
        apply(normalise(kernel), given, named("v4"))


def test_the_order_is_part_of_the_kernel() -> None:
    free = KERNELS["matmul"]()
    assert canonical(free).hash != canonical(fixed(free)).hash
    assert fixed(fixed(free)) is fixed(free)


def test_processors_without_fma_are_refused_by_name() -> None:
    kernel = normalise(fixed(KERNELS["matmul"]()))
    with pytest.raises(OptError, match="fused multiply-adds"):
        lower(apply(kernel, (), named("v2")))
    rows = normalise(fixed(KERNELS["sum_rows"]()))
    assert outputs(rows, (), "v2") == outputs(rows, parse("Um2"), "v4")


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_one_row_or_column_has_the_bits_that_it_has_among_many(layout: str) -> None:
    """Axes of one element are dropped: a product with one column is no product along rows for that."""
    name, rng = "matmul" if layout == "nn" else "matmul_nt", np.random.default_rng(2)
    a, b = rng.normal(size=(5, 530)).astype("float32"), rng.normal(size=(530, 5)).astype("float32")

    def product(m: int, n: int) -> np.ndarray:
        kernel = normalise(fixed(named_kernels.make(name, {"m": m, "n": n, "k": 530}, "float32")))
        second = b[:, :n] if layout == "nn" else b[:, :n].T
        out = np.zeros(m * n, "float32")
        given = [np.ascontiguousarray(x).reshape(p.shape) for x, p in zip((a[:m], second), kernel.inputs, strict=True)]
        run(lower(apply(kernel, (), named("v3"))), [*given, out.reshape(kernel.outputs[0].shape)])
        return out.reshape(m, n)

    whole = product(5, 5)
    for m, n in ((1, 5), (5, 1), (1, 1), (2, 3)):
        assert product(m, n).tobytes() == whole[:m, :n].tobytes(), (m, n)


def test_sums_over_two_axes_do_not_merge_where_one_channel_is_left() -> None:
    def summed(c: int) -> Kernel:
        kb = KernelBuilder("channel_sums")
        i, j, k = kb.axis("i", 6), kb.axis("j", c), kb.axis("k", 40)
        x = kb.input("x", (6, c, 40), "float32")
        kb.store("y", "float32", (c,), (j,), kb.sum("s", j, (i, k), x[i, j, k])[j])
        return fixed(kb.build())

    x = np.random.default_rng(4).normal(size=(6, 3, 40)).astype("float32")
    found = []
    for c in (1, 3):
        kernel, out = normalise(summed(c)), np.zeros(c, "float32")
        given = np.ascontiguousarray(x[:, :c]).reshape(kernel.inputs[0].shape)
        run(lower(apply(kernel, (), named("v4"))), [given, out.reshape(kernel.outputs[0].shape)])
        found.append(out[0].tobytes())
    assert found[0] == found[1]


def test_a_product_that_is_kept_is_rounded_in_every_schedule() -> None:
    """Whether a product is joined with its sum is the kernel's, not that of whoever keeps it."""
    kb = KernelBuilder("kept_product")
    i, j = kb.axis("i", 4), kb.axis("j", 90)
    x, w = kb.input("x", (4, 90), "float32"), kb.input("w", (90,), "float32")
    p = kb.value("p", (i, j), x[i, j] * w[j])
    kb.store("y", "float32", (4,), (i,), kb.sum("s", i, j, p[i, j])[i])
    kernel = normalise(fixed(kb.build()))
    want = outputs(kernel, (), "v4")
    tried = 0
    for opts in ([["STAGE", "p", {"at": "i"}]], [["PHASE", "p"]], [["UPCAST", "i", 4]]):
        try:
            given = parse(opts)
            apply(kernel, given, named("v3"))
        except OptError:
            continue
        tried += 1
        assert outputs(kernel, given, "v3") == want, opts
    assert tried >= 2


def test_several_stores_that_add_to_one_output_are_refused_by_name() -> None:
    kb = KernelBuilder("twice")
    i = kb.axis("i", 9)
    x, ids = kb.input("x", (9,), "float32"), kb.input("ids", (9,), "int32", range=(0, 3))
    for _ in range(2):
        kb.store("y", "float32", (4,), (i,), x[i], (ids[i],), combine="add")
    with pytest.raises(UsageError, match="an output of its own"):
        fixed(kb.build())


def test_chains_of_products_are_multiplied() -> None:
    kb = KernelBuilder("products")
    n, m, k = kb.axis("n", 2), kb.axis("m", 3), kb.axis("k", 33)
    x = kb.input("x", (33, 3), "float32")
    kb.store("y", "float32", (2, 3), (n, m), kb.reduce("mul", "p", (n, m), k, x[k, m])[n, m])
    made = normalise(fixed(kb.build()))
    check_twin(made, (), named("znver5"))

"""Fixed numerics: a sum has one order of additions, whatever the schedule."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from tilewright import KernelBuilder, named_kernels
from tilewright.interp import run
from tilewright.ir.errors import OptError
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
    "softmax": lambda: named_kernels.make("softmax", {"m": 3, "n": 77}, "float64"),
    "layernorm": lambda: named_kernels.make("layernorm", {"m": 3, "n": 77}, "float32"),
    "attention": lambda: named_kernels.make("attention", {"b": 1, "h": 1, "s": 80, "d": 5}, "float32"),
    "conv2d": lambda: named_kernels.make("conv2d", {"n": 1, "c": 34, "h": 4, "w": 5, "oc": 3, "kh": 3, "kw": 3}, "float32"),
    "two sums": lambda: two_sums(2),
}


def outputs(kernel: Kernel, opts: Any, level: str) -> list[bytes]:
    """The bits of a schedule's outputs, by the interpreter."""
    rng = np.random.default_rng(5)
    arrays = [rng.normal(size=b.shape).astype(b.dtype.np) if b.role == "in" else np.zeros(b.shape, b.dtype.np) for b in kernel.buffers]
    run(lower(apply(kernel, opts, named(level))), arrays)
    return [a.tobytes() for a, b in zip(arrays, kernel.buffers, strict=True) if b.role == "out"]


@pytest.mark.parametrize("name", KERNELS)
def test_random_schedules_have_the_same_bits(name: str) -> None:
    kernel = normalise(fixed(KERNELS[name]()))
    want = outputs(kernel, (), "v4")
    rng, count = Random(3), 0
    for level in ("v4", "v3", "neon"):
        space = Space(OptEngine(kernel, named(level), 2), frozenset({"FIXED"}))
        known = [s for o in ((), *space.starts()[:3]) if (s := space.state(o)) is not None]
        known += [s for _ in range(6) if (s := mutate(space, rng.choice(known), rng)) is not None]
        for s in known:
            assert outputs(kernel, s.opts, level) == want, f"{level}: {short(s.opts)}"
            count += 1
    assert count > 12


@pytest.mark.parametrize("opts", ["Un32", "Rk3", "Tk128 Mk<m", "Uk4", "SPLITk4"])
def test_schedules_that_add_in_another_order_are_refused(opts: str) -> None:
    kernel = fixed(KERNELS["sum_rows" if opts == "Un32" else "matmul"]())
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

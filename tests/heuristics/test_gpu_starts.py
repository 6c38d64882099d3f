"""Start schedules for GPUs: what they are made of, and that compilers like them (`benchmarks/gpu_starts.py` builds all of them)."""

from __future__ import annotations

from math import prod

import pytest
from cuda_build import needs_nvrtc
from tilewright import named_kernels, targets
from tilewright.heuristics import gpu_estimates, quick_starts, starts
from tilewright.heuristics.machine import DEFAULT
from tilewright.heuristics.model.gpu.thread_accesses import accesses
from tilewright.ir import KernelBuilder, cast
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import Opts, apply
from tilewright.renderers import render

HOPPER, AMPERE = targets.named("sm_90a"), targets.named("sm_80")
DOWN = frozenset({"REASSOC", "DOWNCONVERT"})


def made(name: str, dtype: str = "float32", **shape: int) -> Kernel:
    return normalise(named_kernels.make(name, shape or None, dtype))


def row_of(opts: Opts) -> str:
    return next((str(o.fields["row"]) for o in opts if o.op == "TC"), "")


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "dtype", "row"),
    [
        ("matmul", "bfloat16", "mma.m16n8k16.bf16"),
        ("matmul_nt", "float16", "mma.m16n8k16.f16"),
        ("matmul_bias_gelu", "bfloat16", "mma.m16n8k16.bf16"),
        ("batched_matmul", "float16", "mma.m16n8k16.f16"),
        ("matmul_int8", "uint8", "mma.m16n8k32.u8.s8"),
        ("conv2d", "bfloat16", "mma.m16n8k16.bf16"),
    ],
)
def test_products_of_short_types_are_made_by_matrix_instructions(name: str, dtype: str, row: str) -> None:
    kernel = made(name, dtype)
    for target in (HOPPER, AMPERE):
        for found in (starts(kernel, target), quick_starts(kernel, target)):
            assert row_of(found[0]).startswith("wgmma." if target is HOPPER else row) or row_of(found[0]) == row, found[0]
            assert {o.op for o in found[0]} >= {"TILE", "STAGE"}


@pytest.mark.slow
def test_a_large_product_gets_large_warps_and_a_ring() -> None:
    """Warps of 64 × 64 on Ampere; warpgroups of 64 × 256 on Hopper, where mma.sync reaches half of what they do."""
    kernel = made("matmul", "bfloat16", m=8192, n=8192, k=8192)
    for target, least in ((HOPPER, 3), (AMPERE, 2)):
        opts = starts(kernel, target)[0]
        s = apply(kernel, opts, target)
        assert all(p.depth >= least for p in s.stages.values()) and s.swizzle == 8 and s.group >= 128
        nest = next(n for n in s.nests if n.name in s.tensors)
        assert prod(p.trips for p in s.registers(nest) if p.axis in nest.axes) == 128
        assert row_of(opts).startswith("wgmma.m64n256" if target is HOPPER else "mma.")


@pytest.mark.slow
def test_digits_are_lost_only_where_that_is_allowed() -> None:
    kernel = made("matmul", m=1024, n=1024, k=1024)
    assert all(apply(kernel, o, HOPPER).effects <= {"REASSOC"} for o in (*starts(kernel, HOPPER), *quick_starts(kernel, HOPPER)))
    for found in (starts(kernel, HOPPER, 1, DOWN), quick_starts(kernel, HOPPER, 1, DOWN)):
        assert row_of(found[0]) == "mma.m16n8k8.tf32" and "DOWNCONVERT" in apply(kernel, found[0], HOPPER).effects


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize(("name", "products"), [("attention_dkv", 4), ("attention_dq", 3)])
def test_gradients_of_attention_with_long_heads_are_made_by_matrix_instructions(name: str, products: int) -> None:
    """All registers of a thread are taken, and hardly any is spilled: without matrix instructions it is 40 times slower by the model."""
    from tilewright.devices.cuda import nvrtc

    kernel = made(name, "bfloat16", b=4, h=16, s=4096, d=128, w=4096, causal=1, shared=1)
    for opts in (starts(kernel, HOPPER, 1, DOWN)[0], quick_starts(kernel, HOPPER, 1, DOWN)[0]):
        assert sum(o.op == "TC" for o in opts) == products
        text = render(lower(apply(kernel, opts, HOPPER)), HOPPER).text
        assert all(r.spill_stores <= 64 for r in nvrtc.resources(nvrtc.compile(text, "sm_90a")[1]).values())


def channels_last(c: int) -> Kernel:
    """A 3 × 3 convolution with zeros around the picture: (2, 28, 28, c) → (2, 28, 28, 64)."""
    kb = KernelBuilder("convolution")
    b, y, x, o = (kb.axis(name, extent) for name, extent in (("b", 2), ("y", 28), ("x", 28), ("o", 64)))
    p, q, k = kb.axis("p", 3), kb.axis("q", 3), kb.axis("k", c)
    image, weight = kb.input("image", (2, 28, 28, c), "bfloat16"), kb.input("weight", (64, 3, 3, c), "bfloat16")
    row, column = y + p - 1, x + q - 1
    inside = (row >= 0) & (row < 28) & (column >= 0) & (column < 28)
    pixel = cast(image.masked(inside, b, row, column, k), "float32")
    acc = kb.sum("acc", (b, y, x, o), (p, q, k), pixel * cast(weight[o, p, q, k], "float32"))
    kb.store("out", "float32", (2, 28, 28, 64), (b, y, x, o), acc[b, y, x, o])
    return normalise(kb.build())


@pytest.mark.parametrize(("c", "at"), [(20, "k"), (48, "k"), (64, "q"), (128, "k")])
def test_a_window_over_rows_of_channels_is_brought_ahead_as_its_weights_are(c: int, at: str) -> None:
    kernel = channels_last(c)
    for found in (starts(kernel, HOPPER), quick_starts(kernel, HOPPER)):
        stages = {o.on: o.fields for o in found[0] if o.op == "STAGE"}
        assert row_of(found[0]).startswith("mma.") and {f["at"] for f in stages.values()} == {at}
        assert stages["image"]["depth"] == stages["weight"]["depth"] >= 2


def test_three_channels_are_fewer_than_an_instruction_takes() -> None:
    assert row_of(starts(channels_last(3), HOPPER)[0]) and not any(o.op == "STAGE" for o in starts(channels_last(3), HOPPER)[0])


@pytest.mark.parametrize("m", [64, 4096])
def test_packed_weights_are_brought_ahead_as_they_lie(m: int) -> None:
    """Two numbers lie in a byte: a row of the weights' tile is half as long as one of x's."""
    kernel = made("matmul_w4", "bfloat16", m=m, n=4096, k=4096, group=128)
    s = apply(kernel, starts(kernel, HOPPER, 1, DOWN)[0], HOPPER)
    x, w = s.stages["x"], s.stages["w"]
    assert x.depth == w.depth >= 2 and w.chunk == 16 and 2 * w.box[-1][2] == x.box[-1][2]


@pytest.mark.slow
def test_few_tiles_are_split_along_the_reduction() -> None:
    kernel = made("matmul", "bfloat16", m=64, n=64, k=16384)
    for found in (starts(kernel, HOPPER), quick_starts(kernel, HOPPER)):
        assert any(o.op == "SPLIT" for o in found[0])
    assert not any(o.op == "SPLIT" for o in starts(made("matmul", "bfloat16", m=4096, n=4096, k=4096), HOPPER)[0])


@pytest.mark.many
@pytest.mark.parametrize("name", ["gelu", "add", "softmax", "layernorm", "sum_rows", "sum_cols", "sum_all", "transpose"])
def test_threads_load_sixteen_bytes_and_enough_of_them(name: str) -> None:
    kernel = made(name)
    for found in (starts(kernel, HOPPER)[0], quick_starts(kernel, HOPPER)[0]):
        whole = apply(kernel, found, HOPPER)
        s = whole.phases[0] if whole.phases else whole
        wide = [a for n in s.nests for a in accesses(s, n, DEFAULT.gpu) if a.buffer.name in {b.name for b in kernel.inputs}]
        assert any(a.size == 16 for a in wide) or s.stages, found
        first = gpu_estimates(whole)[0]
        assert first.under_way > 0.6 * first.needed, found


@pytest.mark.slow
def test_no_start_schedule_is_a_warp_that_fills_a_multiprocessor() -> None:
    for name in ("conv2d", "matmul", "attention"):
        kernel = made(name)
        for opts in starts(kernel, HOPPER):
            s = apply(kernel, opts, HOPPER)
            assert s.group > 32 or sum(p.bytes for p in s.stages.values()) < 31 << 10


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("matmul", "bfloat16"),
        ("matmul", "float32"),
        ("conv2d", "float32"),
        ("attention", "float32"),
        ("attention_dkv", "float32"),
        ("softmax", "float32"),
    ],
)
@pytest.mark.covering
def test_compilers_find_registers_for_a_start_schedule(name: str, dtype: str, target: str) -> None:
    from tilewright.devices.cuda import nvrtc

    kernel, where = made(name, dtype), targets.named(target)
    text = render(lower(apply(kernel, starts(kernel, where)[0], where)), where).text
    for taken in nvrtc.resources(nvrtc.compile(text, where.cpu)[1]).values():
        assert taken.spill_stores + taken.spill_loads <= 64 and taken.registers < 255  # a few, to make room for a group

"""Kernels in tiles compute what they say, cell by cell, and so does every schedule of them."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tile_kernels
from checks import check_compiled, check_twin
from tilewright import named_kernels, targets
from tilewright.heuristics import quick_starts, templates
from tilewright.ir import KernelError, OptError
from tilewright.ir.body import Reduce, Value
from tilewright.ir.buffer import loads
from tilewright.ir.errors import VerifyError
from tilewright.ir.node import axis
from tilewright.ir.normal_form import canonical, normalise
from tilewright.ir.operators import substitute
from tilewright.lower import lower
from tilewright.opts import apply
from tilewright.opts.legality import undecided
from tilewright.renderers import render
from tilewright.tile import TileKernel
from tilewright.tile.interpret import check, run

NAMES = [k.__name__ for k in tile_kernels.KERNELS]
written = cache(lambda made: made())
AVX2 = targets.named("avx2")


@pytest.mark.many
@pytest.mark.parametrize("made", tile_kernels.KERNELS, ids=NAMES)
def test_as_it_is_written(made: TileKernel) -> None:
    check(made.traced().trace, written(made), None, 0)


@pytest.mark.many
@pytest.mark.parametrize("made", tile_kernels.KERNELS[::2], ids=NAMES[::2])
def test_a_schedule_with_its_blocks(made: TileKernel) -> None:
    """A drawn instance of a template, or the quick start schedule, interpreted as the twin."""
    kernel, rng = normalise(written(made)), random.Random(made.__name__)
    template = rng.choice(templates(kernel, AVX2, 2))
    for _ in range(20):
        try:
            opts = template.make({name: rng.choice(values) for name, values in template.params.items()})
            apply(kernel, opts, AVX2)
            break
        except OptError:
            continue
    else:
        opts = quick_starts(kernel, AVX2, 2)[0]
    check_twin(kernel, opts, AVX2)


def test_tiles_are_the_named_kernel() -> None:
    """The same key, once block sizes are left open."""
    rows = {"m": 32, "n": 24}
    found = canonical(undecided(tile_kernels.softmax(**rows)))
    assert found.text != canonical(named_kernels.make("softmax", rows, "float32")).text  # its last step divides
    product = undecided(tile_kernels.half(m=32, n=24, k=40))
    named = named_kernels.make("matmul_nt", {"m": 32, "n": 24, "k": 40}, "bfloat16")
    assert canonical(product).text == canonical(named).text and not product.unproved


def test_attention_is_a_fold() -> None:
    kernel = tile_kernels.flash()
    (fold,) = kernel.body
    assert fold.axis.arg.extent == 11 and len(fold.components) == 3  # type: ignore[union-attr]
    assert kernel.blocks is not None and kernel.blocks.axes == ("s", "key")


@pytest.mark.parametrize("s", [3, 8, 11])
def test_a_loop_that_the_cell_ends_leaves_its_blocks_open(s: int) -> None:
    """Masks say as much as `upto`, and one product serves all that read the scores."""
    kernel = tile_kernels.windowed(s=s)
    assert kernel.blocks is not None and kernel.blocks.axes == ("s", "key")
    products = [v for v in kernel.values.values() if isinstance(v.expr, Reduce) and len({b for b, _, _ in loads(v.body)}) == 2]
    assert len(products) == 1


def test_the_end_of_an_axis_leaves_no_mask() -> None:
    """19 rows in blocks of 16 are an axis of 19."""
    kernel = tile_kernels.matmul()
    assert [a.arg.extent for a in kernel.axes] == [19, 13, 21]
    assert all(s.mask is None for s in kernel.stores) and "masked" not in canonical(kernel).text


@pytest.mark.slow
def test_compiled_and_as_source_of_gpus() -> None:
    kernel = normalise(written(tile_kernels.flash))
    check_compiled(kernel, quick_starts(kernel, targets.host(), 2)[0], threads=2)
    gpu = targets.named("sm_80")
    opts = quick_starts(kernel, gpu, 1)[0]
    assert any(o.op == "TILE" for o in opts)
    assert "__global__" in render(lower(apply(kernel, opts, gpu)), gpu).text


# the check of meaning -------------------------------------------------------------------------------------------------
def test_a_wrong_reference_is_found() -> None:
    with pytest.raises(VerifyError, match=r"y\[0, 0\] is .* in the given reference"):
        TileKernel(tile_kernels.transpose.function, lambda x: x["x"].T + 1e-2).check(m=3, n=3)


def test_another_kernel_is_found() -> None:
    """One row less in the sum, another border."""
    kernel = tile_kernels.matmul()
    (acc,) = kernel.body
    assert isinstance(acc, Value) and isinstance(acc.expr, Reduce)
    (k,) = acc.expr.axes
    short = axis(k.arg.name, k.arg.extent - 1, k.arg.family)
    fewer = replace(acc, expr=replace(acc.expr, axes=(short,), expr=substitute(acc.expr.expr, {k: short})))
    with pytest.raises(VerifyError, match="elements differ"):
        check(tile_kernels.matmul.traced().trace, replace(kernel, body=(fewer,)), None, 0)
    with pytest.raises(VerifyError, match=r"y.* in the kernel's reference"):
        check(tile_kernels.stencil.traced().trace, tile_kernels.stencil_clamp(), None, 0)


def test_an_access_outside_is_found() -> None:
    trace = tile_kernels.transpose.traced().trace
    with pytest.raises(KernelError, match="reads outside of x: at 12 of 12"):
        run(trace, {"x": np.zeros((12, 9), np.float32)})

"""Convolutions and products with lanes along the other operand's rows: right for small forms of one to three dimensions, and chosen where
the output's rows fill lanes badly."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from checks import check_compiled
from tilewright import named_kernels, targets
from tilewright.heuristics.start import quick_starts
from tilewright.ir import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.rewriter import with_constants
from tilewright.lower import lower
from tilewright.opts import Opts, apply, parse
from tilewright.program import program as programs
from tilewright.tensor import Tensor, nn

FORMS: dict[str, tuple[tuple[int, int, int], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "1d": ((2, 8, 24), (19,), (3,), {"padding": 1}),
    "1d stride": ((2, 8, 20), (23,), (5,), {"stride": 2, "padding": 2}),
    "2d": ((1, 16, 40), (7, 7), (3, 3), {"padding": 1}),
    "2d batch": ((3, 8, 33), (6, 10), (3, 3), {"padding": 1}),
    "2d stride": ((1, 12, 64), (14, 14), (3, 3), {"stride": 2, "padding": 1}),
    "2d without borders": ((1, 12, 32), (9, 12), (3, 3), {}),
    "2d points": ((1, 130, 48), (7, 7), (1, 1), {}),
    "2d points, stride": ((1, 24, 48), (14, 13), (1, 1), {"stride": 2}),
    "2d points, batch": ((3, 130, 24), (7, 6), (1, 1), {}),
    "2d points, stride, many rows": ((1, 6, 531), (9, 9), (1, 1), {"stride": 2}),
    "2d points, stride, batch": ((3, 12, 24), (19, 20), (1, 1), {"stride": 2}),
    "3d": ((1, 6, 20), (4, 5, 9), (3, 1, 3), {"padding": (1, 0, 1)}),
    "2d groups, long window": ((1, 4, 16), (24, 34), (7, 7), {"padding": 3, "groups": 2}),
    "3d groups": ((1, 16, 16), (6, 8, 10), (3, 3, 3), {"padding": 1, "groups": 2}),
    "3d channels": ((1, 6, 20), (6, 8, 10), (3, 3, 3), {"padding": 1}),
    "3d stride": ((2, 5, 17), (5, 6, 7), (3, 3, 3), {"stride": 2, "padding": 1}),
}
"""(batch, channels, output channels), the image, the window, and how it slides."""


@cache
def convolution(form: str, last: bool = False) -> Kernel:
    """`last`: channels are the last axis in memory, of images, weights and results."""
    (batch, channels, outs), space, window, how = FORMS[form]
    shapes = (batch, channels, *space), (outs, channels // how.get("groups", 1), *window)
    x, w = (np.moveaxis(np.zeros(shape, np.float32), 1, -1 if last else 1) for shape in shapes)
    first, back = (0, len(space) + 1, *range(1, len(space) + 1)), (0, *range(2, len(space) + 2), 1)

    def convolved(x: Tensor, w: Tensor) -> Tensor:
        return nn.relu(nn.conv(x.permute(first), w.permute(first), **how).permute(back) if last else nn.conv(x, w, **how))

    made = tw.jit(convolved, tune="list")
    made(Tensor(np.ascontiguousarray(x)), Tensor(np.ascontiguousarray(w)))
    return normalise(next(k for k in made.missing() if len(k.inputs) == 2))


def across(kernel: Kernel, found: list[Opts]) -> list[Opts]:
    """Those with lanes along the weights' rows."""
    weights = {b.name for b in kernel.inputs[1:]}
    return [o for o in found if any(x.op == "STAGE" and x.on in weights for x in o)]


@pytest.mark.many
@pytest.mark.covering
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("form", ["2d batch", "3d", "2d groups, long window"])
def test_images_whose_channels_are_lanes_are_staged_with_their_borders(form: str, level: str) -> None:
    kernel, target = convolution(form, last=True), targets.named(level)
    if not target.features <= targets.host().features:
        pytest.skip(f"this machine has no {level}")
    opts = next(o for o in quick_starts(kernel, target) if {x.on for x in o if x.op == "STAGE"} == {b.name for b in kernel.inputs})
    check_compiled(kernel, opts, target)


@pytest.mark.many
@pytest.mark.covering
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("form", FORMS)
def test_results_are_right(form: str, level: str) -> None:
    kernel, target = convolution(form), targets.named(level)
    if not target.features <= targets.host().features:
        pytest.skip(f"this machine has no {level}")
    fixed = with_constants(kernel, [kernel.inputs[1].name])
    tried = [(k, o) for k in (kernel, fixed) for o in across(k, quick_starts(k, target))[:1]]
    assert tried
    for k, opts in tried:
        check_compiled(k, opts, target)


@pytest.mark.many
@pytest.mark.covering
@pytest.mark.parametrize("form", ["2d batch", "2d points, batch", "3d", "3d stride"])
def test_far_images_are_staged_in_bands_and_parts(form: str) -> None:
    kernel, target = convolution(form), targets.named("x86-64-v3")
    if not target.features <= targets.host().features:
        pytest.skip("this machine has no AVX2")
    target = replace(target, l2=6144)
    found = across(kernel, quick_starts(kernel, target, 2))
    assert any(sum(x.op == "STAGE" for x in o) > 1 for o in found)
    for opts in found[:2]:
        check_compiled(kernel, opts, target, threads=2)


def points(batch: int, channels: int, rows: int, size: int, stride: int) -> Kernel:
    """A convolution with windows of one point."""
    x, w = Tensor(np.zeros((batch, channels, size, size), np.float32)), Tensor(np.zeros((rows, channels, 1, 1), np.float32))
    made = tw.jit(lambda x, w: nn.conv(x, w, stride=stride), tune="list")
    made(x, w)
    return normalise(made.missing()[0])


def test_what_strides_skip_is_left_out_of_a_copy() -> None:
    """Points of an image that lie apart are staged in the order in which they are read."""
    kernel = points(1, 256, 128, 56, 2)
    first = quick_starts(kernel, targets.named("x86-64-v4"), 1)[0]
    orders = [x.fields["order"] for x in first if x.op == "STAGE" and x.on == kernel.inputs[0].name]
    assert orders == ["panel"]


@pytest.mark.parametrize("batch", [1, 8])
def test_weights_of_points_are_packed_while_they_are_near(batch: int) -> None:
    """However large they are: a few rows at a time beside a copy of the points, which stays near."""
    kernel = points(batch, 512, 1024, 28, 2)
    image, weights = (b.name for b in kernel.inputs)
    rows = str(kernel.stores[0].axes[-3].arg.name)
    for level in ("x86-64-v3", "x86-64-v4"):
        target = replace(targets.named(level), l2=1 << 20)
        places = {x.on: x.fields["at"] for x in quick_starts(kernel, target)[0] if x.op == "STAGE"}
        assert places == (
            {image: rows, weights: f"{rows}.t"} if batch == 1 else {image: str(kernel.stores[0].axes[0].arg.name), weights: rows}
        )


def test_channels_of_a_signal_are_read_in_turns() -> None:
    """Side by side, the first lines of several channels, which are pages apart, would be waited for at once."""

    def features(x: Tensor, w: Tensor) -> Tensor:
        return nn.conv(x, w, stride=2, padding=1).permute(0, 2, 1)

    made = tw.jit(features, tune="list")
    made(Tensor(np.zeros((1, 384, 3000), np.float32)), Tensor(np.zeros((384, 384, 3), np.float32)))
    kernel = normalise(made.missing()[0])
    for level in ("x86-64-v3", "znver4"):
        first = quick_starts(kernel, targets.named(level))[0]
        channels = next(i.expr.axes[0] for i in kernel.body).arg.name
        assert any(o.op == "UPCAST" for o in first) and all(o.on != channels for o in first if o.op == "UNROLL")


@pytest.mark.parametrize("shape", [{"h": 14, "w": 14, "c": 256, "oc": 256}, {"h": 7, "w": 7, "c": 512, "oc": 512}])
def test_a_narrow_image_has_lanes_along_its_channels(shape: dict[str, int]) -> None:
    full = {"n": 1, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1} | shape
    first = quick_starts(normalise(named_kernels.make("conv2d", full)), targets.named("znver5"))[0]
    amounts = {o.on: o.amount for o in first if o.op == "UPCAST"}
    assert amounts["oc"] in (16, 32) and shape["w"] % amounts["ow"] == 0


def test_constant_weights_are_packed_where_that_saves_time_alone() -> None:
    target = targets.named("znver5")
    kernel = normalise(named_kernels.make("matmul:constant=a", {"m": 512, "n": 49, "k": 2048}))
    assert any(o.op == "STAGE" and o.fields["at"] == "once" for o in quick_starts(kernel, target)[0])
    row = normalise(named_kernels.make("matvec:constant=a", {"m": 2048, "n": 2048}))
    assert all(o.op != "STAGE" for o in quick_starts(row, target)[0])
    assert apply(kernel, quick_starts(kernel, target)[0], target)


@pytest.mark.many
@pytest.mark.covering
@pytest.mark.parametrize(("level", "threads"), [("x86-64-v2", 1), ("x86-64-v3", 2), ("x86-64-v4", 1), ("x86-64-v4", 2)])
@pytest.mark.parametrize("shape", [{"n": 3, "oc": 32, "w": 31}, {"n": 2, "oc": 40, "w": 30}])
def test_weights_gradients_are_sums_in_blocks(shape: dict[str, int], level: str, threads: int) -> None:
    full = {"c": 8, "h": 23, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1} | shape
    kernel, target = normalise(named_kernels.make("conv2d_dw", full)), targets.named(level)
    if not target.features <= targets.host().features:
        pytest.skip(f"this machine has no {level}")
    found = [s for s in quick_starts(kernel, target, threads) if any(o.op == "STAGE" and o.fields["at"] == "n" for o in s)]
    assert found
    check_compiled(kernel, found[0], target, threads=threads)


def test_statistics_over_images_have_lanes_along_them() -> None:
    """Not along the channels, which only a row of means beside the images has."""
    x, mean = Tensor(np.zeros((4, 32, 9, 9), np.float32)), Tensor(np.zeros((1, 32, 1, 1), np.float32))
    made = tw.jit(lambda x, m: ((x - m) * (x - m)).sum(axis=(0, 2, 3)), tune="list")
    made(x, mean)
    kernel = normalise(next(k for k in made.missing() if len(k.inputs) == 2))
    first = quick_starts(kernel, targets.named("znver5"))[0]
    (value,) = kernel.body
    assert next(o for o in first if o.op == "UPCAST").on in {a.arg.name for a in value.expr.axes}


@pytest.mark.parametrize("size", [7, 20])
def test_steps_of_a_window_are_unrolled_where_what_they_share_fits_registers(size: int) -> None:
    """Of 20 results in a row three steps share 22 elements, beside 20 sums in 32 registers."""
    x, w = Tensor(np.zeros((1, 32, size, size), np.float32)), Tensor(np.zeros((32, 32, 3, 3), np.float32))
    made = tw.jit(lambda x, w: nn.conv(x, w, padding=1), tune="list")
    made(x, w)
    kernel = normalise(made.missing()[0])
    found = across(kernel, quick_starts(kernel, targets.named("x86-64-v4"), 1))
    assert any(x.op == "UNROLL" for x in found[0]) == (size == 7)


def test_results_beside_each_other_are_of_one_image() -> None:
    x, w = Tensor(np.zeros((4, 3, 128, 128), np.float32)), Tensor(np.zeros((32, 3, 7, 7), np.float32))
    made = tw.jit(lambda x, w: nn.conv(x, w, stride=2, padding=3), tune="list")
    made(x, w)
    kernel = normalise(made.missing()[0])
    found = across(kernel, quick_starts(kernel, targets.named("x86-64-v4"), 1))
    assert found and not any(x.op == "UPCAST" and x.on == "d0" for o in found for x in o)


@pytest.mark.parametrize("form", ["3d groups", "3d channels"])
def test_vectors_are_as_short_as_what_fills_them(form: str) -> None:
    """Units of a Zen 4 multiply half a vector in half the time, so that lanes of a whole one need not be idle."""
    first = quick_starts(convolution(form), targets.named("znver4"))[0]
    assert next(o.amount for o in first if o.op == "UPCAST") == 8 and not any(o.op == "PADTO" for o in first)


def test_cut_sums_that_lie_apart_are_stored_row_by_row() -> None:
    """Lanes along the channels of an image are far apart in memory: blocks are turned, before each store of partial sums too."""
    kernel = convolution("2d batch")
    opts = parse("PADd1:48 Ud1:16 Ud3:10 Pd1 Td4@r0:4 Md4@r0<d0 Sin1@d1")
    made = lower(apply(kernel, opts, targets.named("x86-64-v4")))
    assert not any(s.op == "scatter" for p in made.phases for s in programs.statements(p.body) if isinstance(s, programs.Instr))
    for level in ("x86-64-v3", "x86-64-v4"):
        if targets.named(level).features <= targets.host().features:
            check_compiled(kernel, opts, targets.named(level))

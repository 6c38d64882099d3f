"""Start schedules that read memory in long runs, slide windows over staged rows, or turn blocks in registers: chosen by
structure and sizes, not by names."""

from __future__ import annotations

import pytest
from tilewright import named_kernels
from tilewright.heuristics.start import starts
from tilewright.ir.normal_form import normalise
from tilewright.targets import named

TARGET = named("cascadelake")
CONV = {"n": 1, "c": 64, "h": 56, "w": 56, "oc": 64, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1}


def made(name, shape, dtype="float32"):
    return [{(o.op, o.on): o for o in s} for s in starts(normalise(named_kernels.make(name, shape, dtype)), TARGET, 2)]


@pytest.mark.parametrize("change", [{}, {"n": 8, "c": 128, "h": 28, "w": 28, "oc": 128}, {"stride": 2, "kh": 5, "kw": 5, "pad": 2}])
def test_convolutions_have_lanes_along_the_output_channels(change):
    first = made("conv2d", CONV | change)[0]
    assert first["UPCAST", "oc"].amount % 16 == 0 and ("UPCAST", "ow") in first
    assert ("STAGE", "weight") in first and ("STAGE", "x") in first


def test_sums_over_rows_read_several_rows_side_by_side():
    first = made("sum_cols", {"m": 8192, "n": 4096})[0]
    assert ("UNROLL", "m") in first and ("MOVE", "m") in first


def test_short_columns_are_not_cut_into_strips():
    assert all(("MOVE", "m") not in s for s in made("sum_cols", {"m": 64, "n": 128}))


@pytest.mark.parametrize(("shape", "streams"), [({"m": 4096, "n": 4096}, True), ({"m": 256, "n": 256}, False)])
def test_a_transpose_is_turned_in_registers(shape, streams):
    first = made("transpose", shape)[0]
    assert first["UPCAST", "m"].amount == first["UPCAST", "n"].amount == 16 and ("STAGE", "y") not in first
    assert (("CACHE", "y") in first) == streams


def test_a_transpose_with_bounds_is_turned_too_and_one_of_short_elements_goes_through_scratch():
    assert ("STAGE", "y") not in made("transpose", {"m": 300, "n": 500})[0]
    assert ("STAGE", "y") in made("transpose", {"m": 4096, "n": 4096}, "bfloat16")[0]


@pytest.mark.parametrize("n", [3, 10])
def test_narrow_outputs_have_lanes_of_their_own_width(n):
    first = made("matmul", {"m": 3000, "n": n, "k": 3000})[0]
    assert first["UPCAST", "n"].amount in (4, 16) and first["UPCAST", "m"].amount >= 12


def test_rows_that_fill_lanes_badly_have_them_along_the_other_operands_rows():
    first = made("matmul", {"m": 3000, "n": 100, "k": 3000})[0]
    assert first["UPCAST", "m"].amount == 16 and first["UPCAST", "n"].amount == 25 and ("STAGE", "a") in first


@pytest.mark.parametrize(("n", "width"), [(3, 4), (100, 112), (300, 304)])
def test_narrow_columns_keep_all_sums_in_registers(n, width):
    first = made("sum_cols", {"m": 1_000_000, "n": n})[0]
    assert ("SPLIT", "m") in first and first["UPCAST", "n"].amount == width


def test_a_convolution_with_more_channels_than_pixels_is_cut_by_channels():
    first = made("conv2d", CONV | {"c": 512, "h": 7, "w": 7, "oc": 512})[0]
    assert ("PARALLEL", "oc") in first and first["STAGE", "weight"].fields["at"] == "oc.t"


def test_a_depthwise_convolution_may_stage_its_plane():
    found = made("conv2d", CONV | {"c": 192, "h": 28, "w": 28, "oc": 192, "kh": 5, "kw": 5, "pad": 2, "groups": 192})[:6]
    assert any(("STAGE", "x") in s and s["UNROLL", "kw"].amount == 5 for s in found)


def test_what_slides_does_not_fill_the_register_file():
    """28 accumulators and three steps of a window are more than 32 registers hold."""
    first = made("conv2d", CONV | {"n": 4, "groups": 4})[0]
    assert first["UPCAST", "oc"].amount // 16 * first["UPCAST", "ow"].amount < 28 or ("UNROLL", "kw") not in first


def test_row_numbers_do_not_make_a_transpose():
    for s in made("embedding", {"v": 1024, "n": 512, "d": 256}):
        assert ("STAGE", "table") not in s
        assert ("UPCAST", "n") not in s or s["UPCAST", "n"].amount <= 8


def test_rows_from_anywhere_are_read_side_by_side():
    first = made("embedding", {"v": 32768, "n": 16384, "d": 1024})[0]
    assert first["UPCAST", "d"].amount == 128 and first["UPCAST", "n"].amount >= 4 and ("PARALLEL", "n") in first
    assert all(("UPCAST", "n") not in s for s in made("embedding", {"v": 9, "n": 8, "d": 64}))  # too few rows to take several


def test_pooling_spells_its_windows_out():
    found = made("max_pool2d", {"n": 8, "c": 64, "h": 112, "w": 112, "kh": 3, "kw": 3, "stride": 2, "pad": 1})
    assert {("UNROLL", "kh"), ("UNROLL", "kw")} <= found[0].keys()


def test_attention_spells_out_steps_of_both_products():
    first = made("attention", {"b": 1, "h": 4, "s": 512, "d": 64})[0]
    assert {on for op, on in first if op == "UNROLL"} == {"d@dot", "key@out"}


@pytest.mark.parametrize("m", [1, 3, 12])
def test_few_rows_read_whole_rows_of_a_large_matrix_a_few_at_a_time(m):
    """On one thread the loop over their lanes is not cut into blocks: rows of 12 KB are read from their first element to the last."""
    kernel = normalise(named_kernels.make("matmul", {"m": m, "n": 3000, "k": 2900}))
    first = {(o.op, o.on): o for o in starts(kernel, named("znver4"), 1)[0]}
    assert ("MOVE", "k") in first and ("TILE", "n") not in first, first

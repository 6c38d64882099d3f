"""Seeds that read memory in long runs, slide windows over staged rows, or turn blocks in registers: chosen by structure and sizes, not by names."""

from __future__ import annotations

import pytest
from tilewright import kernels
from tilewright.ir.normalise import normalise
from tilewright.opts.seeds import seeds
from tilewright.targets import named

TARGET = named("cascadelake")
CONV = {"n": 1, "c": 64, "h": 56, "w": 56, "oc": 64, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1}


def made(name, shape, dtype="float32"):
    return [{(o.op, o.on): o for o in s} for s in seeds(normalise(kernels.make(name, shape, dtype)), TARGET, 2)]


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
    assert (("NT", "y") in first) == streams


@pytest.mark.parametrize(("shape", "dtype"), [({"m": 300, "n": 500}, "float32"), ({"m": 4096, "n": 4096}, "bfloat16")])
def test_a_transpose_with_bounds_or_short_elements_goes_through_scratch(shape, dtype):
    assert ("STAGE", "y") in made("transpose", shape, dtype)[0]


def test_row_numbers_do_not_make_a_transpose():
    assert all(("UPCAST", "n") not in s for s in made("embedding", {"v": 1024, "n": 512, "d": 256}))


def test_pooling_stages_the_rows_under_its_window():
    found = made("max_pool2d", {"n": 8, "c": 64, "h": 112, "w": 112, "kh": 3, "kw": 3, "stride": 2, "pad": 1})
    assert any(("STAGE", "x") in s and ("UNROLL", "kw") in s for s in found[:4])


def test_attention_spells_out_steps_of_both_products():
    first = made("attention", {"b": 1, "h": 4, "s": 512, "d": 64})[0]
    assert {on for op, on in first if op == "UNROLL"} == {"d@dot", "key@out"}

"""Boxes of rows: what lies inside the buffer is copied, and what lies outside is 0, wherever a box begins and ends."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_floats, check_twin
from tilewright import named_kernels, targets
from tilewright.ir import KernelBuilder, float32
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.listing import show

V2, V3, V4 = (targets.named(n) for n in ("x86-64-v2", "haswell", "znver5"))

PRODUCT = {
    "whole rows": "Um4 Un16 Pm Sa@m/row",
    "blocks of the sum": "Um4 Un16 Pn Tk16 Sa@k/row Sb@k/row",
    "blocks that are no whole vectors": "Um4 Un16 Pn Tk9 Rk3 Sa@k/row+16",
}
WINDOWS = {
    "rows of images": "PADow8 Uow8 Uoc4 Poh Sx@oh/row",
    "whole images": "PADow4 Uow4 Uoc4 Pn Sx@n/row",
    "parts of rows": "PADow4 Uow4 Tow4 Uoc2 Poh Mow<oc Sx@ow/row",
    "rows in blocks": "PADow8 Uow8 Uoc4 Toh3 Poh Moh.t<oc Sx@oh.t/row",
}


@pytest.mark.many
@pytest.mark.parametrize("target", [V2, V3, V4], ids=["v2", "v3", "v4"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8"])
@pytest.mark.parametrize("k", [7, 16, 19, 35])
@pytest.mark.parametrize("way", PRODUCT)
@pytest.mark.covering(pairs=True)
def test_rows_of_any_length(way: str, k: int, dtype: str, target: Any) -> None:
    if k <= 16 and way != "whole rows":
        k += 64
    kernel = named_kernels.make("matmul", {"m": 7, "n": 16, "k": k}, dtype)
    _right(kernel, parse(PRODUCT[way]), target)


@pytest.mark.many
@pytest.mark.parametrize("target", [V2, V3, V4], ids=["v2", "v3", "v4"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(
    ("h", "w", "kh", "kw", "stride", "pad"), [(7, 9, 3, 3, 1, 1), (5, 17, 3, 5, 1, 2), (9, 20, 1, 3, 2, 1), (3, 3, 3, 3, 1, 2)]
)
@pytest.mark.parametrize("way", WINDOWS)
@pytest.mark.covering(pairs=True)
def test_windows_that_begin_before_the_first_element(
    way: str, h: int, w: int, kh: int, kw: int, stride: int, pad: int, dtype: str, target: Any
) -> None:
    shape = {"n": 1, "c": 2, "h": h, "w": w, "oc": 8, "kh": kh, "kw": kw, "stride": stride, "pad": pad, "groups": 1}
    _right(named_kernels.make("conv2d", shape, dtype), parse(WINDOWS[way]), target)


RESIDUES = {
    "weights by channels": "Uc8 Uw2 Uphase_w2 Uphase_h2 Rkw2 Rkh2 Pn Sweight@c",
    "and the image by rows": "Uc8 Uw2 Uphase_w2 Uphase_h2 Rkw2 Rkh2 Pn Sweight@c Sdy@h/row",
    "lanes along rows": "Uw4 Uc2 Uphase_w2 Uphase_h2 Rkw2 Rkh2 Pn Sweight@n/row Sdy@n/row",
}


@pytest.mark.many
@pytest.mark.parametrize("target", [V2, V3, V4], ids=["v2", "v3", "v4"])
@pytest.mark.parametrize("window", [3, 4])
@pytest.mark.parametrize("way", RESIDUES)
@pytest.mark.covering(pairs=True)
def test_copies_that_residues_and_taps_read_in_registers(way: str, window: int, target: Any) -> None:
    shape = {"n": 2, "c": 16, "h": 7, "w": 15, "oc": 3, "kh": window, "kw": window, "stride": 2, "pad": 1}
    _right(normalise(named_kernels.make("conv2d_dx", shape)), parse(RESIDUES[way]), target)


def test_lanes_of_a_panel_whose_steps_differ() -> None:
    kb = KernelBuilder("half_steps")
    i, j, k = kb.axis("i", 16), kb.axis("j", 32), kb.axis("k", 16)
    x, w = kb.input("x", (16, 9, 16), float32), kb.input("w", (16, 32), float32)
    s = kb.sum("s", (i, j), k, x[i, (i + 1) // 2, k] * w[k, j])
    kb.store("y", float32, (16, 32), (i, j), s[i, j])
    _right(kb.build(), parse("Ui16 Uj4 Pj Sx@j"), V3)


def test_a_mask_that_is_not_about_bounds_stays_where_a_row_is_read() -> None:
    kb = KernelBuilder("triangle")
    i, j = kb.axis("m", 8), kb.axis("n", 8)
    x = kb.input("x", (8, 8), float32)
    kb.store("y", float32, (8, 8), (i, j), x.masked(j <= i, i, j) + 1.0)
    _right(kb.build(), parse("Un8 Sx@m/row"), V3)


def _right(kernel: Any, opts: Any, target: Any) -> None:
    check_twin(kernel, opts, target)
    check_floats(kernel, opts, target)


def test_a_row_longer_than_a_vector_has_no_masks() -> None:
    kernel = named_kernels.make("matmul", {"m": 16, "n": 16, "k": 67}, "int8")
    text = show(lower(apply(kernel, parse("Um4 Un16 Pm Sa@m/row"), V3)))
    assert not [line for line in text.splitlines() if "load a" in line and " if " in line]

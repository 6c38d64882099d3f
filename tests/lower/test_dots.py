"""Sums of products by matrix instructions: exact in integers, the row's own steps in bfloat16, zeros past the end, and the text kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from hand_built import object_for, undefined
from tilewright import interp, named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir import sym
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import apply, parse
from tilewright.program.listing import show
from tilewright.renderers import render
from tilewright.targets.instructions import BY_NAME

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
V4, ALDER = targets.named("znver5"), targets.named("alderlake")
NATIVE = "avx512vnni" in targets.host().features


def tc(row: str = "vpdpbusd", value: str = "acc") -> list[Any]:
    return ["TC", value, {"n": "n", "k": "k", "row": row}]


PLAIN = [["PADTO", "n", 16], ["UPCAST", "n", 16], ["STAGE", "b", {"at": "m"}]]
SCHEDULES: dict[str, list[list[Any]]] = {
    "plain": PLAIN,
    "tile": [["UPCAST", "n", 16], ["UPCAST", "m", 4], ["UNROLL", "k", 2], ["TILE", "n", 32], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]],
    "partials": [["UPCAST", "n", 16], ["UPCAST", "k", 2], ["STAGE", "b", {"at": "m"}]],
    "straddled": [["UPCAST", "n", 16], ["TILE", "k", 8], ["MOVE", "k", {"before": "m"}], ["UPCAST", "m", 2], ["STAGE", "b", {"at": "k"}], ["PARALLEL", "n"]],
    "block_of_panel": [["UPCAST", "n", 16], ["TILE", "k", 12], ["MOVE", "k", {"before": "m"}], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]],
    "both_packed": [["UPCAST", "n", 16], ["UPCAST", "m", 3], ["PARALLEL", "m"], ["STAGE", "b", {"at": "m"}], ["STAGE", "a", {"at": "m"}]],
    "a_in_rows": [["UPCAST", "n", 16], ["UPCAST", "m", 3], ["PARALLEL", "m"], ["STAGE", "b", {"at": "m"}], ["STAGE", "a", {"at": "m", "order": "row", "pad": 16}]],
    "pad": [["UPCAST", "n", 16], ["STAGE", "b", {"at": "m", "pad": 16}]],
    "chunks": [["SPLIT", "k", 3], ["UPCAST", "n", 16], ["STAGE", "b", {"at": "m"}]],
}  # fmt: skip
CASES = [(*k, s) for k in (("matmul", "int8"), ("matmul_mixed", "bfloat16")) for s in SCHEDULES]
CASES += [
    (n, "uint8" if n == "matmul_int8" else "int8", s)
    for n in ("matmul_int8", "matmul_nt", "matmul_tn")
    for s in ("tile", "both_packed", "a_in_rows")
]


@pytest.mark.many
@pytest.mark.parametrize(("name", "dtype", "schedule"), CASES)
@pytest.mark.covering(pairs=True)
def test_every_way_of_scheduling_it_is_right(name: str, dtype: str, schedule: str) -> None:
    kernel = named_kernels.make(name, {"m": 8, "n": 45, "k": 24 if schedule == "chunks" else 30}, dtype)
    row = "vdpbf16ps" if dtype == "bfloat16" else "vpdpbusd"
    opts = parse([*SCHEDULES[schedule], tc(row)])
    check_twin(kernel, opts, V4)
    check_floats(kernel, opts, V4)
    if row == "vpdpbusd" and NATIVE:
        check_compiled(kernel, opts)
    else:
        assert undefined(object_for(V4, render(lower(apply(kernel, opts, V4)), V4))) == []


@pytest.mark.parametrize(("m", "n", "k"), [(2, 16, 1), (1, 17, 3), (3, 5, 4), (5, 31, 7), (2, 16, 97)])
@pytest.mark.parametrize(("name", "dtype"), [("matmul", "int8"), ("matmul_int8", "uint8"), ("matmul_mixed", "bfloat16")])
@pytest.mark.covering
def test_small_and_prime_sizes(name: str, dtype: str, m: int, n: int, k: int) -> None:
    kernel = named_kernels.make(name, {"m": m, "n": n, "k": k}, dtype)
    row = "vdpbf16ps" if dtype == "bfloat16" else "vpdpbusd"
    opts = parse([["PADTO", "n", 16], ["UPCAST", "n", 16], ["STAGE", "b", {"at": "n" if n > 16 else "m"}], tc(row)])
    check_twin(kernel, opts, V4)
    check_floats(kernel, opts, V4)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["m", "n", "k"])
@pytest.mark.parametrize(("name", "dtype"), [("matmul", "int8"), ("matmul_mixed", "bfloat16")])
def test_symbolic_sizes(name: str, dtype: str, size: str) -> None:
    shape = {"m": 5, "n": 37, "k": 22}
    vars = {size: shape[size]}
    kernel = named_kernels.make(name, {**shape, size: sym(size, 1, 400)}, dtype)
    row = "vdpbf16ps" if dtype == "bfloat16" else "vpdpbusd"
    opts = parse([["PADTO", "n", 48], ["UPCAST", "n", 16], ["UPCAST", "m", 2], ["STAGE", "b", {"at": "m"}], tc(row)])
    check_twin(kernel, opts, V4, vars)
    check_floats(kernel, opts, V4, vars)
    if dtype == "int8" and NATIVE:
        check_compiled(kernel, opts, vars=vars)


def run(kernel: Any, opts: Any, target: Any, inputs: dict[str, Any]) -> Any:
    out = np.zeros([d for d in kernel.outputs[0].shape], kernel.outputs[0].dtype.np)
    interp.run(lower(apply(kernel, parse(opts), target)), {**inputs, kernel.outputs[0].name: out})
    return out


@pytest.mark.parametrize("opts", [[*SCHEDULES["tile"], tc()], [*SCHEDULES["a_in_rows"], tc()]], ids=["a_read_in_place", "a_packed"])
def test_the_extremes_of_signed_bytes_are_exact(opts: list[Any]) -> None:
    kernel = named_kernels.make("matmul", {"m": 8, "n": 64, "k": 40}, "int8")
    rng = np.random.default_rng(1)
    a = rng.choice(np.array([-128, -127, 0, 127], np.int8), (8, 40))
    b = rng.choice(np.array([-128, -1, 127], np.int8), (40, 64))
    a[0], b[:, 0] = -128, -128
    assert (run(kernel, opts, V4, {"a": a, "b": b}) == a.astype(int) @ b.astype(int)).all()


def test_bfloat16_takes_the_steps_of_the_instruction_in_order() -> None:
    kernel = named_kernels.make("matmul_mixed", {"m": 3, "n": 16, "k": 20}, "bfloat16")
    x = generate(kernel, {}, 4)
    got = run(kernel, [*PLAIN, tc("vdpbf16ps")], V4, x)
    want = np.zeros((3, 16), np.float32)
    for l in range(0, 20, 2):
        a, b = x["a"].astype(np.float32), x["b"].astype(np.float32)
        want = BY_NAME["vdpbf16ps"].step(
            want, [a[:, l + i, None] * np.ones(16) for i in (0, 1)], [np.ones((3, 1)) * b[l + i] for i in (0, 1)]
        )
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("a_at", [None, "panel", "row"])
def test_nothing_past_the_end_of_the_sum_is_multiplied(a_at: str | None) -> None:
    """Elements after a row of A are the next row's: infinities there, times the zeros of the panel, would be NaN."""
    kernel = named_kernels.make("matmul_mixed", {"m": 4, "n": 16, "k": 9}, "bfloat16")
    x = generate(kernel, {}, 5)
    x["a"][1] = np.inf
    x["a"][3, 0] = np.nan
    opts = [*PLAIN, *([["STAGE", "a", {"at": "m", "order": a_at}]] if a_at else []), tc("vdpbf16ps")]
    got = run(kernel, opts, V4, x)
    assert np.isfinite(got[[0, 2]]).all() and np.isnan(got[3]).all() and not np.isfinite(got[1]).any()
    check_floats(kernel, parse(opts), V4)


def test_subnormal_operands_count_as_zero_in_bfloat16() -> None:
    kernel = named_kernels.make("matmul_mixed", {"m": 2, "n": 16, "k": 2}, "bfloat16")
    x = generate(kernel, {}, 6)
    x["a"][:] = 2.0**-130
    x["b"][:] = 2.0**100
    opts = [["UPCAST", "n", 16], ["STAGE", "b", {"at": "m"}]]
    assert (run(kernel, [*opts, tc("vdpbf16ps")], V4, x) == 0).all() and (run(kernel, opts, V4, x) == 2.0**-29).all()


@pytest.mark.parametrize(("name", "dtype"), [("matmul_int8", "uint8"), ("matmul", "int8")])
def test_the_narrow_form_has_eight_lanes(name: str, dtype: str) -> None:
    kernel = named_kernels.make(name, {"m": 6, "n": 21, "k": 19}, dtype)
    opts = parse([["UPCAST", "n", 8], ["UPCAST", "m", 2], ["STAGE", "b", {"at": "m"}], tc("vpdpbusd256")])
    check_twin(kernel, opts, ALDER)
    source = render(lower(apply(kernel, opts, ALDER)), ALDER)
    assert "vpdpbusd.256" in source.text and "avxvnni" in source.text and undefined(object_for(ALDER, source)) == []


def test_a_convolution_along_its_channels() -> None:
    shape = {"n": 1, "c": 6, "h": 5, "w": 16, "oc": 4, "kh": 3, "kw": 3, "stride": 1, "pad": 1, "groups": 1}
    kernel = named_kernels.make("conv2d", shape, "bfloat16")
    opts = parse(
        [["UPCAST", "ow", 16], ["UPCAST", "oc", 2], ["STAGE", "x", {"at": "oh"}], ["TC", "acc", {"n": "ow", "k": "c", "row": "vdpbf16ps"}]]
    )
    check_twin(kernel, opts, V4)
    check_floats(kernel, opts, V4)


@pytest.mark.slow
@pytest.mark.parametrize("at", ["h", "key"])
def test_the_scores_of_attention(at: str) -> None:
    kernel = named_kernels.make("attention", {"b": 1, "h": 2, "s": 40, "d": 12}, "bfloat16")
    instruction = ["TC", "dot", {"m": "row", "n": "key@dot", "k": "d@dot", "row": "vdpbf16ps"}]
    opts = parse(
        [["TILE", "key", 16], ["UPCAST", "key", 16], ["UPCAST", "row", 2], ["PARALLEL", "h"], ["STAGE", "k", {"at": at}], instruction]
    )
    check_twin(kernel, opts, V4)
    check_floats(kernel, opts, V4)


@pytest.mark.slow
@pytest.mark.skipif(not NATIVE, reason="this machine has no VNNI")
@pytest.mark.parametrize("name", ["matmul", "matmul_int8", "matmul_nt", "matmul_tn"])
def test_start_schedules_run_here(name: str) -> None:
    kernel = named_kernels.make(name, {"m": 50, "n": 200, "k": 130}, "int8" if name != "matmul_int8" else "uint8")
    found = [s for s in starts(kernel, targets.host(), 2) if any(o.op == "TC" for o in s)]
    for opts in found[:2]:
        check_compiled(kernel, opts, threads=2)
    assert found


TEXTS = {"vpdpbusd": ("matmul", "int8"), "vdpbf16ps": ("matmul_mixed", "bfloat16")}


@pytest.mark.parametrize("row", TEXTS)
def test_program_and_source_are_as_kept(row: str) -> None:
    name, dtype = TEXTS[row]
    opts = parse([["UPCAST", "m", 2], ["UPCAST", "n", 16], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}], tc(row)])
    program = lower(apply(named_kernels.make(name, {"m": 4, "n": 32, "k": 14}, dtype), opts, V4))
    text = f"{show(program)}\n; ---- znver5\n{render(program, V4).text}"
    path = GOLDEN / f"dot-{row}.txt"
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert path.exists() and text == path.read_text(), (
        f"{path.name} differs; if that is meant, write it with TILEWRIGHT_GOLDEN=write and review the change"
    )

"""What lowering makes of schedules: which instructions, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.ir import KernelBuilder, float32, sym
from tilewright.ir.dtypes import index
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower, lower_ahead, lower_once
from tilewright.opts import apply, parse
from tilewright.program.listing import show
from tilewright.program.program import Block, For, If, Instr, Stmt, statements

AVX512, AVX2, NEON = targets.named("znver5"), targets.named("avx2"), targets.named("neon")
TILE = [["UPCAST", "m", 8], ["UPCAST", "n", 32], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]


def program(kernel: Kernel, opts: Sequence[Any], target: Any = AVX512, expand: bool = True) -> Program:
    return lower(apply(kernel, parse(list(opts)), target), expand)


def matmul(m: Any = 64, n: Any = 96, k: Any = 32, dtype: str = "float32") -> Kernel:
    return named_kernels.make("matmul", {"m": m, "n": n, "k": k}, dtype)


def everything(p: Program) -> list[Stmt]:
    return [s for phase in p.phases for s in statements(phase.body)]


def ops(found: Sequence[Stmt]) -> Counter[str]:
    return Counter(s.op for s in found if isinstance(s, Instr))


def loop(p: Program, label: str) -> For:
    """The last loop of that name (panels are filled by loops of the same names, before)."""
    return [s for s in everything(p) if isinstance(s, For) and s.label == label][-1]


def inside(block: Block) -> list[Stmt]:
    return list(statements(block))


# instructions -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("target", "vectors"), [(AVX512, 2), (AVX2, 4), (NEON, 8)])
def test_a_register_tile_is_its_loads_and_fmas(target: Any, vectors: int) -> None:
    body = inside(loop(program(matmul(), TILE, target), "k").body)
    found = ops([s for s in body if not (isinstance(s, Instr) and s.out is not None and s.out.dtype is index)])
    assert found["fma"] == 8 * vectors
    assert found["load"] == 8 + vectors
    assert set(found) <= {"fma", "load", "splat"}


def test_accumulators_are_carried_and_stored_once() -> None:
    p = program(matmul(), TILE)
    assert len(loop(p, "k").carried) == 16
    assert [v.type for v in loop(p, "k").carried] == ["float32x16"] * 16
    stores = [s for s in everything(p) if isinstance(s, Instr) and s.op == "store" and s.attr.space == "param"]
    assert len(stores) == 16


def test_panels_are_aligned_and_users_memory_is_not_trusted() -> None:
    for s in inside(loop(program(matmul(), TILE), "k").body):
        if isinstance(s, Instr) and s.op == "load":
            assert s.attr.align == (64 if s.attr.space == "scratch" else 4)


def test_equal_loads_collapse_and_invariants_leave_the_loop() -> None:
    kb = KernelBuilder("same")
    i, j = kb.axis("m", 4), kb.axis("n", 32)
    x, w = kb.input("x", (4, 32), float32), kb.input("w", (4,), float32)
    kb.store("y", float32, (4, 32), (i, j), x[i, j] * x[i, j] + w[i] + w[i] * w[i])
    p = program(kb.build(), [["UPCAST", "n", 16]])
    assert ops(everything(p))["load"] == 2
    assert ops(inside(loop(p, "n").body))["load"] == 1


def test_ragged_copies_are_masked_only_where_they_can_reach_past_the_end() -> None:
    assert all(len(s.args) == 2 for s in everything(program(matmul(n=64), TILE[:2])) if isinstance(s, Instr) and s.op == "store")
    ragged = program(matmul(n=61), TILE[:2])
    assert all(len(s.args) == 2 for s in inside(loop(ragged, "n").body) if isinstance(s, Instr) and s.op == "store")
    masked = [s for s in everything(ragged) if isinstance(s, Instr) and s.op == "store" and len(s.args) == 3]
    assert len(masked) == 8, "one vector in each row of the last step"


def test_rows_past_the_end_are_not_stored() -> None:
    vectors = everything(program(matmul(m=7, n=64), [["UPCAST", "m", 8], ["UPCAST", "n", 32]]))
    assert [len(s.args) for s in vectors if isinstance(s, Instr) and s.op == "store"] == 7 * 2 * [2]
    assert ops(everything(program(matmul(m=7, n=64), [["UPCAST", "m", 8]])))["store"] == 7
    symbolic = program(matmul(m=sym("m", 1, 64), n=64), [["UPCAST", "m", 8]])
    scalars = [s for s in everything(symbolic) if isinstance(s, If)]
    assert scalars and all(ops(inside(s.body))["store"] for s in scalars)


def test_partials_are_combined_across_lanes_once() -> None:
    p = program(named_kernels.make("sum_rows", {"m": 3, "n": 256}, "float32"), [["UPCAST", "n", 64]])
    assert len(loop(p, "n").carried) == 4
    assert ops(everything(p))["add"] - ops(inside(loop(p, "n").body))["add"] >= 3 + 4
    assert not ops(inside(loop(p, "n").body))["extract"]


def test_unrolled_steps_share_an_accumulator() -> None:
    p = program(matmul(), [["UPCAST", "n", 16], ["UNROLL", "k", 4]])
    assert len(loop(p, "k").carried) == 1
    assert ops(inside(loop(p, "k").body))["fma"] == 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_floats_are_widened_and_rounded_once(dtype: str) -> None:
    p = program(matmul(dtype=dtype), TILE)
    for s in everything(p):
        if isinstance(s, Instr) and s.out is not None and s.out.dtype.name == dtype:
            assert s.op in ("load", "cast", "const", "splat", "gather"), f"arithmetic in {dtype}: {s.op}"
    to_half = [s for s in everything(p) if isinstance(s, Instr) and s.op == "cast" and s.out is not None and s.out.dtype.name == dtype]
    assert len(to_half) == 16
    assert not any(isinstance(s, Instr) and s.op == "cast" and s.out and s.out.dtype.name == dtype for s in inside(loop(p, "k").body))


def test_elementary_functions_are_polynomials_or_kept_for_the_twin() -> None:
    kernel = named_kernels.make("softmax", {"m": 4, "n": 64}, "float32")
    assert not ops(everything(program(kernel, [["UPCAST", "n", 16]])))["exp"]
    assert ops(everything(program(kernel, [["UPCAST", "n", 16]], expand=False)))["exp"] == 2


def test_a_kept_value_is_computed_once() -> None:
    kernel = named_kernels.make("softmax", {"m": 4, "n": 64}, "float32")
    p = program(kernel, [["UPCAST", "n", 16], ["STAGE", "e", {"at": "m"}]], expand=False)
    assert ops(everything(p))["exp"] == 1
    assert p.scratch == 0  # it is kept in y
    p = program(kernel, [["UPCAST", "n", 16], ["CACHE", "y", {"policy": "stream"}], ["STAGE", "e", {"at": "m"}]], expand=False)
    assert p.scratch >= 64 * 4


def test_nothing_is_added_to_the_output_where_there_is_an_epilogue() -> None:
    straddling = [["TILE", "k", 8], ["MOVE", "k", {"before": "m"}]]
    plain = program(matmul(), straddling)
    assert plain.scratch == 0  # c itself holds the partial sums
    fused = program(named_kernels.make("matmul_bias_relu", {"m": 64, "n": 96, "k": 32}, "float32"), straddling)
    assert fused.scratch >= 64 * 96 * 4
    narrow = program(matmul(dtype="bfloat16"), straddling)
    assert narrow.scratch >= 64 * 96 * 4  # bfloat16 partial sums would be rounded at every block


def test_non_temporal_stores_are_for_outputs_that_turn_out_aligned() -> None:
    p = program(named_kernels.make("add", {"m": 4, "n": 64}, "float32"), [["UPCAST", "n", 16], ["CACHE", "y", {"policy": "stream"}]])
    assert ops(everything(p))["aligned"] == 1
    stores = [s.attr for s in everything(p) if isinstance(s, Instr) and s.op == "store"]
    assert sorted(m.nt for m in stores) == [False, True]
    assert next(m for m in stores if m.nt).align == 64


def test_split_reductions_meet_in_the_workspace() -> None:
    p = program(matmul(), [["SPLIT", "k", 4], ["UPCAST", "n", 16]])
    assert int(p.phases[0].items.arg) == 4
    assert p.work >= 4 * 64 * 96 * 4
    spaces = [{s.attr.space for s in statements(x.body) if isinstance(s, Instr) and s.op == "store"} for x in p.phases]
    assert spaces == [{"work"}, {"param"}]


def test_the_grid_is_the_product_of_parallel_loops() -> None:
    p = program(matmul(), [["UPCAST", "m", 8], ["UPCAST", "n", 32], ["PARALLEL", "m"], ["PARALLEL", "n"]])
    assert [int(x.items.arg) for x in p.phases] == [8 * 3]
    m = sym("m", 1, 999)
    assert repr(program(matmul(m=m), [["UPCAST", "m", 8], ["PARALLEL", "m"]]).phases[0].items) == repr((m + 7) // 8)


def test_the_same_options_give_the_same_program() -> None:
    assert show(program(matmul(), TILE)) == show(program(matmul(), TILE))
    swapped = [TILE[1], TILE[0], TILE[3], TILE[2]]
    assert show(program(matmul(), TILE)) == show(program(matmul(), swapped))


def test_code_stays_small() -> None:
    """Codegen time is linear in instructions: a big tile must not explode."""
    found = everything(program(matmul(128, 128, 128), [["UPCAST", "m", 14], ["UPCAST", "n", 32], *TILE[2:]]))
    assert len(found) < 300


def test_a_program_that_was_counted_is_rendered() -> None:
    """Who asks for it has it alone, since it may be changed then; it is of the very kernel, options and target."""
    kernel, opts = matmul(), parse(TILE)
    ahead = lower_ahead(apply(kernel, opts, AVX512))
    for other in (apply(kernel, opts, AVX2), apply(kernel, (), AVX512), apply(matmul(65), opts, AVX512)):
        assert lower_once(other) is not ahead
    assert lower_once(apply(kernel, opts, AVX512)) is ahead
    again = lower_once(apply(kernel, opts, AVX512))
    assert again is not ahead and show(again) == show(ahead)

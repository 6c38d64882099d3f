"""Loops with a ragged last step are done in pieces: whole steps have no masks, and the last one little work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import odd_kernels
import pytest
from checks import check_compiled, check_floats, check_twin, in_child
from odd_borders import bordered_sum, borders, kept_neighbours
from tilewright import devices, named_kernels, targets
from tilewright.heuristics import starts
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, cast, float32, float64, int8, int32, int64, sym, uint8
from tilewright.ir.functions import maximum, minimum, where
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.measure.inputs import generate
from tilewright.measure.operands import Operands
from tilewright.opts import Opts, apply, opt, parse
from tilewright.opts.analysis import thresholds
from tilewright.program.program import Block, For, If, Instr, statements
from tilewright.renderers import render

AVX512, AVX2 = targets.named("znver5"), targets.named("avx2")
MEMORY = ("load", "store", "gather", "scatter")
ROWS = [["UPCAST", "n", 32], ["UPCAST", "m", 2], ["PARALLEL", "m"]]
TILES = [
    ["UPCAST", "m", 6],
    ["UPCAST", "n", 16],
    ["TILE", "n", 64],
    ["PARALLEL", "n"],
    ["TILE", "k", 8],
    ["UNROLL", "k", 4],
    ["MOVE", "k", {"before": "m"}],
]
PANEL = ["STAGE", "b", {"at": "k"}]
FOLD = [
    ["TILE", "key", 16],
    ["UPCAST", "row", 8],
    ["UPCAST", "key@dot", 4],
    ["UPCAST", "d@out", 4],
    ["PARALLEL", "row"],
    ["STAGE", "P", {"at": "key"}],
]


def program(kernel: Kernel, opts: Any, target: Any = AVX2) -> Program:
    return lower(apply(kernel, parse(opts), target))


def masks(block: Block) -> int:
    """Masked accesses."""
    return sum(
        s.op in MEMORY and len(s.args) > (2 if s.op in ("store", "scatter") else 1) for s in statements(block) if isinstance(s, Instr)
    )


def loops(block: Block) -> Iterator[For]:
    return (s for s in statements(block) if isinstance(s, For))


@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["rmsnorm", "log_softmax", "softmax", "layernorm"])
@pytest.mark.covering
def test_whole_vectors_of_a_row_are_not_masked(name: str, target: Any) -> None:
    p = program(named_kernels.make(name, {"m": 8, "n": 109}, "float32"), ROWS, target)
    found = list(loops(p.phases[0].body))
    assert len(found) >= 2 and not any(masks(f.body) for f in found)
    assert masks(p.phases[0].body), "the last vector is"


def test_the_last_item_has_code_of_its_own() -> None:
    p = program(named_kernels.make("rmsnorm", {"m": 9, "n": 64}, "float32"), ROWS)
    whole, last = (s for s in p.phases[0].body.stmts if isinstance(s, If))
    stores = [sum(isinstance(s, Instr) and s.op == "store" for s in statements(x.body)) for x in (whole, last)]
    assert stores[0] == 2 * stores[1] > 0, "two rows, and one"
    assert not masks(whole.body) and not masks(last.body)


def test_corners_are_not_split_again() -> None:
    opts = [["UPCAST", "m", 4], ["UPCAST", "n", 16]]
    p = program(named_kernels.make("matmul", {"m": 11, "n": 41, "k": 5}, "float32"), opts)
    assert sum(f.label == "k" for f in loops(p.phases[0].body)) == 3


def test_pieces_use_the_same_room() -> None:
    ragged, even = (program(named_kernels.make("matmul", {"m": 17, "n": n, "k": 16}, "float32"), [*TILES, PANEL]) for n in (141, 192))
    assert ragged.scratch == even.scratch > 0


def test_symbolic_extents_keep_their_masks() -> None:
    p = program(named_kernels.make("rmsnorm", {"m": 8, "n": sym("n", 64, 4096)}, "float32"), ROWS)
    assert all(masks(f.body) for f in loops(p.phases[0].body))


def test_turned_panels_of_whole_blocks_are_read_in_vectors() -> None:
    opts = [["UPCAST", "m", 4], ["UPCAST", "n", 16], ["TILE", "n", 32], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]
    p = program(named_kernels.make("matmul_nt", {"m": 8, "n": 72, "k": 16}, "float32"), opts)
    whole, last = (s for s in p.phases[0].body.stmts if isinstance(s, If))
    gathers = [sum(isinstance(s, Instr) and s.op == "gather" for s in statements(x.body)) for x in (whole, last)]
    assert gathers[0] == 0 < gathers[1]


@pytest.mark.many
@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda t: t.name)
@pytest.mark.parametrize("sizes", [(13, 141, 21), (6, 64, 8), (7, 17, 9), (11, 70, 13), (12, 127, 31)])
@pytest.mark.covering
def test_every_corner_of_a_matmul(sizes: tuple[int, int, int], target: Any) -> None:
    kernel = named_kernels.make("matmul", dict(zip("mnk", sizes, strict=True)), "float32")
    opts = [o for o in TILES if o[0] != "TILE" or o[2] < dict(zip("mnk", sizes, strict=True))[o[1]]]
    opts = opts if any(o[:2] == ["TILE", "k"] for o in opts) else [o for o in opts if o[0] != "MOVE"]
    opts = opts if sizes[0] > 6 else [o for o in opts if o[0] != "MOVE"]
    opts = [["PADTO", "m", 6], ["PADTO", "n", 16], ["PADTO", "k", 4], *opts]
    for more in ([], [["STAGE", "b", {"at": "k" if any(o[0] == "MOVE" for o in opts) else "n"}]]):
        check_twin(kernel, parse([*opts, *more]), target)


@pytest.mark.slow
@pytest.mark.parametrize("s", [16, 29, 37, 47])
def test_folds_whose_last_tile_is_ragged(s: int) -> None:
    for name in ("attention", "attention_full"):
        kernel = named_kernels.make(name, {"b": 1, "h": 1, "s": s, "d": 8}, "float32")
        check_twin(kernel, parse([o for o in FOLD if o[0] != "TILE" or o[2] < s] if s > 16 else FOLD[1:-1]), AVX2)


def test_tiles_of_a_fold_that_are_whole_are_not_masked() -> None:
    p = program(named_kernels.make("attention_full", {"b": 1, "h": 1, "s": 40, "d": 8}, "float32"), FOLD)
    tiles = [f for f in loops(p.phases[0].body) if f.label.startswith("key") and len(list(loops(f.body))) > 1]
    assert tiles and not any(masks(f.body) for f in tiles)


def test_a_step_of_one_element_writes_one_element():
    """LLVM 22 makes a store of four bytes of a truncation to bfloat16 that is stored under a mask of one lane."""
    cpu = devices.get("cpu")
    kernel = named_kernels.make("matmul_tn", {"m": 13, "n": 33, "k": 1}, "bfloat16")
    source = render(lower(apply(kernel, (opt("UPCAST", "n", 12),), cpu.target)), cpu.target)
    shapes = [b.shape for b in kernel.buffers]
    inputs = generate(kernel, {}, 0)

    def run() -> str:
        memory = Operands([b.name for b in kernel.buffers], [b.dtype for b in kernel.buffers], shapes, inputs)
        memory.set_canaries()
        cpu.load(cpu.build(source), source.signature, 1).run(memory.checked, [])
        return memory.broken()

    assert in_child(run) == ""


# Loops are cut at borders: inside, a clamp, wrap or mask is no more than the index that it keeps inside.


V2, NEON = targets.named("v2"), targets.named("neon")
KINDS = ("clamp", "wrap", "reflect", "zero", "other", "selected")
WIDE = [["UPCAST", "n", 8], ["PARALLEL", "m"]]


def program_of_cuts(kernel: Kernel, opts: Any, target: Any = AVX2) -> Program:
    return lower(apply(kernel, parse(opts), target))


def loops_of_cuts(p: Program, name: str) -> Iterator[For]:
    return (s for s in statements(p.phases[0].body) if isinstance(s, For) and s.label == name)


def gathered(of: Any) -> int:
    """Accesses that are no plain vectors or scalars: gathers, and what is masked."""
    found = (s for s in statements(of.body) if isinstance(s, Instr) and s.op in ("load", "gather", "store", "scatter"))
    return sum(s.op in ("gather", "scatter") or len(s.args) > (2 if s.op == "store" else 1) for s in found)


@pytest.mark.parametrize("kind", range(6), ids=KINDS)
def test_the_inside_has_whole_vectors_only(kind: int) -> None:
    p = program_of_cuts(borders(9, 67, kind, 3), WIDE)
    inside = list(loops_of_cuts(p, "n"))
    assert inside and not any(gathered(f) for f in inside)
    assert not any(s.op in ("min", "max", "imod", "select") for f in inside for s in statements(f.body) if isinstance(s, Instr))


@pytest.mark.parametrize("target", [V2, AVX2], ids=lambda t: t.name)
@pytest.mark.parametrize("kind", [0, 1, 2, 5], ids=[KINDS[k] for k in (0, 1, 2, 5)])
@pytest.mark.covering
def test_borders_are_shuffled_together(kind: int, target: Any) -> None:
    found = [s for s in statements(program_of_cuts(borders(9, 64, kind, 3), WIDE, target).phases[0].body) if isinstance(s, Instr)]
    assert not any(s.op == "gather" for s in found) and any(s.op == "shuffle" for s in found)


@pytest.mark.parametrize("kind", range(4))
def test_sums_over_windows_too(kind: int) -> None:
    p = program_of_cuts(bordered_sum(6, 96, kind, 5), [["UPCAST", "n", 16], ["UPCAST", "m", 2]])
    whole = [f for f in loops_of_cuts(p, "n") if not gathered(f)]
    assert len(whole) == 1


def test_each_part_of_an_axis_has_its_own_expression() -> None:
    kb = KernelBuilder("halves")
    j = kb.axis("n", 64)
    a, b = kb.input("a", (64,), float32), kb.input("b", (64,), float32)
    kb.store("y", float32, (64,), (j,), where(j < 24, a[j], b[j]))
    p = program_of_cuts(kb.build(), [["UPCAST", "n", 8]])
    assert [sum(isinstance(s, Instr) and s.op == "load" for s in statements(f.body)) for f in loops_of_cuts(p, "n")] == [1, 1]


def test_an_axis_without_lanes_is_not_cut_at_a_clamp() -> None:
    kb = KernelBuilder("rows")
    i, j = kb.axis("m", 16), kb.axis("n", 64)
    x = kb.input("x", (16, 64), float32)
    kb.store("y", float32, (16, 64), (i, j), x[maximum(i - 1, 0), j] + x[minimum(i + 1, 15), j])
    assert len(list(loops_of_cuts(program_of_cuts(kb.build(), [["UPCAST", "n", 8]]), "m"))) == 1


def test_copies_that_no_clamp_touches_share_their_loads() -> None:
    """Four rows read six different ones, whatever their indices look like."""
    kb = KernelBuilder("rows")
    i, j = kb.axis("m", 16), kb.axis("n", 64)
    x = kb.input("x", (16, 64), float32)
    kb.store("y", float32, (16, 64), (i, j), x[maximum(i - 1, 0), j] + x[i, j] + x[minimum(i + 1, 15), j])
    p = program_of_cuts(kb.build(), [["UPCAST", "n", 8], ["UPCAST", "m", 4]])
    (f,) = loops_of_cuts(p, "n")
    assert sum(isinstance(s, Instr) and s.op == "load" for s in statements(f.body)) == 6


def test_a_loop_has_few_pieces_and_long_code_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KernelBuilder("many")
    j = kb.axis("n", 512)
    x = kb.input("x", (512,), float32)
    total = x[j]
    for k in range(1, 40):
        total = total + x[maximum(j - 8 * k, 0)]
    kb.store("y", float32, (512,), (j,), total)
    kernel = kb.build()
    assert 1 < len(list(loops_of_cuts(program_of_cuts(kernel, [["UPCAST", "n", 8]]), "n"))) <= 4
    monkeypatch.setattr(thresholds, "LONG", 10)
    assert len(list(loops_of_cuts(program_of_cuts(kernel, [["UPCAST", "n", 8]]), "n"))) == 1


def test_symbolic_extents_and_gpus_are_not_cut() -> None:
    kb = KernelBuilder("symbolic")
    n = sym("n", 1, 999)
    j = kb.axis("n", n)
    x = kb.input("x", (n,), float32)
    kb.store("y", float32, (n,), (j,), x[maximum(j - 1, 0)])
    assert len(list(loops_of_cuts(program_of_cuts(kb.build(), [["UPCAST", "n", 8]]), "n"))) == 1
    on_gpu = apply(borders(8, 64, 0, 1), parse([["UPCAST", "n", 4]]), targets.named("sm_80"))
    assert lower(on_gpu).phases[0].body.stmts


@pytest.mark.many
@pytest.mark.parametrize(("n", "target"), [(1, V2), (2, NEON), (3, AVX2), (13, AVX2), (41, V2)])
def test_small_and_odd_extents(n: int, target: Any) -> None:
    cut = [["PADTO", "n", 4], ["UPCAST", "n", 4], ["PARALLEL", "m"]]
    opts = parse(cut if n > 1 else [])
    for kind in range(6):
        check_twin(borders(3, n, kind, 4), parse([*cut, ["PARALLEL", "n"]]) if n > 1 else (), target)
        check_twin(bordered_sum(2, n, kind, 7), opts, target)
        check_twin(kept_neighbours(2, n, kind), opts, target)


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(6), ids=KINDS)
def test_compiled(kind: int) -> None:
    check_compiled(borders(5, 53, kind, 2), parse([["TILE", "n", 32], ["UPCAST", "n", 8], ["PARALLEL", "n"]]), threads=2)


# Right results at the edges: sizes of one, zero, primes and symbols; cut folds, repeated indices, values read off
# their axes.


TILE = [["UPCAST", "m", 8], ["UPCAST", "n", 32], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]


def program_of_edges(kernel: Kernel, opts: Sequence[Any]) -> Program:
    return lower(apply(kernel, parse(list(opts)), AVX512))


def matmul(m: Any, n: Any, k: Any) -> Kernel:
    return named_kernels.make("matmul", {"m": m, "n": n, "k": k}, "float32")


def right(kernel: Kernel, opts: Opts, **vars: int) -> None:
    """Every check there is."""
    check_twin(kernel, opts, AVX2, vars)
    check_floats(kernel, opts, AVX512, vars)
    check_compiled(kernel, opts, None, vars, threads=2)


@pytest.mark.parametrize("factor", [2**28, 2**31])
def test_indices_beyond_32_bits_are_compared_in_64(factor: int) -> None:
    kb = KernelBuilder("far")
    i, j = kb.axis("m", 3), kb.axis("n", 53)
    far = 2 * i + factor * j - factor
    kb.store("y", float64, (3, 53), (i, j), where(far < 7 * i, cast(far, float64), cast(7 * i, float64)))
    check_floats(kb.build(), (opt("UPCAST", "n", 8),), AVX2)


# edges of shapes --------------------------------------------------------------------------------------------------
@pytest.mark.many
@pytest.mark.parametrize("m", [1, 2, 7, 8, 9, 31, 64])
@pytest.mark.parametrize(
    "opts",
    [TILE, [*TILE[:2], ["PARALLEL", "m"], ["TILE", "k", 8], ["MOVE", "k", {"before": "n"}]], []],
    ids=["packed", "straddling", "none"],
)
@pytest.mark.covering
def test_one_program_serves_every_size(m: int, opts: list[Any]) -> None:
    right(matmul(sym("m", 1, 64), 61, 12), parse(opts), m=m)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["n", "k"])
def test_symbolic_columns_and_depths(size: str) -> None:
    for value in (1, 16, 33):
        kernel = matmul(**{"m": 9, "n": 45, "k": 19, size: sym(size, 1, 100)})
        for opts in (
            (),
            parse([["UPCAST", "m", 3], ["UPCAST", "n", 16]]),
            parse([["UPCAST", "k", 4], ["TILE", "k", 16]]),
            *starts(kernel, AVX2, 2)[:1],
        ):
            right(kernel, opts, **{size: value})


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 37, 5), (5, 1, 37), (37, 5, 1), (1, 1, 64), (17, 33, 65)])
@pytest.mark.covering
def test_extents_of_one_and_primes(shape: tuple[int, int, int]) -> None:
    kernel = matmul(*shape)
    for opts in ((), *starts(kernel, targets.host(), 2)[:2]):
        right(kernel, opts)


@pytest.mark.parametrize(("shape", "value"), [((0, 4, 4), None), ((4, 0, 4), None), ((4, 4, 0), 0.0), ((0, 0, 0), None)])
def test_empty_products(shape: tuple[int, int, int], value: float | None) -> None:
    def product(m: int, n: int, k: int) -> Kernel:
        kb = KernelBuilder("product")
        i, j, l = kb.axis("m", m), kb.axis("n", n), kb.axis("k", k)
        a, b = kb.input("a", (m, k), float32), kb.input("b", (k, n), float32)
        acc = kb.sum("acc", (i, j), l, a[i, l] * b[l, j])
        kb.store("c", float32, (m, n), (i, j), acc[i, j])
        return kb.build()

    kernel = product(*shape)
    c = np.full(shape[:2], 7.0, np.float32)
    arrays = [np.ones((shape[0], shape[2]), np.float32), np.ones((shape[2], shape[1]), np.float32), c]
    interpret(program_of_edges(kernel, []), arrays)
    assert (c == value).all() and c.shape == shape[:2]
    right(kernel, ())


@pytest.mark.parametrize(("combine", "start"), [("add", 0.0), ("mul", 1.0), ("max", -np.inf), ("min", np.inf)])
def test_a_reduction_of_nothing_is_the_identity(combine: str, start: float) -> None:
    for extent, vars in ((0, ()), (sym("n", 0, 9), (0,))):
        kb = KernelBuilder("nothing")
        i, j = kb.axis("m", 3), kb.axis("n", extent)
        x = kb.input("x", (3, extent), float32)
        r = kb.reduce(combine, "r", (i,), j, x[i, j])
        kb.store("y", float32, (3,), (i,), r[i])
        y = np.zeros(3, np.float32)
        interpret(program_of_edges(kb.build(), []), [np.zeros((3, 0), np.float32), y], vars)
        assert (y == start).all()


ZERO = [(name, at) for name, places in odd_kernels.SYMBOLIC.items() for at in places]


@pytest.mark.many
@pytest.mark.parametrize(("name", "at"), ZERO)
@pytest.mark.covering
def test_extents_that_may_be_zero(name: str, at: int) -> None:
    make, usual = odd_kernels.KERNELS[name]
    sizes: list[Any] = list(usual)
    sizes[at] = 0
    check_twin(make(*sizes), (), AVX2)
    check_compiled(make(*sizes), ())
    sizes[at] = sym("s", 0, 40)
    for value in (0, 5):
        check_twin(make(*sizes), starts(make(*sizes), AVX2, 2)[0], AVX2, {"s": value})
    check_compiled(make(*sizes), (), None, {"s": 0})


# folds, scatters, families ----------------------------------------------------------------------------------------
@pytest.mark.many
@pytest.mark.parametrize("tile", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("name", ["argmax", "attention", "attention_full"])
@pytest.mark.covering
def test_a_cut_fold_merges_to_the_same(name: str, tile: int) -> None:
    shape: dict[str, Any] = {"m": 5, "n": 53} if name == "argmax" else {"b": 1, "h": 2, "s": 29, "d": 3}
    family = "n" if name == "argmax" else "key"
    kernel = named_kernels.make(name, shape, "float32")
    extra = [["UPCAST", family, min(tile, 4)]] if tile in (8, 16) else []
    right(kernel, parse([["TILE", family, tile], *extra]))


@pytest.mark.parametrize("tile", [1, 3, 16])
def test_argmax_of_ties_is_the_first_in_every_tiling(tile: int) -> None:
    kernel = named_kernels.make("argmax", {"m": 3, "n": 40}, "float32")
    x = np.zeros((3, 40), np.float32)
    x[1, [7, 8, 39]] = 2.0
    x[2, 39] = 1.0
    y = np.zeros(3, np.int32)
    interpret(program_of_edges(kernel, [["TILE", "n", tile], *([["UPCAST", "n@top", tile]] if tile > 1 else [])]), [x, y])
    assert y.tolist() == [0, 7, 39]


@pytest.mark.parametrize("opts", [[], [["UPCAST", "d", 8]], [["PARALLEL", "d"]], [["TILE", "d", 8], ["UPCAST", "d", 4], ["PARALLEL", "d"]]])
def test_repeated_indices_are_added_in_order(opts: list[Any]) -> None:
    kernel = named_kernels.make("embedding_grad", {"v": 3, "n": 29, "d": 16}, "float32")
    right(kernel, parse(opts))
    dy = np.random.default_rng(0).standard_normal((29, 16), np.float32)
    table = np.zeros((3, 16), np.float32)
    interpret(program_of_edges(kernel, opts), {"dy": dy, "ids": np.ones(29, np.int64), "dtable": table})
    want = np.zeros(16, np.float32)
    for row in dy:
        want = want + row
    np.testing.assert_array_equal(table[1], want)
    assert not table[0].any() and not table[2].any()


@pytest.mark.many
@pytest.mark.parametrize("dtype", [int8, uint8, int32, int64], ids=str)
@pytest.mark.parametrize("columns", [0, 19])
@pytest.mark.parametrize("combine", [None, "max"], ids=["gather", "scatter"])
@pytest.mark.covering(pairs=True)
def test_indices_of_every_integer_type(dtype: Any, columns: int, combine: str | None) -> None:
    """What they are multiplied by overflows the narrow ones."""
    kb = KernelBuilder("rows")
    i, j = kb.axis("i", 50), kb.axis("j", max(1, columns))
    at, row, size = kb.input("at", (50,), dtype, range=(0, 36)), (j,) * bool(columns), (columns,) * bool(columns)
    if combine is None:
        table = kb.input("table", (37, *size), float32)
        kb.store("y", float32, (50, *size), (i, *row), table[(at[i], *row)])
    else:
        x = kb.input("x", (50, *size), float32)
        kb.store("y", float32, (37, *size), (i, *row), x[(i, *row)], indices=(at[i], *row), combine=combine)
    lanes = [["UPCAST", "j", 20], ["PARALLEL", "j"]] if columns else [["UPCAST", "i", 10]] if combine is None else []
    for opts in ([], lanes):
        right(kb.build(), parse(opts))


OVERLAPPING: list[tuple[str, list[Any]]] = [
    ("gram", [["UPCAST", "n", 4]]),
    ("gram", [["UPCAST", "n@i", 4], ["UPCAST", "n@j", 10]]),
    ("two_sums", [["UPCAST", "m", 4], ["UPCAST", "n", 8]]),
    ("transposed", [["UPCAST", "m", 4], ["UPCAST", "n", 4], ["STAGE", "v", {"at": "n"}]]),
    ("stencil", [["UPCAST", "n", 8], ["STAGE", "v", {"at": "m"}]]),
    ("reshaped", [["UPCAST", "f", 8], ["STAGE", "v", {"at": "grid"}]]),
    ("staircase", [["UPCAST", "n", 8], ["STAGE", "e", {"at": "m"}], ["STAGE", "f", {"at": "m"}], ["STAGE", "g", {"at": "m"}]]),
    ("chain", [["UPCAST", "m", 4], ["UPCAST", "n", 6], ["PARALLEL", "m"]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("name", "opts"), OVERLAPPING, ids=[f"{i}-{o[0]}" for i, o in enumerate(OVERLAPPING)])
def test_values_read_off_their_own_axes(name: str, opts: list[Any]) -> None:
    make, sizes = odd_kernels.KERNELS[name]
    right(make(*sizes), parse(opts))


# what random schedules once found ---------------------------------------------------------------------------------
FOUND: list[tuple[str, dict[str, Any], str, list[Any]]] = [
    ("attention", {"b": 2, "h": 1, "s": 13, "d": 4}, "float64", [["UNROLL", "key@max", 8]]),  # read scores past those written
    ("attention", {"b": 1, "h": 1, "s": 5, "d": 3}, "float16", [["UPCAST", "key@max", 2]]),
    ("matvec", {"m": 31, "n": 13}, "bfloat16", [["SPLIT", "n", 2], ["CACHE", "y", {"policy": "stream"}]]),  # streamed the workspace
    (
        "layernorm",
        {"m": 11, "n": 16},
        "float64",
        [["UPCAST", "n", 8], ["CACHE", "y", {"policy": "stream"}]],
    ),  # claimed 64 bytes where 32 were known
    (
        "attention",
        {"b": 1, "h": 2, "s": 13, "d": 5},
        "float64",
        [["STAGE", "v", {"at": "d@out", "order": "row"}], ["TILE", "key", 8]],
    ),  # staged at every d
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape", "dtype", "opts"), FOUND, ids=[f"{i}-{f[0]}" for i, f in enumerate(FOUND)])
def test_what_was_once_wrong(name: str, shape: dict[str, Any], dtype: str, opts: list[Any]) -> None:
    right(named_kernels.make(name, shape, dtype), parse(opts))


def test_a_fold_inside_a_loop_keeps_its_state_outside_it() -> None:
    right(odd_kernels.log_sum(9, 48), parse([["MOVE", "w", {"before": "m"}], ["TILE", "n", 3]]))


def test_an_interpreted_program_and_its_code_agree_on_integers() -> None:
    kb = KernelBuilder("wrap")
    i = kb.axis("n", 37)
    x = kb.input("x", (37,), int32, range=(-(2**31), 2**31 - 1))
    kb.store("y", int32, (37,), (i,), x[i] * x[i] + x[i])
    right(kb.build(), (opt("UPCAST", "n", 8),))

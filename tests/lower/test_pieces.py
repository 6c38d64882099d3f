"""Loops with a ragged last step are done in pieces: whole steps have no masks, and the last one little work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from checks import check_twin, in_child
from tilewright import devices, kernels, targets
from tilewright.ir import sym
from tilewright.ir.kernel import Kernel
from tilewright.lower import Program, lower
from tilewright.measure.inputs import generate
from tilewright.measure.operands import Operands
from tilewright.opts import apply, opt, parse
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
def test_whole_vectors_of_a_row_are_not_masked(name: str, target: Any) -> None:
    p = program(kernels.make(name, {"m": 8, "n": 109}, "float32"), ROWS, target)
    found = list(loops(p.phases[0].body))
    assert len(found) >= 2 and not any(masks(f.body) for f in found)
    assert masks(p.phases[0].body), "the last vector is"


def test_the_last_item_has_code_of_its_own() -> None:
    p = program(kernels.make("rmsnorm", {"m": 9, "n": 64}, "float32"), ROWS)
    whole, last = (s for s in p.phases[0].body.stmts if isinstance(s, If))
    stores = [sum(isinstance(s, Instr) and s.op == "store" for s in statements(x.body)) for x in (whole, last)]
    assert stores[0] == 2 * stores[1] > 0, "two rows, and one"
    assert not masks(whole.body) and not masks(last.body)


def test_corners_are_not_split_again() -> None:
    opts = [["UPCAST", "m", 4], ["UPCAST", "n", 16]]
    p = program(kernels.make("matmul", {"m": 11, "n": 41, "k": 5}, "float32"), opts)
    assert sum(f.label == "k" for f in loops(p.phases[0].body)) == 3


def test_pieces_use_the_same_room() -> None:
    ragged, even = (program(kernels.make("matmul", {"m": 17, "n": n, "k": 16}, "float32"), [*TILES, PANEL]) for n in (141, 192))
    assert ragged.scratch == even.scratch > 0


def test_symbolic_extents_keep_their_masks() -> None:
    p = program(kernels.make("rmsnorm", {"m": 8, "n": sym("n", 64, 4096)}, "float32"), ROWS)
    assert all(masks(f.body) for f in loops(p.phases[0].body))


def test_turned_panels_of_whole_blocks_are_read_in_vectors() -> None:
    opts = [["UPCAST", "m", 4], ["UPCAST", "n", 16], ["TILE", "n", 32], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]
    p = program(kernels.make("matmul_nt", {"m": 8, "n": 72, "k": 16}, "float32"), opts)
    whole, last = (s for s in p.phases[0].body.stmts if isinstance(s, If))
    gathers = [sum(isinstance(s, Instr) and s.op == "gather" for s in statements(x.body)) for x in (whole, last)]
    assert gathers[0] == 0 < gathers[1]


@pytest.mark.many
@pytest.mark.parametrize("target", [AVX2, AVX512], ids=lambda t: t.name)
@pytest.mark.parametrize("sizes", [(13, 141, 21), (6, 64, 8), (7, 17, 9), (11, 70, 13), (12, 127, 31)])
def test_every_corner_of_a_matmul(sizes: tuple[int, int, int], target: Any) -> None:
    kernel = kernels.make("matmul", dict(zip("mnk", sizes, strict=True)), "float32")
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
        kernel = kernels.make(name, {"b": 1, "h": 1, "s": s, "d": 8}, "float32")
        check_twin(kernel, parse([o for o in FOLD if o[0] != "TILE" or o[2] < s] if s > 16 else FOLD[1:-1]), AVX2)


def test_tiles_of_a_fold_that_are_whole_are_not_masked() -> None:
    p = program(kernels.make("attention_full", {"b": 1, "h": 1, "s": 40, "d": 8}, "float32"), FOLD)
    tiles = [f for f in loops(p.phases[0].body) if f.label.startswith("key") and len(list(loops(f.body))) > 1]
    assert tiles and not any(masks(f.body) for f in tiles)


def test_a_step_of_one_element_writes_one_element():
    """LLVM 22 makes a store of four bytes of a truncation to bfloat16 that is stored under a mask of one lane."""
    cpu = devices.get("cpu")
    kernel = kernels.make("matmul_tn", {"m": 13, "n": 33, "k": 1}, "bfloat16")
    source = render(lower(apply(kernel, (opt("UPCAST", "n", 12),), cpu.target)), cpu.target)
    shapes = [b.shape for b in kernel.buffers]
    inputs = generate(kernel, {}, 0)

    def run() -> str:
        memory = Operands([b.name for b in kernel.buffers], [b.dtype for b in kernel.buffers], shapes, inputs)
        memory.set_canaries()
        cpu.load(cpu.build(source), source.signature, 1).run(memory.checked, [])
        return memory.broken()

    assert in_child(run) == ""

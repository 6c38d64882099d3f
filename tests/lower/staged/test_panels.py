"""Constant inputs packed once: what is kept, that results do not change, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.heuristics.start.contractions import packed_once
from tilewright.interp import run
from tilewright.ir import KernelBuilder, OptError, float32, sym
from tilewright.ir.normal_form import normalise
from tilewright.ir.rewriter import with_constants
from tilewright.lower import lower
from tilewright.measure.inputs import generate
from tilewright.opts import Opts, apply, nest_lines, opt

MATMUL = {"m": 10, "n": 58, "k": 19}
CONV = {"n": 1, "c": 8, "h": 9, "w": 9, "oc": 32}
TILE = (opt("UPCAST", "m", 2), opt("UPCAST", "n", 32))


def interpreted(
    name: str, shape: Mapping[str, int], opts: Opts, dtype: str | None = None, target: str = "cascadelake"
) -> tuple[int, list[np.ndarray]]:
    """(phases that pack, outputs)."""
    kernel = normalise(named_kernels.make(name, shape, dtype))
    program = lower(apply(kernel, opts, targets.named(target)))
    arrays = generate(kernel, {}, 0)
    for b in kernel.outputs:
        arrays[b.name] = np.full([int(d) for d in b.shape], np.nan if b.dtype.is_float else 77, b.dtype.np)
    run(program, arrays)
    return program.once, [arrays[b.name] for b in kernel.outputs]


@pytest.mark.many
@pytest.mark.parametrize(
    "name, shape, opts",
    [
        (
            "matmul:constant=b",
            MATMUL,
            (*TILE, opt("TILE", "k", 8), opt("MOVE", "k", before="m"), opt("PARALLEL", "m"), opt("STAGE", "b", at="once")),
        ),
        ("matmul:constant=b", MATMUL, (*TILE, opt("PARALLEL", "n"), opt("STAGE", "b", at="once", pad=3))),
        ("matmul:constant=b", MATMUL, (opt("PADTO", "n", 48), opt("UPCAST", "n", 48), opt("STAGE", "b", at="once"))),
        ("matmul:constant=a,b", MATMUL, (*TILE, opt("STAGE", "a", at="once"), opt("STAGE", "b", at="once"))),
        ("matmul_nt:constant=b", MATMUL | {"k": 32}, (*TILE, opt("PARALLEL", "n"), opt("STAGE", "b", at="once"))),
        ("batched_matmul:constant=y", {"b": 3, **MATMUL}, (*TILE, opt("PARALLEL", "b"), opt("STAGE", "y", at="once"))),
        (
            "conv2d:constant=weight",
            CONV,
            (opt("UPCAST", "oc", 32), opt("UPCAST", "ow", 3), opt("PARALLEL", "oh"), opt("STAGE", "weight", at="once")),
        ),
        (
            "conv2d:constant=weight",
            CONV | {"groups": 2},
            (opt("UPCAST", "oc", 16), opt("UPCAST", "ow", 3), opt("STAGE", "weight", at="once")),
        ),
    ],
)
def test_packing_once_changes_no_result(name: str, shape: dict[str, int], opts: Opts) -> None:
    packs, found = interpreted(name, shape, opts)
    assert packs == sum(o.op == "STAGE" for o in opts)
    none, usual = interpreted(name, shape, tuple(o for o in opts if o.op != "STAGE"))
    assert none == 0
    for x, y in zip(found, usual, strict=True):
        np.testing.assert_array_equal(x, y)  # the same sums in the same order


@pytest.mark.slow
def test_signed_bytes_keep_the_sums_of_their_columns() -> None:
    shape = {"m": 18, "n": 70, "k": 40}
    kernel = normalise(named_kernels.make("matmul_int8:constant=b", shape))
    target = targets.named("cascadelake")
    start = next(o for o in starts(kernel, target, 2) if any(x.op == "TC" for x in o))
    once = packed_once(kernel, start, target)
    packs, (found,) = interpreted("matmul_int8:constant=b", shape, once)
    assert packs == 1
    np.testing.assert_array_equal(found, interpreted("matmul_int8", shape, ())[1][0])


@pytest.mark.slow
def test_start_schedules_pack_constant_inputs_once_and_others_never() -> None:
    target = targets.named("cascadelake")
    for name in ("matmul:constant=b", "conv2d:constant=weight"):
        kernel = normalise(named_kernels.make(name))
        assert any(o.op == "STAGE" and o.fields["at"] == "once" for o in starts(kernel, target, 2)[0])
        usual = normalise(named_kernels.make(name.partition(":")[0]))
        assert not any(o.op == "STAGE" and o.fields["at"] == "once" for opts in starts(usual, target, 2) for o in opts)


@pytest.mark.parametrize(
    "name, opts, target, message",
    [
        ("matmul", (opt("STAGE", "b", at="once"),), "cascadelake", "b may change from call to call; name the kernel matmul:constant=b"),
        ("matmul:constant=b", (opt("STAGE", "b", at="once", order="row"),), "cascadelake", "use order=panel"),
        ("matmul:constant=b", (opt("STAGE", "b", at="once"),), "sm_90a", "only processors keep what is packed once"),
        ("matmul:constant=b", (opt("STAGE", "b", at="once"),), "opencl-cpu", "only processors keep what is packed once"),
        ("matmul:constant=b", (opt("SPLIT", "k", 2), opt("STAGE", "b", at="once")), "cascadelake", "made anew by each call"),
        ("matmul:constant=b", (opt("STAGE", "b", at="twice"),), "cascadelake", "no loop 'twice' around a use of b"),
        ("matmul:constant=b", (opt("STAGE", "b", at="once"), opt("STAGE", "b", at="n")), "cascadelake", "b is staged already"),
    ],
)
def test_what_cannot_be_packed_once(name: str, opts: Opts, target: str, message: str) -> None:
    with pytest.raises(OptError, match=message):
        apply(normalise(named_kernels.make(name, MATMUL)), opts, targets.named(target))


def test_the_loops_say_so() -> None:
    kernel = normalise(named_kernels.make("matmul:constant=b", MATMUL))
    lines = nest_lines(apply(kernel, (*TILE, opt("PARALLEL", "n"), opt("STAGE", "b", at="once")), targets.named("cascadelake")))
    assert lines[0].kind == "stage" and lines[0].detail.endswith(", once") and lines[1].kind == "grid"


@pytest.mark.parametrize("whole", [True, False])
def test_sizes_that_are_symbols_are_not_packed_once(whole: bool) -> None:
    """The panel would be filled past the end of the memory, whether the input or the axis alone has such a size."""
    n = sym("n", 1, 23)
    kb = KernelBuilder("weighted")
    i, j = kb.axis("i", 5), kb.axis("j", n)
    x, w = kb.input("x", (5, n), float32), kb.input("w", (n if whole else 23,), float32)
    kb.store("y", float32, (5, n), (i, j), x[i, j] * w[j])
    with pytest.raises(OptError, match="a size of w is a symbol"):
        apply(with_constants(kb.build(), ["w"]), [opt("TILE", "j", 64), opt("STAGE", "w", at="once")], targets.named("avx2"))

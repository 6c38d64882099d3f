"""SPLIT of scatters: what it takes and refuses, that results do not depend on it, and the start schedules and actions that have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import interp, named_kernels
from tilewright.heuristics import quick_starts, starts
from tilewright.ir import KernelBuilder, OptError, bfloat16, float32, int32, maximum, minimum, sym, uint8
from tilewright.ir.dtypes import DType
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, opt, parse
from tilewright.opts.actions import actions
from tilewright.opts.schedule import Scheduled
from tilewright.program.program import For, statements
from tilewright.targets import named

AVX2, AVX512 = named("avx2"), named("cascadelake")


def histogram(points: int | Any = 101, bins: int = 9, combine: str = "add", dtype: DType = float32, *, computed: bool = False) -> Kernel:
    """y[at] += x, `at` read from memory, or computed from a float."""
    kb = KernelBuilder("histogram")
    i = kb.axis("i", points)
    x = kb.input("x", (points,), float32)
    if computed:
        at = cast(minimum(maximum(x[i] * 2.0 + 4.0, 0.0), float(bins - 1)), int32)
    else:
        at = kb.input("at", (points,), uint8 if bins <= 256 else int32, range=(0, max(0, bins - 1)))[i]
    kb.store("y", dtype, (bins,), (i,), cast(x[i] * 4.0, dtype), indices=(at,), combine=combine)
    return kb.build()


def joint(rows: int = 7, columns: int = 13) -> Kernel:
    """A histogram of two dimensions over two axes, some points left out."""
    kb = KernelBuilder("joint")
    i, j = kb.axis("i", rows), kb.axis("j", columns)
    a, b = kb.input("a", (rows, columns), int32, range=(0, 4)), kb.input("b", (columns, rows), int32, range=(0, 5))
    one = const(1, int32)
    kb.store("y", int32, (5, 6), (i, j), one, indices=(a[i, j], b[j, i]), combine="add", mask=a[i, j].ne(3))
    return kb.build()


LISTS = [
    [["SPLIT", "y", {"copies": 4}]],
    [["SPLIT", "y", {"n": 3}]],
    [["SPLIT", "y", {"n": 4, "copies": 2}], ["UPCAST", "i", 8]],
    [["SPLIT", "y", {"n": 2, "copies": 3}], ["UPCAST", "i", 4]],
    [["UPCAST", "i", 8]],
]


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("opts", LISTS, ids=str)
@pytest.mark.covering
def test_results_do_not_depend_on_it(opts: list[Any], computed: bool) -> None:
    kernel = histogram(computed=computed)
    if not computed:  # (a computed place is no place in the twin)
        check_twin(kernel, parse(opts), AVX2)
    check_floats(kernel, parse(opts), AVX512)


@pytest.mark.many
@pytest.mark.parametrize("combine", ["max", "min", "add"])
@pytest.mark.parametrize("dtype", [int32, uint8, bfloat16], ids=str)
@pytest.mark.covering
def test_types_and_combines(combine: str, dtype: DType) -> None:
    check_floats(histogram(60, combine=combine, dtype=dtype), parse(LISTS[2]), AVX2)


def test_compiled_on_two_threads() -> None:
    for computed in (False, True):
        check_compiled(histogram(1003, 37, computed=computed), parse(LISTS[2]), None, threads=2)


@pytest.mark.parametrize("opts", [[["SPLIT", "y", {"n": 2, "copies": 4}]], [["UPCAST", "j", 4]]], ids=str)
def test_two_axes_of_points_and_masks(opts: list[Any]) -> None:
    check_twin(joint(), parse(opts), AVX2)


def test_rows_of_a_table() -> None:
    kernel = named_kernels.make("embedding_grad", {"v": 5, "n": 31, "d": 19})
    for fields in ({"n": 4}, {"copies": 2}):
        check_twin(kernel, (opt("SPLIT", "dtable", **fields), opt("UPCAST", "d", 4)), AVX2)


@pytest.mark.parametrize("points", [0, 1, 5])
def test_copies_alone_take_any_number_of_points(points: int) -> None:
    kernel = histogram(sym("n", 0, 16))
    check_twin(kernel, parse(LISTS[0]), AVX2, {"n": points})


@pytest.mark.parametrize("place", [0, 8])
def test_all_points_in_one_place(place: int) -> None:
    kernel = histogram(64, dtype=int32)
    arrays = {"x": np.full(64, 0.25, np.float32), "at": np.full(64, place, np.uint8), "y": np.full(9, -1, np.int32)}
    interp.run(lower(apply(kernel, LISTS[2], AVX512)), arrays)
    assert arrays["y"].tolist() == [64 * (i == place) for i in range(9)]


def test_only_sums_of_floats_change_their_order() -> None:
    effects = {(c, d.name): apply(histogram(combine=c, dtype=d), LISTS[0], AVX2).effects for c in ("add", "max") for d in (float32, int32)}
    assert [k for k, e in effects.items() if "REASSOC" in e] == [("add", "float32")]


def test_points_are_added_in_order_without_copies() -> None:
    """Bit for bit what the plain scatter gives, with indices in lanes and without."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(101) * 10.0 ** rng.integers(-6, 6, 101)).astype(np.float32)
    for kernel in (histogram(), histogram(computed=True)):
        found = set()
        for opts in ([], [["UPCAST", "i", 2]], [["UPCAST", "i", 16]]):
            arrays = {"x": x, "at": (np.arange(101) % 9).astype(np.uint8), "y": np.zeros(9, np.float32)}
            interp.run(lower(apply(kernel, opts, AVX512)), {b.name: arrays[b.name] for b in kernel.buffers})
            found.add(arrays["y"].tobytes())
        assert len(found) == 1


def test_copies_lie_on_lines_of_their_own_and_no_page_apart() -> None:
    def pitch(bins: int) -> int:
        s = apply(histogram(4096, bins), [["SPLIT", "y", {"n": 2}]], AVX2)
        return int(s.phases[0].kernel.stores[0].buffer.shape[-1]) * 4

    assert pitch(9) == 64
    assert pitch(1024) == 4096 + 64


def refusal(kernel: Kernel, opts: list[Any]) -> str:
    with pytest.raises(OptError) as e:
        apply(kernel, opts, AVX2)
    return str(e.value)


def test_refusals() -> None:
    plain, embed = histogram(), named_kernels.make("embedding", {"v": 8, "n": 4, "d": 4})
    assert "scattered into with a combine" in refusal(embed, [["SPLIT", embed.outputs[0].name, {"copies": 2}]])
    assert "at least 2" in refusal(plain, [["SPLIT", "y"]])
    assert "at most as many" in refusal(plain, [["SPLIT", "y", {"n": 200}]])
    assert "take copies alone" in refusal(histogram(sym("n", 1, 64)), [["SPLIT", "y", {"n": 2}]])
    assert "MiB" in refusal(histogram(1 << 20, 1 << 22), [["SPLIT", "y", {"n": 64}]])
    kb = KernelBuilder("no_bins")
    at = kb.input("at", (8,), int32)
    kb.store("y", int32, (0,), (i := kb.axis("i", 8),), at[i], indices=(at[i],), combine="add", mask=at[i] < 0)
    assert "are known" in refusal(kb.build(), [["SPLIT", "y", {"copies": 2}]])
    assert "only the innermost" in refusal(joint(), [["UPCAST", "i", 2]])


def test_start_schedules_and_actions_have_it() -> None:
    kernel = histogram(1 << 22)
    for found in (starts(kernel, AVX2, 2), quick_starts(kernel, AVX2, 2)):
        assert any(o.op == "SPLIT" for o in found[0])
    assert any(o.op == "SPLIT" for a in actions(apply(kernel, [], AVX2)) for o in _added(a))


def _added(found: Any) -> Any:
    return found.opts if isinstance(found, Scheduled) else found


def means(points: int = 90, bins: int = 7) -> Kernel:
    """Counts and sums of the same points, by bin."""
    kb = KernelBuilder("means")
    i = kb.axis("i", points)
    x, at = kb.input("x", (points,), float32), kb.input("at", (points,), uint8, range=(0, bins - 1))
    kb.store("count", int32, (bins,), (i,), const(1, int32), indices=(at[i],), combine="add")
    kb.store("total", float32, (bins,), (i,), x[i], indices=(at[i],), combine="add")
    return kb.build()


def test_two_outputs_over_the_same_points() -> None:
    fields = {"n": 3, "copies": 2}
    both = [["SPLIT", "count", fields], ["SPLIT", "total", fields]]
    for opts in (both, [*both, ["UPCAST", "i", 4]], both[:1], [["UPCAST", "i", 8]]):
        check_twin(means(), parse(opts), AVX2)
    check_compiled(means(), parse(both), None, threads=2)
    body = statements(lower(apply(means(), both, AVX2)).phases[0].body)
    assert sum(isinstance(s, For) and s.label == "i" for s in body) == 1
    assert "in one loop over the same points" in refusal(means(), [both[0], ["SPLIT", "total", {"n": 2}]])
    assert "for each once" in refusal(means(), [both[0], both[0]])
    assert [o.on for o in starts(means(1 << 22), AVX2, 2)[0] if o.op == "SPLIT"] == ["count", "total"]

"""Every second to fourth element is picked from whole vectors, and nothing past the last one is read."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import named_kernels, targets
from tilewright.heuristics.start import starts
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, dtype, where
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.builder import Builder
from tilewright.program.program import Instr, Program, statements

CASCADE = targets.named("cascadelake")


def every(step: int, n: int = 32, taps: int = 3, kind: str = "float32") -> Kernel:
    """y[i, j] = sum over k of x[i, step · j + k]; x ends with the last element that is used."""
    kb = KernelBuilder("every")
    i, j, k = kb.axis("m", 3), kb.axis("n", n), kb.axis("k", taps)
    x = kb.input("x", (3, (n - 1) * step + taps), dtype(kind))
    total = kb.sum("total", (i, j), k, x[i, j * step + k])
    kb.store("y", total[i, j].dtype, (3, n), (i, j), total[i, j])
    return kb.build()


def instructions(kernel: Kernel, opts: list[Any], target: targets.Target = CASCADE) -> list[Instr]:
    program: Program = lower(apply(kernel, parse(opts), target))
    return [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]


WAYS: list[list[Any]] = [
    [["UPCAST", "n", 16]],
    [["UPCAST", "n", 32], ["UNROLL", "k", 3]],
    [["UPCAST", "n", 8], ["UPCAST", "m", 3], ["UNROLL", "k", 3]],
    [["UPCAST", "n", 16], ["UNROLL", "k", 3], ["STAGE", "x", {"at": "m", "order": "row"}]],
    [["UPCAST", "n", 4], ["STAGE", "x", {"at": "n", "order": "row"}]],
]


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("opts", WAYS)
@pytest.mark.covering
def test_what_is_picked_is_right(step: int, opts: list[Any]) -> None:
    kernel = every(step)
    x = np.arange(3 * kernel.inputs[0].shape[1], dtype=np.float32).reshape(3, -1)  # type: ignore[operator]
    y = np.zeros((3, 32), np.float32)
    interpret(lower(apply(kernel, parse(opts), CASCADE)), {"x": x, "y": y})
    np.testing.assert_array_equal(y, sum(x[:, k : k + 31 * step + 1 : step] for k in range(3)))
    check_twin(kernel, parse(opts), CASCADE)


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "int8"])
@pytest.mark.covering
def test_every_type(step: int, kind: str) -> None:
    check_floats(every(step, kind=kind), parse(WAYS[1]), CASCADE)


@pytest.mark.parametrize("target", ["avx2", "neon", "cascadelake"])
def test_every_width(target: str) -> None:
    for opts in WAYS:
        check_floats(every(2), parse(opts), targets.named(target))


@pytest.mark.many
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("opts", WAYS)
@pytest.mark.covering
def test_nothing_past_the_end_is_read(step: int, opts: list[Any]) -> None:
    """Compiled, with x against a page that cannot be read."""
    check_compiled(every(step), parse(opts), targets.host())


@pytest.mark.parametrize(("step", "loads", "shuffles"), [(2, 2, 1), (3, 3, 2), (4, 4, 3)])
def test_no_gathers(step: int, loads: int, shuffles: int) -> None:
    ops = [s.op for s in instructions(every(step), WAYS[0])]
    assert (ops.count("load"), ops.count("shuffle"), ops.count("gather"), ops.count("insert")) == (loads, shuffles, 0, 0)


def test_further_apart_is_not_worth_it() -> None:
    assert not any(s.op == "shuffle" for s in instructions(every(5), WAYS[0]))


def test_masked_loads_are_picked_away_from_borders() -> None:
    """A pool with padding takes whole vectors of a staged copy, and where its loop was cut."""
    kernel = named_kernels.make("max_pool2d", {"n": 1, "c": 2, "h": 32, "w": 32})
    plain = instructions(kernel, [["UPCAST", "ow", 16], ["UNROLL", "kw", 3]])
    staged = instructions(kernel, [["UPCAST", "ow", 16], ["UNROLL", "kw", 3], ["STAGE", "x", {"at": "c", "order": "row"}]])
    assert any(s.op == "shuffle" for s in plain) and any(s.op == "shuffle" for s in staged)
    check_twin(kernel, parse([["UPCAST", "ow", 16], ["UNROLL", "kw", 3], ["STAGE", "x", {"at": "c", "order": "row"}]]), CASCADE)


def test_tails_are_not_picked_but_of_a_staged_copy() -> None:
    kernel = every(2, n=30)
    plain, staged = (apply(kernel, parse(w), CASCADE) for w in (WAYS[0], [*WAYS[0], ["STAGE", "x", {"at": "m", "order": "row"}]]))
    assert plain.lanes(plain.nests[0]).lane is None and staged.lanes(staged.nests[0]).lane is not None
    assert not any(s.op == "gather" for s in instructions(kernel, WAYS[0]))
    check_twin(kernel, parse(WAYS[0]), CASCADE)


@pytest.mark.parametrize("step", [1, 2, 4, 5])
def test_the_model_knows_the_lanes(step: int) -> None:
    scheduled = apply(every(step), parse([["UPCAST", "n", 16]]), CASCADE)
    part = scheduled.lanes(scheduled.nests[0]).lane
    assert (part is not None) == (step < 5)


# Groups of five to sixteen neighbours: rows of four are loaded and turned into components, and components into rows
# that are stored.


def matrices(n: int = 32, shape: tuple[int, ...] = (3, 3), kind: str = "float32") -> Kernel:
    """Each element of small matrices from itself and the first and last of its matrix, stored one by one."""
    kb = KernelBuilder("matrices")
    i = kb.axis("n", n)
    x, w = kb.input("x", (n, *shape), dtype(kind)), kb.input("w", (n,), dtype(kind))
    places: list[tuple[int, ...]] = [()]
    for size in shape:
        places = [(*p, k) for p in places for k in range(size)]
    for at, p in enumerate(places):
        kb.store("y", dtype(kind), (n, *shape), (i,), x[(i, *p)] * w[i] - x[(i, *places[-1])] + x[(i, *places[0])] * at, (i, *p))
    return kb.build()


def turned(shape: tuple[int, ...], n: int) -> list[Any]:
    parts = [["UPCAST", f"part{k or ''}", size] for k, size in enumerate(shape)]
    return [["UPCAST", "n", n], *parts]


def ops(kernel: Kernel, opts: list[Any], target: targets.Target = CASCADE) -> list[str]:
    program = lower(apply(kernel, parse(opts), target))
    return [s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr)]


@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 3), (4, 4), (13,)])
def test_what_is_turned_is_right(shape: tuple[int, ...]) -> None:
    for n in (4, 16):
        check_twin(matrices(shape=shape), parse(turned(shape, n)), CASCADE)
    check_compiled(matrices(shape=shape), parse(turned(shape, 8)), targets.host())
    check_floats(matrices(shape=shape, kind="float64"), parse(turned(shape, 8)), targets.named("avx2"))


@pytest.mark.parametrize("shape", [(5,), (3, 3)])
def test_no_element_is_gathered_or_scattered(shape: tuple[int, ...]) -> None:
    for n in (8, 16):
        assert {"gather", "scatter"}.isdisjoint(ops(matrices(shape=shape), turned(shape, n)))


@pytest.mark.parametrize("shape", [(5,), (3, 3)])
def test_a_ragged_end_is_turned(shape: tuple[int, ...]) -> None:
    """What does not exist is neither read nor written."""
    kernel = matrices(27, shape)
    assert {"gather", "scatter"}.isdisjoint(ops(kernel, turned(shape, 8)))
    check_twin(kernel, parse(turned(shape, 8)), CASCADE)
    check_compiled(kernel, parse(turned(shape, 8)), targets.host())


def test_places_of_matrices_are_one_store() -> None:
    """In order of their places, however they were written; bytes, which are not turned, stay apart."""
    (store,) = matrices().stores
    assert [a.arg.extent for a in store.axes] == [32, 3, 3]
    assert len(matrices(shape=(5,)).stores) == 1 and len(matrices(shape=(17,)).stores) == 17
    assert len(matrices(shape=(5,), kind="float16").stores) == 5


@pytest.mark.parametrize("shape", [(5,), (3, 3)])
def test_the_start_schedule_turns(shape: tuple[int, ...]) -> None:
    kernel = matrices(4096, shape)
    state = apply(kernel, starts(kernel, CASCADE)[0], CASCADE)
    assert all((lane := state.lanes(n).lane) is not None and lane.axis.arg.name == "n" for n in state.nests)


# Groups of two to four neighbours: picked from whole vectors, woven into whole vectors, and nothing outside of them
# touched.


def mixed(step: int, n: int = 32, kind: str = "float32", rows: int = 2) -> Kernel:
    """Every component from itself, the first of its group and a factor of the group."""
    kb = KernelBuilder("mixed")
    r, i, c = kb.axis("m", rows), kb.axis("n", n), kb.axis("c", step)
    x, w = kb.input("x", (rows, n, step), dtype(kind)), kb.input("w", (n,), dtype(kind))
    last = x[r, i, step - 1]
    kb.store("y", dtype(kind), (rows, n, step), (r, i, c), where(c.eq(0), x[r, i, 0] * w[i], x[r, i, c] + last * w[i]))
    return kb.build()


def ways(step: int) -> list[list[Any]]:
    near = ["UPCAST", "c", step]
    return [
        [near, ["UPCAST", "n", 16]],
        [near, ["UPCAST", "n", 32], ["UPCAST", "m", 2], ["PARALLEL", "n"]],
        [near, ["UPCAST", "n", 8], ["CACHE", "y", {"policy": "stream"}]],
    ]


@pytest.mark.parametrize("step", [2, 3, 4])
def test_what_is_woven_is_right(step: int) -> None:
    for opts in ways(step):
        check_twin(mixed(step), parse(opts), CASCADE)
    check_floats(mixed(step, kind="float16"), parse(ways(step)[0]), targets.named("avx2"))
    check_floats(mixed(step, kind="float64"), parse(ways(step)[0]), targets.named("neon"))


@pytest.mark.parametrize("step", [2, 3, 4])
def test_a_ragged_end(step: int) -> None:
    """The last step writes what exists and no more, with vectors whose masks are constants."""
    kernel = mixed(step, n=27)
    assert {"scatter", "gather"}.isdisjoint(ops(kernel, [["UPCAST", "c", step], ["UPCAST", "n", 8]])[:40])
    check_twin(kernel, parse([["UPCAST", "c", step], ["UPCAST", "n", 8]]), CASCADE)
    check_compiled(kernel, parse([["UPCAST", "c", step], ["UPCAST", "n", 8]]), targets.host())


@pytest.mark.parametrize(("step", "shuffles"), [(2, 4), (3, 18), (4, 16)])
def test_whole_vectors_only(step: int, shuffles: int) -> None:
    found = ops(mixed(step, rows=1), [["UPCAST", "c", step], ["UPCAST", "n", 16]])
    assert {"gather", "scatter", "insert", "extract"}.isdisjoint(found)
    assert found.count("store") == step and found.count("load") == step + 1  # components share their loads
    assert found.count("shuffle") == shuffles


def test_odd_rows_are_no_groups() -> None:
    """Pairs that begin at an odd place in every other row may end past the buffer: they are read as what is strided."""
    kb = KernelBuilder("odd")
    r, i = kb.axis("m", 2), kb.axis("n", 16)
    x = kb.input("x", (2, 31), dtype("float32"))
    kb.store("y", dtype("float32"), (2, 16), (r, i), x[r, 2 * i])
    check_compiled(kb.build(), parse([["UPCAST", "n", 16]]), targets.host())


def test_components_apart_are_scattered() -> None:
    """Without all neighbours in registers nothing can be woven."""
    kernel = mixed(4)
    opts = [["UPCAST", "c", 2], ["UPCAST", "n", 16]]
    check_twin(kernel, parse(opts), CASCADE)


def test_a_row_before_the_first_does_not_take_the_place_of_the_last_one() -> None:
    """Row -1 of the second channel, which does not exist, has the index of the last row of the first."""
    kernel = named_kernels.make(
        "conv2d_dx", {"n": 2, "c": 4, "h": 5, "w": 7, "oc": 6, "kh": 3, "kw": 3, "stride": 2, "pad": 1, "groups": 2}
    )
    opts = parse("PADh4 Uh4 Uc2 Uphase_h2 Uw4 Uphase_w2")
    check_twin(kernel, opts, CASCADE)
    check_twin(kernel, opts, targets.named("avx2"))


def test_what_is_known_of_a_bool() -> None:
    b = Builder()
    with b.phase(apply(mixed(2), (), CASCADE).kernel.axes[0], ()):
        both = b.const((True, False), dtype("bool"), 2)
        assert b.known(both) == (True, False)
        assert b.known(b.const(True, dtype("bool"))) is True
        assert b.known(b.op("lt", b.const(1), b.const(2))) is None


@pytest.mark.slow
def test_every_way_compiled() -> None:
    for step, n in product((2, 3, 4), (32, 27)):
        for opts in ways(step):
            check_compiled(mixed(step, n), parse(opts), targets.host())


def test_groups_of_two_vectors_have_their_lanes_across() -> None:
    """Sixteen words of each point, computed of what the point reads: lanes are points, with vectors of eight too."""
    kb = KernelBuilder("words")
    i = kb.axis("n", 24)
    x = kb.input("x", (24,), dtype("uint32"))
    v = [x[i] * (2 * k + 1) + k for k in range(16)]
    for k in range(16):
        for _ in range(3):
            v[k] = (v[k] << 7) ^ (v[(k + 1) % 16] >> 5)
    for k in range(16):
        kb.store("y", dtype("uint32"), (24, 16), (i,), v[k], (i, k))
    kernel, opts = kb.build(), parse([["UPCAST", "part", 16], ["UPCAST", "n", 8]])
    s = apply(kernel, opts, targets.named("haswell"))
    (nest,) = s.nests
    lane = s.lanes(nest).lane
    assert lane is not None and lane.axis.arg.family == "n" and s.lanes(nest).width == 8
    check_twin(kernel, opts, targets.named("haswell"))
    check_compiled(kernel, opts)

"""Groups of five to sixteen neighbours: rows of four are loaded and turned into components, and components into rows that are stored."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats, check_twin
from tilewright import targets
from tilewright.heuristics.start import starts
from tilewright.ir import Kernel, KernelBuilder, dtype
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.program import Instr, statements

CASCADE = targets.named("cascadelake")


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

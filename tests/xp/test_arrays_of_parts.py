"""Arrays of tensors and of their parts: what is written to one shows in the tensor, in its views and in captured functions, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, xp

MADE: dict[str, Callable[[str], Any]] = {
    "zeros": lambda kind: xp.zeros((4, 6), dtype=kind),
    "ones": lambda kind: xp.ones((4, 6), dtype=kind),
    "counted": lambda kind: xp.reshape(xp.arange(24), (4, 6)).astype(kind),
    "data": lambda kind: xp.asarray(np.arange(24.0).reshape(4, 6)).astype(kind),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[1],
    "columns": lambda x: x[:, ::2],
    "turned": lambda x: x[::-1],
    "T": lambda x: x.T,
    "flat": lambda x: x.reshape(-1),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "element": lambda x: x.__setitem__((1, 1), 50),
    "in place": lambda x: x.__iadd__(50),
    "assign": lambda x: x.assign(50),
    "view": lambda x: x[1].__setitem__(1, 50),
    "array": lambda x: np.asarray(x).__setitem__((1, 1), 50),
    "array of a view": lambda x: np.asarray(x.T).__setitem__((1, 1), 50),
    "dlpack": lambda x: np.from_dlpack(x).__setitem__((1, 1), 50),
}


def plain(x: Any) -> Any:
    """Values as NumPy's, whatever their type."""
    return np.array(x.tolist())


@pytest.mark.covering
@pytest.mark.many
@pytest.mark.parametrize("kind", ["int64", "float32", "float16"])
@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("make", ["zeros", "ones", "counted"])
def test_a_function_sees_what_is_written_to_what_is_made_of_numbers(make: str, how: str, kind: str) -> None:
    x = MADE[make](kind)
    call = tw.jit(lambda y: y + x)
    nothing = xp.asarray(np.zeros((4, 6))).astype(kind)
    before = plain(call(nothing))
    WRITES[how](x)
    assert plain(x)[1, 1] != before[1, 1]
    np.testing.assert_array_equal(plain(call(nothing)), plain(x))


@pytest.mark.covering
@pytest.mark.many
@pytest.mark.parametrize("kind", ["int64", "float16", "complex128"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("make", ["zeros", "data"])
def test_all_see_what_is_written_to_an_array_of_a_part(make: str, view: str, kind: str) -> None:
    x, wanted = MADE[make](kind), np.array(MADE[make](kind).tolist(), "float32" if kind == "float16" else kind)
    part, other = VIEWS[view](x), x.T
    read, whole, double = tw.jit(lambda y: y + part), tw.jit(lambda y: y + x), tw.jit(lambda y: y * 2)
    nothing = part * 0, x * 0
    for value in (5, 6, 50):
        read(nothing[0]), whole(nothing[1]), double(part), double(other)
        copy, kept = part.copy(), plain(part)
        np.asarray(part if value != 6 else x)[..., 0] = value
        (VIEWS[view](wanted) if value != 6 else wanted)[..., 0] = value
        seen = VIEWS[view](wanted)
        np.testing.assert_array_equal(plain(copy), kept)
        for found, array in ((x, wanted), (part, seen), (other, wanted.T), (read(nothing[0]), seen), (whole(nothing[1]), wanted),
                             (double(part), seen * 2), (double(other), wanted.T * 2), (VIEWS[view](x), seen)):  # fmt: skip
            np.testing.assert_array_equal(plain(found), array)


def test_an_array_that_shows_nowhere_is_not_written_to() -> None:
    weights = Tensor(np.zeros((4, 6)), requires_grad=True)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(weights[1])[0] = 1
    long = xp.sqrt(xp.zeros((1 << 12, 1 << 12)) + xp.asarray(np.ones(1 << 12)))
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(long[1])[0] = 1


def test_a_function_may_update_what_it_reads_another_part_of() -> None:
    whole = Tensor(np.zeros(6))
    part = whole[:2]

    def step(a: Tensor) -> Tensor:
        a += 1
        return part + 0

    call = tw.jit(step)
    assert call(whole[3:]).tolist() == [0, 0] and whole.tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(tw.UsageError, match="that it also reads from outside"):
        call(whole[1:])


def test_a_complex_tensor_is_assigned_a_number() -> None:
    z = xp.zeros(3, dtype="complex128")
    z.assign(4)
    assert z.tolist() == [4, 4, 4] and z.assign(1j).tolist() == [1j, 1j, 1j]


def test_a_complex_argument_is_not_taken_for_the_real_tensor_of_its_memory() -> None:
    double = tw.jit(lambda x: x * 2)
    pairs, z = Tensor(np.arange(4.0).reshape(2, 2)), Tensor(np.array([1j, 2.0]))
    for _ in range(3):
        assert double(pairs).tolist() == [[0, 2], [4, 6]] and double(z).tolist() == [2j, 4]


def test_parts_of_an_array_that_somebody_has_are_numpys_views() -> None:
    """Such a part is computed with as quickly as any array: it is no node that is read anew."""
    given = np.arange(300_000.0)
    x = xp.asarray(given)
    np.asarray(x)
    for _ in range(2):
        part = x[1:]
        assert float(np.asarray(part * 2.0)[0]) == 2.0
    part = x[1:]
    assert part.known is not None and np.shares_memory(part.known, given)
    given[1] = 7.0
    assert float(part[0]) == 7.0

"""Names of tensors that a captured function reads: once they stand for another tensor, that is said, once."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor

from tests.tensor.test_jit import own_home

__all__ = ["own_home"]

pytestmark = pytest.mark.many

X = Tensor(np.ones(3, np.float32))
weight = Tensor(np.ones(3, np.float32))
unused = Tensor(np.ones(3, np.float32))
params: dict[str, Any] = {"w": Tensor(np.ones(3, np.float32)), "layers": [Tensor(np.ones(3, np.float32))]}
space = types.SimpleNamespace(w=Tensor(np.ones(3, np.float32)))


def fresh() -> Tensor:
    return Tensor(np.full(3, 2, np.float32))


def helper(x: Tensor) -> Tensor:
    return x * weight


class Model:
    def __init__(self) -> None:
        self.w = Tensor(np.ones(3, np.float32))

    @tw.jit
    def step(self, x: Tensor) -> Tensor:
        return x * self.w


def rebind_weight() -> None:
    global weight
    weight = fresh()


def by_closure() -> tuple[Callable[[Tensor], Any], Callable[[], None]]:
    w = Tensor(np.ones(3, np.float32))

    def change() -> None:
        nonlocal w
        w = fresh()

    return tw.jit(lambda x: x * w), change


def by_model() -> tuple[Callable[[Tensor], Any], Callable[[], None]]:
    model = Model()
    return model.step, lambda: setattr(model, "w", fresh())


WAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "weight": (lambda: (tw.jit(lambda x: x * weight), rebind_weight), "weight"),
    "of a helper": (lambda: (tw.jit(lambda x: helper(x) + 1.0), rebind_weight), "weight"),
    "of a partial": (lambda: (tw.jit(functools.partial(helper)), rebind_weight), "weight"),
    "of a nested function": (lambda: (tw.jit(lambda x: [x * weight for _ in range(2)]), rebind_weight), "weight"),
    "entry": (lambda: (tw.jit(lambda x: x * params["w"]), lambda: params.__setitem__("w", fresh())), r"params\['w'\]"),
    "in a list": (lambda: (tw.jit(lambda x: x * params["layers"][0]), lambda: params["layers"].__setitem__(0, fresh())), r"\['layers'\]\[0\]"),
    "attribute": (lambda: (tw.jit(lambda x: x * space.w), lambda: setattr(space, "w", fresh())), r"space\.w"),
    "closure": (by_closure, "w"),
    "model": (by_model, r"Model\.w"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_was_rebound_is_said_once(way: str) -> None:
    f, change = WAYS[way][0]()
    call = functools.partial(f, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            call()
    change()
    with pytest.warns(UserWarning, match=rf"{WAYS[way][1]} is another tensor.*old one.*assign") as said:
        call()
    assert len(said) == 1 and said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


def test_what_is_no_rebinding_is_not_said() -> None:
    global unused
    w = Tensor(np.ones(3, np.float32))
    f = tw.jit(lambda x: x * w + 0.0 * unused.shape[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X)
        w.assign(fresh())
        assert f(X).tolist() == [2, 2, 2]
        w += 1.0
        assert f(X).tolist() == [3, 3, 3]
        unused = fresh()  # which the function does not read
        f(X)


scale = 2.0


def test_a_number_that_changed_is_said_once() -> None:
    global scale
    shift = 1
    f = tw.jit(lambda x: x * scale + shift)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(X).tolist() == [3, 3, 3]
        scale = float("2")  # equal, and another object
        f(X)
    scale, shift = 3.0, 2
    with pytest.warns(UserWarning, match="is another number.*old one: pass it as an argument") as said:
        assert f(X).tolist() == [3, 3, 3]
    assert sorted(str(w.message).split()[0] for w in said) == ["scale", "shift"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X)


table = np.ones(3, np.float32)


def test_an_array_that_was_rebound_is_said_once() -> None:
    global table
    row = np.ones(3, np.float32)
    f = tw.jit(lambda x: x * table + row)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X)
        table[:], row[:] = 2, 3  # their memory is read at every call
        assert f(X).tolist() == [5, 5, 5]
    table, row = table * 2, row * 2
    with pytest.warns(UserWarning, match="is another array than when .* old one: pass it as an argument") as said:
        assert f(X).tolist() == [5, 5, 5]
    assert sorted(str(w.message).split()[0] for w in said) == ["row", "table"]


def test_numbers_of_objects_that_changed_are_said_once() -> None:
    of = types.SimpleNamespace(rate=2.0, unread=1.0)
    for f in (tw.jit(lambda x: x * of.rate), functools.partial(tw.jit(lambda settings, x: x * settings.rate), of)):
        of.rate = 2.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert f(X).tolist() == [2, 2, 2]
            of.unread += 1
            f(X)
        of.rate = 3.0
        with pytest.warns(UserWarning, match=r"\.rate is another number.*old one: pass it as an argument") as said:
            f(X)
        assert len(said) == 1


class Frame:
    """Another library's array, as NumPy asks for it."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.values, dtype)


@pytest.mark.parametrize("options", [{}, {"numpy": True}])
def test_arrays_of_other_libraries_are_read_at_every_call(options: dict[str, Any]) -> None:
    f = tw.jit(lambda x: x * 2, **options)
    for given in (Frame(X.copy()), Frame(X + 3)):
        assert np.asarray(f(given)).tolist() == (2 * given.values).tolist()
        given.values[:] = 5
        assert np.asarray(f(given)).tolist() == [10, 10, 10]
    assert len(f.programs) == 1


def test_complex_arrays_of_other_libraries() -> None:
    found = tw.jit(lambda x: x * 2)(Frame(np.array([1j, 2])))
    assert found.dtype == np.complex128 and found.tolist() == [2j, 4]


def test_what_would_stay_as_it_was_is_refused() -> None:
    f = tw.jit(lambda x, of: x * len(of))
    for of, instead in (({1}, "pass a frozenset"), (bytearray(b"a"), "pass a bytes")):
        with pytest.raises(tw.UsageError, match=rf"{instead} of it \(at .*test_bindings"):
            f(X, of)
    matrix = type("csr_array", (), {"__module__": "scipy.sparse._csr"})()
    with pytest.raises(tw.UsageError, match=r"csr_array of SciPy .*: pass tilewright\.sparse\.CSR"):
        f(X, matrix)
    assert f(X, frozenset({1, 2})).tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match=r"sum\(\) of a .*\.Frame: give tilewright\.xp\.asarray"):
        tw.xp.sum(Frame(X))

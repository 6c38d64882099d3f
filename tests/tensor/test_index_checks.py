"""Indices and labels outside of their dimension are an error: at once where they are known, when they are computed, under jit."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import OutOfRangeError, grad, jit, nn
from tilewright.ir.errors import KernelError, UsageError
from tilewright.tensor import Tensor
from tilewright.tensor.graph.index_checks import IndexMark
from tilewright.tensor.graph.nodes import walk
from tilewright.tensor.ops.indexing import scatter_add

W = np.arange(12, dtype=np.float32).reshape(4, 3)


def places(*at: int, dtype: str = "int64") -> np.ndarray[Any, Any]:
    return np.array(at, dtype)


def updated(w: Tensor, i: Tensor) -> Tensor:
    new = w * 1
    new[i] = 5.0
    return new


def summed(w: Tensor, i: Tensor) -> Tensor:
    new = w * 1
    new[:, i] = 5.0
    return new


INDEXED: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], int]] = {
    "getitem": (lambda w, i: w[i], 4),
    "getitem of the second": (lambda w, i: w[:, i], 3),
    "getitem of a pair": (lambda w, i: w[i, Tensor([0])], 4),
    "take": (lambda w, i: w.take(i, axis=1), 3),
    "take of a flat array": (lambda w, i: w.take(i), 12),
    "take_along_axis": (lambda w, i: w.take_along_axis(i.reshape((-1, 1)), axis=0), 4),
    "embedding": (lambda w, i: nn.embedding(w, i), 4),
    "embedding's gradient": (lambda w, i: tw.grad(lambda t: (nn.embedding(t, i) ** 2).sum())(w), 4),
    "setitem": (updated, 4),
    "setitem of the second": (summed, 3),
    "index_put": (lambda w, i: w.index_put(i, 1.0), 4),
    "index_put by max": (lambda w, i: w.index_put(i, 1.0, "max"), 4),
    "scatter_add": (lambda w, i: w.scatter_add(i, 1.0), 4),
    "scatter_add of columns": (lambda w, i: w.scatter_add(i.reshape((-1, 1)), 1.0, axis=0), 4),
}
"""By name: a function of an array and of indices, and the size of the dimension that they are places in."""

LABELLED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": lambda w, i: nn.cross_entropy(w, i),
    "cross_entropy smoothed": lambda w, i: nn.cross_entropy(w, i, label_smoothing=0.1),
    "cross_entropy ignoring": lambda w, i: nn.cross_entropy(w, i, ignore_index=-7),
    "cross_entropy's gradient": lambda w, i: tw.grad(lambda t: nn.cross_entropy(t, i))(w),
    "nll_loss": lambda w, i: nn.nll_loss(w, i),
    "nll_loss ignoring": lambda w, i: nn.nll_loss(w, i, ignore_index=-7, reduction="sum"),
    "one_hot": lambda w, i: nn.one_hot(i, 3).sum() + w.sum(),
}
"""Of 3 classes."""


def lazily(f: Callable[[Tensor, Tensor], Tensor], at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """With indices that are known."""
    return f(Tensor(W), Tensor(at)).numpy()


def computed(f: Callable[[Tensor, Tensor], Tensor], at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """With indices that are computed with the result."""
    return f(Tensor(W), Tensor(at) + 0 * Tensor(at)).numpy()


def captured(f: Callable[[Tensor, Tensor], Tensor], at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """With indices that are an argument of a captured function."""
    found: np.ndarray[Any, Any] = tw.jit(f)(Tensor(W), Tensor(at)).numpy()
    return found


WAYS = [lazily, computed, captured]


@pytest.fixture(params=["small", "kernels"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "1" if request.param == "small" else "0")
    return str(request.param)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.covering
def test_indices_outside_are_an_error(name: str, way: Any, small: str) -> None:
    f, n = INDEXED[name]
    for wrong in (n, -n - 1):
        with pytest.raises(OutOfRangeError, match=f"{wrong} is out of range for dimension . of {n} elements .at .*test_index_checks"):
            way(f, places(0, wrong, 1))
    inside = way(f, places(0, n - 1, -n, -1))
    assert np.array_equal(inside, way(f, places(0, n - 1, 0, n - 1)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.covering
def test_labels_outside_are_an_error(name: str, way: Any, small: str) -> None:
    f = LABELLED[name]
    for wrong in (9, 3, -1, -100):
        with pytest.raises(OutOfRangeError, match=f"label {wrong} is out of range for dimension 1 of 3 elements"):
            way(f, places(0, wrong, 1, 2))
    assert np.isfinite(way(f, places(0, 2, 1, 0))).all()
    if "ignoring" in name:
        assert np.isfinite(way(f, places(0, -7, 1, 0))).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.covering(pairs=True)
def test_the_ends_of_every_type_are_seen(dtype: str, way: Any, small: str) -> None:
    ends = np.iinfo(dtype)
    for wrong in {ends.min, ends.max} - {0}:
        with pytest.raises(OutOfRangeError, match=f"index {wrong} is out"):
            way(lambda w, i: w[i], places(3, wrong, 0, dtype=dtype))
    assert np.array_equal(way(lambda w, i: w[i], places(3, 0, dtype=dtype)), W[[3, 0]])


def test_an_error_is_an_index_error_and_a_usage_error() -> None:
    with pytest.raises(IndexError):
        Tensor(W)[places(4)]
    with pytest.raises(tw.UsageError):
        Tensor(W)[places(4)]


def test_the_first_of_several_is_named_and_all_are_seen() -> None:
    @tw.jit
    def both(w: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return nn.cross_entropy(w, i) + w.take(j, axis=0).sum()

    w, good = Tensor(W), places(0, 1, 2, 2)
    assert both(w, good, places(3)).item() == both(w, good, places(-1)).item()
    with pytest.raises(OutOfRangeError, match="take: index 9"):
        both(w, good, places(9))
    with pytest.raises(OutOfRangeError, match="cross_entropy: label 3"):
        both(w, places(0, 1, 3, 2), places(9))


def test_the_line_is_that_of_the_graph_at_hand() -> None:
    def first() -> Tensor:
        return Tensor(W)[Tensor(places(7)) + 0]

    def second() -> Tensor:
        return Tensor(W)[Tensor(places(7)) + 0]

    lines = []
    for f in (first, second):
        with pytest.raises(OutOfRangeError) as error:
            f().numpy()
        lines.append(int(re.findall(r":(\d+)\)$", str(error.value))[0]))
    assert lines == [first.__code__.co_firstlineno + 1, second.__code__.co_firstlineno + 1]


def test_a_failing_call_updates_nothing() -> None:
    total = Tensor(np.zeros((4, 3), np.float32))

    @tw.jit
    def count(i: Tensor) -> Tensor:
        total.assign(total.scatter_add(i, 1.0))
        return total.sum()

    assert count(places(0, 1)).item() == 6.0
    with pytest.raises(OutOfRangeError):
        count(places(0, 4))
    assert total.numpy()[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert count(places(3, -4)).item() == 12.0


def test_a_function_without_updates_is_one_native_call_and_looks_at_its_indices_afterwards() -> None:
    @tw.jit
    def rows(w: Tensor, i: Tensor) -> Tensor:
        return w.take(i, axis=0) * 2

    w = Tensor(W)
    assert np.array_equal(rows(w, Tensor(places(1, 3))).numpy(), 2 * W[[1, 3]])
    sequence = rows.programs[0].sequence
    assert sequence.direct and [c.host is not None for c in sequence.calls] == [False] * (len(sequence.calls) - 1) + [True]
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match="index 4 is out of range"):
            rows(w, Tensor(places(1, 4)))
        assert np.array_equal(rows(w, Tensor(places(3, 0))).numpy(), 2 * W[[3, 0]])


def test_a_tensor_from_outside_is_checked_at_every_call() -> None:
    at = Tensor(places(0, 1))
    rows = tw.jit(lambda w: w[at])
    assert np.array_equal(rows(Tensor(W)).numpy(), W[[0, 1]])
    at.assign(Tensor(places(2, 5)))
    with pytest.raises(OutOfRangeError, match="index 5"):
        rows(Tensor(W))
    at.assign(Tensor(places(2, 3)))
    assert np.array_equal(rows(Tensor(W)).numpy(), W[[2, 3]])


def test_vmap_and_symbolic_sizes_check_as_well(small: str) -> None:
    row = tw.jit(tw.vmap(lambda w, i: w[i]))
    assert row(Tensor(W), places(0, 2, -1, 1)).numpy().tolist() == [0.0, 5.0, 8.0, 10.0]
    with pytest.raises(OutOfRangeError, match="index 3 is out of range for dimension 0 of 3"):
        row(Tensor(W), places(0, 1, 2, 3))
    n, m = tw.Var("n", 0, 64), tw.Var("m", 0, 9)
    f = tw.jit(symbols={"x": {0: n}, "i": {0: m}})(lambda x, i: x[i] * 2)
    x = np.arange(5, dtype=np.float32)
    assert f(x, places(4, -5)).numpy().tolist() == [8.0, 0.0]
    for wrong in (5, -6):
        with pytest.raises(OutOfRangeError, match=f"index {wrong} is out of range for dimension 0 of 5"):
            f(x, places(0, wrong))
    assert f(x[:0], places()).numpy().tolist() == []
    with pytest.raises(OutOfRangeError, match="index 0 is out of range for dimension 0 of 0"):
        f(x[:0], places(0))


def test_what_is_read_of_nothing_is_an_error_with_a_line() -> None:
    f = tw.jit(lambda w, i: w[i * i] + 1)
    with pytest.raises(OutOfRangeError, match=r"getitem: index is out of range for dimension 0 of 0 elements.*test_index_checks\.py"):
        f(Tensor(W[:0]), places(0))
    assert f(Tensor(W[:0]), places()).shape == (0, *W.shape[1:])
    last = tw.jit(
        lambda w, n: tw.fori_loop(0, n, lambda i, v: w[i] + v, w.sum(0)), symbols={"w": {0: tw.Var("m", 0, 9)}, "n": tw.Var("n", 0, 9)}
    )
    assert last(Tensor(W[:0]), 0).numpy().tolist() == (W[:0].sum(0)).tolist()
    with pytest.raises(OutOfRangeError, match="getitem: index is out of range for dimension 0 of 0 elements"):
        last(Tensor(W[:0]), 1)


def test_threads_hear_of_their_own_calls() -> None:
    rows = tw.jit(lambda w, i: w[i] + 1)
    w, wrong = Tensor(W), []
    rows(w, places(0, 1))

    def call(good: bool) -> None:
        for _ in range(50):
            try:
                found = rows(w, places(2, 3 if good else 4)).numpy()
                if not good or not np.array_equal(found, W[[2, 3]] + 1):
                    wrong.append(found)
            except OutOfRangeError:
                if good:
                    wrong.append("raised")

    threads = [threading.Thread(target=call, args=(k % 2 == 0,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_captured_mask_takes_as_many_values_as_are_true() -> None:
    def put(x: Tensor, mask: Tensor, values: Tensor) -> Tensor:
        x = x + 0
        x[mask] = values
        return x

    mask, x, captured = np.array([True, False, True, True, False]), np.zeros((5, 2), np.float32), tw.jit(put)
    for count in (2, 3, 4):
        values = np.arange(count * 2, dtype=np.float32).reshape(count, 2)
        if count == 3:
            want = x.copy()
            want[mask] = values
            assert np.array_equal(captured(Tensor(x), Tensor(mask), Tensor(values)).numpy(), want)
            continue
        with pytest.raises(OutOfRangeError, match="value 2 is out of range" if count < 3 else f"{count} values for a mask with fewer"):
            captured(Tensor(x), Tensor(mask), Tensor(values))


def test_too_few_values_for_a_mask_are_an_error(small: str) -> None:
    x = Tensor(np.zeros(5, np.float32))
    with pytest.raises(OutOfRangeError, match=r"value 2 is out of range for dimension 0 of 2|cannot assign 2 input values to the 3"):
        x[Tensor(np.array([True, False, True, True, False]))] = Tensor(np.float32([1, 2]))
        x.numpy()


@pytest.mark.parametrize(
    "key",
    [
        lambda i: i % 4,
        lambda i: i.clip(0, 3),
        lambda i: (i > 1).astype("int32"),
        lambda i: i & 3,
        lambda i: Tensor(W)[:, :1].argmax(axis=1),
        lambda i: [0, -1, 2, 3],
        lambda i: i.argsort(),
    ],
)
def test_what_is_inside_for_certain_is_not_checked(key: Any) -> None:
    f = tw.jit(lambda w, i: w[key(i)] * 2)
    found = f(Tensor(W), places(0, 1, 2, 3))
    assert f.report().count("check") == 0
    assert found.shape == (4, 3)


def test_the_check_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_INDEX_CHECKS", "0")
    f = tw.jit(lambda w, i: w[i])
    assert np.array_equal(f(Tensor(W), places(0, 9, -9)).numpy(), W[[0, 3, 0]])
    node = (Tensor(W)[Tensor(places(2)) + 0]).node
    assert not any(isinstance(n.arg, IndexMark) for n in walk([node]))


def test_checks_need_no_schedule() -> None:
    with pytest.raises(tw.CacheMiss) as error:
        tw.jit(lambda w, i: w[i] * 2, tune="require")(Tensor(W), places(0))
    assert "1 of 1 kernels" in str(error.value)


def products(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (x.tanh() @ y, (y.mT.exp() @ x.mT).sum(0), (x @ x.mT / 2).softmax(-1) @ x, x.log_softmax(0)[:, 1:2] @ y[:1] + 1)


@pytest.mark.parametrize("how", ["eager", "jit"])
@pytest.mark.parametrize(("m", "n", "k"), [(2, 3, 0), (0, 3, 2), (2, 0, 3), (0, 0, 0)])
@pytest.mark.covering
def test_products_of_what_has_no_elements(monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, how: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    x, y = np.ones((m, n), np.float32), np.ones((n, k), np.float32)
    given: Any = (Tensor(x), Tensor(y))
    found = (jit(products) if how == "jit" else products)(*given)
    assert [f.numpy().shape for f in found] == [(m, k), (m,), (m, n), (m, k)]
    assert np.allclose(found[0].numpy(), np.tanh(x) @ y) and np.allclose(found[1].numpy(), (np.exp(y.T) @ x.T).sum(0))
    assert (found[3].numpy() == (1 + np.full((m, k), -np.log(max(m, 1)) if n > 1 else 0.0))).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("function", ["prod", "cumprod", "sum", "cumsum", "softmax"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.covering(pairs=True)
def test_gradients_of_what_has_no_elements(function: str, shape: tuple[int, int], axis: int) -> None:
    found = grad(lambda x: getattr(x, function)(axis).sum())(Tensor(np.ones(shape, np.float32)))
    assert found.numpy().shape == shape


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (np.array([object(), None]), "an array of objects"),
        (2**70, "an array of objects.*too large"),
        ([2**63, -1], "whole numbers from -1 to 9223372036854775808: no integer type has all"),
        ([[1, 2], [3]], "a list that is no array"),
        (["a"], "Value 'a'"),
        (np.zeros(3, np.clongdouble), "complex256"),
        (np.zeros(3, "datetime64[s]"), "unknown dtype"),
        (np.ma.array([1.0, 2.0], mask=[1, 0]), "a masked array, whose mask would be lost"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused_with_the_users_line(data: Any, says: str) -> None:
    with pytest.raises((UsageError, KernelError), match=f"{says}.*test_index_checks.py:[0-9]+"):
        Tensor(data)


def test_a_masked_operand_is_refused_too() -> None:
    with pytest.raises(UsageError, match=r"a masked array.*test_index_checks.py"):
        Tensor([1.0, 2.0]) + np.ma.array([1.0, 2.0], mask=[1, 0])


def test_a_dtype_that_the_data_cannot_have_is_refused() -> None:
    with pytest.raises(UsageError, match=r"cannot become float32.*test_index_checks.py"):
        Tensor(np.array([object()]), dtype="float32")
    assert Tensor([2**70], dtype="float64").item() == 2.0**70
    assert Tensor([[2**63 + 1], [1]]).tolist() == [[2**63 + 1], [1]] and str(Tensor([2**63, 0.5]).dtype) == "float32"


@pytest.mark.parametrize("dtype", [">f4", ">i2", ">u8", "<f8"])
def test_byte_orders_are_converted(dtype: str) -> None:
    a = np.arange(5, dtype=dtype)
    assert (Tensor(a) + 1).tolist() == (a + 1).tolist() and (Tensor([1, 1, 1, 1, 1], dtype=Tensor(a).dtype) + a).tolist() == (
        a + 1
    ).tolist()


def test_strange_strides_misaligned_and_read_only_arrays_are_read_right_and_never_written() -> None:
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    a.flags.writeable = False
    raw = np.zeros(4 * 4 + 1, np.uint8)[1:].view(np.float32)
    raw[:] = [1, 2, 3, 4]
    for x in (a, a[::-1, ::2], np.asfortranarray(a), np.broadcast_to(np.float32(3), (4, 5)), raw):
        t = Tensor(x)
        t += 1
        t[0] = 5
        want = x + 1
        want[0] = 5
        np.testing.assert_array_equal(t.numpy(), want)
    assert a[0, 0] == 0 and raw.tolist() == [1, 2, 3, 4]


def test_more_dimensions_than_numpy_has_are_refused() -> None:
    with pytest.raises(UsageError, match=r"72 dimensions.*at most 64.*test_index_checks.py"):
        Tensor([1.0, 2.0]).reshape(*(1,) * 71, 2)


def test_index_errors_have_the_users_line() -> None:
    with pytest.raises(IndexError, match=r"index 5 .*test_index_checks.py:[0-9]+"):
        Tensor([1.0, 2.0])[5]


def test_pickles_and_deep_copies_are_of_values_with_memory_of_their_own() -> None:
    x = Tensor(np.arange(3), dtype="bfloat16")
    for _ in range(2000):
        x = x + 0.0  # pickling the graph would overflow Python's stack
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.dtype is x.dtype and y.tolist() == [0, 1, 2] and not np.shares_memory(y.numpy(), x.numpy())
    w = Tensor([1.0], requires_grad=True)
    assert pickle.loads(pickle.dumps(w)).requires_grad and copy.copy(w).numpy() is not None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_are_scattered_in_float32_and_rounded_once(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    rows, at = Tensor(np.full(300, 2.0), dtype=dtype), Tensor(np.zeros(300, np.int64))
    found = Tensor.of(scatter_add(Tensor(np.zeros(2), dtype=dtype).node, at.node, rows.node))
    assert found.tolist() == [600.0, 0.0]  # in bfloat16 the sum stops at 512

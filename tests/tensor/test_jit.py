"""Captured functions: what is captured when, and what a capture does not allow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import jit, xp
from tilewright.tensor import Tensor
from tilewright.tensor.running import numpy_evaluation as small


def ramp(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7 - 3) / 4


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.mark.many
def test_a_second_call_replays() -> None:
    calls = []

    @tw.jit
    def f(x: Tensor, w: Tensor) -> Tensor:
        calls.append(1)
        return (x @ w).tanh()

    x, w = Tensor(ramp(4, 6)), Tensor(ramp(6, 5))
    first, second = f(x, w), f(Tensor(ramp(4, 6) + 1), w)
    assert len(calls) == 1 and len(f.programs) == 1
    np.testing.assert_allclose(first.numpy(), np.tanh(ramp(4, 6) @ ramp(6, 5)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second.numpy(), np.tanh((ramp(4, 6) + 1) @ ramp(6, 5)), rtol=1e-5, atol=1e-6)


@pytest.mark.many
def test_replay_gives_the_bits_of_the_first_call() -> None:
    f = tw.jit(lambda x: [x.softmax(-1), (x @ x.mT).sum(0)])
    x = Tensor(ramp(8, 8))
    first, second = ([y.numpy().copy() for y in f(x)] for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


@pytest.mark.many
def test_other_shapes_are_captured_anew_or_refused() -> None:
    f = tw.jit(lambda x: x * 2.0)
    assert [f(Tensor(ramp(n))).shape for n in (3, 4, 3)] == [(3,), (4,), (3,)]
    assert len(f.programs) == 2
    g = tw.jit(shapes="error")(lambda x: x * 2.0)
    g(Tensor(ramp(3)))
    with pytest.raises(tw.UsageError, match=r"captured for shapes .*\(3,\).*called with \[\(4,\)\].*recapture"):
        g(Tensor(ramp(4)))


@pytest.mark.many
def test_numbers_are_constants_until_they_change() -> None:
    f = tw.jit(lambda x, a: x * a)
    x = ramp(5)
    for a in (2.0, 2.0, 3.0, 4.0, -0.0):
        y = f(Tensor(x), a).numpy()
        assert y.dtype == np.float32 and (y == x * np.float32(a)).all() and (np.signbit(y) == np.signbit(x * np.float32(a))).all()
    assert [p.graph.numbers.positions for p in f.programs] == [(), (0,)]


@pytest.mark.many
def test_parameters_keep_the_promotion_of_numbers() -> None:
    def rate(x: Tensor, lr: float, t: int) -> Tensor:
        return x * (lr / (1.0 - 0.9**t)) + t

    f = tw.jit(rate)
    x = ramp(5)
    for lr, t in ((0.1, 1), (0.2, 2), (0.3, 7)):
        y = f(Tensor(x), lr, t).numpy()
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, x * (lr / (1 - 0.9**t)) + t, rtol=1e-6)
    assert len(f.programs) == 2


@pytest.mark.many
def test_numbers_whose_values_are_needed_stay_constants() -> None:
    f = tw.jit(lambda x, n, a: x.reshape(n, -1).sum(1) * a)
    for n, a in ((2, 1.0), (3, 2.0), (6, 3.0), (2, 4.0)):
        np.testing.assert_allclose(f(Tensor(ramp(6)), n, a).numpy(), ramp(6).reshape(n, -1).sum(1) * a, rtol=1e-6)
    assert all(0 in p.graph.numbers.read or 0 not in p.graph.numbers.positions for p in f.programs)


@pytest.mark.many
def test_trees_of_arguments_and_results() -> None:
    @tw.jit
    def f(p: dict, xs: list, flag: bool, *, name: str) -> dict:
        return {"out": p["w"] * xs[0] + xs[1], "name": name, "rest": (xs[0], None, 3)}

    got = f({"w": Tensor(ramp(3))}, [Tensor(ramp(3)), np.ones(3, np.float32)], True, name="a")
    assert got["name"] == "a" and got["rest"][1:] == (None, 3)
    np.testing.assert_allclose(got["out"].numpy(), ramp(3) ** 2 + 1)
    assert (got["rest"][0].numpy() == ramp(3)).all()
    assert f({"w": Tensor(ramp(3))}, [Tensor(ramp(3)), Tensor(ramp(3))], False, name="b")["name"] == "b"


@pytest.mark.many
@pytest.mark.parametrize("how", ["item", "bool", "numpy", "compare"])
def test_values_are_not_known_while_capturing(how: str) -> None:
    ways = {
        "item": lambda x: x.sum().item(),
        "bool": lambda x: 1 if x.sum() else 2,
        "numpy": lambda x: x.numpy(),
        "compare": lambda x: max(x[0], x[1]),
    }
    f = tw.jit(lambda x: x * ways[how](x))
    with pytest.raises(tw.UsageError, match=r"being captured, and reads.*test_jit\.py:\d+"):
        f(Tensor(ramp(4)))


@pytest.mark.many
def test_reading_a_tensor_from_outside_is_refused() -> None:
    scale = Tensor(ramp(1))
    f = tw.jit(lambda x: x * scale.item())
    with pytest.raises(tw.UsageError, match=r"reads the value of a tensor from outside.*test_jit\.py"):
        f(Tensor(ramp(4)))


@pytest.mark.many
def test_tensors_that_leave_a_capture_have_no_values() -> None:
    kept = []
    f = tw.jit(lambda x: kept.append(x * 2.0) or x * 3.0)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 3).all()
    with pytest.raises(tw.UsageError, match="made while a function was captured"):
        kept[0].numpy()


@pytest.mark.many
def test_tensors_from_outside_are_read_at_every_call() -> None:
    w = Tensor(ramp(4))
    f = tw.jit(lambda x: x + w * 2.0)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 3).all()
    w.assign(Tensor(np.ones(4, np.float32)))
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) + 2).all()
    w += 1.0
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) + 4).all()


@pytest.mark.many
def test_what_was_computed_outside_is_no_constant_inside() -> None:
    """An equal expression that was computed before has values, which an assignment makes old."""
    w = Tensor(ramp(4))
    twice = w * 2.0
    twice.numpy()
    f = tw.jit(lambda x: x + w * 2.0)
    f(Tensor(ramp(4)))
    w.assign(w * 0.0)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4)).all()
    assert (twice.numpy() == ramp(4) * 2).all()


@pytest.mark.many
def test_lazy_tensors_from_outside_keep_their_values() -> None:
    w = Tensor(ramp(4))
    twice = w * 2.0
    f = tw.jit(lambda x: x + twice)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 3).all()
    w.assign(w * 0.0)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 3).all()


@pytest.mark.many
def test_an_exception_while_capturing_changes_nothing() -> None:
    w = Tensor(ramp(4))
    fail = [True]

    @tw.jit
    def f(x: Tensor) -> Tensor:
        w.assign(w + x)
        if fail[0]:
            raise KeyboardInterrupt
        return w.sum()

    with pytest.raises(KeyboardInterrupt):
        f(Tensor(ramp(4)))
    assert (w.numpy() == ramp(4)).all()
    fail[0] = False
    f(Tensor(ramp(4)))
    assert (w.numpy() == ramp(4) * 2).all()


@pytest.mark.many
def test_captured_functions_call_captured_functions() -> None:
    inner = tw.jit(lambda x: x * 2.0)
    outer = tw.jit(lambda x: inner(x) + 1.0)
    assert (outer(Tensor(ramp(4))).numpy() == ramp(4) * 2 + 1).all()
    assert len(outer.programs) == 1 and not inner.programs


@pytest.mark.many
def test_methods() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = Tensor(np.full(4, by, np.float32))

        @tw.jit
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.by

    assert [float(Scale(b).__call__(Tensor(np.ones(4, np.float32))).numpy()[0]) for b in (2.0, 3.0)] == [2.0, 3.0]


@pytest.mark.many
def test_threads_share_a_captured_function() -> None:
    f = tw.jit(lambda x: (x * 2.0).softmax(-1))
    want = f(Tensor(ramp(16, 16))).numpy().copy()
    wrong = []

    def run() -> None:
        for _ in range(30):
            if not (f(Tensor(ramp(16, 16))).numpy() == want).all():
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.many
def test_empty_and_unused_arguments() -> None:
    f = tw.jit(lambda x, y: (x * 2.0, x.sum()))
    a, b = f(Tensor(np.zeros((0, 3), np.float32)), Tensor(ramp(2)))
    assert a.shape == (0, 3) and b.item() == 0.0
    assert tw.jit(lambda: 3)() == 3


@pytest.mark.many
def test_options_are_checked() -> None:
    with pytest.raises(tw.UsageError, match="tune='fast'"):
        tw.jit(tune="fast")
    with pytest.raises(tw.UsageError, match="has no such argument"):
        tw.jit(lambda x: x, donate="y")


@pytest.mark.many
def test_a_report_has_a_line_for_each_kernel() -> None:
    f = tw.jit(lambda x, w: (x @ w).relu().softmax(-1))
    assert "not called yet" in f.report()
    f(Tensor(ramp(8, 8)), Tensor(ramp(8, 8)))
    text = f.report(measure=True)
    assert "matmul" in text and "softmax" in text and "start" in text and "us" in text


@pytest.mark.many
def test_kernels_that_were_not_tuned_can_be_asked_for() -> None:
    f = tw.jit(lambda x, w: (x @ w).softmax(-1), tune="record")
    f(Tensor(ramp(8, 8)), Tensor(ramp(8, 8)))
    assert [k.name for k in f.missing()] == ["matmul", "softmax"]


@pytest.mark.many
def test_memoryviews_are_arrays() -> None:
    x = ramp(2, 3)
    f = tw.jit(lambda x: x * 2.0)
    for _ in range(2):
        assert (f(memoryview(x)).numpy() == x * 2).all()
    assert (f(Tensor(x)).numpy() == x * 2).all() and len(f.programs) == 1
    assert (Tensor(x) + memoryview(x)).numpy().tolist() == (x + x).tolist() and Tensor(memoryview(x)).dtype.name == "float32"
    assert Tensor(memoryview(x.astype(np.float64))).dtype.name == "float64"


INF = float("inf")
where = xp.where
Pattern = Callable[[Any, Any, Any, Any, Any], Any]


def weights(s: Any) -> Any:
    return (s - s.max(-1, keepdims=True)).exp()


def numbers(p: Any) -> Any:
    return where(p != p, 0.0, p)


PATTERNS: dict[str, Pattern] = {
    "rows": lambda s, v, c, m, b: where(c, 0.0, (s + b).softmax(-1)) @ v,
    "elements": lambda s, v, c, m, b: where(m, (s + b).softmax(-1), 0.0) @ v,
    "dropout": lambda s, v, c, m, b: where(m, (s + b).softmax(-1) * 1.25, 0.0) @ v,
    "safe softmax": lambda s, v, c, m, b: where(m, where(m, s + b, -INF).softmax(-1), 0.0) @ v,
    "elements in rows": lambda s, v, c, m, b: where(c, 0.0, where(m, (s + b).softmax(-1), 0.0)) @ v,
    "rows in elements": lambda s, v, c, m, b: where(m, where(c, 0.0, (s + b).softmax(-1)), 0.0) @ v,
    "large negative scores": lambda s, v, c, m, b: where(m, s + b, -1e9).softmax(-1) @ v,
    "infinite scores": lambda s, v, c, m, b: where(m, s + b, -INF).softmax(-1) @ v,
    "around the product": lambda s, v, c, m, b: where(c, 0.0, where(m, s, -INF).softmax(-1) @ v),
    "of what is read": lambda s, v, c, m, b: (s + b).softmax(-1) @ where(v > 0, v, 0.0),
    "rows that see nothing": lambda s, v, c, m, b: (
        where(where(m, s, -INF).max(-1, keepdims=True) == -INF, 0.0, where(m, s, -INF).softmax(-1)) @ v
    ),
    "no numbers": lambda s, v, c, m, b: numbers(where(m, s + b, -INF).softmax(-1)) @ v,
    "differences": lambda s, v, c, m, b: where(m, (s + b) - (s + b).max(-1, keepdims=True), 0.0).sum(-1),
    "largest difference": lambda s, v, c, m, b: where(m, (s + b) - (s + b).max(-1, keepdims=True), -INF).max(-1),
    "squares": lambda s, v, c, m, b: where(m, ((s + b) - (s + b).mean(-1, keepdims=True)) ** 2, 0.0).sum(-1),
    "causal and dropout": lambda s, v, c, m, b: (
        where(m, where(xp.arange(s.shape[1]) <= xp.arange(s.shape[0]).reshape(-1, 1), s + b, -INF).softmax(-1), 0.0) @ v
    ),
}


def operands(keys: int) -> list[np.ndarray]:
    """q, k, v, a condition for rows, one for elements, a bias: rows of −∞, of NaN and with ∞, under conditions and not."""
    r = np.random.default_rng(1)
    q, k, v = (r.standard_normal((n, 8)).astype(np.float32) for n in (16, keys, keys))
    rows, elements = r.random((16, 1)) < 0.5, r.random((16, keys)) < 0.7
    bias = np.zeros((16, keys), np.float32)
    elements[0], elements[1], elements[2] = False, True, np.arange(keys) == keys // 2
    bias[3], bias[4, ::3], bias[5, 1], bias[6], bias[7, : keys // 2], bias[8, 2], bias[9], bias[10, 0], bias[11] = (
        -INF, -INF, np.nan, np.nan, -INF, np.nan, -INF, INF, -INF,
    )  # fmt: skip
    elements[5, 1] = elements[10, 0] = False
    elements[6] = elements[8] = elements[9] = False
    rows[[0, 6, 11]], rows[3] = True, False
    return [q, k, v, rows, elements, bias]


def kinds(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), 3, np.where(np.isinf(x), np.where(x > 0, 1, 2), 0))


@pytest.mark.parametrize("name", PATTERNS)
def test_a_guard_stays(name: str) -> None:
    for keys in (37, 200):
        given = [Tensor(a) for a in operands(keys)]

        def f(q: Any, k: Any, v: Any, c: Any, m: Any, b: Any) -> Any:
            return PATTERNS[name](q @ k.mT, v, c, m, b)

        got = jit(f)(*given).numpy()
        (want,) = small.evaluate([f(*given).node])
        np.testing.assert_array_equal(kinds(got), kinds(want))
        finite = kinds(want) == 0
        np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-5)

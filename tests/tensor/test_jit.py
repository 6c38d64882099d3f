"""Captured functions: what is captured when, and what a capture does not allow."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.ir.errors import UsageError
from tilewright.tensor import Tensor

pytestmark = pytest.mark.many


def ramp(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7 - 3) / 4


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


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


def test_replay_gives_the_bits_of_the_first_call() -> None:
    f = tw.jit(lambda x: [x.softmax(-1), (x @ x.mT).sum(0)])
    x = Tensor(ramp(8, 8))
    first, second = ([y.numpy().copy() for y in f(x)] for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_other_shapes_are_captured_anew_or_refused() -> None:
    f = tw.jit(lambda x: x * 2.0)
    assert [f(Tensor(ramp(n))).shape for n in (3, 4, 3)] == [(3,), (4,), (3,)]
    assert len(f.programs) == 2
    g = tw.jit(shapes="error")(lambda x: x * 2.0)
    g(Tensor(ramp(3)))
    with pytest.raises(tw.UsageError, match=r"captured for shapes .*\(3,\).*called with \[\(4,\)\].*recapture"):
        g(Tensor(ramp(4)))


def test_numbers_are_constants_until_they_change() -> None:
    f = tw.jit(lambda x, a: x * a)
    x = ramp(5)
    for a in (2.0, 2.0, 3.0, 4.0, -0.0):
        y = f(Tensor(x), a).numpy()
        assert y.dtype == np.float32 and (y == x * np.float32(a)).all() and (np.signbit(y) == np.signbit(x * np.float32(a))).all()
    assert [p.graph.numbers.positions for p in f.programs] == [(), (0,)]


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


def test_numbers_whose_values_are_needed_stay_constants() -> None:
    f = tw.jit(lambda x, n, a: x.reshape(n, -1).sum(1) * a)
    for n, a in ((2, 1.0), (3, 2.0), (6, 3.0), (2, 4.0)):
        np.testing.assert_allclose(f(Tensor(ramp(6)), n, a).numpy(), ramp(6).reshape(n, -1).sum(1) * a, rtol=1e-6)
    assert all(0 in p.graph.numbers.read or 0 not in p.graph.numbers.positions for p in f.programs)


def test_trees_of_arguments_and_results() -> None:
    @tw.jit
    def f(p: dict, xs: list, flag: bool, *, name: str) -> dict:
        return {"out": p["w"] * xs[0] + xs[1], "name": name, "rest": (xs[0], None, 3)}

    got = f({"w": Tensor(ramp(3))}, [Tensor(ramp(3)), np.ones(3, np.float32)], True, name="a")
    assert got["name"] == "a" and got["rest"][1:] == (None, 3)
    np.testing.assert_allclose(got["out"].numpy(), ramp(3) ** 2 + 1)
    assert (got["rest"][0].numpy() == ramp(3)).all()
    assert f({"w": Tensor(ramp(3))}, [Tensor(ramp(3)), Tensor(ramp(3))], False, name="b")["name"] == "b"


@pytest.mark.parametrize("how", ["item", "bool", "numpy", "compare"])
def test_values_are_not_known_while_capturing(how: str) -> None:
    ways = {
        "item": lambda x: x.sum().item(),
        "bool": lambda x: 1 if x.sum() else 2,
        "numpy": lambda x: x.numpy(),
        "compare": lambda x: max(x[0], x[1]),
    }
    f = tw.jit(lambda x: x * ways[how](x))
    with pytest.raises(tw.UsageError, match=r"being captured, and (makes|branches).*test_jit\.py:\d+"):
        f(Tensor(ramp(4)))


def test_reading_a_tensor_from_outside_is_refused() -> None:
    scale = Tensor(ramp(1))
    f = tw.jit(lambda x: x * scale.item())
    with pytest.raises(tw.UsageError, match=r"reads the value of a tensor from outside.*test_jit\.py"):
        f(Tensor(ramp(4)))


def test_tensors_that_leave_a_capture_have_no_values() -> None:
    kept = []
    f = tw.jit(lambda x: kept.append(x * 2.0) or x * 3.0)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 3).all()
    with pytest.raises(tw.UsageError, match="made while a function was captured"):
        kept[0].numpy()


def test_tensors_from_outside_are_read_at_every_call() -> None:
    w = Tensor(ramp(4))
    f = tw.jit(lambda x: x + w * 2.0)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 3).all()
    w.assign(Tensor(np.ones(4, np.float32)))
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) + 2).all()
    w += 1.0
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) + 4).all()


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


def test_lazy_tensors_from_outside_keep_their_values() -> None:
    w = Tensor(ramp(4))
    twice = w * 2.0
    f = tw.jit(lambda x: x + twice)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 3).all()
    w.assign(w * 0.0)
    assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 3).all()


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


def test_captured_functions_call_captured_functions() -> None:
    inner = tw.jit(lambda x: x * 2.0)
    outer = tw.jit(lambda x: inner(x) + 1.0)
    assert (outer(Tensor(ramp(4))).numpy() == ramp(4) * 2 + 1).all()
    assert len(outer.programs) == 1 and not inner.programs


def test_methods() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = Tensor(np.full(4, by, np.float32))

        @tw.jit
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.by

    assert [float(Scale(b).__call__(Tensor(np.ones(4, np.float32))).numpy()[0]) for b in (2.0, 3.0)] == [2.0, 3.0]


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


def test_empty_and_unused_arguments() -> None:
    f = tw.jit(lambda x, y: (x * 2.0, x.sum()))
    a, b = f(Tensor(np.zeros((0, 3), np.float32)), Tensor(ramp(2)))
    assert a.shape == (0, 3) and b.item() == 0.0
    assert tw.jit(lambda: 3)() == 3


def test_options_are_checked() -> None:
    with pytest.raises(tw.UsageError, match="tune='fast'"):
        tw.jit(tune="fast")
    with pytest.raises(tw.UsageError, match=r"jit\(check='no'"):
        tw.jit(check="no")
    with pytest.raises(tw.UsageError, match="has no such argument"):
        tw.jit(lambda x: x, donate="y")


def test_a_report_has_a_line_for_each_kernel() -> None:
    f = tw.jit(lambda x, w: (x @ w).relu().softmax(-1))
    assert "not called yet" in f.report()
    f(Tensor(ramp(8, 8)), Tensor(ramp(8, 8)))
    text = f.report(measure=True)
    assert "matmul" in text and "softmax" in text and "start" in text and re.search(r"\d (ns|µs|ms)\b", text)


def test_kernels_that_were_not_tuned_can_be_asked_for() -> None:
    f = tw.jit(lambda x, w: (x @ w).softmax(-1), tune="list")
    f(Tensor(ramp(8, 8)), Tensor(ramp(8, 8)))
    assert [k.name for k in f.missing()] == ["matmul", "softmax"]


def test_memoryviews_are_arrays() -> None:
    x = ramp(2, 3)
    f = tw.jit(lambda x: x * 2.0)
    for _ in range(2):
        assert (f(memoryview(x)).numpy() == x * 2).all()
    assert (f(Tensor(x)).numpy() == x * 2).all() and len(f.programs) == 1
    assert (Tensor(x) + memoryview(x)).numpy().tolist() == (x + x).tolist() and Tensor(memoryview(x)).dtype.name == "float32"
    assert Tensor(memoryview(x.astype(np.float64))).dtype.name == "float64"


def own(*shape: int) -> Tensor:
    """A tensor on memory of its own."""
    return (Tensor(ramp(*shape)) + 0.0).realise()


def address(t: Tensor) -> int:
    at: int = t.node.data.address
    return at


def test_a_step_updates_in_place() -> None:
    w, m = own(4, 4), own(4, 4)

    @tw.jit
    def step(g: Tensor, lr: float) -> Tensor:
        m.assign(m * 0.5 + g)
        w.assign(w - lr * m)
        return (w * w).sum()

    W, M, places = ramp(4, 4), ramp(4, 4), (address(w), address(m))
    for i in range(4):
        g = ramp(4, 4) + i
        loss = step(Tensor(g), 0.1 / (i + 1))
        M = M * 0.5 + g
        W = W - 0.1 / (i + 1) * M
        np.testing.assert_allclose(w.numpy(), W, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(loss.item(), (W * W).sum(), rtol=1e-5)
    assert address(w) == places[0] or address(m) == places[1]


def test_an_elementwise_update_keeps_its_memory() -> None:
    w = own(16)
    before = address(w)
    step = tw.jit(lambda g: w.assign(w - g * 0.5) is None)
    for _ in range(3):
        step(Tensor(ramp(16)))
    assert address(w) == before
    assert (w.numpy() == ramp(16) * -0.5).all()
    assert step.programs[0].plan.states[0].fresh is None


def test_an_update_that_reads_elsewhere_gets_other_memory() -> None:
    w = own(6)
    step = tw.jit(lambda: w.assign(w.flip(axis=0) + w))
    want = ramp(6)
    for _ in range(3):
        step()
        want = want[::-1] + want
        assert (w.numpy() == want).all()
    assert step.programs[0].plan.states[0].fresh is not None


def test_a_value_that_is_read_after_its_update_is_the_old_one() -> None:
    """A later kernel reads the tensor's old values: it cannot be overwritten before."""
    w = own(8, 8)
    old = w * 1.0

    @tw.jit
    def step(g: Tensor) -> Tensor:
        before = w * 3.0
        w.assign(w + g)
        return (w @ w) @ before

    got = step(Tensor(ramp(8, 8)))
    new = ramp(8, 8) * 2
    np.testing.assert_allclose(got.numpy(), new @ new @ (ramp(8, 8) * 3), rtol=1e-4, atol=1e-5)
    assert (w.numpy() == new).all()
    del old


def test_arguments_can_be_updated() -> None:
    def step(w: Tensor, g: Tensor) -> None:
        w -= g

    f = tw.jit(step)
    w = own(4)
    alias = w.detach() if hasattr(w, "detach") else w * 1.0
    for _ in range(3):
        f(w, Tensor(ramp(4)))
    assert (w.numpy() == ramp(4) * -2).all()
    del alias


def test_others_memory_is_never_written() -> None:
    array = ramp(4)
    w = Tensor(array)
    f = tw.jit(lambda g: w.assign(w + g))
    f(Tensor(ramp(4)))
    f(Tensor(ramp(4)))
    assert (array == ramp(4)).all() and (w.numpy() == ramp(4) * 3).all()


def test_two_arguments_on_one_memory() -> None:
    def step(w: Tensor, v: Tensor) -> Tensor:
        w += 1.0
        return v * 2.0 + w

    f = tw.jit(step)
    w = own(4)
    with pytest.raises(tw.UsageError, match="another argument, which would not see the update"):
        f(w, w)
    assert (f(w, own(4)).numpy() == ramp(4) * 3 + 1).all()
    assert (w.numpy() == ramp(4) + 1).all()


def test_what_is_returned_stays_as_it_was() -> None:
    w = own(4)

    @tw.jit
    def step() -> Tensor:
        w.assign(w + 1.0)
        return w

    seen = [step() for _ in range(3)]
    assert [(s.numpy() == ramp(4) + i + 1).all() for i, s in enumerate(seen)] == [True] * 3
    inplace = tw.jit(lambda: w.assign(w * 2.0) is None)
    inplace()
    assert (seen[2].numpy() == ramp(4) + 3).all() and (w.numpy() == (ramp(4) + 3) * 2).all()


def test_two_tensors_change_places() -> None:
    a, b = own(4), (Tensor(ramp(4)) + 5.0).realise()

    @tw.jit
    def swap() -> None:
        x, y = a * 1.0, b * 1.0
        a.assign(y)
        b.assign(x)

    swap()
    assert (a.numpy() == ramp(4) + 5).all() and (b.numpy() == ramp(4)).all()
    swap()
    assert (b.numpy() == ramp(4) + 5).all()

    @tw.jit
    def straight() -> None:
        old = a.roll(1)  # (no view that is written through)
        a.assign(b)
        b.assign(old.roll(-1))

    straight()
    assert (a.numpy() == ramp(4) + 5).all() and (b.numpy() == ramp(4)).all()


def test_reading_what_was_overwritten_is_an_error(graphs: None) -> None:
    w = own(16)
    before = w * 2.0  # not computed yet: it reads the memory of w
    step = tw.jit(lambda: w.assign(w + 1.0) is None)
    step()
    with pytest.raises(tw.UsageError, match="written in place by"):
        before.numpy()


def test_donated_memory_holds_a_result() -> None:
    f = tw.jit(lambda w, g: w - g, donate="w")
    w = own(16)
    before = address(w)
    new = f(w, Tensor(ramp(16)))
    assert address(new) == before and (new.numpy() == 0).all()
    with pytest.raises(tw.UsageError, match="was donated"):
        w.numpy()


def test_tensors_made_inside_start_anew() -> None:
    @tw.jit
    def f(x: Tensor) -> Tensor:
        total = Tensor(np.zeros(4, np.float32))
        total += x
        total += x
        return total

    for _ in range(3):
        assert (f(Tensor(ramp(4))).numpy() == ramp(4) * 2).all()


def test_gradients_and_an_optimiser_in_one_step() -> None:
    from tilewright import optim, value_and_grad

    opt = optim.adamw(0.05)
    params = {"w": own(4, 3), "b": (Tensor(np.zeros(3, np.float32)) + 0.0).realise()}
    state = opt.init(params)

    def loss(p: dict, x: Tensor, y: Tensor) -> Tensor:
        d = x @ p["w"] + p["b"] - y
        return (d * d).mean()

    def step(params: dict, state: dict, x: Tensor, y: Tensor) -> tuple:
        value, grads = value_and_grad(loss)(params, x, y)
        params, state = opt.update(params, grads, state)
        return value, params, state

    f = tw.jit(step, donate=("params", "state"))
    x, y = Tensor(ramp(8, 4)), Tensor(ramp(8, 3))
    values = []
    for _ in range(5):
        value, params, state = f(params, state, x, y)
        values.append(value.item())
    assert values == sorted(values, reverse=True) and values[-1] < values[0]
    assert f.programs[0].plan.donated


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_what_was_computed_of_a_tensor_keeps_its_old_values_and_parts_do_not(captured: bool, outside: bool) -> None:
    """What is equal to all of a tensor is the tensor's own node: an update must not reach it."""
    w, x = (Tensor(ramp(3, 4)) + 0.0).realise(), Tensor(ramp(3, 4))

    def step(x: Tensor, given: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        t = w if given is None else given
        old, part = t.broadcast_to(3, 4), t[1:]
        t.assign(t + x)
        return old, t, t[:1] * 2, part

    f = tw.jit(step) if captured else step
    for n in (1, 2):
        old, new, first, part = f(x) if outside else f(x, w)
        assert np.allclose(part.numpy(), (n + 1) * ramp(3, 4)[1:])
        assert np.allclose(old.numpy(), n * ramp(3, 4)) and np.allclose(new.numpy(), (n + 1) * ramp(3, 4))
        assert np.allclose(first.numpy(), 2 * (n + 1) * ramp(1, 4))


def counted(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, dtype=np.float32)


def test_a_tensor_that_is_updated_and_given_twice_is_an_error() -> None:
    @tw.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x += 1
        return x + y

    t = Tensor(counted(4))
    with pytest.raises(UsageError, match=r"f updates a tensor float32\[4\] that it is also given.*test_jit.py"):
        f(t, t)
    assert t.tolist() == counted(4).tolist()
    assert f(t, t + 0).tolist() == [1, 3, 5, 7] and t.tolist() == [1, 2, 3, 4]


def test_updates_of_overlapping_arrays_are_as_if_they_lay_apart() -> None:
    base = np.arange(8, dtype=np.float32)

    @tw.jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        x += y
        return x.sum()

    x, y = Tensor(base[:6]), Tensor(base[2:])
    assert f(x, y).item() == 42 and x.tolist() == [2, 4, 6, 8, 10, 12] and base.tolist() == list(range(8))


def test_a_read_only_array_is_never_written() -> None:
    a = counted(4)
    a.flags.writeable = False

    @tw.jit
    def f(x: Tensor) -> None:
        x += 1

    t = Tensor(a)
    f(t)
    f(t)
    assert t.tolist() == [2, 3, 4, 5] and a.tolist() == [0, 1, 2, 3]


def test_an_exception_in_a_capture_leaves_everything_as_it_was() -> None:
    @tw.jit
    def f(x: Tensor, bad: bool) -> Tensor:
        x += 1
        if bad:
            raise RuntimeError("the user's own")
        return x

    t = Tensor(counted(3))
    with pytest.raises(RuntimeError, match="own"):
        f(t, True)
    assert t.tolist() == [0, 1, 2] and f(t, False).tolist() == [1, 2, 3] and t.tolist() == [1, 2, 3]


def adds(a: Any, b: Any) -> Any:
    a += b
    return a * 1


def writes_both(a: Any, b: Any) -> Any:
    a[1] = b[0] + 3
    b += 1
    return b + a


def test_an_update_that_another_argument_would_see_is_refused() -> None:
    """Parts of one array, of which at least one is written to: NumPy's results and arrays, or an error that changes nothing."""
    parts: list[Callable[[Any], Any]] = [
        lambda x: x[1:4, 1:4], lambda x: x[:3, 1:4], lambda x: x[:3, :3], lambda x: x[:3, :3].T, lambda x: x[3:, 3:], lambda x: x[::2, ::2],
    ]  # fmt: skip
    start = np.arange(36.0).reshape(6, 6)
    refused = 0
    for function in (adds, writes_both):
        lazy, numpy = tw.jit(function), tw.jit(function, numpy=True)
        for first, second in itertools.product(parts, parts):
            want = start.copy()
            apart = not np.shares_memory(first(want), second(want))
            result = function(first(want), second(want)) if apart else None
            array, tensor = start.copy(), Tensor(start.copy())
            for whole, call in ((array, numpy), (tensor, lazy)):
                if apart:
                    assert np.array_equal(np.asarray(call(first(whole), second(whole))), result)
                else:
                    refused += 1
                    with pytest.raises(tw.UsageError, match="another argument, which would not see the update"):
                        call(first(whole), second(whole))
                assert np.array_equal(np.asarray(whole), want)
    assert 50 < refused < 144


@pytest.mark.parametrize("view", ["c[1:]", "c.T", "c[1][1:]"])
def test_views_from_outside_see_a_write_at_once(view: str) -> None:
    """A function that writes to a tensor from outside, or to a view of it, and reads the other one."""

    def base(c: Any, v: Any) -> Any:
        before = v * 1.0
        c += 1
        return before.sum() + v.sum() * 9

    def part(c: Any, v: Any) -> Any:
        v *= 2
        return c[::-1] - 1

    def row(c: Any, v: Any) -> Any:
        inner = c[1:3]
        inner += v.sum()
        return v + 1

    array, tensor = np.arange(16.0).reshape(4, 4), Tensor(np.arange(16.0).reshape(4, 4))
    a, t = (eval(view, {"c": c}) for c in (array, tensor))
    for function in (base, part, row):
        captured = tw.jit(partial(function, tensor, t))
        for _ in range(2):
            assert np.array_equal(captured().numpy(), function(array, a))
            assert np.array_equal(tensor.numpy(), array) and np.array_equal(t.numpy(), a)
            array -= 3
            tensor -= 3


def test_two_parts_from_outside_that_meet_are_not_both_updated() -> None:
    whole = Tensor(np.zeros(4))
    part = whole[1:3]

    @tw.jit
    def step() -> None:
        nonlocal whole, part
        whole += 1
        part *= 2

    with pytest.raises(tw.UsageError, match="elements of another one that it updates"):
        step()
    assert whole.tolist() == [0.0] * 4


def test_an_argument_that_is_updated_is_not_read_from_outside() -> None:
    whole = Tensor(np.zeros(6))
    part = whole[1:3]

    def step(a: Tensor) -> Tensor:
        a += 1
        return part + 0

    f = tw.jit(step)
    for given in (whole, whole[2:], part):
        with pytest.raises(tw.UsageError, match="that it also reads from outside"):
            f(given)
    assert not whole.numpy().any()
    assert f(whole[3:]).tolist() == [0.0, 0.0] and whole.tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


def test_compiled_functions_are_copied_and_pickled_as_functions_are() -> None:
    for f in (tw.jit(of_a_name), tw.jit(numpy=True)(of_a_name)):
        assert copy.deepcopy({"step": f})["step"] is f and copy.copy(f) is f
    assert pickle.loads(pickle.dumps(of_a_name_compiled)) is of_a_name_compiled


def of_a_name(x: Any) -> Any:
    return x + 1


@tw.jit
def of_a_name_compiled(x: Any) -> Any:
    return x + 1


def test_a_generator_is_no_result() -> None:
    with pytest.raises(UsageError, match=r"returns a generator, .*: return a list of them \(at .*test_jit"):
        tw.jit(lambda x: (row for row in x))(Tensor(np.ones((2, 2), np.float32)))

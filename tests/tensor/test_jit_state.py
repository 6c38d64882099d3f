"""Tensors that captured functions update."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor

from tests.tensor.test_jit import own_home, ramp

__all__ = ["own_home"]

pytestmark = pytest.mark.many


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
        old = a.reshape(2, 2)
        a.assign(b)
        b.assign(old.reshape(4))

    straight()
    assert (a.numpy() == ramp(4) + 5).all() and (b.numpy() == ramp(4)).all()


def test_reading_what_was_overwritten_is_an_error() -> None:
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
def test_what_was_made_of_a_tensor_keeps_its_old_values(captured: bool, outside: bool) -> None:
    """A view of all of a tensor is the tensor's own node: an update must not reach it."""
    w, x = (Tensor(ramp(3, 4)) + 0.0).realise(), Tensor(ramp(3, 4))

    def step(x: Tensor, given: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        t = w if given is None else given
        old = t[:]
        t.assign(t + x)
        return old, t, t[:1] * 2

    f = tw.jit(step) if captured else step
    for n in (1, 2):
        old, new, first = f(x) if outside else f(x, w)
        assert np.allclose(old.numpy(), n * ramp(3, 4)) and np.allclose(new.numpy(), (n + 1) * ramp(3, 4))
        assert np.allclose(first.numpy(), 2 * (n + 1) * ramp(1, 4))

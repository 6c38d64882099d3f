"""`debug.print` and `debug.nans`, in eager code, captured functions, loops, gradients and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import Tensor, UsageError, xp
from tilewright.ir import NotANumberError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _said(x: Any, k: int = 2) -> Any:
    tw.debug.print("sum {:.1f}, {name}", x.sum(), name="n")
    tw.debug.print("again {k}", k={"a": x[0, 1] * k})
    return x * 2


SUMS = ["sum 15.0, n", "again {'a': 2.0}"]


@pytest.mark.parametrize("captured", [False, True])
def test_prints_come_at_every_call_in_order(captured: bool, capsys: pytest.CaptureFixture[str]) -> None:
    f = tw.jit(_said) if captured else _said
    for _ in range(3):
        assert f(Tensor(X)).tolist() == (X * 2).tolist()
        assert [line.replace("np.float32(2.0)", "2.0") for line in capsys.readouterr().out.splitlines()] == SUMS


def test_a_function_may_do_nothing_but_print(capsys: pytest.CaptureFixture[str]) -> None:
    f = tw.jit(lambda x: tw.debug.print("here {}", x[0]))
    assert f(Tensor(X)) is None and f(Tensor(X + 1)) is None
    assert capsys.readouterr().out == "here [0. 1. 2.]\nhere [1. 2. 3.]\n"


@pytest.mark.parametrize("way", ["eager", "jit", "grad", "jit of grad"])
def test_prints_in_loops_come_at_every_step_once(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    def body(c: Any, x: Any) -> Any:
        tw.debug.print("step {:.3f}", c.sum())
        return c.tanh() + x, c

    def f(x: Any) -> Any:
        return tw.scan(body, x[0], x)[0].sum()

    made = tw.grad(f) if "grad" in way else f
    (tw.jit(made) if "jit" in way else made)(Tensor(X)).numpy()
    assert capsys.readouterr().out == "step 3.000\nstep 4.726\n"


@pytest.mark.parametrize("captured", [False, True])
def test_prints_of_a_batch_come_for_each_element(captured: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def row(r: Any) -> Any:
        tw.debug.print("row {}", r)
        return r * 2

    f = tw.vmap(row)
    assert (tw.jit(f) if captured else f)(Tensor(X)).tolist() == (X * 2).tolist()
    assert capsys.readouterr().out == "row [0. 1. 2.]\nrow [3. 4. 5.]\n"


def test_prints_work_with_sizes_that_differ(capsys: pytest.CaptureFixture[str]) -> None:
    f = tw.jit(numpy=True)(lambda x: (tw.debug.print("{}", x), x + 1)[1])
    for n in (1, 2, 3, 4):
        f(np.ones(n))
    assert capsys.readouterr().out == "[1.]\n[1. 1.]\n[1. 1. 1.]\n[1. 1. 1. 1.]\n"


@pytest.mark.parametrize(("text", "why"), [("{} {}", "does not fit"), ("{q}", "does not fit"), (3, "takes a text first")])
def test_texts_that_do_not_fit_are_errors(text: Any, why: str) -> None:
    with pytest.raises(UsageError, match=f"{why}.*test_debug.py"):
        tw.jit(lambda x: tw.debug.print(text, x))(Tensor(X))


def _logs(x: Any, w: Any) -> Any:
    a = (x - 3).log()
    return (xp.where(x > 3, a, 0.0) @ w).sum() + a.sum()


@pytest.mark.parametrize("way", ["eager", "jit", "numpy", "large", "value and grad"])
def test_the_first_nan_is_named_with_its_line(way: str) -> None:
    x, w = Tensor(X), Tensor(np.ones((3, 4), np.float32))
    f: Any = _logs
    if way == "large":
        x, w = Tensor(np.tile(X, (300, 100))), Tensor(np.ones((300, 40), np.float32))
    if way == "numpy":
        f, x, w = tw.jit(numpy=True)(_logs), x.numpy(), w.numpy()
    if way == "jit":
        f = tw.jit(_logs)
    if way == "value and grad":
        f = tw.jit(lambda x, w: tw.value_and_grad(_logs)(x, w)[0])
    line = _logs.__code__.co_firstlineno + 1
    with tw.debug.nans(), pytest.raises(NotANumberError, match=rf"log of -3 is NaN at \[0, 0\], and at .*test_debug.py:{line}\)"):
        f(x, w).numpy()
    assert np.isnan(f(x, w).item())  # nothing is looked for afterwards


def test_nans_that_are_given_or_masked_are_none() -> None:
    f = tw.jit(lambda x: xp.where(x > 3, (x - 3).log(), 0.0).sum())
    with tw.debug.nans():
        assert abs(f(Tensor(X)).item() - np.log(2)) < 1e-6
        given = Tensor(np.array([1.0, np.nan], np.float32))
        assert np.isnan((given * 2 + 1).numpy()).tolist() == [False, True]
        assert np.isnan((Tensor(X) * np.nan).numpy()).all()
        with pytest.raises(NotANumberError, match="div of 0 and 0"):
            (Tensor(X) / Tensor(X)).numpy()
        into = np.empty((), np.float32)
        assert f(Tensor(X), out=into) is not None and abs(into - np.log(2)) < 1e-6


def test_nans_of_loops_and_own_kernels_have_their_line() -> None:
    @tw.operation
    def root(x: Any) -> Any:
        from tilewright.ir import sqrt

        kb = tw.KernelBuilder("root")
        i = kb.axis("n", x.shape[0])
        kb.store("y", x.dtype, x.shape, (i,), sqrt(kb.input("x", x.shape, x.dtype)[i]))
        return kb.build()

    x = Tensor(X)
    with tw.debug.nans():
        with pytest.raises(NotANumberError, match=r"root of float32\[3\] is NaN at \[1\].*test_debug.py"):
            (root(x[0] * -1) + 1).numpy()
        with pytest.raises(NotANumberError, match=r"sqrt of -2 is NaN at \[0\], .* in step 1 of scan \(at .*test_debug"):
            tw.jit(lambda x: tw.scan(lambda c, x: ((c - x).sqrt(), None), x[0] * 0 + 2, x[:, :1] * 0 + [[2.0], [2.0]])[0])(x)
        with pytest.raises(NotANumberError, match=r"log of -1 is NaN at \[0\], .* in step 0 of scan \(at .*test_debug"):
            tw.jit(lambda x: tw.scan(lambda c, x: (c, x.log()), x[0], x * [[1.0], [-1.0]] * 0 + [[1.0], [-1.0]], reverse=True)[1])(x)
        with pytest.raises(NotANumberError, match=r"sqrt of -1 is NaN, in step 3 of fori_loop \(at .*test_debug"):
            tw.jit(
                lambda x: tw.while_loop(
                    lambda c: c[0] < 1,
                    lambda c: (c[0] + 1, tw.fori_loop(0, 5, lambda i, v: v + (2 - i).astype("float32").sqrt(), c[1])),
                    (0, x[0]),
                )
            )(x)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{:.2f}", "unsupported format"), ("{} {}", "out of range"), ("{b}", "KeyError 'b'"), ("{0.nothing}", "nothing")],
)
def test_a_text_that_does_not_fit_is_said_when_it_is_captured(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"does not fit its values: .*{said}.*test_debug"):
        tw.jit(lambda x: tw.debug.print(text, x))(Tensor(X))


def test_values_have_places_beside_named_ones(capsys: pytest.CaptureFixture[str]) -> None:
    tw.jit(lambda x: tw.debug.print("{x} {:{w}.1f}", x[0, 1], x=x[0], w=6))(Tensor(X))
    assert capsys.readouterr().out == "[0. 1. 2.]    1.0\n"

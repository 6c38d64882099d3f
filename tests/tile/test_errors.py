"""What cannot be said in tiles is an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilewright import tile
from tilewright.ir import KernelError, sym

Written = Callable[[Any], None]
CASES: list[tuple[Written, str]] = []


def refused(words: str) -> Callable[[Written], Written]:
    """A tile function over x (64), in cells of 8 where it wants them, and what its error says."""

    def note(function: Written) -> Written:
        CASES.append((function, words))
        return function

    return note


def arrays(t: Any, n: int = 64) -> tuple[Any, Any]:
    return t.input("x", (n,)), t.output("y", (n,))


@refused("its extent is tile of int32.*mask what is not wanted")
def grid_from_memory(t: Any) -> None:
    _, y = arrays(t)
    y[t.grid(n=(t.input("c", (1,), "int32")[0], 8))] = 1.0


@refused("its extent is tile of int32.*upto")
def loop_from_memory(t: Any) -> None:
    count = t.input("c", (1,), "int32")
    next(t.loop("k", count[0], 8))


@refused(r"n = 0, m.cell = 0 and at n = 0, m.cell = 1.*are a race|is a race \(y.add")
def race(t: Any) -> None:
    x, y = t.input("x", (64, 32)), t.output("y", (64,))
    rows, cols = t.grid(n=(64, 8), m=(32, 8))
    y[rows] = t.sum(x[rows, cols], axis=1)


@refused("writes one element twice.*is a race")
def overlap(t: Any) -> None:
    y = t.output("y", (68,))
    i = t.grid(8)
    y[i * 8 : i * 8 + 12] = 1.0


@refused("y is an output, and what another cell wrote there may not be there yet")
def read_of_an_output(t: Any) -> None:
    _, y = arrays(t)
    rows = t.grid(n=(64, 8))
    y[rows] = y[rows] + 1.0


@refused("x is an input: other cells may still read it")
def store_to_an_input(t: Any) -> None:
    x, _ = arrays(t)
    x[t.grid(n=(64, 8))] = 1.0


@refused(r"reads outside of x.*\(n \+ 1\) runs over 1..64.*or load it with mask=")
def outside(t: Any) -> None:
    x, y = arrays(t)
    rows = t.grid(n=(64, 8))
    y[rows] = x[rows + 1]


@refused("leaves y.*or store under a mask")
def store_outside(t: Any) -> None:
    x, y = arrays(t)
    rows = t.grid(n=(64, 8))
    y[rows + 1] = x[rows]


@refused("a block of 65 is larger than its 64 elements; give at most 64, or t.block")
def block_larger_than_the_axis(t: Any) -> None:
    x, y = arrays(t)
    rows = t.grid(n=(64, 65))
    y[rows] = x[rows]


@refused("x has no element, its shape is")
def no_element(t: Any) -> None:
    arrays(t, 0)


@refused("0 elements.*there is nothing to compute")
def no_cell(t: Any) -> None:
    t.grid(0)


@refused("x has a symbolic size")
def symbolic(t: Any) -> None:
    arrays(t, sym("n", 1, 64))  # type: ignore[arg-type]


@refused("left by break or return")
def left_by_break(t: Any) -> None:
    x, y = arrays(t)
    acc = t.zeros(8)
    for k in t.loop("k", 64, 8):
        acc += x[k]
        break
    y[:8] = acc


@refused("only accumulators outlive a loop")
def rebound(t: Any) -> None:
    x, y = arrays(t)
    acc = t.zeros(8)
    for k in t.loop("k", 64, 8):
        acc = acc + x[k]
    y[:8] = acc


@refused("loop over i: s is bound anew in its body.*let s be one .t.zeros")
def number_bound_anew(t: Any) -> None:
    x, y = arrays(t)
    rows, s = t.grid(n=(64, 8)), 0.0
    for _ in t.loop("i", 4):
        s = s + x[rows]
    y[rows] = s


@refused("loop over i: v is bound anew")
def scaled_from_step_to_step(t: Any) -> None:
    x, y = arrays(t)
    rows = t.grid(n=(64, 8))
    v, s = x[rows], t.zeros(8)
    for _ in t.loop("i", 4):
        s += v
        v = v * 2.0
    y[rows] = s


@refused("loop over outer: v is bound anew")
def bound_anew_in_a_loop_inside(t: Any) -> None:
    x, y = arrays(t)
    rows = t.grid(n=(64, 8))
    v = x[rows]
    for _ in t.loop("outer", 3):
        s = t.zeros(8)
        for _ in t.loop("inner", 4):
            s += v
        v = s * 0.5
    y[rows] = v


@refused("np.exp is for arrays.*exp of tilewright.tile")
def function_of_numpy(t: Any) -> None:
    import numpy as np

    x, y = arrays(t)
    rows = t.grid(n=(64, 8))
    y[rows] = np.exp(x[rows])


@refused("no single element: use the functions of tilewright.tile")
def function_of_elements(t: Any) -> None:
    from tilewright import ir

    x, y = arrays(t)
    rows = t.grid(n=(64, 8))
    y[rows] = ir.exp(x[rows])


@refused("made inside the loop over k is used after it")
def accumulator_of_a_step(t: Any) -> None:
    x, y = arrays(t)
    for k in t.loop("k", 64, 8):
        acc = t.zeros(8)
        acc += x[k]
    y[:8] = acc


@refused("only the last step counts")
def replaced_in_every_step(t: Any) -> None:
    x, y = arrays(t)
    acc = t.zeros(8)
    for k in t.loop("k", 64, 8):
        acc[...] = x[k]
    y[:8] = acc


@refused("computed from itself by tanh, so a step needs all steps before it")
def not_linear(t: Any) -> None:
    x, y = arrays(t)
    acc = t.zeros(8)
    for k in t.loop("k", 64, 8):
        acc[...] = tile.tanh(acc + x[k])
    y[:8] = acc


@refused("what a step adds does not change by that factor when the maximum does")
def wrongly_rescaled(t: Any) -> None:
    x, y = arrays(t)
    top, total = t.full((), float("-inf")), t.zeros(())
    for k in t.loop("k", 64, 8):
        now = tile.maximum(top, t.max(x[k]))
        total[...] = total * tile.exp(top - now) + t.sum(tile.exp(x[k]))
        top[...] = now
    y[0] = total


@refused("the factor of two steps is not the product")
def factor_of_no_steps(t: Any) -> None:
    x, y = arrays(t)
    top, total = t.full((), float("-inf")), t.zeros(())
    for k in t.loop("k", 64, 8):
        now = tile.maximum(top, t.max(x[k]))
        total[...] = total * (1.0 + top - now) + t.sum(tile.exp(x[k] - now))
        top[...] = now
    y[0] = total


@refused("accumulators need each other")
def crosswise(t: Any) -> None:
    x, y = arrays(t)
    a, b = t.zeros(()), t.full((), 1.0)
    for i in t.loop("i", 64):
        old = a + 0.0
        a[...] = b + x[i]
        b[...] = old
    y[0] = a


@refused("has no truth value")
def decided_by_python(t: Any) -> None:
    x, _ = arrays(t)
    if x[t.grid(n=(64, 8))] > 0.0:
        pass


@refused(r"a tile has no method sum: write t.sum\(x, axis=1\)")
def as_a_method(t: Any) -> None:
    x, _ = arrays(t)
    x[t.grid(n=(64, 8))].sum()


@refused(r"a tile has no method astype: write x.cast\('float32'\)")
def converted_as_arrays_are(t: Any) -> None:
    x, _ = arrays(t)
    x[t.grid(n=(64, 8))].astype("float16")


@refused(r"write t.dot\(a, b\)")
def by_an_operator(t: Any) -> None:
    x, _ = arrays(t)
    a = x[t.grid(n=(64, 8))]
    a @ a


@refused("np.exp is for arrays")
def by_numpy(t: Any) -> None:
    x, _ = arrays(t)
    np.exp(x[t.grid(n=(64, 8))])


@refused("the size of slice 0 is not known while the kernel is written")
def slice_of_any_size(t: Any) -> None:
    _, y = arrays(t)
    i = t.grid(8)
    y[i * 8 : i * 8 + t.input("c", (8,), "int32", range=(0, 8))[i]] = 1.0


@refused(r"tile of float32\[8, 5\] does not fit into its part \[8\]")
def shape_that_does_not_fit(t: Any) -> None:
    x, y = arrays(t)
    rows = t.grid(n=(64, 8))
    y[rows] = x[rows][:, None] + t.arange(5).cast("float32")[None, :]


@refused("with bn = 16 something else is computed than with bn = 8, so a search cannot choose it")
def block_size_as_a_number(t: Any) -> None:
    x, y = arrays(t)
    bn = t.block("bn", (8, 16))
    rows = t.grid(n=(64, bn))
    y[rows] = x[rows] * float(bn)


@refused("a cell of n does more than go through its own places")
def block_that_is_meant(t: Any) -> None:
    x, y = t.input("x", (64,)), t.output("y", (8,))
    bn = t.block("bn", (8, 16))
    rows = t.grid(n=(64, bn))
    y[rows.start // bn] = t.max(x[rows])


@refused("the block of k is computed from bn; give it a t.block of its own")
def block_of_a_block(t: Any) -> None:
    x, y = t.input("x", (64, 64)), t.output("y", (64,))
    bn = t.block("bn", (8, 16))
    rows = t.grid(n=(64, bn))
    acc = t.zeros(bn)
    for k in t.loop("k", 64, bn * 2):
        acc += t.sum(x[rows, k], axis=1)
    y[rows] = acc


@refused("t.limit allows no combination")
def no_combination(t: Any) -> None:
    x, y = arrays(t)
    b = t.block("b", (8, 16))
    t.limit(lambda b: b > 16)
    rows = t.grid(n=(64, b))
    y[rows] = x[rows]


@refused("stores nothing")
def nothing(t: Any) -> None:
    arrays(t)


@refused("never stores to its output z")
def an_output_less(t: Any) -> None:
    x, y = arrays(t)
    t.output("z", (64,))
    rows = t.grid(n=(64, 8))
    y[rows] = x[rows]


@refused("something else in this kernel is called so")
def name_twice(t: Any) -> None:
    arrays(t)
    t.grid(x=8)


@pytest.mark.parametrize(("function", "words"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_it_is_refused(function: Written, words: str) -> None:
    with pytest.raises(KernelError, match=words) as found:
        tile.kernel(function)()
    assert "\0" not in str(found.value) and "kb." not in str(found.value)


def test_a_result_is_refused() -> None:
    with pytest.raises(KernelError, match="stores its results to outputs, and returns nothing"):
        tile.kernel(lambda t: 1)()

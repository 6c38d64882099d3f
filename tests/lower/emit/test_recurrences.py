"""Recurrences whose steps have no associative rule: against plain Python, under every kind of schedule, on several processors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow
from tilewright import targets
from tilewright.interp import run as interpret
from tilewright.ir import KernelBuilder, KernelError, OptError, exp, maximum, minimum, tanh, where
from tilewright.ir.dtypes import DTypeLike
from tilewright.ir.evaluation import evaluate
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import canonical
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.opts.actions import actions

TARGETS = {name: targets.named(name) for name in ("x86-64-v2", "avx2", "cascadelake", "opencl-gpu")}
Step = Callable[..., Sequence[Any]]


def made(name: str, step: Step, start: Sequence[float], m: int, n: int, kind: str, last: bool = False, inputs: int = 2) -> Kernel:
    """The first part of the state of `step(x, w, *state)` in rows of x, which lie along time or (`last`) across it."""
    kb = KernelBuilder(name)
    i, t = kb.axis("m", m), kb.axis("n", n)
    of: DTypeLike = kind
    x = kb.input("x", (m, n) if last else (n, m), of, range=(-2, 2) if kind[0] == "i" else None)
    w = kb.input("w", (m,), of, range=(0, 2) if kind[0] == "i" else (-0.9, 0.9)) if inputs > 1 else None
    at = (i, t) if last else (t, i)
    names = [f"s{k}" for k in range(len(start))]
    found = kb.recurrence(names, (i, t), t, start, lambda *s: step(x[at], None if w is None else w[i], *s), of)
    kb.store("y", found[0].dtype, (m, n) if last else (n, m), (i, t), found[0][i, t], at)
    return kb.build()


def rnn(x: Any, w: Any, h: Any) -> Sequence[Any]:
    """A recurrent layer of units that see themselves."""
    return (tanh(x + w * h),)


def biquad(x: Any, w: Any, y: Any, p: Any, q: Any) -> Sequence[Any]:
    """A filter of second order, transposed: the state is its output and two delays."""
    out = x * 0.2 + p
    return out, x * 0.3 - out * w + q, x * 0.2 - out * 0.4


def automaton(x: Any, w: Any, s: Any) -> Sequence[Any]:
    """Four states that a letter moves between."""
    return (where(x.eq(0), 0, where(s.eq(3), 1, where(x > w, s + 1, s))),)


def viterbi(x: Any, w: Any, a: Any, b: Any) -> Sequence[Any]:
    """The best path to either of two states."""
    return maximum(a + w, b - 0.5) + x, maximum(a - 0.3, b + 0.1) - x


def clipped(x: Any, w: Any, s: Any) -> Sequence[Any]:
    """A sum that stays between two bounds."""
    return (minimum(maximum(s + x, -3), 3),)


CASES: dict[str, tuple[Step, tuple[float, ...], tuple[str, ...]]] = {
    "rnn": (rnn, (0.5,), ("float32", "float64", "float16", "bfloat16")),
    "biquad": (biquad, (0.0, 0.0, 0.0), ("float32", "float64", "float16")),
    "automaton": (automaton, (2,), ("int32", "int8", "int64")),
    "viterbi": (viterbi, (0.0, -1.0), ("float32", "float64")),
    "clipped": (clipped, (1,), ("float32", "int32", "int16")),
}


def _plain(step: Step, start: Sequence[float], x: Any, w: Any) -> Any:
    """The same, one number after the other (x: time, row)."""
    out = np.empty_like(x)
    for i in range(x.shape[1]):
        state: Sequence[Any] = list(start)
        for t in range(x.shape[0]):
            state = step(x[t, i], w[i], *state)
            out[t, i] = state[0]
    return out


PLAIN: dict[str, Step] = {
    "rnn": lambda x, w, h: (math.tanh(x + w * h),),
    "biquad": biquad,
    "automaton": lambda x, w, s: (0 if x == 0 else 1 if s == 3 else s + 1 if x > w else s,),
    "viterbi": lambda x, w, a, b: (max(a + w, b - 0.5) + x, max(a - 0.3, b + 0.1) - x),
    "clipped": lambda x, w, s: (min(max(s + x, -3), 3),),
}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, (_, _, kinds) in CASES.items() for kind in kinds])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 7), (5, 300)])
@pytest.mark.covering
def test_the_reference_is_what_python_computes(name: str, kind: str, m: int, n: int) -> None:
    step, start, _ = CASES[name]
    kernel = made(name, step, start, m, n, kind)
    rng = np.random.default_rng(n)
    x = rng.integers(-2, 3, (n, m)) if kind[0] == "i" else rng.standard_normal((n, m))
    w = rng.integers(0, 3, m) if kind[0] == "i" else rng.uniform(-0.9, 0.9, m)
    x, w = (a.astype(kernel.inputs[0].dtype.np) for a in (x, w))
    found = evaluate(kernel, {"x": x, "w": w})["y"]
    np.testing.assert_allclose(found, _plain(PLAIN[name], start, x.astype(np.float64), w.astype(np.float64)), rtol=1e-5, atol=1e-5)


SCHEDULES: list[list[Any]] = [
    [],
    [["UPCAST", "m", 16]],
    [["UPCAST", "m", 4], ["PARALLEL", "m"]],
    [["UPCAST", "n", 4]],
    [["UPCAST", "n", 4], ["UPCAST", "m", 8]],
    [["TILE", "m", 8], ["UPCAST", "m", 8], ["PARALLEL", "m"]],
    [["UPCAST", "m", 8], ["MOVE", "n", {"before": "m"}]],
    [["TILE", "m", 24], ["UPCAST", "m", 8], ["MOVE", "n", {"before": "m.t"}]],
]


@pytest.mark.many
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("opts", SCHEDULES, ids=str)
@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.covering(pairs=True)
def test_every_schedule_on_every_processor(name: str, target: str, opts: list[Any], last: bool) -> None:
    step, start, kinds = CASES[name]
    for kind in kinds:
        kernel = made(name, step, start, 29, 18, kind, last)
        try:
            apply(kernel, parse(opts), TARGETS[target])
        except OptError as e:
            assert target == "opencl-gpu", (opts, e)
            continue
        check_floats(kernel, parse(opts), TARGETS[target])


@pytest.mark.parametrize("name", sorted(CASES))
def test_random_schedules_agree_with_the_reference(name: str) -> None:
    step, start, kinds = CASES[name]
    rng = random.Random(name)
    for _ in range(12):
        kernel = made(name, step, start, rng.choice([1, 7, 32]), rng.choice([1, 9, 33]), rng.choice(kinds), rng.random() < 0.5)
        target = TARGETS[rng.choice(sorted(TARGETS))]
        opts = grow(kernel, target, [rng.randrange(1 << 20) for _ in range(4)])
        check_floats(kernel, opts, target)


def test_what_was_compiled_agrees() -> None:
    for name, (step, start, kinds) in CASES.items():
        kernel = made(name, step, start, 37, 50, kinds[0])
        check_compiled(kernel, parse([["UPCAST", "m", 8], ["PARALLEL", "m"]]))


def test_a_state_may_begin_with_elements_and_be_read_anywhere() -> None:
    """What comes before each step, a sum over the steps, and two recurrences of which one reads the other."""
    kb = KernelBuilder("started")
    i, t, r = kb.axis("m", 6), kb.axis("n", 11), kb.axis("n@sum", 11)
    x, h0 = kb.input("x", (11, 6), "float64"), kb.input("h0", (6,), "float64")
    (h,) = kb.recurrence(("h",), (i, t), t, (h0[i] * 2.0,), lambda h: tanh(h + x[t, i]), "float64")
    (g,) = kb.recurrence(("g",), (i, t), t, (0.0,), lambda g: where(t < 3, g, exp(-g * g) + h[i, t]), "float64")
    total = kb.sum("total", (i,), r, h[i, r])
    kb.store("before", "float64", (11, 6), (i, t), h.masked(t > 0, i, t - 1), (t, i))
    kb.store("others", "float64", (11, 6), (i, t), g[i, t], (t, i))
    kb.store("all", "float64", (6,), (i,), total[i])
    kernel = kb.build()
    rng = np.random.default_rng(0)
    given = {"x": rng.standard_normal((11, 6)), "h0": rng.standard_normal(6)}
    hs, gs = np.empty((11, 6)), np.empty((11, 6))
    h_, g_ = given["h0"] * 2, np.zeros(6)
    for s in range(11):
        h_ = np.tanh(h_ + given["x"][s])
        g_ = g_ if s < 3 else np.exp(-g_ * g_) + h_
        hs[s], gs[s] = h_, g_
    found = evaluate(kernel, given)
    np.testing.assert_allclose(found["before"], np.concatenate([np.zeros((1, 6)), hs[:-1]]))
    np.testing.assert_allclose(found["others"], gs)
    np.testing.assert_allclose(found["all"], hs.sum(0))
    for opts in ([], [["UPCAST", "m", 6]], [["UPCAST", "m", 2], ["PARALLEL", "m"]]):
        for target in TARGETS.values():
            check_floats(kernel, parse(opts), target)


def test_a_recurrence_is_never_cut_along_its_steps() -> None:
    step, start, _ = CASES["rnn"]
    kernel = made("rnn", step, start, 16, 64, "float32", last=True)
    assert not [o for o in actions(apply(kernel, (), TARGETS["avx2"])) if o[0].op == "SPLIT"]
    with pytest.raises(OptError, match="s0 goes along n step by step"):
        apply(kernel, parse([["SPLIT", "n", 4]]), TARGETS["avx2"])
    with pytest.raises(OptError, match="scanned in order"):
        apply(kernel, parse([["PARALLEL", "n"]]), TARGETS["avx2"])
    s = apply(kernel, parse([["UPCAST", "n", 8]]), TARGETS["avx2"])
    assert all(s.lanes(n).lane is None for n in s.nests if n.kind == "scan")
    assert "REASSOC" not in s.effects


def test_a_recurrence_is_no_other_kernel_than_it_is() -> None:
    """A step that happens to be associative is another kernel than the scan: it has one order."""
    kb = KernelBuilder("sums")
    t = kb.axis("n", 9)
    x = kb.input("x", (9,), "float32")
    (s,) = kb.recurrence(("s",), (t,), t, (0.0,), lambda s: s + x[t])
    kb.store("y", "float32", (9,), (t,), s[t])
    other = KernelBuilder("sums")
    u = other.axis("n", 9)
    z = other.input("x", (9,), "float32")
    other.store("y", "float32", (9,), (u,), other.scan("add", "s", (u,), u, z[u])[u])
    assert canonical(kb.build()).hash != canonical(other.build()).hash


def test_the_twin_agrees() -> None:
    step, start, _ = CASES["clipped"]
    for opts in ([], [["UPCAST", "m", 8]], [["UPCAST", "n", 4]]):
        check_twin(made("clipped", step, start, 16, 24, "int32"), parse(opts), TARGETS["avx2"])


def test_bad_input_is_told_of() -> None:
    kb = KernelBuilder("bad")
    i, t = kb.axis("m", 4), kb.axis("n", 8)
    x, table = kb.input("x", (8, 4), "float32"), kb.input("table", (4,), "float32")
    with pytest.raises(KernelError, match=r"reads .* at a place that the state says"):
        kb.recurrence(("h",), (i, t), t, (0,), lambda h: cast(table[h], "int32"), "int32")
    with pytest.raises(KernelError, match="depends on n: the start is before all steps"):
        kb.recurrence(("h",), (i, t), t, (x[t, i],), lambda h: h)
    wide = kb.input("wide", (8, 4), "float64")
    with pytest.raises(KernelError, match=r"cast one of them \(the state of recurrence h is float32, as dtype= says\)"):
        kb.recurrence(("h",), (i, t), t, (0.0,), lambda h: h + wide[t, i])
    with pytest.raises(KernelError, match="the step gives 1 parts of a state of 2"):
        kb.recurrence(("a", "b"), (i, t), t, (0.0, 0.0), lambda a, b: a + b)
    with pytest.raises(KernelError, match=r"None \(NoneType\) is no part of an expression"):
        kb.recurrence(("h",), (i, t), t, (0.0,), lambda h: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(KernelError, match="2 names, 1 starts, 2 types"):
        kb.recurrence(("a", "b"), (i, t), t, (0.0,), lambda a, b: (a, b))
    (h,) = kb.recurrence(("h",), (i,), t, (0.0,), lambda h: h + 1.0)
    kb.store("y", "float32", (4,), (i,), h[i])
    with pytest.raises(KernelError, match="its axis must be one of the value"):
        kb.build()


def test_a_long_recurrence_runs_in_the_interpreter() -> None:
    step, start, _ = CASES["rnn"]
    kernel = made("rnn", step, start, 4, 1000, "float32")
    x, w = np.random.default_rng(0).standard_normal((1000, 4)).astype(np.float32), np.full(4, 0.5, np.float32)
    y = np.zeros_like(x)
    interpret(lower(apply(kernel, parse([["UPCAST", "m", 4]]), TARGETS["avx2"])), {"x": x, "w": w, "y": y})
    np.testing.assert_allclose(y, _plain(PLAIN["rnn"], start, x.astype(np.float64), w.astype(np.float64)), rtol=1e-4, atol=1e-5)

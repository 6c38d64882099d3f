"""Scans of tuples: recurrences, flags, running moments and softmax, under schedules of every kind, and rules that are none."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow
from tilewright import targets
from tilewright.ir import KernelBuilder, KernelError, OptError, cast, exp, float32, int32, maximum, where
from tilewright.ir.cost import cost
from tilewright.ir.evaluation import evaluate
from tilewright.ir.evaluation import values as tuple_scans
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import canonical
from tilewright.measure.checking.verify import check, expectations, special_expectations
from tilewright.measure.inputs import generate
from tilewright.measure.inputs import generate_special as special
from tilewright.opts import apply, parse

AVX2, OPENCL, SM80 = (targets.named(n) for n in ("avx2", "opencl-gpu", "sm_80"))
Array = np.ndarray[Any, Any]
M, N = 3, 31


def kernel(write: Callable[..., Any], along: int = 1, m: int = M, n: int = N, names: tuple[str, ...] = ()) -> Kernel:
    """What `write(kb, i, j, axes, along, x, w)` scans of x and w, over (m, n); the values called `names` are stored."""
    kb = KernelBuilder(write.__name__)
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, w = kb.input("x", (m, n), float32), kb.input("w", (m, n), float32, range=(-0.9, 0.9))
    for v in write(kb, x[i, j], w[i, j], (i, j), (i, j)[along]):
        kb.store(f"{v.name}_out", v.dtype, (m, n), (i, j), v[i, j])
    return kb.build()


def linear(kb: Any, x: Any, w: Any, axes: Any, along: Any) -> Any:
    """h = w·h + x."""
    return kb.associative_scan(("p", "h"), axes, along, (w, x), (1.0, 0.0), lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]))[1:]


def max_plus(kb: Any, x: Any, w: Any, axes: Any, along: Any) -> Any:
    """h = max(h + w, x)."""
    rule = lambda a, b: (a[0] + b[0], maximum(a[1] + b[0], b[1]))  # noqa: E731
    return kb.associative_scan(("p", "h"), axes, along, (w, x), (0.0, float("-inf")), rule)[1:]


def segmented(kb: Any, x: Any, w: Any, axes: Any, along: Any) -> Any:
    """Sums of x that begin anew where w > 0.5; and how many have begun."""
    flag = where(w > 0.5, 1.0, 0.0)
    rule = lambda a, b: (maximum(a[0], b[0]), where(b[0] > 0.5, b[1], a[1] + b[1]), a[2] + b[2])  # noqa: E731
    return kb.associative_scan(("f", "s", "count"), axes, along, (flag, x, cast(w > 0.5, int32)), (0.0, 0.0, 0), rule)[1:]


def welford(kb: Any, x: Any, w: Any, axes: Any, along: Any) -> Any:
    """Running mean, and the sum of squared differences to it."""

    def rule(a: Any, b: Any) -> Any:
        n, d = a[0] + b[0], b[1] - a[1]
        share = where(n > 0.0, b[0] / maximum(n, 1.0), 0.0)
        return n, a[1] + d * share, a[2] + b[2] + d * d * a[0] * share

    return kb.associative_scan(("n", "mean", "m2"), axes, along, (1.0 + 0.0 * x, x, 0.0 * x), (0.0, 0.0, 0.0), rule)[1:]


def online_softmax(kb: Any, x: Any, w: Any, axes: Any, along: Any) -> Any:
    """Sums of exp(x) relative to the largest so far, weighted by w."""

    def rule(a: Any, b: Any) -> Any:
        top = maximum(a[0], b[0])
        scale = [where(s[0].eq(float("-inf")), 0.0, exp(s[0] - top)) for s in (a, b)]
        return top, a[1] * scale[0] + b[1] * scale[1], a[2] * scale[0] + b[2] * scale[1]

    top, total, sum_ = kb.associative_scan(("top", "l", "o"), axes, along, (x, 1.0 + 0.0 * x, w), (float("-inf"), 0.0, 0.0), rule)
    del top
    return total, sum_


def by_hand(name: str, x: Array, w: Array) -> dict[str, Array]:
    """The same along the last dimension, one step after the other."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    out: dict[str, list[Array]] = {}

    def put(**now: Array) -> None:
        for k, v in now.items():
            out.setdefault(f"{k}_out", []).append(v)

    h = np.zeros(len(x)) if name != "max_plus" else np.full(len(x), -np.inf)
    count = np.zeros(len(x))
    for t in range(x.shape[1]):
        u, v = x[:, t], w[:, t]
        if name == "linear":
            h = v * h + u
            put(h=h)
        elif name == "max_plus":
            h = np.maximum(h + v, u)
            put(h=h)
        elif name == "segmented":
            h, count = np.where(v > 0.5, u, h + u), count + (v > 0.5)
            put(s=h, count=count)
        elif name == "welford":
            put(mean=x[:, : t + 1].mean(1), m2=((x[:, : t + 1] - x[:, : t + 1].mean(1, keepdims=True)) ** 2).sum(1))
        else:
            e = np.exp(x[:, : t + 1] - x[:, : t + 1].max(1, keepdims=True))
            put(l=e.sum(1), o=(e * w[:, : t + 1]).sum(1))
    return {k: np.stack(v, 1) for k, v in out.items()}


SCANS = (linear, max_plus, segmented, welford, online_softmax)
EXACT = (linear, segmented)
"""Those whose rule is one of the integer twin too."""


@pytest.mark.parametrize("write", SCANS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("long", [False, True])
def test_the_reference_is_the_recurrence(monkeypatch: pytest.MonkeyPatch, write: Any, long: bool) -> None:
    if long:  # blocks of 5 steps, the last with one
        monkeypatch.setattr(tuple_scans, "LONG", 8)
    k = kernel(write)
    if long:
        given = generate(k, {}, 1)
        e = next(iter(expectations(k, given, {}).values()))
        y = by_hand(write.__name__, given["x"], given["w"])[e.name].astype(np.float32)
        assert check(e, y.ctypes.data).ok
    given = generate(k, {}, 0)
    want = by_hand(write.__name__, given["x"], given["w"])
    for name, got in evaluate(k, given).items():
        np.testing.assert_allclose(got, want[name], rtol=1e-9, atol=1e-9)


OPTIONS: list[list[Any]] = [
    [],
    [["UPCAST", "m", 3]],
    [["UPCAST", "n", 8]],
    [["TILE", "n", 8], ["PARALLEL", "m"]],
    [["PADTO", "n", 16], ["UPCAST", "n", 16], ["PARALLEL", "m"]],
    [["MOVE", "n", {"before": "m"}]],
]


@pytest.mark.many
@pytest.mark.parametrize("write", SCANS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("along", [0, 1])
def test_every_kind_of_schedule(write: Any, along: int) -> None:
    k = kernel(write, along, *((3, 23) if write in (welford, online_softmax) else (M, N)))
    legal = 0
    rng = random.Random(f"{write.__name__}{along}")
    drawn = [grow(k, AVX2, [rng.randrange(1 << 20) for _ in range(3)])]
    for opts in [*map(parse, OPTIONS), *drawn]:
        try:
            apply(k, opts, AVX2)
        except OptError:
            continue
        legal += 1
        if write in EXACT:
            check_twin(k, opts, AVX2)
        check_floats(k, opts, AVX2)
    assert legal >= 4
    if write is linear:
        check_compiled(k, parse([["UPCAST", "n", 8]]), None, None, 2)


@pytest.mark.parametrize("target", [OPENCL, SM80], ids=lambda t: t.name)
def test_on_gpus_one_thread_goes_through_a_row(target: Any) -> None:
    k = kernel(linear, 1, 8, 12)
    check_twin(k, parse([["LOCAL", "m", 4]]), target)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 7), (3, 1)])
def test_extents_of_one(m: int, n: int) -> None:
    k = kernel(linear, 1, m, n)
    check_twin(k, (), AVX2)
    check_floats(k, (), AVX2)


def test_mistakes_are_found() -> None:
    """A step that is left out, and a component of the wrong step, are outside the bound."""
    k = kernel(linear)
    given = generate(k, {}, 0)
    e = expectations(k, given, {})["h_out"]
    right = by_hand("linear", given["x"], given["w"])["h_out"].astype(np.float32)
    assert check(e, right.ctypes.data).ok
    for spoil in (lambda y: np.roll(y, 1, 1), lambda y: np.where(np.arange(N) == 20, y * (1 + 1e-4), y), lambda y: y * 0):
        wrong = np.ascontiguousarray(spoil(right), np.float32)
        assert not check(e, wrong.ctypes.data).ok


def test_special_values_are_left_open_from_where_they_begin() -> None:
    k = kernel(linear, 1, 24, 40)
    given = special(k, {}, 0)
    e = special_expectations(k, given, {})["h_out"]
    assert e.free is not None and 0.0 < e.free.mean() < 0.9
    h, out = np.zeros(24, np.float32), np.empty((24, 40), np.float32)
    with np.errstate(all="ignore"):
        for t in range(40):
            h = given["w"][:, t] * h + given["x"][:, t]
            out[:, t] = h
    verdict = check(e, out.ctypes.data)
    assert verdict.ok, verdict.detail


def test_keys_see_the_rule_and_not_the_names() -> None:
    def other(kb: Any, x: Any, w: Any, axes: Any, along: Any) -> Any:
        return kb.associative_scan(("a", "b"), axes, along, (w, x), (1.0, 0.0), lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]))[1:]

    assert canonical(kernel(linear)).hash == canonical(kernel(other)).hash != canonical(kernel(max_plus)).hash
    assert cost(kernel(linear)).flops == M * N * 2, "the product of all factors is not needed"


@pytest.mark.parametrize(
    ("elements", "identity", "rule", "said"),
    [
        (
            1,
            (0.0,),
            lambda a, b: (a[0] - b[0],),
            "scan h: component 0 of x, y, z = .* from the left and .* from the right.*must be associative",
        ),
        (1, (0.0,), lambda a, b: (0.5 * a[0] + b[0],), "must be associative"),
        (1, (1.0,), lambda a, b: (a[0] + b[0],), "the identity changes what follows it"),
        (2, (0.0,), lambda a, b: (a[0] + b[0],), "1 names, 2 elements, 1 identities"),
        (1, (0.0,), lambda a, b: (a[0], b[0]), "the rule gives 2 components of 1"),
    ],
)
def test_rules_that_are_none(elements: int, identity: Any, rule: Any, said: str) -> None:
    kb = KernelBuilder("k")
    t = kb.axis("n", 8)
    x = kb.input("x", (8,), float32)
    with pytest.raises(KernelError, match=said):
        kb.associative_scan(("h",), t, t, [x[t]] * elements, identity, rule)

"""Scans with lanes along their own axis."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checks import check_compiled, check_floats, check_twin
from random_schedules import grow
from tilewright import named_kernels, targets
from tilewright.interp import run as interpret
from tilewright.ir import (
    KernelBuilder,
    KernelError,
    Node,
    OptError,
    bfloat16,
    dtype,
    exp,
    float32,
    float64,
    int32,
    int64,
    maximum,
    sym,
    where,
)
from tilewright.ir.cost import cost
from tilewright.ir.evaluation import evaluate
from tilewright.ir.evaluation import values as tuple_scans
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import canonical
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.measure.checking.verify import check, expectations, special_expectations
from tilewright.measure.inputs import generate
from tilewright.measure.inputs import generate_special as special
from tilewright.opts import apply, parse
from tilewright.opts.loop_tree import Chain, Shared, Tree
from tilewright.program.program import Instr, Program, statements

CASCADE, AVX2, NEON, OPENCL, SM80 = (targets.named(n) for n in ("cascadelake", "avx2", "neon", "opencl-gpu", "sm_80"))
NUMPY = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scanned(combine: str, m: int, n: int, kind: str = "float32", along: int = 1) -> Kernel:
    """y[i, j] = the combination of x[i, :j + 1] (or of x[:i + 1, j])."""
    kb = KernelBuilder(f"scan_{combine}")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), dtype(kind))
    value = kb.scan(combine, "prefix", (i, j), (i, j)[along], x[i, j])
    kb.store("y", value[i, j].dtype, (m, n), (i, j), value[i, j])
    return kb.build()


def run(kernel: Kernel, opts: list[Any], target: targets.Target, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    y = np.zeros(x.shape, kernel.outputs[0].dtype.np)
    interpret(lower(apply(kernel, parse(opts), target)), {"x": x, "y": y})
    return y


def instructions(program: Program, op: str) -> list[Instr]:
    return [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == op]


WIDE: list[list[Any]] = [
    [["UPCAST", "n", 4]],
    [["UPCAST", "n", 16]],
    [["UPCAST", "n", 32], ["PARALLEL", "m"]],
    [["UPCAST", "n", 8], ["UPCAST", "m", 2]],
    [["TILE", "n", 24], ["UPCAST", "n", 8], ["UPCAST", "m", 3]],
    [["UPCAST", "n", 12]],
    [["UPCAST", "n", 16], ["CACHE", "y", {"policy": "stream"}]],
]


def padded(opts: list[Any], n: int) -> list[Any]:
    """The options for any n: padded where blocks do not divide it."""
    block = max(o[2] for o in opts if o[1] == "n")
    return opts if n % block == 0 else [["PADTO", "n", block], *opts]


@pytest.mark.many
@pytest.mark.parametrize("opts", WIDE)
@pytest.mark.parametrize("combine", sorted(NUMPY))
@pytest.mark.parametrize("n", [26, 37, 96])
@pytest.mark.covering(pairs=True)
def test_every_combination_and_tail(combine: str, n: int, opts: list[Any]) -> None:
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((6, n)) if combine != "mul" else rng.choice([0.5, 1.0, 2.0, -1.0], (6, n))).astype(np.float32)
    y = run(scanned(combine, 6, n), padded(opts, n), CASCADE, x)
    np.testing.assert_allclose(y, NUMPY[combine].accumulate(x.astype(np.float64), axis=1), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("target", [CASCADE, AVX2, NEON])
@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "int32", "int8", "uint8"])
@pytest.mark.covering
def test_every_type(kind: str, target: targets.Target) -> None:
    kernel = scanned("add", 3, 62, kind)
    x = np.random.default_rng(0).integers(-3 if kind[0] != "u" else 0, 4, (3, 62)).astype(kernel.inputs[0].dtype.np)
    y = run(kernel, [["UPCAST", "n", 16]], target, x)
    want = x.astype(np.float64).cumsum(axis=1)
    np.testing.assert_array_equal(
        y.astype(np.float64), want if kernel.outputs[0].dtype.is_float else want.astype(kernel.outputs[0].dtype.np).astype(np.float64)
    )


@pytest.mark.parametrize("opts", WIDE)
def test_the_twin_agrees(opts: list[Any]) -> None:
    check_twin(named_kernels.make("cumsum", {"m": 6, "n": 70}), parse(padded(opts, 70)), CASCADE)


def test_nan_and_infinity_reach_what_follows_and_nothing_before() -> None:
    x = np.ones((1, 64), np.float32)
    x[0, 21], x[0, 40] = np.inf, np.nan
    y = run(scanned("add", 1, 64), [["UPCAST", "n", 16]], CASCADE, x)
    np.testing.assert_array_equal(y[0, :21], np.arange(1, 22))
    assert np.isposinf(y[0, 21:40]).all() and np.isnan(y[0, 40:]).all()


def test_lanes_hold_prefixes_after_a_logarithm_of_steps() -> None:
    program = lower(apply(scanned("add", 4, 64), parse([["UPCAST", "n", 16]]), CASCADE))
    assert len(instructions(program, "shuffle")) == 5  # four shifts, and the last lane to all
    assert not instructions(program, "extract") and not instructions(program, "insert")


def test_the_output_itself_holds_the_scan() -> None:
    """One pass and no scratch; what is stored is carried in registers, and so past the caches too."""
    assert lower(apply(scanned("add", 4, 64), (), CASCADE)).scratch == 0
    assert lower(apply(scanned("add", 4, 64), parse([["CACHE", "y", {"policy": "stream"}]]), CASCADE)).scratch == 0


def test_lanes_across_rows_stay_possible() -> None:
    x = np.random.default_rng(0).standard_normal((9, 32)).astype(np.float32)
    y = run(scanned("add", 9, 32, along=0), [["UPCAST", "n", 16]], CASCADE, x)
    np.testing.assert_allclose(y, x.astype(np.float64).cumsum(axis=0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opts", [[["UPCAST", "m", 4], ["MOVE", "n", {"before": "m"}]], [["UPCAST", "m", 4]]])
def test_copies_past_the_rows_read_nothing_past_the_output(opts: list[Any]) -> None:
    """A scan that is read back, not carried, needs room for them: it is not kept in the output then."""
    check_twin(named_kernels.make("cumsum", {"m": 11, "n": 20}), parse(opts), CASCADE)
    check_compiled(named_kernels.make("cumsum", {"m": 11, "n": 20}), parse(opts))


@pytest.mark.parametrize(
    ("opts", "target", "why"), [([["PARALLEL", "n"]], "cascadelake", "cannot be parallel"), ([["UPCAST", "n", 4]], "sm_80", "one lane")]
)
def test_what_stays_impossible(opts: list[Any], target: str, why: str) -> None:
    with pytest.raises(OptError, match=why):
        apply(scanned("add", 9, 64), parse(opts), targets.named(target))


def test_other_orders_of_adding_are_declared() -> None:
    assert "REASSOC" in apply(scanned("add", 9, 64), parse([["UPCAST", "n", 16]]), CASCADE).effects
    assert float32 is scanned("add", 2, 2).outputs[0].dtype


# Scans with what reads them in one loop: two and three scans along different axes, states in memory, and readers
# elsewhere.


def integral(h: int = 11, w: int = 21, kind: str = "uint8") -> Kernel:
    """Sums along rows, then down the columns."""
    kb = KernelBuilder("integral")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), dtype(kind))
    row = kb.scan("add", "row", (i, j), j, cast(x[i, j], int32 if kind == "uint8" else float32))
    total = kb.scan("add", "total", (i, j), i, row[i, j])
    kb.store("y", total.dtype, (h, w), (i, j), total[i, j])
    return kb.build()


def volume() -> Kernel:
    """A running maximum of running sums along three axes, and what it is above the element; the last only where it is positive."""
    kb = KernelBuilder("volume")
    k, i, j = kb.axis("d", 5), kb.axis("h", 6), kb.axis("w", 13)
    x = kb.input("x", (5, 6, 13), float32)
    row = kb.scan("add", "row", (k, i, j), j, x[k, i, j])
    plane = kb.scan("max", "plane", (k, i, j), i, row[k, i, j] * 2.0)
    total = kb.scan("add", "total", (k, i, j), k, plane[k, i, j] - x[k, i, j])
    kb.store("y", float32, (5, 6, 13), (k, i, j), total[k, i, j] - row[k, i, j], mask=(i + j) % 2 < 1)
    kb.store("z", float32, (13, 5, 6), (k, i, j), plane[k, i, j], (j, k, i))
    return kb.build()


def exclusive() -> Kernel:
    """What came before, down the columns, and a recurrence of it."""
    kb = KernelBuilder("exclusive")
    i, j = kb.axis("m", 14), kb.axis("n", 19)
    x = kb.input("x", (14, 19), float32, range=(-0.9, 0.9))
    before = kb.scan("add", "before", (i, j), i, x.masked(i > 0, i - 1, j))
    rule = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])  # noqa: E731
    _, h = kb.associative_scan(("p", "h"), (i, j), i, (x[i, j], before[i, j]), (1.0, 0.0), rule)
    kb.store("y", float32, (14, 19), (i, j), h[i, j] + before[i, j])
    return kb.build()


def read_twice() -> Kernel:
    """A scan that another one and a sum over its rows read."""
    kb = KernelBuilder("read_twice")
    i, j, k = kb.axis("m", 7), kb.axis("n", 26), kb.axis("n@sum", 26)
    x = kb.input("x", (7, 26), float32)
    top = kb.scan("max", "top", (i, j), j, x[i, j])
    again = kb.scan("add", "again", (i, j), i, top[i, j])
    total = kb.sum("total", (i,), k, top[i, k])
    kb.store("y", float32, (7, 26), (i, j), again[i, j] - x[i, j])
    kb.store("s", float32, (7,), (i,), total[i])
    return kb.build()


def layers() -> Kernel:
    """Two outputs of layers that lie one above the other: what a layer weighs, which reads no scan, and what lies above its middle."""
    kb = KernelBuilder("layers")
    k, j = kb.axis("l", 9), kb.axis("w", 27)
    x, deep = kb.input("x", (9, 27), float32), kb.input("deep", (9,), float32)
    weight = kb.value("weight", (k, j), x[k, j] * x[k, j] + 1.0)
    above = kb.scan("add", "above", (k, j), k, weight[k, j] * deep[k])
    kb.store("rho", float32, (9, 27), (k, j), weight[k, j])
    kb.store("press", float32, (9, 27), (k, j), above[k, j] - weight[k, j] * (deep[k] * 0.5))
    return kb.build()


KERNELS: tuple[Callable[[], Kernel], ...] = (integral, volume, exclusive, read_twice, layers)
SCHEDULES: list[tuple[Callable[[], Kernel], list[Any]]] = [
    (integral, []),
    (integral, [["PADTO", "w", 24], ["UPCAST", "w", 8], ["UPCAST", "h", 4]]),
    (integral, [["MOVE", "w", {"before": "h"}], ["UPCAST", "h", 4]]),
    (integral, [["TILE", "w", 8], ["MOVE", "h", {"before": "w.t"}]]),
    (integral, [["PADTO", "w", 24], ["UPCAST", "w", 8], ["CACHE", "y", {"policy": "stream"}]]),
    (volume, [["PADTO", "w", 16], ["UPCAST", "w", 8], ["UPCAST", "h", 2], ["UPCAST", "d", 2]]),
    (volume, [["MOVE", "h", {"before": "d"}], ["MOVE", "w", {"before": "d"}]]),
    (exclusive, [["PADTO", "n", 24], ["UPCAST", "n", 8], ["UPCAST", "m", 4]]),
    (exclusive, [["TILE", "n", 8], ["UPCAST", "n", 4], ["PARALLEL", "n"], ["MOVE", "m", {"before": "n.t"}]]),
    (read_twice, [["UPCAST", "n", 4], ["UPCAST", "m", 2]]),
    (layers, [["UPCAST", "w", 8]]),
    (layers, [["UPCAST", "w", 8], ["TILE", "w", 16], ["MOVE", "l", {"before": "w.t"}], ["PARALLEL", "w"]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("make", "opts"), SCHEDULES, ids=lambda x: x.__name__ if callable(x) else None)
def test_schedules_equal_the_reference(make: Callable[[], Kernel], opts: list[Any]) -> None:
    kernel = make()
    check_twin(kernel, parse(opts), AVX2)
    if any(o[0] in ("CACHE", "PARALLEL") or len(opts) > 3 for o in opts):
        check_compiled(kernel, parse(opts), threads=2)


@pytest.mark.many
@pytest.mark.parametrize("target", [AVX2, OPENCL, SM80], ids=lambda t: t.name)
@pytest.mark.parametrize("make", KERNELS, ids=lambda f: f.__name__)
@pytest.mark.covering
def test_random_schedules_equal_the_reference(make: Callable[[], Kernel], target: targets.Target) -> None:
    kernel = make()
    rng = random.Random(f"{make.__name__} {target.name}")
    for n in range(2 if target is AVX2 else 1):
        opts = grow(kernel, target, [rng.randrange(1 << 20) for _ in range(2 * n + 1)])
        check_twin(kernel, opts, target, None, n)
    check_floats(kernel, opts, target, None, 0)


def chains(items: tuple[Tree, ...]) -> list[list[str]]:
    """The nests of every chain."""
    found = [i.nests for i in items if isinstance(i, Chain)]
    return [[n.name for n in nests] for nests in found] + [c for i in items if isinstance(i, Shared) for c in chains(i.body)]


def test_scans_along_two_axes_and_their_store_are_one_pass() -> None:
    s = apply(integral(64, 512), parse([["UPCAST", "w", 8], ["UPCAST", "h", 4]]), AVX2)
    assert chains(s.tree.items) == [["row", "total", "y"]] and s.tree.registers == {"row", "total"}
    assert lower(s).scratch <= 512 * 4 + 64  # the sums so far of one row


def test_a_store_that_reads_what_the_scan_reads_runs_in_its_loop() -> None:
    s = apply(layers(), parse([["UPCAST", "w", 8], ["PARALLEL", "w"]]), AVX2)
    assert chains(s.tree.items) == [["above", "rho", "press"]] and s.tree.registers == {"above"}
    found = [x.args for p in lower(s).phases for x in statements(p.body) if isinstance(x, Instr) and x.op == "mul"]
    assert len(found) == len(set(found)), "what both stores and the scan compute is computed once"


def test_what_others_read_is_kept_for_them() -> None:
    s = apply(read_twice(), (), AVX2)
    assert chains(s.tree.items) == [["top", "again"]] and not {"top", "again"} & s.tree.registers


def test_copies_of_a_reader_that_has_others_keep_it_out_of_the_loop() -> None:
    kb = KernelBuilder("transposed")
    i, j = kb.axis("m", 8), kb.axis("n", 16)
    a, b = kb.axis("m@y", 8), kb.axis("n@y", 16)
    x = kb.input("x", (8, 16), float32)
    top = kb.scan("max", "top", (i, j), j, x[i, j])
    kb.store("y", float32, (8, 16), (a, b), top[a, b] - top[a, 15 - b])
    kernel = kb.build()
    assert chains(apply(kernel, (), AVX2).tree.items) == []
    check_twin(kernel, parse([["UPCAST", "n@y", 4]]), AVX2)


def test_lanes_along_a_scan_that_is_not_innermost_are_refused() -> None:
    with pytest.raises(OptError, match="as lanes unless its loops are innermost"):
        apply(integral(), parse([["UPCAST", "w", 4], ["MOVE", "w", {"before": "h"}]]), AVX2)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_rows_of_narrow_floats_keep_their_digits(kind: str) -> None:
    check_floats(integral(6, 16, kind), parse([["UPCAST", "w", 8], ["UPCAST", "h", 2]]), AVX2, None, 0)


# Scans of tuples: recurrences, flags, running moments and softmax, under schedules of every kind, and rules that are
# none.


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
@pytest.mark.covering
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
@pytest.mark.covering
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


# Scans of tuples of 64-bit integers, whose arithmetic is that of indices, and of plain numbers.


def linear_of_wide_tuples(a: Any, b: Any) -> Any:
    return a[0] * b[0], a[1] * b[0] + b[1]


def largest(a: Any, b: Any) -> Any:
    return where(a[0] < b[0], b[0], a[0]), where(a[0] < b[0], b[1], a[1])


def steps(a: Any, b: Any) -> Any:
    return maximum(a[0] - b[1], b[0]), a[1] + b[1]


RULES = {linear_of_wide_tuples: (1, 0), largest: (-(2**63), 0), steps: (-(2**62), 0)}


def kernel_of_wide_tuples(rule: Any, second: str, along: int = 1, m: int = 5, n: int = 19) -> Kernel:
    """Scans of pairs of an input and another, a number, or the place."""
    kb = KernelBuilder("wide")
    i, j, x = kb.axis("m", m), kb.axis("n", n), kb.input("x", (m, n), int64)
    w = {"input": lambda: kb.input("w", (m, n), int64)[i, j], "number": lambda: 3, "place": lambda: cast(j, int64)}[second]()
    a, b = kb.associative_scan(("a", "b"), (i, j), (i, j)[along], (x[i, j], w), RULES[rule], rule)
    kb.store("s", int64, (m, n), (i, j), a[i, j])
    kb.store("t", int64, (m, n), (i, j), b[i, j])
    return kb.build()


@pytest.mark.many
@pytest.mark.parametrize("second", ["input", "number", "place"])
@pytest.mark.parametrize("rule", RULES, ids=lambda f: f.__name__)
@pytest.mark.covering
def test_random_schedules_equal_the_reference_in_wide_tuples(rule: Any, second: str) -> None:
    rng = random.Random(f"{rule.__name__} {second}")
    for n in range(4):
        k = kernel_of_wide_tuples(rule, second, n % 2, rng.choice((1, 5, 8)), rng.choice((1, 7, 19)))
        check_twin(k, grow(k, AVX2, [rng.randrange(1 << 20) for _ in range(n)]), AVX2, None, n)
    check_compiled(k, ())
    for target in (OPENCL, SM80):
        check_twin(k, (), target)


def test_the_reference_wraps_as_numpy_does() -> None:
    x = np.random.default_rng(0).integers(-(2**62), 2**62, (5, 19), np.int64)
    got = evaluate(kernel_of_wide_tuples(linear_of_wide_tuples, "number"), {"x": x})
    h, p = np.zeros(5, np.int64), np.ones(5, np.int64)
    with np.errstate(over="ignore"):
        for t in range(19):
            p, h = p * x[:, t], h * x[:, t] + 3
            np.testing.assert_array_equal(got["s"][:, t], p)
            np.testing.assert_array_equal(got["t"][:, t], h)


# States of scans down columns: the row before in the output where results are stored as they are, else rows in
# scratch; and the first step, which has code of its own.


H, W = 11, 45


def columns(kind: str = "sum", dtype: Any = float32, h: Any = H, w: int = W) -> Kernel:
    """Scans down columns; what is stored of them is in the name."""
    kb = KernelBuilder("columns")
    i, j = kb.axis("h", h), kb.axis("w", w)
    x = kb.input("x", (h, w), dtype)
    if kind == "recurrence":
        a = kb.input("a", (h, w), dtype)

        def rule(before: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Node, Node]:
            return before[0] * after[0], before[1] * after[0] + after[1]

        total = kb.associative_scan(("product", "total"), (i, j), i, (a[i, j], x[i, j]), (1.0, 0.0), rule)[1]
    elif kind == "integral":
        total = kb.scan("add", "total", (i, j), i, kb.scan("add", "row", (i, j), j, x[i, j])[i, j])
    else:
        total = kb.scan("max" if kind == "extreme" else "add", "total", (i, j), i, x[i, j])
    if kind == "half":
        kb.store("y", dtype, (h, w), (i, j), total[i, j] * 0.5)
    elif kind == "turned":
        kb.store("y", dtype, (w, h), (j, i), total[i, j])
    elif kind == "from the end":
        kb.store("y", dtype, (h, w), (i, j), total[i, j], indices=(h - 1 - i, j))
    else:
        kb.store("y", dtype, (h, w), (i, j), total[i, j])
    if kind == "twice":
        kb.store("z", dtype, (h, w), (i, j), total[i, j] + x[i, j])
    return kb.build()


def accesses(program: Program) -> list[Instr]:
    found = (s for p in program.phases for s in statements(p.body) if isinstance(s, Instr))
    return [s for s in found if s.op in ("load", "store", "gather", "scatter")]


@pytest.mark.parametrize("kind", ["sum", "extreme", "recurrence", "from the end"])
def test_a_row_of_results_is_the_state_of_the_next_one(kind: str) -> None:
    found = accesses(lower(apply(columns(kind, w=48), parse("Uw16"), AVX2)))
    assert found and not any(s.mem.space == "scratch" for s in found)
    assert not any(len(s.args) > (2 if s.op == "store" else 1) for s in found)  # nor is anything masked


@pytest.mark.parametrize("kind", ["half", "twice"])
def test_other_states_are_in_scratch_and_not_masked(kind: str) -> None:
    found = accesses(lower(apply(columns(kind, w=48), parse("Uw16"), AVX2)))
    assert any(s.mem.space == "scratch" for s in found)
    assert not any(len(s.args) > (2 if s.op == "store" else 1) for s in found)


KINDS = ("sum", "extreme", "recurrence", "integral", "half", "turned", "from the end", "twice")


@pytest.mark.many
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "opts", ["Uw16", "Uw8 Uh4", "Th6 Uh2 Uw8", "Th6 Uh2 Uw8 Tw16", "Uw8 Tw16 Mh<w.t Pw", "Tw16 Uw8 Uh3 Cy/stream", "Uh2 Th4 Uw4"]
)
@pytest.mark.covering(pairs=True)
def test_schedules_equal_the_reference_in_scan_states(kind: str, opts: str) -> None:
    kernel = columns(kind)
    if kind == "integral" and "Pw" in opts:  # rows are scanned as well: no strips of them
        with pytest.raises(OptError):
            apply(kernel, parse(opts), AVX2)
        return
    check_twin(kernel, parse(opts), AVX2)
    check_compiled(kernel, parse(opts))


@pytest.mark.many
@pytest.mark.parametrize("kind", KINDS)
def test_random_schedules_equal_the_reference_in_scan_states(kind: str) -> None:
    kernel, rng = columns(kind), random.Random(kind)
    for n in range(4):
        start = parse([["UPCAST", "w", 8]]) if n % 2 else ()
        check_twin(kernel, grow(kernel, AVX2, [rng.randrange(1 << 20) for _ in range(2 + n)], start), AVX2)


@pytest.mark.many
@pytest.mark.parametrize("dtype", [float64, int32, bfloat16], ids=str)
def test_other_types(dtype: Any) -> None:
    check_compiled(columns("sum", dtype), parse("Uw16"))
    check_compiled(columns("extreme", dtype), parse("Uw8 Uh2"))


def test_columns_of_any_length() -> None:
    kernel = columns("sum", h=sym("h", 0, 9))
    for h in (0, 1, 5):
        check_twin(kernel, parse("Uw8"), AVX2, {"h": h})

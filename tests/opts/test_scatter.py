"""The rule scatter of REWRITE: where a sum of what has the key of a place is added up makes no difference to results; what is such a sum."""

from __future__ import annotations

from typing import Any

import pytest
from checks import check_compiled, check_floats, check_random_steps
from tilewright.heuristics import starts
from tilewright.ir import KernelBuilder, OptError, const, float32, float64, int8, int16, int32, maximum, minimum, sym, uint8, uint64, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.operators import cast
from tilewright.ir.sums_by_key import sums_by_key
from tilewright.opts import apply, parse
from tilewright.opts.rewrites.scatter import scattered
from tilewright.targets import named


def equalised(b: int = 2, n: int = 67, places: int = 256) -> Kernel:
    """A histogram of each picture, and its running sum as a table. (Bytes may lie beyond fewer places.)"""
    kb = KernelBuilder("equalised")
    f, i, v, p = kb.axis("b", b), kb.axis("n", n), kb.axis("v", places), kb.axis("n@count", n)
    x = kb.input("x", (b, n), uint8)
    many = kb.sum("many", (f, v), p, cast(x[f, p], int32).eq(cast(v, int32)))
    upto = kb.scan("add", "upto", (f, v), v, many[f, v])
    at = cast(x[f, i], "int64")
    kb.store("y", int32, (b, n), (f, i), where(at < places, upto[f, where(at < places, at, 0)], -1))
    return normalise(kb.build())


def zscores(n: int = 61, g: int = 5, key: Any = int8, low: int = -2) -> Kernel:
    """How far members are from the mean of their group; keys may be of no group."""
    kb = KernelBuilder("zscores")
    a, b, i, u = kb.axis("n@count", n), kb.axis("n@sum", n), kb.axis("n", n), kb.axis("g", g)
    x, k = kb.input("x", (n,), float64), kb.input("k", (n,), key, range=(low, min(g, 127)))
    count = kb.sum("count", (u,), a, where(k[a].eq(cast(u, key)), 1.0, 0.0), float64)
    total = kb.sum("total", (u,), b, where(cast(u, key).eq(k[b]) & (x[b] < 1.5), x[b] * 2.0, 0.0))
    mine = where((k[i] >= 0) & (k[i] < g), cast(k[i], "int64"), 0)
    kb.store("y", float64, (n,), (i,), x[i] - total[mine] / maximum(count[mine], 1.0))
    return normalise(kb.build())


def joint(n: int = 83, p: int = 4, q: int = 7) -> Kernel:
    """Two keys, of which one is computed; a marginal of the table is read by what scales it."""
    kb = KernelBuilder("joint")
    a, u, v, w = kb.axis("n", n), kb.axis("p", p), kb.axis("q", q), kb.axis("q@all", q)
    k, l = kb.input("k", (n,), int16, range=(0, p - 1)), kb.input("l", (n,), int32, range=(0, 3 * q - 1))
    weight = kb.input("weight", (n,), float32)
    table = kb.sum("table", (u, v), a, where(k[a].eq(cast(u, int16)) & (l[a] // 3).eq(cast(v, int32)), weight[a], 0.0))
    most = kb.max("most", (u,), w, table[u, w])
    kb.store("y", float32, (p, q), (u, v), table[u, v] - most[u])
    return normalise(kb.build())


def common(n: int = 71, places: int = 19) -> Kernel:
    """Counts as they are written, which are int64, read as numbers and as places of a table."""
    kb = KernelBuilder("common")
    a, v, u, i = kb.axis("n@count", n), kb.axis("v", places), kb.axis("v@most", places), kb.axis("n", n)
    k, table = kb.input("k", (n,), int32, range=(0, places + 3)), kb.input("table", (16,), float32)
    many = kb.sum("many", (v,), a, where(k[a].eq(cast(v, int32)), 1, 0))
    most = kb.max("most", (), u, many[u] * u)
    mine = many[where(k[i] < places, cast(k[i], "int64"), 0)]
    kb.store("y", float32, (n,), (i,), table[minimum(mine, 15)] + cast(most[()], float32))
    kb.store("rest", "int64", (places,), (v,), many[v] % 7)
    return normalise(kb.build())


CASES: list[tuple[Kernel, list[Any]]] = [
    (equalised(), [["REWRITE", "many", {"rule": "scatter"}]]),
    (equalised(), [["REWRITE", "many", {"rule": "scatter"}], ["UPCAST", "n@count.s", 8], ["UPCAST", "n", 16], ["PARALLEL", "b"]]),
    (equalised(places=200), [["REWRITE", "many", {"rule": "scatter"}], ["UPCAST", "n", 8]]),
    (equalised(), [["REWRITE", "many", {"rule": "scatter"}], ["SPLIT", "many.total", {"copies": 4}], ["UPCAST", "v", 8]]),
    (common(), [["REWRITE", "many", {"rule": "scatter"}]]),
    (common(), [["REWRITE", "many", {"rule": "scatter"}], ["UPCAST", "n", 8]]),
    (common(), [["REWRITE", "many", {"rule": "scatter"}], ["SPLIT", "many.total", {"copies": 2}], ["UPCAST", "n@count.s", 4]]),
    (zscores(), [["REWRITE", "count", {"rule": "scatter"}]]),
    (zscores(), [["REWRITE", "count", {"rule": "scatter"}], ["REWRITE", "total", {"rule": "scatter"}], ["UPCAST", "n", 4]]),
    (zscores(), [["REWRITE", "total", {"rule": "scatter"}], ["UPCAST", "n@count", 4]]),
    (
        zscores(key=int32, low=0),
        [
            ["REWRITE", "count", {"rule": "scatter"}],
            ["REWRITE", "total", {"rule": "scatter"}],
            ["PARALLEL", "n"],
            ["UPCAST", "n@count.s", 4],
        ],
    ),
    (joint(), [["REWRITE", "table", {"rule": "scatter"}]]),
    (joint(), [["REWRITE", "table", {"rule": "scatter"}], ["UPCAST", "q", 7], ["PARALLEL", "p"]]),
]


@pytest.mark.many
@pytest.mark.parametrize(("kernel", "listed"), CASES)
def test_results_do_not_depend_on_it(kernel: Kernel, listed: list[Any]) -> None:
    opts = parse(listed)
    check_floats(kernel, opts, named("x86-64-v2"))
    check_floats(kernel, opts, named("cascadelake"))
    check_compiled(kernel, opts, threads=2)


@pytest.mark.parametrize("make", [equalised, zscores, joint, common])
def test_random_steps_from_it_are_right(make: Any) -> None:
    kernel = make()
    check_random_steps(kernel, parse([["REWRITE", name, {"rule": "scatter"}] for name in sums_by_key(kernel)]), named("avx2"))


def test_each_element_is_added_once_at_its_key() -> None:
    first, second = apply(joint(), parse([["REWRITE", "table", {"rule": "scatter"}]]), named("avx2")).phases
    (store,) = first.kernel.stores
    assert (store.combine, len(store.axes), store.buffer.shape) == ("add", 1, (4, 7))
    assert {b.name for b in second.kernel.inputs} == {"table.total"}


def test_sums_over_the_same_elements_share_a_loop() -> None:
    found = scattered(zscores(), ("count", "total"))
    assert found is not None
    assert len({s.axes for s in found[0].stores}) == 1
    assert all(s.mask is not None for s in found[0].stores), "a key may be of no group"


def symbolic(key: Any = int32) -> Kernel:
    """Two sums over as many elements at most, of which one has fewer; and keys without a sign."""
    kb = KernelBuilder("symbolic")
    n = sym("n", 1, 40)
    a, b, v = kb.axis("n", n), kb.axis("m", 40), kb.axis("v", 16)
    x, k, l = kb.input("x", (40,), float32), kb.input("k", (n,), key, range=(0, 15)), kb.input("l", (40,), key, range=(0, 20))
    c = kb.sum("c", (v,), a, where(k[a].eq(cast(v, key)), 1.0, 0.0))
    d = kb.sum("d", (v,), b, where(l[b].eq(cast(v, key)), x[b], 0.0))
    kb.store("y", float32, (16,), (v,), c[v] + d[v] * 2.0)
    return normalise(kb.build())


@pytest.mark.parametrize("key", [int32, uint8, uint64])
@pytest.mark.parametrize("n", [7, 40])
def test_each_sum_goes_through_its_own_elements(key: Any, n: int) -> None:
    for opts in (
        parse([["REWRITE", "c", {"rule": "scatter"}], ["REWRITE", "d", {"rule": "scatter"}]]),
        starts(symbolic(key), named("avx2"))[0],
    ):
        check_floats(symbolic(key), opts, named("avx2"), vars={"n": n})


@pytest.mark.parametrize("past", [1 << 63, (1 << 63) + (1 << 40), (1 << 64) - 1])
def test_keys_that_are_no_index_are_no_place(past: int) -> None:
    """A large number without a sign is a negative index."""
    kb = KernelBuilder("unsigned")
    a, v = kb.axis("n", 30), kb.axis("v", 16)
    k = kb.input("k", (30,), uint64, range=(0, 15))
    key = k[a] + const(past, uint64)
    c = kb.sum("c", (v,), a, key.eq(cast(v, uint64)))
    kb.store("y", int32, (16,), (v,), c[v] * 2)
    kernel = normalise(kb.build())
    check_floats(kernel, parse([["REWRITE", "c", {"rule": "scatter"}]]), named("avx2"))
    check_compiled(kernel, parse([["REWRITE", "c", {"rule": "scatter"}]]))


def test_negative_keys_of_a_type_without_a_sign_are_no_place() -> None:
    """cast(-1, uint16) is 65535, and beside all places."""
    kb = KernelBuilder("wrapped")
    a, v = kb.axis("n", 30), kb.axis("v", 300)
    k = kb.input("k", (30,), int8, range=(-3, 3))
    c = kb.sum("c", (v,), a, cast(k[a], "uint16").eq(cast(v, "uint16")))
    kb.store("y", int32, (300,), (v,), c[v] * 2)
    check_floats(normalise(kb.build()), parse([["REWRITE", "c", {"rule": "scatter"}]]), named("avx2"))


def test_stated_ranges_of_keys_are_not_relied_on() -> None:
    """A sum counts a key beside all places nowhere, so whoever calls with one keeps doing so."""
    first, _ = apply(joint(), parse([["REWRITE", "table", {"rule": "scatter"}]]), named("avx2")).phases
    assert first.kernel.stores[0].mask is not None
    bytes_, _ = apply(equalised(), parse([["REWRITE", "many", {"rule": "scatter"}]]), named("avx2")).phases
    assert bytes_.kernel.stores[0].mask is None, "every byte has a place"


def test_places_that_a_type_has_twice_are_no_keys() -> None:
    """cast(v, int8) is -128 for place 128."""
    assert sums_by_key(zscores(g=100)) and not sums_by_key(zscores(g=200, low=0, key=int8))


def test_what_is_no_such_sum_is_refused() -> None:
    kb = KernelBuilder("other")
    a, v = kb.axis("n", 9), kb.axis("v", 5)
    x, k = kb.input("x", (9, 5), float32), kb.input("k", (9,), int32, range=(0, 4))
    kb.store("y", float32, (5,), (v,), kb.sum("s", (v,), a, where(k[a].eq(cast(v, int32)), x[a, v], 0.0))[v] + 1.0)
    moving = normalise(kb.build())
    assert not sums_by_key(moving), "what is added depends on the place"
    with pytest.raises(OptError, match="other has none"):
        apply(moving, parse([["REWRITE", "s", {"rule": "scatter"}]]), named("avx2"))
    with pytest.raises(OptError, match="for processors"):
        apply(joint(), parse([["REWRITE", "table", {"rule": "scatter"}]]), named("sm_90a"))
    with pytest.raises(OptError, match="already"):
        apply(joint(), parse([["REWRITE", "table", {"rule": "scatter"}], ["REWRITE", "table", {"rule": "scatter"}]]), named("avx2"))


def test_start_schedules_scatter_into_many_places_and_compare_few() -> None:
    assert any(o.fields.get("rule") == "scatter" for o in starts(equalised(n=20000), named("avx2"))[0])
    assert not any(o.fields.get("rule") == "scatter" for o in starts(zscores(n=20000, g=4), named("avx2"))[0])

"""Hit or miss, field by field."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tilewright.cache import Cache, Key
from tilewright.cache.keys import FIELDS


def test_an_empty_cache(store: Cache, key: Key) -> None:
    found = store.explain(key)
    assert (
        not found.hit
        and found.lines()[0] == "miss: the cache is empty; this is looked up:"
        and not any("differs" in line or "None" in line for line in found.lines())
    )


def test_a_hit_says_where_from(store: Cache, make_row, key: Key) -> None:
    store.record(make_row())
    found = store.explain(key)
    assert found.hit and found.row == store.best(key)
    assert all(f.same for f in found.fields) and [f.name for f in found.fields] == list(FIELDS)
    assert found.lines()[0].startswith("hit: matmul 100 µs (median of 30), measured ") and str(store.path) in found.lines()[0]


@pytest.mark.parametrize("field", FIELDS)
def test_a_miss_names_the_field_that_differs(store: Cache, make_row, key: Key, field: str) -> None:
    store.record([make_row(), make_row(kernel="unrelated", target="t", compiler="c", threads=9)])
    wanted = replace(key, **{field: 7 if field == "threads" else "wanted"})
    found = store.explain(wanted)
    assert not found.hit and found.total == 2
    assert [f.name for f in found.fields if not f.same] == [field]
    text = "\n".join(found.lines())
    assert 'miss: no row has this key; the closest of 2 rows is matmul {"k":64,"m":64,"n":64} float32' in text
    assert f"differs  {getattr(wanted, field)}  (cached: {getattr(key, field)})" in text


def test_a_key_without_a_usable_row(store: Cache, make_row, key: Key) -> None:
    store.record(
        [
            make_row(verified=False),
            make_row(outcome="crash", t_med=None, t_min=None, verified=False),
            make_row(outcome="wrong", verified=True),
        ]
    )
    found = store.explain(key)
    assert found.outcomes == {"ok unverified": 1, "crash unverified": 1, "wrong": 1}
    assert found.lines()[0] == "miss: the key is there, but no row of it is verified and ok (1 crash unverified, 1 ok unverified, 1 wrong)"


def test_the_kernel_weighs_most(store: Cache, make_row, key: Key) -> None:
    """A row of this kernel on another machine says more than one of another kernel on this machine."""
    store.record([make_row(target="x", threads=1, compiler="y"), *(make_row(kernel="other") for _ in range(5))])
    found = store.explain(replace(key, policy=""))
    assert next(f for f in found.fields if f.name == "kernel").same

"""The same behaviour on a PostgreSQL server. Runs where TILEWRIGHT_TEST_POSTGRESQL names a database that may be emptied, e.g.
postgresql+psycopg://user@/scratch?host=/run/postgresql, and a driver for it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache, CacheWarning, Key
from tilewright.ir.errors import CacheError

URL = os.environ.get("TILEWRIGHT_TEST_POSTGRESQL", "")
pytestmark = pytest.mark.skipif(not URL, reason="TILEWRIGHT_TEST_POSTGRESQL names no database")


@pytest.fixture
def server() -> Iterator[Cache]:
    import sqlalchemy as sa
    from tilewright.cache import schema

    engine = sa.create_engine(URL)
    schema.metadata.drop_all(engine)
    engine.dispose()
    with cache.open(URL) as c:
        yield c


def test_record_look_up_filter_clear(server: Cache, make_row, key: Key) -> None:
    rows = [
        make_row(),
        make_row(t_med=1e-3),
        make_row(t_med=1e-9, verified=False),
        make_row(outcome="crash", t_med=None, t_min=None, verified=False),
    ]
    rows = [replace(r, opts=f'[["UPCAST","a1",{2 + i}]]') for i, r in enumerate(rows)]
    assert server.best(key) is None
    assert server.record(rows) == 4 and server.record(rows) == 0
    assert server.best(key) == rows[0]
    assert sorted(server.rows(), key=lambda r: r.digest) == sorted(rows, key=lambda r: r.digest)
    assert len(server.rows(verified=False, threads=2)) == 2
    assert server.rows(name="x' OR 1=1 --") == []
    assert server.explain(key).hit and not server.explain(replace(key, threads=9)).hit
    assert server.clear(outcome="crash") == 1 and len(server.rows()) == 3


def test_nearest_and_bundles(server: Cache, make_row, key: Key, tmp_path: Path) -> None:
    server.record([make_row(kernel="a", t_med=2e-4), make_row(kernel="a"), make_row(kernel="b", shape={"m": 1, "n": 1, "k": 1})])
    assert [r.kernel for r in server.nearest(key, "le", "lp", shape={"m": 64, "n": 64, "k": 64})] == ["a", "b"]
    assert server.export(tmp_path / "b.jsonl") == 3
    assert server.import_(tmp_path / "b.jsonl") == (0, 3)
    with cache.open(tmp_path / "local.db") as local:
        assert local.import_(tmp_path / "b.jsonl") == (3, 0)
        assert [r.marked(imported=False) for r in local.rows()] == server.rows() and all(r.imported for r in local.rows())


def test_processes_make_the_tables_together(server: Cache) -> None:
    code = """
import sys
from tilewright import cache
c = cache.open(sys.argv[1])
for i in range(10):
    c.record([cache.Row(kernel="k", target="t", threads=2, compiler="c", t_med=1.0, run_id=f"{sys.argv[2]}-{i}-{j}") for j in range(5)])
"""
    workers = [subprocess.Popen([sys.executable, "-c", code, URL, n], stderr=subprocess.PIPE, text=True) for n in "abc"]
    for w in workers:
        _, errors = w.communicate(timeout=60)
        assert w.returncode == 0, errors
    assert len(server.rows()) == 150


def test_a_newer_schema_is_left_alone_and_said(server: Cache, make_row, key: Key, recwarn: pytest.WarningsRecorder) -> None:
    import sqlalchemy as sa

    server.record(make_row())
    engine = sa.create_engine(URL)
    with engine.begin() as c:
        c.execute(sa.text("UPDATE tilewright_meta SET value = '99'"))
    engine.dispose()
    with cache.open(URL) as other, pytest.raises(CacheError, match="the cache has schema 99, this Tilewright reads"):
        other.best(key)
    assert not [w for w in recwarn if w.category is CacheWarning]

"""The steps from earlier schemas lead to the tables that a new cache has."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from tilewright import cache
from tilewright.cache import schema, version
from tilewright.cache.migrations import upgrade


def shape(path: Path) -> list[tuple[str, str, list[tuple[object, ...]]]]:
    """Tables and indices of a file, with their columns, but for Alembic's own."""
    with closing(sqlite3.connect(path)) as c:
        found = c.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE '%alembic%' ORDER BY name").fetchall()
        info = {"table": "table_info", "index": "index_info"}
        return [(kind, name, c.execute(f"PRAGMA {info[kind]}({name})").fetchall()) for kind, name in found]


def test_the_steps_make_what_a_new_file_has(path: Path, tmp_path: Path, make_row) -> None:
    with cache.open(path) as store:
        store.record(make_row())
    engine = sa.create_engine(f"sqlite:///{tmp_path}/stepped.db")
    with engine.begin() as c:
        upgrade(c, None, version.SCHEMA)
        assert schema.version_of(c) == version.SCHEMA
    engine.dispose()
    assert shape(tmp_path / "stepped.db") == shape(path) and len(shape(path)) >= 6

"""Tables of the cache (SQLAlchemy core) and the schema number; `migrations` has the way from earlier ones. Imported only
when something is written, or read from a server: importing SQLAlchemy costs a quarter of a second."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from ..files.kinds import APPLICATION
from ..ir.errors import CacheError
from .queries import DELETED
from .rows import COLUMNS, TYPES
from .version import SCHEMA, SERVER_SCHEMA

_SQL: dict[type, type[sa.types.TypeEngine[Any]]] = {str: sa.Text, int: sa.BigInteger, float: sa.Double, bool: sa.Boolean}

metadata = sa.MetaData()

meta = sa.Table(
    "tilewright_meta", metadata, sa.Column("name", sa.String(64), primary_key=True), sa.Column("value", sa.Text, nullable=False)
)
"""`schema`: the schema number, as text."""

measurement = sa.Table(
    "measurement",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("key_hash", sa.String(64), nullable=False),
    *(sa.Column(c, _SQL[TYPES[c][0]], nullable=TYPES[c][1], quote=True) for c in COLUMNS),
    sa.Index("measurement_best", "key_hash", "verified", "outcome", "t_med"),
    sa.Index("measurement_extents", "loose_extents", "verified", "outcome"),
    sa.Index("measurement_epilogue", "loose_epilogue", "verified", "outcome"),
)
"""One row a measurement; `digest` identifies its content, `key_hash` its strict key."""

tally = sa.Table(
    "tilewright_tally",
    metadata,
    sa.Column("key_hash", sa.String(64), primary_key=True),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("usable", sa.BigInteger, nullable=False),
)
"""How many rows a key has, and how many of them are verified and ok: what a damaged index would hide (files only)."""


def count(connection: sa.Connection) -> None:
    """Make the tally anew, where rows were deleted, and say so (`queries.DELETED`)."""
    connection.execute(meta.delete().where(meta.c.name == DELETED))
    connection.execute(meta.insert().values(name=DELETED, value=secrets.token_hex(8)))
    connection.execute(tally.delete())
    usable = sa.func.sum(sa.case((sa.and_(measurement.c.verified, measurement.c.outcome == "ok"), 1), else_=0))
    counted = sa.select(measurement.c.key_hash, sa.func.count(), usable).group_by(measurement.c.key_hash)
    connection.execute(tally.insert().from_select(["key_hash", "total", "usable"], counted))


def remove(connection: sa.Connection, digests: Sequence[str], chunk: int) -> int:
    """Delete rows by digest, so many a statement; returns how many were there."""
    gone = 0
    for i in range(0, len(digests), chunk):
        gone += connection.execute(measurement.delete().where(measurement.c.digest.in_(digests[i : i + chunk]))).rowcount
    if connection.dialect.name == "sqlite":
        count(connection)
    return gone


def prepare(connection: sa.Connection) -> None:
    """Create the tables or migrate them to the present schema; the caller's transaction must exclude other writers.

    Raises CacheError when a migration is missing. A newer schema is the caller's to notice first (`version_of`)."""
    found = version_of(connection)
    server = connection.dialect.name != "sqlite"
    wanted = SERVER_SCHEMA if server else SCHEMA
    if found is None and not server:  # without importing Alembic, which takes longer than the rest
        metadata.create_all(connection)
        connection.execute(meta.insert().values(name="schema", value=str(SCHEMA)))
    elif found is None or found < wanted:
        from .migrations import upgrade

        upgrade(connection, found, wanted)
    if not server and connection.exec_driver_sql("PRAGMA application_id").scalar() != APPLICATION:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION}")  # the header says whose file it is


def version_of(connection: sa.Connection) -> int | None:
    """The schema number in the database, None when our tables are not there."""
    if not sa.inspect(connection).has_table(meta.name):
        return None
    value = connection.execute(sa.select(meta.c.value).where(meta.c.name == "schema")).scalar()
    if value is None or not value.isdecimal():
        raise CacheError("the table tilewright_meta holds no schema number: this is not a Tilewright cache, choose another with --cache")
    return int(value)

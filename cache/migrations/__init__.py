"""Changes of the tables, by Alembic: one file a step in `versions`, for SQLite files and PostgreSQL alike.

A step's revision is the schema number that it leads to. `tilewright_meta` says which number a database has: look-ups
read it there without SQLAlchemy. Alembic keeps the same in a table of its own, which is set before each migration.
Alembic is imported only where tables are changed, or made on a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...ir.errors import CacheError

if TYPE_CHECKING:
    import sqlalchemy as sa

SCRIPTS = Path(__file__).resolve().parent
"""Alembic's folder of scripts."""


def upgrade(connection: sa.Connection, found: int | None, wanted: int) -> None:
    """Turn tables of schema `found` (None: there are none) into those of schema `wanted`, inside the transaction of
    `connection`, which must exclude other writers. Raises CacheError where there is no way."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.stamp(config, "base" if found is None else str(found), purge=True)
        command.upgrade(config, str(wanted))
    except CommandError:
        raise CacheError(
            f"this cache has schema {found} and Tilewright knows no way from it to {wanted}: export it with the version that wrote it"
        ) from None

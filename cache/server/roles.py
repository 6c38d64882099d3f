"""Who may do what on a server: an SQL script that makes a role for readers and one for writers, and may be run again.

Readers read. Writers also add rows. Only the owner of the tables deletes, and migrates. Neither role can log in by itself:
`GRANT tilewright_writer TO ci` gives it to somebody who can."""

from __future__ import annotations

import re

from ...ir.errors import UsageError

READER, WRITER = "tilewright_reader", "tilewright_writer"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

_ROLE = """DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{0}') THEN CREATE ROLE {0} NOLOGIN; END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- somebody else was first
END $$;
"""
_GRANTS = """DO $$ BEGIN
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO {reader}, {writer}', current_database());
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO {reader}, {writer}', current_schema());
END $$;
REVOKE ALL ON tilewright_meta, measurement, tilewright_tally, tilewright_deleted, tilewright_change, alembic_version FROM {reader}, {writer}, PUBLIC;
GRANT SELECT ON tilewright_meta, measurement, tilewright_deleted, tilewright_change TO {reader}, {writer};
GRANT INSERT ON measurement TO {writer};
GRANT USAGE ON tilewright_change TO {writer};
"""


def script(reader: str = READER, writer: str = WRITER) -> str:
    """The SQL for roles of these names, to be run by whoever owns the tables and may make roles. Raises UsageError for a name
    that would have to be quoted."""
    for name in (reader, writer):
        if _NAME.fullmatch(name) is None or name == "public":
            raise UsageError(f"a role is called by small letters, digits and _, such as {READER}; not {name!r}")
    if reader == writer:
        raise UsageError("readers and writers are two roles: give them two names")
    return _ROLE.format(reader) + _ROLE.format(writer) + _GRANTS.format(reader=reader, writer=writer)

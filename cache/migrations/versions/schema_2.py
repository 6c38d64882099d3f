"""Schema 2: how many rows each key has, so that rows which a damaged index hides are missed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "2", "1"


def upgrade() -> None:
    """Make the tally, and count."""
    op.create_table(
        "tilewright_tally",
        sa.Column("key_hash", sa.String(64), primary_key=True),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("usable", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO tilewright_tally SELECT key_hash, COUNT(*), SUM(CASE WHEN verified AND outcome = 'ok' THEN 1 ELSE 0 END) "
        "FROM measurement GROUP BY key_hash"
    )
    op.execute("UPDATE tilewright_meta SET value = '2' WHERE name = 'schema'")

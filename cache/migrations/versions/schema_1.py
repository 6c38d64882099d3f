"""Schema 1: one row a measurement, and the number of the schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1", None

TEXTS_BEFORE = ("compiler", "policy", "loose_extents", "loose_epilogue", "name", "shape", "dtype", "device", "opts", "opts_display")
TEXTS_AFTER = ("source_sha", "tool_version", "provenance", "run_id", "when")


def upgrade() -> None:
    """Make the tables."""
    op.create_table("tilewright_meta", sa.Column("name", sa.String(64), primary_key=True), sa.Column("value", sa.Text, nullable=False))
    op.execute("INSERT INTO tilewright_meta (name, value) VALUES ('schema', '1')")
    op.create_table(
        "measurement",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("key_hash", sa.String(64), nullable=False),
        *(_text(c) for c in ("kernel", "target")),
        sa.Column("threads", sa.BigInteger, nullable=False, quote=True),
        *(_text(c) for c in (*TEXTS_BEFORE, "outcome")),
        *(sa.Column(c, sa.Double, nullable=True, quote=True) for c in ("t_min", "t_med")),
        sa.Column("n", sa.BigInteger, nullable=False, quote=True),
        sa.Column("seed_s", sa.Double, nullable=True, quote=True),
        *(sa.Column(c, sa.BigInteger, nullable=False, quote=True) for c in ("flops", "bytes")),
        sa.Column("roofline_s", sa.Double, nullable=True, quote=True),
        *(_text(c) for c in ("strategy", "effects")),
        sa.Column("verified", sa.Boolean, nullable=False, quote=True),
        *(_text(c) for c in TEXTS_AFTER),
    )
    op.create_index("measurement_best", "measurement", ["key_hash", "verified", "outcome", "t_med"])
    for which in ("extents", "epilogue"):
        op.create_index(f"measurement_{which}", "measurement", [f"loose_{which}", "verified", "outcome"])


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, quote=True)

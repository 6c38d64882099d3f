"""The SELECTs of the cache as plain SQL with named parameters: the same text runs under stdlib sqlite3 and SQLAlchemy."""

from __future__ import annotations

from typing import Any

from ..ir.errors import CacheError
from .objective_types import FRONTS, OBJECTIVES, TIME
from .rows import COLUMNS, TREE, TYPES

FIELDS = ", ".join(f'"{c}"' for c in (*COLUMNS, "digest"))
"""A row, and the digest that was stored with it."""
_USABLE = "verified AND outcome = 'ok' AND t_med IS NOT NULL"

ANSWERS = f"""SELECT {FIELDS} FROM measurement
WHERE key_hash = :key AND opts IN (SELECT opts FROM measurement WHERE key_hash = :key AND {_USABLE})"""
"""Everything that was measured of the schedules of a key that have a usable row; `choice` puts them in order."""

TALLIES = """SELECT
    (SELECT COUNT(*) FROM measurement WHERE key_hash = :key) AS found,
    (SELECT COUNT(*) FROM measurement WHERE key_hash = :key AND verified AND outcome = 'ok') AS found_usable,
    (SELECT total FROM tilewright_tally WHERE key_hash = :key) AS total,
    (SELECT usable FROM tilewright_tally WHERE key_hash = :key) AS usable"""
"""How many rows of a key the index finds, and how many were written."""

NEAREST = f"""SELECT {FIELDS} FROM (
    SELECT {FIELDS}, ROW_NUMBER() OVER (PARTITION BY key_hash ORDER BY t_med, t_min, digest) AS place FROM measurement
    WHERE {{column}} = :loose AND target = :target AND compiler = :compiler AND policy = :policy AND {_USABLE}
) AS ranked WHERE place = 1 ORDER BY digest"""
"""The fastest usable row of every key that shares a loose key, target, compiler and policy."""

TREES = f"""SELECT {FIELDS} FROM measurement
WHERE loose_extents = :loose AND target = :target AND compiler = :compiler AND policy = :policy AND threads = :threads AND {_USABLE}
AND provenance LIKE '%"{TREE}":%' ORDER BY "when" DESC, digest"""
"""The rows of kernels that differ in their sizes alone which hold a tree of sizes, the newest first."""

_OBJECTIVE = " ".join(f"WHEN provenance LIKE '%\"objective\":\"{o}\"%' THEN '{o}'" for o in (*OBJECTIVES, *FRONTS) if o != TIME)
_OBJECTIVE += " WHEN provenance LIKE '%\"objective\":\"%' THEN 'another'"
KEYS = f"""SELECT kernel, target, threads, compiler, policy, objective, name, shape, dtype, outcome, verified, COUNT(*) AS times FROM (
    SELECT kernel, target, threads, compiler, policy, name, shape, dtype, outcome, verified, CASE {_OBJECTIVE} ELSE '{TIME}' END AS objective
    FROM measurement
) AS told GROUP BY kernel, target, threads, compiler, policy, objective, name, shape, dtype, outcome, verified"""
"""What there is, counted: `explain` compares it with a wanted key."""

DELETED = "deleted"
"""What the table of facts calls the last deletion: a number that is drawn anew by each."""

STATE = f"""SELECT COUNT(*) AS n, MAX(rowid) AS last, (SELECT digest FROM measurement ORDER BY rowid DESC LIMIT 1) AS newest,
    (SELECT GROUP_CONCAT(value) FROM (
        SELECT value FROM tilewright_meta WHERE name IN ('{DELETED}', 'mirror.epoch', 'mirror.change') ORDER BY name
    )) AS gone
FROM measurement"""
"""What changes with the rows of a file: what was added, the last deletion, and how far a mirror has come. A number of rows and the last
one's place do not tell a row that took a deleted one's place."""

FILTERS = (
    "name",
    "kernel",
    "shape",
    "dtype",
    "device",
    "target",
    "threads",
    "compiler",
    "policy",
    "outcome",
    "verified",
    "strategy",
    "run_id",
    "source_sha",
    "tool_version",
)
"""What `rows`, `export` and `clear` can be narrowed by."""


def where_clause(filters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A WHERE clause (may be empty) and its parameters; None stands for "any". Raises CacheError for an unknown filter."""
    for f, value in filters.items():
        if f not in FILTERS:
            raise CacheError(f"cannot filter by {f!r}; use {', '.join(FILTERS)}")
        if value is not None and type(value) is not TYPES[f][0]:
            raise CacheError(f"filter {f} must be {TYPES[f][0].__name__}, not {type(value).__name__}")
    used = {f: v for f, v in filters.items() if v is not None}
    clause = " AND ".join(f'"{f}" = :{f}' for f in used)
    return (f" WHERE {clause}" if clause else ""), used


def rows(filters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """All rows that pass, oldest first."""
    clause, used = where_clause(filters)
    return f'SELECT {FIELDS} FROM measurement{clause} ORDER BY "when", digest', used

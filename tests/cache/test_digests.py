"""The digest of a record is the digest of its row."""

from __future__ import annotations

import pytest
from tilewright.cache.rows import COLUMNS, digest_of, digest_of_record
from tilewright.cache.server.records import checked


@pytest.mark.parametrize(
    "fields",
    [{}, {"name": 'é "\\\n\u2028\U0001f600'}, {"t_med": 1e-300, "t_min": 5e22, "n": 2**62}, {"seed_s": None, "verified": False}],
    ids=["plain", "text", "numbers", "none"],
)
def test_both_ways_agree(make_row, fields: dict[str, object]) -> None:
    row = make_row(**fields)
    assert digest_of_record([getattr(row, c) for c in COLUMNS]) == row.digest


def test_what_is_no_scalar_has_a_digest_too(make_row) -> None:
    values = {**make_row().to_dict(), "name": b"bytes", "n": [1]}
    assert digest_of_record([*values.values()]) == digest_of(values)


def test_only_what_was_written_is_taken_and_under_its_own_key(make_row) -> None:
    rows = [make_row(name=n, t_med=t, provenance=p) for n, t, p in (("a", 1e-3, {}), ("a", 2e-3, {"objective": "energy"}), ("b", 3e-3, {}))]
    records = [(*r.to_dict().values(), r.digest) for r in rows]
    forged = [(*records[0][:-1], records[1][-1]), ("x", *records[2][1:]), (None, *records[0][1:])]
    good, bad = checked([*records, *forged], {})
    assert good == [(*r.to_dict().values(), r.digest, r.key.hash) for r in rows] and bad == 3

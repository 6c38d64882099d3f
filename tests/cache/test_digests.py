"""The digest of a record is the digest of its row."""

from __future__ import annotations

import pytest
from tilewright.cache.rows import COLUMNS, digest_of, digest_of_record


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

"""The digest of a record is the digest of its row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tilewright.cache.rows import COLUMNS, digest_of, digest_of_record, line_of
from tilewright.cache.server.team_cache import RecordDigests, checked
from tilewright.ir.errors import CacheError


@pytest.mark.parametrize(
    "fields",
    [{}, {"name": 'é "\\\n\u2028\U0001f600'}, {"t_med": 1e-300, "t_min": 5e22, "n": 2**62}, {"start_s": None, "verified": False}],
    ids=["plain", "text", "numbers", "none"],
)
def test_both_ways_agree(make_row, fields: dict[str, object]) -> None:
    row = make_row(**fields)
    assert digest_of_record([*row.to_dict().values()]) == row.digest


def test_what_is_no_scalar_has_a_digest_too(make_row) -> None:
    values = {**make_row().stored(), "name": b"bytes", "n": [1]}
    assert digest_of_record([*values.values()]) == digest_of(values)


def test_only_what_was_written_is_taken_and_under_its_own_key(make_row) -> None:
    rows = [make_row(name=n, t_med=t, provenance=p) for n, t, p in (("a", 1e-3, {}), ("a", 2e-3, {"objective": "energy"}), ("b", 3e-3, {}))]
    records = [(*r.to_dict().values(), r.digest) for r in rows]
    forged = [(*records[0][:-1], records[1][-1]), ("x", *records[2][1:]), (None, *records[0][1:])]
    good, bad = checked([*records, *forged], {})
    assert good == [(*r.to_dict().values(), r.digest, r.key.hash) for r in rows] and bad == 3


def test_one_record_after_another_has_its_own_digest(make_row) -> None:
    changes: list[dict[str, object]] = [
        {}, {}, {"name": "softmax"}, {"name": "softmax", "t_med": None}, {"name": 'é"', "t_med": -0.0}, {"t_med": 0.0}, {"verified": False, "n": 0}, {"n": 1},
    ]  # fmt: skip
    records = [(*make_row(**c).to_dict().values(), "digest") for c in changes]
    strange = [(*r[:i], value, *r[i + 1 :]) for r, i, value in zip(records, (0, 2, 7, 13), (b"x", "2", None, True))]
    digests = RecordDigests()
    mixed = [x for pair in zip(records, [*strange, *strange]) for x in pair]
    assert [digests.of(r) for r in mixed] == [digest_of(dict(zip(COLUMNS, r))) for r in mixed]


class Seconds(float):
    """As a plug-in's device may give them."""


def test_a_line_has_numbers_of_any_class_and_none_that_json_does_not_have(make_row) -> None:
    row = make_row(t_med=0.5)
    assert line_of(replace(row, t_med=Seconds(0.5))) == line_of(row)
    with pytest.raises(CacheError, match="inf, which JSON does not have"):
        line_of(make_row(t_med=float("inf")))

"""Rows as a server sends them, checked."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from ..keys import FIELDS as KEY_FIELDS
from ..keys import Key
from ..rows import COLUMNS, digest_of_record, objective_in

Record = tuple[Any, ...]
_key = itemgetter(*map(COLUMNS.index, KEY_FIELDS))
_PROVENANCE = COLUMNS.index("provenance")


def checked(records: Iterable[Record], hashes: dict[Record, str]) -> tuple[list[Record], int]:
    """Of records of `queries.FIELDS`: each that is what was written, with the hash of its key at the end, and how many are not. Whether
    the fields make sense is asked when they are read, as of any file. `hashes`: those of keys that were met before."""
    out, bad = [], 0
    for record in records:
        if digest_of_record(record) != record[-1]:
            bad += 1
            continue
        key = (*_key(record), objective_in(record[_PROVENANCE]))
        known = hashes.get(key)
        if known is None:
            known = hashes[key] = Key(*key).hash  # a row under another key's hash would answer for it
        out.append((*record, known))
    return out, bad

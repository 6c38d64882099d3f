"""Rows as a server sends them, checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii
from operator import itemgetter
from typing import Any

from ..keys import FIELDS as KEY_FIELDS
from ..keys import Key
from ..rows import COLUMNS, TYPES, digest_of_record, objective_in
from ..strict import AS_JSON

Record = tuple[Any, ...]
_key = itemgetter(*map(COLUMNS.index, KEY_FIELDS))
_PROVENANCE = COLUMNS.index("provenance")
_SORTED = sorted(COLUMNS)
_PLACES = [(at, COLUMNS.index(c), f'{"," if at else "{"}"{c}":', TYPES[c][0] is str) for at, c in enumerate(_SORTED)]
_TEXTS = [(at, i, name) for at, i, name, text in _PLACES if text]
_OTHERS = [(at, i, name) for at, i, name, text in _PLACES if not text]


class RecordDigests:
    """`digest_of_record` of one record after another. Rows of one search come together and have most texts in common, so a text is
    encoded only where it differs from the one before."""

    def __init__(self) -> None:
        self._pieces = [""] * len(_SORTED) + ["}"]
        self._last: list[str | None] = [None] * len(_SORTED)

    def of(self, record: Record) -> str:
        """The digest of a record's fields, in the order of `COLUMNS`; what follows them is ignored."""
        pieces, last = self._pieces, self._last
        try:
            for at, i, name in _TEXTS:
                text = record[i]
                if text != last[at]:
                    pieces[at], last[at] = name + encode_basestring_ascii(text), text
            for at, i, name in _OTHERS:
                value = record[i]
                pieces[at] = name + AS_JSON[type(value)](value)
        except (KeyError, TypeError):  # a value of another type than its column's
            return digest_of_record(record)
        return hashlib.sha256("".join(pieces).encode()).hexdigest()


def checked(records: Iterable[Record], hashes: dict[Record, str]) -> tuple[list[Record], int]:
    """Of records of `queries.FIELDS`: each that is what was written, with the hash of its key at the end, and how many are not. Whether
    the fields make sense is asked when they are read, as of any file. `hashes`: those of keys that were met before."""
    out, bad, digests = [], 0, RecordDigests()
    for record in records:
        if digests.of(record) != record[-1]:
            bad += 1
            continue
        key = (*_key(record), objective_in(record[_PROVENANCE]))
        known = hashes.get(key)
        if known is None:
            known = hashes[key] = Key(*key).hash  # a row under another key's hash would answer for it
        out.append((*record, known))
    return out, bad
